"""The findings are the same whichever way a branch is written, under a condition or under its opposite."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.project import Project

FIXTURES = Path(__file__).parent / "fixtures"


class Exchanged(ast.NodeTransformer):
    """Each condition denied, and its branches exchanged."""

    def visit_If(self, node: ast.If) -> ast.AST:
        """The same statement, written the other way round."""
        self.generic_visit(node)
        if "__name__" in ast.unparse(node.test):
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse or [ast.Pass()], node.body)


def findings(texts: dict[str, str], folder: Path) -> Counter[tuple[str, str, str]]:
    """(file, code, text of the line) of each finding, but for those at conditions."""
    paths = []
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    found: Counter[tuple[str, str, str]] = Counter()
    for finding in analyze(Project([folder]), paths, list(all_rules())).findings:
        path = Path(finding.location.filename)
        line = path.read_text(encoding="utf-8").splitlines()[finding.location.row - 1].strip()
        if not line.startswith(("if ", "elif ", "else")):
            found[path.relative_to(folder).as_posix(), finding.code, line] += 1
    return found


def with_branches() -> list[Any]:
    """The fixtures that have conditions, one of each file's cases in a row."""
    out = []
    for path in sorted(FIXTURES.glob("*.py")):
        _, *cases = path.read_text(encoding="utf-8").split("\n# case: ")
        trees = [
            (case.partition("\n")[0], _parsed(case.partition("\n")[2])) for case in cases if "# file: " not in case
        ]
        out += [
            pytest.param(tree, id=f"{path.stem}-{name}")
            for name, tree in trees
            if tree is not None and any(isinstance(node, ast.If) for node in ast.walk(tree))
        ]
    return out


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:  # of notebooks
        return None


@pytest.mark.parametrize("tree", with_branches())
def test_exchanging_branches_changes_no_finding(tree: ast.Module, tmp_path: Path) -> None:
    plain = ast.unparse(tree)
    exchanged = ast.unparse(ast.fix_missing_locations(Exchanged().visit(ast.parse(plain))))
    assert findings({"main.py": plain}, tmp_path / "plain") == findings({"main.py": exchanged}, tmp_path / "exchanged")
