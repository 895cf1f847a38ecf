from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import NormDrifts
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class FrozenNormDrifts(Rule):
    """A normalization layer is frozen, and its running statistics go on moving.

    ## What it does
    Finds calls of a model in training mode, to train some of its parameters, while batch norm in it is frozen: none of
    its parameters require grad, and nothing thaws them.

    ## Why is this bad
    `requires_grad = False` freezes weights and biases. The running mean and variance are buffers: every pass in
    training mode moves them towards the new data, and normalizes by the batch. The layers that are frozen around it
    were trained with other statistics, so what should stay as it was does not, and evaluation differs from training.

    ## Example
    ```python
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    net[1].requires_grad_(False)
    optimizer = torch.optim.SGD(net[3].parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    net[1].requires_grad_(False)
    net[1].eval()
    optimizer = torch.optim.SGD(net[3].parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    The guard looks at models at a few steps: it reports layers that are frozen at three of them, and have moved.

    ## Stays silent on
    Layers in evaluation mode, which `train()` of the model ends: call `eval()` of the layer after it; layers that are
    thawed later, as those of a discriminator; `track_running_stats=False`; layers without parameters; models of which
    nothing is trained, as where statistics are estimated anew.

    ## References
    - [torch.nn.BatchNorm2d](https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html)
    """

    code = "GL415"
    name = "frozen-norm-drifts"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "put the frozen layer into evaluation mode after each train() of the model"

    @on(NormDrifts)
    def stepped(self, event: NormDrifts) -> Iterator[Violation]:
        yield Violation(
            f"this call moves running statistics of what is frozen: {event.layer}",
            at=event.site,
        )
