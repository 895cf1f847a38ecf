from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import ConvertedToNumpy
from gradlint.finding import Effect, Severity
from gradlint.intents import Append, safe
from gradlint.rule import Rule, Violation, on, places


class NumpyOnCuda(Rule):
    """A tensor on a CUDA device is turned into a numpy array.

    ## What it does
    Finds `.numpy()`, numpy functions, plotting and metrics that are given a value known to be on a CUDA device, or on
    the one that `"cuda" if torch.cuda.is_available() else "cpu"` chooses: it raises where the program is to run.

    ## Why is this bad
    It raises: numpy arrays live in the memory of the CPU. On a machine without a GPU the same script works, so the
    mistake shows only where it costs most.

    ## Example
    ```python
    model.cuda()
    predictions = model(x.cuda()).argmax(dim=1).numpy()
    ```

    ## Use instead
    ```python
    model.cuda()
    predictions = model(x.cuda()).argmax(dim=1).cpu().numpy()
    ```

    ## At runtime
    PyTorch raises `TypeError: can't convert cuda:0 device type tensor to numpy`.

    ## Stays silent on
    Devices that are not known; branches that ask for the device, such as `if device.type == "cpu"` and `if use_gpu`;
    values moved by `.cpu()` or `.to("cpu")`.

    ## References
    - [torch.Tensor.cpu](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cpu.html)
    """

    code = "GL502"
    name = "numpy-on-cuda"
    severity = Severity.ERROR
    effect = Effect.RAISES
    fix = "safe"
    remedy = "move it first: .cpu().numpy()"

    @on(ConvertedToNumpy)
    def converted(self, event: ConvertedToNumpy) -> Iterator[Violation]:
        tensor = event.tensor
        chosen = tensor.device.equals("chosen")
        if not chosen and not tensor.device.equals("cuda"):
            return
        method = "numpy" if event.role == "receiver" else ""
        yield Violation(
            f"{event.how} raises where CUDA is available: {tensor.named('the tensor')} is on the device that was chosen"
            if chosen
            else f"{event.how} raises: {tensor.named('the tensor')} is on a CUDA device",
            at=event.site,
            related=places(("moved to CUDA here", tensor.moved_at), ("kept here", tensor.kept_at)),
            mend=None
            if tensor.kept_at or event.within
            else safe("copy it to the CPU first", Append(event.role, ".cpu()", method=method)),
        )
