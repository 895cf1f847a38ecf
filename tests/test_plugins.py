"""Whether an installed package may bring rules, told without ``importlib.metadata``."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from gradlint import plugins

DECLARED = "[gradlint.rules]\nhouse = house\n"
OTHER = "[console_scripts]\nhouse = house:main\n"


@pytest.fixture(autouse=True)
def only_what_python_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that a test before has imported, such as importlib_metadata, may find packages in Python's stead."""
    finders = [finder for finder in sys.meta_path if finder is PathFinder or not hasattr(finder, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", finders)
    find = importlib.metadata.MetadataPathFinder.find_distributions
    monkeypatch.setattr(PathFinder, "find_distributions", staticmethod(find), raising=False)


def install(folder: Path, about: str, entry_points: str | None) -> None:
    info = folder / about
    info.mkdir(parents=True)
    (info / ("PKG-INFO" if about.lower().endswith("egg-info") else "METADATA")).write_text("Name: house\nVersion: 1\n")
    if entry_points is not None:
        (info / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize(
    ("below", "about", "entry_points"),
    [
        ("site", "house-1.dist-info", DECLARED),
        ("site", "house.egg-info", DECLARED),
        ("house.egg", "EGG-INFO", DECLARED),
        ("site", "house-1.dist-info", OTHER),
        ("site", "house-1.dist-info", None),
        ("site", "house", DECLARED),
    ],
)
def test_it_agrees_with_importlib_metadata(below: str, about: str, entry_points: str | None, tmp_path: Path) -> None:
    folder = tmp_path / below
    install(folder, about, entry_points)
    found = importlib.metadata.distributions(path=[str(folder)])
    declared = any(entry.group == plugins.GROUP for distribution in found for entry in distribution.entry_points)
    assert declared is (entry_points == DECLARED and about != "house")
    assert plugins.may_be_brought([str(folder)]) is declared


def test_what_is_no_folder_may_hold_any_package(tmp_path: Path) -> None:
    archive = tmp_path / "site.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("house-1.dist-info/METADATA", "Name: house\nVersion: 1\n")
        file.writestr("house-1.dist-info/entry_points.txt", DECLARED)
    assert plugins.may_be_brought([str(archive)])
    assert not plugins.may_be_brought([str(tmp_path / "nowhere"), ""])


def test_packages_are_installed_in_some_folders_only(tmp_path: Path) -> None:
    own = str(Path(plugins.__file__).parents[1])
    site, debian = str(tmp_path / "lib" / "site-packages"), "/usr/lib/python3/dist-packages"
    others = ["", ".", "site-packages", str(tmp_path), "/usr/lib/python3.11", "/usr/lib/python311.zip"]
    assert plugins.installed([*others, site, own, *others, debian, site]) == [site, own, debian]


def test_of_two_packages_of_one_name_the_first_counts(tmp_path: Path) -> None:
    folders = []
    for name in ("first", "second"):
        folder = tmp_path / name / "site-packages"
        install(folder, "house-1.dist-info", DECLARED.replace("= house", f"= {name}"))
        install(folder, f"{name}-1.dist-info", DECLARED.replace("house", name))
        (folder / f"{name}-1.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        folders.append(str(folder))
    assert sorted(entry.value for entry in plugins._declared(folders)) == ["first", "first", "second"]


def test_what_finds_packages_elsewhere_may_find_any(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_distributions(context: object = None) -> list[importlib.metadata.Distribution]:
            return []

    assert not plugins.may_be_brought([])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert plugins.may_be_brought([])


def test_a_check_of_one_file_imports_only_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n")
    program = "import sys; from gradlint.cli import main; main(); print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-I", "-c", program, "check", "--isolated", "--no-cache", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "GL501" in done.stdout
    assert {"importlib.metadata", "multiprocessing"}.isdisjoint(done.stderr.split())
