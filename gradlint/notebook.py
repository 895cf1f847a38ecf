"""Notebooks: their code cells as the text of one module."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradlint.syntax import TextError, error_in, parse

_NEWLINE = re.compile(r"\r\n?|\n")
#: cell magics whose body is Python that runs in the notebook; the body of every other one is not
PYTHON_CELL_MAGICS = frozenset(
    (
        *("capture", "debug", "gradlint", "heat", "ignore", "lprun", "memit", "mprun", "prun"),
        *("px", "pyinstrument", "scalene", "snakeviz", "time", "timeit", "wandb"),
    )
)
#: line magics that are followed by a Python statement
_STATEMENT = re.compile(r"%(?:time|timeit|prun|memit)\b(?:[ \t]+-\w+(?:[ \t]*\d+)?)*[ \t]+(?=\S)")
_MAGIC = re.compile(r"[%!?]|[,;/][^\W\d]|(?:pip3?|conda|cd|ls|cat|cp|mv|mkdir|rm|rmdir)[ \t]+[^=(\s]")
_HELP = re.compile(r"%{0,2}[^\W\d][\w.*]*(?:\[[^\]]*\])?\?{1,2}[ \t]*(?:#.*)?$")
_ASSIGNED = re.compile(r"([^\W\d][\w.,* \t\[\]\"']*=[ \t]*)[%!][^=]")
_NAME = r"[^\W\d]\w*"
_ASSIGNMENT = re.compile(rf"({_NAME}(?:[ \t]*,[ \t]*{_NAME})*)[ \t]*(?::[^=]+)?=(?!=)")
_DEFINITION = re.compile(rf"(?:async[ \t]+)?(?:def|class)[ \t]+({_NAME})")
_CELL_MAGIC = re.compile(r"%%(\w+|!)")
_TOKEN = re.compile(r"#.*|\"{3}|'{3}|\"(?:\\.|[^\\\"])*\"?|'(?:\\.|[^\\'])*'?|[\[({]|[\])}]|\\.")
_QUOTED = {quote: re.compile(r"(?:\\.|[^\\])*?" + quote) for quote in ('"""', "'''")}


@dataclass(frozen=True, slots=True)
class CellSpan:
    """The rows of the module text that come from one code cell of a notebook."""

    number: int  #: from 1, among all cells of the notebook
    first_row: int  #: in the module text, from 1
    lines: tuple[str, ...]  #: as they stand in the notebook
    indent: int = 0  #: columns that IPython takes off every line of an indented cell


def notebook_of(cells: Mapping[int, str]) -> str:
    """The JSON of a notebook with code cells of these numbers, from 1; those between them hold nothing."""
    written = [
        {"cell_type": "code" if number in cells else "raw", "source": cells.get(number, "")}
        for number in range(1, max(cells, default=0) + 1)
    ]
    return json.dumps({"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def bound(text: str) -> str:
    """Code that binds what the code of a cell binds, as far as can be seen, to what is not known."""
    return "\n".join(_bound(normalised(text).split("\n")))


def normalised(text: str) -> str:
    """The text with a line feed for every newline, and without the lone surrogates that no parser accepts."""
    return _NEWLINE.sub("\n", text).encode("utf-8", "replace").decode()


def read_notebook(text: str) -> tuple[str, tuple[CellSpan, ...], tuple[tuple[int, TextError], ...]]:
    """The code cells of a notebook as one text, where each lies in it, and what is wrong in which cell.

    Raises:
        TextError: the text is no notebook.
    """
    lines: list[str] = []
    spans: list[CellSpan] = []
    problems: list[tuple[int, TextError]] = []
    for number, content in _code_cells(text):
        written = _without_blank_end(normalised(content).split("\n"))
        rows, indent = _dedent(written)
        rows, problem = _python(rows)
        if problem is not None:
            problems.append((number, TextError(problem.row, problem.column + indent, problem.reason)))
        spans.append(CellSpan(number, len(lines) + 1, tuple(written), indent))
        lines += rows
    return "".join(f"{line}\n" for line in lines), tuple(spans), tuple(problems)


def _code_cells(text: str) -> Iterator[tuple[int, str]]:
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(error.lineno, error.colno, f"not valid JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise TextError(1, 1, f"not valid JSON: {error}") from error
    if not isinstance(notebook, dict):
        raise TextError(1, 1, "not a notebook: the JSON holds no object")
    sheets = notebook.get("worksheets")  # of nbformat 3
    groups = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)] if isinstance(sheets, list) else []
    cells = notebook.get("cells", [cell for group in groups if isinstance(group, list) for cell in group])
    if not isinstance(cells, list) or not ("cells" in notebook or groups):
        raise TextError(1, 1, "not a notebook: it has no cells")
    if not _is_python(notebook.get("metadata")):
        return
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            content = cell.get("source", cell.get("input", ""))
            parts = content if isinstance(content, list) else [content]
            yield number, "".join(part for part in parts if isinstance(part, str))


def _is_python(metadata: object) -> bool:
    if isinstance(metadata, dict):
        for table, key in (("language_info", "name"), ("kernelspec", "language")):
            entry = metadata.get(table)
            if isinstance(entry, dict) and isinstance(entry.get(key), str):
                return "python" in entry[key].lower()
    return True


def _without_blank_end(rows: list[str]) -> list[str]:
    end = len(rows)
    while end > 1 and not rows[end - 1].strip():
        end -= 1
    return rows[:end]


def _dedent(rows: list[str]) -> tuple[list[str], int]:
    """IPython takes the indentation of a cell's first line off all of its lines."""
    first = next((row for row in rows if row.strip() and not row.lstrip().startswith("#")), "")
    indent = first[: len(first) - len(first.lstrip())]
    if not indent:
        return rows, 0
    return [row[len(indent) :] if row.startswith(indent) else row for row in rows], len(indent)


def _python(rows: list[str]) -> tuple[list[str], TextError | None]:
    """The rows of a cell with what only IPython understands replaced.

    If it is not Python all the same, of the cell there is left what it binds; and the problem is told.
    """
    first = next((index for index, row in enumerate(rows) if row.strip()), 0)
    magic = _CELL_MAGIC.match(rows[first])
    if magic is not None:
        if magic[1] not in PYTHON_CELL_MAGICS:
            return [""] * len(rows), None
        rows = [*[""] * (first + 1), *rows[first + 1 :]]
    try:
        parse("\n".join(rows) + "\n")
    except TextError:
        rows = _without_magics(rows)
        problem = error_in("\n".join(rows) + "\n")
        if problem is not None:
            return _bound(rows), problem
    return rows, None


def _bound(rows: list[str]) -> list[str]:
    """Rows that bind the names that these bind, as far as can be seen, to what is not known."""
    result: list[str] = []
    depth, quote, local = 0, "", False  # local: in the body of a function or class
    for row in rows:
        code = row.lstrip()
        names = ""
        if code and depth == 0 and not quote:
            local = local and code != row
            definition = _DEFINITION.match(code)
            match = None if local else definition or _ASSIGNMENT.match(code)
            names = match[1] if match is not None else ""
            local = local or definition is not None
        result.append(f"{names} = get_ipython()" if names else "")
        depth, quote = _state_after(row, depth, quote)
    return [row if error_in(f"{row}\n") is None else "" for row in result]


def _without_magics(rows: list[str]) -> list[str]:
    result: list[str] = []
    depth, quote = 0, ""  # of brackets, and the triple quotes a string is open with
    continues: str | None = None  # after a backslash: "code" or "magic"
    for row in rows:
        if continues == "magic":
            continues = "magic" if row.endswith("\\") else None
            result.append("")
            continue
        if depth == 0 and not quote and continues is None:
            code = _replaced(row)
            if code is not None:
                continues = "magic" if row.endswith("\\") else None
                result.append(code)
                continue
        depth, quote = _state_after(row, depth, quote)
        continues = "code" if row.endswith("\\") and not quote else None
        result.append(row)
    return result


def _replaced(row: str) -> str | None:
    """Python for a row that only IPython understands, in its columns; None for other rows."""
    code = row.lstrip()
    indent = row[: len(row) - len(code)]
    statement = _STATEMENT.match(code)
    if statement is not None:
        kept = f"if 1:{' ' * (statement.end() - 5)}{code[statement.end() :]}"  # %time is as long as `if 1:` and a blank
        return indent + kept if error_in(kept + "\n") is None else f"{indent}pass"
    if _MAGIC.match(code) or _HELP.match(code):
        return f"{indent}pass"
    assigned = _ASSIGNED.match(code)
    return None if assigned is None else f"{indent}{assigned[1]}get_ipython()"


def _state_after(row: str, depth: int, quote: str) -> tuple[int, str]:
    """The depth of brackets, and the triple quotes that are open, at the end of a row."""
    position = 0
    while position < len(row):
        match = (_QUOTED[quote].match if quote else _TOKEN.search)(row, position)
        if match is None:
            break
        position = match.end()
        if quote:
            quote = ""
        elif match[0] in _QUOTED:
            quote = match[0]
        elif match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth = max(depth - 1, 0)
    return depth, quote
