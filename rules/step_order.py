from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import FirstStep, Step
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class StepOrder(Rule):
    """A scheduler steps before its optimizer does, or an optimizer steps without new gradients.

    ## What it does
    Flags `scheduler.step()` where the optimizer has not stepped since it has a scheduler, and `optimizer.step()` where
    no backward pass has reached its parameters since its last step.

    ## Why is this bad
    A scheduler that moves first skips the first value of its schedule. A step without a backward pass does nothing, or
    applies old gradients once more.

    ## Example
    ```python
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        scheduler.step()
        optimizer.step()
    ```

    ## Use instead
    ```python
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        scheduler.step()
    ```

    ## Stays silent on
    `ReduceLROnPlateau`; schedulers that are given the epoch; schedulers of the project or of other libraries;
    optimizers whose history cannot be followed.

    ## References
    - [How to adjust the learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "GL206"
    name = "step-order"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "backward(), then optimizer.step(), then scheduler.step()"

    @on(FirstStep)
    def scheduled_first(self, event: FirstStep) -> Iterator[Violation]:
        if event.scheduled_at is not None:
            yield Violation(
                "the scheduler is stepped before its optimizer: the first value of its schedule is skipped",
                at=event.scheduled_at,
                related=(("the optimizer takes its first step here", event.site),),
            )

    @on(Step, every_time=True)
    def unprepared(self, event: Step) -> Iterator[Violation]:
        if event.prepared.is_false:
            yield Violation(
                "no backward pass has reached these parameters since their last step",
                at=event.site,
                remedy="call backward() on the loss first",
            )
