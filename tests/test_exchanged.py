"""The findings are the same whichever way a branch is written, under a condition or under its opposite."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fixture_cases import all_cases

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project


class Exchanged(ast.NodeTransformer):
    """Each condition denied, and its branches exchanged."""

    def visit_If(self, node: ast.If) -> ast.AST:
        """The same statement, written the other way round."""
        self.generic_visit(node)
        if "__name__" in ast.unparse(node.test):
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse or [ast.Pass()], node.body)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """The same expression, written the other way round."""
        self.generic_visit(node)
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)


def findings(texts: dict[str, str], folder: Path) -> Counter[tuple[str, ...]]:
    """(file, code, words of the line, message, what explains it) of each finding, but for those at conditions."""
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    found: Counter[tuple[str, ...]] = Counter()
    for finding in analyze(Project([folder]), paths, list(all_rules())).findings:
        path = Path(finding.location.filename)
        line = path.read_text(encoding="utf-8").splitlines()[finding.location.row - 1].strip()
        if not line.startswith(("if ", "elif ", "else")):
            words = " ".join(sorted(set(re.findall(r"\w+", line)) - {"not"}))  # in whatever order they stand
            explained = sorted(other.message for other in finding.related)
            found[path.relative_to(folder).as_posix(), finding.code, words, finding.message, *explained] += 1
    return found


def _exchanged(text: str) -> str | None:
    """A program written the other way round, or none of a notebook or of what has no conditions."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    if not any(isinstance(node, (ast.If, ast.IfExp)) for node in ast.walk(tree)):
        return None
    return ast.unparse(ast.fix_missing_locations(Exchanged().visit(tree)))


def with_branches() -> list[Any]:
    """The fixtures that have conditions: their files, and those of them that are exchanged."""
    out = []
    for case in all_cases():
        exchanged = {name: text for name, given in case.files.items() if (text := _exchanged(given)) is not None}
        if exchanged:
            plain = {name: ast.unparse(ast.parse(case.files[name])) for name in exchanged}
            out.append(pytest.param({**case.files, **plain}, {**case.files, **exchanged}, id=case.id))
    return out


@pytest.mark.parametrize(("plain", "exchanged"), with_branches())
def test_exchanging_branches_changes_no_finding(
    plain: dict[str, str], exchanged: dict[str, str], tmp_path: Path
) -> None:
    assert findings(plain, tmp_path / "plain") == findings(exchanged, tmp_path / "exchanged")


TEXT = """
from torch import nn


def initialize(module):
    if isinstance(module, nn.Conv2d):
        module.weight.data.normal_(0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        module.weight.data.normal_(1.0, 0.02)
        module.bias.data.fill_(0)


nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)).apply(initialize)
"""


def test_the_finding_that_stands_for_others_is_the_same(tmp_path: Path) -> None:
    """Of the branches of a condition it is in that which is nested least."""
    told = []
    for text in (TEXT, _exchanged(TEXT)):
        assert text is not None
        path = tmp_path / "train.py"
        path.write_text(text, encoding="utf-8")
        lines = [line.strip() for line in text.splitlines()]
        for finding in analyze(Project([tmp_path]), [path], list(all_rules())).findings:
            others = sorted(lines[other.location.row - 1] for other in finding.related)
            told.append((finding.code, lines[finding.location.row - 1], others))
    others = ["module.bias.data.fill_(0)", "module.weight.data.normal_(1.0, 0.02)"]
    assert told == [("GL110", "module.weight.data.normal_(0.0, 0.02)", others)] * 2
