"""The README and the pages of the documentation say what is so: their commands, examples, configuration and links.

``python tests/test_readme.py`` writes what is generated anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from gradlint.cli import cli

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DESCRIPTION = ROOT / "docs/description.md"
ONE_SCREEN = 60  #: lines


def example(shown: str) -> str:
    """The example, with what the linter says about it."""
    return _run(shown, "gradlint train.py", "-m", "gradlint", "train.py", "--isolated", "--no-cache")


def guard(shown: str) -> str:
    """The example of the guard, with what it says."""
    return _run(shown, "python train.py", "train.py")


def _run(shown: str, command: str, *arguments: str) -> str:
    source = shown.split("```console\n")[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(source.removeprefix("```python\n").split("```")[0], encoding="utf-8")
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        told = done.stdout.replace(f"{folder.resolve()}/", "")
    return f"{source}```console\n$ {command}\n{told}```\n"


GENERATED: dict[tuple[Path, str], Callable[[str], str]] = {
    (README, "example"): example,
    (ROOT / "docs/index.md", "example"): example,
    (ROOT / "docs/guard.md", "guard"): guard,
}


def between(text: str, name: str) -> str:
    """What stands between the markers of this name."""
    return text.split(f"<!-- {name} -->\n", 1)[1].split(f"<!-- end of {name} -->", 1)[0]


def description(readme: str) -> str:
    """The README as an index of packages shows it, where links into the repository lead nowhere."""
    own = between(readme, "repository")
    elsewhere = (
        "The documentation is in the folder `docs` of the source distribution; `gradlint rule --all` lists the rules.\n"
    )
    text = readme.replace(f"<!-- repository -->\n{own}<!-- end of repository -->\n", elsewhere)
    return re.sub(r"^<!-- .* -->\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("page", "name"), GENERATED, ids=lambda part: getattr(part, "name", part))
def test_what_is_generated_has_not_drifted(page: Path, name: str) -> None:
    if name == "guard":
        pytest.importorskip("torch", reason="the guard watches torch")
    shown = between(page.read_text(encoding="utf-8"), name)
    assert shown == GENERATED[page, name](shown), f"{page.name} has drifted: python tests/test_readme.py renews it"


def test_the_description_for_an_index_is_the_readme_without_links_into_the_repository() -> None:
    shown = DESCRIPTION.read_text(encoding="utf-8")
    assert shown == description(README.read_text(encoding="utf-8")), "python tests/test_readme.py renews it"
    assert [link for link in links(shown) if not link.startswith("https://")] == []
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["readme"]
    assert ROOT / declared == DESCRIPTION


def test_the_newcomers_commands_are_there() -> None:
    text = README.read_text(encoding="utf-8")
    assert "    python -m pip install . && gradlint --exit-zero tests/example_project\n" in text
    assert "    python -m pip install -e '.[test]' && python -m pytest\n" in text
    assert (ROOT / "tests/example_project").is_dir()


def test_the_readme_is_one_screen() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= ONE_SCREEN


def links(text: str) -> list[str]:
    """Where the links of a page lead."""
    return re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL))


def test_the_links_of_the_readme_lead_somewhere() -> None:
    led = links(README.read_text(encoding="utf-8"))
    assert len(led) > 5
    assert [link for link in led if not link.startswith("https://") and not (ROOT / link).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_that_pages_name_exist(page: Path) -> None:
    for command, option in named_options(page.read_text(encoding="utf-8")):
        known = {name for parameter in command.params for name in parameter.opts} | {"--help", "--version"}
        assert option in known, f"gradlint {command.name} has no {option}"


def named_options(text: str) -> Iterator[tuple[click.Command, str]]:
    """The options that stand behind ``gradlint`` in the commands of a page, with the command they belong to."""
    for line in re.findall(r"(?:^    |`|^\$ |-m )(gradlint [^`#\n]*)", text, re.MULTILINE):
        words = line.split()[1:]
        context = click.Context(cli)
        command = cli.get_command(context, words[0] if words else "") or cli.get_command(context, "check")
        assert command is not None
        for before, word in pairwise(["", *words]):
            if command.name == "run" and (before == "-m" or word.endswith(".py")):
                break  # what follows is the program's own
            if word.startswith("-") and len(word) > 1:
                yield command, word.partition("=")[0].rstrip(".,;:)")


def test_the_options_of_commands_are_seen() -> None:
    seen = list(
        named_options("    gradlint --fix .\n`gradlint run -m x` and\n    gradlint run --exact 1 a.py --epochs 3")
    )
    assert [(command.name, option) for command, option in seen] == [
        ("check", "--fix"),
        ("run", "-m"),
        ("run", "--exact"),
    ]


def test_the_configuration_shown_is_accepted_and_holds(tmp_path: Path) -> None:
    shown = re.findall(r"```toml.*?\n(.*?)```", (ROOT / "docs/configuration.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    (tmp_path / "tests").mkdir()
    for name in ("train.py", "tests/test_train.py"):
        source = "import torch\n\nweight = torch.nn.Parameter(torch.ones(2))\nweight.data.zero_()\nprint(weight.data)\n"
        (tmp_path / name).write_text(source, encoding="utf-8")
    for text in shown:
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "gradlint", "--no-cache", "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 2, done.stderr
        if text is shown[0]:
            assert "train.py:5:7: GL102" in done.stdout, "all rules are selected"
            assert "GL110" not in done.stdout, "one is ignored"
            assert "test_train.py" not in done.stdout, "and more in tests"


def write() -> None:
    """Put what is generated into the pages."""
    for (page, name), generate in GENERATED.items():
        text = page.read_text(encoding="utf-8")
        shown = between(text, name)
        text = text.replace(shown + f"<!-- end of {name} -->", generate(shown) + f"<!-- end of {name} -->")
        page.write_text(text, encoding="utf-8")
    DESCRIPTION.write_text(description(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
