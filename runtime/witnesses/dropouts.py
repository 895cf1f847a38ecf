"""Functional dropout: whether the mode was written at the call is read from the source, since no value shows it."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch.nn.functional as F  # noqa: N812  torch's own idiom
from torch import nn

from gradlint.events import DropoutCalled
from gradlint.facts import FALSE, TRUE, Fact, known, unknown

from ..frames import FrameSite, calling_frame, site_of
from ..judging import Judge
from ..records.dropout import FUNCTIONS, decides_by_mode
from ..spelling import call_at, function_syntax, function_text


class Dropouts:
    """Reports calls of functional dropout in the user's own code."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._judged: set[tuple[FrameSite, bool | None]] = set()

    def before(self) -> dict[Any, Callable[..., None]]:
        """Nothing needs to be known before the functions run."""
        return {}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function."""
        return {getattr(F, name): self._called(name) for name in FUNCTIONS}

    def _called(self, name: str) -> Callable[..., None]:
        training, position, keyword, default, drops = FUNCTIONS[name]

        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            frame = calling_frame(sys._getframe(1))
            if frame is None:
                return  # a layer of torch, or of a framework, that knows the mode
            module = _module(frame)
            site = site_of(frame)
            key = site, None if module is None else module.training
            if key in self._judged:
                return
            self._judged.add(key)
            probability = args[position] if len(args) > position else kwargs.get(keyword, default)
            self._judge.send(
                DropoutCalled(
                    site=site,
                    function=name,
                    training_given=_given(site, training),
                    drops_by_default=drops,
                    in_module=known(module is not None),
                    mode_checked=_checked(frame, site, module, keyword if training is None else None),
                    inert=known(probability == 0),
                )
            )

        return handle


def _given(site: FrameSite, position: int | None) -> Fact[bool]:
    """Whether the call says the mode."""
    if position is None:
        return FALSE
    call = call_at(site)
    if call is None:
        return unknown()
    if any(isinstance(argument, ast.Starred) for argument in call.args) or len(call.args) > position:
        return TRUE
    return known(any(keyword.arg in ("training", None) for keyword in call.keywords))


def _checked(frame: FrameType, site: FrameSite, module: nn.Module | None, keyword: str | None) -> Fact[bool]:
    """Whether the call depends on the mode of its module: in evaluation it does not, since it is made all the same."""
    if module is not None and not module.training:
        return FALSE
    if keyword is not None:
        call = call_at(site)
        values = [one.value for one in call.keywords if one.arg == keyword] if call is not None else []
        if not values or not isinstance(values[0], (ast.Constant, ast.Attribute)):
            return unknown()
    current: FrameType | None = frame
    while current is not None:
        if _decides_by_mode(current.f_code):
            return unknown()
        own, current = _own_module(current), current.f_back
        if own is not None and (current is None or _own_module(current) is not own):  # its other methods may decide
            return FALSE
    return unknown()


@functools.lru_cache(maxsize=256)
def _decides_by_mode(code: CodeType) -> bool:
    """Whether the function of this code does."""
    if "training" not in function_text(code):
        return False
    syntax = function_syntax(code)
    return syntax is None or decides_by_mode(syntax)


def _module(frame: FrameType | None) -> nn.Module | None:
    """The module whose method, or a function it calls, this frame is."""
    while frame is not None:
        if (module := _own_module(frame)) is not None:
            return module
        frame = frame.f_back
    return None


def _own_module(frame: FrameType) -> nn.Module | None:
    if frame.f_code.co_argcount and frame.f_code.co_name != "__init__":
        first = frame.f_locals.get(frame.f_code.co_varnames[0])
        if isinstance(first, nn.Module):
            return first
    return None
