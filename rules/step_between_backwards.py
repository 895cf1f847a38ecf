from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import Backward
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class StepBetweenBackwards(Rule):
    """`step()` changes parameters that a later backward pass of an older graph still needs.

    ## What it does
    Flags a backward pass over a graph that was built before an optimizer step changed the weights it runs through.

    ## Why is this bad
    The backward pass of a layer needs the weights as they were in the forward pass. PyTorch notices the change and
    raises; optimizers with `fused=True` hide it, and the gradients are silently wrong.

    ## Example
    ```python
    logits = model(x)
    first = criterion(logits, y)
    second = logits.pow(2).mean()
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    optimizer.step()
    second.backward()
    ```

    ## Use instead
    ```python
    logits = model(x)
    first = criterion(logits, y)
    second = logits.pow(2).mean()
    optimizer.zero_grad()
    (first + second).backward()
    optimizer.step()
    ```

    ## At runtime
    The guard also sees steps between the forward pass of a checkpoint and its repetition, which computes with the
    parameters as they are by then, and raises nothing. It knows them by the modules that are called again.

    ## Stays silent on
    Graphs that are built after the step; steps of optimizers over other parameters; layers whose input requires no
    gradient, which do not need their weights.

    ## References
    - [In-place correctness checks](https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks)
    """

    code = "GL213"
    name = "step-between-backwards"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = None
    remedy = "run both backward passes before the step, or compute the second loss after it"

    @on(Backward)
    def outdated(self, event: Backward) -> Iterator[Violation]:
        if event.root.stale_at is None or event.root.freed.is_true:
            return
        yield Violation(
            "this backward pass needs parameters as they were before step() changed them",
            at=event.site,
            related=places(("they were changed here", event.root.stale_at)),
        )
