from __future__ import annotations

from gradlint.events import Backward, EvalMode, Event, TrainMode, WeightsUpdated
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places


class TrainModeNotRestored(Rule):
    """Training continues in evaluation mode.

    ## What it does
    Follows the mode of each model that is trained: after `eval()`, `train()` must be called before the next step.
    It is often called once before the loop, only in one branch, or only at the start of an epoch in the middle of
    which the model is validated.

    ## Why is this bad
    From the first validation on, dropout is off and batch normalization no longer follows the data. Nothing raises;
    the model overfits, or its running statistics never become those of the data.

    ## Example
    ```python
    model.train()
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(criterion(model(x), y).item())
    ```

    ## Use instead
    ```python
    for epoch in range(10):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(criterion(model(x), y).item())
    ```

    ## Stays silent on
    `train()` in a helper that trains; a mode that is saved and restored; models and layers put into evaluation mode
    before they are trained, or layer by layer (frozen batch normalization); models without layers that depend on it;
    gradients in evaluation that no step applies.

    ## References
    - [torch.nn.Module.train](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train)
    """

    code = "GL408"
    name = "train-mode-not-restored"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    fix = None
    remedy = "call train() after each evaluation, or at the start of the function that trains"

    mode = Protocol(
        {
            ("fresh", EvalMode): "apart",
            ("fresh", WeightsUpdated): "trained",
            ("fresh", Backward): "trained",  # whether a step follows in every k-th iteration only need not be known
            ("apart", TrainMode): "fresh",
            ("trained", EvalMode): "evaluated",
            ("evaluated", TrainMode): "trained",
            ("evaluated", Backward): "walked",
            ("walked", TrainMode): "trained",
            ("walked", WeightsUpdated): Violating("walked"),
        },
        start="fresh",
        arms=(EvalMode, TrainMode),
    )

    @mode.violated
    def story(self, token: Token, event: Event) -> Violation:
        return Violation(
            "training continues in evaluation mode after this call: train() is missing",
            at=token.last_at(EvalMode) or event.site,
            related=places(
                ("a backward pass follows here", token.last_at(Backward)),
                ("and a step that trains the model", event.site),
            ),
        )
