"""``--show-files`` and ``--show-settings``: what a run would do, shown instead of done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradlint.discovery import Discovery
from gradlint.exits import CLEAN, COULD_NOT
from gradlint.finding import Severity
from gradlint.keys import KEYS, Key
from gradlint.output.style import shown_path
from gradlint.policy import Policy
from gradlint.settings import Patterns, Settings

if TYPE_CHECKING:
    from gradlint.session import Request


def files(request: Request) -> int:
    """Print the files that would be checked, one on each line; return the exit code."""
    troubles: list[str] = []
    found = Discovery(request.configuration, troubles.append, force_exclude=request.force_exclude).files(request.paths)
    cwd = Path.cwd()
    click.echo("".join(f"{shown_path(str(path), cwd)}\n" for path in found), nl=False)
    click.echo("".join(f"gradlint: {trouble}\n" for trouble in troubles), nl=False, err=True)
    return COULD_NOT if troubles else CLEAN


def settings(request: Request) -> int:
    """Print the settings that hold for each path, as they would be written in a file, and where each comes from."""
    from gradlint.rule import all_rules

    pages = []
    for named in request.paths:
        path = Path(os.path.abspath(named))
        held = request.configuration.of_folder(path if path.is_dir() else path.parent)
        policy = Policy(held, request.choice, all_rules())
        codes = sorted(code for code in policy.selection.shown if not policy.ignores(code, path))
        lines = [f"# settings for {named}", *(_line(key, held) for key in KEYS if key.name != "extend")]
        lines += [f"# rules that are checked: {', '.join(codes) or 'none'}"]
        pages.append("\n".join(lines) + "\n")
    click.echo("\n".join(pages), nl=False)
    return CLEAN


def _line(key: Key, held: Settings) -> str:
    value = _value(key, held)
    origins = ", ".join(shown_path(origin, Path.cwd()) for origin in held.origins.get(key.name, ()))
    if value is None:
        return f"# {key.name}: {key.otherwise}"
    return f"{key.name} = {_toml(value)}  # {origins or 'default'}"


def _value(key: Key, held: Settings) -> Any:
    """The value of a key as it would be written; None where nothing says any."""
    if key.name == "select":
        chosen = [choice.select for choice in held.choices if choice.select is not None]
        return list(chosen[-1]) if chosen else None
    if key.name in ("ignore", "extend-select"):
        return [selector for choice in held.choices for selector in getattr(choice, key.attribute)]
    if key.name == "per-file-ignores":
        return {ignores.pattern: list(ignores.selectors) for ignores in held.per_file_ignores}
    return _plain(getattr(held, key.attribute))


def _plain(value: Any) -> Any:
    """A value of :class:`Settings` as TOML has it."""
    if isinstance(value, Patterns):
        return list(value.lines)
    if isinstance(value, tuple):
        return [each for item in value for each in _each(item)]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value.value if isinstance(value, Severity) else str(value) if isinstance(value, Path) else value


def _each(item: Any) -> Iterator[Any]:
    plain = _plain(item)
    if isinstance(plain, list):
        yield from plain
    else:
        yield plain


def _toml(value: Any) -> str:
    """A value in TOML, whose strings, numbers and lists are written as in JSON."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(value, ensure_ascii=False)
