from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LayersHeld
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class RepeatedModule(Rule):
    """A multiplied list puts one and the same layer into a container several times.

    ## What it does
    Finds `nn.ModuleList` and `nn.Sequential` of a list or tuple that was multiplied: `[layer] * 6`. The layer is known
    to have parameters.

    ## Why is this bad
    Multiplying a list repeats references, it makes no copies. The container holds a single layer under several names:
    the model has a fraction of the parameters it seems to have, and each step trains that layer for all places at once.
    `len()`, the printed model and even `state_dict()` look as if there were many.

    ## Example
    ```python
    blocks = nn.Sequential(*[nn.Linear(8, 8)] * 4)
    output = blocks(x)
    ```

    ## Use instead
    ```python
    blocks = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
    output = blocks(x)
    ```

    ## At runtime
    The guard sees containers that are built while it watches, and asks the source of that call whether a list is
    multiplied there. A container that was built before is not told.

    ## Stays silent on
    Layers without parameters; copies (`copy.deepcopy`); a layer that a program puts into several places by its name,
    as `nn.Sequential(layer, nn.ReLU(), layer)` or `[layer for _ in range(4)]`, which is how weights are shared on
    purpose; containers that are built in a branch (`if share_weights:`), or whose line says that something is shared.

    ## References
    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    """

    code = "GL412"
    name = "repeated-module"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "build each layer: [Layer(...) for _ in range(n)], or [copy.deepcopy(layer) for _ in range(n)]"

    @on(LayersHeld)
    def built(self, event: LayersHeld) -> Iterator[Violation]:
        if not event.repeated.is_true or event.chosen.is_true:
            return
        yield Violation(
            f"this {event.container} holds one {event.layer or 'layer'} several times: "
            "multiplying a list repeats the layer, so all places share its parameters",
            at=event.site,
            related=places(("the only layer there is", event.built_at)),
        )
