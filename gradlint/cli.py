"""The command line: ``gradlint PATH…``, ``gradlint rule CODE``, ``gradlint run SCRIPT``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlint import __version__
from gradlint.cache import VARIABLE, Cache, location
from gradlint.output import OUTPUT_FORMATS
from gradlint.refusal import Refusal

if TYPE_CHECKING:
    from gradlint.results import Results

CLEAN, FINDINGS, COULD_NOT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 clean, 1 findings, 2 something could not be done.

    Args:
        arguments: those of the process when not given.

    Raises:
        SystemExit: from ``gradlint run``, as the program that was run ends.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr) if given[:1] != ["run"] else ():  # the streams of a program are its own
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
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
    except KeyboardInterrupt:
        if given[:1] == ["run"]:  # the program was interrupted, and ends as with python
            raise
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COULD_NOT
    except Exception as error:  # noqa: BLE001 -- exit code 1 is for findings: a defect of gradlint must not look like one
        sys.excepthook(type(error), error, error.__traceback__)
        return _could_not(f"gradlint: internal error: {type(error).__name__}: {error}")


def _could_not(why: str) -> int:
    click.echo(why, err=True)
    return COULD_NOT


class _CheckByDefault(click.Group):
    """Takes what is no command of its own for the arguments of ``check``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first not in self.commands and first not in ("--help", "-h", "--version"):
            args = ["check", *args]
        return super().parse_args(ctx, args)


def _split(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(item.strip() for value in values for item in value.split(",") if item.strip())


def _list_option(name: str, metavar: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, multiple=True, callback=_split, metavar=metavar, help=text)


_cache_dir_option = click.option(
    "--cache-dir",
    type=click.Path(),
    metavar="FOLDER",
    help=f"Where results are kept. [default: ${VARIABLE}, or .gradlint_cache at the root of the project]",
)


@click.group(
    cls=_CheckByDefault,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="gradlint PATH… is short for gradlint check PATH…; see gradlint check --help for its options.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Find PyTorch autograd pitfalls in Python files and notebooks, without running or importing them."""


@cli.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@_list_option("--select", "RULES", "Check these rules only: codes, prefixes such as GL2, names, or ALL.")
@_list_option("--ignore", "RULES", "Leave these rules out.")
@_list_option("--extend-select", "RULES", "Check these rules too.")
@_list_option("--exclude", "PATTERNS", "Skip these paths instead of the usual ones.")
@_list_option("--extend-exclude", "PATTERNS", "Skip these paths too.")
@click.option("--fix", is_flag=True, help="Mend what can be mended safely, and tell the rest.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: mend also where more might change.")
@click.option("--diff", is_flag=True, help="Show what --fix would change instead; nothing is written.")
@click.option("--force-exclude", is_flag=True, help="Skip excluded files even when they are named.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Use this configuration file only.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option("--stdin-filename", type=click.Path(path_type=Path), metavar="NAME", help="What - is called.")
@click.option("--output-format", type=click.Choice(OUTPUT_FORMATS), help="How to tell the findings. [default: text]")
@click.option("--statistics", is_flag=True, help="Tell how often each rule was broken, instead of the findings.")
@click.option("--jobs", "-j", type=click.IntRange(1), metavar="N", help="Processes to use. [default: one for each CPU]")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 in spite of findings.")
@click.option("--no-cache", is_flag=True, help="Neither use results of earlier runs nor keep this one's.")
@_cache_dir_option
@click.option("--quiet", "-q", is_flag=True, help="Tell the findings only, without a summary.")
@click.option("--verbose", "-v", is_flag=True, help="Tell what is checked, and what could not be followed.")
@click.pass_context
def check(ctx: click.Context, /, **options: Any) -> int:
    """Check Python files and notebooks (- is standard input; without a PATH, the current folder).

    Exits with 0 when nothing was found, 1 when something was, 2 when something could not be done.
    """
    from gradlint.configuration import Configuration, overriding
    from gradlint.selection import Choice
    from gradlint.session import Fixing, run

    if options["config"] and options["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other", ctx)
    if options["unsafe_fixes"] and not (options["fix"] or options["diff"]):
        raise click.UsageError("--unsafe-fixes goes with --fix or --diff", ctx)
    configuration = Configuration(
        options["config"],
        isolated=options["isolated"],
        override=overriding(
            exclude=options["exclude"],
            extend_exclude=options["extend_exclude"],
            output_format=options["output_format"],
        ),
    )
    choice = Choice("gradlint: --", options["select"] or None, options["ignore"], options["extend_select"])
    results = _results(options)
    outcome = run(
        [Path(path) for path in options["paths"] or ["."]],
        configuration,
        choice,
        results,
        force_exclude=options["force_exclude"],
        stdin_filename=options["stdin_filename"],
        fixing=Fixing(fix=options["fix"], unsafe=options["unsafe_fixes"], diff=options["diff"]),
        jobs=options["jobs"],
        statistics=options["statistics"],
        quiet=options["quiet"],
        verbose=options["verbose"],
    )
    report = outcome.report
    if report.troubles:
        return COULD_NOT
    code = FINDINGS if (report.findings or report.differs) and not options["exit_zero"] else CLEAN
    if outcome.settled:
        results.tell(ctx.obj, outcome.out, outcome.err, code)
    return code


def _results(options: dict[str, Any]) -> Results:
    """What is known of the request that the options of ``check`` make."""
    from gradlint.results import Results

    cached = not options["no_cache"] and "-" not in options["paths"]
    deciding = ("paths", "select", "ignore", "extend_select", "exclude", "extend_exclude", "isolated", "force_exclude")
    request = (*(options[name] for name in deciding), str(options["config"] or ""))
    return Results(location(options["cache_dir"]) if cached else None, request)


@cli.command()
@_list_option("--select", "RULES", "Check these rules only: codes, prefixes such as GL2, names, or ALL.")
@_list_option("--ignore", "RULES", "Leave these rules out.")
@_list_option("--extend-select", "RULES", "Check these rules too.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Use this configuration file only.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.pass_context
def server(
    ctx: click.Context,
    /,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    extend_select: tuple[str, ...],
    config: Path | None,
    isolated: bool,
) -> int:
    """Serve an editor: speak the Language Server Protocol on standard input and output.

    What is open is checked as it stands in the editor, after each change.
    """
    from gradlint.configuration import Configuration
    from gradlint.selection import Choice

    if config and isolated:
        raise click.UsageError("--config and --isolated exclude each other", ctx)
    try:
        from gradlint.server.serving import build
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise Refusal("gradlint server: pygls is missing: python -m pip install 'gradlint[server]'") from error
    choice = Choice("gradlint server: --", select or None, ignore, extend_select)
    build(lambda disk: Configuration(config, isolated=isolated, disk=disk), choice).start_io()
    return CLEAN


@cli.command()
@click.argument("path", required=False, default=".", type=click.Path(path_type=Path))
@_cache_dir_option
def clean(path: Path, cache_dir: str | None) -> int:
    """Remove the results that are kept for the project at PATH (the current folder without one)."""
    if not path.is_dir():
        raise Refusal(f"gradlint clean: {path}: no such folder")
    folder = location(cache_dir, str(path))
    try:
        removed = Cache(folder).clean()
    except OSError as error:
        raise Refusal(f"gradlint clean: {error.filename or folder}: {error.strerror}") from error
    click.echo(f"Removed {folder}." if removed else f"There is no cache at {folder}.")
    return CLEAN


@cli.command()
@click.argument("name", required=False, metavar="[CODE|NAME]")
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


@cli.command(context_settings={"allow_interspersed_args": False})
@click.option("-m", "as_module", is_flag=True, help="Run a module, as python -m does.")
@_list_option("--select", "RULES", "Use these rules only: codes, prefixes such as GL2, names, or ALL.")
@_list_option("--ignore", "RULES", "Leave these rules out.")
@_list_option("--extend-select", "RULES", "Use these rules too.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Use this configuration file only.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option(
    "--on-finding",
    type=click.Choice(["warn", "raise", "collect"]),
    default="warn",
    show_default=True,
    help="Say it at once in one line, end the program with an exception, or tell it at the end only.",
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
@click.option("--output-format", type=click.Choice(OUTPUT_FORMATS), help="How to tell the findings. [default: text]")
@click.option(
    "--output-file", type=click.Path(path_type=Path), metavar="FILE", help="Report there, not on standard error."
)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as a page, too.")
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
    if options["config"] and options["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other", ctx)
    from gradlint.runtime.running import Program, Watching
    from gradlint.runtime.running import run as run_watched

    sys.exit(run_watched(Program(target, arguments, as_module), Watching(select=select or None, **options)))
