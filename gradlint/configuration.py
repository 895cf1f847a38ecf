"""Configuration: ``[tool.gradlint]`` of the nearest ``pyproject.toml``, or ``gradlint.toml``, which wins beside it.

Every file is checked under the configuration nearest to it, as Ruff does; the command line wins over all of them.
"""

from __future__ import annotations

import difflib
import re
import reprlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from gradlint.disk import Disk
from gradlint.ignorefiles import MOST_PATTERNS, patterns, verdict
from gradlint.output import OUTPUT_FORMATS
from gradlint.reading import read_bytes
from gradlint.refusal import Refusal
from gradlint.selection import Choice

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".gradlint_cache",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pyenv",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)

#: a pyproject.toml without it says nothing about gradlint, and nothing that stands in its way
_MAY_CONCERN = re.compile(r"""gradlint|^[ \t]*["']?tool["']?[ \t]*=""", re.MULTILINE)
#: parsing takes a time that grows with the cube of the number of parts
_LONG_KEY = re.compile(r"""(?:(?:[\w-]++|"(?:[^"\\\n]|\\.){0,64}+"|'[^'\n]{0,64}+')[ \t]*+\.[ \t]*+){99}""")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the files below one folder."""

    origin: Path | None = None  #: the file it was read from
    choice: Choice = field(default_factory=Choice)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output_format: str | None = None

    @property
    def root(self) -> Path | None:
        """The folder that patterns are relative to."""
        return self.origin.parent if self.origin else None

    def ignored_in(self, path: Path) -> Iterator[str]:
        """The selectors that ``per-file-ignores`` holds for ``path``; a pattern after ``!`` holds for all others."""
        for pattern, selectors in self.per_file_ignores.items():
            spec = patterns((pattern.removeprefix("!"),))
            if bool(verdict(spec, path, self.root or path.parent, is_folder=False)) != pattern.startswith("!"):
                yield from selectors


class Configuration:
    """Finds and reads the settings that hold for a folder, each file once.

    Args:
        path: the one file to use for everything, instead of the nearest.
        isolated: use no file at all.
        override: what the command line changes in settings, whichever file they come from.
        disk: what files are read from.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        isolated: bool = False,
        override: Callable[[Settings], Settings] = lambda settings: settings,
        disk: Disk | None = None,
    ) -> None:
        self.disk = disk or Disk()
        self._override = override
        self._folders: dict[Path, Settings] = {}
        self._fixed: Settings | None = None
        if isolated:
            self._fixed = override(Settings())
        elif path is not None:
            if self.disk.kind(path) is None:
                raise Refusal(f"{path}: no such configuration file")
            self._fixed = override(read_settings(path, self.disk.read) or Settings(path.absolute()))

    def of_folder(self, folder: Path) -> Settings:
        """The settings for the files in ``folder`` (an absolute path).

        Raises:
            Refusal: a configuration file that cannot be read or has something unknown in it.
        """
        if self._fixed is not None:
            return self._fixed
        new: list[Path] = []
        above, settings = folder, self._folders.get(folder)
        while settings is None:  # no call for each folder: they may be nested more deeply than calls
            new.append(above)
            settings = self._read_in(above)
            if settings is None:
                at_top = above.parent == above
                above = above.parent
                settings = self._override(Settings()) if at_top else self._folders.get(above)
        self._folders.update(dict.fromkeys(new, settings))
        return settings

    def _read_in(self, folder: Path) -> Settings | None:
        for name in ("gradlint.toml", "pyproject.toml"):
            path = folder / name
            settings = read_settings(path, self.disk.read) if self.disk.is_file(path) else None
            if settings is not None:
                return self._override(settings)
        return None


def read_settings(path: Path, read: Callable[[Path], bytes] = read_bytes) -> Settings | None:
    """The settings in a configuration file; ``None`` for a ``pyproject.toml`` that says nothing about gradlint.

    Raises:
        Refusal: naming the file and the key.
    """
    try:
        text = read(path).decode("utf-8")
        if path.name == "pyproject.toml" and not _MAY_CONCERN.search(text):
            return None
        if _LONG_KEY.search(text):
            raise Refusal(f"{path}: not read: a key of 100 parts or more")
        table: Any = tomllib.loads(text)
        where = str(path)
        if path.name == "pyproject.toml":
            tool = _table(table.get("tool", {}), f"{path}: [tool]")
            where += ": [tool.gradlint]"
            table = _table(tool.get("gradlint", {}), where)
            if "gradlint" not in tool:
                return None
        return _settings_from(table, path.absolute(), where)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Refusal(f"{path}: not valid TOML: {error}") from error
    except RecursionError:
        raise Refusal(f"{path}: not read: nested too deeply") from None


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(f"{where} must be a table, not {_shown(value)}")
    return value


def _settings_from(table: dict[str, Any], path: Path, where: str) -> Settings:
    readers: dict[str, Callable[[Any, str], Any]] = {
        "select": _strings,
        "ignore": _strings,
        "extend-select": _strings,
        "exclude": _patterns,
        "extend-exclude": _patterns,
        "per-file-ignores": _lists_by_pattern,
        "output-format": _output_format,
    }
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in readers:
            near = difflib.get_close_matches(key, readers, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(readers)})"
            raise Refusal(f"{where}: unknown key {_shown(key)}{hint}")
        values[key] = readers[key](value, f"{where}: {key}")
    return Settings(
        origin=path,
        choice=Choice(f"{where}: ", values.get("select"), values.get("ignore", ()), values.get("extend-select", ())),
        exclude=values.get("exclude", DEFAULT_EXCLUDE),
        extend_exclude=values.get("extend-exclude", ()),
        per_file_ignores=values.get("per-file-ignores", {}),
        output_format=values.get("output-format"),
    )


def _shown(value: Any) -> str:
    """A value as it was given, but for its inside where it is long or deep."""
    shortening = reprlib.Repr()
    shortening.maxstring = shortening.maxother = 100
    return shortening.repr(value)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refusal(f"{where}: must be a list of strings, not {_shown(value)}")
    return tuple(value)


def _patterns(value: Any, where: str) -> tuple[str, ...]:
    return _bounded(_strings(value, where), where)


_P = TypeVar("_P", bound=Sized)


def _bounded(patterns: _P, where: str) -> _P:
    if len(patterns) > MOST_PATTERNS:
        raise Refusal(f"{where}: more than {MOST_PATTERNS:,} patterns")
    return patterns


def _lists_by_pattern(value: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise Refusal(f"{where}: must be a table of lists by pattern, not {_shown(value)}")
    return {
        pattern: _strings(codes, f"{where}: {_shown(pattern)}") for pattern, codes in _bounded(value, where).items()
    }


def _output_format(value: Any, where: str) -> str:
    if value not in OUTPUT_FORMATS:
        raise Refusal(f"{where}: must be one of {', '.join(OUTPUT_FORMATS)}, not {_shown(value)}")
    return str(value)


def overriding(
    *, exclude: Sequence[str] = (), extend_exclude: Sequence[str] = (), output_format: str | None = None
) -> Callable[[Settings], Settings]:
    """How the command line changes settings; what it does not say stays."""

    def override(settings: Settings) -> Settings:
        return replace(
            settings,
            exclude=tuple(exclude) or settings.exclude,
            extend_exclude=(*settings.extend_exclude, *extend_exclude),
            output_format=output_format or settings.output_format,
        )

    return override
