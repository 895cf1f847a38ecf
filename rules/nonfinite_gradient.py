from __future__ import annotations

import math
from collections.abc import Iterator

from gradlint.events import GradientsMeasured
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, listed, on


class NonfiniteGradient(Rule):
    """A step applies gradients that are NaN or infinite.

    ## What it does
    Measures the norms of gradients on some of the steps, just before they are applied, and names the parameters
    whose gradient holds NaN or infinity.

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
    The first steps and every tenth one are measured; values are read once the device has computed them, so
    that training never waits for them.

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
        yield Violation(
            f"gradients are NaN or infinite at step {event.step}: those of {listed(broken)}",
            at=event.site,
        )
