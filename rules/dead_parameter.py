from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import NeverReached
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, listed, on


class DeadParameter(Rule):
    """A trainable parameter of an optimizer never receives a gradient.

    ## What it does
    Reports, after a training of several steps, the parameters an optimizer holds that no backward pass has reached.

    ## Why is this bad
    They are never trained. Mostly the layer is not called, its output is not used, or it is cut off by `detach()`.

    ## Example
    ```python
    head = nn.Linear(16, 3)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    for x, y in loader * 3:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader * 3:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    It is reported at the end of the guard, after five steps of the optimizer or more: a loss may set in late.

    ## Stays silent on
    Frozen parameters (`requires_grad_(False)`); parameters that are reached at times, or late; parameters
    without elements.

    ## References
    - [torch.nn.Module.requires_grad_](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "GL702"
    name = "dead-parameter"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "use the layer in forward, freeze its parameters, or leave them out of the optimizer"

    @on(NeverReached)
    def unreached(self, event: NeverReached) -> Iterator[Violation]:
        names = event.parameters
        yield Violation(f"no gradient has reached {listed(names)} in {event.steps} steps", at=event.site)
