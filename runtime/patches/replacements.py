"""What is replaced in torch, while a guard watches, beside what every step passes through.

Gradient scalers, clipping, optimizers being built, and ``module.requires_grad = …``: an ordinary step meets none of
them, or pays for one call.  Installed and removed by :mod:`gradlint.runtime.patches.interception`, as all is.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_
from torch.optim import Optimizer

from ..calls import BuildCall, ClipCall, DrawCall, FlagCall, HooksCall, ScalerCall, SwapCall, Watcher
from ..frames import FrameSite, is_foreign, site_of, user_site
from .hooking import of_hooks
from .states import of_states

if TYPE_CHECKING:
    from types import FrameType

Watching = Callable[[], tuple[Watcher, ...]]
Build = Callable[[Any], Any]  # of what takes the place of what was there before


def replacements(watching: Watching, every: Watching) -> Iterator[tuple[Any, str, Build]]:
    """Owners, the names of their attributes, and what makes the replacement from what is there.

    Args:
        watching: the guards of the current thread.
        every: those of all threads.
    """
    for method in ("get_scale", "scale", "step", "unscale_", "update"):
        yield torch.amp.GradScaler, method, _scaler_method(method, watching)
    for function in (clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_):
        if (cell := _cell(function)) is not None:
            yield cell, "cell_contents", _clipping(watching)
    yield Optimizer, "__init__", _builder(watching)
    yield torch.nn.Module, "__setattr__", _setter(watching)
    yield from of_states(watching)
    yield from of_hooks(watching)
    yield torch.utils, "swap_tensors", _swapping(every)
    yield torch._C._autograd, "_saved_tensors_hooks_disable", _disabling(watching)
    yield torch._C._autograd, "_saved_tensors_hooks_enable", _enabling(watching)


def _scaler_method(name: str, watching: Watching) -> Build:
    def build(before: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: torch.amp.GradScaler, *args: Any, **kwargs: Any) -> Any:
            guards = () if torch.compiler.is_compiling() or not self.is_enabled() else watching()
            if not guards:
                return before(self, *args, **kwargs)
            first = args[0] if args else kwargs.get("optimizer")
            call = ScalerCall(user_site(2), self, name, first if isinstance(first, Optimizer) else None)
            for guard in guards:
                guard.tell("scaler_called", call)
            try:
                call.result = before(self, *args, **kwargs)
            except Exception as error:
                call.error = error
                raise
            finally:
                for guard in guards:
                    if guard.active:
                        guard.tell("scaler_returned", call, raising=call.error is None)
            return call.result

        return method

    return build


def _cell(function: Any) -> types.CellType | None:
    """Where torch's wrapper of a function looks for it: whoever has imported the wrapper by name looks there, too."""
    names = function.__code__.co_freevars
    return function.__closure__[names.index("func")] if "func" in names else None


def _clipping(watching: Watching) -> Build:
    def build(before: Callable[..., Any]) -> Callable[..., Any]:
        def clip(*args: Any, **kwargs: Any) -> Any:
            guards = () if torch.compiler.is_compiling() else watching()
            named = {**dict(zip(("parameters", "limit"), args, strict=False)), **kwargs}
            limit = next((named[name] for name in ("limit", "max_norm", "clip_value") if name in named), None)
            parameters = named.get("parameters")
            if not guards or parameters is None or limit is None:
                return before(*args, **kwargs)
            draw = DrawCall(user_site(2), before.__name__.lstrip("_"), parameters)
            for guard in guards:
                guard.tell("parameters_drawn", draw)
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            if given and isinstance(parameters, Iterator):  # it is used up; of one that is empty torch warns
                args, kwargs = ((given, *args[1:]), kwargs) if args else (args, {**kwargs, "parameters": given})
            call = ClipCall(user_site(2), tuple(given), float(limit))
            for guard in guards:
                guard.tell("gradients_clipped", call)
            return before(*args, **kwargs)

        return clip

    return build


def _builder(watching: Watching) -> Build:
    def build(before: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807  of another class
            guards = () if torch.compiler.is_compiling() else watching()
            if guards:
                given = args[0] if args else kwargs.get("params")
                draw = DrawCall(_built_at(self, sys._getframe(1)), type(self).__name__, given)
                for guard in guards:
                    guard.tell("parameters_drawn", draw)
            before(self, *args, **kwargs)
            if guards:
                call = BuildCall(_built_at(self, sys._getframe(1)), self)
                for guard in guards:
                    guard.tell("optimizer_built", call)

        return __init__

    return build


def _swapping(every: Watching) -> Build:
    """Torch refuses to swap a tensor that is referred to weakly, as converted and parametrized parameters are."""

    def build(before: Callable[..., None]) -> Callable[..., None]:
        def swap_tensors(*tensors: torch.Tensor, **named: torch.Tensor) -> None:
            call = SwapCall((*tensors, *named.values()))
            if any(map(weakref.getweakrefcount, call.tensors)):
                for guard in every():
                    guard.tell("tensors_swapped", call, deliver=False)
            before(*tensors, **named)

        return swap_tensors

    return build


def _disabling(watching: Watching) -> Build:
    """``torch.func`` forbids hooks on saved tensors, and raises where there are any."""

    def build(before: Callable[..., None]) -> Callable[..., None]:
        def disable(*args: Any, **kwargs: Any) -> None:
            for guard in watching():
                guard.tell("hooks_disabled", HooksCall(), raising=False, deliver=False)
            before(*args, **kwargs)

        return disable

    return build


def _enabling(watching: Watching) -> Build:
    def build(before: Callable[..., None]) -> Callable[..., None]:
        def enable(*args: Any, **kwargs: Any) -> None:
            before(*args, **kwargs)
            for guard in watching():
                guard.tell("hooks_enabled", HooksCall(), raising=False, deliver=False)

        return enable

    return build


def _built_at(optimizer: Optimizer, frame: FrameType | None) -> FrameSite:
    """Where the class of an optimizer is called: outside of the constructors it consists of."""
    while frame is not None and frame.f_code.co_name == "__init__" and _receiver(frame) is optimizer:
        frame = frame.f_back
    while frame is not None and is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return user_site(2) if frame is None else site_of(frame)


def _receiver(frame: FrameType) -> Any:
    """What a method was called on; None where the frame is no method's."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _setter(watching: Watching) -> Build:
    def build(before: Callable[..., None]) -> Callable[..., None]:
        def __setattr__(self: torch.nn.Module, name: str, value: Any) -> None:  # noqa: N807  of another class
            before(self, name, value)
            if name == "requires_grad" and isinstance(value, bool):
                guards = () if torch.compiler.is_compiling() else watching()
                frame: FrameType | None = sys._getframe(1)
                while guards and frame is not None and is_foreign(frame.f_code.co_filename):
                    frame = frame.f_back
                if guards and frame is not None:
                    call = FlagCall(site_of(frame), self, own=_receiver(frame) is self)
                    for guard in guards:
                        guard.tell("flag_set", call)

        return __setattr__

    return build
