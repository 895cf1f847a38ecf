from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LostTermAdded
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places

_HOW = {
    "copy": "its value was copied into a new tensor here",
    "integers": "it became integers here, which carry no gradient",
    "number": "it became a plain number here",
    "round": "it was rounded here: the gradient of that is zero",
    "numpy": "it became a numpy array here",
    "gradient": "it was derived here, without create_graph=True",
}


class CutLossTerm(Rule):
    """A term is added to a loss, but lost its graph on the way from the outputs: nothing is trained by it.

    ## What it does
    Finds sums that a backward pass starts from, one term of which was computed from outputs or parameters that
    require grad, but reaches the sum as a mere value: copied (`torch.tensor(losses)`), as a number or a numpy array
    (`.item()`, `float()`, `.numpy()`), rounded, as integers (`argmax`, comparisons), or as a gradient that
    `torch.autograd.grad` gave without `create_graph=True`. Another term keeps its graph.

    ## Why is this bad
    Nothing raises, for the other terms have a graph. To them, this one is a constant: the number that is shown as loss
    contains it, but its gradient is zero, and the penalty or second task that it stands for is never learnt.

    ## Example
    ```python
    output = model(x)
    penalty = output.pow(2).mean().item()
    loss = criterion(output, y) + penalty
    loss.backward()
    ```

    ## Use instead
    ```python
    output = model(x)
    penalty = output.pow(2).mean()
    loss = criterion(output, y) + penalty
    loss.backward()
    ```

    ## At runtime
    The guard watches the functions that cut graphs, in the steps in which it watches functions. It does not see what
    Python or numpy compute of numbers and arrays in between.

    ## Stays silent on
    Weights and other factors, targets; terms that are detached, or computed under `no_grad`, and not turned into
    numbers afterwards: that is a purpose, and so is a detached term beside others, as in straight-through estimators;
    sums that are only printed; losses none of whose terms has a graph (GL107).

    ## References
    - [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    - [torch.autograd.grad](https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html)
    """

    code = "GL217"
    name = "cut-loss-term"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    remedy = "keep the term a tensor that carries its graph: no number, no copy, create_graph=True for derivatives"

    @on(LostTermAdded)
    def added(self, event: LostTermAdded) -> Iterator[Violation]:
        if event.how in _HOW:
            yield Violation(
                "this adds a term to the loss whose graph was cut: no gradient comes from it",
                at=event.site,
                related=places((_HOW[event.how], event.cut_at)),
            )
