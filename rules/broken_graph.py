from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import BackwardAsked
from gradlint.finding import Effect, Severity
from gradlint.intents import Mend, Replace, safe
from gradlint.rule import Rule, Violation, on, places

_HOW = {
    "detach": "it was detached here",
    "copy": "its value was copied into a new tensor here",
    "integers": "it became integers here, which carry no gradient",
    "number": "it became a plain number here",
    "round": "it was rounded here: the gradient of that is zero",
    "numpy": "it became a numpy array here",
    "gradient": "it was derived here, without create_graph=True",
}


class BrokenGraph(Rule):
    """`backward()` is called on a value whose graph was cut on the way from the parameters.

    ## What it does
    Finds calls of `backward()` on values that nothing connects with a parameter any more: everything they were
    computed from was detached, copied (`torch.tensor(loss)`, `Variable(loss.data)`), turned into a number or a numpy
    array (`.item()`, `.numpy()`), rounded, became integers (`argmax`, comparisons), or is a gradient that
    `torch.autograd.grad` gave without `create_graph=True`.

    ## Why is this bad
    It raises, or, where the value was rounded or made to require grad, trains nothing: no gradient reaches a parameter.

    ## Example
    ```python
    predicted = model(x).argmax(dim=1)
    loss = (predicted != y).float().mean()
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(model(x), y)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn`.

    ## Stays silent on
    Sums in which one term keeps the graph; detached targets, teachers and weights; metrics; values that came from
    code that cannot be followed.

    ## References
    - [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html)
    """

    code = "GL107"
    name = "broken-graph"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = "safe"
    remedy = "compute the loss from the outputs of the model with differentiable operations only"

    @on(BackwardAsked)
    def asked(self, event: BackwardAsked) -> Iterator[Violation]:
        root = event.root
        if root.cut.equals("no_grad") or (root.requires_grad.is_true and not root.cut.equals("round")):
            return
        if not root.cut.known and not event.noticed.is_true:
            return
        yield Violation(
            f"backward() of {root.named('this value')} reaches no parameter: its graph was cut",
            at=event.site,
            related=places((_HOW[root.cut.value], root.cut_at)) if root.cut.known else (),
            cause=root.cut_at,
            mend=_mend(event),
        )


def _mend(event: BackwardAsked) -> Mend | None:
    if not event.stackable.is_true or event.root.cut_at is None:
        return None
    written = Replace("node", "{torch}.stack({argument 0})", "{torch}.tensor({argument 0})", at=event.root.cut_at)
    return safe("stack the losses, which keeps their graphs", written)
