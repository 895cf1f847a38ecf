from __future__ import annotations

from gradlint.finding import Effect, Finding, Location, Severity
from gradlint.rule import Rule, Violation


class UnusedSuppression(Rule):
    """A suppression comment that suppresses nothing.

    ## What it does
    Reports `# gradlint: ignore`, and each code of gradlint named in `# gradlint: ignore[…]` or `# noqa: …`, when the
    line has no such finding.

    ## Why is this bad
    The comment outlives the mistake it excused, misleads the reader and will hide the next mistake of its kind.

    ## Example
    ```python
    count = len(loader)  # gradlint: ignore[GL201]
    ```

    ## Use instead
    ```python
    count = len(loader)
    ```

    ## At runtime
    Not seen: the guard reads no comments.

    ## Stays silent on
    A bare `# noqa`, which may be meant for another linter; codes of other linters; codes of rules that are not
    selected, or that only the guard can see.

    ## References
    - [Ruff: unused-noqa](https://docs.astral.sh/ruff/rules/unused-noqa/)
    """

    code = "GL002"
    name = "unused-suppression"
    severity = Severity.WARNING
    effect = Effect.STYLE
    opt_in = True
    remedy = "remove it"

    @classmethod
    def at(cls, location: Location, what: str) -> Finding:
        """The finding for the directive or code ``what`` at ``location``."""
        return cls().finding(Violation(f"{what} suppresses nothing here", at=location))
