from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import BackwardAsked
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class LossRequiresGrad(Rule):
    """A loss is made to require grad before its backward pass.

    ## What it does
    Finds `loss.requires_grad_()`, `loss.requires_grad = True` and `torch.tensor(…, requires_grad=True)` around a loss
    that is then the start of a backward pass.

    ## Why is this bad
    A loss that was computed from parameters requires grad by itself. One that does not was cut from them, and
    `backward()` says so by raising. With `requires_grad` set it no longer raises, and nothing is trained: the gradient
    ends at the loss itself.

    ## Example
    ```python
    predicted = model(x).argmax(dim=1)
    loss = (predicted != y).float().mean()
    loss.requires_grad = True
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(model(x), y)
    loss.backward()
    ```

    ## Stays silent on
    Inputs that are made to require grad (adversarial examples, saliency maps, latent codes); losses that are known to
    require grad anyway; backward passes that are given a gradient, of what was computed from such a leaf.

    ## References
    - [torch.Tensor.requires_grad](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.requires_grad.html)
    """

    code = "GL108"
    name = "loss-requires-grad"
    severity = Severity.ERROR
    effect = Effect.WRONG_RESULT
    remedy = "remove it, and compute the loss from the outputs of the model with differentiable operations only"
    supersedes = ("GL105", "GL107", "GL208")

    @on(BackwardAsked)
    def asked(self, event: BackwardAsked) -> Iterator[Violation]:
        root = event.root
        if root.asked_at is None or not root.requires_grad.is_true:
            return
        if event.gradient_given.is_true and root.is_leaf.is_false:
            return  # no loss: the gradient of a function at what was made a leaf on purpose
        yield Violation(
            "requires_grad is set on a loss: this hides that no gradient reaches a parameter",
            at=root.asked_at,
            related=places(("the graph was cut here", root.cut_at), ("its backward pass starts here", event.site)),
            cause=root.cut_at,
        )
