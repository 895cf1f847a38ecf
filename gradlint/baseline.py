"""Baselines: the findings that a project had when it took gradlint up, and that are not reported again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlint.disk import Disk
from gradlint.engine import Report
from gradlint.identity import Identities, Identity
from gradlint.output.style import shown_path
from gradlint.refusal import Refusal
from gradlint.writing import write_file

VERSION = 1


@dataclass(frozen=True, slots=True)
class Change:
    """What writing a baseline anew changed in it."""

    findings: int  #: that it holds now
    added: int
    gone: int

    def told(self, path: Path, cwd: Path) -> str:
        """The change in one line."""
        what = f"{self.findings} {'finding' if self.findings == 1 else 'findings'}"
        return f"Wrote {what} to {shown_path(str(path), cwd)}: {self.added} new, {self.gone} gone.\n"


class Baseline:
    """The known findings in a file.

    Args:
        path: the file; paths in it are relative to its folder.
        known: how often each finding is known.
    """

    def __init__(self, path: Path, known: Counter[Identity] | None = None) -> None:
        self.path = path
        self.known: Counter[Identity] = known or Counter()

    @classmethod
    def read(cls, path: Path, disk: Disk) -> Baseline:
        """The baseline in a file.

        Raises:
            Refusal: it cannot be read, or is no baseline.
        """
        try:
            return cls(path, _known(json.loads(disk.read(path).decode("utf-8"))))
        except FileNotFoundError:
            raise Refusal(f"{path}: no such baseline: --write-baseline makes one") from None
        except OSError as error:
            raise Refusal(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Refusal(f"{path}: not a baseline that this version of gradlint can read: {error}") from error

    def apply(self, report: Report, checked: Callable[[str], Collection[str]]) -> None:
        """Take the known findings out of a report, and put into it which of them are gone.

        Where a finding is there more often than it is known, the last ones are reported.

        Args:
            report: of a run.
            checked: the codes that were looked for in a file (by its absolute name).
        """
        left = Counter(self.known)
        fresh = []
        for finding, identity, _ in Identities(report.read, self.path.parent).numbered(report.findings):
            if left[identity] > 0:
                left[identity] -= 1
                report.known.append(finding)
            else:
                fresh.append(finding)
        report.findings = fresh
        report.gone = [
            f"{identity}{f' ({count} times)' if count > 1 else ''}"
            for identity, count in sorted(left.items())
            if count > 0 and self._was_looked_for(identity, report, checked)
        ]

    def _was_looked_for(self, identity: Identity, report: Report, checked: Callable[[str], Collection[str]]) -> bool:
        """Whether a run would have found this again: its file was checked for it, or is no more."""
        path = self.path.parent / identity.path
        if path in report.targets:
            return path not in report.unfinished and identity.code in checked(str(path))
        return not path.exists()

    def write(self, report: Report, checked: Callable[[str], Collection[str]]) -> Change:
        """Make the findings of a report the known ones; what is known of files and rules it did not look at stays.

        Raises:
            Refusal: the file cannot be written.
        """
        identities = Identities(report.read, self.path.parent)
        now = Counter(identities.of(finding) for finding in report.findings)
        for identity, count in self.known.items():
            if not self._was_looked_for(identity, report, checked):
                now[identity] = count
        try:
            write_file(self.path, _written(now).encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise Refusal(f"{self.path}: {error.strerror}") from error
        return Change(now.total(), (now - self.known).total(), (self.known - now).total())


def _known(stored: Any) -> Counter[Identity]:
    if stored["version"] != VERSION:
        raise ValueError(f"its version is {stored['version']!r}, not {VERSION}")
    known: Counter[Identity] = Counter()
    for entry in stored["findings"]:
        parts = [entry[name] for name in ("path", "code", "definition", "line")]
        if not all(isinstance(part, str) for part in parts) or not isinstance(entry["count"], int):
            raise ValueError(f"{entry!r} is no finding")
        known[Identity(*parts)] += entry["count"]
    return known


def _written(known: Counter[Identity]) -> str:
    """A line for each finding, sorted, so that changes of it are easy to read and to merge."""
    lines = [
        json.dumps(
            {
                "path": identity.path,
                "code": identity.code,
                "definition": identity.definition,
                "line": identity.line,
                "count": count,
            },
            ensure_ascii=False,
        )
        for identity, count in sorted(known.items())
    ]
    listed = "\n    " + ",\n    ".join(lines) + "\n  " if lines else ""
    return f'{{\n  "version": {VERSION},\n  "findings": [{listed}]\n}}\n'
