from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import FunctionUsed
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, safe
from gradlint.rule import Rule, Violation, on


class FunctionNotApplied(Rule):
    """A custom function is used without `apply`.

    ## What it does
    Finds instances of `autograd.Function` classes that are called, and direct calls of their `forward`.

    ## Why is this bad
    Only `apply` makes a node of the graph that knows the backward. Calling an instance raises; a direct call of
    `forward` computes the values, and the custom gradient is silently not used.

    ## Example
    ```python
    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).float()

        @staticmethod
        def backward(ctx, grad):
            return grad

    output = Step.forward(None, model(x))
    ```

    ## Use instead
    ```python
    class Step(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).float()

        @staticmethod
        def backward(ctx, grad):
            return grad

    output = Step.apply(model(x))
    ```

    ## At runtime
    PyTorch raises `RuntimeError: Legacy autograd function with non-static forward method is deprecated` for a called
    instance, and nothing for `forward`.

    ## Stays silent on
    Aliases of `apply`; functions that call the forward of another one with their own context; contexts brought along
    by tests, outside of the forward pass of a module.

    ## References
    - [torch.autograd.Function](https://docs.pytorch.org/docs/stable/autograd.html#function)
    """

    code = "GL604"
    name = "function-not-applied"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = "safe"
    remedy = "call the apply method of the class"

    @on(FunctionUsed)
    def used(self, event: FunctionUsed) -> Iterator[Violation]:
        if event.how == "instance":
            message = f"an instance of {event.function} is called: this raises"
        else:
            message = f"forward of {event.function} is called directly: autograd does not use its backward"
        name = "{function of function}"
        yield Violation(
            message,
            at=event.site,
            remedy=f"write {event.function}.apply(…)",
            mend=safe("call apply", Replace("function", f"{name}.apply", when=f"{name}()"))
            if event.how == "instance"
            else None,
        )
