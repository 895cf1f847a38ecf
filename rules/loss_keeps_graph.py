from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import GraphKept, ValueKept
from gradlint.finding import Effect, Severity
from gradlint.intents import Append, Mend, safe
from gradlint.rule import Rule, Violation, on, places

_KEEPERS = {"sum": "the running total", "list": "the list", "parts": "the list"}
_DETACHED = {"sum": Append("added", ".detach()"), "list": Append("argument 0", ".detach()", method="append")}


class LossKeepsGraph(Rule):
    """A loss is added to a running total, or to a list, together with its graph.

    ## What it does
    Finds sums and lists that grow with the iterations of a loop and hold values whose backward pass has already run:
    their graphs are of no more use, but they are kept. Also losses that a variable of a function collects, as an
    evaluation does, where no backward pass uses any of their graphs.

    ## Why is this bad
    The total refers to the graph of every loss added to it, and through it to tensors of every batch. Memory grows
    with each iteration until the epoch ends, or until none is left.

    ## Example
    ```python
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
    ```

    ## Use instead
    ```python
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    ```

    ## At runtime
    Graphs of five steps must be alive at once after their backward passes; the guard then looks for the variable that
    keeps them, and names it.

    ## Stays silent on
    Losses summed or collected for one later backward pass; values made under `torch.no_grad()`; `.item()`,
    `.detach()`, numbers; functions that return a number; lists that each iteration empties; sums within an iteration;
    losses without a backward pass that are returned or passed to code that may run one.

    ## References
    - [My model reports "cuda runtime error(2): out of memory"](https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory)
    """

    code = "GL205"
    name = "loss-keeps-graph"
    severity = Severity.WARNING
    effect = Effect.WASTES
    fix = "safe"
    remedy = "keep the number, or the value without its graph: .item() or .detach()"

    @on(ValueKept)
    def kept(self, event: ValueKept) -> Iterator[Violation]:
        if not event.spent.is_true or event.value.requires_grad.is_false:
            return
        where = _KEEPERS[event.where]
        if event.keeper:
            where += f" `{event.keeper}`"
        yield Violation(
            f"{where} keeps the graph of every iteration, although backward() is done with it",
            at=event.site,
            related=places(("backward() of an earlier value ran here", event.walked_at)),
            mend=_mend(event.where),
        )

    @on(GraphKept)
    def never_walked(self, event: GraphKept) -> Iterator[Violation]:
        yield Violation(
            f"{_KEEPERS[event.where]} keeps the graph of every iteration, and backward() never uses it",
            at=event.site,
            mend=_mend(event.where),
        )


def _mend(where: str) -> Mend | None:
    return None if where == "parts" else safe("keep its value only", _DETACHED[where])
