"""A second, watched pass: modules called once more, on copies, to find the first operation that gives NaN or infinity.

Nothing of it reaches the training: module and arguments are copied, random numbers are put back, and where something
could be touched that no copy is made of, there is no second pass.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, TextIO

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradlint.finding import Location, Site

from ..frames import is_foreign, path_of, site_of
from ..tensors import holds_values, tensors_in

LARGEST = 1 << 30  #: bytes of parameters and buffers, of which a copy is made
_PLAIN = (int, float, complex, bool, str, bytes, type(None), slice, torch.dtype, torch.device, torch.Size)
_UNFILLED = ("empty", "new_empty")  #: how operations begin whose results hold anything
_TRACED = re.compile(r'File "(.+?)", line (\d+), in ')


@dataclass(slots=True, eq=False)
class Held:
    """A call of a module, and what is needed to make it again."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    autocast: torch.dtype | None
    last: int  #: the number of the node that gave its output


class First(NamedTuple):
    """The first operation that gives NaN or infinity."""

    operation: str
    layer: str  #: the name of the module that calls it, and its class; empty for the outermost one
    backward: bool
    site: Site | None


@dataclass(frozen=True, slots=True)
class LineSite:
    """A line of the user's program."""

    filename: str
    line: int

    def locate(self) -> Location:
        """The line."""
        return Location(self.filename, self.line, 1, self.line, 1)


def first_nonfinite(calls: Sequence[Held]) -> First | None:
    """Make the calls again; None where none can be made, or none gives anything but numbers of what are numbers."""
    passes = [made for call in calls if (made := _Pass.of(call)) is not None and made.is_given_numbers()]
    with _as_before():
        for made in passes:
            with contextlib.suppress(Exception):
                found = made.forward()
                if found is not None:
                    return found
        for made in reversed(passes):
            with contextlib.suppress(Exception):
                found = made.backward()
                if found is not None:
                    return found
    return None


def copied_arguments(value: Any) -> Any:
    """Arguments, without their graphs; tensors that have none, and are not copied yet, are those given.

    Raises:
        TypeError: they hold something that no copy is made of.
    """
    if isinstance(value, torch.Tensor):
        if not holds_values(value):
            raise TypeError(type(value).__name__)
        return value if value.is_leaf else value.detach().requires_grad_()
    if type(value) in (tuple, list):
        return type(value)(copied_arguments(part) for part in value)
    if type(value) is dict:
        return {key: copied_arguments(part) for key, part in value.items()}
    if not isinstance(value, _PLAIN):
        raise TypeError(type(value).__name__)
    return value


class _Pass:
    """A call that is made again."""

    def __init__(self, call: Held, module: nn.Module) -> None:
        self._module = module
        self._args, self._kwargs = _cloned(call.args), _cloned(call.kwargs)
        self._autocast = call.autocast
        self._outputs: list[torch.Tensor] = []
        self._names = {id(part): f"{name} ({type(part).__name__})" for name, part in module.named_modules() if name}

    @staticmethod
    def of(call: Held) -> _Pass | None:
        """The call, if it can be made again without leaving anything."""
        if not _can_be_copied(call.module):
            return None
        try:
            module = copy.deepcopy(call.module)
            made = _Pass(call, module)
        except Exception:  # noqa: BLE001  whatever a module holds, or is given, that cannot be copied
            return None
        if not _memory(module).isdisjoint(_memory(call.module)) or set(module.modules()) & set(call.module.modules()):
            return None  # it copies itself in a way of its own
        for parameter in module.parameters():
            parameter.grad = None
        return made

    def is_given_numbers(self) -> bool:
        """Whether parameters are finite, and no argument or buffer is NaN: masks hold infinity."""
        others = (*self._module.buffers(), *tensors_in((self._args, self._kwargs)))
        return all(map(_is_finite, self._module.parameters())) and not any(map(_has_nan, others))

    def forward(self) -> First | None:
        """What gives the first NaN or infinity in the forward pass, if one comes out of it."""
        watch = _Watch(self._names)
        builds = torch._C._autograd._top_saved_tensors_default_hooks(False) is None
        with (
            torch.set_grad_enabled(builds),
            torch.autograd.set_detect_anomaly(builds, check_nan=False),
            torch.autocast("cpu", self._autocast, enabled=self._autocast is not None),
            watch,
        ):
            output = self._module(*self._args, **self._kwargs)
        self._outputs = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
        if all(map(_is_finite, self._outputs)):
            return None
        return watch.first()

    def backward(self) -> First | None:
        """What gives the first NaN or infinity in the backward pass, if all that comes in is finite."""
        outputs = [tensor for tensor in self._outputs if tensor.requires_grad and _is_finite(tensor)]
        if not outputs:
            return None
        found: list[Any] = []
        nodes, seen = [tensor.grad_fn for tensor in outputs], set()
        while nodes:
            node: Any = nodes.pop()
            if node is None or node in seen or hasattr(node, "variable"):
                continue
            seen.add(node)
            node.register_hook(_noting(node, found))
            nodes += [child for child, _ in node.next_functions]
        torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])
        if not found:
            return None
        return First(operation_of(found[0]), "", backward=True, site=_traced(found[0]))


def _noting(node: Any, found: list[Any]) -> Any:
    def note(given: Sequence[Any], came: Sequence[Any]) -> None:
        in_numbers = all(map(_is_finite, tensors_in(tuple(came))))
        if not found and in_numbers and not all(map(_is_finite, tensors_in(tuple(given)))):
            found.append(node)

    return note


class _Watch(TorchDispatchMode):
    """Notes the first operations that give NaN or infinity."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names = names
        self._broken: First | None = None  #: the first of which all that it was given was finite
        self._no_number: First | None = None  #: the first that gave NaN, and was given none

    def first(self) -> First | None:
        """The first operation: one that was given infinity on purpose, as for a mask, where there is no other."""
        return self._broken or self._no_number

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and look at what it gives."""
        if any(isinstance(one, torch.Generator) for one in (*args, *(kwargs or {}).values())):
            raise RuntimeError("random numbers of a generator whose state is not put back")
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.rpartition("::")[2].lstrip("_")
        if self._broken is None and not name.startswith(_UNFILLED):
            results = [one for one in tensors_in(result) if not _is_finite(one)]
            if results:
                self._look(name, results, (args, kwargs or {}))
        return result

    def _look(self, name: str, results: list[torch.Tensor], given: Any) -> None:
        tensors = list(tensors_in(given))
        scalars = [one for one in _scalars(given) if one != one or one in (float("inf"), float("-inf"))]
        if all(map(_is_finite, tensors)) and not scalars:
            self._broken = self._of(name)
        elif self._no_number is None and any(map(_has_nan, results)) and not any(map(_has_nan, tensors)):
            self._no_number = self._of(name)

    def _of(self, name: str) -> First:
        frame: FrameType | None = sys._getframe(1)
        site: Site | None = None
        layer = ""
        while frame is not None and frame.f_code is not _Pass.forward.__code__:
            if site is None and not is_foreign(frame.f_code.co_filename):
                site = site_of(frame)
            if not layer and frame.f_code.co_argcount:
                layer = self._names.get(id(frame.f_locals.get(frame.f_code.co_varnames[0])), "")
            frame = frame.f_back
        return First(name, layer, backward=False, site=site)


def operation_of(node: Any) -> str:
    """What the forward pass calls the operation of a node."""
    name = re.sub(r"Backward\w*$", "", node.name().rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _traced(node: Any) -> Site | None:
    """Where in the user's program a node was made, as torch's anomaly mode notes it."""
    entries = [_TRACED.search(entry) for entry in node.metadata.get("traceback_", ())]
    places = [(entry[1], int(entry[2])) for entry in entries if entry is not None]
    own = [number for number, (filename, _) in enumerate(places) if filename == __file__]
    places = places[own[-1] + 1 :] if own else places
    for filename, line in reversed(places):
        if not is_foreign(filename):
            return LineSite(path_of(filename), line)
    return None


def _scalars(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _scalars(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _scalars(part)


def _is_finite(tensor: torch.Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()) or not holds_values(tensor):
        return True
    return bool(tensor.detach().isfinite().all())


def _has_nan(tensor: torch.Tensor) -> bool:
    return holds_values(tensor) and tensor.is_floating_point() and bool(tensor.detach().isnan().any())


def _can_be_copied(module: nn.Module) -> bool:
    """Whether a module holds nothing that a copy would share, and is not too large."""
    size = 0
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule) or part._compiled_call_impl is not None:
            return False
        if type(part).__module__.startswith(("torch._dynamo", "torch.distributed", "torch.nn.parallel")):
            return False
        if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks:
            return False
    for tensor in (*module.parameters(), *module.buffers()):
        if not holds_values(tensor) or not tensor.is_cpu:
            return False
        size += tensor.numel() * tensor.element_size()
    return size <= LARGEST


def _memory(module: nn.Module) -> set[int]:
    held = (*module.parameters(), *module.buffers())
    return {tensor.untyped_storage().data_ptr() for tensor in held if tensor.numel()}


def _cloned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return type(value)(_cloned(part) for part in value)
    if isinstance(value, dict):
        return {key: _cloned(part) for key, part in value.items()}
    return value


class _OfOthers(io.TextIOBase):
    """A stream for what threads other than this one write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread:
            self._stream.flush()


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Random numbers go on as if nothing had happened, and what this thread prints meanwhile is not shown."""
    numpy = sys.modules.get("numpy")
    python, arrays = random.getstate(), numpy.random.get_state() if numpy is not None else None
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices), contextlib.redirect_stdout(_OfOthers(sys.stdout)):
        try:
            yield
        finally:
            random.setstate(python)
            if numpy is not None:
                numpy.random.set_state(arrays)
