from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import DeprecatedUsed
from gradlint.finding import Effect, Severity
from gradlint.intents import Rename, safe
from gradlint.rule import Rule, Violation, on


class DeprecatedInit(Rule):
    """An initializer is called by its old name, without the underscore.

    ## What it does
    Finds `nn.init.xavier_uniform`, `nn.init.normal` and the others that have been renamed.

    ## Why is this bad
    They warn at each call and will be removed. The underscore says that the tensor itself is changed.

    ## Example
    ```python
    nn.init.xavier_uniform(model[0].weight)
    ```

    ## Use instead
    ```python
    nn.init.xavier_uniform_(model[0].weight)
    ```

    ## Stays silent on
    The names with an underscore; functions of other modules with the same names.

    ## References
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    """

    code = "GL902"
    name = "deprecated-init"
    severity = Severity.STYLE
    effect = Effect.STYLE
    fix = "safe"
    remedy = "use the name with an underscore"

    @on(DeprecatedUsed)
    def used(self, event: DeprecatedUsed) -> Iterator[Violation]:
        if event.kind == "init":
            old, new = (name.rpartition(".")[2] for name in (event.name, event.instead))
            mend = safe(f"use {event.instead}", Rename(old, new))
            yield Violation(f"`{event.name}` is deprecated", at=event.site, remedy=f"use {event.instead}", mend=mend)
