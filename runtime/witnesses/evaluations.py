"""Evaluations: calls of a model that build graphs nothing walks, or that are compared with labels in training mode."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own idiom

from gradlint.events import OutputMeasured
from gradlint.facts import FALSE, TRUE

from ..calls import ForwardCall, ModeCall, StepCall
from ..frames import calling_frame
from ..records.modules import acts_as_trained, depends_on_mode
from ..records.walks import Mark, Walks
from ..roster import Resting
from ..tensors import given_tensors, tensors_in
from ..torch_functions import ADDS, COMPARISONS, KEEPS, LOSSES, MULTIPLIES, OTHER_LOSSES, PREDICTS

if TYPE_CHECKING:
    from torch import nn

    from ..calls import SwapCall
    from ..frames import FrameSite
    from ..judging import Judge

TWICE = 2  #: calls at one place, one after the other, are an evaluation; a single one may look at a shape
RECENT = 16  #: losses that are remembered
MANY = 256  #: outputs at one place: when none was walked, none will be
PATIENCE = 3  #: steps, of which one trains a module that was put into training mode to be trained


class _Output(Mark):
    """The graph of the output of a model in evaluation mode; ``root`` dies with it."""

    __slots__ = ("root",)

    def __init__(self, root: weakref.ref[Mark]) -> None:
        super().__init__()
        self.root = root

    @property
    def in_vain(self) -> bool:
        return not self.walked and self.root() is None


class _Place:
    """Where models are called in evaluation mode, with gradients enabled."""

    __slots__ = ("outputs", "set_at")

    def __init__(self) -> None:
        self.outputs: list[_Output] = []
        self.set_at: FrameSite | None = None


class UnwalkedOutputs:
    """Reports places where models in evaluation mode are called, and no backward pass ever walks what they build."""

    def __init__(self, judge: Judge, walks: Walks) -> None:
        self._judge = judge
        self._walks = walks
        self._places: dict[FrameSite, _Place] = {}
        self._settled: set[FrameSite] = set()
        self._set_at: dict[int, tuple[weakref.ref[nn.Module], FrameSite]] = {}

    def mode_set(self, call: ModeCall) -> None:
        if not call.training:
            self._set_at = {key: entry for key, entry in self._set_at.items() if entry[0]() is not None}
            self._set_at[id(call.module)] = weakref.ref(call.module), call.site

    def evaluated(self, call: ForwardCall) -> None:
        if call.module.training or call.site in self._settled or not torch.is_grad_enabled() or _is_special(call):
            return
        nodes = [tensor.grad_fn for tensor in call.tensors if tensor.grad_fn is not None]
        if not nodes:
            return
        place = self._places.setdefault(call.site, _Place())
        if any(output.walked for output in place.outputs) or any(tensor.requires_grad for tensor in _given(call)):
            self._settled.add(call.site)
            del self._places[call.site]
            return
        if len(place.outputs) == MANY:
            self._report(call.site, place)
            return
        entry = self._set_at.get(id(call.module))
        place.set_at = entry[1] if entry is not None and entry[0]() is call.module else place.set_at
        root = Mark()
        output = _Output(weakref.ref(root))
        place.outputs.append(output)
        self._walks.put(output, nodes)
        self._walks.put(root, nodes)

    def finish(self, _: FrameSite) -> None:
        """The guard ends.  After an error, a walk that would have come may be missing."""
        for site, place in list(self._places.items()):
            if sys.exc_info()[1] is not None:
                place.outputs = place.outputs[:-1]
            self._report(site, place)

    def _report(self, site: FrameSite, place: _Place) -> None:
        self._settled.add(site)
        del self._places[site]
        vain = [output for output in place.outputs if output.in_vain]
        if len(vain) >= TWICE and not any(output.walked for output in place.outputs):
            self._judge.send(OutputMeasured(site=site, training=FALSE, grad_enabled=TRUE, set_at=place.set_at))


class _Calls:
    """The latest calls of a module in training mode and without gradients."""

    __slots__ = ("count", "given", "module")

    def __init__(self, module: nn.Module) -> None:
        self.module = weakref.ref(module)
        self.count = 0  # in a row
        self.given: list[weakref.ref[torch.Tensor]] = []  # to the last of them


class _Asked:
    """A module that was put into training mode, and was not trained since."""

    __slots__ = ("module", "steps")

    def __init__(self, module: nn.Module) -> None:
        self.module = weakref.ref(module)
        self.steps = 0  # that trained others

    def is_or_has(self, module: nn.Module) -> bool:
        """Whether that module was put into training mode, too."""
        whole = self.module()
        return whole is not None and any(part is module for part in whole.modules())


class TrainingModeEvaluations(Resting):
    """Reports models whose outputs are compared with labels while they are in a training mode that nobody asked for.

    Losses and comparisons are looked for from the second call in a row on that is made without gradients.
    """

    RESTS_FROM = ("forward_ended", "step_ended")

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.insist: Callable[[], None] = lambda: None  #: lets functions be watched until the next step
        self._asked: list[_Asked] = []
        self._calls: dict[int, _Calls] = {}
        self._outputs: dict[int, tuple[weakref.ref[torch.Tensor], FrameSite]] = {}
        self._losses: list[weakref.ref[torch.Tensor]] = []  # the latest, computed without gradients
        self.rest()

    def mode_set(self, call: ModeCall) -> None:
        """Training mode that was asked for is meant, until there is training."""
        self._asked = [one for one in self._asked if (module := one.module()) is not None and module is not call.module]
        if call.training:
            self._asked.append(_Asked(call.module))
            self.wake()

    def forward_ended(self, call: ForwardCall) -> None:
        if torch.is_grad_enabled():
            self._calm()

    def evaluated(self, call: ForwardCall) -> None:
        if torch.is_grad_enabled() or not call.module.training or _is_special(call):
            return
        calls = self._calls.get(id(call.module))
        if calls is None or calls.module() is not call.module:
            if not depends_on_mode(call.module):
                return
            self._calls = {key: one for key, one in self._calls.items() if one.module() is not None}
            calls = self._calls[id(call.module)] = _Calls(call.module)
            self.wake()
        given = _given(call)
        same = len(given) == len(calls.given) and all(old() is new for old, new in zip(calls.given, given, strict=True))
        calls.count = 1 if same else calls.count + 1  # the same input again: samples of a random output
        calls.given = [weakref.ref(tensor) for tensor in given]
        asked = any(one.is_or_has(call.module) for one in self._asked)
        if calls.count >= TWICE and not asked and acts_as_trained(call.module):
            self.insist()
            if any(self._is_loss(tensor) for tensor in call.tensors):  # it compares with labels itself
                self._report(call.site)
                return
            for tensor in call.tensors:
                self._outputs[id(tensor)] = weakref.ref(tensor), call.site

    def step_ended(self, call: StepCall) -> None:
        self._calm()
        for asked in [one for one in self._asked if one.steps < PATIENCE]:
            asked.steps += 1
            module = asked.module()
            owned = {id(parameter) for group in call.optimizer.param_groups for parameter in group["params"]}
            if module is None or any(id(parameter) in owned for parameter in module.parameters()):
                self._asked.remove(asked)
        if all(one.steps >= PATIENCE for one in self._asked):
            self.rest()

    def tensors_swapped(self, _: SwapCall) -> None:
        """Begin anew: inputs and outputs may become others."""
        self._calm()

    def _calm(self) -> None:
        """There is training again."""
        if self._calls:
            self._outputs, self._calls, self._losses = {}, {}, []

    def before(self) -> dict[Any, Callable[..., None]]:
        """What to do before a function."""
        return dict.fromkeys((*LOSSES, *COMPARISONS), self._compared)

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do with the result of a function."""
        found: dict[Any, Callable[..., None]] = {torch.Tensor.data.__get__: self._passed_on}  # type: ignore[attr-defined]  # a descriptor
        for name in f"{KEEPS} {PREDICTS}".split():
            for owner in (torch.Tensor, torch, F):
                if (function := getattr(owner, name, None)) is not None:
                    found[function] = self._passed_on
        found |= dict.fromkeys((*ADDS, *MULTIPLIES, torch.div, torch.Tensor.div), self._scaled)
        return found | dict.fromkeys((*LOSSES, *OTHER_LOSSES), self._lost)

    def _passed_on(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        site = self._site(args[0] if args else kwargs.get("input"))
        if site is not None:
            for tensor in tensors_in(result):
                self._outputs[id(tensor)] = weakref.ref(tensor), site

    def _compared(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if not self._outputs:
            return
        pair = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)][:2]
        sites = [self._site(tensor) for tensor in pair]
        if len(pair) == 2 and sites.count(None) == 1 and calling_frame(sys._getframe(1)) is not None:
            site = sites[0] or sites[1]
            assert site is not None
            self._report(site)

    def _lost(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A loss was computed without gradients, perhaps by a model that is given the labels."""
        if isinstance(result, torch.Tensor) and not torch.is_grad_enabled():
            self._losses = [one for one in self._losses if one() is not None][-RECENT:]
            self._losses.append(weakref.ref(result))

    def _scaled(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if self._losses and any(map(self._is_loss, args)):
            self._lost(args, kwargs, result)

    def _is_loss(self, tensor: Any) -> bool:
        return any(one() is tensor for one in self._losses)

    def _report(self, site: FrameSite) -> None:
        self._judge.send(OutputMeasured(site=site, training=TRUE, grad_enabled=FALSE, copied=FALSE))
        self._outputs, self._losses = {}, []

    def _site(self, tensor: Any) -> FrameSite | None:
        entry = self._outputs.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None


def _given(call: ForwardCall) -> tuple[torch.Tensor, ...]:
    return given_tensors(call.args, call.kwargs)


def _is_special(call: ForwardCall) -> bool:
    """Whether a call is made by autograd itself, by a function transform, or to trace it."""
    return (
        call.recomputed
        or torch._C._get_tracing_state() is not None
        or isinstance(call.module, torch.jit.ScriptModule)
        or torch._C._functorch.peek_interpreter_stack() is not None
    )
