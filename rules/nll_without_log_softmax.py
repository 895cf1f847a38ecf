from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class NllWithoutLogSoftmax(Rule):
    """`NLLLoss` is given something other than log-probabilities.

    ## What it does
    Finds `nn.NLLLoss` and `F.nll_loss` whose prediction is known to be probabilities (a softmax) or raw logits (a
    linear map).

    ## Why is this bad
    The loss only picks `-input[target]`. Of probabilities it makes a loss between -1 and 0 whose gradients vanish
    where the model is wrong; of logits one without a lower bound, that falls for ever while nothing is learned.

    ## Example
    ```python
    loss = F.nll_loss(F.softmax(model(x), dim=1), y)
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises nothing: the loss is negative.

    ## Stays silent on
    A log-softmax anywhere on the way, in any file; `torch.log` of probabilities; whatever the prediction cannot be
    followed to.

    ## References
    - [torch.nn.NLLLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html)
    """

    code = "GL302"
    name = "nll-without-log-softmax"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "apply log_softmax first, or use cross-entropy on the logits"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if event.loss != "nll_loss" or not event.input.activation.equals("softmax", "logits"):
            return
        softmax = event.input.activation.equals("softmax")
        what, where = ("probabilities", "softmax applied here") if softmax else ("raw logits", "logits made here")
        yield Violation(
            f"the negative log-likelihood expects log-probabilities, but {event.input.named('its input')} holds {what}",
            at=event.site,
            related=places((where, event.input.activation_at)),
            remedy="use log_softmax instead of softmax" if softmax else self.remedy,
        )
