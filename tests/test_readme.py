"""The README says what is so: its commands, its example, its rule table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gradlint.configuration import read_settings
from gradlint.manual import table
from gradlint.rule import all_rules

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def between(start: str, end: str) -> str:
    """What stands between two markers."""
    return README.split(f"<!-- {start} -->\n", 1)[1].split(f"<!-- {end} -->", 1)[0]


def test_the_rule_table_is_the_generated_one() -> None:
    own = [rule for rule in all_rules() if rule.__module__.startswith("gradlint.rules.")]
    assert between("rules", "end of rules") == table(own), (
        "the table has drifted: put the first part of `gradlint rule --all --output-format markdown` there"
    )


def test_the_example_gives_what_the_readme_shows(tmp_path: Path) -> None:
    source, console = re.findall(r"```\w+\n(.*?)```", between("example", "end of example"), re.DOTALL)
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "gradlint", "train.py", "--isolated"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"$ gradlint train.py\n{done.stdout}" == console, done.stderr


def test_the_newcomers_commands_are_there() -> None:
    assert "    python -m pip install . && gradlint --exit-zero tests/example_project\n" in README
    assert "    python -m pip install -e '.[test]' && python -m pytest\n" in README
    assert (ROOT / "tests/example_project").is_dir()


def test_the_configuration_shown_is_valid(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(shown, encoding="utf-8")
    settings = read_settings(tmp_path / "pyproject.toml")
    assert settings is not None
    assert settings.choice.select == ("ALL",)
    assert settings.per_file_ignores == {"tests/": ("GL1",)}
