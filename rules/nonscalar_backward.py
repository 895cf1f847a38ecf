from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import BackwardAsked
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class NonscalarBackward(Rule):
    """`backward()` without a gradient is called on a value with several elements.

    ## What it does
    Finds `backward()` on losses made with `reduction="none"`, on element-wise results of a model and on other values
    known to have several elements, where no `gradient` is given.

    ## Why is this bad
    It raises: only a single number has an obvious gradient to start from.

    ## Example
    ```python
    loss = nn.CrossEntropyLoss(reduction="none")(model(x), y)
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = nn.CrossEntropyLoss(reduction="none")(model(x), y)
    loss.mean().backward()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: grad can be implicitly created only for scalar outputs`.

    ## Stays silent on
    Values that are reduced first; calls that give a gradient; values of unknown size.

    ## References
    - [torch.Tensor.backward](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html)
    """

    code = "GL207"
    name = "nonscalar-backward"
    severity = Severity.ERROR
    effect = Effect.RAISES
    remedy = "reduce it first: .mean() or .sum()"

    @on(BackwardAsked)
    def asked(self, event: BackwardAsked) -> Iterator[Violation]:
        root = event.root
        if not root.scalar.is_false or not event.gradient_given.is_false or root.requires_grad.is_false:
            return
        yield Violation(
            f"backward() of {root.named('a value')} with several elements raises: no gradient is given",
            at=event.site,
            related=places(("it was computed here", root.made_at)),
        )
