from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class GraphFreed(Rule):
    """A backward pass goes through a graph that an earlier one has already freed.

    ## What it does
    Follows which graphs a backward pass has freed, and reports the next one that reaches them: `backward()`
    called twice on a loss, or a hidden state carried over iterations with its graph.

    ## Why is this bad
    A backward pass frees the values saved for it. The second one raises, often far from the mistake, in an
    iteration after the one that kept the graph.

    ## Example
    ```python
    loss = criterion(model(x), y)
    loss.backward()
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(model(x), y)
    loss.backward(retain_graph=True)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: Trying to backward through the graph a second time`; the guard adds where the
    graph was freed.

    ## Stays silent on
    `retain_graph=True` and `create_graph=True` on the first pass; graphs that are separate, or detached between;
    operations that save nothing for backward, which can run backward twice.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    - [Saved tensors](https://docs.pytorch.org/docs/stable/notes/autograd.html#saved-tensors)
    """

    code = "GL203"
    name = "graph-freed"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = None
    remedy = "detach what is carried over, or pass retain_graph=True to the earlier backward()"

    @on(Backward)
    def walked(self, event: Backward) -> Iterator[Violation]:
        root = event.root
        if not root.freed.is_true:
            return
        again = root.freed_at == event.site
        yield Violation(
            f"the graph of {root.named('this value')} was freed by an earlier backward pass",
            at=event.site,
            related=places(
                ("the graph was freed here" + (", in an earlier iteration" if again else ""), root.freed_at),
            ),
        )
