"""``gradlint config``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gradlint.exits import CLEAN
from gradlint.keys import KEYS, Key, key_named, schema

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _completed(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from gradlint.commands.completion import keys

    return keys(incomplete)


@click.command()
@click.argument("key", required=False, shell_complete=_completed)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "schema"]),
    default="text",
    show_default=True,
    help="schema is the JSON schema of gradlint.toml.",
)
@click.pass_context
def config(ctx: click.Context, key: str | None, output_format: str) -> int:
    """Explain a KEY of the configuration, or list them all.

    A key stands in gradlint.toml, or below [tool.gradlint] in pyproject.toml.  gradlint check --show-settings shows
    the values that hold.
    """
    if output_format == "schema" and key is not None:
        raise click.UsageError("the schema is that of all keys", ctx)
    chosen = KEYS if key is None else (key_named(key, "gradlint config"),)
    if output_format == "schema":
        click.echo(json.dumps(schema(), indent=2))
    elif output_format == "json":
        described = [_described(each) for each in chosen]
        click.echo(json.dumps(described if key is None else described[0], indent=2))
    elif key is None:
        width = max(len(each.name) for each in chosen)
        click.echo("\n".join(f"{each.name:{width}}  {each.text.split('. ')[0].rstrip('.')}." for each in chosen))
    else:
        click.echo(page(chosen[0]))
    return CLEAN


def _described(key: Key) -> dict[str, object]:
    return {
        "key": key.name,
        "type": key.kind.words,
        "default": key.default,
        "otherwise": key.otherwise or None,
        "text": key.text,
        "example": key.example,
    }


def page(key: Key) -> str:
    """What there is to know of a key."""
    default = key.otherwise or json.dumps(key.default)
    wrapped = click.wrap_text(key.text, 100)
    example = "\n".join(f"    {line}" for line in key.example.splitlines())
    return f"{key.name}\n\n{wrapped}\n\nType: {key.kind.words}\nDefault: {default}\n\nExample:\n\n{example}"
