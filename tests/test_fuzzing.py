"""The fuzzer tells what crashes gradlint or holds it up, and nothing else."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("hypothesmith", reason="only the environment of all tests has what makes programs of a grammar")


def _fuzz() -> ModuleType:
    path = Path(__file__).with_name("tooling") / "fuzz.py"
    spec = importlib.util.spec_from_file_location("fuzz", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


fuzz = _fuzz()
FILE = {"case.py": fuzz.FLAWED.encode()}


def test_what_is_as_it_should_be_is_no_failure() -> None:
    assert fuzz.verdict(fuzz.Case("mutants", FILE))[0] == ""
    assert fuzz.verdict(fuzz.Case("toml", {**FILE, "gradlint.toml": b"selct = 1"}))[0] == ""


def test_a_fault_is_a_failure_and_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise ValueError("a fault")

    monkeypatch.setattr("gradlint.static.drive.analysis.analyze", fail)
    assert fuzz.main(["--seconds", "0.5", "--only", "mutants", "--seed", "3", "--keep", str(tmp_path / "kept")]) == 1
    (kept, *_) = (tmp_path / "kept").iterdir()
    assert "internal error" in (kept / "said.txt").read_text()
    assert (kept / "case.py").exists()


def test_what_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> Any:
        while True:
            pass

    monkeypatch.setattr("gradlint.static.drive.analysis.analyze", hang)
    assert fuzz.verdict(fuzz.Case("mutants", FILE), limit=1)[0] == "more than 1 s"


def test_the_same_seed_makes_the_same_cases() -> None:
    for make in (fuzz.mutants, fuzz.toml, fuzz.notebooks, fuzz.messages):
        assert list(make(5)) == list(make(5))
        assert list(make(5)) != list(make(6))
    text = fuzz.sources()[0]
    assert fuzz.mutated(text, [text], random.Random(1)) != text  # noqa: S311 -- no secrets
