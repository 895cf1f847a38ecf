from __future__ import annotations

from gradlint.events import (
    Cleared,
    Event,
    GradientsScaled,
    GradientsUnscaled,
    ScalerStepped,
    ScalerUpdated,
    Step,
)
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places


class AmpMisuse(Rule):
    """A gradient scaler is used in part: its scaled gradients are applied as they are, or it is never updated.

    ## What it does
    Finds `optimizer.step()` on the gradients of a loss that `scaler.scale()` has multiplied, and `scaler.step()` again
    and again without `scaler.update()`.

    ## Why is this bad
    `scaler.step()` divides the gradients by the scale before it steps; `optimizer.step()` applies them tens of
    thousands of times too large. Without `update()` the scale never adapts, and the second step raises.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(model(x), y)).backward()
        optimizer.step()
        scaler.update()
    ```

    ## Use instead
    ```python
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    ```

    ## At runtime
    The guard knows the gradients of a scaled loss by its graph, and compares their values before it says that nobody
    has unscaled them. `GradScaler` itself raises only later, at the next `update()` or `step()`.

    ## Stays silent on
    Wrappers of the project that step and update; one update for several optimizers; a scaler that is used in one
    branch and not in the other; gradients unscaled before the step; `GradScaler(enabled=False)`; what code that is not
    followed has made of an optimizer, as it may unscale them itself.

    ## References
    - [Automatic mixed precision examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
    """

    code = "GL212"
    name = "amp-misuse"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "with a scaler: scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update()"

    scale = Protocol(
        {
            ("plain", GradientsScaled): "scaled",
            ("scaled", GradientsUnscaled): "plain",
            ("scaled", Cleared): "plain",
            ("scaled", Step): Violating("plain"),
        },
        start="plain",
        arms=(),
    )
    updates = Protocol(
        {
            ("updated", ScalerStepped): "stepped",
            ("stepped", ScalerUpdated): "updated",
            ("stepped", ScalerStepped): Violating("stepped"),
        },
        start="updated",
        arms=(),
    )

    @scale.violated
    def applied(self, token: Token, event: Event) -> Violation:
        return Violation(
            "step() applies gradients that are still multiplied by the scale of the GradScaler",
            at=event.site,
            related=places(("they come from this backward pass of the scaled loss", token.last_at(GradientsScaled))),
            remedy="call scaler.step(optimizer) instead of optimizer.step()",
        )

    @updates.violated
    def stale(self, token: Token, event: Event) -> Violation:
        earlier = token.last_at(ScalerStepped)
        return Violation(
            "scaler.step() is called again without scaler.update() in between",
            at=event.site,
            related=places(("the earlier scaler.step() is here", earlier if earlier != event.site else None)),
            remedy="call scaler.update() once after each round of steps",
        )
