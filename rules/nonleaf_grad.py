from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import GradOfTensorRead
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class NonleafGrad(Rule):
    """`.grad` of a non-leaf tensor is read, which is `None` without `retain_grad()`.

    ## What it does
    Finds reads of `.grad` on tensors that carry a graph and whose `retain_grad()` was not called.

    ## Why is this bad
    A backward pass leaves gradients in leaves only. The `.grad` of anything else is `None`, which raises where it is
    used, or quietly skips what depends on it. `torch.randn(3, requires_grad=True) * 0.01` and
    `torch.randn(3, requires_grad=True).cuda()` are not leaves.

    ## Example
    ```python
    hidden = model[0](x)
    criterion(model[3](hidden), y).backward()
    print(hidden.grad)
    ```

    ## Use instead
    ```python
    hidden = model[0](x)
    hidden.retain_grad()
    criterion(model[3](hidden), y).backward()
    print(hidden.grad)
    ```

    ## At runtime
    PyTorch warns `The .grad attribute of a Tensor that is not a leaf Tensor is being accessed`.

    ## Stays silent on
    Leaves and parameters; tensors whose `retain_grad()` was called, or that were handed to code that may call it.

    ## References
    - [torch.Tensor.retain_grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.retain_grad.html)
    """

    code = "GL106"
    name = "nonleaf-grad"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    remedy = "call .retain_grad() on it before the backward pass, or use torch.autograd.grad"

    @on(GradOfTensorRead)
    def read(self, event: GradOfTensorRead) -> Iterator[Violation]:
        tensor = event.tensor
        if not (tensor.requires_grad.is_true and tensor.is_leaf.is_false and tensor.retains_grad.is_false):
            return
        yield Violation(
            f".grad of {tensor.named('a tensor')} is None: it is not a leaf, and retain_grad() was not called",
            at=event.site,
            related=places(("it was computed here", tensor.made_at)),
        )
