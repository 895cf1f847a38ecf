from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.intents import Omit, unsafe
from gradlint.rule import Rule, Violation, on, places


class LogSoftmaxBeforeCrossEntropy(Rule):
    """Cross-entropy is given log-probabilities: it applies log-softmax itself.

    ## What it does
    Finds `nn.CrossEntropyLoss` and `F.cross_entropy` whose prediction has already been through a log-softmax.

    ## Why is this bad
    Log-softmax applied twice gives the same values and the same gradients, so nothing is lost but time. It is
    nearly always a sign that `NLLLoss` was meant, or that the model's author and the loss's disagree about what the
    model returns: the next change on either side makes it wrong.

    ## Example
    ```python
    log_probabilities = F.log_softmax(model(x), dim=1)
    loss = criterion(log_probabilities, y)
    loss.backward()
    ```

    ## Use instead
    ```python
    log_probabilities = F.log_softmax(model(x), dim=1)
    loss = F.nll_loss(log_probabilities, y)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises nothing, and the loss is the same.

    ## Stays silent on
    Another element of what the model returns; log-probabilities used elsewhere; layers that are never called.

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    - [torch.nn.NLLLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html)
    """

    code = "GL308"
    name = "log-softmax-before-cross-entropy"
    severity = Severity.WARNING
    effect = Effect.WASTES
    fix = "unsafe"
    remedy = "use NLLLoss for log-probabilities, or give cross-entropy the logits"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if event.loss != "cross_entropy" or not event.input.activation.equals("log_softmax"):
            return
        applied = event.input.activation_at
        yield Violation(
            f"cross-entropy applies log-softmax itself: {event.input.named('its input')} has already been through one",
            at=event.site,
            related=places(("log-softmax applied here", applied)),
            mend=unsafe("leave it out", Omit("log_softmax", "LogSoftmax", at=applied)) if applied else None,
        )
