from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import HookRegistered
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class HooksPileUp(Rule):
    """A hook is registered on a module in every iteration or call, and none is removed.

    ## What it does
    Finds a place that registers hooks on a module (`register_forward_hook`, `register_forward_pre_hook`,
    `register_full_backward_hook`) and is reached again while the hook it registered before is still there.

    ## Why is this bad
    A module calls all of its hooks. With each iteration there is one more: the thousandth step calls a thousand of
    them, each does its work again, what they collect is collected many times over, and what they refer to is never
    freed. Training becomes slower from step to step.

    ## Example
    ```python
    norms = []
    for inputs, labels in loader:
        model[0].register_forward_hook(lambda module, given, output: norms.append(output.detach().norm()))
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    norms = []
    handle = model[0].register_forward_hook(lambda module, given, output: norms.append(output.detach().norm()))
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    handle.remove()
    ```

    ## At runtime
    The guard tells of a place that registers the third hook on a module while the two before are there.

    ## Stays silent on
    Hooks that are removed by their handle, at the end of a `with` block, or by clearing the dicts that hold them;
    a hook registered once; one for each of several modules, also of a list whose length is not known; hooks of tensors,
    which are gone with the graph.

    ## References
    - [torch.nn.Module.register_forward_hook](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.register_forward_hook)
    """

    code = "GL418"
    name = "hooks-pile-up"
    severity = Severity.WARNING
    effect = Effect.WASTES
    fix = None
    remedy = "register it once, or keep the handle and call its remove() before the next one is registered"

    @on(HookRegistered)
    def registered(self, event: HookRegistered) -> Iterator[Violation]:
        if not event.piled.is_true:
            return
        yield Violation(
            f"{event.method} adds a hook each time, and those before are never removed: the module calls all of them",
            at=event.site,
        )
