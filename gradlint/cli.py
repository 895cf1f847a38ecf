"""The command line: ``gradlint PATH…``, ``gradlint rule CODE``, ``gradlint run SCRIPT`` and the others."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradlint import __version__
from gradlint.exits import CLEAN, COULD_NOT, INTERRUPTED
from gradlint.interruption import TimeIsUpError
from gradlint.output.visible import visible
from gradlint.refusal import Refusal
from gradlint.streams import complain, give_up, is_of_output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = ("check", "clean", "config", "rule", "run", "server")
COMPLETE = "_GRADLINT_COMPLETE"  #: the environment variable by which shells ask for completions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 clean, 1 findings, 2 something could not be done.

    Args:
        arguments: those of the process when not given.

    Raises:
        SystemExit: from ``gradlint run``, as the program that was run ends.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    runs_program = given[:1] == ["run"]
    for stream in () if runs_program else (sys.stdout, sys.stderr):  # the streams of a program are its own
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        if COMPLETE in os.environ:
            from click.shell_completion import shell_complete

            return shell_complete(cli, {}, "gradlint", COMPLETE, os.environ[COMPLETE])
        with cli.make_context("gradlint", given, obj=tuple(given)) as context:
            code = int(cli.invoke(context) or CLEAN)
            if not sys.stdout.closed:  # the language server closes it when its editor has ended it
                sys.stdout.flush()
            return code
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        return _could_not(f"{where.command_path if where else 'gradlint'}: {error.format_message()}")
    except Refusal as refusal:
        return _could_not(str(refusal))
    except TimeIsUpError:
        return _could_not("gradlint: the time was up before anything was known")
    except KeyboardInterrupt:
        if runs_program:  # the program was interrupted, and ends as with python
            raise
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        give_up()
        return COULD_NOT
    except OSError as error:
        if not is_of_output(error):
            return _fault(error) if _stands_somewhere() else _could_not("gradlint: the current folder is gone")
        complain(error)
        return COULD_NOT
    except Exception as error:  # noqa: BLE001 -- exit code 1 is for findings: a defect of gradlint must not look like one
        return _fault(error)


def _fault(error: Exception) -> int:
    sys.excepthook(type(error), error, error.__traceback__)
    return _could_not(f"gradlint: internal error: {type(error).__name__}: {error}")


def _stands_somewhere() -> bool:
    """Whether there still is a current folder."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _could_not(why: str) -> int:
    click.echo(visible(why), err=True)
    return COULD_NOT


class _Commands(click.Group):
    """Imports a command when it is used, and takes what is none for the arguments of ``check``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- as click calls it
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- likewise
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"gradlint.commands.{cmd_name}"), cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        completing = ctx.resilient_parsing and not args  # the commands are what can stand there
        if first not in COMMANDS and first not in ("--help", "-h", "--version") and not completing:
            args = ["check", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        items = super().shell_complete(ctx, incomplete)
        check = self.get_command(ctx, "check")
        if incomplete.startswith("-") and check is not None:
            items += check.shell_complete(click.Context(check, ctx, "check", resilient_parsing=True), incomplete)
        return items or [CompletionItem(incomplete, type="file")]


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="gradlint PATH… is short for gradlint check PATH…; see gradlint check --help for its options.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Find PyTorch autograd pitfalls in Python files and notebooks, without running or importing them."""
