from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LayerBuilt
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class LayerInForward(Rule):
    """A layer with parameters is built anew in each forward pass.

    ## What it does
    Finds layers and modules with parameters that are built in the forward pass of a module and applied there,
    without being kept.

    ## Why is this bad
    Each call starts from new parameters. The optimizer never sees them: they are never trained. Most are random, so
    that the same input gives another output each time; those of a norm are ones and zeros.

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Linear(8, width)
            self.width = width

        def forward(self, x):
            hidden = self.body(x).relu()
            return nn.Linear(self.width, 3)(hidden)

    output = Net(16)(x)
    ```

    ## Use instead
    ```python
    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Linear(8, width)
            self.head = nn.Linear(width, 3)

        def forward(self, x):
            hidden = self.body(x).relu()
            return self.head(hidden)

    output = Net(16)(x)
    ```

    ## At runtime
    The guard notes each layer whose parameters are registered while a model is being called, and reports those that are
    applied in the same call and gone after it.

    ## Stays silent on
    Layers without parameters; layers that the module keeps (built on the first call); layers whose parameters are
    set, as in hypernetworks and fixed filters, or replaced by `functional_call`.

    ## References
    - [torch.nn.Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "GL405"
    name = "layer-in-forward"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "build the layer once, in __init__, and keep it as an attribute"

    @on(LayerBuilt)
    def built(self, event: LayerBuilt) -> Iterator[Violation]:
        if not event.parameters.is_true or not event.chosen.is_false:
            return
        yield Violation(
            f"{event.layer} is built in each forward pass: its parameters are new every time and never trained",
            at=event.site,
        )
