from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import FunctionDefined
from gradlint.finding import Effect, Severity
from gradlint.intents import InsertBefore, safe
from gradlint.rule import Rule, Violation, on


class FunctionNotStatic(Rule):
    """`forward` or `backward` of a custom function is not a static method.

    ## What it does
    Finds `forward` and `backward` of `autograd.Function` classes without `@staticmethod`.

    ## Why is this bad
    Such functions are from before PyTorch 0.4. Through `apply` they still work; calling an instance raises, and
    whoever reads `self` looks for state that is never there.

    ## Example
    ```python
    class Reverse(torch.autograd.Function):
        def forward(ctx, x):
            return x.view_as(x)

        def backward(ctx, grad):
            return -grad
    ```

    ## Use instead
    ```python
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -grad
    ```

    ## Stays silent on
    `@classmethod`; decorators that cannot be followed; classes that only look like functions.

    ## References
    - [torch.autograd.Function](https://docs.pytorch.org/docs/stable/autograd.html#function)
    """

    code = "GL602"
    name = "function-not-static"
    severity = Severity.WARNING
    effect = Effect.STYLE
    fix = "safe"
    remedy = "write @staticmethod above forward and backward, and ctx instead of self"

    @on(FunctionDefined)
    def defined(self, event: FunctionDefined) -> Iterator[Violation]:
        if event.static.is_false:
            yield Violation(
                f"`{event.method}` of {event.function} is not a static method",
                at=event.site,
                mend=safe("make it one", InsertBefore("@staticmethod")),
            )
