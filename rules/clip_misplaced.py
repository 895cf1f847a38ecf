from __future__ import annotations

from gradlint.events import (
    Backward,
    Event,
    GradientsClipped,
    GradientsDropped,
    GradientsScaled,
    GradientsUnscaled,
    Unfollowed,
    WeightsUpdated,
)
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places

_STORIES: dict[str, tuple[str, str, type[Event]]] = {
    "spent": ("gradients are clipped after the step that applied them", "they were applied here", WeightsUpdated),
    "clear": (
        "gradients are clipped before the backward pass that computes them",
        "they were cleared here",
        GradientsDropped,
    ),
    "scaled": (
        "gradients are clipped while they are still multiplied by the scale of the GradScaler",
        "this backward pass of the scaled loss computed them",
        GradientsScaled,
    ),
}


class ClipMisplaced(Rule):
    """Gradients are clipped where it has no effect, or the wrong one.

    ## What it does
    Finds `clip_grad_norm_` and `clip_grad_value_` after the step, before the backward pass, and on gradients of a
    scaled loss that `unscale_` has not divided by the scale.

    ## Why is this bad
    Between backward pass and step is the only place where clipping bounds what is applied. Scaled gradients are tens
    of thousands of times too large: a threshold of 1.0 makes nearly nothing of them.

    ## Example
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ```

    ## At runtime
    The guard reports a call that clips in the wrong place each time, from the second time on, once the values show that
    nobody has written to the gradients in between. Clipping to infinity only measures, and is no mistake anywhere.

    ## Stays silent on
    Clipping between backward pass and step; hooks that clip each gradient as it is computed; after
    `scaler.unscale_(optimizer)`; gradients that were computed and then cleared, which zero-grad-misplaced reports;
    gradients that came from code that cannot be followed. It is not selected by default:
    where a backward pass is not seen to reach the clipped parameters, it takes a right place for a wrong one.

    ## References
    - [torch.nn.utils.clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [Gradient clipping with scaled gradients](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
    """

    code = "GL211"
    name = "clip-misplaced"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    opt_in = True
    fix = None
    remedy = "clip between backward() and step(), after scaler.unscale_(optimizer) where a scaler is used"

    gradients = Protocol(
        {
            ("unknown", Backward): "held",
            ("unknown", GradientsDropped): "clear",
            ("unknown", WeightsUpdated): "spent",
            ("unknown", GradientsScaled): "scaled",
            ("held", GradientsDropped): "unknown",  # no step has applied them: that they were cleared is what is wrong
            ("held", WeightsUpdated): "spent",
            ("held", GradientsScaled): "scaled",
            ("scaled", GradientsUnscaled): "held",
            ("scaled", GradientsDropped): "unknown",
            ("scaled", WeightsUpdated): "spent",
            ("scaled", GradientsClipped): Violating("held"),
            ("spent", Backward): "held",
            ("spent", GradientsDropped): "clear",
            ("spent", Unfollowed): "unknown",
            ("spent", GradientsClipped): Violating("spent"),
            ("clear", Backward): "held",
            ("clear", WeightsUpdated): "spent",
            ("clear", Unfollowed): "unknown",
            ("clear", GradientsClipped): Violating("clear"),
        },
        start="unknown",
        arms=(),
    )

    @gradients.violated
    def story(self, token: Token, event: Event) -> Violation:
        why, message, before = _STORIES[token.state]
        return Violation(why, at=event.site, related=places((message, token.last_at(before))))
