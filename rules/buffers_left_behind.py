from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import StatisticsLeft
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class BuffersLeftBehind(Rule):
    """A copy that follows the parameters of a model alone is evaluated with running statistics left behind.

    ## What it does
    Finds calls, in evaluation mode, of a model with batch norm whose parameters are brought towards those of another
    one, in pairs (`for p, q in zip(average.parameters(), model.parameters())`), while its buffers are not.

    ## Why is this bad
    The running mean and variance of batch norm are buffers, which `parameters()` does not give. Those of the copy stay
    what they were when it was made: zero and one, for a model that had seen nothing. In evaluation mode the layers
    normalize by them, so the copy computes something else than the model it follows, and is worse the longer that has
    been trained. An average that seems not to work often fails for this reason alone.

    ## Example
    ```python
    import copy

    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    average = copy.deepcopy(net).eval()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), net.parameters()):
                old.lerp_(new, 0.1)
            average(x)
    ```

    ## Use instead
    ```python
    import copy

    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    average = copy.deepcopy(net).eval()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), net.parameters()):
                old.lerp_(new, 0.1)
            for old, new in zip(average.buffers(), net.buffers()):
                old.copy_(new)
            average(x)
    ```

    ## At runtime
    The guard looks at models that are evaluated, now and then: it reports one whose parameters have changed from one
    look to the next, by no optimizer, while its statistics have not, and those of another model of its class have.

    ## Stays silent on
    Copies whose buffers or state dict are asked for, or that are handed to code that is not known; copies that are
    called in training mode, where their statistics follow by themselves; copies made before the model is trained, and
    kept; models whose statistics stay as well, as they are fine-tuned in evaluation mode; layers without running
    statistics; models that are not known.

    ## References
    - [torch.optim.swa_utils.AveragedModel](https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.AveragedModel.html)
    - [torch.nn.BatchNorm2d](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html)
    """

    code = "GL417"
    name = "buffers-left-behind"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "copy the buffers, too, where the parameters are updated"

    @on(StatisticsLeft)
    def evaluated(self, event: StatisticsLeft) -> Iterator[Violation]:
        yield Violation(
            f"this evaluates a copy that follows parameters alone: the statistics of {event.layer} were left behind",
            at=event.site,
            related=places(("its parameters are updated here", event.followed_at)),
        )
