from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import PlainTensorUsed, TensorKept
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class UnregisteredParameter(Rule):
    """A weight of a module is a plain tensor instead of a parameter.

    ## What it does
    Finds attributes that a module sets in `__init__` to a tensor with `requires_grad=True`, to a converted parameter
    (`nn.Parameter(…).cuda()`), or to random numbers that its forward pass multiplies with.

    ## Why is this bad
    Only `nn.Parameter` objects are in `parameters()`. A plain tensor is never given to the optimizer, not moved by
    `to()`, and not saved. Converting a parameter gives a plain tensor: only the original is a parameter.

    ## Example
    ```python
    class Bilinear(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = torch.randn(width, width, requires_grad=True)

        def forward(self, a, b):
            return a @ self.weight * b

    output = Bilinear(8)(x, x)
    ```

    ## Use instead
    ```python
    class Bilinear(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(width, width))

        def forward(self, a, b):
            return a @ self.weight * b

    output = Bilinear(8)(x, x)
    ```

    ## At runtime
    The guard sees tensors that require grad, when their module is first called. It does not know which plain tensors
    hold random numbers.

    ## Stays silent on
    Tensors that are wrapped in a parameter in the end; tensors that an optimizer is given by hand, or that are trained
    by hand or set anew; classes that are not modules.

    ## References
    - [torch.nn.parameter.Parameter](https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html)
    """

    code = "GL409"
    name = "unregistered-parameter"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "wrap the finished tensor: nn.Parameter(tensor); a model is moved as a whole, by model.to(device)"

    @on(TensorKept)
    def kept(self, event: TensorKept) -> Iterator[Violation]:
        if not event.requires_grad.is_true or not event.registered.is_false:
            return
        if event.computed.is_true:
            what = "is computed from a parameter, but is not a parameter itself"
        else:
            what = "requires grad but is not a parameter"
        yield Violation(f"`self.{event.attribute}` {what}: {event.module} never trains or saves it", at=event.site)

    @on(PlainTensorUsed)
    def used(self, event: PlainTensorUsed) -> Iterator[Violation]:
        if event.random.is_true and event.factor.is_true:
            yield Violation(
                f"`self.{event.attribute}` is a weight of random numbers: {event.module} neither trains nor saves it",
                at=event.site,
                remedy="make it an nn.Parameter; or a buffer if it is to stay as it is",
            )
