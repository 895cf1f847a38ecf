from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import OptimizerChecked
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class OptimizerStaleParams(Rule):
    """An optimizer does not own the parameters that are trained.

    ## What it does
    Finds optimizers that were built before a layer of their model was replaced or another one appended, or before the
    model was copied, where the new parameters get gradients and no optimizer owns them; and optimizers all of whose
    parameters are frozen.

    ## Why is this bad
    The optimizer holds the Parameter objects it was given. The new layer gets gradients, but nothing ever applies
    them: it keeps its random weights, and nothing raises.

    ## Example
    ```python
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[3] = nn.Linear(16, 3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model[3] = nn.Linear(16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    The guard notices an optimizer that was created before it by its steps. It reports parameters that took their place
    in a model after the optimizer of the others was built, and parameters of an optimizer that no model has any more,
    where others are trained that no optimizer owns; parameters that are all frozen it reports at the end, as they may
    be unfrozen.

    ## Stays silent on
    A new optimizer, or `add_param_group`, afterwards; parameters frozen on purpose beside others that are trained;
    `.to()` and `.cuda()`, which keep the Parameter objects; copies that are networks of their own.

    ## References
    - [Constructing an optimizer](https://docs.pytorch.org/docs/stable/optim.html#constructing-it)
    """

    code = "GL209"
    name = "optimizer-stale-params"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "build the optimizer after the model is complete, or use add_param_group()"
    supersedes = ("GL206",)

    @on(OptimizerChecked)
    def checked(self, event: OptimizerChecked) -> Iterator[Violation]:
        if event.frozen.is_true:
            yield Violation(
                "all parameters of this optimizer are frozen: its steps change nothing",
                at=event.site,
                related=places(("it steps here", event.stepped_at)),
                remedy="give it the parameters that require grad",
                cause=event.stepped_at,
            )
        elif event.misses_at is not None:
            yield Violation(
                "this optimizer was created before some of the trained parameters: it never updates them",
                at=event.site,
                related=places(
                    ("they were put into the model here", event.misses_at),
                    ("it steps without them here", event.stepped_at),
                ),
                cause=event.stepped_at,
            )
        elif event.trained_at is not None:
            yield Violation(
                "no model has the parameters of this optimizer any more, and no optimizer has those that are trained",
                at=event.site,
                related=places(
                    ("their gradients are computed here", event.trained_at),
                    ("it steps without them here", event.stepped_at),
                ),
            )
