from __future__ import annotations

from gradlint.events import Event, GradientRead, InputDone, InputFed
from gradlint.finding import Effect, Severity
from gradlint.protocol import Protocol, Token, Violating
from gradlint.rule import Rule, Violation, places


class InputRequiresGrad(Rule):
    """An input of a network requires grad although nothing reads that gradient.

    ## What it does
    Follows tensors that are made to require grad and fed to a module, or to a loss as the target, until nothing can
    read their gradient any more. Reports the call that was given such a tensor in vain.

    ## Why is this bad
    Only the parameters need gradients. For each such input the backward pass also computes and keeps a gradient
    of the size of the batch: time and memory for nothing.

    ## Example
    ```python
    for x, y in loader:
        x.requires_grad_()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Use instead
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## At runtime
    The guard watches the inputs of the outermost modules, and reports those whose gradient nobody has read by the
    third optimizer step.

    ## Stays silent on
    Inputs whose `.grad` is read, that are given to `torch.autograd.grad` or to an optimizer (adversarial examples,
    saliency maps, style transfer, gradient penalties), and those that reentrant checkpointing needs.

    ## References
    - [Setting requires_grad](https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad)
    """

    code = "GL109"
    name = "input-requires-grad"
    severity = Severity.WARNING
    effect = Effect.WASTES
    fix = None
    once_for_a_cause = True
    remedy = "leave requires_grad of inputs and targets alone: only the parameters need gradients"

    inputs = Protocol(
        {
            ("unused", InputFed): "fed",
            ("done", InputFed): "fed",
            ("unused", GradientRead): "read",
            ("fed", GradientRead): "read",
            ("fed", InputDone): Violating("done"),
        },
        start="unused",
        arms=InputFed,
    )

    @inputs.violated
    def story(self, token: Token, event: Event) -> Violation:
        asked_at = event.asked_at if isinstance(event, InputDone) else None
        return Violation(
            "this input requires grad, but nothing ever reads its gradient",
            at=token.entered_at("fed") or event.site,
            related=places(("it was made to require grad here", asked_at)),
            cause=asked_at,
        )
