"""Hooks as they are registered on modules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..calls import HookCall, Watcher
from ..frames import user_site

Watching = Callable[[], tuple[Watcher, ...]]
Build = Callable[[Any], Any]
_METHODS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_backward_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
)


def of_hooks(watching: Watching) -> Iterator[tuple[Any, str, Build]]:
    """Owners, the names of their attributes, and what makes the replacement from what is there."""
    for method in _METHODS:
        yield torch.nn.Module, method, _registering(method, watching)


def _registering(name: str, watching: Watching) -> Build:
    def build(before: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(before)
        def register(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            handle = before(self, *args, **kwargs)
            for guard in () if torch.compiler.is_compiling() else watching():
                guard.tell("hook_registered", HookCall(user_site(2), self, name, handle))
            return handle

        return register

    return build
