from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places

_OUTSIDE = {
    "logits": "raw logits",
    "unbounded": "sums with raw logits",
    "tanh": "values from -1 to 1",
    "log_softmax": "log-probabilities",
}


class BceWithoutSigmoid(Rule):
    """`BCELoss` is given raw logits instead of probabilities.

    ## What it does
    Finds `nn.BCELoss` and `F.binary_cross_entropy` whose prediction is known to come straight from a linear map (also
    where several of its outputs are summed or averaged, or others are added), a tanh or a log-softmax.

    ## Why is this bad
    The loss takes logarithms of its input and of one minus it. Logits outside of 0 to 1 raise an error as soon as
    they occur; those inside pass as probabilities that the model never meant.

    ## Example
    ```python
    logits = model(x)
    target = torch.ones_like(logits)
    loss = F.binary_cross_entropy(logits, target)
    loss.backward()
    ```

    ## Use instead
    ```python
    logits = model(x)
    target = torch.ones_like(logits)
    loss = F.binary_cross_entropy_with_logits(logits, target)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: all elements of input should be between 0 and 1` (on CUDA: a device-side assertion).

    ## Stays silent on
    A sigmoid, softmax or clamp anywhere on the way; whatever the prediction cannot be followed to.

    ## References
    - [torch.nn.BCELoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html)
    """

    code = "GL304"
    name = "bce-without-sigmoid"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = None
    remedy = "use BCEWithLogitsLoss, which applies the sigmoid itself and is numerically stable"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if event.loss != "binary_cross_entropy" or not event.input.activation.equals(*_OUTSIDE):
            return
        what = _OUTSIDE[event.input.activation.value]
        yield Violation(
            f"binary cross-entropy expects probabilities, but {event.input.named('its input')} holds {what}",
            at=event.site,
            related=places((f"{what} made here", event.input.activation_at)),
        )
