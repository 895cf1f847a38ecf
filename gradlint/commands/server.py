"""``gradlint server``."""

from __future__ import annotations

from pathlib import Path

import click

from gradlint.commands.options import configuration_options, refuse_both, rule_options
from gradlint.refusal import Refusal


@click.command()
@rule_options
@configuration_options
@click.option("--stdio", is_flag=True, expose_value=False, help="What it does anyway: some editors ask for it.")
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

    refuse_both(ctx, "--config", "--isolated")
    try:
        from gradlint.server.serving import build
        from gradlint.server.transport import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise Refusal("gradlint server: pygls is missing: python -m pip install 'gradlint[server]'") from error
    choice = Choice("gradlint server: --", select or None, ignore, extend_select)
    return serve(build(lambda disk: Configuration(config, isolated=isolated, disk=disk), choice))
