from __future__ import annotations

from collections.abc import Iterator

from gradlint.events import MovedToCuda
from gradlint.finding import Effect, Severity
from gradlint.intents import Replace, unsafe
from gradlint.rule import Rule, Violation, on


class HardcodedCuda(Rule):
    """`.cuda()` is called where a device that was chosen is available.

    ## What it does
    Finds `.cuda()` of tensors and modules where a variable or attribute named `device` is in scope, or in the
    `forward` of a module, whose input has a device.

    ## Why is this bad
    The program was written to run on the device that was chosen. With `.cuda()` it raises on a machine without GPU, and
    mixes devices where another GPU was chosen.

    ## Example
    ```python
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.ones(3).cuda()
    ```

    ## Use instead
    ```python
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weight = torch.ones(3).to(device)
    ```

    ## Stays silent on
    Programs that name no device; `.cuda(index)`; functions of `torch.cuda`.

    ## References
    - [CUDA semantics: device-agnostic code](https://docs.pytorch.org/docs/stable/notes/cuda.html#device-agnostic-code)
    """

    code = "GL504"
    name = "hardcoded-cuda"
    severity = Severity.STYLE
    effect = Effect.RAISES
    opt_in = True
    fix = "unsafe"
    remedy = "use .to(device)"

    @on(MovedToCuda)
    def moved(self, event: MovedToCuda) -> Iterator[Violation]:
        mend = None
        if " " not in event.device:
            written = Replace("node", f"{{receiver}}.to({event.device})", when="{receiver}.cuda()")
            mend = unsafe("move it to that device", written)
        yield Violation(f".cuda() ignores {event.device}, which is available here", at=event.site, mend=mend)
