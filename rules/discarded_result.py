from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import MethodNamed, ResultDiscarded
from gradlint.finding import Effect, Severity
from gradlint.intents import Append, AssignBack, unsafe
from gradlint.rule import Rule, Violation, on, places


class DiscardedResult(Rule):
    """A statement does nothing: it drops the new tensor that a method returns, or names a method without calling it.

    ## What it does
    Finds `x.to(device)`, `x.cuda()`, `x.detach()`, `x.clamp(…)`, `x.unsqueeze(0)` and the like as statements of their
    own, on values known to be tensors; and `optimizer.step`, `optimizer.zero_grad`, `loss.backward`, `model.eval` and
    the like without parentheses.

    ## Why is this bad
    The tensor stays where and what it was: modules move in place, tensors do not. A method that is not called does not
    act: without `optimizer.step()`, nothing is learnt.

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
    remedy = "assign the result, or use the in-place method where there is one; call what is to act"

    @on(ResultDiscarded)
    def discarded(self, event: ResultDiscarded) -> Iterator[Violation]:
        yield Violation(
            f".{event.method}() returns a new tensor, and its result is not used",
            at=event.site,
            related=places(("the tensor was made here", event.tensor.made_at)),
            # what is detached from here on might be trained without it
            mend=unsafe("assign it", AssignBack()) if event.method != "detach" else None,
        )

    @on(MethodNamed)
    def named(self, event: MethodNamed) -> Iterator[Violation]:
        yield Violation(
            f".{event.method} is named, and not called: this does nothing",
            at=event.site,
            mend=unsafe("call it", Append("node", "()")),
        )
