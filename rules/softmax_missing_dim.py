from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import SoftmaxCalled
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class SoftmaxMissingDim(Rule):
    """Softmax is called without the dimension that it normalizes over.

    ## What it does
    Finds `softmax`, `log_softmax` and `softmin`, as functions and as layers, without `dim`.

    ## Why is this bad
    PyTorch then guesses from the number of dimensions: 0 for one or three, otherwise 1. For a batch of sequences that
    normalizes over the batch, so that every sample depends on the others.

    ## Example
    ```python
    probabilities = F.softmax(model(x))
    ```

    ## Use instead
    ```python
    probabilities = F.softmax(model(x), dim=-1)
    ```

    ## At runtime
    PyTorch warns that the implicit choice of the dimension has been deprecated; `torch.softmax` without it raises.

    ## Stays silent on
    `dim` given in any form; softmax of other libraries, and functions of the project with that name.

    ## References
    - [torch.nn.functional.softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html)
    """

    code = "GL305"
    name = "softmax-missing-dim"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "pass the dimension: dim=-1 for classes in the last one, dim=1 for images"

    @on(SoftmaxCalled)
    def called(self, event: SoftmaxCalled) -> Iterator[Violation]:
        if event.dim_given.is_false:
            yield Violation(f"{event.function} without `dim` guesses which dimension to normalize over", at=event.site)
