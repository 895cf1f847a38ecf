from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import LogTaken
from gradlint.finding import Effect, Severity
from gradlint.intents import Rename, Unwrap, safe
from gradlint.rule import Rule, Violation, on, places


class LogOfSoftmax(Rule):
    """The logarithm of a softmax is taken in two steps.

    ## What it does
    Finds `torch.log` and `.log()` of a value that is known to come from a softmax, also with a small number added.

    ## Why is this bad
    A small probability is rounded to zero before its logarithm is taken: the result is minus infinity and its
    gradient is not a number. An epsilon hides this and makes both wrong. `log_softmax` computes the same exactly.

    ## Example
    ```python
    probabilities = torch.softmax(model(x), dim=1)
    loss = F.nll_loss(torch.log(probabilities), y)
    ```

    ## Use instead
    ```python
    log_probabilities = torch.log_softmax(model(x), dim=1)
    loss = F.nll_loss(log_probabilities, y)
    ```

    ## At runtime
    The guard sees it on the steps on which it watches functions.

    ## Stays silent on
    Probabilities that were stored, averaged or otherwise computed with; an entropy with an epsilon,
    `p * torch.log(p + 1e-8)`; softmax of other libraries; whatever cannot be followed to a softmax.

    ## References
    - [torch.nn.functional.log_softmax](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html)
    """

    code = "GL306"
    name = "log-of-softmax"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = "safe"
    remedy = "use log_softmax, which computes the logarithm without the rounding"

    @on(LogTaken)
    def taken(self, event: LogTaken) -> Iterator[Violation]:
        if not event.activation.equals("softmax"):
            return
        softmax = event.input.activation_at
        yield Violation(
            "the logarithm of a softmax loses small probabilities: log(0) is minus infinity",
            at=event.site,
            related=places(("softmax applied here", softmax)),
            mend=safe(
                "use log_softmax",
                Rename("softmax", "log_softmax", at=softmax),
                Unwrap("log", inner=softmax),
            )
            if softmax is not None
            else None,
        )
