"""The one place where torch is patched: process-wide, once, for all active guards, and undone with the last one.

Watched are the autograd engine's entry in ``torch.autograd`` (both ``backward()`` and ``grad()`` go through it, under
whatever name they were imported), the global optimizer hooks, and the call of a module, of which the outermost one
counts: global module hooks would send every layer of a model down a longer path.  Instances carry nothing, so that
models and optimizers can be copied and pickled inside a guard.

A guard is told what happens in the thread it was entered in: looking at a gradient while a backward pass of another
thread accumulates into it is a data race.  Hooks that run in the engine's own threads belong to the pass they run in.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..calls import (
    BackwardCall,
    CompileCall,
    ForwardCall,
    LayerCall,
    ModeCall,
    PlaceCall,
    ScheduleCall,
    StepCall,
    Watcher,
)
from ..frames import FrameSite, is_foreign, site_of, user_site
from ..tensors import inside_backward, tensors_in
from .exchanging import of_exchanges
from .replacements import replacements

if TYPE_CHECKING:
    from types import FrameType

    from torch.optim import Optimizer


class _Outermost:
    """The call of an outermost module that is under way."""

    __slots__ = ("applied", "built", "derives")

    def __init__(self) -> None:
        self.derives = False  # by torch.autograd.grad, for itself: it is neither training nor evaluation
        self.built: dict[int, tuple[weakref.ref[torch.nn.Module], FrameSite]] = {}  # modules, during that call
        self.applied: list[tuple[weakref.ref[torch.nn.Module], LayerCall]] = []  # those of them that were called


class _Thread(threading.local):
    """What is under way in one thread."""

    def __init__(self) -> None:
        self.setting_mode = False
        self.unwatched = False
        self.outermost: _Outermost | None = None
        self.steps: list[tuple[int, int, StepCall | None]] = []  # (optimizer id, frame id, call)


@dataclass(slots=True, eq=False)
class _Patch:
    """What is installed, and for whom."""

    guards: tuple[Watcher, ...] = ()
    handles: list[Any] = field(default_factory=list)
    running: list[BackwardCall] = field(default_factory=list)
    before: Callable[..., Any] | None = None  #: the entry to the engine that ours replaces
    engine: Callable[..., Any] | None = None  #: ours
    sees_graphs: bool = False  #: the entry to dynamo's backends is replaced, too
    replaced: list[tuple[Any, str, Any, Any]] = field(default_factory=list)
    """Of classes, and of cells of functions, of torch: the owner, the name, what ours replaces, and ours."""


_lock = threading.RLock()
_patch = _Patch()
_thread = _Thread()
_autograd: Any = torch.autograd  # its entry to the engine is private


def activate(guard: Watcher) -> None:
    """Let ``guard`` see what happens from now on."""
    with _lock:
        if not _patch.guards:
            _install()
        _patch.guards = (*_patch.guards, guard)


def deactivate(guard: Watcher) -> None:
    """Let ``guard`` see nothing more; the last one takes the patch with it.  Guards may leave in any order."""
    with _lock:
        _patch.guards = tuple(other for other in _patch.guards if other is not guard)
        if not _patch.guards:
            _uninstall()


@contextmanager
def unwatched() -> Iterator[None]:
    """What this thread runs in it is told to no guard."""
    before, _thread.unwatched = _thread.unwatched, True
    try:
        yield
    finally:
        _thread.unwatched = before


def _watching() -> tuple[Watcher, ...]:
    """The guards of this thread."""
    if _thread.unwatched:
        return ()
    guards, thread = _patch.guards, threading.get_ident()
    if len(guards) == 1:
        return guards if guards[0].thread == thread else ()
    return tuple(guard for guard in guards if guard.thread == thread)


def _install() -> None:
    _patch.before = _autograd._engine_run_backward
    _patch.engine = _autograd._engine_run_backward = _entry(_patch.before)
    for scheduler in _SCHEDULERS:
        _replace(scheduler, "step", _schedule)
    _replace(torch.nn.Module, "train", _mode_setter)
    _replace(torch.nn.Module, "eval", _mode_setter)
    _replace(torch.nn.Module, "__call__", _caller)
    for owner, name, build in replacements(_watching, lambda: _patch.guards):
        _replace(owner, name, build)
    for owner, name, build in of_exchanges(_watching, lambda: _thread.outermost is not None):
        _replace(owner, name, build)
    _patch.handles = [
        register_optimizer_step_pre_hook(_step_begins),
        register_optimizer_step_post_hook(_step_ended),
        register_module_parameter_registration_hook(_parameter_registered),
        register_module_module_registration_hook(_module_registered),
    ]
    _watch_compiler()


def _uninstall() -> None:
    for handle in _patch.handles:
        handle.remove()
    for owner, name, before, ours in _patch.replaced:
        if _held(owner, name) is ours:
            setattr(owner, name, before)
        if name == "__call__":
            _correct_dynamo(before, ours)
    # Somebody else's later patch may call ours: taking ours out would take theirs out too.  Left in, it only passes on.
    if _autograd._engine_run_backward is _patch.engine:
        _autograd._engine_run_backward = _patch.before
    _patch.__init__()  # type: ignore[misc]  # back to how it began
    _thread.__init__()  # type: ignore[misc]  # likewise, for this thread


def _watch_compiler() -> None:
    """See what dynamo compiles, once the program has imported it."""
    output = sys.modules.get("torch._dynamo.output_graph")
    owner = getattr(output, "OutputGraph", None)
    if owner is not None:
        with _lock:
            if not _patch.sees_graphs and "call_user_compiler" in vars(owner):
                _replace(owner, "call_user_compiler", _compiling)
            _patch.sees_graphs = True


def _compiling(before: Callable[..., Any]) -> Callable[..., Any]:
    """The call of dynamo's backend that shows the guards its graph."""

    def call_user_compiler(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        translator = getattr(self, "root_tx", None)
        code, local = getattr(translator, "f_code", None), getattr(translator, "f_locals", {})
        first = local.get(code.co_varnames[0]) if code is not None and code.co_argcount else None
        call = CompileCall(gm.graph, in_module=isinstance(first, torch.nn.Module))
        for guard in _watching():
            guard.tell("graph_compiled", call, raising=False, deliver=False)
        return before(self, gm, *args, **kwargs)

    return call_user_compiler


def _correct_dynamo(before: Any, ours: Any) -> None:
    """Imported while the call of a module was replaced, dynamo has taken ours for torch's own."""
    for name in ("utils", "variables.nn_module"):
        module = sys.modules.get(f"torch._dynamo.{name}")
        if module is not None and vars(module).get(_DYNAMO_CALL) is ours:
            setattr(module, _DYNAMO_CALL, before)


def _entry(engine: Callable[..., Any]) -> Callable[..., Any]:
    """An entry to the autograd engine that tells the guards."""

    def entry(
        roots: Any, grads: Any, retain_graph: bool, create_graph: bool, inputs: Any = (), *args: Any, **kwargs: Any
    ) -> Any:
        guards = _watching() if _patch.engine is entry else ()
        if not guards or torch.compiler.is_compiling() or inside_backward():
            return engine(roots, grads, retain_graph, create_graph, inputs, *args, **kwargs)
        call = BackwardCall(
            site=user_site(2),
            roots=tuple(roots),
            grads=tuple(grads),
            inputs=tuple(inputs),
            retain=bool(retain_graph),
            create=bool(create_graph),
            accumulates=bool(kwargs.get("accumulate_grad", False)),
            guards=guards,
            thread=guards[0].thread,
        )
        if call.accumulates:
            _thread.outermost = None
        elif _thread.outermost is not None:
            _thread.outermost.derives = True
        for guard in guards:
            guard.tell("backward_begins", call)
        _patch.running.append(call)
        try:
            return engine(roots, grads, retain_graph, create_graph, inputs, *args, **kwargs)
        except BaseException as error:
            call.error = error
            raise
        finally:
            if call in _patch.running:
                _patch.running.remove(call)
            for guard in guards:
                if guard.active:
                    guard.backward_ended(call)
            call.roots, call.inputs, call.error = (), (), None

    return entry


_DYNAMO_CALL = "unpatched_nn_module_call"  # as dynamo names the call of a module
_CALL = torch.nn.Module._call_impl.__code__  # of the call of a module

_SCHEDULERS = tuple(
    found
    for found in vars(lr_scheduler).values()
    if isinstance(found, type)
    and issubclass(found, lr_scheduler.LRScheduler)
    and found is not lr_scheduler.ReduceLROnPlateau
    and "step" in vars(found)
)


_schedulers: weakref.WeakKeyDictionary[lr_scheduler.LRScheduler, FrameSite] = weakref.WeakKeyDictionary()
"""Where schedulers were built, of those that a guard has seen being built."""


def _replace(owner: Any, name: str, build: Callable[[Any], Any]) -> None:
    before = _held(owner, name)
    ours = functools.wraps(before)(build(before))
    setattr(owner, name, ours)
    _patch.replaced.append((owner, name, before, ours))


def _held(owner: Any, name: str) -> Any:
    """What a class, or else a cell, has itself under a name."""
    return vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name)


def _schedule(before: Callable[..., Any]) -> Callable[..., Any]:
    """A scheduler's ``step()`` that tells the guards."""

    def step(self: lr_scheduler.LRScheduler, *args: Any, **kwargs: Any) -> Any:
        guards = () if args or kwargs else _watching()
        if guards and getattr(self, "_is_initial", False):
            _schedulers[self] = user_site(2)
        elif guards and type(self).__module__ == lr_scheduler.__name__:
            call = ScheduleCall(user_site(2), self.optimizer, self, _schedulers.get(self))
            for guard in guards:
                guard.tell("scheduler_stepped", call)
        return before(self, *args, **kwargs)

    return step


def _mode_setter(before: Callable[..., Any]) -> Callable[..., Any]:
    """``train()`` or ``eval()`` of a module that tells the guards."""

    def set_mode(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        guards = () if torch.compiler.is_compiling() or _thread.setting_mode else _watching()
        if not guards:
            return before(self, *args, **kwargs)
        site = user_site(2)
        _thread.setting_mode = True
        try:
            result = before(self, *args, **kwargs)
        finally:
            _thread.setting_mode = False
        call = ModeCall(site, self, self.training)
        for guard in guards:
            guard.tell("mode_set", call)
        return result

    return set_mode


def _step_begins(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if torch.compiler.is_compiling():
        return
    _thread.outermost = None
    steps = _thread.steps
    while steps and not _is_running(steps[-1][1]):
        steps.pop()  # that step raised
    frame = id(sys._getframe(1))
    if steps and any(entry[0] == id(optimizer) for entry in steps):
        steps.append((id(optimizer), frame, None))  # super().step(): still the same step
        return
    closure = (len(args) > 1 and args[1] is not None) or kwargs.get("closure") is not None
    within = _pass_under_way() if inside_backward() else None
    guards = _watching() if within is None else within.guards
    call = StepCall(within.site if within else user_site(2), optimizer, closure, within, guards)
    steps.append((id(optimizer), frame, call))
    for guard in guards:
        guard.tell("step_begins", call)


def _step_ended(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if torch.compiler.is_compiling():
        return
    steps = _thread.steps
    while steps:
        key, _, call = steps.pop()
        if key == id(optimizer):
            break
    else:
        return
    if call is not None:
        for guard in call.guards:
            if guard.active:
                guard.tell("step_ended", call)


def _pass_under_way() -> BackwardCall | None:
    """The pass that a hook runs in.  In one of the engine's own threads it is known if there is only one."""
    mine = [call for call in _patch.running if call.thread == threading.get_ident()] or _patch.running
    return mine[-1] if len(mine) == 1 else None


def _is_running(frame_id: int) -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if id(frame) == frame_id:
            return True
        frame = frame.f_back  # type: ignore[assignment]  # the outermost frame has none
    return False


def _caller(before: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a module that tells the guards when the outermost one has returned."""
    is_own = before is vars(torch.nn.Module).get("_wrapped_call_impl")
    is_traced, thread = (
        torch.compiler.is_dynamo_compiling,
        _thread,
    )  # models may have thousands of parts: look up little

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            return before(self, *args, **kwargs)
        outermost = thread.outermost
        if outermost is not None:
            if not outermost.built and is_own and self._compiled_call_impl is None:
                return self._call_impl(*args, **kwargs)  # as torch's own does, which would be one more call
            output = before(self, *args, **kwargs)
            if outermost.built:
                _layer_ended(outermost, self)
            return output
        guards = () if torch.compiler.is_compiling() else _watching()
        if not guards:
            return before(self, *args, **kwargs)
        if not _patch.sees_graphs:
            _watch_compiler()
        _thread.outermost = mine = _Outermost()
        try:
            output = before(self, *args, **kwargs)
        except Exception:
            if inside_backward():
                _forward_stopped(guards, self, args, kwargs)
            raise
        finally:
            ended = _thread.outermost is mine  # no backward pass or step has been made within
            if ended:
                _thread.outermost = None
        if ended and not mine.derives:
            if mine.built:
                _layers_dropped(mine.applied)
            _forward_ended(guards, self, args, kwargs, output)
        return output

    return call


def _forward_ended(
    guards: tuple[Watcher, ...], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> None:
    tensors = (output,) if isinstance(output, torch.Tensor) else tuple(tensors_in(output))
    call = ForwardCall(user_site(3), module, args, kwargs, output, tensors, inside_backward())
    for guard in guards:
        if guard.active:
            guard.forward_ended(call)


def _forward_stopped(
    guards: tuple[Watcher, ...], module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    call = ForwardCall(user_site(3), module, args, kwargs, None, (), inside_backward())
    for guard in guards:
        if guard.active:
            guard.tell("forward_stopped", call)


def _parameter_registered(module: torch.nn.Module, name: str, parameter: Any) -> None:
    if torch.compiler.is_compiling() or parameter is None:
        return
    guards, outermost = _watching(), _thread.outermost
    if guards and outermost is not None and not inside_backward():
        _module_built(outermost, sys._getframe(1))
    _placed(guards, module, parameter)


def _module_registered(module: torch.nn.Module, name: str, part: Any) -> None:
    if torch.compiler.is_compiling():
        return
    outermost = _thread.outermost
    if outermost is not None and outermost.built.pop(id(part), None) is not None:
        _module_built(outermost, sys._getframe(1))
    if part is not None:
        _placed(_watching(), module, part)


def _placed(guards: tuple[Watcher, ...], module: torch.nn.Module, part: Any) -> None:
    if guards:
        call = PlaceCall(user_site(3), module, part)
        for guard in guards:
            guard.tell("part_placed", call)


def _module_built(outermost: _Outermost, frame: FrameType | None) -> None:
    """Note the outermost of the modules that are being built inside the forward pass under way."""
    built: torch.nn.Module | None = None
    building: FrameType | None = None
    while frame is not None and frame.f_code is not _CALL:
        if frame.f_code.co_name == "__init__" and frame.f_code.co_argcount:
            first = frame.f_locals.get(frame.f_code.co_varnames[0])
            if isinstance(first, torch.nn.Module):
                built, building = first, frame
        frame = frame.f_back
    caller = None if building is None else building.f_back
    if built is not None and caller is not None and not is_foreign(caller.f_code.co_filename):
        outermost.built[id(built)] = weakref.ref(built), site_of(caller)


def _layer_ended(outermost: _Outermost, module: torch.nn.Module) -> None:
    entry = outermost.built.get(id(module))
    if entry is not None and entry[0]() is module and any(one.requires_grad for one in module.parameters()):
        kind = type(module)
        name = f"nn.{kind.__name__}" if kind.__module__.startswith("torch.nn.") else kind.__name__
        outermost.applied.append((entry[0], LayerCall(entry[1], name)))


def _layers_dropped(applied: list[tuple[weakref.ref[torch.nn.Module], LayerCall]]) -> None:
    for layer, call in applied:
        if layer() is None:
            for guard in _watching():
                guard.tell("layer_dropped", call)
