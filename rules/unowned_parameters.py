from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import UnownedTrained
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places

_SHOWN = 3  #: names in the message


class UnownedParameters(Rule):
    """Parameters get gradients that no optimizer applies, though others of their model have one.

    ## What it does
    Finds optimizers that step while other parameters of the same model get gradients, and nothing owns these: they
    were frozen when the optimizer was given the rest, and were thawed later; or the optimizer was given several parts
    of the model, and one of the parts behind them was forgotten.

    ## Why is this bad
    The gradients are computed and thrown away: these parameters keep their first values while everything around them
    adapts. Nothing raises, and the loss goes down, though not as far.

    ## Example
    ```python
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model[0].requires_grad_(True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model[0].requires_grad_(True)
    optimizer.add_param_group({"params": model[0].parameters()})
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    The guard names the parameters. That they were thawed it knows of those it has seen frozen, or being thawed.

    ## Stays silent on
    Frozen parameters; several optimizers that own all; parameters that are stepped by hand; the parts of a model that
    come before those that are trained, as a pretrained backbone that is left as it is; optimizers of a few parts among
    many, and of some of the parameters of a part, as adapters or biases. Parts that were added later belong to
    `optimizer-stale-params`.

    ## References
    - [Optimizer.add_param_group](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.add_param_group.html)
    """

    code = "GL216"
    name = "unowned-parameters"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "give them to the optimizer, use add_param_group(), or freeze them"

    @on(UnownedTrained)
    def stepping(self, event: UnownedTrained) -> Iterator[Violation]:
        if not event.parameters:
            return
        shown = ", ".join(f"`{name}`" for name in event.parameters[:_SHOWN])
        more = len(event.parameters) - _SHOWN
        named = f"{shown} and {more} more" if more > 0 else shown
        why = ", thawed after this optimizer was built," if event.thawed else ""
        yield Violation(
            f"no optimizer owns {named}{why} though gradients are computed for them",
            at=event.site,
            related=places(
                ("they were thawed here", event.thawed_at), ("it steps without them here", event.stepped_at)
            ),
            cause=event.stepped_at,
        )
