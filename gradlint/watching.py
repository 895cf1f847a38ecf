"""``--watch``: check again whenever something has changed that the outcome depends on."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from gradlint.consulted import Consulted
from gradlint.exits import CLEAN
from gradlint.refusal import Refusal
from gradlint.results import Results, consult_program
from gradlint.session import Request, run

PAUSE = 0.5  #: seconds between two looks


def watch(request: Callable[[], Request], results: Callable[[], Results]) -> int:
    """Check, wait until something has changed, check again, until the user interrupts it; return the exit code.

    A run consults the disk, and remembers what it was told: files, folders, configuration, what is installed.  It is
    made again when the disk would answer otherwise, so that new files and edits of a configuration count as well.

    Args:
        request: makes a fresh request, which reads the configuration anew.
        results: makes the store for its results.
    """
    try:
        while True:
            consulted = _once(request, results)
            while consulted.holds():
                time.sleep(PAUSE)
    except KeyboardInterrupt:
        return CLEAN


def _once(request: Callable[[], Request], results: Callable[[], Results]) -> Consulted:
    click.clear()
    click.echo(f"[{time.strftime('%H:%M:%S')}] gradlint is watching: press Ctrl+C to end", err=True)
    asked = request()
    try:
        run(asked, results())
    except Refusal as refusal:  # a configuration in the middle of an edit
        click.echo(str(refusal), err=True)
    disk = asked.configuration.disk
    consult_program(disk, ())
    return Consulted(disk.consulted.stored())
