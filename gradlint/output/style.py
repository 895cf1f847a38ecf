"""Colour, where it is wanted, and paths as people name them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from gradlint.finding import Location, Severity
from gradlint.output.visible import visible

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.STYLE: "cyan"}


@dataclass(frozen=True, slots=True)
class Style:
    """How text is dressed for one stream."""

    colour: bool = False

    def __call__(self, text: str, **dress: Any) -> str:
        """``text``, dressed as :func:`click.style` does where colour is wanted."""
        return click.style(text, **dress) if self.colour else text


def wants_colour(stream: IO[Any], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour what goes to ``stream``: on a terminal, unless ``NO_COLOR`` or
    ``FORCE_COLOR`` say otherwise.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return environment["FORCE_COLOR"] != "0"
    return stream.isatty() and environment.get("TERM") != "dumb"


def shown_path(filename: str, cwd: Path) -> str:
    """``filename`` relative to ``cwd`` where it lies below it, as it may be shown.

    What begins like a command to that which reads the log of a workflow does not begin a line.
    """
    name = visible(relative_name(filename, cwd))
    return f"./{name}" if name.lstrip().startswith("::") else name


def relative_name(filename: str, cwd: Path) -> str:
    """``filename`` relative to ``cwd`` where it lies below it."""
    path = Path(filename)
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else filename


def shown_place(location: Location, cwd: Path) -> str:
    """``path:row:column``, with the cell of a notebook."""
    cell = "" if location.cell is None else f"cell {location.cell}:"
    return f"{shown_path(location.filename, cwd)}:{cell}{location.row}:{location.column}"
