from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import AttributeMisspelt
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, safe
from gradlint.rule import Rule, Violation, on


class MisspeltRequiresGrad(Rule):
    """An attribute one slip away from `requires_grad` is set on a tensor, which changes nothing.

    ## What it does
    Finds assignments to `require_grad`, `requires_grads`, `requires_grad_` and others like them, where what they are
    made to is known to be a tensor or a parameter.

    ## Why is this bad
    Python lets a program set any attribute on a tensor, and autograd reads `requires_grad` only: what should be frozen
    goes on training, what should be trained is not. Nothing raises. `requires_grad_ = False` even covers the method.

    ## Example
    ```python
    for parameter in model[0].parameters():
        parameter.require_grad = False
    ```

    ## Use instead
    ```python
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    ```

    ## Stays silent on
    Attributes of modules and other objects, which may have one of that name; what is not known to be a tensor.

    ## References
    - [torch.Tensor.requires_grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.requires_grad.html)
    """

    code = "GL413"
    name = "misspelt-requires-grad"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "safe"
    remedy = "set requires_grad, or call requires_grad_(...)"

    @on(AttributeMisspelt)
    def misspelt(self, event: AttributeMisspelt) -> Iterator[Violation]:
        owner = "{receiver of target}"
        yield Violation(
            f"autograd does not know `{event.attribute}`: setting it on a tensor changes nothing",
            at=event.site,
            mend=safe(
                "set requires_grad",
                Replace(
                    "statement",
                    f"{owner}.requires_grad = {{value}}",
                    when=f"{owner}.{event.attribute} = {{value}}",
                ),
            ),
        )
