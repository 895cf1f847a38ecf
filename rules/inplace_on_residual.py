from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import SkipOverwritten
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class InplaceOnResidual(Rule):
    """The first operation of a residual branch overwrites, in place, what the skip connection adds.

    ## What it does
    Finds activations and dropout that work in place (`nn.ReLU(inplace=True)`, `F.relu_`) on a value that is added to
    their own result, or to what was computed of it, under the name it had before.

    ## Why is this bad
    There is only one tensor. In `x + self.block(x)`, the block is given `x` itself: where it begins with an activation
    in place, `x` holds what that has returned when the sum is made. The skip connection adds `relu(x)`, and the
    identity that lets gradients pass through a deep network unhindered is gone. Nothing raises.

    ## Example
    ```python
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8))

        def forward(self, x):
            return x + self.branch(x)

    block = Block()
    for x, y in loader:
        block(x - 0.5)
    ```

    ## Use instead
    ```python
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = nn.Sequential(nn.ReLU(), nn.Linear(8, 8))

        def forward(self, x):
            return x + self.branch(x)

    block = Block()
    for x, y in loader:
        block(x - 0.5)
    ```

    ## At runtime
    The guard watches these operations, and sums, in the steps in which it watches functions. It reads in the source
    under which name a sum takes what was overwritten, and looks once or twice whether the values have changed.

    ## Stays silent on
    Copies (`x.clone()`); what goes by the name of the result, as where `x = self.relu(x)` comes before both branches;
    results of layers that nothing else holds; relu and its like on what is known to be nowhere below zero, as the
    output of a block that ends in relu; statements that only overwrite: `x.relu_()`. There is no fix: a network that
    was trained with the mistake needs it.

    ## References
    - [Identity Mappings in Deep Residual Networks](https://arxiv.org/abs/1603.05027)
    - [torch.nn.ReLU](https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html)
    """

    code = "GL414"
    name = "inplace-on-residual"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "let the first operation of the branch return a new tensor: inplace=False"

    @on(SkipOverwritten)
    def added(self, event: SkipOverwritten) -> Iterator[Violation]:
        yield Violation(
            "this overwrites what the skip connection adds to the branch",
            at=event.site,
            related=places(("it is added here, and no longer what the branch was given", event.added_at)),
        )
