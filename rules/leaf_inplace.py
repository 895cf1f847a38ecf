from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ChangedInPlace
from gradlint.finding import Effect, Severity
from gradlint.rule import Rule, Violation, on, places


class LeafInplace(Rule):
    """A leaf that requires grad is changed in place while gradients are enabled.

    ## What it does
    Finds in-place operations (`w -= …`, `w.add_(…)`, `w[i] = …`, also on a view) on parameters and on other leaves that
    require grad, outside of `torch.no_grad()`.

    ## Why is this bad
    It raises: autograd cannot record an operation that overwrites the very leaf whose gradient is wanted.

    ## Example
    ```python
    weight = torch.zeros(3, requires_grad=True)
    loss = (weight * x[0, :3]).sum()
    loss.backward()
    weight -= 0.1 * weight.grad
    ```

    ## Use instead
    ```python
    weight = torch.zeros(3, requires_grad=True)
    loss = (weight * x[0, :3]).sum()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    ```

    ## At runtime
    PyTorch raises `RuntimeError: a leaf Variable that requires grad is being used in an in-place operation`.

    ## Stays silent on
    Changes under `torch.no_grad()` or by `nn.init`; tensors that are not leaves, as what indexing
    returns; changes made before `requires_grad_()`; frozen parameters.

    ## References
    - [In-place operations](https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd)
    """

    code = "GL103"
    name = "leaf-inplace"
    severity = Severity.ERROR
    effect = Effect.RAISES
    remedy = "change it under torch.no_grad(), or compute a new tensor"

    @on(ChangedInPlace)
    def changed(self, event: ChangedInPlace) -> Iterator[Violation]:
        tensor = event.tensor
        if not (event.grad_enabled.is_true and tensor.is_leaf.is_true and tensor.requires_grad.is_true):
            return
        what = "a parameter" if tensor.is_parameter.is_true else "a leaf that requires grad"
        yield Violation(
            f"{tensor.named(what)} is changed in place where gradients are enabled: this raises",
            at=event.site,
            related=places(("it was made here", tensor.made_at)),
        )
