from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import GraphRetained
from gradlint.finding import Effect, Severity
from gradlint.intents import DropArgument, safe
from gradlint.rule import Rule, Violation, on


class NeedlessRetainGraph(Rule):
    """`retain_graph=True` keeps a graph that `backward()` never uses again.

    ## What it does
    Finds backward passes that retain their graph where no later one uses any part of it.

    ## Why is this bad
    The values saved for the backward pass stay in memory until the last reference to the graph is gone, often through
    the forward pass of the next iteration. And the argument hides the mistake it was once put in to silence.

    ## Example
    ```python
    loss = criterion(model(x), y)
    loss.backward(retain_graph=True)
    optimizer.step()
    ```

    ## Use instead
    ```python
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    ```

    ## At runtime
    The guard reports a place when none of the graphs it retained was used again: at the end, or after twenty of them.

    ## Stays silent on
    Two losses that share a part of their graphs; `create_graph=True`; gradients of gradients; graphs of values that
    were given, are returned, or are passed to code that is not followed.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    code = "GL204"
    name = "needless-retain-graph"
    severity = Severity.WARNING
    effect = Effect.WASTES
    fix = "safe"
    remedy = "remove retain_graph=True"

    @on(GraphRetained)
    def retained(self, event: GraphRetained) -> Iterator[Violation]:
        yield Violation(
            "the graph is retained, but backward() never uses it again",
            at=event.site,
            mend=safe("let it go", DropArgument("retain_graph")),
        )
