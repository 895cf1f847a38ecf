"""Policy: what settings and the command line say about rules, with every selector turned into codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradlint.finding import Finding, Severity
from gradlint.selection import Choice, Selection, breadth, codes_of, resolve
from gradlint.settings import COMMAND_LINE, Settings

if TYPE_CHECKING:
    from gradlint.rule import Rule


class Policy:
    """What happens to the findings of each rule where some settings hold.

    Args:
        settings: of a folder.
        choice: what the command line says about rules.
        rules: those that are known.

    Raises:
        Refusal: a selector that means no rule, naming where it stands.
    """

    def __init__(self, settings: Settings, choice: Choice, rules: Sequence[type[Rule]]) -> None:
        self.selection: Selection = resolve([*settings.choices, choice], rules)
        self._settings = settings

        def codes(selector: str, key: str) -> frozenset[str]:
            origin = "gradlint: --" if settings.origins.get(key) == (COMMAND_LINE,) else settings.where
            return codes_of(selector, rules, origin, key)

        self._ignores = [
            (ignores, frozenset().union(*(codes(selector, "per-file-ignores") for selector in ignores.selectors)))
            for ignores in settings.per_file_ignores
        ]
        self._severities = dict(_broadest_first(settings, codes))
        fixable = frozenset[str]().union(*(codes(selector, "fixable") for selector in settings.fixable))
        self._fixable = fixable.difference(*(codes(selector, "unfixable") for selector in settings.unfixable))

    def ignores(self, code: str, path: Path) -> bool:
        """Whether ``per-file-ignores`` leaves out the rule with this code in a file."""
        return any(code in codes and ignores.holds_for(path) for ignores, codes in self._ignores)

    def applied(self, finding: Finding) -> Finding:
        """The finding with the severity it is to be reported with, and without a fix that is not wanted."""
        severity = self._severities.get(finding.code, finding.severity)
        fix = finding.fix if finding.code in self._fixable else None
        if severity is finding.severity and fix is finding.fix:
            return finding
        return replace(finding, severity=severity, fix=fix)


def _broadest_first(settings: Settings, codes: Callable[[str, str], frozenset[str]]) -> Iterator[tuple[str, Severity]]:
    """The severity of each code; what a more specific selector says comes later."""
    found = [(selector, codes(selector, "severity"), severity) for selector, severity in settings.severity.items()]
    for _, meant, severity in sorted(found, key=lambda item: -breadth(item[0], item[1])):
        yield from ((code, severity) for code in meant)
