"""The plugin for pytest, in runs of pytest of its own."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401  it cannot be imported anew by each inner run

import gradlint.runtime.session  # noqa: F401  likewise

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

PREAMBLE = """
    import pytest

    def train(clear):
        import torch
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            if clear:
                optimizer.zero_grad()
            model(torch.randn(8, 2)).pow(2).mean().backward()
            optimizer.step()
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest on a file of tests, with this plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def execute(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(PREAMBLE + tests)
        plugin = ["-p", "gradlint.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers"]
        return pytester.runpytest_inprocess(*plugin, *options)

    return execute


def test_a_marked_test_fails_on_findings(run: Run) -> None:
    result = run("""
    @pytest.mark.gradlint
    def test_wrong():
        train(clear=False)

    @pytest.mark.gradlint
    def test_right():
        train(clear=True)

    def test_unmarked():
        train(clear=False)
    """)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*.py:10:9: GL201 [[]missing-zero-grad[]] gradients are added*", "*FAILED*test_wrong*"]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_the_option_watches_all_but_those_left_out(run: Run) -> None:
    tests = """
    import unittest

    def test_wrong():
        train(clear=False)

    @pytest.mark.gradlint(enabled=False)
    def test_left_out():
        train(clear=False)

    @pytest.mark.gradlint(ignore="GL2")
    def test_ignoring():
        train(clear=False)

    @pytest.mark.xfail(strict=True)
    def test_known():
        train(clear=False)

    def test_skipped():
        train(clear=False)
        pytest.skip("in the middle")

    class TestCase(unittest.TestCase):
        def test_wrong(self):
            train(clear=False)
    """
    run(tests, "--gradlint").assert_outcomes(passed=2, failed=2, xfailed=1, skipped=1)
    run(tests).assert_outcomes(passed=4, failed=1, skipped=1)


def test_the_fixture_collects_for_the_test_to_look_at(run: Run) -> None:
    tests = """
    def test_looking(autograd_guard):
        train(clear=False)
        assert [finding.code for finding in autograd_guard.findings] == ["GL201"]

    @pytest.mark.gradlint
    def test_both(autograd_guard):
        assert autograd_guard.active
        train(clear=False)
    """
    for options in ((), ("--gradlint",)):
        run(tests, *options).assert_outcomes(passed=1, failed=1)


def test_a_test_that_fails_by_itself_shows_both(run: Run) -> None:
    result = run("""
    @pytest.mark.gradlint
    def test_wrong():
        train(clear=False)
        raise RuntimeError("diverged")
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RuntimeError: diverged*", "*Captured gradlint call*", "*GL201*"])


def test_the_nearest_marker_counts(run: Run) -> None:
    run("""
    @pytest.mark.gradlint(on_finding="raise")
    class TestLoops:
        def test_raising(self):
            with pytest.raises(RuntimeError, match="GL201"):
                train(clear=False)

        @pytest.mark.gradlint(select=["GL3"])
        def test_others(self):
            train(clear=False)
    """).assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("marker", ["gradlint('GL2')", "gradlint(rules='GL2')", "gradlint(select='GL299')"])
def test_a_marker_that_makes_no_sense_is_an_error(run: Run, marker: str) -> None:
    result = run(f"""
    @pytest.mark.{marker}
    def test_any():
        pass
    """)
    assert result.ret != 0
    assert "test_any" in result.stdout.str() + result.stderr.str()


def test_nothing_is_imported_before_it_is_used(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("""
    import sys

    def test_any():
        loaded = [name for name in sys.modules if name.startswith("gradlint") or name in ("torch", "libcst", "click")]
        assert sorted(loaded) == ["gradlint", "gradlint.pytest_plugin"]
    """)
    pytester.runpytest_subprocess("-p", "gradlint.pytest_plugin").assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_by_itself() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"gradlint": "gradlint.pytest_plugin"}
