from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.intents import Omit, unsafe
from gradlint.rule import Rule, Violation, on, places


class SoftmaxBeforeCrossEntropy(Rule):
    """Cross-entropy is given probabilities: it applies softmax itself.

    ## What it does
    Finds `nn.CrossEntropyLoss` and `F.cross_entropy` whose prediction has already been through a softmax, in the same
    function, at the end of the model, or in another file; and `nn.NLLLoss` and `F.nll_loss` that are given the
    log-softmax of a softmax, which is the same.

    ## Why is this bad
    The loss expects logits and applies log-softmax to them. A second softmax squeezes probabilities between 0 and 1
    into a nearly uniform distribution: the loss cannot come near zero, gradients are tiny, and the model learns
    slowly and less than it could, without any error.

    ## Example
    ```python
    probabilities = F.softmax(model(x), dim=1)
    loss = criterion(probabilities, y)
    loss.backward()
    ```

    ## Use instead
    ```python
    logits = model(x)
    loss = criterion(logits, y)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises nothing: probabilities are valid logits.

    ## Stays silent on
    Softmax in attention, in metrics and sampling; another element of what the model returns; probabilities as the
    *target*; layers that are defined and never called.

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    """

    code = "GL301"
    name = "softmax-before-cross-entropy"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "give cross-entropy the logits; apply softmax only where probabilities are needed"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if event.loss == "nll_loss":
            yield from self._twice(event)
        if event.loss != "cross_entropy" or not event.input.activation.equals("softmax"):
            return
        applied = event.input.activation_at
        yield Violation(
            f"cross-entropy expects logits, but {event.input.named('its input')} has already been through a softmax",
            at=event.site,
            related=places(("softmax applied here", applied)),
            mend=unsafe("leave it out", Omit("softmax", "Softmax", at=applied)) if applied else None,
        )

    def _twice(self, event: LossCalled) -> Iterator[Violation]:
        given = event.input
        if given.activation.equals("log_softmax") and given.activated.equals("softmax"):
            yield Violation(
                f"{given.named('the input of this loss')} is the log-softmax of what has been through a softmax",
                at=event.site,
                related=places(("softmax applied here", given.activated_at), ("log-softmax here", given.activation_at)),
                remedy="take the log-softmax of the logits",
            )
