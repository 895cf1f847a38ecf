"""``gradlint run``."""

from __future__ import annotations

import sys
from typing import Any

import click

from gradlint.commands.options import FILE, configuration_options, refuse_both, rule_options
from gradlint.output import OUTPUT_FORMATS


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-m", "as_module", is_flag=True, help="Run a module, as python -m does.")
@rule_options
@configuration_options
@click.option(
    "--on-finding",
    type=click.Choice(["warn", "raise", "collect"]),
    default="warn",
    show_default=True,
    help="Report a finding at once in one line, end the program with an exception, or report at the end only.",
)
@click.option(
    "--exact",
    type=click.FloatRange(0, 1),
    default=0,
    metavar="FRACTION",
    help="Of the steps: compare saved tensors bit by bit.",
)
@click.option(
    "--rank-timeout",
    type=click.FloatRange(0, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long rank 0 of a distributed training waits at the end for what the other ranks saw.",
)
@click.option(
    "--include-libraries",
    is_flag=True,
    help="Report what is found in code of installed packages, too; else it is counted.",
)
@click.option("--output-format", type=click.Choice(OUTPUT_FORMATS), help="How to report. [default: text]")
@click.option("--output-file", type=FILE, metavar="FILE", help="Report there, not on standard error.")
@click.option("--html", type=FILE, metavar="FILE", help="Write the report as a page, too.")
@click.argument("target", metavar="SCRIPT|MODULE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]…")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    target: str,
    arguments: tuple[str, ...],
    as_module: bool,
    select: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a training program unchanged, as python would, and report what the guard sees in it.

    Options of gradlint stand before SCRIPT or MODULE, the program's own after it.  The exit code is the program's.
    Configuration and suppression comments hold as they do for gradlint check.
    """
    refuse_both(ctx, "--config", "--isolated")
    from gradlint.runtime.running import Program, Watching
    from gradlint.runtime.running import run as run_watched

    sys.exit(run_watched(Program(target, arguments, as_module), Watching(select=select or None, **options)))
