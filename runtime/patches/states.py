"""State dicts as modules give them and are given them, and what is written to files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..calls import StateCall, Watcher
from ..frames import user_site

Watching = Callable[[], tuple[Watcher, ...]]
Build = Callable[[Any], Any]


def of_states(watching: Watching) -> Iterator[tuple[Any, str, Build]]:
    """Owners, the names of their attributes, and what makes the replacement from what is there."""
    yield torch.nn.Module, "state_dict", _taking(watching)
    yield torch.nn.Module, "load_state_dict", _loading(watching)
    yield torch, "save", _saving(watching)


def _taking(watching: Watching) -> Build:
    def build(before: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(before)
        def state_dict(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            state = before(self, *args, **kwargs)
            if not args and kwargs.get("destination") is None and not torch.compiler.is_compiling():
                for guard in watching():
                    guard.tell("state_taken", StateCall(user_site(2), self, state))
            return state

        return state_dict

    return build


def _loading(watching: Watching) -> Build:
    def build(before: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(before)
        def load_state_dict(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            state = args[0] if args else kwargs.get("state_dict")
            for guard in () if torch.compiler.is_compiling() else watching():
                guard.tell("state_loaded", StateCall(user_site(2), self, state))
            return before(self, *args, **kwargs)

        return load_state_dict

    return build


def _saving(watching: Watching) -> Build:
    def build(before: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(before)
        def save(*args: Any, **kwargs: Any) -> None:
            written = args[0] if args else kwargs.get("obj")
            for guard in () if torch.compiler.is_compiling() else watching():
                guard.tell("state_saved", StateCall(user_site(2), None, written))
            before(*args, **kwargs)

        return save

    return build
