"""The plugin for pytest: tests that fail on what the guard finds.

It is loaded wherever gradlint and pytest are installed together, so that it imports nothing before it is used.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradlint.runtime import Guard

_GUARD: pytest.StashKey[Guard] = pytest.StashKey()
_OPTIONS = {"enabled", "select", "ignore", "exact", "on_finding", "include_libraries"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gradlint``."""
    group = parser.getgroup("gradlint", "PyTorch autograd pitfalls")
    group.addoption("--gradlint", action="store_true", help="watch every test, and fail those with findings")


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker."""
    config.addinivalue_line(
        "markers",
        "gradlint(enabled=True, select=None, ignore=None, exact=False, on_finding='collect', include_libraries=False): "
        "watch the test with gradlint's guard and fail it on findings; enabled=False leaves it out of --gradlint",
    )


@pytest.fixture
def autograd_guard(request: pytest.FixtureRequest) -> Guard:
    """The guard that watches this test; its ``findings`` are for the test to look at."""
    guard = _made(request.node)
    request.node.stash[_GUARD] = guard
    return guard


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Watch a test, and fail it on findings where that was asked for."""
    guard = item.stash.get(_GUARD, None)
    marker = item.get_closest_marker("gradlint")
    wanted = bool(_options(item).get("enabled", True)) if marker else guard is None and item.config.option.gradlint
    if guard is None:
        if not wanted:
            return (yield)
        guard = _made(item)
    try:
        with guard:
            result = yield
    except BaseException:
        if wanted and guard.findings:
            item.add_report_section("call", "gradlint", _told(item, guard))
        raise
    if wanted and guard.findings:
        pytest.fail(_told(item, guard), pytrace=False)
    return result


def _options(item: pytest.Item) -> dict[str, object]:
    """What the markers of a test say, the nearest one first."""
    options: dict[str, object] = {}
    for marker in item.iter_markers("gradlint"):
        if marker.args or not marker.kwargs.keys() <= _OPTIONS:
            raise pytest.UsageError(f"{item.nodeid}: the marker gradlint takes {', '.join(sorted(_OPTIONS))} by name")
        options = {**marker.kwargs, **options}
    return options


def _made(item: pytest.Item) -> Guard:
    import gradlint

    options: dict[str, Any] = {"on_finding": "collect", **_options(item)}
    options.pop("enabled", None)
    try:
        guard: Guard = gradlint.guard(**options)
    except (ModuleNotFoundError, ValueError) as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    return guard


def _told(item: pytest.Item, guard: Guard) -> str:
    from gradlint.runtime.reporting import told

    text: str = told(guard.findings, "text", item.config.invocation_params.dir)
    return text.rstrip("\n")
