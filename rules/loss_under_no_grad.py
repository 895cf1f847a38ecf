from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import BackwardAsked
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class LossUnderNoGrad(Rule):
    """`backward()` is called on a loss that was computed while gradients were disabled.

    ## What it does
    Finds calls of `backward()` on values that were computed from the outputs of a model under `torch.no_grad()` or
    `torch.inference_mode()`, as block or decorator, or whose model was called there.

    ## Why is this bad
    No graph was recorded, so `backward()` raises. Often a training loop was copied from an evaluation, decorator
    included.

    ## Example
    ```python
    with torch.no_grad():
        output = model(x)
    loss = criterion(output, y)
    loss.backward()
    ```

    ## Use instead
    ```python
    output = model(x)
    loss = criterion(output, y)
    loss.backward()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn`.

    ## Stays silent on
    `torch.enable_grad()` inside; `backward()` that is merely called under `no_grad()`; targets computed there;
    `set_grad_enabled(phase == "train")` where the backward pass runs in that phase only.

    ## References
    - [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-grad)
    """

    code = "GL208"
    name = "loss-under-no-grad"
    severity = Severity.ERROR
    effect = Effect.RAISES
    remedy = "compute the outputs of the model, and the loss, where gradients are enabled"

    @on(BackwardAsked)
    def asked(self, event: BackwardAsked) -> Iterator[Violation]:
        root = event.root
        if root.requires_grad.is_true or not root.cut.equals("no_grad"):
            return
        yield Violation(
            f"backward() of {root.named('a value')} raises: it was computed while gradients were disabled",
            at=event.site,
            related=places(("computed here without a graph", root.cut_at)),
            cause=root.cut_at,
        )
