from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places

_CLASSES = ("cross_entropy", "nll_loss")
_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


class SwappedLossArguments(Rule):
    """A loss is given the target first and the prediction second.

    ## What it does
    Looks at what produced the two arguments of cross-entropy, NLL, binary cross-entropy and KL divergence: finds
    calls whose target is the output of a trained model while the prediction is data, and `kl_div` with probabilities
    first and log-probabilities second. Names do not count.

    ## Why is this bad
    These losses are not symmetric. Some raise; others return a number that decreases while the model learns
    something else.

    ## Example
    ```python
    for inputs, labels in loader:
        loss = criterion(labels, model(inputs))
    ```

    ## Use instead
    ```python
    for inputs, labels in loader:
        loss = criterion(model(inputs), labels)
    ```

    ## Stays silent on
    Symmetric losses (`mse_loss`, `l1_loss`, `huber_loss`); two predictions, as in distillation; arguments that cannot
    be followed, whatever they are called.

    ## References
    - [torch.nn.CrossEntropyLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html)
    - [torch.nn.KLDivLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html)
    """

    code = "GL307"
    name = "swapped-loss-arguments"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "give the prediction first, the target second"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if _swapped(event):
            yield Violation(
                f"{event.loss} is given the prediction as its target",
                at=event.site,
                related=places(("the prediction comes from here", event.target.activation_at)),
            )


def _swapped(event: LossCalled) -> bool:
    given, target = event.input, event.target
    is_data = given.loaded.is_true or given.requires_grad.is_false
    if event.loss == "kl_div":
        is_plain = given.activation.equals("none") and is_data and target.requires_grad.is_true
        is_target = given.activation.equals("softmax") or (is_plain and event.log_target.is_false)
        return is_target and target.activation.equals("log_softmax")
    if not target.requires_grad.is_true or not is_data:
        return False
    if event.loss in _CLASSES:
        return target.activation.equals("logits", "log_softmax")
    return event.loss in _BINARY and target.activation.equals("logits", "sigmoid")
