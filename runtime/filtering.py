"""What a project has agreed on, applied to findings of a running program: its configuration and its comments.

As in ``gradlint check``, the configuration nearest to a file holds for it, and so do the suppression comments in it.
Rules that are asked for only by the configuration of another folder than the program's are not looked for.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gradlint.configuration import Configuration, Settings
from gradlint.finding import Finding
from gradlint.refusal import Refusal
from gradlint.rule import all_rules
from gradlint.selection import Choice, Selection, codes_of, matching, resolve
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
        self._selections: dict[Choice, Selection] = {}
        self._suppressions: dict[Path, Suppressions] = {}
        self._refused = False

    def settings(self, folder: Path) -> Settings:
        """What holds in a folder (an absolute path).

        Raises:
            Refusal: a configuration that cannot be read, or a selector that means no rule.
        """
        settings = self._configuration.of_folder(folder)
        self._selection(settings)
        for selectors in settings.per_file_ignores.values():
            for selector in selectors:
                codes_of(selector, self._rules, settings.choice.origin, "per-file-ignores")
        return settings

    def codes(self, folder: Path) -> list[str]:
        """The codes of the rules to use for a program in ``folder`` (an absolute path).

        Raises:
            Refusal: as from :meth:`settings`.
        """
        return sorted(self._selection(self.settings(folder)).shown)

    def wants(self, finding: Finding) -> bool:
        """Whether neither the settings nor the comments of its file are against a finding."""
        path = Path(finding.location.filename)
        try:
            settings = self.settings(path.parent)
        except Refusal as refusal:  # no reason to end somebody's training
            if not self._refused:
                sys.stderr.write(f"gradlint: {refusal}; its settings are not used\n")
            self._refused = True
            settings = Settings()
        if finding.code not in self._selection(settings).shown:
            return False
        if any(finding.code in matching(selector, self._rules) for selector in settings.ignored_in(path)):
            return False
        return not self._comments(path).suppress(finding)

    def _selection(self, settings: Settings) -> Selection:
        if settings.choice not in self._selections:
            self._selections[settings.choice] = resolve([settings.choice, self._choice], self._rules)
        return self._selections[settings.choice]

    def _comments(self, path: Path) -> Suppressions:
        if path not in self._suppressions:
            try:
                source = read_source(path)
                self._suppressions[path] = read_suppressions(source.text, source.location)
            except SourceError:  # code that lies in no file has no comments
                self._suppressions[path] = Suppressions()
        return self._suppressions[path]
