from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.intents import Omit, unsafe
from gradlint.rule import Rule, Violation, on, places


class SigmoidBeforeBceWithLogits(Rule):
    """Binary cross-entropy with logits is given probabilities: it applies sigmoid itself.

    ## What it does
    Finds `nn.BCEWithLogitsLoss` and `F.binary_cross_entropy_with_logits` whose prediction has already been through a
    sigmoid; and `nn.BCELoss` and `F.binary_cross_entropy` whose prediction has been through two.

    ## Why is this bad
    The second sigmoid maps probabilities between 0 and 1 to values between 0.5 and 0.73: a negative can never be
    predicted with confidence, and the gradients are small everywhere.

    ## Example
    ```python
    logits = model(x)
    target = torch.ones_like(logits)
    loss = F.binary_cross_entropy_with_logits(torch.sigmoid(logits), target)
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
    PyTorch raises nothing: probabilities are valid logits.

    ## Stays silent on
    Another element of what the model returns; sigmoid for metrics, gates and masks.

    ## References
    - [torch.nn.BCEWithLogitsLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html)
    """

    code = "GL303"
    name = "sigmoid-before-bce-with-logits"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "give the loss the logits; apply sigmoid only where probabilities are needed"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if event.loss == "binary_cross_entropy":
            yield from self._twice(event)
        if event.loss != "binary_cross_entropy_with_logits" or not event.input.activation.equals("sigmoid"):
            return
        applied = event.input.activation_at
        yield Violation(
            f"this loss expects logits, but {event.input.named('its input')} has already been through a sigmoid",
            at=event.site,
            related=places(("sigmoid applied here", applied)),
            mend=unsafe("leave it out", Omit("sigmoid", "Sigmoid", at=applied)) if applied else None,
        )

    def _twice(self, event: LossCalled) -> Iterator[Violation]:
        given = event.input
        if given.activation.equals("sigmoid") and given.activated.equals("sigmoid"):
            yield Violation(
                f"{given.named('the input of this loss')} has been through two sigmoids",
                at=event.site,
                related=places(
                    ("the first one here", given.activated_at), ("the second one here", given.activation_at)
                ),
                remedy="apply one sigmoid",
            )
