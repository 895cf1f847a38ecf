"""Settings: what configuration files say about the files below a folder."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradlint.finding import Severity
from gradlint.ignorefiles import patterns, verdict
from gradlint.keys import BY_NAME, key_named, shown
from gradlint.reading import read_bytes
from gradlint.refusal import Refusal
from gradlint.selection import Choice

DEFAULT_INCLUDE = tuple(BY_NAME["include"].default)
DEFAULT_EXCLUDE = tuple(BY_NAME["exclude"].default)
COMMAND_LINE = "the command line"

Read = Callable[[Path], bytes]

#: a pyproject.toml without it says nothing about gradlint, and nothing that stands in its way
_MAY_CONCERN = re.compile(r"""gradlint|^[ \t]*["']?tool["']?[ \t]*=""", re.MULTILINE)
#: parsing takes a time that grows with the cube of the number of parts
_LONG_KEY = re.compile(r"""(?:(?:[\w-]++|"(?:[^"\\\n]|\\.){0,64}+"|'[^'\n]{0,64}+')[ \t]*+\.[ \t]*+){99}""")


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns in the manner of ``.gitignore``, and what they are relative to."""

    lines: tuple[str, ...] = ()
    base: Path | None = None  #: None for the folder of the settings, or what is checked where no file made them


@dataclass(frozen=True, slots=True)
class FileIgnores:
    """Rules that are left out in the files that match a pattern."""

    pattern: str
    selectors: tuple[str, ...]
    base: Path | None = None  #: the folder that the pattern is relative to

    def holds_for(self, path: Path) -> bool:
        """Whether they are left out in ``path``; a pattern after ``!`` means all other files."""
        spec = patterns((self.pattern.removeprefix("!"),))
        found = verdict(spec, path, self.base or path.parent, is_folder=False)
        return bool(found) != self.pattern.startswith("!")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the files below one folder."""

    origin: Path | None = None  #: the file it was read from; others may be extended by it
    choices: tuple[Choice, ...] = ()  #: what files say about rules, each over those before it
    per_file_ignores: tuple[FileIgnores, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)  #: by selector
    include: Patterns = Patterns(DEFAULT_INCLUDE)
    exclude: Patterns = Patterns(DEFAULT_EXCLUDE)
    extend_exclude: tuple[Patterns, ...] = ()
    src: tuple[Path, ...] = ()
    fixable: tuple[str, ...] = ("ALL",)
    unfixable: tuple[str, ...] = ()
    unsafe_fixes: bool = False
    output_format: str | None = None
    baseline: Path | None = None
    cache_dir: Path | None = None
    cache_trusted: Path | None = None  #: the folder above it below which no link is followed; None where all are
    jobs: int | None = None
    timeout: float | None = None
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: by key, where its value comes from

    @property
    def root(self) -> Path | None:
        """The folder of the file they were read from."""
        return self.origin.parent if self.origin else None

    @property
    def cache_place(self) -> tuple[str, str] | None:
        """The folder of the cache, and the one below which no link is followed, as far as there is one."""
        return None if self.cache_dir is None else (str(self.cache_dir), str(self.cache_trusted or ""))

    @property
    def where(self) -> str:
        """What stands before a key when its value is wrong."""
        return self.choices[-1].origin if self.choices else ""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one file says."""

    path: Path
    where: str
    values: Mapping[str, Any]

    def absolute(self, text: str) -> Path:
        return Path(os.path.normpath(self.path.parent / Path(text).expanduser()))

    def trusted(self, text: str) -> Path | None:
        """The folder below which what a path leads over may belong to a project; None if nothing does."""
        path, folder = self.absolute(text), self.path.parent
        if Path(text).expanduser().is_absolute() and not path.is_relative_to(folder):
            return None
        return Path(os.path.commonpath([path, folder]))


def read_settings(path: Path, read: Read = read_bytes) -> Settings | None:
    """The settings in a configuration file; ``None`` for a ``pyproject.toml`` that says nothing about gradlint.

    Args:
        path: the file.
        read: how the bytes of a file are had.

    Raises:
        Refusal: naming the file and the key.
    """
    layer = _layer(path, read)
    if layer is None:
        return None
    layers = [layer]
    while "extend" in layers[0].values:
        below = layers[0]
        extended = below.absolute(below.values["extend"])
        if extended in (other.path for other in layers):
            circle = [str(other.path) for other in reversed(layers)]
            circle = [*circle[circle.index(str(extended)) :], str(extended)]
            raise Refusal(f"{below.where}: extend: goes round in a circle: {' -> '.join(circle)}")
        try:
            found = _layer(extended, read)
        except Refusal as refusal:
            raise Refusal(f"{below.where}: extend: {refusal}") from refusal
        if found is None:
            raise Refusal(f"{below.where}: extend: {extended} has no [tool.gradlint]")
        layers.insert(0, found)
    return _joined(layers)


def _layer(path: Path, read: Read) -> _Layer | None:
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
        values = {name: key_named(name, where).kind.read(value, f"{where}: {name}") for name, value in table.items()}
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Refusal(f"{path}: not valid TOML: {error}") from error
    except RecursionError:
        raise Refusal(f"{path}: not read: nested too deeply") from None
    return _Layer(path.absolute(), where, values)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(f"{where} must be a table, not {shown(value)}")
    return value


def _joined(layers: Sequence[_Layer]) -> Settings:
    """What files say together, each over those before it."""
    single: dict[str, Any] = {}
    origins: dict[str, tuple[str, ...]] = {}
    ignores: list[FileIgnores] = []
    severity: dict[str, Severity] = {}
    excluded: list[Patterns] = []
    for layer in layers:
        base = layer.path.parent
        for name, value in layer.values.items():
            adds = name in ("ignore", "extend-select", "extend-exclude", "per-file-ignores", "severity")
            origins[name] = (*(origins.get(name, ()) if adds else ()), str(layer.path))
            if name in ("include", "exclude"):
                single[name] = Patterns(value, base)
            elif name in ("baseline", "cache-dir"):
                single[name.replace("-", "_")] = layer.absolute(value)
                if name == "cache-dir":
                    single["cache_trusted"] = layer.trusted(value)
            elif name == "src":
                single[name] = tuple(layer.absolute(folder) for folder in value)
            elif name in ("fixable", "unfixable", "unsafe-fixes", "output-format", "jobs", "timeout"):
                single[name.replace("-", "_")] = value
        by_pattern = layer.values.get("per-file-ignores", {})
        ignores += [FileIgnores(pattern, selectors, base) for pattern, selectors in by_pattern.items()]
        severity.update(layer.values.get("severity", {}))
        if layer.values.get("extend-exclude"):
            excluded.append(Patterns(layer.values["extend-exclude"], base))
    return Settings(
        origin=layers[-1].path,
        choices=tuple(_choice(layer) for layer in layers),
        per_file_ignores=tuple(ignores),
        severity=severity,
        extend_exclude=tuple(excluded),
        origins=origins,
        **single,
    )


def _choice(layer: _Layer) -> Choice:
    values = layer.values
    return Choice(f"{layer.where}: ", values.get("select"), values.get("ignore", ()), values.get("extend-select", ()))


def overriding(
    *, exclude: Sequence[str] = (), extend_exclude: Sequence[str] = (), **values: Any
) -> Callable[[Settings], Settings]:
    """How the command line changes settings; what it does not say stays.

    Args:
        exclude: patterns instead of those of the files.
        extend_exclude: patterns besides them.
        **values: other attributes of :class:`Settings`; None and empty tuples say nothing.
    """
    said = {name: value for name, value in values.items() if value is not None and value != ()}

    def override(settings: Settings) -> Settings:
        changed: dict[str, Any] = dict(said)
        if exclude:
            changed["exclude"] = Patterns(tuple(exclude))
        if extend_exclude:
            changed["extend_exclude"] = (*settings.extend_exclude, Patterns(tuple(extend_exclude)))
        names = [name.replace("_", "-") for name in changed]
        origins = {**settings.origins, **dict.fromkeys(names, (COMMAND_LINE,))}
        if extend_exclude:
            origins["extend-exclude"] = (*settings.origins.get("extend-exclude", ()), COMMAND_LINE)
        return replace(settings, **changed, origins=origins)

    return override
