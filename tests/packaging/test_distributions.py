"""What is built holds what it must, and nothing else."""

from __future__ import annotations

import ast
import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
OUTSIDE = {"gradlint.rules": "rules", "gradlint.runtime": "runtime"}


def packages_on_disk() -> dict[str, str]:
    """Every package and its folder."""
    found = {}
    for name, top in {"gradlint": "gradlint", **OUTSIDE}.items():
        for init in (ROOT / top).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / top).parts
            found[".".join((name, *inner))] = init.parent.relative_to(ROOT).as_posix()
    return found


def test_the_packages_are_those_on_disk() -> None:
    assert sorted(SETUPTOOLS["packages"]) == sorted(packages_on_disk())
    assert SETUPTOOLS["package-dir"] == OUTSIDE


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for top in ("gradlint", "rules", "runtime")
        for path in (ROOT / top).rglob("*.py")
    }
    assert folders == set(packages_on_disk().values())


def test_the_wheel_holds_every_module_and_no_test(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {"gradlint/py.typed", "gradlint/gradlint.schema.json"}
    for package, folder in packages_on_disk().items():
        inside = PurePosixPath(*package.split("."))
        files = [path for ending in ("py", "html", "css") for path in (ROOT / folder).glob(f"*.{ending}")]
        wanted |= {str(inside / path.name) for path in files}
    data = (ROOT / "gradlint" / "static" / "knowledge" / "libraries").glob("*.toml")
    wanted |= {path.relative_to(ROOT).as_posix() for path in data}
    assert {"gradlint/runtime/page/page.html", "gradlint/static/knowledge/libraries/timm.toml"} <= wanted
    modules = {name for name in names if ".dist-info/" not in name}
    assert modules == wanted
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_needs_no_torch(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    lines = archive.read(metadata).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert sorted(line.split()[1].split(">")[0] for line in needed) == ["click", "libcst"]
    version = next(line.split()[1] for line in lines if line.startswith("Version:"))
    assert version == declared_version()


def test_the_metadata_says_who_and_what_without_addresses_that_do_not_exist(distributions: Path, run: Run) -> None:
    (wheel,) = distributions.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Author"] == "The gradlint developers"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_all("Project-URL") is None, "the project has no public home"
    checked = run(sys.executable, "-m", "twine", "check", "--strict", *distributions.iterdir(), cwd=distributions)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_pages_name_this_version() -> None:
    named = {
        version
        for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.yml"), ROOT / "README.md"]
        for version in re.findall(r"(?:@|\bref: |\brev: )v(\d+\.\d+\.\d+)\b", path.read_text(encoding="utf-8"))
    }
    assert named == {declared_version()}


def declared_version() -> str:
    for node in ast.parse((ROOT / "gradlint/__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return str(ast.literal_eval(node.value))
    raise AssertionError("gradlint/__init__.py declares no __version__")


def test_the_source_distribution_holds_every_tracked_file(distributions: Path, snapshot: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    tracked = {path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()}
    tracked = {name for name in tracked if not name.startswith((".git/", "build/", "gradlint.egg-info/"))}
    assert tracked <= held


def test_the_changelog_tells_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{declared_version()}]" in changelog
