from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.source import Source, SourceError, read_source
from gradlint.static.text.files import Module
from gradlint.static.text.project import Project

Make = Callable[..., Project]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(*empty: str, marker: str = "pyproject.toml", **files: str) -> Project:
        for name in (marker, *empty):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        return Project([tmp_path])

    return make


def where(module: Module | None, root: Path) -> str | None:
    return None if module is None else module.path.relative_to(root).as_posix()


@pytest.mark.parametrize(
    ("files", "importer", "name", "found"),
    [
        # a script finds what lies beside it, and its packages
        ("a.py b.py", "a.py", "b", "b.py"),
        ("a.py p/__init__.py p/m.py", "a.py", "p", "p/__init__.py"),
        ("a.py p/__init__.py p/m.py", "a.py", "p.m", "p/m.py"),
        ("a.py p/__init__.py p/m.py", "a.py", "p.m.f", None),
        ("a.py p/m.py", "a.py", "p", "p"),
        ("a.py p/m.py", "a.py", "p.m", "p/m.py"),
        # a regular package comes before a module, and both before a namespace package
        ("a.py p.py p/__init__.py", "a.py", "p", "p/__init__.py"),
        ("a.py p.py p/m.py", "a.py", "p", "p.py"),
        ("s/a.py s/p/m.py p.py", "s/a.py", "p", "p.py"),
        ("a.py p/data.csv", "a.py", "p", None),
        # the folders above, up to the root of the project
        ("scripts/train/a.py p/__init__.py", "scripts/train/a.py", "p", "p/__init__.py"),
        ("scripts/a.py src/p/__init__.py", "scripts/a.py", "p", "src/p/__init__.py"),
        ("tests/a.py src/p.py", "tests/a.py", "p", "src/p.py"),
        # inside a package absolute names start above it
        ("p/__init__.py p/a.py p/b.py b.py", "p/a.py", "b", "b.py"),
        ("p/__init__.py p/a.py p/b.py", "p/a.py", "p.b", "p/b.py"),
        ("p/__init__.py p/q/__init__.py p/q/a.py p/b.py", "p/q/a.py", "p.b", "p/b.py"),
        ("p/__init__.py p/a.py p/b.py", "p/a.py", "b", "p/b.py"),
        # spelling counts, on every file system
        ("a.py Models.py", "a.py", "models", None),
        # what is installed is not of the project
        ("a.py torch/__init__.py torch/nn.py", "a.py", "torch.nn", None),
        ("a.py numpy.py", "a.py", "numpy", None),
        ("a.py sys.py", "a.py", "sys", None),
        ("a.py json.py", "a.py", "json", "json.py"),
        ("p/__init__.py p/a.py p/types.py", "p/a.py", "types", None),
        ("s/a.py types.py", "s/a.py", "types", None),
        ("a.py random/x.py", "a.py", "random", None),
        ("a.py", "a.py", "lightning", None),
        ("a.py", "a.py", "", None),
        ("a.py", "a.py", "..", None),
    ],
)
def test_absolute_imports(make: Make, tmp_path: Path, files: str, importer: str, name: str, found: str | None) -> None:
    project = make(*files.split())
    assert where(project.resolve(name, project.module(tmp_path / importer)), tmp_path) == found


@pytest.mark.parametrize(
    ("importer", "level", "name", "found"),
    [
        ("p/q/a.py", 1, "", "p/q/__init__.py"),
        ("p/q/a.py", 1, "b", "p/q/b.py"),
        ("p/q/a.py", 2, "", "p/__init__.py"),
        ("p/q/a.py", 2, "c", "p/c.py"),
        ("p/q/a.py", 2, "q.b", "p/q/b.py"),
        ("p/q/a.py", 2, "none", None),
        ("p/q/a.py", 4, "", None),
        ("p/q/__init__.py", 1, "b", "p/q/b.py"),
        ("p/q/__init__.py", 2, "c", "p/c.py"),
        ("loose/a.py", 1, "b", "loose/b.py"),
        ("loose/a.py", 1, "", "loose"),
        ("top.py", 1, "loose", "loose"),
    ],
)
def test_relative_imports(make: Make, tmp_path: Path, importer: str, level: int, name: str, found: str | None) -> None:
    project = make(
        *("p/__init__.py", "p/c.py", "p/q/__init__.py", "p/q/a.py", "p/q/b.py", "loose/a.py", "loose/b.py", "top.py")
    )
    assert where(project.imported(level, name, project.module(tmp_path / importer)), tmp_path) == found


def test_names(make: Make, tmp_path: Path) -> None:
    project = make("a.py", "p/__init__.py", "p/q/__init__.py", "p/q/m.py")
    for path, name, package, is_package in [
        ("a.py", "a", "", False),
        ("p/__init__.py", "p", "p", True),
        ("p/q/__init__.py", "p.q", "p.q", True),
        ("p/q/m.py", "p.q.m", "p.q", False),
    ]:
        module = project.module(tmp_path / path)
        assert (module.name, module.package, module.is_package) == (name, package, is_package)


def test_submodules(make: Make, tmp_path: Path) -> None:
    project = make("a.py", "p/__init__.py", "p/m.py", "n/m.py")
    importer = project.module(tmp_path / "a.py")
    regular, namespace = project.resolve("p", importer), project.resolve("n", importer)
    assert regular is not None
    assert namespace is not None
    assert (namespace.units, namespace.is_package) == ((), True)
    assert where(project.submodule(regular, "m"), tmp_path) == "p/m.py"
    assert where(project.submodule(namespace, "m"), tmp_path) == "n/m.py"
    assert project.submodule(regular, "none") is None
    assert project.submodule(importer, "p") is None
    assert namespace.words == frozenset()


def test_a_module_is_read_once_under_all_its_names(make: Make, tmp_path: Path) -> None:
    make("p/__init__.py", "p/m.py", a="import p.m")
    read: list[Path] = []

    def reader(path: Path) -> Source:
        read.append(path)
        return read_source(path)

    project = Project([tmp_path], read=reader)
    importer = project.module(tmp_path / "a.py")
    module = project.resolve("p.m", importer)
    assert project.module(tmp_path / "p" / "m.py") is module
    assert project.resolve("p.m", importer) is module
    assert project.module(Path(os.path.relpath(tmp_path / "p" / "m.py"))) is module
    assert len(read) == 2
    assert project.modules_loaded == (importer, module)
    assert importer.words == {"import", "p", "m"}


def test_broken_files_are_told_where_they_are_checked_only(make: Make, tmp_path: Path) -> None:
    project = make(a="import b", b="def f(:", c="x = '\0'")
    (tmp_path / "d.py").write_bytes(b"\xff")
    importer = project.module(tmp_path / "a.py")
    for name in "bcd":
        found = project.resolve(name, importer)
        assert found is None or not found.units
        with pytest.raises(SourceError):
            project.module(tmp_path / f"{name}.py")
    with pytest.raises(SourceError, match="No such file"):
        project.module(tmp_path / "none.py")


def test_nothing_outside_of_the_project_is_read(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "a.py").touch()
    (tmp_path / "outside.py").touch()
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "pkg" / "loop").symlink_to(root / "pkg")
    (root / "pkg" / "m.py").touch()
    project = Project([root / "a.py"])
    importer = project.module(root / "a.py")
    assert project.resolve("outside", importer) is None
    assert project.resolve("link", importer) is None
    looped = project.resolve("pkg.loop.loop.m", importer)
    assert looped is not None
    assert looped is project.resolve("pkg.m", importer)
    assert project.importers_of([root / "pkg" / "m.py"]) == []


def test_the_given_root_serves_where_nothing_marks_one(tmp_path: Path) -> None:
    for name in ("work/scripts/a.py", "work/lib.py", "above.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    project = Project([tmp_path / "work"])
    importer = project.module(tmp_path / "work" / "scripts" / "a.py")
    assert where(project.resolve("lib", importer), tmp_path) == "work/lib.py"
    assert project.resolve("above", importer) is None
    alone = Project([tmp_path / "work" / "scripts" / "a.py"])
    assert alone.resolve("lib", alone.module(tmp_path / "work" / "scripts" / "a.py")) is None


def test_importers(make: Make, tmp_path: Path) -> None:
    project = make(
        "p/__init__.py",
        "venv/x.py",
        direct="from p.net import Net",
        listed="from p import (\n    a,  # why\n    net as n,\n)",
        continued="from p import a, \\\n    net",
        plain="if x:\n    import os, p.net as n; y = 1",
        indirect="from direct import *",
        twice="import indirect",
        other="# import net\nx = 'import'; from_net = 1\nimport torch",
        dotted="from . import direct",
    )
    (tmp_path / "p" / "net.py").write_text("import torch")
    (tmp_path / "p" / "use.py").write_text("from .net import Net")
    (tmp_path / "venv" / "y.py").write_text("import p.net")
    cells = [{"cell_type": "code", "source": ["import torch\n", "from p.net import Net\n"]}]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells}, indent=1))
    (tmp_path / "flat.ipynb").write_text(json.dumps({"cells": [{"source": "import torch\nimport twice\n"}]}))
    names = [where.relative_to(tmp_path).as_posix() for where in project.importers_of([tmp_path / "p" / "net.py"])]
    assert names == [
        *("book.ipynb", "continued.py", "direct.py", "dotted.py", "flat.ipynb", "indirect.py", "listed.py"),
        *("p/use.py", "plain.py", "twice.py"),
    ]
    assert project.importers_of([tmp_path / "other.py"]) == []
    assert project.importers_of([tmp_path / "p" / "net.py"], limit=5) == []
    nearest = project.importers_of([tmp_path / "p" / "net.py"], limit=7)
    assert [path.name for path in nearest] == [
        *("book.ipynb", "continued.py", "direct.py", "listed.py", "use.py", "plain.py")
    ]
    net = tmp_path / "p" / "net.py"
    sizes = {path: len(path.read_text()) for path in nearest if path.suffix == ".py"}
    room = sum(sizes.values()) + len("import torch\nfrom p.net import Net\n")
    assert project.importers_of([net], room=room) == nearest
    assert project.importers_of([net], room=room - 1) == []
    net.write_text("import torch" + "#" * room)
    assert Project([tmp_path]).importers_of([net], room=0) == nearest  # no less than the file itself holds
    everything = [tmp_path / name for name in (*names, "p/net.py")]
    assert project.importers_of(everything) == []


def test_importers_are_told_by_path_not_by_name(make: Make, tmp_path: Path) -> None:
    project = make(
        *("p/__init__.py", "p/model.py", "q/__init__.py", "q/model.py", "q/r/__init__.py"),
        uses_p="from p.model import Net",
        uses_q="from q.model import Net",
        package="import q",
    )
    (tmp_path / "q" / "r" / "m.py").write_text("from ..model import Net")
    (tmp_path / "q" / "__init__.py").write_text("from . import model")

    def importers(name: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in project.importers_of([tmp_path / name])]

    assert importers("p/model.py") == ["uses_p.py"]
    assert importers("q/model.py") == ["package.py", "q/__init__.py", "q/r/m.py", "uses_q.py"]


def test_only_so_much_is_searched_for_importers(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlint.static.text.importers.MAX_FILES", 3)
    make("p/__init__.py", "p/q/__init__.py", "p/q/net.py")
    for name in ("p/q/use", "p/use", "use"):
        (tmp_path / f"{name}.py").write_text("from p.q.net import Net")
    found = Project([tmp_path]).importers_of([tmp_path / "p" / "q" / "net.py"])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["p/q/use.py"]


def test_notebooks_are_modules(make: Make, tmp_path: Path) -> None:
    project = make(net="class Net: pass")
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "%cd ..\nfrom net import Net"}]}))
    module = project.module(path)
    assert [unit.row for unit in module.units] == [1, 2]
    assert module.units[1].locate(module.units[1].node).cell == 1
    assert where(project.resolve("net", module), tmp_path) == "net.py"
