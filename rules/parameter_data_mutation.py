from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import DataWritten
from gradlint.finding import Effect, Severity
from gradlint.intents import ChangeItself, Mend, Replace, safe, unsafe
from gradlint.rule import Rule, Violation, on, places


class ParameterDataMutation(Rule):
    """A parameter is changed through `.data`.

    ## What it does
    Finds initialization, moving averages, copies into target networks, weight clipping and updates by hand that
    write to the `.data` of a parameter, or of a leaf that is trained by its gradient, or kept by a module, as
    parameters are. Of all that a function initializes the first is reported, with the others as related places; what
    gradients have reached, or a graph still needs, is reported by itself.

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
    The same change without `.data`, also by `torch.nn.init`; changes under `torch.no_grad()`, unless a graph still
    needs the old values; `.data` that is only read; changes of a copy.

    ## References
    - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html)
    - [torch.no_grad](https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html)
    """

    code = "GL110"
    name = "parameter-data-mutation"
    severity = Severity.WARNING
    effect = Effect.STYLE
    fix = "safe"
    remedy = "use torch.nn.init, or change the parameter itself under torch.no_grad()"
    supersedes = ("GL102",)

    @on(DataWritten)
    def changed(self, event: DataWritten) -> Iterator[Violation]:
        if not event.tensor.is_parameter.is_true or (event.grad_enabled.is_false and not event.needed.is_true):
            return
        alone = event.needed.is_true or event.trained.is_true
        yield Violation(
            f"{_named(event)} is changed through .data, where autograd cannot check it",
            at=event.site,
            related=places((".data was taken here", event.taken_before)),
            cause=event.taken_at or event.site,
            mend=_mend(event),
            in_function="" if alone else "also changed through .data",
        )


def _named(event: DataWritten) -> str:
    if not event.as_parameter:
        return event.tensor.named("a parameter")
    return f"the leaf tensor {event.tensor.named('')}" if event.tensor.text else "a leaf tensor"


#: what changes a tensor in place, and the initializer that does exactly the same with the same arguments
_INITIALIZERS = {"normal_": "normal_", "uniform_": "uniform_", "fill_": "constant_", "zero_": "zeros_"}


def _mend(event: DataWritten) -> Mend | None:
    owner = "{receiver of receiver}"
    initializer = _INITIALIZERS.get(event.how)
    if initializer is not None:
        arguments = "" if initializer == "zeros_" else "{arguments}"
        comma = ", " if arguments else ""
        call = f"{{torch.nn}}.init.{initializer}({owner}{comma}{arguments})"
        written = Replace("node", call, when=f"{owner}.data.{event.how}({arguments})")
        return safe("use the initializer", written)
    header = "" if event.grad_enabled.is_false else "with {torch}.no_grad():"
    return unsafe("change it where no gradients are recorded", ChangeItself(header))
