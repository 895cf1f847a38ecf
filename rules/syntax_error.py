from __future__ import annotations

from gradlint.finding import Effect, Finding, Location, Severity
from gradlint.rule import Rule, Violation


class SyntaxError(Rule):  # noqa: A001 -- the rule is called as Python calls it
    """A file could not be read as Python, so nothing in it was checked.

    ## What it does
    Reports each file that cannot be decoded or parsed, and each notebook that is not valid JSON, with the line,
    the column and the reason. The run goes on with the other files.

    ## Why is this bad
    A file that cannot be read is a file without findings: silence would look like approval.

    ## Example
    ```python
    for x, y in loader
        loss = criterion(model(x), y)
    ```

    ## Use instead
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
    ```

    ## At runtime
    Python itself raises `SyntaxError`.

    ## Stays silent on
    Syntax that is newer than the Python gradlint runs on, wherever its parser knows it; line and cell magics of
    notebooks.

    ## References
    - [The Python language reference](https://docs.python.org/3/reference/grammar.html)
    """

    code = "GL001"
    name = "syntax-error"
    severity = Severity.ERROR
    effect = Effect.RAISES
    remedy = "fix it, or exclude the file"

    @classmethod
    def at(cls, location: Location, reason: str) -> Finding:
        """The finding for a file that fails at ``location``."""
        return cls().finding(Violation(reason, at=location))
