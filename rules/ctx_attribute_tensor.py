from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import KeptOnContext
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class CtxAttributeTensor(Rule):
    """A custom function keeps an input or output as an attribute of its context.

    ## What it does
    Finds `ctx.name = tensor` in the forward of an `autograd.Function`, where the tensor is one of its inputs or what
    it returns.

    ## Why is this bad
    `save_for_backward` checks that the tensor is not changed in place before the backward pass, and keeps no cycle
    of references. An attribute does neither: gradients may be computed from other values, and an output that is kept
    so is never freed.

    ## Example
    ```python
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x ** 2

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.x * grad
    ```

    ## Use instead
    ```python
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad
    ```

    ## Stays silent on
    Numbers, shapes and flags; inputs that get no gradient, which may be numbers; intermediate results, which may
    well be attributes.

    ## References
    - [Extending torch.autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
    """

    code = "GL601"
    name = "ctx-attribute-tensor"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "use ctx.save_for_backward(…) and ctx.saved_tensors"

    @on(KeptOnContext)
    def kept(self, event: KeptOnContext) -> Iterator[Violation]:
        if event.role:
            yield Violation(
                f"`ctx.{event.attribute}` keeps an {event.role} without save_for_backward: "
                "in-place changes of it go unnoticed",
                at=event.site,
            )
