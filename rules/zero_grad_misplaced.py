from __future__ import annotations

from gradlint.events import Backward, Cleared, Event, GradientsAssigned, ParametersReplaced, WeightsUpdated
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places


class ZeroGradMisplaced(Rule):
    """Gradients are cleared between the backward pass and the step that should apply them.

    ## What it does
    Follows the gradients of each group of parameters, and reports a step that finds them cleared since the backward
    pass that computed them.

    ## Why is this bad
    The step has nothing to apply: the parameters do not move, or only by what momentum and weight decay are left.
    The loss and its gradients are computed for nothing, and nothing raises.

    ## Example
    ```python
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.zero_grad()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Stays silent on
    Clearing the gradients of another optimizer; both passes of sharpness-aware minimisation; gradients cleared and
    computed again before the step; clearing in a branch that skips a step on purpose.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "GL202"
    name = "zero-grad-misplaced"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "clear the gradients before the backward pass, or after the step"

    gradients = Protocol(
        {
            ("clear", Backward): "held",
            ("held", Cleared): "lost",
            ("held", WeightsUpdated): "clear",
            ("lost", Backward): "held",
            ("lost", ParametersReplaced): "clear",
            ("lost", GradientsAssigned): "clear",
            ("lost", WeightsUpdated): Violating("clear"),
        },
        start="clear",
        arms=(),  # a backward pass that may have reached the gradients leaves doubt: no lineage of its own
    )

    @gradients.violated
    def story(self, token: Token, event: Event) -> Violation:
        return Violation(
            "this step has nothing to apply: the gradients were cleared after the backward pass",
            at=event.site,
            related=places(
                ("the gradients were computed here", token.last_at(Backward)),
                ("and cleared here", token.last_at(Cleared)),
            ),
            cause=token.last_at(Cleared),
        )
