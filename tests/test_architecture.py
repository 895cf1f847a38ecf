"""What holds of the code as a whole: imports go one way, and modules and functions stay small.

Imports for type checkers only count as any others: who names a class knows it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Package:
    """A package of the project, and what its code keeps to."""

    name: str
    folder: Path
    circle: int = 1  #: modules that may import one another in a circle; 1 allows none
    function: int = 60  #: lines
    module: int = 500  #: lines
    flat: int | None = None  #: modules that may lie in its folder itself, not in one of its packages
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By a prefix of names inside the package: the prefixes of what the modules of that name may not import."""


TABLES = sorted((ROOT / "gradlint" / "static" / "knowledge").glob("torch_*.py"))
ROOMS = ("knowledge", "text", "state", "report", "python", "torch", "drive")
"""Of the tracer, in the order in which they build on one another."""

BEYOND = {"python": tuple(f"knowledge.{path.stem}" for path in TABLES)}
"""What a room may not import either: the execution of Python asks what names mean, and knows nothing of torch."""

PACKAGES = [
    Package(
        "gradlint.runtime",
        ROOT / "runtime",
        layers={
            # What witnesses share stands below them, and knows none of them.
            "records": ("witnesses", "gradients", "patches", "distributed", "session", "assembly"),
            "gradients": ("witnesses", "patches", "distributed", "session", "assembly"),
            "witnesses": ("witnesses", "patches", "distributed", "session", "assembly"),
            "patches": ("witnesses", "gradients", "records", "distributed", "session", "assembly"),
            "judging": ("witnesses", "gradients", "records", "patches", "distributed", "session", "assembly"),
            "distributed": ("witnesses", "gradients", "records", "patches", "session", "assembly"),
            "page": ("witnesses", "gradients", "records", "patches", "distributed", "session", "assembly"),
            "loggers": ("witnesses", "gradients", "records", "patches", "distributed", "session", "assembly"),
            "integrations": ("witnesses", "gradients", "records", "patches", "assembly"),
        },
    ),
    Package(
        "gradlint.static",
        ROOT / "gradlint" / "static",
        circle=4,  # a file knows its index and units, and these know their file
        flat=12,
        layers={room: (*ROOMS[number + 1 :], *BEYOND.get(room, ())) for number, room in enumerate(ROOMS)},
    ),
]


def modules_of(package: Package) -> dict[str, Path]:
    """The modules of a package by their full names; a package stands for its ``__init__``."""
    found = {}
    for path in sorted(package.folder.rglob("*.py")):
        parts = path.relative_to(package.folder).with_suffix("").parts
        found[".".join((package.name, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules among ``modules`` that one of them names in its import statements, wherever they stand."""
    around = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                outer = around.split(".")[: len(around.split(".")) - node.level + 1]
                source = ".".join([*outer, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner in modules:
                    yield inner
                elif source in modules:
                    yield source


def imports_of(package: Package) -> dict[str, set[str]]:
    """For each module of a package, the others of the package that it imports."""
    modules = modules_of(package)
    return {name: set(imported(name, path, modules)) - {name} for name, path in modules.items()}


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of a graph that have more than one member (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            index = stack.index(node)
            component = stack[index:]
            del stack[index:]
            if len(component) > 1:
                found.append(sorted(component))

    for node in edges:
        if node not in order:
            visit(node)
    return found


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a file, nested ones too, and how many lines each takes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.fixture(params=PACKAGES, ids=lambda package: package.name)
def package(request: pytest.FixtureRequest) -> Package:
    found: Package = request.param
    return found


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d", "f"}, "f": set()}
    assert circles(edges) == [["d", "e"], ["a", "b", "c"]]


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "one.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .inner.two import Two\n",
        "three.py": "def late():\n    import made.one\n",
        "inner/__init__.py": "from . import two\n",
        "inner/two.py": "from .. import three\nfrom ..one import One\nfrom .. import VERSION\n",
    }
    (tmp_path / "inner").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert imports_of(Package("made", tmp_path)) == {
        "made": set(),
        "made.one": {"made.inner.two"},
        "made.three": {"made.one"},
        "made.inner": {"made.inner.two"},
        "made.inner.two": {"made.three", "made.one", "made"},
    }


def test_no_circle_of_imports_is_larger_than_allowed(package: Package) -> None:
    assert [circle for circle in circles(imports_of(package)) if len(circle) > package.circle] == []


def test_imports_go_one_way(package: Package) -> None:
    start = len(package.name) + 1
    against = [
        f"{name} imports {other}"
        for name, others in imports_of(package).items()
        for layer, forbidden in package.layers.items()
        if _is_in(name[start:], layer)
        for other in sorted(others)
        if any(_is_in(other[start:], prefix) for prefix in forbidden)
    ]
    assert against == []


def _is_in(name: str, layer: str) -> bool:
    return name == layer or name.startswith(f"{layer}.")


def test_modules_stay_small(package: Package) -> None:
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules_of(package).items()}
    assert {name: count for name, count in lines.items() if count > package.module} == {}


def test_functions_fit_a_screen(package: Package) -> None:
    assert [
        f"{module}: {function} has {lines} lines"
        for module, path in modules_of(package).items()
        for function, lines in functions_of(path)
        if lines > package.function
    ] == []


def test_only_the_guard_knows_its_witnesses() -> None:
    runtime = next(one for one in PACKAGES if one.name == "gradlint.runtime")
    witnesses = f"{runtime.name}.witnesses."
    edges = imports_of(runtime)
    who = {name for name, others in edges.items() if any(other.startswith(witnesses) for other in others)}
    assert who == {"gradlint.runtime.assembly"}
    assert {name for name, others in edges.items() if "gradlint.runtime.assembly" in others} == {
        "gradlint.runtime.session"
    }


def test_few_modules_lie_outside_of_rooms(package: Package) -> None:
    if package.flat is not None:
        assert len(list(package.folder.glob("*.py"))) <= package.flat
        assert {path.name for path in package.folder.iterdir() if any(path.glob("*.py"))} == set(ROOMS)


def test_no_part_is_reached_through_another() -> None:
    """Each part of the tracer names what it is given; none asks the interpreter, or another part, for a third."""
    reaching = re.compile(r"\bself\.m\.\w+|\bself\._\w+\._\w+\.")
    tracer = next(one for one in PACKAGES if one.name == "gradlint.static")
    assert {
        name: found
        for name, path in modules_of(tracer).items()
        if (found := reaching.findall(path.read_text(encoding="utf-8")))
    } == {}


def test_parts_are_given_what_they_name() -> None:
    """What a part calls ``_tensors: Tensors`` is the interpreter's part ``tensors``, which is made of that class."""
    tree = ast.parse((ROOT / "gradlint" / "static" / "drive" / "interpreter.py").read_text(encoding="utf-8"))
    names = {"project": "Project", "reach": "Reach", "triggers": "Triggers", "witness": "Witness"}
    parts = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target, call = node.targets[0], node.value
            arguments = [each.id for each in call.args if isinstance(each, ast.Name)]
            made = isinstance(call.func, ast.Attribute) and call.func.attr == "_make"
            cls = arguments[0] if made else ast.unparse(call.func)
            if made:
                parts.add(cls)
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                names[target.attr] = cls
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            parts.update(each.id for each in node.value.args if isinstance(each, ast.Name))
    named = [
        (node.name, each.target.id, ast.unparse(each.annotation))
        for path in (ROOT / "gradlint" / "static").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name in parts
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    assert len(named) > 5 * len(parts)
    assert [one for one in named if names.get(one[1].removeprefix("_")) != one[2]] == []


def test_what_docstrings_refer_to_is_there() -> None:
    """A reference to a part of the tracer names it where it is defined, not where it is imported."""
    tracer = next(one for one in PACKAGES if one.name == "gradlint.static")
    modules = modules_of(tracer)
    reference = re.compile(rf":\w+:`~?({tracer.name}\.[\w.]+)`")
    found = [
        (name, target)
        for name, path in modules.items()
        for target in reference.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10
    assert [f"{name}: {target}" for name, target in found if not _leads_somewhere(target, modules)] == []


def _leads_somewhere(target: str, modules: Mapping[str, Path]) -> bool:
    parts = target.split(".")
    module = next(name for count in range(len(parts), 0, -1) if (name := ".".join(parts[:count])) in modules)
    rest = target[len(module) + 1 :].split(".")
    return rest == [""] or rest[0] in _defined_in(modules[module])


def _defined_in(path: Path) -> set[str]:
    """The names that a module binds at its top, other than by importing them."""
    found = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found
