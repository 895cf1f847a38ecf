"""The keys of the configuration: what each is called, takes and does.

This is the only list of them.  What is read (:mod:`gradlint.settings`), what ``gradlint config`` explains and the JSON
schema that editors use are all made of it.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, TypeVar

from gradlint.finding import Effect, Severity
from gradlint.ignorefiles import MOST_PATTERNS
from gradlint.output import OUTPUT_FORMATS
from gradlint.refusal import Refusal

SELECTOR = r"^(ALL|[A-Za-z]{1,8}[0-9]{0,3}|[A-Za-z0-9]+(-[A-Za-z0-9]+)*|effect:(EFFECTS))$".replace(
    "EFFECTS", "|".join(effect.value for effect in Effect)
)
MOST_SECONDS = 10_000_000  #: which clocks can be set to
_SELECTOR_SCHEMA = {"type": "string", "pattern": SELECTOR}


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a key takes."""

    words: str  #: for people
    read: Callable[[Any, str], Any]  #: the value, checked; told is where it stands
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration."""

    name: str
    kind: Kind
    default: Any  #: as it would be written; None where nothing is set
    text: str
    example: str  #: as it is written below ``[tool.gradlint]``
    otherwise: str = ""  #: what holds when it is not set, where that is no value

    @property
    def attribute(self) -> str:
        """What it is called in :class:`~gradlint.settings.Settings`."""
        return self.name.replace("-", "_")


def shown(value: Any) -> str:
    """A value as it was given, but for its inside where it is long or deep."""
    shortening = reprlib.Repr()
    shortening.maxstring = shortening.maxother = 100
    return shortening.repr(value)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Refusal(f"{where}: must be a list of strings, not {shown(value)}")
    return tuple(value)


def _selectors_by_pattern(value: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise Refusal(f"{where}: must be a table of lists by pattern, not {shown(value)}")
    bounded = _bounded(value, where)
    return {pattern: _strings(codes, f"{where}: {shown(pattern)}") for pattern, codes in bounded.items()}


def _patterns(value: Any, where: str) -> tuple[str, ...]:
    return _bounded(_strings(value, where), where)


_P = TypeVar("_P", bound=Sized)


def _bounded(patterns: _P, where: str) -> _P:
    if len(patterns) > MOST_PATTERNS:
        raise Refusal(f"{where}: more than {MOST_PATTERNS:,} patterns")
    return patterns


def _severities(value: Any, where: str) -> dict[str, Severity]:
    if not isinstance(value, dict):
        raise Refusal(f"{where}: must be a table of severities by rule, not {shown(value)}")
    read = _one_of(*(severity.value for severity in Severity))
    return {selector: Severity(read(severity, f"{where}: {shown(selector)}")) for selector, severity in value.items()}


def _one_of(*choices: str) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if value not in choices:
            raise Refusal(f"{where}: must be one of {', '.join(choices)}, not {shown(value)}")
        return str(value)

    return read


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Refusal(f"{where}: must be true or false, not {shown(value)}")
    return value


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Refusal(f"{where}: must be a number from 1, not {shown(value)}")
    return value


def _seconds(value: Any, where: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= MOST_SECONDS:
        raise Refusal(f"{where}: must be a number of seconds above 0, not {shown(value)}")
    return float(value)


def _path(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise Refusal(f"{where}: must be a path, not {shown(value)}")
    return value


_LIST = {"type": "array", "items": {"type": "string"}}
SELECTORS = Kind("list of rules", _strings, {"type": "array", "items": _SELECTOR_SCHEMA})
PATTERNS = Kind("list of patterns, as in .gitignore", _patterns, _LIST)
PATHS = Kind("list of paths", _strings, _LIST)
PATH = Kind("path", _path, {"type": "string", "minLength": 1})
TRUTH = Kind("true or false", _truth, {"type": "boolean"})
COUNT = Kind("number from 1", _count, {"type": "integer", "minimum": 1})
SECONDS = Kind("number of seconds", _seconds, {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_SECONDS})
FORMAT = Kind(
    f"one of {', '.join(OUTPUT_FORMATS)}", _one_of(*OUTPUT_FORMATS), {"type": "string", "enum": list(OUTPUT_FORMATS)}
)
BY_PATTERN = Kind(
    "table of lists of rules, by pattern",
    _selectors_by_pattern,
    {"type": "object", "additionalProperties": SELECTORS.schema},
)
SEVERITIES = Kind(
    "table of error, warning or style, by rule",
    _severities,
    {
        "type": "object",
        "propertyNames": {"pattern": SELECTOR},
        "additionalProperties": {"type": "string", "enum": [severity.value for severity in Severity]},
    },
)

_RULES = (
    "Rules are named by their code (GL201), the beginning of codes (GL2), their name (missing-zero-grad), what the "
    "mistake does (effect:wrong-result, effect:raises, effect:wastes, effect:style), or ALL."
)
_RELATIVE = "Relative to the folder of the file it is written in."

KEYS = (
    Key(
        "extend",
        PATH,
        None,
        "Another configuration file, whose settings hold where this one says nothing. Its select and ignore are "
        "applied before those of this file, its extend-exclude, per-file-ignores and severity are added to them. "
        f"{_RELATIVE}  A beginning ~ is the home folder.",
        'extend = "../gradlint.toml"',
        "no other file",
    ),
    Key(
        "select",
        SELECTORS,
        None,
        f"The rules to check, instead of the default ones. {_RULES}",
        'select = ["GL2", "effect:raises"]',
        "the rules that are neither style nor opt-in",
    ),
    Key(
        "ignore",
        SELECTORS,
        [],
        "Rules to leave out. Of two selectors the more specific one wins; between equals, ignore does.",
        'ignore = ["GL110"]',
    ),
    Key(
        "extend-select",
        SELECTORS,
        [],
        "Rules to check besides the selected or default ones.",
        'extend-select = ["data-read"]',
    ),
    Key(
        "per-file-ignores",
        BY_PATTERN,
        {},
        "Rules to leave out in the files that match a pattern; a pattern after ! means all other files.",
        '[tool.gradlint.per-file-ignores]\n"tests/" = ["GL1"]',
    ),
    Key(
        "severity",
        SEVERITIES,
        {},
        "The severity that findings of a rule are reported with, instead of the rule's own. It decides neither which "
        "rules are selected nor the exit code.",
        '[tool.gradlint.severity]\nGL205 = "error"\n"effect:wastes" = "style"',
    ),
    Key(
        "include",
        PATTERNS,
        ["*.py", "*.ipynb"],
        "Which of the Python files and notebooks below a folder are checked. A file that is named always is.",
        'include = ["src/**/*.py"]',
    ),
    Key(
        "exclude",
        PATTERNS,
        [
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
        ],
        "Files and folders to skip, instead of the usual ones.",
        'exclude = ["third_party"]',
    ),
    Key(
        "extend-exclude",
        PATTERNS,
        [],
        "Files and folders to skip besides those of exclude.",
        'extend-exclude = ["*_pb2.py"]',
    ),
    Key(
        "src",
        PATHS,
        [],
        "Folders in which imports are looked for, besides the folders that are checked and those around each file. "
        f"{_RELATIVE}",
        'src = ["python", "lib/shared"]',
    ),
    Key(
        "fixable",
        SELECTORS,
        ["ALL"],
        "The rules whose findings --fix and --diff may fix.",
        'fixable = ["GL4", "numpy-on-grad"]',
    ),
    Key(
        "unfixable",
        SELECTORS,
        [],
        "Rules whose findings are reported and never fixed.",
        'unfixable = ["missing-zero-grad"]',
    ),
    Key(
        "unsafe-fixes",
        TRUTH,
        False,
        "Whether --fix and --diff apply unsafe fixes too, as with --unsafe-fixes.",
        "unsafe-fixes = true",
    ),
    Key(
        "output-format",
        FORMAT,
        None,
        "How findings are reported.",
        'output-format = "concise"',
        "text",
    ),
    Key(
        "baseline",
        PATH,
        None,
        f"A file of known findings, which are not reported, as with --baseline. {_RELATIVE}",
        'baseline = "gradlint-baseline.json"',
        "no baseline",
    ),
    Key(
        "cache-dir",
        PATH,
        None,
        f"Where results are kept. {_RELATIVE}  $GRADLINT_CACHE_DIR and --cache-dir win over it.",
        'cache-dir = "~/.cache/gradlint"',
        ".gradlint_cache at the root of the project",
    ),
    Key(
        "jobs",
        COUNT,
        None,
        "How many processes to use.",
        "jobs = 4",
        "one for each CPU",
    ),
    Key(
        "timeout",
        SECONDS,
        None,
        "After how many seconds a run ends. What is known by then is reported as incomplete, with exit code 2; nothing "
        "incomplete is kept.",
        "timeout = 300",
        "no limit",
    ),
)
BY_NAME = {key.name: key for key in KEYS}


def key_named(name: str, where: str) -> Key:
    """The key with this name.

    Raises:
        Refusal: there is none, saying so after ``where``.
    """
    if name not in BY_NAME:
        near = difflib.get_close_matches(name, BY_NAME, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f" (known: {', '.join(BY_NAME)})"
        raise Refusal(f"{where}: unknown key {shown(name)}{hint}")
    return BY_NAME[name]


def schema() -> dict[str, Any]:
    """The JSON schema of ``gradlint.toml``, and of ``[tool.gradlint]`` in a ``pyproject.toml``."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of gradlint",
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _schema_of(key) for key in KEYS},
    }


def _schema_of(key: Key) -> dict[str, Any]:
    described = {"description": key.text, **key.kind.schema}
    return described if key.default is None else {**described, "default": key.default}
