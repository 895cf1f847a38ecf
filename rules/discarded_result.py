from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ResultDiscarded
from gradlint.finding import Effect, Severity
from gradlint.intents import AssignBack, unsafe
from gradlint.rule import Rule, Violation, on, places


class DiscardedResult(Rule):
    """A method that returns a new tensor is called as a statement, and its result is lost.

    ## What it does
    Finds `x.to(device)`, `x.cuda()`, `x.detach()`, `x.clamp(…)`, `x.unsqueeze(0)` and the like as statements of their
    own, on values known to be tensors.

    ## Why is this bad
    The statement does nothing: the tensor stays where and what it was. Modules move in place, tensors do not.

    ## Example
    ```python
    noise = torch.randn(4, 8)
    noise.clamp(-1, 1)
    output = model(x + noise)
    ```

    ## Use instead
    ```python
    noise = torch.randn(4, 8)
    noise = noise.clamp(-1, 1)
    output = model(x + noise)
    ```

    ## Stays silent on
    Modules and losses, which change in place; batches of other libraries; in-place methods (`clamp_`); the value that
    a notebook shows; computations without an in-place form (`x.matmul(y)`), which may be timed.

    ## References
    - [torch.Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
    """

    code = "GL505"
    name = "discarded-result"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "assign the result, or use the in-place method where there is one"

    @on(ResultDiscarded)
    def discarded(self, event: ResultDiscarded) -> Iterator[Violation]:
        yield Violation(
            f".{event.method}() returns a new tensor, and its result is not used",
            at=event.site,
            related=places(("the tensor was made here", event.tensor.made_at)),
            # what is detached from here on might be trained without it
            mend=unsafe("assign it", AssignBack()) if event.method != "detach" else None,
        )
