from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import GradientsMeasured
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, listed, on

TINY, HUGE = 1e-8, 1e4
MANY = 8


class VanishingGradient(Rule):
    """The gradient norms of a layer stay out of any useful range.

    ## What it does
    Reports parameters whose gradient norm was below 1e-8, or above 1e4, in each of the last eight measurements.

    ## Why is this bad
    A layer without gradient does not learn, one with a huge gradient forgets. Both show in the loss only as slow or
    unsteady progress.

    ## Example
    ```python
    for x, y in loader * 20:
        optimizer.zero_grad()
        loss = criterion(model(x), y) * 1e-12
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader * 20:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## At runtime
    The first steps and every tenth one are measured.

    ## Stays silent on
    Norms that come back into range; parameters that get no gradient at all, which dead-parameter reports.

    ## References
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    """

    code = "GL704"
    name = "vanishing-gradient"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    opt_in = True
    fix = None
    concerns_values = True
    remedy = "look at initialization, normalization and learning rate; clip gradients that explode"

    @on(GradientsMeasured)
    def measured(self, event: GradientsMeasured) -> Iterator[Violation]:
        extreme = [(name, norms[-MANY:]) for name, norms in event.norms.items() if not TINY <= norms[-1] <= HUGE]
        lasting = [(name, latest) for name, latest in extreme if len(latest) == MANY]
        vanishing = [name for name, latest in lasting if max(latest) < TINY]
        exploding = [name for name, latest in lasting if min(latest) > HUGE]
        for names, what in ((vanishing, f"below {TINY:g}"), (exploding, f"above {HUGE:g}")):
            if names:
                yield Violation(
                    f"gradient norms stay {what}: those of {listed(names)}",
                    at=event.site,
                )
