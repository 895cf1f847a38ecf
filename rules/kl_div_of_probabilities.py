from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LossCalled
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places

_PROBABILITIES = {"softmax": "softmax", "sigmoid": "sigmoid"}


class KlDivOfProbabilities(Rule):
    """`KLDivLoss` is given probabilities instead of log-probabilities.

    ## What it does
    Finds `nn.KLDivLoss` and `F.kl_div` whose first argument is known to be the output of a softmax or a sigmoid.

    ## Why is this bad
    The loss computes `target * (log(target) - input)`: it expects the logarithm of the predicted probabilities as its
    input, and does not check. Of the probabilities themselves it computes another number, which is smallest where all
    of them are large: the gradient is no longer that of a divergence, and nothing raises.

    ## Example
    ```python
    student = F.softmax(model(x), dim=1)
    teacher = torch.full((4, 3), 1 / 3)
    loss = F.kl_div(student, teacher, reduction="batchmean")
    loss.backward()
    ```

    ## Use instead
    ```python
    student = F.log_softmax(model(x), dim=1)
    teacher = torch.full((4, 3), 1 / 3)
    loss = F.kl_div(student, teacher, reduction="batchmean")
    loss.backward()
    ```

    ## At runtime
    The guard sees the call, if the softmax or sigmoid was applied to the very tensor, or to one of another shape.

    ## Stays silent on
    A logarithm anywhere on the way, and `log_softmax`; probabilities as *target*, which are right unless `log_target`
    is set; arguments that are swapped, which `swapped-loss-arguments` tells.

    ## References
    - [torch.nn.KLDivLoss](https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html)
    """

    code = "GL310"
    name = "kl-div-of-probabilities"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "give it log-probabilities: log_softmax instead of softmax, logsigmoid instead of sigmoid"

    @on(LossCalled)
    def called(self, event: LossCalled) -> Iterator[Violation]:
        if event.loss != "kl_div" or not event.input.activation.equals(*_PROBABILITIES):
            return
        if event.target.activation.equals("log_softmax"):
            return
        source = _PROBABILITIES[event.input.activation.value]
        yield Violation(
            f"kl_div expects log-probabilities, but {event.input.named('its input')} holds the output of a {source}",
            at=event.site,
            related=places((f"{source} applied here", event.input.activation_at)),
        )
