from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import RequiresGradSet
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class NonleafRequiresGrad(Rule):
    """`requires_grad` is set on a non-leaf tensor, the result of a computation.

    ## What it does
    Finds assignments to `requires_grad`, and calls of `requires_grad_()`, on tensors that carry a graph.

    ## Why is this bad
    The flag can be chosen for leaves only. On a result the assignment raises, `requires_grad_(False)` raises, and
    `requires_grad_()` does nothing.

    ## Example
    ```python
    features = model(x)
    features.requires_grad = False
    ```

    ## Use instead
    ```python
    features = model(x).detach()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: you can only change requires_grad flags of leaf variables`.

    ## Stays silent on
    Parameters and inputs; results that were detached first, or computed where gradients are disabled.

    ## References
    - [torch.Tensor.requires_grad_](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.requires_grad_.html)
    """

    code = "GL105"
    name = "nonleaf-requires-grad"
    severity = Severity.ERROR
    effect = Effect.RAISES
    remedy = "use .detach() to stop gradients, or set requires_grad on the leaves"

    @on(RequiresGradSet)
    def asked(self, event: RequiresGradSet) -> Iterator[Violation]:
        tensor = event.tensor
        if not (tensor.requires_grad.is_true and tensor.is_leaf.is_false):
            return
        if not event.assigned and not event.value.known:
            return
        raises = event.assigned or event.value.is_false
        yield Violation(
            f"{tensor.named('the result of a computation')} is not a leaf: "
            + ("setting requires_grad raises" if raises else "requires_grad_() changes nothing"),
            at=event.site,
            related=places(("it was computed here", tensor.made_at)),
        )
