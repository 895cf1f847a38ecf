from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import DataWritten
from gradlint.finding import Severity
from gradlint.rule import Rule, Violation, on, places


class ParameterDataMutation(Rule):
    """A parameter is changed through `.data`.

    ## What it does
    Finds initialisation, moving averages, copies into target networks, weight clipping and updates by hand that
    write to the `.data` of a parameter.

    ## Why is this bad
    It works as long as no graph holds the old values. Written between forward and backward it makes gradients
    silently wrong, because `.data` bypasses the version counter; `torch.no_grad()` and `torch.nn.init` do the
    same work and are checked.

    ## Example
    ```python
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.weight.data.normal_(0, 0.02)
    ```

    ## Use instead
    ```python
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0, 0.02)
    ```

    ## Stays silent on
    The same change without `.data`, by `torch.nn.init` or under `torch.no_grad()`; `.data` that is only read;
    changes of a copy.

    ## References
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    """

    code = "GL110"
    name = "parameter-data-mutation"
    severity = Severity.WARNING
    fix = None
    remedy = "use torch.nn.init, or change the parameter itself under torch.no_grad()"
    supersedes = ("GL102",)

    @on(DataWritten)
    def changed(self, event: DataWritten) -> Iterator[Violation]:
        if not event.tensor.is_parameter.is_true:
            return
        yield Violation(
            f"{event.tensor.named('a parameter')} is changed through .data, behind autograd's back",
            at=event.site,
            related=places((".data was taken here", event.taken_before)),
            cause=event.taken_at or event.site,
        )
