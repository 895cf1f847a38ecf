"""Fuzzing: files, notebooks, configuration and messages that nobody meant; none may crash gradlint or hold it up.

    python tests/tooling/fuzz.py --seed 1             two minutes, as in .ci/run
    python tests/tooling/fuzz.py --seconds 36000      ten hours
    python tests/tooling/fuzz.py --only mutants --seed 7

Each case runs in a process of its own.  A failure is an internal error, a traceback, an exit code of no meaning, a
signal, or more than ten seconds of processor time.  What has failed is kept in a folder, with what was said of it; the
same seed makes the same cases again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesmith
from hypothesis import HealthCheck, Phase, given, seed, settings

from gradlint import cli
from gradlint.rule import all_rules
from gradlint.static.drive import analysis

TESTS = Path(__file__).resolve().parent.parent
LIMIT = 10  #: seconds of processor time for each command
CHARACTERS = 12_000  #: of a program that is mutated, about three hundred lines
PATIENCE = 600  #: seconds by the clock, for what waits instead
FLAWED = "import torch\n\nw = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())\n"
WRONG = ("internal error", "Traceback (most recent call last)", "Fatal Python error")


@dataclass(frozen=True)
class Case:
    """What gradlint is given."""

    kind: str
    files: dict[str, bytes]  #: by their names
    messages: bytes | None = None  #: what an editor sends; None where files are checked


# --- what may be wrong


def sources() -> list[str]:
    """The programs that are mutated: the cases of the fixtures, some at a time, and the example project."""
    programs = [path.read_text(encoding="utf-8") for path in sorted((TESTS / "example_project").glob("*.py"))]
    for path in sorted((TESTS / "fixtures").rglob("*.py")):
        program = ""
        for case in re.split(r"^(?=# case: )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            if program and len(program) + len(case) > CHARACTERS:
                programs.append(program)
                program = ""
            program += case
        programs.append(program)
    return programs


NOISE = [
    "\0",
    "\f",
    "\x1b",
    "\u2028",
    "\ufeff",
    "\r",
    "\t",
    "é",
    "\U0001f40d",
    "\\",
    "'''",
    '"',
    "(",
    "]",
    "#",
    ";",
    "\n",
]
WORDS = [
    "None",
    "lambda: 0",
    "yield",
    "await x",
    "*x",
    "**x",
    "...",
    "x := 1",
    "10 ** 10 ** 10",
    "'a' * 10 ** 12",
    "self",
]
WRAPPERS = [
    "if x:",
    "for x in y:",
    "while x:",
    "with x:",
    "try:",
    "def f(x):",
    "class A(x):",
    "match x:",
    "async def f():",
]


def mutated(text: str, others: list[str], chance: random.Random) -> str:
    """A program with one to eight changes to its lines, words or characters."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(lines))
        line = lines[at]
        how = chance.randrange(9)
        if how == 0:
            del lines[at : at + chance.randint(1, 5)]
        elif how == 1:
            end = at + chance.randint(1, 20)
            lines[at:at] = lines[at:end] * chance.choice([1, 2, 30])
        elif how == 2:
            other = chance.choice(others).split("\n")
            start = chance.randrange(len(other))
            lines[at:at] = other[start : start + chance.randint(1, 30)]
        elif how == 3:
            lines[at] = chance.choice(["    ", "\t", " "]) + line if chance.random() < 0.5 else line[4:]
        elif how == 4:
            end = at + chance.randint(1, 6)
            indent = line[: len(line) - len(line.lstrip())]
            lines[at:end] = [indent + chance.choice(WRAPPERS), *("    " + inner for inner in lines[at:end])]
        elif how == 5:
            lines[at] = _reworded(line, chance.choice(others), chance)
        elif how == 6:
            cut = chance.randrange(len(line) + 1)
            lines[at] = line[:cut] + chance.choice(NOISE) + line[cut:]
        elif how == 7:
            other_at = chance.randrange(len(lines))
            lines[at], lines[other_at] = lines[other_at], line
        else:
            lines[at] = _repeated(line, chance)
        lines = lines or [""]
    return "\n".join(lines)


def _reworded(line: str, other: str, chance: random.Random) -> str:
    words = line.split(" ")
    words[chance.randrange(len(words))] = chance.choice([*WORDS, *other.split()[:400]])
    return " ".join(words)


def _repeated(line: str, chance: random.Random) -> str:
    """A line of which a piece stands there again and again, as brackets and operators may."""
    start = chance.randrange(len(line) + 1)
    piece = line[start : start + chance.randint(1, 12)]
    return line[:start] + piece * chance.choice([2, 10, 100, 2000]) + line[start:]


def grammar(number: int) -> Iterator[Case]:
    """Programs that follow the grammar of Python and mean nothing."""
    found: list[str] = []

    @seed(number)
    @settings(
        max_examples=5, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(hypothesmith.from_grammar())
    def collect(text: str) -> None:
        found.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    for text in found:
        yield Case("grammar", {"case.py": f"{FLAWED}{text}\n".encode("utf-8", "replace")})


def mutants(number: int) -> Iterator[Case]:
    """Programs that train, changed."""
    chance = random.Random(number)  # noqa: S311 -- no secrets
    programs = sources()
    text = mutated(chance.choice(programs), programs, chance)
    data = text.replace("\n", chance.choice(["\n"] * 8 + ["\r\n", "\r"])).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1:
        data = damaged(data, chance)
    yield Case("mutants", {"case.py": data, "importer.py": b"from case import *\n" + FLAWED.encode()})


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes of which some are others."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(changed) + 1)
        changed[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
    return bytes(changed)


TOML = """\
[tool.gradlint]
select = ["GL2", "GL501"]
ignore = ["missing-zero-grad"]
extend-select = ["ALL"]
exclude = ["*.txt", "**/a*", "!b"]
extend-exclude = ["x[a-z]?"]
output-format = "concise"
[tool.gradlint.per-file-ignores]
"tests/*" = ["GL5"]
"!case.py" = ["GL1"]
"""


def toml(number: int) -> Iterator[Case]:
    """Configuration, changed."""
    chance = random.Random(number)  # noqa: S311
    text = mutated(TOML, [TOML, *sources()[:3]], chance)
    if chance.random() < 0.5:
        text = text.replace("tool.gradlint", "tool")
    name = chance.choice(["pyproject.toml", "gradlint.toml", ".gitignore"])
    if name == "gradlint.toml":
        text = text.replace("[tool.gradlint]", "").replace("tool.gradlint.", "")
    data = text.encode("utf-8", "surrogatepass")
    yield Case("toml", {name: damaged(data, chance) if chance.random() < 0.2 else data, "case.py": FLAWED.encode()})


ODD: list[Any] = [
    None,
    7,
    -1,
    1e400,
    "",
    "code",
    [],
    {},
    [[]],
    {"a": None},
    True,
    ["x = 1\n", 7],
    "\ud800",
    "%%time\nx",
    "!ls",
]


def notebooks(number: int) -> Iterator[Case]:
    """Notebooks, changed as JSON or as text."""
    chance = random.Random(number)  # noqa: S311
    programs = sources()
    cells: list[object] = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "source": mutated(chance.choice(programs), programs, chance),
        }
        for _ in range(chance.randint(1, 4))
    ]
    book: object = {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    for _ in range(chance.randrange(4)):
        book = _replaced(book, chance)
    text = json.dumps(book)
    if chance.random() < 0.3:
        text = mutated(text, [text], chance)
    yield Case("notebooks", {"case.ipynb": text.encode("utf-8", "surrogatepass")})


def _replaced(value: object, chance: random.Random) -> object:
    """A value of JSON, with some part of it replaced by something odd."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        return {**value, key: _replaced(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        return [*value[:at], _replaced(value[at], chance), *value[at + 1 :]]
    return chance.choice(ODD)


def messages(number: int) -> Iterator[Case]:
    """What an editor says, changed."""
    chance = random.Random(number)  # noqa: S311
    document = {"uri": "file:///tmp/case.py", "languageId": "python", "version": 1, "text": FLAWED}
    where = {"start": {"line": 3, "character": 8}, "end": {"line": 3, "character": 9}}
    place = {"textDocument": {"uri": document["uri"]}, "position": where["start"]}
    talk: list[object] = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
        {"id": 2, "method": "textDocument/hover", "params": place},
        {
            "id": 3,
            "method": "textDocument/codeAction",
            "params": {**place, "range": where, "context": {"diagnostics": []}},
        },
        {"method": "$/cancelRequest", "params": {"id": 3}},
        {"method": "textDocument/didClose", "params": {"textDocument": {"uri": document["uri"]}}},
        {"id": 4, "method": "shutdown"},
        {"method": "exit"},
    ]
    sent = b""
    for message in talk:
        said: object = {"jsonrpc": "2.0", **message} if isinstance(message, dict) else message
        for _ in range(chance.choice([0, 0, 0, 1, 2])):
            said = _replaced(said, chance)
        body = json.dumps(said).encode("utf-8", "surrogatepass")
        body = damaged(body, chance) if chance.random() < 0.05 else body
        head = b"Content-Length: %d\r\n\r\n" % len(body)
        sent += (damaged(head, chance) if chance.random() < 0.05 else head) + body
    yield Case("messages", {}, sent)


KINDS: dict[str, Callable[[int], Iterator[Case]]] = {
    maker.__name__: maker for maker in (grammar, mutants, toml, notebooks, messages)
}

# --- what may happen


def verdict(case: Case, limit: int = LIMIT) -> tuple[str, str]:
    """What is wrong with how gradlint took a case, empty if nothing is; and what it said."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, data in case.files.items():
            (folder / name).write_bytes(data)
        said = folder / ".said"
        child = os.fork()
        if child == 0:
            _take(case, folder, said, limit)
        _, status = os.waitpid(child, 0)
        told = said.read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        return f"more than {limit} s", told
    if code < 0:
        return f"ended by {signal.Signals(-code).name}", told
    wrong = next((words for words in WRONG if words in told), "")
    return wrong or ("" if code in (0, 1, 2) else f"exit code {code}"), told


def _take(case: Case, folder: Path, said: Path, limit: int) -> None:
    """Let gradlint take a case, in a process that ends with it."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(PATIENCE)
        with said.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            os.dup2(stream.fileno(), 2)
            with contextlib.redirect_stderr(stream), contextlib.chdir(folder):
                code = _served(case.messages, limit) if case.messages is not None else _checked(limit)
    finally:
        os._exit(code)


def _checked(limit: int) -> int:
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        return max(
            _command(["check", "--no-cache", "--jobs", "1", "--verbose", *options, "."], limit)
            for options in (["--select", "ALL"], ["--diff", "--unsafe-fixes", "--output-format", "github"])
        )


def _served(sent: bytes, limit: int) -> int:
    sys.stdin = io.TextIOWrapper(io.BytesIO(sent))
    sys.stdout = io.TextIOWrapper(io.BytesIO())
    return _command(["server", "--isolated"], limit)


def _command(arguments: list[str], limit: int) -> int:
    """Run one, for so many seconds of processor time at most."""
    end = math.ceil(time.process_time()) + limit
    resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
    return cli.main(arguments)


# --- the run


def main(arguments: list[str] | None = None) -> int:
    """Fuzz for a while; 1 if anything failed."""
    parser = argparse.ArgumentParser(description="Look for what crashes gradlint or holds it up.")
    parser.add_argument("--seconds", type=float, default=120, help="how long (default: 120)")
    parser.add_argument("--seed", type=int, default=None, help="where to begin (default: with the time)")
    parser.add_argument("--only", choices=KINDS, default=None, help="one kind of cases (default: all in turn)")
    parser.add_argument("--keep", type=Path, default=None, help="where failures are kept (default: a new folder)")
    given_ = parser.parse_args(arguments)
    first = int(time.time()) if given_.seed is None else given_.seed
    all_rules()
    assert analysis  # loaded once, for all cases
    print(f"seed {first}", flush=True)
    counts: Counter[str] = Counter()
    failures = 0
    until = time.monotonic() + given_.seconds
    number = first
    while time.monotonic() < until:
        for kind in [given_.only] if given_.only else KINDS:
            for case in KINDS[kind](number):
                counts[kind] += 1
                wrong, told = verdict(case)
                if wrong:
                    failures += 1
                    given_.keep = given_.keep or Path(tempfile.mkdtemp(prefix="gradlint-fuzz-"))
                    _keep(case, given_.keep / f"{kind}-{number}-{counts[kind]}", f"{wrong}\n{told}")
                    print(f"{kind} {number}: {wrong}: kept in {given_.keep}", flush=True)
                if time.monotonic() >= until:
                    break
        number += 1
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()) + f": {failures} failures")
    return 1 if failures else 0


def _keep(case: Case, folder: Path, told: str) -> None:
    folder.mkdir(parents=True)
    for name, data in {**case.files, **({"messages": case.messages} if case.messages is not None else {})}.items():
        (folder / name).write_bytes(data)
    (folder / "said.txt").write_text(told, encoding="utf-8", errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
