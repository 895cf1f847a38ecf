from __future__ import annotations

import math
from collections.abc import Iterator

from gradlint.events import GradientsMeasured
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, listed, on, places

REMEDY = "clip, scale or add an epsilon there"  #: where the operation is known


class NonfiniteGradient(Rule):
    """A step applies gradients that are NaN or infinite.

    ## What it does
    Measures the norms of gradients on some of the steps, just before they are applied, and names the parameters
    whose gradient holds NaN or infinity, and the operation from which the first of them comes.

    ## Why is this bad
    One such step makes the parameters NaN, and from then on every output. The loss shows it only later, if at all,
    and not where it began.

    ## Example
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y) / torch.zeros(())
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y) / len(loader)
        loss.backward()
        optimizer.step()
    ```

    ## At runtime
    The first steps and every tenth one are measured; values are read once the device has computed them, so that
    training never waits for them. In main memory, one number of the gradients is read in each step as well, and where
    it is NaN or infinite the forward passes of the modules that led there are made once more, on a copy, operation by
    operation, and then their backward passes: the first operation that makes NaN or infinity of numbers is named, with
    its module and its line. (Where steps take less than a millisecond, only measured ones are looked at, unless with
    `exact`.) It is done once, it leaves parameters, buffers and random numbers as they are, and it is left out where
    it could reach anything else: on a GPU, with several processes, where modules have hooks, are compiled, larger than
    a gigabyte, or given more than tensors and numbers, and under a gradient scaler. (What a forward pass writes
    outside of its module, it writes once more.) Operations that follow the model are named where there are few. Where
    nothing is named, `torch.autograd.set_detect_anomaly(True)` around the step finds it.

    ## Stays silent on
    Steps that a gradient scaler skips, as it should.

    ## References
    - [torch.autograd.detect_anomaly](https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection)
    """

    code = "GL701"
    name = "nonfinite-gradient"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    concerns_values = True
    remedy = "find the operation with torch.autograd.detect_anomaly(); clip, scale or add an epsilon there"

    @on(GradientsMeasured)
    def measured(self, event: GradientsMeasured) -> Iterator[Violation]:
        broken = [name for name, norms in event.norms.items() if not math.isfinite(norms[-1])]
        if not broken:
            return
        message = f"gradients are NaN or infinite at step {event.step}: those of {listed(broken)}"
        origin = event.origin
        if origin is None:
            yield Violation(message, at=event.site)
        else:
            related = places(("the first is computed here", origin.site))
            yield Violation(f"{message}; {origin.what}", at=event.site, related=related, remedy=REMEDY)
