"""What should not matter to the findings does not: other rules, the order of files, what lies beside, names.

The cases of a fixture file lie in one folder, each in a folder of its own, and are analyzed in one run.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path

import pytest
from alone import RULES, Findings, differing, of_rules, with_superseding
from fixture_cases import Case, cases_of, linted_slugs

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.rule import Rule
from gradlint.selection import Choice
from gradlint.static.drive.analysis import analyze
from gradlint.static.knowledge.guesses import DEVICE_NAME
from gradlint.static.text.project import Project

BY_CODE = {rule.code: rule for rule in RULES}
BY_SLUG = {rule.name.replace("-", "_"): rule for rule in RULES}
SLUGS = linted_slugs()

_REFLECTIVE = {"locals", "vars", "eval", "exec"}

Written = Callable[[str], tuple[Path, list[Path]]]
Plain = Callable[[str], Findings]


def files_of(slug: str) -> dict[str, str]:
    """The files of all cases of a fixture file, each under the name of its case."""
    return {f"{case.name}/{path}": text for case in cases_of(slug) for path, text in case.files.items()}


def write_text(path: Path, text: str) -> Path:
    """Write a file into folders that need not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def findings(folder: Path, paths: Sequence[Path], rules: Iterable[type[Rule]] = RULES) -> Findings:
    """The findings in some files of a folder, which is the project."""
    found = analyze(Project([folder]), list(paths), list(rules)).findings
    places = ((Path(each.location.filename).relative_to(folder), each) for each in found)
    return Counter((path.as_posix(), each.location.row, each.code) for path, each in places)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Writes the cases of a fixture file: their folder, and their files."""

    @cache
    def write(slug: str) -> tuple[Path, list[Path]]:
        folder = tmp_path_factory.mktemp(slug)
        return folder, [write_text(folder / name, text) for name, text in files_of(slug).items()]

    return write


@pytest.fixture(scope="module")
def plain(written: Written) -> Plain:
    """The findings of all rules in the cases of a fixture file, as they are."""

    @cache
    def find(slug: str) -> Findings:
        return findings(*written(slug))

    return find


@pytest.mark.parametrize("slug", SLUGS)
def test_rules_find_the_same_alone(slug: str, written: Written, plain: Plain) -> None:
    """What ``tooling/alone.py`` compares on any folder, for the rule whose fixtures these are."""
    folder, paths = written(slug)
    assert list(differing(partial(findings, folder, paths), plain(slug), [[BY_SLUG[slug]]])) == []


FOUND_ELSEWHERE = [
    pytest.param(slug, code, id=f"{slug} {code}")
    for slug in SLUGS
    for code in sorted({code for case in cases_of(slug) for *_, code in case.marks} & BY_CODE.keys())
    if BY_CODE[code] is not BY_SLUG[slug]
]


@pytest.mark.parametrize(("slug", "code"), FOUND_ELSEWHERE)
def test_rules_find_the_same_alone_in_the_fixtures_of_others(slug: str, code: str, tmp_path: Path) -> None:
    rule = BY_CODE[code]
    for number, case in enumerate(case for case in cases_of(slug) if any(code == each for *_, each in case.marks)):
        folder = tmp_path / str(number)
        found = of_rules([rule], findings(folder, case.write(folder), with_superseding([rule])))
        assert found == Counter(mark for mark in case.marks if mark[2] == code), case.name


@pytest.mark.parametrize("slug", SLUGS)
def test_the_order_of_files_changes_nothing(slug: str, written: Written, plain: Plain) -> None:
    folder, paths = written(slug)
    assert findings(folder, paths[::-1]) == plain(slug)


@pytest.mark.parametrize("slug", SLUGS)
def test_what_lies_beside_a_file_changes_nothing(slug: str, written: Written, plain: Plain) -> None:
    folder, paths = written(slug)
    alone = Counter[tuple[str, int, str]]()
    for case in dict.fromkeys(path.relative_to(folder).parts[0] for path in paths):
        files = [path for path in paths if path.is_relative_to(folder / case)]
        for (name, row, code), count in findings(folder / case, files).items():
            alone[f"{case}/{name}", row, code] += count
    assert alone == plain(slug)


SEVERAL = [pytest.param(case, id=case.id) for slug in SLUGS for case in cases_of(slug) if not case.alone]


@pytest.mark.parametrize("case", SEVERAL)
def test_a_file_is_told_the_same_alone_as_with_its_folder(case: Case, tmp_path: Path) -> None:
    paths = case.write(tmp_path)

    def told(targets: list[Path]) -> Counter[tuple[str, int, str]]:
        report = Engine(Configuration(isolated=True), Choice(select=("ALL",)), jobs=1).check(targets, [tmp_path])
        return Counter((each.location.filename, each.location.row, each.code) for each in report.findings)

    assert sum((told([path]) for path in paths), Counter[tuple[str, int, str]]()) == told(paths)


@pytest.mark.parametrize("slug", SLUGS)
def test_names_of_variables_change_nothing(slug: str, tmp_path: Path, plain: Plain) -> None:
    files = {
        f"{case.name}/{name}": renamed(text, [other for other in case.files if other != name])
        for case in cases_of(slug)
        for name, text in case.files.items()
    }
    paths = [write_text(tmp_path / name, text) for name, text in files.items()]
    assert findings(tmp_path, paths) == plain(slug)


def renamed(text: str, others: Iterable[str] = ()) -> str:
    """A program that has other names for its variables, which still tell what these are.

    Those of its functions always, and those of the module if no ``others`` may ask it for them.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:  # as of a notebook, or of a case that is to show one
        return text
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    scopes: list[tuple[ast.AST, set[str]]] = [(function, variables(function)) for function in functions]
    if not list(others):
        scopes.append((tree, variables_of_module(tree)))
    places = {
        (name.lineno - 1, name.end_col_offset or 0)
        for scope, own in scopes
        for name in ast.walk(scope)
        if isinstance(name, ast.Name) and name.id in own
    }
    for row, end in sorted(places, reverse=True):
        lines[row] = lines[row][:end] + b"_" + lines[row][end:]
    return b"".join(lines).decode()


def variables(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function binds by assignments and loops, and that mean nothing else anywhere within it."""
    own, other = set[str](), set[str]()
    body = [node for statement in function.body for node in ast.walk(statement)]
    for statement in function.body:
        other |= _other_meanings(statement)
    for node in [*ast.walk(function.args), *body]:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.arg):
            other.add(node.arg)
    outside = {node.id for node in ast.walk(function.args) if isinstance(node, ast.Name)}
    outside.update(node.id for each in function.decorator_list for node in ast.walk(each) if isinstance(node, ast.Name))
    reflects = {node.id for node in body if isinstance(node, ast.Name)} & _REFLECTIVE
    return set() if reflects else own - other - outside


def variables_of_module(tree: ast.Module) -> set[str]:
    """The names that a module binds by assignments and loops, and that mean nothing else anywhere within it.

    A device is known by its very name.
    """
    own, other = set[str](), {*dir(builtins), *_other_meanings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            arguments += [each for each in (node.args.vararg, node.args.kwarg) if each]
            other.update(each.arg for each in arguments)
    reflects = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {*_REFLECTIVE, "globals"}
    modules = any(isinstance(node, ast.Attribute) and node.attr == "modules" for node in ast.walk(tree))
    renamable = {name for name in own - other if not name.startswith("__") and not DEVICE_NAME.search(name)}
    return set() if reflects or modules else renamable


def _other_meanings(tree: ast.AST) -> set[str]:
    """Names that stand for something else than variables, or that are told in another way."""
    other = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            other.update(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            other.add(node.name)
            if isinstance(node, ast.ClassDef):
                other.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        elif isinstance(node, ast.alias):
            other.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.JoinedStr):  # before Python 3.12 it is not known where in the text a name stands
            other.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
            other.add(node.name)
    return other


def test_renaming_keeps_a_program() -> None:
    text = 'w = "ß"\ndef f(a, é="ü"):\n    x = é; y = w + x\n    z = (lambda b: b + y)(a)\n    return f"{x}", z\n'
    assert renamed(text, ["another file"]) == text.replace("y", "y_").replace("z", "z_")
    assert renamed(text) == text.replace("y", "y_").replace("z", "z_").replace("w", "w_")
    given = []
    for program in (text, renamed(text)):
        names: dict[str, Callable[[str], object]] = {}
        exec(program, names)  # noqa: S102 -- the text above
        given.append(names["f"]("a"))
    assert given == [("ü", "aßü")] * 2
