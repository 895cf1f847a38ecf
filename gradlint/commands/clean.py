"""``gradlint clean``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gradlint.cache import VARIABLE, Cache, location
from gradlint.commands.options import FILE, cache_dir_option
from gradlint.exits import CLEAN
from gradlint.refusal import Refusal


@click.command()
@click.argument("path", required=False, default=".", type=FILE)
@cache_dir_option
def clean(path: Path, cache_dir: str | None) -> int:
    """Remove the results that are kept for the project at PATH (the current folder without one)."""
    if not path.is_dir():
        raise Refusal(f"gradlint clean: {path}: no such folder")
    configured = None
    if cache_dir is None and not os.environ.get(VARIABLE):
        from gradlint.configuration import Configuration

        configured = Configuration().of_folder(path.absolute()).cache_place
    folder, trusted = location(cache_dir, str(path), configured)
    try:
        removed = Cache(folder, trusted).clean()
    except OSError as error:
        raise Refusal(f"gradlint clean: {error.filename or folder}: {error.strerror}") from error
    click.echo(f"Removed {folder}." if removed else f"There is no cache at {folder}.")
    return CLEAN
