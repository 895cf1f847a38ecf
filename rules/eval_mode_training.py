from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ModelStepped
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class EvalModeTraining(Rule):
    """A step trains a model on a graph that was built in evaluation mode.

    ## What it does
    Remembers in which mode a model with dropout or batch normalization was last called before a step updates it.

    ## Why is this bad
    In evaluation mode dropout does nothing and batch normalization uses its running statistics, which then never
    adapt. Mostly `model.train()` is missing after an evaluation.

    ## Example
    ```python
    model.eval()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## At runtime
    The finding stands at the step; the call of the model is a related location.

    ## Stays silent on
    Models in training mode some layers of which are in evaluation mode (frozen normalization); models without dropout
    and batch normalization; attacks made in evaluation mode before a call in training mode.

    ## References
    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    """

    code = "GL703"
    name = "eval-mode-training"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "call model.train() before training goes on"

    @on(ModelStepped)
    def stepped(self, event: ModelStepped) -> Iterator[Violation]:
        if event.training.is_false:
            yield Violation(
                "this step trains a model that was called in evaluation mode",
                at=event.site,
                related=places(("it was called here", event.forward_at)),
            )
