from __future__ import annotations

from collections.abc import Iterator

from gradlint import events
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, safe
from gradlint.rule import Rule, Violation, on


class DataRead(Rule):
    """`.data` of a tensor is read where `.detach()` would be checked.

    ## What it does
    Finds `.data` on values known to be tensors.

    ## Why is this bad
    Both `.data` and `.detach()` give the values without the graph, and both share memory. Only `.detach()` shares
    the version counter too: when the values are later changed in place, autograd notices with `.detach()` and
    computes wrong gradients in silence with `.data`.

    ## Example
    ```python
    norm = model(x).data.norm()
    ```

    ## Use instead
    ```python
    norm = model(x).detach().norm()
    ```

    ## Stays silent on
    Attributes merely named `data`; `torch.utils.data` under any name; where data-mutation, parameter-data-mutation
    or deprecated-variable reports the same `.data`; gradients that are changed through it (`p.grad.data.zero_()`).

    ## References
    - [torch.Tensor.detach](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html)
    """

    code = "GL102"
    name = "data-read"
    severity = Severity.STYLE
    effect = Effect.STYLE
    fix = "safe"
    remedy = "use .detach()"

    @on(events.DataRead)
    def read(self, event: events.DataRead) -> Iterator[Violation]:
        yield Violation(
            f".data of {event.tensor.named('a tensor')} is not checked by autograd: .detach() is",
            at=event.site,
            cause=event.site,
            mend=safe("detach it", Replace("node", "{receiver}.detach()", when="{receiver}.data")),
        )
