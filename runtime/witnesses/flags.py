"""``requires_grad`` of modules, which is an attribute like any other and freezes nothing.

Assignments are seen as they are made.  What was assigned before the guard is found when a model is first called: False
among the module's own attributes, beside parameters that do require grad.  A class that knows such an attribute may
mean something by it.
"""

from __future__ import annotations

import ast
import inspect
import types
import weakref
from typing import TYPE_CHECKING

import torch
from torch import nn

from gradlint.events import ModuleRequiresGradSet

from ..spelling import function_syntax

if TYPE_CHECKING:
    from ..calls import FlagCall, ForwardCall
    from ..judging import Judge

FLAG = "requires_grad"


class ModuleFlags:
    """Reports modules that were told to require grad, or not to, as if they were tensors."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._seen: dict[int, weakref.ref[nn.Module]] = {}  # models that were called, and modules that were told on

    def flag_set(self, call: FlagCall) -> None:
        self._seen[id(call.module)] = weakref.ref(call.module)
        own = call.own or _knows_flag(type(call.module))
        self._judge.send(ModuleRequiresGradSet(site=call.site, module=type(call.module).__name__, own=own))

    def module_met(self, call: ForwardCall) -> None:
        if self._was_seen(call.module):
            return
        self._seen = {key: one for key, one in self._seen.items() if one() is not None}
        self._seen[id(call.module)] = weakref.ref(call.module)
        for name, part in call.module.named_modules():
            if vars(part).get(FLAG) is False and (part is call.module or not self._was_seen(part)):
                trains = any(parameter.requires_grad for parameter in part.parameters())
                if trains and not _knows_flag(type(part)):
                    kind = type(part).__name__
                    self._judge.send(ModuleRequiresGradSet(site=call.site, module=kind, part=name or kind))

    def _was_seen(self, module: nn.Module) -> bool:
        seen = self._seen.get(id(module))
        return seen is not None and seen() is module


def _knows_flag(cls: type) -> bool:
    """Whether a class of modules has such an attribute of its own, or may have."""
    bases = cls.__mro__[: cls.__mro__.index(nn.Module)]
    return issubclass(cls, torch.jit.ScriptModule) or any(
        FLAG in vars(base)
        or FLAG in inspect.get_annotations(base)
        or any(isinstance(method, types.FunctionType) and _mentions_flag(method) for method in vars(base).values())
        for base in bases
        if base.__module__.partition(".")[0] != "torch"
    )


def _mentions_flag(method: types.FunctionType) -> bool:
    """Whether a method reads or sets the attribute of its own module, or may do so unseen."""
    code = method.__code__
    if FLAG in code.co_consts or not {"setattr", "__setattr__", "__dict__", "vars"}.isdisjoint(code.co_names):
        return True
    if FLAG not in code.co_names:
        return False
    syntax = function_syntax(code)
    return syntax is None or any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == f"{code.co_varnames[0]}.{FLAG}"
        for node in ast.walk(syntax)
    )
