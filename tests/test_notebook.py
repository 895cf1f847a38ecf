from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from gradlint.finding import Location
from gradlint.rule import all_rules
from gradlint.source import Source, SourceError, source_from_text
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

PATH = Path("/somewhere/book.ipynb")


def notebook(*cells: str, **more: Any) -> Source:
    content = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return source_from_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": content, **more}), PATH)


def test_cells_are_one_text_and_keep_their_numbers() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": "import torch\n\n"},
        {"cell_type": "raw", "source": "raw"},
        {"cell_type": "code", "source": ["x = 1\n", "y = [\n", "  2]"]},
        {"cell_type": "code", "source": []},
    ]
    source = source_from_text(json.dumps({"cells": cells}), PATH)
    assert source.text == "import torch\nx = 1\ny = [\n  2]\n\n"
    assert [source.place(row) for row in range(1, 6)] == [(2, 1), (4, 1), (4, 2), (4, 3), (5, 1)]
    assert source.location(3, 1, 4, 5) == Location(str(PATH), 2, 1, 3, 5, 4)
    assert source.lines(4) == ("x = 1", "y = [", "  2]")
    assert source.lines(1) == ()
    assert source.is_notebook


def test_nbformat_3() -> None:
    sheets = [{"cells": [{"cell_type": "heading"}, {"cell_type": "code", "input": ["x = 1\n", "y = 2"]}]}]
    source = source_from_text(json.dumps({"nbformat": 3, "worksheets": sheets}), PATH)
    assert source.text == "x = 1\ny = 2\n"
    assert source.place(2) == (2, 2)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install torch \\\n    numpy\nx = 1", "pass\n\nx = 1"),
        ("if x:\n    !ls\n    y = 1", "if x:\n    pass\n    y = 1"),
        ("files = !ls *.py\nx = files", "files = get_ipython()\nx = files"),
        ("a, b = %magic c", "a, b = get_ipython()"),
        ("self.x['k'] = !ls", "self.x['k'] = get_ipython()"),
        ("?torch.nn", "pass"),
        ("torch.nn??", "pass"),
        ("model.fit?  # how", "pass"),
        ("%time y = f(x)", "if 1: y = f(x)"),
        ("%timeit -n 10 -r3 f(x)", "if 1:             f(x)"),
        ("%timeit", "pass"),
        ("%time !ls", "pass"),
        ("pip install torch", "pass"),
        ("%%time\nx = 1", "\nx = 1"),
        ("\n%%capture out\nx = 1\n!ls", "\n\nx = 1\npass"),
        ("%%bash\nls -l | wc", "\n"),
        ("%%html\n<b>", "\n"),
        ("%%!\nls", "\n"),
        ("y = (x\n% 3)\n%cd ..", "y = (x\n% 3)\npass"),
        ("s = '''\n!no\n%no\n'''\n!yes", "s = '''\n!no\n%no\n'''\npass"),
        ('"""a \\""" b\n%no\n"""\n%yes', '"""a \\""" b\n%no\n"""\npass'),
        ("x = 5 \\\n% 3\n%yes", "x = 5 \\\n% 3\npass"),
        ("x = '#('  # (\n%yes", "x = '#('  # (\npass"),
        ("await f()", "await f()"),
        ("a != b", "a != b"),
        ("x = a if b else '!c'", "x = a if b else '!c'"),
    ],
)
def test_what_only_ipython_understands(cell: str, text: str) -> None:
    source = notebook(cell)
    assert source.text == text + "\n"
    assert not source.problems
    ast.parse(source.text)


def test_a_magic_keeps_the_columns_of_its_statement() -> None:
    for cell in ("%time f(x)", "%timeit -n 10 f(x)"):
        assert notebook(cell).text.index("f(x)") == cell.index("f(x)")


def test_an_indented_cell_is_read_as_ipython_does() -> None:
    source = notebook("    x = 1\n    if x:\n        y = 2")
    assert source.text == "x = 1\nif x:\n    y = 2\n"
    assert source.location(3, 5, 3, 10) == Location(str(PATH), 3, 9, 3, 14, 1)
    assert source.lines(1)[2] == "        y = 2"


def test_a_broken_cell_does_not_cost_the_others() -> None:
    source = notebook("x = 1", "def f(:\n    pass", "y = 2", "print 'a'")
    assert source.text == "x = 1\nf = get_ipython()\n\ny = 2\n\n"
    assert [(problem.cell, problem.row) for problem in source.problems] == [(2, 1), (4, 1)]
    assert "Python 2" in source.problems[1].reason
    assert source.problems[0].location.cell == 2
    assert source.lines(2) == ("def f(:", "    pass")


def test_of_a_broken_cell_the_names_it_binds_are_left() -> None:
    loop = ("for i in range(3):", "    loss, y = <CODE>")
    source = notebook("\n".join([*loop, "g(a=1,", "  b=2)", "s: int = 3", "x == 1", "def f(a):", "    b = 1"]))
    assert source.text.split("\n")[:-1] == [
        *("", "loss, y = get_ipython()", "", "", "s = get_ipython()", "", "f = get_ipython()", "")
    ]
    assert [problem.row for problem in source.problems] == [2]


def test_newer_syntax_than_that_of_the_running_python_is_no_problem() -> None:
    source = notebook("type X = int\nx = f'{d['a']}'")
    assert not source.problems
    assert source.text.startswith("type X = int")


@pytest.mark.parametrize("entry", [{"language_info": {"name": "julia"}}, {"kernelspec": {"language": "R"}}])
def test_other_languages_hold_nothing_to_check(entry: dict[str, Any]) -> None:
    assert notebook("x <- 1", metadata=entry).text == ""


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ('{"cells": [\n}', 2, "not valid JSON: Expecting value"),
        ("", 1, "not valid JSON"),
        ("[1]", 1, "not a notebook: the JSON holds no object"),
        ("{}", 1, "not a notebook: it has no cells"),
        ('{"cells": 1}', 1, "not a notebook: it has no cells"),
        ("[" * 100_000, 1, "not valid JSON"),
    ],
)
def test_what_is_no_notebook_is_told(text: str, row: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        source_from_text(text, PATH)
    assert caught.value.row == row
    assert caught.value.reason.startswith(reason)


def test_odd_cells_are_passed_over() -> None:
    cells: list[Any] = [None, {"cell_type": "code"}, {"cell_type": "code", "source": [1, "x = '\ud800'"]}]
    assert source_from_text(json.dumps({"cells": cells, "metadata": []}), PATH).text == "\nx = '?'\n"


SHOWN = (
    "import torch\nx = torch.randn(3, 4)",
    "x.clamp(0, 1)\nx[0].view(2, 2)",
    "for _ in x:\n    x.abs()",
    "x.t()\n# as a column",
)


@pytest.mark.parametrize(
    ("first", "discarded"),
    [
        ("", [(2, 1), (3, 2)]),
        (
            "from IPython.core.interactiveshell import InteractiveShell as I\nI.ast_node_interactivity = 'all'\n",
            [],
        ),
    ],
)
def test_the_last_statement_of_a_cell_is_shown(first: str, discarded: list[tuple[int, int]], tmp_path: Path) -> None:
    (tmp_path / "book.ipynb").write_bytes(notebook(first + SHOWN[0], *SHOWN[1:]).data)
    rules = [rule for rule in all_rules() if rule.code == "GL505"]
    found = analyze(Project([tmp_path]), [tmp_path / "book.ipynb"], rules).findings
    assert [(finding.location.cell, finding.location.row) for finding in found] == discarded
