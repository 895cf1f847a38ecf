from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import OutputMeasured
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class EvalModeMissing(Rule):
    """A model with dropout or batch normalization is evaluated in training mode.

    ## What it does
    Finds calls of a model that is known to be in training mode and to hold layers whose behaviour depends on it, where
    numbers, labels, probabilities or losses are made of the output, or it is printed. The call is made under
    `torch.no_grad()`, or no backward pass reaches the output and the model was trained before, in the same program or
    in that which wrote the file of its weights.

    ## Why is this bad
    Dropout stays active, so that the result is random and too low. Batch normalization uses the statistics of
    the batch, so that the result depends on what else is in it, and it takes test data into its running statistics.

    ## Example
    ```python
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
    with torch.no_grad():
        for x, y in loader:
            print((model(x).argmax(1) == y).sum().item())
    ```

    ## Use instead
    ```python
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            print((model(x).argmax(1) == y).sum().item())
    ```

    ## At runtime
    The guard reports calls without gradients, one after the other and with different inputs, whose outputs are compared
    with labels or given to a loss, while nobody asked for training mode since the last training.

    ## Stays silent on
    Models without such layers, and those whose inside is not known; training mode that was asked for and not trained
    in since (Monte Carlo dropout); targets of a training (teachers, target networks); images of a generator; with
    gradients enabled, outputs that something else may learn from.

    ## References
    - [torch.nn.Module.eval](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval)
    """

    code = "GL407"
    name = "eval-mode-missing"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "call eval() on the model before evaluating, and train() before training goes on"

    @on(OutputMeasured)
    def measured(self, event: OutputMeasured) -> Iterator[Violation]:
        evaluated = event.grad_enabled.is_false or event.trained.is_true
        if not evaluated or not event.training.is_true or not event.copied.is_false:
            return
        model = f"`{event.module}`" if event.module.isidentifier() else "the model"
        yield Violation(
            f"{model} is evaluated in training mode: its dropout or batch normalization acts as in training",
            at=event.site,
            related=places(
                ("it was put into training mode here", event.set_at),
                ("the model itself is called here", event.called_at),
            ),
        )
