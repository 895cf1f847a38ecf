from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import (
    Cleared,
    Event,
    FirstStep,
    GradientsAccumulated,
    PeriodicStep,
    ScheduledElsewhere,
    SchedulerStepped,
    Step,
)
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, on, places


class StepOrder(Rule):
    """A scheduler steps before its optimizer does or more often, or an optimizer steps without new gradients.

    ## What it does
    Flags `scheduler.step()` where the optimizer has not stepped since it has a scheduler, or where it is called on
    every micro-batch of a loop in which the optimizer steps on every k-th only; and `optimizer.step()` where no
    backward pass has reached its parameters since its last step.

    ## Why is this bad
    A scheduler that moves first skips the first value of its schedule. One that moves on every micro-batch is at its
    end when a k-th part of the training is done. A step without a backward pass does nothing, or applies old gradients
    once more.

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

    ## At runtime
    Whether a schedule is too fast, the guard says after three steps of the optimizer; of one that knows its length, as
    `OneCycleLR` does, once it is over.

    ## Stays silent on
    `ReduceLROnPlateau`; schedulers that are given the epoch; schedulers of the project or of other libraries;
    schedulers that may be built for the number of batches (`T_max=len(loader) * epochs`), and those that Accelerate
    has prepared; optimizers whose history cannot be followed.

    ## References
    - [How to adjust the learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "GL206"
    name = "step-order"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "backward(), then optimizer.step(), then scheduler.step()"

    pace = Protocol(
        {
            ("idle", GradientsAccumulated): "held",
            ("held", SchedulerStepped): "moved",
            ("moved", GradientsAccumulated): "moved on",
            ("moved on", PeriodicStep): Violating("idle"),
            **{
                (state, event): "idle"
                for state in ("held", "moved", "moved on")
                for event in (Cleared, ScheduledElsewhere, Step)
            },
        },
        start="idle",
        arms=Step,
    )

    @pace.violated
    def too_fast(self, token: Token, event: Event) -> Violation:
        return Violation(
            "the scheduler is stepped on every micro-batch, but its optimizer on every k-th only: k times too fast",
            at=token.last_at(SchedulerStepped) or event.site,
            related=places(("the optimizer steps here", event.site)),
            remedy="step the scheduler where the optimizer is stepped, right after it",
        )

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
