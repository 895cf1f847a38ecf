from __future__ import annotations

from gradlint.events import (
    Backward,
    Cleared,
    Event,
    GradientsAssigned,
    GradientsLeft,
    LossRepeated,
    ParametersReplaced,
    Step,
)
from gradlint.finding import Effect, Severity
from gradlint.intents import ClearGradients, unsafe
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places

_FULL = ("held", "left", "mixed", "shared", "spent")


class ForeignGradients(Rule):
    """`step()` applies gradients that the loss of another model has left on these parameters.

    ## What it does
    Finds two models with an optimizer each, where the loss of one goes through the other, as the loss of a generator
    goes through the discriminator, or that of an actor through the critic: its backward pass leaves gradients there,
    too. They are not cleared before the loss of that other model is added to them, and its optimizer steps with both.

    ## Why is this bad
    The second model is moved along the first one's loss as well: a discriminator learns to be deceived, a critic to
    please the actor. Nothing raises, training is only worse.

    ## Example
    ```python
    head = nn.Linear(3, 1)
    heads = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        heads.zero_grad()
        deceived = -head(model(x)).mean()
        deceived.backward()
        optimizer.step()
        judged = head(model(x).detach()).mean()
        judged.backward()
        heads.step()
    ```

    ## Use instead
    ```python
    head = nn.Linear(3, 1)
    heads = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        deceived = -head(model(x)).mean()
        deceived.backward()
        optimizer.step()
        heads.zero_grad()
        judged = head(model(x).detach()).mean()
        judged.backward()
        heads.step()
    ```

    ## At runtime
    The guard knows which gradients each backward pass has changed, and reports the step that applies what two losses
    have left.

    ## Stays silent on
    Gradients that are cleared in between; a model that is frozen meanwhile (`requires_grad_(False)`); steps of several
    optimizers after one backward pass, or after all of them; losses that are accumulated for a shared part, whose
    optimizer steps after those of the others; gradients that are never cleared (GL201).

    ## References
    - [DCGAN tutorial](https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html)
    - [torch.optim.Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "GL220"
    name = "foreign-gradients"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    fix = "unsafe"
    remedy = "clear the gradients of this model right before the backward pass of its own loss"

    gradients = Protocol(
        {
            ("new", Cleared): "clear",  # what is never cleared is another mistake
            ("clear", Backward): "held",
            ("held", GradientsLeft): "left",
            ("left", LossRepeated): "held",
            ("left", Backward): "mixed",
            ("mixed", GradientsLeft): "shared",
            ("mixed", Step): Violating("spent"),
            ("held", Step): "spent",
            ("left", Step): "spent",
            ("shared", Step): "spent",
            **dict.fromkeys([(state, Cleared) for state in _FULL], "clear"),
            **dict.fromkeys([(s, event) for s in _FULL for event in (GradientsAssigned, ParametersReplaced)], "new"),
        },
        start="new",
        arms=GradientsLeft,
    )

    @gradients.violated
    def story(self, token: Token, event: Event) -> Violation:
        mixed = token.entered_at("mixed")
        other = token.entered_at("left")
        clear = ClearGradients(event.site, frozenset([mixed] if mixed else ()), frozenset([event.site]), at=mixed)
        return Violation(
            "gradients are added to those that the loss of another model left here: nothing clears them in between",
            at=mixed or event.site,
            related=places(
                ("they were left by this", token.entered_at("held")),
                ("which was made for this step", other),
                ("both are applied here", event.site),
            ),
            mend=unsafe("clear them first", clear),
        )
