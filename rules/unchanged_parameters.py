from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ParametersUnchanged
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, listed, on


class UnchangedParameters(Rule):
    """Parameters get gradients and are stepped, and stay what they are.

    ## What it does
    Compares the parameters of each optimizer before its first step with what they are fifty steps later, then a
    hundred, two hundred and so on, and reports those that have gradients and have not changed since.

    ## Why is this bad
    Nothing is learned, and nothing says so. The learning rate is zero, or a schedule has brought it down to nothing; or
    the weights are kept in `bfloat16` or `float16`, and updates smaller than half of their last digit are rounded away.

    ## Example
    ```python
    model.to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    for x, y in loader * 8:
        optimizer.zero_grad()
        criterion(model(x.bfloat16()), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader * 8:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## At runtime
    It is reported at the end of the guard, at the last step of the optimizer: a learning rate may be warming up.

    ## Stays silent on
    Frozen parameters, and groups whose learning rate is 0 while that of others is not; gradients that are missing
    (GL702), have vanished (GL704), or are not finite; parameters that have come to rest while the learning rate has
    not; sharded parameters; optimizers that are given a closure; fewer than fifty steps.

    ## References
    - [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
    - [How to adjust the learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
    """

    code = "GL705"
    name = "unchanged-parameters"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "raise the learning rate, or keep the weights in float32 and compute under autocast"

    @on(ParametersUnchanged)
    def unchanged(self, event: ParametersUnchanged) -> Iterator[Violation]:
        names = event.parameters
        have = "has" if len(names) == 1 else "have"
        yield Violation(f"{listed(names)} {have} not changed in {event.steps} steps: {_why(event)}", at=event.site)


def _why(event: ParametersUnchanged) -> str:
    if event.learning_rate == 0:
        return "the learning rate is 0"
    if not event.always:
        return f"the learning rate has come down to {event.learning_rate:.3g}"
    return f"at a learning rate of {event.learning_rate:.3g}, updates are rounded away in {event.dtype}"
