"""``gradlint rule``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gradlint.exits import CLEAN

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _completed(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from gradlint.commands.completion import rule_names

    return rule_names(incomplete)


@click.command()
@click.argument("name", required=False, metavar="[CODE|NAME]", shell_complete=_completed)
@click.option("--all", "everything", is_flag=True, help="List every rule.")
@click.option("--output-format", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.pass_context
def rule(ctx: click.Context, name: str | None, everything: bool, output_format: str) -> int:
    """Print the manual page of a rule, or list them all."""
    from gradlint.manual import find, listing, single
    from gradlint.rule import all_rules

    if everything == bool(name):
        raise click.UsageError("name a rule, or use --all", ctx)
    rules = all_rules()
    text = single(find(name, rules), output_format) if name else listing(rules, output_format)
    click.echo(text, nl=False)
    return CLEAN
