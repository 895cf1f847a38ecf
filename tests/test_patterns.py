"""Patterns in the manner of ``.gitignore`` mean what they mean to git, and take no longer than they have to."""

from __future__ import annotations

import gc
import itertools
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradlint.cli import main
from gradlint.patterns import Patterns

NAMES = ("a", "b", "ab", "aab", "b.a", "a b", "-", "]", "\\", "a[b")
FOLDERS = [""] + [
    f"{'/'.join(parts)}/" for depth in (1, 2) for parts in itertools.product(("a", "ab", "b.a"), repeat=depth)
]
PATHS = [f"{folder}{name}" for folder in FOLDERS for name in NAMES if f"{folder}{name}/" not in FOLDERS]

Ignored = Callable[[str], set[str]]


@pytest.fixture(scope="module")
def by_git(tmp_path_factory: pytest.TempPathFactory) -> Ignored:
    """What git ignores of all paths, given the content of an ignore file."""
    if shutil.which("git") is None:
        pytest.skip("git is what these patterns are compared with")
    root = tmp_path_factory.mktemp("repository")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True, env=environment)
    for path in PATHS:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    asked = "\0".join(PATHS)

    def ignored(lines: str) -> set[str]:
        (root / ".git/info/exclude").write_text(lines, encoding="utf-8")
        command = ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"]
        done = subprocess.run(
            command, cwd=root, input=asked, capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return set(done.stdout.split("\0")) - {""}

    return ignored


def by_gradlint(lines: str) -> set[str]:
    patterns = Patterns(lines.split("\n"))
    return {path for path in PATHS if patterns.verdict(path, is_folder=False)}


@pytest.mark.parametrize(
    "lines",
    [
        "a", "a/", "/a", "a/b", "/a/", "**/b", "a/**", "a/**/b", "**", "**/", "/**", "*", "*/", "/*", "a*", "*a*b",
        "**/a/**/b", "a**b", "**a", "a/**b", "a//b", "/", "//", "!", "!a", "*\n!a", "*\n!b.a\n!b.a/", "a/*\n!a/b",
        "a/\n!a/b", "#a", "\\#a", "\\!a", "a\\ b", "a b ", "a b\\ ", "a\\", "\\a", "a\\/b", "\\\\", "[ab]", "[!a]",
        "[^a]", "[a-b]", "[b-a]", "[!b-a]", "[]]", "[!]]", "[]-]", "[a", "[[:alpha:]]", "[[:alpha:]b]*",
        "[[:nothing:]]", "[[:alpha:]", "[a[:digit:]-]", "[\\]]", "[\\\\]", "a/[/]b", "a[!x]b", "a[+-9]b",
        "?", "??", "*.*", "*/?", "a\\[b", "[b-a-]", "[a-b-x]", "/**//**",
        "[a-]", "[--]", "[a-\\b]", "***", "a/***", "**/**/b", "a/**/**", "**/a/b", "ab/**/*a*",
    ],
)  # fmt: skip
def test_they_mean_what_they_mean_to_git(lines: str, by_git: Ignored) -> None:
    assert by_gradlint(lines) == by_git(lines)


def test_so_do_any_others(by_git: Ignored) -> None:
    dice = random.Random(7)  # noqa: S311 -- the same patterns each time
    pieces = ("a", "b", "ab", "*", "**", "?", "/", "/", "/**/", "**/", "/**", "[ab]", "[!a]", "[]", ".", "\\", "-", " ")
    some = 0
    for _ in range(400):
        lines = "\n".join(
            dice.choice(("", "", "!")) + "".join(dice.choices(pieces, k=dice.randrange(1, 6)))
            for _ in range(dice.randrange(1, 4))
        )
        if re.search(r"[^/!\n*]\*\*|\*\*\\/", lines):
            continue  # here git leaves its manual, depending on what stands before
        found = by_git(lines)
        assert by_gradlint(lines) == found, lines
        some += 0 < len(found) < len(PATHS)
    assert some > 60  # few of them take everything or nothing


HOSTILE = [
    pytest.param("*a" * 30 + "c", "a" * 200, id="stars"),
    pytest.param("*[ab]" * 30 + "c", "ab" * 100, id="stars and sets"),
    pytest.param("*?" * 30 + "/c", "ab" * 100, id="stars and single characters"),
    pytest.param("**/a/" * 30 + "c", "/".join("a" * 200), id="folders"),
    pytest.param("**/*a*b/" * 15 + "c", "/".join(["ab" * 9] * 60), id="stars in folders"),
    pytest.param("*a/**/" * 30 + "c", "/".join(["aaaa"] * 90), id="stars before folders"),
    pytest.param("*" * 5000 + "b", "a" * 200, id="many stars"),
    pytest.param("[" * 20_000, "a", id="brackets"),
    pytest.param("[[:" * 20_000, "a", id="names of sets"),
    pytest.param("!" * 20_000, "a", id="exclamation marks"),
    pytest.param("\\" * 20_001, "a", id="backslashes"),
    pytest.param(" " * 100_000 + "a", "a", id="spaces"),
    pytest.param("a" + "\\ " * 50_000 + "b", "a", id="escaped spaces"),
    pytest.param("/" * 100_000, "a", id="slashes"),
    pytest.param("a/" * 50_000 + "**", "/".join("a" * 200), id="many parts"),
    pytest.param("[a-b]" * 20_000, "a", id="many sets"),
]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What tests before have left behind is not searched for garbage meanwhile, which may take seconds."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize(("pattern", "path"), HOSTILE)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    """Those that are matched by trying all ways take longer than anybody lives."""
    started = time.process_time()
    assert not Patterns([pattern]).verdict(path, is_folder=False)
    assert time.process_time() - started < 2


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("where", ["exclude", "extend-exclude", "per-file-ignores", ".gitignore", "nested .gitignore"])
def test_no_pattern_of_a_project_takes_long(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "/".join("a" * 40) / ("a" * 100)
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (folder / f"{'a' * 200}.py").write_text("import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n")
    stars, folders = "*a" * 30 + "c", "**/a/" * 30 + "c"
    match where:
        case ".gitignore":
            (tmp_path / where).write_text(f"{stars}\n{folders}\n")
        case "nested .gitignore":
            (folder / ".gitignore").write_text(f"{stars}\n{folders}\n")
        case "per-file-ignores":
            (tmp_path / "gradlint.toml").write_text(f"[{where}]\n'{stars}' = ['ALL']\n'!{folders}/**' = ['GL1']\n")
        case _:
            (tmp_path / "gradlint.toml").write_text(f"{where} = ['{stars}', '{folders}']\n")
    started = time.process_time()
    assert main(["--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    assert time.process_time() - started < 8
    assert "GL501" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["exclude", "extend-exclude", "per-file-ignores", ".gitignore"])
def test_more_patterns_than_anyone_writes_are_refused(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.py").write_text("")
    many = [f"x{number}" for number in range(6_000)]
    if where == ".gitignore":
        (tmp_path / where).write_text("\n".join(many))
    elif where == "per-file-ignores":
        (tmp_path / "gradlint.toml").write_text(f"[{where}]\n" + "".join(f"{name} = []\n" for name in many))
    else:
        (tmp_path / "gradlint.toml").write_text(f"{where} = {many}\n")
    assert main(["--no-cache", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(
        ".gitignore: more than 5,000 lines, which are too many to heed\n"
        if where == ".gitignore"
        else f"gradlint.toml: {where}: more than 5,000 patterns\n"
    )


@pytest.mark.parametrize("pattern", ["[z-a]", "[[:no:]]", "[a", "a\\", "[]", "(", "[[a]]", "{a,b}", "\udcff"])
def test_whatever_is_no_regular_expression_is_a_pattern(
    pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.py").write_text("")
    assert main(["--no-cache", "--extend-exclude", pattern, str(tmp_path)]) == 0
    assert capsys.readouterr() == ("No findings in 1 file.\n", "")


def test_an_ignore_file_with_windows_line_ends_and_a_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfa.py\r\nb\x0bc.py\r\n")
    for name in ("a.py", "b\x0bc.py", "c.py"):
        (tmp_path / name).write_text("")
    assert main(["--no-cache", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "No findings in 1 file.\n"
