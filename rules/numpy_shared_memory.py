from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import SharedMemoryChanged
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class NumpySharedMemory(Rule):
    """A numpy array that shares memory with a tensor is changed in place, and the tensor is used afterwards.

    ## What it does
    Follows arrays from `.numpy()` and into `torch.from_numpy()`, and finds in-place changes of the array (`a -= …`,
    `a[i] = …`, `out=a`) after which the tensor is read; parameters always are.

    ## Why is this bad
    Both sides are one block of memory: changing the array changes the tensor, and autograd does not notice.

    ## Example
    ```python
    scores = model(x).detach()
    shown = scores.numpy()
    shown -= shown.min()
    best = scores.max()
    ```

    ## Use instead
    ```python
    scores = model(x).detach()
    shown = scores.numpy().copy()
    shown -= shown.min()
    best = scores.max()
    ```

    ## Stays silent on
    Copies (`.copy()`, `.clone()`, `torch.tensor(array)`); arrays whose tensor is not used any more; tensors that were
    created empty to be filled through numpy.

    ## References
    - [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
    - [torch.from_numpy](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
    """

    code = "GL503"
    name = "numpy-shared-memory"
    severity = Severity.WARNING
    effect = Effect.WRONG_RESULT
    remedy = "change a copy: array.copy(), tensor.clone() or torch.tensor(array)"

    @on(SharedMemoryChanged)
    def changed(self, event: SharedMemoryChanged) -> Iterator[Violation]:
        if event.fresh.is_true:
            return
        tensor = event.tensor
        what = "a parameter" if tensor.is_parameter.is_true else "a tensor that is used afterwards"
        yield Violation(
            f"this array shares its memory with {tensor.named(what)}: both change",
            at=event.site,
            related=places(("the tensor is used here", event.used_at if event.used_at != event.site else None)),
        )
