"""How deeply code is nested: what is nested too deeply would keep libcst busy for minutes, or end the process.

libcst takes time by the square of the depth of an expression and by a power of the brackets in a pattern, and overflows
the stack on extreme nesting.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

_BLOCKS = 950  #: of statements in one another; each ``elif`` stands in the branch before it
_LEVELS = 500  #: of an expression, at which libcst takes about a second
_PATTERNS = 7  #: of brackets in a pattern of ``match``
_BRACKETS = 100  #: of other brackets, in a text of which there is no tree
_TOKEN = re.compile(
    r"#[^\n]*"
    r"|(?P<text>[fF]?[rR]?[fF]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}"
    r"|\"(?:\\.|[^\\\n\"])*\"|'(?:\\.|[^\\\n'])*'))"
    r"|(?P<open>[\[({])|(?P<close>[\])}])|\\\n|(?P<row>\n[ \t\f]*)|(?P<word>\w+)|[^\s\w]",
    re.DOTALL,
)


def too_deep(tree: ast.Module, text: str) -> int | None:
    """The row of the first statement that is nested too deeply for libcst; None if all are fine.

    Args:
        tree: what Python has parsed.
        text: what it was parsed from.
    """
    lines = text.split("\n")
    width = max(map(len, lines))
    level: list[ast.stmt] = tree.body
    depth = 0
    while level:
        depth += 1
        if depth > _BLOCKS:
            return level[0].lineno
        inner: list[ast.stmt] = []
        for node in level:
            if _size(node, width) > _LEVELS and _height(node) > _LEVELS:
                return node.lineno
            if isinstance(node, ast.Match) and any(_depth(header) > _PATTERNS for header in _headers(node, lines)):
                return node.lineno
            for name in ("body", "orelse", "finalbody"):
                inner += getattr(node, name, ())
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                inner += part.body
        level = inner
    return None


def _size(node: ast.stmt, width: int) -> int:
    """The number of characters of a statement without its blocks, or more: no expression in it is deeper than that."""
    if isinstance(node, (ast.Match, ast.Try, ast.TryStar)):
        return _LEVELS + 1  # conditions stand between their blocks
    body = getattr(node, "body", None)
    decorators = getattr(node, "decorator_list", None)
    first = decorators[0].lineno if decorators else node.lineno
    last = body[0].lineno if body else node.end_lineno or node.lineno
    if body and isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        last = min((each.lineno for each in body[0].decorator_list), default=last)
    if first == last and not body:
        return (node.end_col_offset or 0) - node.col_offset
    return (last - first + 1) * width


def _height(node: ast.stmt) -> int:
    """How deep the tree that libcst makes of a statement is, without that of its blocks."""
    most = 0
    queue: list[tuple[ast.AST, int]] = [(node, 0)]
    while queue:
        each, depth = queue.pop()
        most = max(most, depth)
        if isinstance(each, ast.BoolOp):  # of a chain of operators, each stands in the next one
            depth += len(each.values)
        elif isinstance(each, ast.alias):
            most = max(most, depth + each.name.count("."))
        elif isinstance(each, ast.ImportFrom):
            most = max(most, depth + (each.module or "").count("."))
        queue += [(child, depth + 1) for child in ast.iter_child_nodes(each) if not isinstance(child, ast.stmt)]
    return most


def _headers(node: ast.Match, lines: Sequence[str]) -> Iterator[str]:
    """What stands between the blocks of a ``match`` statement: ``case``, a pattern, a condition.

    Brackets around a pattern leave no trace in the tree.
    """
    row, column = node.subject.end_lineno or node.lineno, node.subject.end_col_offset or 0
    for case in node.cases:
        last = case.body[0].lineno
        rows = [lines[row - 1].encode()[column:].decode("utf-8", "replace"), *lines[row:last]]
        if last == row:
            rows = rows[:1]
        yield "\n".join(rows)
        end = case.body[-1]
        row, column = end.end_lineno or end.lineno, end.end_col_offset or 0


def _depth(text: str) -> int:
    """How many brackets are open at once, at most."""
    now = lowest = most = 0
    for match in _TOKEN.finditer(text):
        if match["open"]:
            now += 1
        elif match["close"]:
            now -= 1
        lowest, most = min(lowest, now), max(most, now - lowest)
    return most


def is_shallow(text: str) -> bool:
    """Whether a text that the running Python rejects can be given to libcst: it is judged by its tokens alone.

    Where nothing but brackets and commas tells expressions apart, all tokens from one comma to the next may stand in
    one another, as may all branches that begin with ``elif``.
    """
    scan = _Scan()
    return all(scan.takes(match) for match in _TOKEN.finditer(text))


class _Scan:
    """Counts what the tokens of a text may amount to."""

    def __init__(self) -> None:
        self._counts = [0]  #: of tokens since the last comma, by the brackets that are open
        self._kept = [0]  #: of tokens before a comma that does not end what they begin, the same
        self._total = 0
        self._branches = 0
        self._indent = 0
        self._in_case = self._is_first = False

    def takes(self, match: re.Match[str]) -> bool:
        """Whether the text is shallow as far as this token."""
        part = match[0]
        if match["row"] is not None:
            if len(self._counts) == 1:
                self._total, self._counts, self._kept = 0, [0], [0]
                self._indent = len(part) - 1
                self._is_first = True
            return True
        if part[0] == "#" or part[0] == "\\":
            return True
        self._begins(part)
        if match["open"]:
            self._add(1)
            self._counts.append(0)
            self._kept.append(0)
        elif match["close"]:
            if len(self._counts) > 1:
                self._total -= self._counts.pop() + self._kept.pop()
        elif part == ",":
            self._total -= self._counts[-1]
            self._counts[-1] = 0
        else:
            replaces = match["text"] is not None and "{" in part and "f" in part[:2].lower()
            self._add(len(part) if replaces else 1, keep=part in ("lambda", "for"))
        return (
            self._total + self._indent + self._branches <= _LEVELS
            and len(self._counts) <= (_PATTERNS if self._in_case else _BRACKETS) + 1
        )

    def _begins(self, part: str) -> None:
        """A logical line may begin with this token."""
        if self._is_first:
            self._is_first, self._in_case = False, part == "case"
            self._branches += part == "elif"

    def _add(self, number: int, *, keep: bool = False) -> None:
        (self._kept if keep else self._counts)[-1] += number
        self._total += number
