"""Identity: how a finding is known again when lines elsewhere in its file have changed.

That is by its code, its file, the text of its line and the function or class around it; findings that share all of
these are counted.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gradlint.consulted import digest_of
from gradlint.finding import Finding, Location
from gradlint.source import Source, SourceError

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Span = tuple[int, int, str]  #: first and last row, and the dotted name


@dataclass(frozen=True, order=True, slots=True)
class Identity:
    """What stays the same of a finding when lines elsewhere change."""

    path: str  #: relative to some folder where it lies below, with slashes
    code: str
    definition: str  #: the dotted name of the function or class around the line; empty at the top of a module
    line: str  #: its text, with single spaces

    def fingerprint(self, number: int = 0) -> str:
        """Thirty-two hexadecimal digits that stand for the finding, ``number`` of those that are alike, from 0."""
        told = "\0".join((self.path, self.code, self.definition, self.line, str(number)))
        return digest_of(told.encode("utf-8", "surrogatepass")).hex()

    def __str__(self) -> str:
        inside = f" in {self.definition}" if self.definition else ""
        return f"{self.path}: {self.code}{inside}: {self.line}"


class Identities:
    """Knows findings again.

    Args:
        read: how a file is read.
        folder: what paths are relative to.
    """

    def __init__(self, read: Callable[[Path], Source], folder: Path) -> None:
        self._read = read
        self._folder = folder
        self._spans: dict[str, list[_Span]] = {}

    def of(self, finding: Finding) -> Identity:
        """The identity of a finding; without line and definition where its file cannot be read."""
        place = finding.location
        path = relative(place.filename, self._folder)
        try:
            source = self._read(Path(place.filename))
        except SourceError:
            return Identity(path, finding.code, "", "")
        lines = source.lines(place.cell)
        line = " ".join(lines[place.row - 1].split()) if place.row <= len(lines) else ""
        return Identity(path, finding.code, self._definition(source, place), line)

    def numbered(self, findings: Iterable[Finding]) -> Iterator[tuple[Finding, Identity, int]]:
        """Each finding with its identity, and how many before it have the same."""
        seen: Counter[Identity] = Counter()
        for finding in findings:
            identity = self.of(finding)
            yield finding, identity, seen[identity]
            seen[identity] += 1

    def _definition(self, source: Source, place: Location) -> str:
        if place.filename not in self._spans:
            self._spans[place.filename] = list(_spans(source))
        row = place.row
        if place.cell is not None:
            row += next((cell.first_row - 1 for cell in source.cells if cell.number == place.cell), 0)
        around = [span for span in self._spans[place.filename] if span[0] <= row <= span[1]]
        return max(around)[2] if around else ""


def relative(filename: str, folder: Path) -> str:
    """The name of a file with slashes, relative to a folder where it lies below."""
    path = Path(filename)
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


def _spans(source: Source) -> Iterator[_Span]:
    """The functions and classes of a file; none where this Python cannot parse it."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, name = pending.pop()
        if isinstance(node, _DEFINITIONS):
            name = f"{name}.{node.name}" if name else node.name
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield first, node.end_lineno or first, name
        pending += [(child, name) for child in ast.iter_child_nodes(node)]
