"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gradlint.cache import VARIABLE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


def _split(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(item.strip() for value in values for item in value.split(",") if item.strip())


def _completed(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell offers for a list of rules; what stands before the last comma stays."""
    from gradlint.commands.completion import selectors

    return selectors(incomplete)


class Named(click.Path):
    """A path that has a name: an empty one, as of a variable that is not set, would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, as :class:`click.Path` makes it."""
        if value == "":
            self.fail("its name is empty", param, ctx)
        return super().convert(value, param, ctx)


FILE = Named(path_type=Path)


def list_option(name: str, metavar: str, text: str) -> Callable[[F], F]:
    """An option that can be given several times, or several values with commas between."""
    complete = _completed if metavar == "RULES" else None
    return click.option(name, multiple=True, callback=_split, metavar=metavar, help=text, shell_complete=complete)


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options as one decorator, in the order of the help text."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


rule_options = together(
    list_option(
        "--select", "RULES", "Check only these rules: codes, prefixes such as GL2, names, effect:raises, or ALL."
    ),
    list_option("--ignore", "RULES", "Leave these rules out."),
    list_option("--extend-select", "RULES", "Check these rules too."),
)

configuration_options = together(
    click.option("--config", type=FILE, metavar="FILE", help="Use only this configuration file."),
    click.option("--isolated", is_flag=True, help="Use no configuration file."),
)

cache_dir_option = click.option(
    "--cache-dir",
    type=Named(),
    metavar="FOLDER",
    help=f"Where results are kept. [default: ${VARIABLE}, or .gradlint_cache at the root of the project]",
)


def refuse_both(ctx: click.Context, first: str, second: str) -> None:
    """Refuse two options together.

    Raises:
        UsageError: both are given.
    """
    if all(ctx.params[name.lstrip("-").replace("-", "_")] for name in (first, second)):
        raise click.UsageError(f"{first} and {second} exclude each other", ctx)
