"""Writes through ``.data``, as the watched functions show them."""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gradlint.events import DataWritten, Tensor
from gradlint.facts import known, unknown

from ..frames import FrameSite, calling_frame, is_in_function, site_of
from ..judging import Judge
from ..records.living import Living
from ..records.writes import Writes
from ..tensors import memory_of

if TYPE_CHECKING:
    from ..calls import SwapCall

#: Methods whose result is another view of the same memory.
VIEWS = "__getitem__ detach diagonal expand flatten narrow permute ravel reshape select squeeze t transpose view"

#: Methods that change in place how a tensor looks at its memory, and not the values in it.
LOOKS = "as_strided_ detach_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_ requires_grad_ share_memory_"


class _Alias:
    """A tensor that shares the memory of another one, got through ``.data``."""

    __slots__ = ("alias", "recorded", "source", "taken_at", "view", "whole")

    def __init__(
        self, alias: torch.Tensor, source: torch.Tensor, view: Tensor, taken_at: FrameSite, recorded: bool
    ) -> None:
        self.alias = weakref.ref(alias)
        self.source = weakref.ref(source)
        self.whole = weakref.ref(source if source._base is None else source._base)
        self.view = view
        self.taken_at = taken_at
        self.recorded = recorded  #: gradients were enabled there: what writes, such as an initialiser, may disable them


class DataWrites:
    """Reports what is written through ``.data`` in the user's own code."""

    def __init__(self, judge: Judge, writes: Writes) -> None:
        self._judge = judge
        self._writes = writes
        self._aliases: Living[_Alias] = Living(operator.attrgetter("alias"))

    def tensors_swapped(self, call: SwapCall) -> None:
        """Forget aliases that become others, and those of tensors that do."""
        swapped = set(map(id, call.tensors))
        for key, one in list(self._aliases.items()):
            if key in swapped or id(one.source()) in swapped:
                del self._aliases[key]

    def before(self) -> dict[Any, Callable[..., None]]:
        """Nothing needs to be known before the functions run."""
        return {}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do after a function."""
        found: dict[Any, Callable[..., None]] = {
            torch.Tensor.data.__get__: self._taken,  # type: ignore[attr-defined]  # it is a descriptor
            torch.Tensor.data.__set__: self._assigned,  # type: ignore[attr-defined]  # likewise
            torch.Tensor.__setitem__: self._written("[…] = …"),
        }
        for name in VIEWS.split():
            found[getattr(torch.Tensor, name)] = self._viewed
        for name in dir(torch.Tensor):
            if name.endswith("_") and not name.startswith("_") and name not in LOOKS.split():
                found[getattr(torch.Tensor, name)] = self._written(f".{name}()")
        for name in ("add", "sub", "mul", "div", "clamp", "where", "exp", "sigmoid", "matmul", "mm", "sum", "sqrt"):
            found[getattr(torch, name)] = self._written("out=")
        return found

    def _taken(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        source = args[0]
        if type(result) is not torch.Tensor or not source.requires_grad:
            return
        frame = calling_frame(sys._getframe(1))
        if frame is not None and not is_in_function(frame):
            view = Tensor(
                requires_grad=known(source.requires_grad),
                is_leaf=known(source.is_leaf),
                is_parameter=known(_is_trained(source)),
            )
            site = site_of(frame)
            self._remember(_Alias(result, source, view, site, torch.is_grad_enabled()), result)

    def _viewed(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        alias = self._alias(args[0])
        source = None if alias is None else alias.source()
        if alias is not None and source is not None and isinstance(result, torch.Tensor) and _shares(result, args[0]):
            self._remember(_Alias(result, source, alias.view, alias.taken_at, alias.recorded), result)

    def _assigned(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        tensor, value = args[0], args[1]
        alias = self._alias(value)
        if not tensor.requires_grad or (alias is not None and alias.source() is tensor):
            return  # `x.data *= 2` writes in place, and then assigns what it has written
        frame = calling_frame(sys._getframe(1))
        if frame is not None and not is_in_function(frame):
            view = Tensor(
                requires_grad=known(True),
                is_leaf=known(tensor.is_leaf),
                is_parameter=known(_is_trained(tensor)),
            )
            site = site_of(frame)
            self._writes.add(tensor, site)
            self._writes.tell(tensor, ".data = …", site)
            self._send(tensor, view, ".data = …", site, None, torch.is_grad_enabled())

    def _written(self, how: str) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            written = kwargs.get("out") if how == "out=" else args[0]
            if not isinstance(written, torch.Tensor) or written.layout is not torch.strided:
                return
            frame = calling_frame(sys._getframe(1))
            if frame is None:
                return
            site = site_of(frame)
            self._writes.add(written, site)
            alias = self._alias(written)
            source = written if alias is None else alias.source()
            if source is not None:
                self._writes.tell(source if source._base is None else source._base, how, site)
            if alias is not None and alias.whole() is not None:  # or nothing is left of it but its values
                if alias.view.is_parameter.is_true and source is not None:
                    self._writes.add_behind(source, site)
                taken = alias.taken_at if alias.taken_at.line != site.line else None
                self._send(source, alias.view, how, site, taken, alias.recorded)

        return handle

    def _send(
        self,
        tensor: torch.Tensor | None,
        view: Tensor,
        how: str,
        site: FrameSite,
        taken_at: FrameSite | None,
        recorded: bool,
    ) -> None:
        whole = tensor if tensor is None or tensor._base is None else tensor._base
        event = DataWritten(
            site=site,
            tensor=view,
            how=how,
            taken_at=taken_at,
            grad_enabled=known(recorded),
            trained=unknown() if whole is None else known(whole.is_leaf and whole.grad is not None),
            as_parameter=whole is not None and not isinstance(whole, torch.nn.Parameter),
        )
        self._judge.send(event)

    def _alias(self, tensor: Any) -> _Alias | None:
        alias = self._aliases.get(id(tensor))
        return alias if alias is not None and alias.alias() is tensor else None

    def _remember(self, alias: _Alias, tensor: torch.Tensor) -> None:
        self._aliases.put(tensor, alias)


def _is_trained(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a parameter, a view of one, or a leaf that is trained like one."""
    whole = tensor if tensor._base is None else tensor._base
    return isinstance(whole, torch.nn.Parameter) or (tensor.is_leaf and tensor.grad is not None)


def _shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return memory_of(one) == memory_of(other)
