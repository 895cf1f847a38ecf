from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ConvertedToNumpy
from gradlint.finding import Effect, Severity
from gradlint.intents import Append, Mend, safe, unsafe
from gradlint.rule import Rule, Violation, on, places


class NumpyOnGrad(Rule):
    """A tensor that requires grad is turned into a numpy array.

    ## What it does
    Finds `.numpy()`, numpy functions, plotting and metrics that are given a value known to require grad, or a list
    of such values, where gradients are enabled, and values stored into a part of an array.  A later backward pass
    proves that its root requires grad.

    ## Why is this bad
    It raises: numpy cannot record what happens to the values, so PyTorch refuses to hand them over. The line is
    often one that runs last, after hours of training: the plot of the losses.

    ## Example
    ```python
    predictions = model(x).numpy()
    ```

    ## Use instead
    ```python
    predictions = model(x).detach().numpy()
    ```

    ## At runtime
    PyTorch raises `RuntimeError: Can't call numpy() on Tensor that requires grad`.

    ## Stays silent on
    Integers (`argmax`, indices of `topk`, comparisons), data of a loader, values detached or made under
    `torch.no_grad()`, conversions under `torch.no_grad()` (the caller's included), `.grad`, values of `state_dict()`;
    a value of one element stored into an element of an array; `np.squeeze` and others that call the tensor's own
    method.

    ## References
    - [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
    """

    code = "GL501"
    name = "numpy-on-grad"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = "safe"
    remedy = "detach first: .detach().numpy(), or .item() for a single number"

    @on(ConvertedToNumpy)
    def converted(self, event: ConvertedToNumpy) -> Iterator[Violation]:
        tensor = event.tensor
        if not event.grad_enabled.is_true or not tensor.requires_grad.is_true or tensor.integral.is_true:
            return
        kept = tensor.kept_at is not None
        what = (
            f"{tensor.named('the list')} holds tensors that require"
            if kept
            else f"{tensor.named('the tensor')} requires"
        )
        yield Violation(
            f"{event.how} raises: {what} grad",
            at=event.site,
            related=places(
                ("kept here with its graph", tensor.kept_at),
                ("made here", tensor.made_at),
                ("derived here, so it does require grad", event.derived_at),
            ),
            remedy="keep numbers instead: append .item(), or .detach() what is kept" if kept else self.remedy,
            mend=_mend(event),
        )


def _mend(event: ConvertedToNumpy) -> Mend | None:
    if event.within:
        return None
    kept_at = event.tensor.kept_at
    if kept_at is not None:
        return unsafe("detach what is kept", Append("argument 0", ".detach()", method="append", at=kept_at))
    method = "numpy" if event.role == "receiver" else ""
    return safe("detach first", Append(event.role, ".detach()", method=method))
