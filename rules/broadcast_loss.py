from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import BothSpread
from gradlint.finding import Effect, Severity
from gradlint.intents import Append, unsafe
from gradlint.rule import Rule, Violation, on


class BroadcastLoss(Rule):
    """A prediction of shape `(n, 1)` is compared with a target of shape `(n,)`, each with each.

    ## What it does
    Finds `mse_loss`, `l1_loss`, `smooth_l1_loss` and `huber_loss` that are given a column and a row, and differences
    between the output of a network and data of these shapes from which a backward pass is made.

    ## Why is this bad
    The two broadcast to `(n, n)`: every prediction is compared with the targets of all samples. The loss is least where
    the network predicts the mean of the targets for everything, and so it does. Losses warn of it, differences do not.

    ## Example
    ```python
    head, goal = nn.Linear(3, 1), torch.randn(4)
    inputs = torch.randn(4, 3)
    loss = F.mse_loss(head(inputs), goal)
    ```

    ## Use instead
    ```python
    head, goal = nn.Linear(3, 1), torch.randn(4)
    inputs = torch.randn(4, 3)
    loss = F.mse_loss(head(inputs).squeeze(-1), goal)
    ```

    ## At runtime
    The guard sees the shapes themselves. The linter reports where both follow from the source.

    ## Stays silent on
    Equal shapes; a batch of one; explicit broadcasting, as `x[:, None] - y[None, :]` or weights of shape `(n, 1)` that
    multiply; differences of two outputs, or of two things that are given.

    ## References
    - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
    - [torch.nn.MSELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html)
    """

    code = "GL309"
    name = "broadcast-loss"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "give both one shape: prediction.squeeze(-1), or target.unsqueeze(-1)"

    @on(BothSpread)
    def compared(self, event: BothSpread) -> Iterator[Violation]:
        if not event.shapes:
            return
        one, other = map(_spelled, event.shapes)
        yield Violation(
            f"this {event.loss or 'difference'} compares {one} with {other}: each prediction meets the targets of all",
            at=event.site,
            mend=unsafe("drop the last dimension", Append(event.role, ".squeeze(-1)")) if event.role else None,
        )


def _spelled(shape: tuple[int | None, ...]) -> str:
    """A shape as Python shows it, with ``n`` for a length that is not known."""
    sizes = ["n" if size is None else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
