"""What a project has agreed on, applied to findings of a running program: its configuration and its comments.

As in ``gradlint check``, the configuration nearest to a file holds for it, and so do the suppression comments in it.
Rules that are asked for only by the configuration of another folder than the program's are not looked for.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gradlint.configuration import Configuration
from gradlint.finding import Finding
from gradlint.policy import Policy
from gradlint.refusal import Refusal
from gradlint.rule import all_rules
from gradlint.selection import Choice
from gradlint.settings import Settings
from gradlint.source import SourceError, read_source
from gradlint.suppression import Suppressions, read_suppressions


class Filter:
    """Decides which findings are wanted.

    Args:
        configuration: where settings are read.
        choice: what the command line says about rules.
    """

    def __init__(self, configuration: Configuration, choice: Choice) -> None:
        self._configuration = configuration
        self._choice = choice
        self._rules = all_rules()
        self._policies: dict[Path | None, Policy] = {}  # by the file that settings come from
        self._suppressions: dict[Path, Suppressions] = {}
        self._refused = False

    def settings(self, folder: Path) -> Settings:
        """What holds in a folder (an absolute path).

        Raises:
            Refusal: a configuration that cannot be read, or a selector that means no rule.
        """
        settings = self._configuration.of_folder(folder)
        self._policy(settings)
        return settings

    def codes(self, folder: Path) -> list[str]:
        """The codes of the rules to use for a program in ``folder`` (an absolute path).

        Raises:
            Refusal: as from :meth:`settings`.
        """
        return sorted(self._policy(self.settings(folder)).selection.shown)

    def wants(self, finding: Finding) -> bool:
        """Whether neither the settings nor the comments of its file are against a finding."""
        path = Path(finding.location.filename)
        policy = self._policy_of(path)
        if finding.code not in policy.selection.shown or policy.ignores(finding.code, path):
            return False
        return not self._comments(path).suppress(finding)

    def applied(self, finding: Finding) -> Finding:
        """The finding with the severity that the settings of its file give to its rule."""
        return self._policy_of(Path(finding.location.filename)).applied(finding)

    def _policy_of(self, path: Path) -> Policy:
        try:
            return self._policy(self._configuration.of_folder(path.parent))
        except Refusal as refusal:  # no reason to end somebody's training
            if not self._refused:
                sys.stderr.write(f"gradlint: {refusal}; its settings are not used\n")
            self._refused = True
            return self._policy(Settings())

    def _policy(self, settings: Settings) -> Policy:
        if settings.origin not in self._policies:
            self._policies[settings.origin] = Policy(settings, self._choice, self._rules)
        return self._policies[settings.origin]

    def _comments(self, path: Path) -> Suppressions:
        if path not in self._suppressions:
            try:
                source = read_source(path)
                self._suppressions[path] = read_suppressions(source.text, source.location)
            except SourceError:  # code that lies in no file has no comments
                self._suppressions[path] = Suppressions()
        return self._suppressions[path]
