from __future__ import annotations

from gradlint.finding import Effect, Finding, Location, Severity
from gradlint.rule import Rule, Violation


class UnknownCode(Rule):
    """A suppression comment names a rule that does not exist.

    ## What it does
    Reports codes that look like gradlint's in `# noqa: …`, and any code or slug in `# gradlint: ignore[…]`, that no
    rule has. (In a configuration file or an option an unknown code stops the run, with exit code 2.)

    ## Why is this bad
    A misspelled code suppresses nothing.

    ## Example
    ```python
    optimizer.step()  # gradlint: ignore[GL299]
    ```

    ## Use instead
    ```python
    optimizer.step()  # gradlint: ignore[GL201]
    ```

    ## At runtime
    Not seen: the guard reads no comments.

    ## Stays silent on
    Codes of other linters in `# noqa`.

    ## References
    - `gradlint rule --all` lists every code.
    """

    code = "GL003"
    name = "unknown-code"
    severity = Severity.WARNING
    effect = Effect.STYLE
    remedy = "gradlint rule --all lists every code"

    @classmethod
    def at(cls, location: Location, selector: str) -> Finding:
        """The finding for ``selector`` at ``location``."""
        return cls().finding(Violation(f"no rule is called {selector!r}", at=location))
