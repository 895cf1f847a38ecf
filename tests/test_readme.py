"""The README says what is so: its commands, its examples, its rule table.

``python tests/test_readme.py`` writes what is generated anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlint.manual import table
from gradlint.rule import all_rules
from gradlint.settings import FileIgnores, read_settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def rules(_: str) -> str:
    """The table of the rules that are gradlint's own."""
    return table(rule for rule in all_rules() if rule.__module__.startswith("gradlint.rules."))


def example(shown: str) -> str:
    """The example, with what the linter says about it."""
    return _run(shown, "gradlint train.py", "-m", "gradlint", "train.py", "--isolated")


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


GENERATED: dict[str, Callable[[str], str]] = {"rules": rules, "example": example, "guard": guard}


def between(text: str, name: str) -> str:
    """What stands between the markers of this name."""
    return text.split(f"<!-- {name} -->\n", 1)[1].split(f"<!-- end of {name} -->", 1)[0]


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_generated_has_not_drifted(name: str) -> None:
    if name == "guard":
        pytest.importorskip("torch", reason="the guard watches torch")
    shown = between(README.read_text(encoding="utf-8"), name)
    assert shown == GENERATED[name](shown), "the README has drifted: python tests/test_readme.py updates it"


def test_the_newcomers_commands_are_there() -> None:
    text = README.read_text(encoding="utf-8")
    assert "    python -m pip install . && gradlint --exit-zero tests/example_project\n" in text
    assert "    python -m pip install -e '.[test]' && python -m pytest\n" in text
    assert (ROOT / "tests/example_project").is_dir()


def test_the_configuration_shown_is_valid(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(shown, encoding="utf-8")
    settings = read_settings(tmp_path / "pyproject.toml")
    assert settings is not None
    assert settings.choices[-1].select == ("ALL",)
    assert settings.per_file_ignores == (FileIgnores("tests/", ("GL1",), tmp_path),)


def write() -> None:
    """Put what is generated into the README."""
    text = README.read_text(encoding="utf-8")
    for name, generate in GENERATED.items():
        shown = between(text, name)
        text = text.replace(shown + f"<!-- end of {name} -->", generate(shown) + f"<!-- end of {name} -->")
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
