"""Discovery: which files are checked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.configuration import Configuration
from gradlint.discovery import Discovery


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    def make(*names: str, **contents: str) -> Path:
        for name in names:
            path = tmp_path / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("", encoding="utf-8")
        for name, content in contents.items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path

    return make


def found(root: Path, *paths: Path | str, force_exclude: bool = False) -> list[str]:
    complaints: list[str] = []
    discovery = Discovery(Configuration(), complaints.append, force_exclude=force_exclude)
    files = discovery.files([root / path for path in paths or ["."]])
    assert not complaints
    return [file.relative_to(root).as_posix() for file in files]


def test_python_files_and_notebooks_in_order(tree: Callable[..., Path]) -> None:
    root = tree("b.py", "a/z.py", "a/n.ipynb", "a/stub.pyi", "a/data.csv", "a/py", "A.py")
    assert found(root) == ["A.py", "a/n.ipynb", "a/z.py", "b.py"]


def test_the_usual_folders_are_skipped(tree: Callable[..., Path]) -> None:
    root = tree(
        "a.py", ".venv/x.py", "node_modules/x.py", "p/__pycache__/x.py", "build/x.py", "p/.ipynb_checkpoints/a.ipynb"
    )
    assert found(root) == ["a.py"]


def test_a_project_inside_a_folder_called_build_is_checked(tree: Callable[..., Path]) -> None:
    root = tree("build/project/a.py", "build/project/build/b.py")
    assert found(root, "build/project") == ["build/project/a.py"]
    assert found(root, "build") == ["build/project/a.py"]


def test_excludes_are_relative_to_the_configuration(tree: Callable[..., Path]) -> None:
    root = tree("p/src/a.py", "p/src/gen/b.py", "p/gen/c.py", "p/d_pb2.py")
    (root / "p/gradlint.toml").write_text("extend-exclude = ['src/gen', '*_pb2.py']", encoding="utf-8")
    assert found(root) == ["p/gen/c.py", "p/src/a.py"]
    assert found(root, "p/src/gen") == ["p/src/gen/b.py"]


def test_exclude_replaces_the_usual_folders(tree: Callable[..., Path]) -> None:
    root = tree("build/a.py", "old/b.py")
    (root / "gradlint.toml").write_text("exclude = ['old']", encoding="utf-8")
    assert found(root) == ["build/a.py"]


def test_named_files_are_always_checked(tree: Callable[..., Path]) -> None:
    root = tree("build/a.py", "script", "b.pyi")
    assert found(root, "build/a.py", "script", "b.pyi") == ["b.pyi", "build/a.py", "script"]


def test_unless_excludes_are_forced(tree: Callable[..., Path]) -> None:
    root = tree("build/deep/a.py", "src/b.py", gradlint__toml="")
    (root / "gradlint.toml").write_text("", encoding="utf-8")
    assert found(root, "build/deep/a.py", "build", "src/b.py", force_exclude=True) == ["src/b.py"]


def test_gitignore_in_a_repository(tree: Callable[..., Path]) -> None:
    root = tree(
        ".git/", "a.py", "out/b.py", "out/keep.py", "sub/c_gen.py", "sub/d_gen.py", "data/e.py", "sub/data/f.py"
    )
    (root / ".gitignore").write_text("out/*\n!out/keep.py\n*_gen.py\n/data/\n", encoding="utf-8")
    (root / "sub/.gitignore").write_text("!d_gen.py\n", encoding="utf-8")
    assert found(root) == ["a.py", "out/keep.py", "sub/d_gen.py", "sub/data/f.py"]
    assert found(root, "sub") == ["sub/d_gen.py", "sub/data/f.py"]


def test_a_named_ignored_folder_is_checked(tree: Callable[..., Path]) -> None:
    root = tree(".git/", "out/b.py", "out/tmp/c.py")
    (root / ".gitignore").write_text("out/\n", encoding="utf-8")
    (root / "out/.gitignore").write_text("tmp/\n", encoding="utf-8")
    assert found(root) == []
    assert found(root, "out") == ["out/b.py"]


def test_gitignore_of_an_outer_repository_ends_at_the_inner_one(tree: Callable[..., Path]) -> None:
    root = tree(".git/", "inner/.git/", "inner/a.py", "b.py")
    (root / ".gitignore").write_text("*.py\n", encoding="utf-8")
    assert found(root, "inner") == ["inner/a.py"]


def test_without_a_repository_gitignore_means_nothing(tree: Callable[..., Path]) -> None:
    root = tree("a.py")
    (root / ".gitignore").write_text("a.py\n", encoding="utf-8")
    assert found(root) == ["a.py"]


def test_a_line_git_cannot_read_is_passed_over(tree: Callable[..., Path]) -> None:
    root = tree(".git/", "a.py", "b.py")
    (root / ".gitignore").write_bytes(b"!\n\xff\xfe\nb.py\n")
    assert found(root) == ["a.py"]


def test_links_in_a_circle_are_harmless_and_a_file_is_checked_once(tree: Callable[..., Path]) -> None:
    root = tree("a/b.py")
    (root / "a/loop").symlink_to(root, target_is_directory=True)
    (root / "a/again.py").symlink_to(root / "a/b.py")
    (root / "a/nowhere.py").symlink_to(root / "missing.py")
    assert found(root) == ["a/b.py"]
    assert found(root, ".", "a", "a/b.py") == ["a/b.py"]


def test_what_cannot_be_read_is_named_and_the_rest_is_found(
    tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("a.py", "closed/b.py")
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    complaints: list[str] = []
    files = Discovery(Configuration(), complaints.append).files([root, root / "missing"])
    assert files == [root / "a.py"]
    assert complaints == [
        f"{root / 'closed'}: Permission denied",
        f"{root / 'missing'}: no such file or folder",
    ]
