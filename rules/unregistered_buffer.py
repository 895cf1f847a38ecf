from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gradlint.events import PlainTensorUsed
from gradlint.finding import Effect, Severity
from gradlint.intents import Intent, Replace, unsafe
from gradlint.rule import Rule, Violation, on


class UnregisteredBuffer(Rule):
    """A constant of a module is a plain tensor instead of a buffer.

    ## What it does
    Finds tensors that a module makes on the CPU and sets as plain attributes in `__init__`, where the forward pass
    combines them with what the module is given, or with what is moved to it, without moving them.

    ## Why is this bad
    `to()` moves parameters and buffers only. As soon as the model is on a GPU, the forward pass raises, because the
    constant stayed on the CPU. It is not in the `state_dict()` either.

    ## Example
    ```python
    class Normalize(nn.Module):
        def __init__(self, mean):
            super().__init__()
            self.mean = torch.tensor(mean)

        def forward(self, x):
            return x - self.mean

    output = Normalize([0.5] * 8)(x)
    ```

    ## Use instead
    ```python
    class Normalize(nn.Module):
        def __init__(self, mean):
            super().__init__()
            self.register_buffer("mean", torch.tensor(mean))

        def forward(self, x):
            return x - self.mean

    output = Normalize([0.5] * 8)(x)
    ```

    ## Stays silent on
    Buffers; tensors made or moved at use (`self.mean.to(x.device)`); tensors made on a device that is given;
    attributes that another method sets again; modules that override `to` or `_apply`; tensors without dimensions
    (`torch.tensor(0.5)`), which may stay on the CPU; branches that ask where the input is, such as `if x.is_cuda`.

    ## References
    - [torch.nn.Module.register_buffer](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
    """

    code = "GL411"
    name = "unregistered-buffer"
    severity = Severity.WARNING
    effect = Effect.RAISES
    fix = "unsafe"
    remedy = "register it: self.register_buffer(name, tensor), with persistent=False if it need not be saved"

    @on(PlainTensorUsed)
    def used(self, event: PlainTensorUsed) -> Iterator[Violation]:
        if event.random.is_false:
            yield Violation(
                f"`self.{event.attribute}` stays on the CPU when {event.module} is moved, and is not saved with it",
                at=event.site,
                remedy=_TRAINED_OR_NOT if event.like_parameter else "",
                # a buffer is never trained: what is called a weight was most likely meant to be
                mend=None if event.like_parameter else unsafe("register it", _registered(event.attribute)),
            )


_TRAINED_OR_NOT: Final = "make it an nn.Parameter if it is to be trained, a buffer if it is to stay as it is"


def _registered(attribute: str) -> Intent:
    """``persistent=False``: files that were saved without it can still be loaded."""
    call = f'self.register_buffer("{attribute}", {{value}}, persistent=False)'
    return Replace("statement", call, when=f"self.{attribute} = {{value}}", behind="__init__(")
