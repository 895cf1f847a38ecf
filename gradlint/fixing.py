"""Fixing: the edits of findings, applied to files that otherwise stay as they are, byte for byte."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from gradlint.engine import Earlier, Report
from gradlint.finding import Edit, Finding, Location, Severity
from gradlint.notebookedit import CellText
from gradlint.reading import read_bytes
from gradlint.source import Source, SourceError, source_from_bytes

_NEWLINE = re.compile(r"\r\n?|\n")
_PASSES = 20  #: after which whatever is left to mend stays
_TRIES = 100  #: the same, of those too that only look for a fix to take back


class Text(Protocol):
    """The text of a file, in which edits find their place."""

    def offset(self, cell: int | None, row: int, column: int) -> int:
        """The offset in the text of a row and column, from 1; LookupError if there is no such place."""
        ...

    def written(self, content: str, offset: int) -> str:
        """Content as it is to be written at an offset."""
        ...


class _PlainText:
    """A Python file.

    Args:
        text: with the line endings it has on disk.
        newline: the one for lines that are new.
    """

    def __init__(self, text: str, newline: str) -> None:
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
        self._length = len(text)
        self._newline = newline

    def offset(self, cell: int | None, row: int, column: int) -> int:
        """The offset of a place."""
        found = self._starts[row - 1] + column - 1
        if cell is not None or row < 1 or found > self._length:
            raise LookupError((cell, row, column))
        return found

    def written(self, content: str, offset: int) -> str:  # noqa: ARG002 -- notebooks need the place
        """Content with the file's line endings."""
        return content.replace("\n", self._newline)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file with fixes applied."""

    data: bytes
    applied: tuple[Finding, ...] = ()


def rewritten(source: Source, findings: Iterable[Finding]) -> Rewritten:
    """The bytes of a file with the fixes of ``findings`` applied, as many as do not overlap and leave it Python.

    Whatever cannot be applied is left out; the bytes outside of the edits are those of the file.
    """
    body = source.data[3:] if source.bom else source.data
    try:
        text = body.decode(source.encoding)
        if text.encode(source.encoding) != body:  # an encoding with several ways to write the same
            return Rewritten(source.data)
    except UnicodeError:
        return Rewritten(source.data)
    layout: Text = CellText(text) if source.is_notebook else _PlainText(text, source.newline)
    chosen = _chosen(layout, findings, source.filename)
    whole = _applied(source, text, chosen)
    if whole is not None:
        return Rewritten(whole, tuple(finding for finding, _ in chosen))
    kept: list[_Chosen] = []
    data = source.data
    for candidate in chosen:  # one of them breaks the file: find it
        attempt = _applied(source, text, [*kept, candidate])
        if attempt is not None:
            kept.append(candidate)
            data = attempt
    return Rewritten(data, tuple(finding for finding, _ in kept))


_Range = tuple[int, int, str]
_Chosen = tuple[Finding, list[_Range]]


def _chosen(layout: Text, findings: Iterable[Finding], filename: str) -> list[_Chosen]:
    """The fixes that can be applied together, with the ranges of text they replace."""
    candidates: list[_Chosen] = []
    for finding in findings:
        if (
            finding.fix is None
            or not finding.fix.edits
            or any(edit.location.filename != filename for edit in finding.fix.edits)
        ):
            continue
        try:
            candidates.append((finding, [_range(layout, edit) for edit in finding.fix.edits]))
        except LookupError:
            continue
    # of fixes that begin at the same place, the one that reaches further leaves nothing for the others to mend
    candidates.sort(key=lambda candidate: (min(candidate[1])[0], -max(end for _, end, _ in candidate[1])))
    taken: list[_Range] = []
    chosen: list[_Chosen] = []
    for finding, ranges in candidates:
        new = [each for each in ranges if each not in taken]
        if new and (len(new) < len(ranges) or any(_meets(each, other) for each in new for other in taken)):
            continue
        taken += new
        chosen.append((finding, new))
    return chosen


def _range(layout: Text, edit: Edit) -> _Range:
    place = edit.location
    start = layout.offset(place.cell, place.row, place.column)
    end = layout.offset(place.cell, place.end_row or place.row, place.end_column or place.column)
    if end < start:
        raise LookupError(place)
    return start, end, layout.written(edit.content, start)


def _meets(one: _Range, other: _Range) -> bool:
    """Whether two ranges overlap or touch: which of two insertions comes first would be a guess."""
    return one[0] <= other[1] and other[0] <= one[1]


def _applied(source: Source, text: str, chosen: Sequence[_Chosen]) -> bytes | None:
    """The bytes of the file with these changes; None if they are not Python in its encoding."""
    from gradlint.engine import syntax_errors

    parts: list[str] = []
    done = 0
    # the sort is stable: insertions of one fix at the same place stay in its order
    for start, end, content in sorted((each for _, ranges in chosen for each in ranges), key=lambda each: each[:2]):
        if start < done:
            return None
        parts += [text[done:start], content]
        done = end
    parts.append(text[done:])
    try:
        data = b"\xef\xbb\xbf" * source.bom + "".join(parts).encode(source.encoding)
        after = source_from_bytes(source.path, data)
    except (UnicodeError, SourceError):
        return None
    return data if len(syntax_errors(after)) <= len(syntax_errors(source)) else None


@dataclass(slots=True)
class Mended:
    """Files with all that can be mended mended, not yet written."""

    report: Report  #: of the files as they are to be
    before: dict[Path, Source] = field(default_factory=dict)  #: the files that change, as they lie on disk
    after: dict[Path, bytes] = field(default_factory=dict)
    applied: Counter[Path] = field(default_factory=Counter)  #: how many fixes, by file
    troubles: dict[Path, str] = field(default_factory=dict)  #: a line for each file that could not be mended

    def leave(self, path: Path) -> None:
        """Take back what was to be done to a file."""
        del self.before[path], self.after[path], self.applied[path]


Checking = Callable[[Mapping[Path, Callable[[], Source]], Earlier], Report]


def mend(report: Report, check: Checking, *, unsafe: bool) -> Mended:
    """Apply the fixes of findings and check again, until there is nothing more to fix.

    A fix that brings an error with it, or mends nothing after all, is taken back.

    Args:
        report: what the files hold as they lie on disk.
        check: checks them again, reading those it is given instead of those on disk; it is told what has changed
            since which report.
        unsafe: apply also the fixes that may change more than the mistake.
    """
    mended = Mended(report)
    refused: set[_Remark] = set()
    most: int | None = None
    passes = 0
    for _ in range(_TRIES):
        wanted = [
            finding
            for finding in mended.report.findings
            if finding.fix is not None
            and (unsafe or finding.fix.is_safe)
            and _remark(mended.report, finding) not in refused
            and Path(finding.location.filename) not in mended.troubles
        ]
        changed = _rewritten(mended.report, wanted[:most], mended.troubles)
        if not changed or passes == _PASSES:
            break
        data = {**mended.after, **{path: result.data for path, result in changed.items()}}
        given = {path: partial(source_from_bytes, path, text) for path, text in data.items()}
        after = check(given, Earlier(mended.report, frozenset(changed)))
        applied = [finding for result in changed.values() for finding in result.applied]
        if _errors(after) <= _errors(mended.report) and _are_gone(applied, mended.report, after):
            for path, result in changed.items():
                mended.before.setdefault(path, mended.report.read(path))
                mended.applied[path] += len(result.applied)
            mended.after, mended.report = data, after
            most, passes = None, passes + 1
        elif len(applied) > 1:
            most = len(wanted[:most]) // 2
        else:
            refused |= {_remark(mended.report, finding) for finding in applied}
            most = None
    return mended


def _rewritten(report: Report, findings: Iterable[Finding], troubles: dict[Path, str]) -> dict[Path, Rewritten]:
    """The files that change if what these findings want is done; a fault met in one is told, and costs no other."""
    by_path: dict[Path, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(Path(finding.location.filename), []).append(finding)
    results: dict[Path, Rewritten] = {}
    for path, wanted in by_path.items():
        try:
            results[path] = rewritten(report.read(path), wanted)
        except Exception as error:  # noqa: BLE001 -- of whatever type, it concerns this file alone
            troubles[path] = f"{path}: not fixed: internal error: {type(error).__name__}: {error}"
    return {path: result for path, result in results.items() if result.data != report.read(path).data}


_Remark = tuple[str, str, str, str | None]


def _remark(report: Report, finding: Finding) -> _Remark:
    """A finding as it is known again when lines above it have changed."""
    return finding.location.filename, finding.code, finding.message, report.line(finding.location)


def _are_gone(applied: Sequence[Finding], before: Report, after: Report) -> bool:
    """Whether there are as many fewer of each mistake as were mended, if not in the file then on each of its lines.

    Others of the kind may be told of elsewhere in the file, which another mistake has hidden so far.
    """
    mended, once, now = (Counter(map(_mistake, findings)) for findings in (applied, before.findings, after.findings))
    grown = {mistake for mistake, count in mended.items() if now[mistake] > once[mistake] - count}
    if not grown:
        return True
    edits = {edit for finding in applied if finding.fix is not None for edit in finding.fix.edits}
    doubtful = [finding for finding in applied if _mistake(finding) in grown]
    there = Counter((*_mistake(f), f.location.cell, f.location.row) for f in after.findings)
    left = Counter((*_mistake(f), f.location.cell, f.location.row) for f in before.findings)
    left.subtract((*_mistake(f), f.location.cell, f.location.row) for f in doubtful)
    return all(
        there[*_mistake(f), f.location.cell, _row_after(f.location, edits)]
        <= left[*_mistake(f), f.location.cell, f.location.row]
        for f in doubtful
    )


def _mistake(finding: Finding) -> tuple[str, str, str]:
    return finding.location.filename, finding.code, finding.message


def _row_after(place: Location, edits: Iterable[Edit]) -> int:
    """The row on which what stands at a place stands once the edits are made."""
    here = place.filename, place.cell
    return place.row + sum(
        edit.content.count("\n") - max(edit.location.end_row - edit.location.row, 0)
        for edit in edits
        if (edit.location.filename, edit.location.cell) == here
        and (edit.location.row, edit.location.column) <= (place.row, place.column)
    )


def _errors(report: Report) -> Counter[tuple[str, str]]:
    """How many errors of each kind every file holds."""
    return Counter((f.location.filename, f.code) for f in report.findings if f.severity is Severity.ERROR)


def replace_file(path: Path, before: bytes, after: bytes) -> None:
    """Replace the content of a file at once; it keeps its permissions, and a link to it stays a link.

    Raises:
        OSError: it cannot be written, or no longer holds ``before``.
    """
    real = Path(os.path.realpath(path))
    if read_bytes(real) != before:
        raise OSError(f"{path}: the file has changed while it was checked")
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        _make_alike(name, real.stat())
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _make_alike(name: str, seen: os.stat_result) -> None:
    """Give a file the owner and the permissions of another, as far as that is allowed."""
    mine = os.stat(name)  # noqa: PTH116 -- it goes by its name here
    if hasattr(os, "chown") and (mine.st_uid, mine.st_gid) != (seen.st_uid, seen.st_gid):
        with suppress(PermissionError):
            os.chown(name, seen.st_uid, seen.st_gid)
    Path(name).chmod(stat.S_IMODE(seen.st_mode))


def difference(before: Source, after: bytes, name: str) -> bytes:
    """The change of a file as a unified diff that ``git apply`` and ``patch -p1`` turn into the same bytes.

    Lines end with line feeds alone, as they do there; other newlines belong to what they end.

    Args:
        before: the file.
        after: what is to become of it.
        name: what it is called, seen from where the diff is applied.
    """
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", data.decode("latin-1")) for data in (before.data, after))
    names = (_spelled(name, "a/"), _spelled(name, "b/"))
    lines = difflib.unified_diff(old, new, *names)
    told = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return told.encode("latin-1")


_QUOTED = {**{number: f"\\{number:03o}" for number in (*range(32), *range(127, 256))}, 34: '\\"', 92: r"\\"}
_QUOTED |= {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}


def _spelled(name: str, prefix: str) -> str:
    """The name of a file as git spells it; that of one elsewhere stays whole."""
    text = (name if Path(name).is_absolute() else prefix + name).encode("utf-8", "surrogateescape").decode("latin-1")
    if any(ord(character) in _QUOTED for character in text):
        return f'"{text.translate(_QUOTED)}"'
    return f"{text}\t" if " " in text else text
