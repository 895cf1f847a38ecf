"""Where the cache of a command line is, found without reading more of the configuration than that takes."""

from __future__ import annotations

import os

from gradlint.cache import VARIABLE, location
from gradlint.reading import read_bytes

TYPE_CHECKING = False  # typing alone costs a warm run more than all that is below
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradlint.cache import Place

NAMES = ("gradlint.toml", "pyproject.toml")  #: of configuration files, the one that wins first
_ONCE = frozenset({"--no-cache", "-", "--watch", "--output-file", "--add-noqa", "--write-baseline"})


def arguments_location(arguments: Sequence[str]) -> Place | None:
    """Where the cache is for a command line; None if it wants none, or nothing it prints is kept."""
    asked = config = None
    isolated = False
    for place, argument in enumerate(arguments):
        name, given, value = argument.partition("=")
        if name in _ONCE:
            return None
        if name in ("--cache-dir", "--config"):
            if not given:
                value = arguments[place + 1] if place + 1 < len(arguments) else ""
            if name == "--config":
                config = value
            else:
                asked = value
        isolated = isolated or argument == "--isolated"
    if asked or os.environ.get(VARIABLE) or isolated:
        return location(asked)
    return location(configured=configured(config))


def configured(config: str | None = None) -> Place | None:
    """Where the configuration of the current folder says that the cache is; None if it does not.

    Args:
        config: the one configuration file to use, instead of the nearest.

    Raises:
        Refusal: the configuration cannot be read.
    """
    folder = os.getcwd()
    while True:
        for path in [config] if config else [os.path.join(folder, name) for name in NAMES]:
            try:
                text = read_bytes(path)
            except OSError:
                continue
            if _may_name_one(text):
                return _read(config)
            if config or path.endswith("gradlint.toml") or b"gradlint]" in text:  # the nearest, and it names none
                return None
        parent = os.path.dirname(folder)
        if config or parent == folder:
            return None
        folder = parent


def _may_name_one(text: bytes) -> bool:
    """Whether a configuration file may name a folder, itself or in a file that it extends."""
    return b"cache-dir" in text or any(b"extend" in line and _key(line) == b"extend" for line in text.splitlines())


def _key(line: bytes) -> bytes:
    return line.partition(b"=")[0].strip().strip(b"'\"").rpartition(b".")[2].strip(b"'\"")


def _read(config: str | None) -> Place | None:
    from pathlib import Path

    from gradlint.configuration import Configuration

    return Configuration(Path(config) if config else None).of_folder(Path.cwd()).cache_place
