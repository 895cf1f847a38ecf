from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import SavedTensorChanged
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class InplaceSaved(Rule):
    """A value that a backward pass still needs is changed in place.

    ## What it does
    Follows which tensors each operation saves for its backward (its output for `sigmoid`, `tanh`, `exp`, `softmax`,
    `sqrt`, `relu`; its factors for products), and finds in-place changes of them, also through a view, `detach()` or
    `numpy()`, before the backward pass. Where nothing calls a module, its output is assumed to go
    through a backward pass later on, except for what is computed only where `self.training` is false.

    ## Why is this bad
    The backward pass needs the old values. PyTorch notices the change by the tensor's version and raises. A change
    through a numpy array it cannot notice: gradients are silently wrong.

    ## Example
    ```python
    gate = torch.sigmoid(model(x))
    gate *= 0.9
    gate.sum().backward()
    ```

    ## Use instead
    ```python
    gate = torch.sigmoid(model(x))
    gate = gate * 0.9
    gate.sum().backward()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: one of the variables needed for gradient computation has been modified by an inplace
    operation`.

    ## Stays silent on
    Outputs of operations that save only their input (`relu_()` after a convolution); sums; changes of a copy; changes
    after the backward pass, or where gradients are disabled throughout.

    ## References
    - [In-place correctness checks](https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks)
    """

    code = "GL104"
    name = "inplace-saved"
    severity = Severity.ERROR
    effect = Effect.RAISES
    remedy = "compute a new tensor instead of changing this one"
    supersedes = ("GL503",)

    @on(SavedTensorChanged)
    def changed(self, event: SavedTensorChanged) -> Iterator[Violation]:
        if event.noticed.is_false or event.stepped_at is not None:
            return
        at = event.changed_at
        if at is None:
            if not event.noticed.is_true:
                return
            at = event.site  # the error is certain, the place of the change is not
        needed = f" by {event.operation}" if event.operation else ""
        yield Violation(
            f"values saved for the backward pass{needed} are changed in place before it runs",
            at=at,
            related=places(("they were saved here", event.saved_at), ("they are needed here", event.site)),
            cause=event.changed_at,
        )
