"""``gradlint check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlint.cache import VARIABLE, location
from gradlint.commands.options import (
    FILE,
    Named,
    cache_dir_option,
    configuration_options,
    list_option,
    refuse_both,
    rule_options,
    together,
)
from gradlint.exits import CLEAN, COULD_NOT, FINDINGS, INTERRUPTED
from gradlint.keys import MOST_SECONDS
from gradlint.output import OUTPUT_FORMATS
from gradlint.refusal import Refusal

if TYPE_CHECKING:
    from gradlint.configuration import Configuration
    from gradlint.results import Results
    from gradlint.session import Request

_file_options = together(
    list_option("--exclude", "PATTERNS", "Skip these paths instead of the usual ones."),
    list_option("--extend-exclude", "PATTERNS", "Skip these paths too."),
    click.option("--force-exclude", is_flag=True, help="Skip excluded files even when they are named."),
    click.option("--stdin-filename", type=FILE, metavar="NAME", help="What - is called."),
)

_fix_options = together(
    click.option("--fix", is_flag=True, help="Fix what can be fixed safely, and report the rest."),
    click.option(
        "--unsafe-fixes/--no-unsafe-fixes",
        default=None,
        help="With --fix or --diff: apply unsafe fixes too, which may change more than the mistake.",
    ),
    click.option("--diff", is_flag=True, help="Show what --fix would change instead; nothing is written."),
    list_option("--fixable", "RULES", "Fix findings of these rules only."),
    list_option("--unfixable", "RULES", "Report findings of these rules without fixing them."),
)

_old_code_options = together(
    click.option(
        "--baseline",
        type=FILE,
        metavar="FILE",
        help="Do not report the findings in this file; say which of them are gone.",
    ),
    click.option("--no-baseline", is_flag=True, help="Report what is in the baseline of the configuration, too."),
    click.option("--write-baseline", is_flag=True, help="Write all findings to the baseline instead."),
    click.option("--add-noqa", is_flag=True, help="Add a noqa comment to every line with findings instead."),
)

_output_options = together(
    click.option("--output-format", type=click.Choice(OUTPUT_FORMATS), help="How to report. [default: text]"),
    click.option(
        "--output-file",
        "-o",
        type=FILE,
        metavar="FILE",
        help="Write the report there, not to standard output.",
    ),
    click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of showing them."),
    click.option("--show-files", is_flag=True, help="List the files that would be checked, and check nothing."),
    click.option(
        "--show-settings", is_flag=True, help="Show the settings that hold for PATH, and where each comes from."
    ),
    click.option("--watch", "-w", is_flag=True, help="Check again whenever something has changed."),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 in spite of findings."),
    click.option("--quiet", "-q", is_flag=True, help="Show only the findings, without a summary."),
    click.option("--verbose", "-v", is_flag=True, help="Show what is checked, and what could not be followed."),
)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…", type=Named(readable=False))
@rule_options
@_file_options
@_fix_options
@_old_code_options
@configuration_options
@_output_options
@click.option("--jobs", "-j", type=click.IntRange(1), metavar="N", help="Processes to use. [default: one for each CPU]")
@click.option(
    "--timeout",
    type=click.FloatRange(0, MOST_SECONDS, min_open=True),
    metavar="SECONDS",
    help="End after so long, and report what is known by then. [default: no limit]",
)
@click.option("--no-cache", is_flag=True, help="Neither use results of earlier runs nor keep this one's.")
@cache_dir_option
@click.pass_context
def check(ctx: click.Context, /, **options: Any) -> int:
    """Check Python files and notebooks (- is standard input; without a PATH, the current folder).

    Exits with 0 when nothing was found, 1 when something was, 2 when something could not be done; with 130 where it is
    interrupted, after it has reported what it knows.
    """
    _refuse(ctx, options)
    if options["show_files"] or options["show_settings"]:
        from gradlint.inspection import files, settings

        show = files if options["show_files"] else settings
        return show(_request(options, _configuration(options)))
    if options["watch"]:
        from gradlint.watching import watch

        return watch(lambda: _request(options, _configuration(options)), lambda: _results(options, None))
    from gradlint.session import run

    configuration = _configuration(options)
    results = _results(options, configuration)
    outcome = run(_request(options, configuration), results)
    report = outcome.report
    if report.is_interrupted:
        return INTERRUPTED
    if report.troubles:
        return COULD_NOT
    code = FINDINGS if (report.findings or report.differs) and not options["exit_zero"] else CLEAN
    if outcome.settled:
        results.tell(ctx.obj, outcome.out, outcome.err, code)
    return code


def _refuse(ctx: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that make no sense together."""
    refuse_both(ctx, "--config", "--isolated")
    refuse_both(ctx, "--baseline", "--no-baseline")
    refuse_both(ctx, "--write-baseline", "--no-baseline")
    modes = ("--show-files", "--show-settings", "--watch", "--add-noqa", "--write-baseline", "--fix", "--diff")
    given = [name for name in modes if options[name.lstrip("-").replace("-", "_")]]
    if len(given) > 1 and given != ["--fix", "--diff"]:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other", ctx)
    if options["unsafe_fixes"] and not (options["fix"] or options["diff"]):
        raise click.UsageError("--unsafe-fixes goes with --fix or --diff", ctx)
    if options["watch"] and "-" in options["paths"]:
        raise Refusal("gradlint: standard input cannot be watched")


def _configuration(options: dict[str, Any]) -> Configuration:
    """The configuration files, with what the options of ``check`` say over them."""
    from gradlint.configuration import Configuration
    from gradlint.settings import overriding

    baseline = options["baseline"]
    return Configuration(
        options["config"],
        isolated=options["isolated"],
        override=overriding(
            exclude=options["exclude"],
            extend_exclude=options["extend_exclude"],
            output_format=options["output_format"],
            fixable=options["fixable"],
            unfixable=options["unfixable"],
            unsafe_fixes=options["unsafe_fixes"],
            baseline=None if baseline is None else baseline.absolute(),
            jobs=options["jobs"],
            timeout=options["timeout"],
            cache_dir=None if options["cache_dir"] is None else Path(options["cache_dir"]).absolute(),
        ),
    )


def _request(options: dict[str, Any], configuration: Configuration) -> Request:
    from gradlint.selection import Choice
    from gradlint.session import Fixing, Request

    return Request(
        [Path(path) for path in options["paths"] or ["."]],
        configuration,
        Choice("gradlint: --", options["select"] or None, options["ignore"], options["extend_select"]),
        force_exclude=options["force_exclude"],
        stdin_filename=options["stdin_filename"],
        fixing=Fixing(fix=options["fix"], diff=options["diff"]),
        no_baseline=options["no_baseline"],
        write_baseline=options["write_baseline"],
        add_noqa=options["add_noqa"],
        statistics=options["statistics"],
        output_file=options["output_file"],
        quiet=options["quiet"],
        verbose=options["verbose"],
    )


def _results(options: dict[str, Any], configuration: Configuration | None) -> Results:
    """What is known of the request that the options of ``check`` make; nothing where every run is to be a new one."""
    import os

    from gradlint.results import Results

    place = None
    if configuration is not None and not options["no_cache"] and "-" not in options["paths"]:
        configured = None if os.environ.get(VARIABLE) else configuration.of_folder(Path.cwd()).cache_place
        place = location(options["cache_dir"], configured=configured)
    deciding = (
        *("paths", "select", "ignore", "extend_select", "exclude", "extend_exclude", "isolated", "force_exclude"),
        *("fixable", "unfixable", "no_baseline"),
    )
    request = (*(options[name] for name in deciding), str(options["config"] or ""), str(options["baseline"] or ""))
    return Results(place, request)
