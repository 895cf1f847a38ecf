from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ModuleRequiresGradSet
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, safe
from gradlint.rule import Rule, Violation, on


class ModuleRequiresGrad(Rule):
    """`requires_grad` is set on a module, which freezes nothing.

    ## What it does
    Finds `module.requires_grad = …` on values known to be modules.

    ## Why is this bad
    A module has no such property: the assignment creates a plain attribute that nothing reads, and all its parameters
    go on training.

    ## Example
    ```python
    model[0].requires_grad = False
    ```

    ## Use instead
    ```python
    model[0].requires_grad_(False)
    ```

    ## At runtime
    The guard sees the assignment. One that was made before the guard began is reported where the model is called,
    if parameters of that module still require grad.

    ## Stays silent on
    Parameters and other tensors; a module that keeps such an attribute of its own.

    ## References
    - [torch.nn.Module.requires_grad_](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "GL410"
    name = "module-requires-grad"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "safe"
    remedy = "call module.requires_grad_(False)"

    @on(ModuleRequiresGradSet)
    def asked(self, event: ModuleRequiresGradSet) -> Iterator[Violation]:
        if event.own:
            return
        if event.part:
            yield Violation(
                f"requires_grad was set on the module `{event.part}` before: its parameters are unchanged",
                at=event.site,
                remedy=f"call {event.part}.requires_grad_(False)",
            )
            return
        owner = "{receiver of target}"
        yield Violation(
            "setting requires_grad on a module only adds an attribute: its parameters are unchanged",
            at=event.site,
            mend=safe(
                "set it on its parameters",
                Replace("statement", f"{owner}.requires_grad_({{value}})", when=f"{owner}.requires_grad = {{value}}"),
            ),
        )
