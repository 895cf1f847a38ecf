from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import DropoutCalled
from gradlint.finding import Effect, Severity
from gradlint.intents import Intent, Mend, Replace, SetArgument, safe
from gradlint.rule import Rule, Violation, on

_ATTENTION = "scaled_dot_product_attention"
#: the functions of the layers that take the same arguments
_FUNCTIONS = {
    "nn.Dropout": "dropout",
    "nn.Dropout1d": "dropout1d",
    "nn.Dropout2d": "dropout2d",
    "nn.Dropout3d": "dropout3d",
    "nn.AlphaDropout": "alpha_dropout",
    "nn.FeatureAlphaDropout": "feature_alpha_dropout",
}


class DropoutWithoutTraining(Rule):
    """Dropout in a module does not follow the module's mode.

    ## What it does
    Finds `F.dropout` and its relatives without `training`, `scaled_dot_product_attention` whose `dropout_p` does not
    depend on `self.training`, and `nn.Dropout` built on the spot, in the forward pass of a module.

    ## Why is this bad
    `model.eval()` reaches registered modules only. A dropout that is not given the mode stays active in
    evaluation: predictions are random and worse. `F.alpha_dropout` has the opposite default and is never active.

    ## Example
    ```python
    class Head(nn.Module):
        def forward(self, x):
            return F.dropout(x, p=0.5)
    ```

    ## Use instead
    ```python
    class Head(nn.Module):
        def forward(self, x):
            return F.dropout(x, p=0.5, training=self.training)
    ```

    ## At runtime
    PyTorch raises nothing: in evaluation the same input gives another output on each call.

    ## Stays silent on
    `training` given in any form, `True` and `False` included (Monte Carlo dropout); calls under `if self.training:`;
    a probability of zero; functions that no module calls; other libraries' dropout.

    ## References
    - [torch.nn.functional.dropout](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html)
    - [torch.nn.functional.scaled_dot_product_attention](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html)
    """

    code = "GL401"
    name = "dropout-without-training"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "safe"
    remedy = "pass training=self.training"

    @on(DropoutCalled)
    def called(self, event: DropoutCalled) -> Iterator[Violation]:
        if not event.training_given.is_false or not event.in_module.is_true:
            return
        if not event.mode_checked.is_false or event.inert.is_true:
            return
        message, remedy = _explained(event)
        yield Violation(message, at=event.site, remedy=remedy, mend=_mend(event))


def _mend(event: DropoutCalled) -> Mend | None:
    if not event.module:
        return None
    mode = f"{event.module}.training"
    if event.function == _ATTENTION:
        told: Intent = SetArgument("dropout_p", f"{{argument dropout_p}} if {mode} else 0.0")
    elif event.function in _FUNCTIONS:
        told = Replace(
            "node",
            f"{{torch.nn.functional}}.{_FUNCTIONS[event.function]}"
            f"({{arguments}}, {{arguments of function}}, training={mode})",
            when="{function of function}({arguments of function})({arguments})",
        )
    elif event.function.startswith("nn."):
        return None
    else:
        told = SetArgument("training", mode)
    return safe("follow the module's mode", told)


def _explained(event: DropoutCalled) -> tuple[str, str]:
    name = event.function
    if name == _ATTENTION:
        return (
            f"{name} applies dropout_p in evaluation too: it does not depend on self.training",
            "pass dropout_p=p if self.training else 0.0",
        )
    if name.startswith("nn."):
        return (
            f"{name} is built in the forward pass, so eval() never reaches it: it stays active in evaluation",
            f"build {name} once in __init__",
        )
    if event.drops_by_default:
        return f"{name} without `training` stays active in evaluation", DropoutWithoutTraining.remedy
    return f"{name} without `training` is never active: its default is False", DropoutWithoutTraining.remedy
