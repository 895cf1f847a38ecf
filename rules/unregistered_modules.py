from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ModuleBuilt
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on


class UnregisteredModules(Rule):
    """A module keeps layers or parameters in a plain list, tuple or dict.

    ## What it does
    Looks at each module when its `__init__` is done, and finds lists, tuples and dicts of layers or parameters that
    the module made and did not register in any other way. What a function filled is told where the module keeps it.

    ## Why is this bad
    A module finds layers and parameters among its attributes, not inside plain containers. What is in there is not
    in `parameters()`, so the optimizer never trains it; `to()` does not move it, `eval()` does not reach it, and
    `state_dict()` does not save it.

    ## Example
    ```python
    class Experts(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.experts = [nn.Linear(width, width) for _ in range(count)]

        def forward(self, x):
            return sum(expert(x) for expert in self.experts)
    ```

    ## Use instead
    ```python
    class Experts(nn.Module):
        def __init__(self, width, count):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

        def forward(self, x):
            return sum(expert(x) for expert in self.experts)
    ```

    ## At runtime
    The guard looks through a module when it is first called, and finds in the source of its class where it makes what
    it keeps. It reports at the third step, or at the end, what no optimizer was given until then.

    ## Stays silent on
    Containers whose content is registered as well (`nn.ModuleList`, `nn.Sequential(*layers)`, `add_module`,
    `register_parameter`, a second attribute); parameters that are handed to an optimizer by hand; layers without
    parameters, functions and names; modules that were given from outside; a list written with a single module, the
    usual way to hide one on purpose; classes that are not modules or list their parameters themselves.

    ## References
    - [torch.nn.ModuleList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html)
    - [torch.nn.ParameterList](https://docs.pytorch.org/docs/stable/generated/torch.nn.ParameterList.html)
    """

    code = "GL404"
    name = "unregistered-modules"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "keep layers in nn.ModuleList or nn.ModuleDict, parameters in nn.ParameterList or nn.ParameterDict"

    @on(ModuleBuilt)
    def built(self, event: ModuleBuilt) -> Iterator[Violation]:
        if not event.registered.is_false:
            return
        yield Violation(
            f"`self.{event.attribute}` is a plain {event.container}: "
            f"{event.module} does not register what is in it, so it is neither trained, moved nor saved",
            at=event.site,
        )
