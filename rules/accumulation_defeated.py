from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import (
    AveragesSummed,
    Backward,
    Cleared,
    DiscardedElsewhere,
    Event,
    GradientsAccumulated,
    GradientsDiscarded,
    ParametersReplaced,
    PeriodicStep,
    Step,
    StepBehindLoop,
)
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, on, places


class AccumulationDefeated(Rule):
    """Gradients are to be accumulated over micro-batches, but are cleared on each, or those of averages are summed.

    ## What it does
    Finds loops in which `step()` depends on the number of the iteration (`if (i + 1) % k == 0`), on a counter that is
    set anew (`if count == k: …; count = 0`), or on whether it is the last one, while backward pass and clearing happen
    in all of them; and loops that clear and compute gradients in each iteration, with the `step()` behind them.

    Where nothing is cleared, it finds losses that are averages over each micro-batch, as `CrossEntropyLoss` gives, and
    that nothing divides by k: if the optimizer is SGD, or the gradients are clipped.

    ## Why is this bad
    Accumulation sums the gradients of k micro-batches. Where they are cleared, the first k - 1 are thrown away: the
    batch is not larger, and where the loss is divided by k, the step is k times too small. Where averages are summed,
    it is k times too large, and clipping leaves a k-th part of what it was meant to.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        (criterion(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
    ```

    ## Use instead
    ```python
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## At runtime
    The guard counts micro-batches over the first steps, in which it watches functions. It says nothing where the
    program looks at a gradient in between, or assigns one: then the cleared gradients may have been used.

    ## Stays silent on
    Clearing in the same branch as the step; branches that only log, or step a scheduler; steps skipped for other
    reasons (gradients that are not finite); generators that are trained on every k-th iteration.

    Of sums: whatever divides or weighs the loss, the gradients, or the learning rate where the optimizer is built;
    `reduction="sum"`; Adam and others that divide by the size of the gradients, where these are not clipped; losses
    and optimizers of which nothing is known; several losses of one batch.

    ## References
    - [Gradient accumulation](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation)
    """

    code = "GL214"
    name = "accumulation-defeated"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "clear the gradients where step() is called, right after it"
    supersedes = ("GL202",)

    gradients = Protocol(
        {
            ("clear", GradientsAccumulated): "held",
            ("held", GradientsDiscarded): "dropped",
            ("held", Cleared): "clear",
            ("held", Step): "clear",
            ("dropped", GradientsAccumulated): "regained",
            ("dropped", Backward): "clear",
            ("dropped", Step): "clear",
            ("dropped", ParametersReplaced): "clear",
            ("dropped", DiscardedElsewhere): "clear",
            ("dropped", PeriodicStep): Violating("clear"),
            ("regained", GradientsDiscarded): "dropped",
            ("regained", Cleared): "clear",
            ("regained", Step): "clear",
            ("regained", DiscardedElsewhere): "held",
            ("regained", PeriodicStep): Violating("clear"),
            ("regained", StepBehindLoop): Violating("clear"),
        },
        start="clear",
        arms=Step,
    )

    @gradients.violated
    def story(self, token: Token, event: Event) -> Violation:
        cleared = token.last_at(GradientsDiscarded)
        return Violation(
            "gradients are cleared on every micro-batch, but step() runs on every k-th only: the others are lost",
            at=cleared or event.site,
            related=places(
                ("gradients were added here", token.last_at(GradientsAccumulated)),
                ("step() is called here", event.site),
            ),
            cause=event.site,
        )

    @on(AveragesSummed)
    def too_large(self, event: AveragesSummed) -> Iterator[Violation]:
        yield Violation(
            "gradients of several micro-batches are summed, each of an average: the step is k times too large",
            at=event.site,
            related=places(("step() is called here, on every k-th micro-batch", event.stepped_at)),
            remedy="divide the loss by the number of micro-batches before backward()",
        )
