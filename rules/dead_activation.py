from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import UnitsDead
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class DeadActivation(Rule):
    """Nearly all units of a ReLU give zero for every sample of many training steps.

    ## What it does
    Looks, after a warm-up of forty steps, at what each ReLU behind a trained layer gives for the samples of a step,
    and where nine of ten units give nothing, at the steps that follow.

    ## Why is this bad
    Where a ReLU gives zero its gradient is zero: what lies before it does not learn, and does not come back. The loss
    falls a little and stops, as the rest of the network makes do with its biases. A learning rate that is too high
    kills units in a few steps; so do biases that begin far below zero, and inputs that are not normalised.

    ## Example
    ```python
    torch.nn.init.constant_(model[0].bias, -20.0)
    for x, y in loader * 16:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    torch.nn.init.zeros_(model[0].bias)
    for x, y in loader * 16:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    The graph of a loss is looked into in one step after the first forty, in one after four times as many, and so on.
    Where at least nine of ten units give zero, one step in five is looked at, until it was eight steps and as many
    samples as there are units, 64 at least and 1024 at most. Nine of ten is far from what is healthy: of 60 small
    networks that learned, deep and wide, with and without normalisation, none had a layer with more than 0.78 of its
    units at zero even for a single batch of eight, most less than 0.2.

    ## Stays silent on
    Fewer dead units; layers whose weights are frozen, or computed from others (pruning, spectral norm); rows of weights
    that are all zero; layers that are given nothing but zeros, as behind a dead one, or a mask; a ReLU of inputs, of
    differences and of margins; models in evaluation mode; activations that are computed again in the backward pass, or
    compiled.

    ## References
    - [torch.nn.ReLU](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html)
    - [Dying ReLU and initialization (Lu et al. 2019)](https://arxiv.org/abs/1903.06733)
    """

    code = "GL707"
    name = "dead-activation"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    concerns_values = True
    remedy = "lower the learning rate or warm it up, check the initialisation, or use LeakyReLU or GELU"

    @on(UnitsDead)
    def dead(self, event: UnitsDead) -> Iterator[Violation]:
        units = "its only unit" if event.units == 1 else f"{event.dead} of its {event.units} units"
        seen = f"for each of {event.samples} samples, in {event.steps} steps"
        yield Violation(f"the ReLU behind layer {event.layer} gives zero in {units} {seen}", at=event.site)
