from __future__ import annotations

from gradlint.events import AppliedElsewhere, Backward, Cleared, Event, ParametersReplaced, PeriodicClearing, Step
from gradlint.finding import Effect, Severity, Site
from gradlint.intents import ClearGradients, InsertBehind, Mend, joint, unsafe
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places


class MissingZeroGrad(Rule):
    """`step()` applies gradients that an earlier `step()` has already applied.

    ## What it does
    Follows the gradients of each group of parameters: a backward pass adds to them, `step()` applies them, and
    they must be cleared before a later backward pass adds to what has been applied and another `step()` applies
    the sum. Where they are handed to other parameters (`shared.grad = own.grad`), the step of their optimizer applies
    them, and its `zero_grad()` does not clear them: it drops them from those others only.

    ## Why is this bad
    `backward()` adds to `.grad`. Without `zero_grad()` each step applies the sum of all gradients since the
    training began: the effective learning rate grows, and old batches are applied again and again.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## At runtime
    The guard remembers the identity and version of every gradient at each step, and reports the second step that
    applies them. Of gradients that are handed on, it recognises those that are the same tensors.

    ## Stays silent on
    Gradient accumulation; clearing by helpers, by `model.zero_grad()`, by `p.grad = None`; LBFGS closures;
    frameworks that clear by themselves; a single step; an optimizer that cannot be followed.

    ## References
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "GL201"
    name = "missing-zero-grad"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "clear the gradients before each backward pass: optimizer.zero_grad()"

    gradients = Protocol(
        {
            ("clear", Backward): "held",
            ("held", Backward): "held",
            ("held", Step): "spent",
            ("spent", Backward): "mixed",
            ("mixed", Step): Violating("spent"),
            ("held", AppliedElsewhere): "spent",
            ("mixed", AppliedElsewhere): Violating("spent"),
            ("held", Cleared): "clear",
            ("spent", Cleared): "clear",
            ("mixed", Cleared): "clear",
            ("spent", PeriodicClearing): "spent",  # what follows is another story than where it is not this time
            ("held", ParametersReplaced): "clear",
            ("spent", ParametersReplaced): "clear",
            ("mixed", ParametersReplaced): "clear",
        },
        start="clear",
        arms=(Step, AppliedElsewhere, PeriodicClearing),
    )

    @gradients.violated
    def story(self, token: Token, event: Event) -> Violation:
        spent, mixed, added = token.entered_at("spent"), token.entered_at("mixed"), token.last_at(Backward)
        return Violation(
            "gradients are added to those an earlier step already applied: nothing clears them in between",
            at=added or event.site,
            related=places(
                ("they were applied here", spent),
                ("more were added here", mixed if mixed != added else None),
                ("and all are applied again here", event.site if event.site != spent else None),
            ),
            mend=_mend(event, added, mixed, spent),
        )


def _mend(step: Event, added: Site | None, mixed: Site | None, spent: Site | None) -> Mend | None:
    if not isinstance(step, Step) or mixed is None or spent is None:
        return None
    if step.by_hand:
        return joint("drop them once they are applied", InsertBehind("{changed}.grad = None", at=step.site))
    return unsafe("clear them first", ClearGradients(step.site, frozenset([mixed]), frozenset([spent]), at=added))
