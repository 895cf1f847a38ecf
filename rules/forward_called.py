from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ForwardInvoked
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, safe
from gradlint.rule import Rule, Violation, on


class ForwardCalled(Rule):
    """A module is used through `forward()` instead of being called.

    ## What it does
    Finds `module.forward(…)` where the object is known to be a module and the call does not come from itself.

    ## Why is this bad
    Calling the module runs `forward` and everything hung around it: forward and backward hooks, weight and spectral
    normalization as hooks, feature extraction, profilers, distributed wrappers. `forward()` skips them in silence.

    ## Example
    ```python
    output = model.forward(x)
    ```

    ## Use instead
    ```python
    output = model(x)
    ```

    ## Stays silent on
    `super().forward(…)` and `self.forward(…)`; objects that are not modules, or not known to be; classes that
    have a `__call__` of their own.

    ## References
    - [torch.nn.Module.register_forward_hook](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "GL403"
    name = "forward-called"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = "safe"
    remedy = "call the module itself"

    @on(ForwardInvoked)
    def called(self, event: ForwardInvoked) -> Iterator[Violation]:
        yield Violation(
            f"forward() of {event.module} is called directly: its hooks are skipped",
            at=event.site,
            mend=safe("call the module", Replace("function", "{receiver}", when="{receiver}.forward")),
        )
