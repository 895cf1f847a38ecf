from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import DeprecatedUsed
from gradlint.finding import Effect, Severity
from gradlint.intents import Mend, Replace, Unwrap, safe, unsafe
from gradlint.rule import Rule, Violation, on

_WHY = {
    "variable": "does nothing: every tensor has been a variable since PyTorch 0.4",
    "volatile": "is ignored: the graph is built after all",
    "index": "of a single number raises since PyTorch 0.5",
}


class DeprecatedVariable(Rule):
    """Code from before PyTorch 0.4: `Variable`, `volatile`, `loss.data[0]`.

    ## What it does
    Finds `Variable(…)`, its argument `volatile`, and `.data[0]` of a value that is a single number.

    ## Why is this bad
    `Variable` only returns its tensor. `volatile=True` once kept the graph from being built and is ignored today, so
    evaluation keeps all activations. `loss.data[0]` raises: a number has no dimension to index.

    ## Example
    ```python
    from torch.autograd import Variable

    x = Variable(x)
    ```

    ## Use instead
    ```python
    with torch.no_grad():
        output = model(x)
    ```

    ## Stays silent on
    `Variable` of other libraries and classes of the project with that name; `.data[0]` of what has elements.

    ## References
    - [PyTorch 0.4.0 migration guide](https://pytorch.org/blog/pytorch-0_4_0-migration-guide/)
    """

    code = "GL901"
    name = "deprecated-variable"
    severity = Severity.STYLE
    effect = Effect.STYLE
    fix = "safe"
    supersedes = ("GL102",)
    supersedes_within = False
    remedy = "use tensors as they are, torch.no_grad() for evaluation, and .item() for numbers"

    @on(DeprecatedUsed)
    def used(self, event: DeprecatedUsed) -> Iterator[Violation]:
        why = _WHY.get(event.kind)
        if why is not None:
            yield Violation(
                f"`{event.name}` {why}",
                at=event.site,
                cause=event.taken_at or event.site,
                remedy=f"use {event.instead}",
                mend=_mend(event),
            )


def _mend(event: DeprecatedUsed) -> Mend | None:
    if event.kind == "index":
        number = Replace("node", "{receiver of receiver}.item()", when="{receiver of receiver}.data[0]")
        return safe("use .item()", number)
    if event.kind == "variable":
        # Variable(x) is detached from the graph of x: where there may be one, more would change
        level = safe if event.detached.is_false else unsafe
        return level("use the tensor as it is", Unwrap("Variable"))
    return None
