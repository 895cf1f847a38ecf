from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import GradientsReturned
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class BackwardArity(Rule):
    """The backward of a custom function returns more or fewer gradients than its forward takes inputs.

    ## What it does
    Counts what `backward` of `autograd.Function` classes returns: it must be one gradient, or `None`, for each input
    of `forward` besides `ctx`.

    ## Why is this bad
    The backward pass raises. A missing `None` for a number or a flag is the usual reason.

    ## Example
    ```python
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor
    ```

    ## Use instead
    ```python
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None
    ```

    ## At runtime
    PyTorch raises `RuntimeError: function ScaleBackward returned an incorrect number of gradients`.

    ## Stays silent on
    Additional `None`s at the end, which are legal; inputs with defaults that callers may leave out; `*args`; tuples
    whose length is computed.

    ## References
    - [Extending torch.autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
    """

    code = "GL603"
    name = "backward-arity"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = None
    remedy = "return one gradient for each input of forward, None where there is none"

    @on(GradientsReturned)
    def returned(self, event: GradientsReturned) -> Iterator[Violation]:
        if not event.given.known or not event.used.known:
            return
        given = event.given.value
        if event.required <= given and event.used.value <= event.inputs:
            return
        yield Violation(
            f"backward of {event.function} returns {given} gradient{'s' * (given != 1)}, "
            f"but forward takes {event.inputs} input{'s' * (event.inputs != 1)}",
            at=event.site,
        )
