"""Layers, parameters and tensors that modules hold without registering them.

A module is looked through when it is first called.  Whether it made what it holds, and where, its source says;
whether an optimizer was given it by hand, the next steps show.
"""

from __future__ import annotations

import ast
import inspect
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gradlint.events import ModuleBuilt, TensorKept
from gradlint.facts import FALSE, TRUE
from gradlint.facts import known as fact
from gradlint.finding import Location

from ..frames import is_foreign, path_of
from ..roster import Resting
from ..spelling import function_syntax

if TYPE_CHECKING:
    from ..calls import ForwardCall, StepCall, SwapCall
    from ..frames import FrameSite
    from ..judging import Judge
    from ..records.modules import KnownModules

PATIENCE = 3  #: steps, in which an optimizer shows what it was given
DEPTH = 2  #: of containers in containers
ALIKE = 8  #: modules of one class that are looked through
ADDING = ("append", "extend", "insert", "setdefault", "update")
_OWN = frozenset(vars(nn.Module()))


@dataclass(slots=True, eq=False)
class _Suspect:
    """Something that no module has registered, as far as is known."""

    event: ModuleBuilt | TensorKept
    parameters: frozenset[int]  #: ids
    siblings: frozenset[int]  #: ids of the parameters of the model that are trained along with it, or should be
    tensor: weakref.ref[torch.Tensor] | None = None  #: that is no parameter
    version: int = 0
    holder: weakref.ref[nn.Module] | None = None  #: the module that holds it
    steps: int = 0  #: that have trained the model
    was_written: bool = False  #: somebody changes the values by hand

    def look(self) -> None:
        """See whether the values have changed, or another tensor is there by now."""
        tensor = None if self.tensor is None else self.tensor()
        self.was_written |= tensor is not None and tensor._version != self.version
        holder = None if self.holder is None else self.holder()
        if holder is not None and isinstance(self.event, TensorKept):
            self.was_written |= vars(holder).get(self.event.attribute) is not tensor


class PlainAttributes(Resting):
    """Reports layers and weights that are trained by nobody, because no module has registered them."""

    RESTS_FROM = ("forward_ended", "step_begins")

    def __init__(self, judge: Judge, modules: KnownModules) -> None:
        self._judge = judge
        self._modules = modules
        self._classes: dict[type, int] = {}
        self._suspects: list[_Suspect] = []
        self.rest()

    def forward_ended(self, _: ForwardCall) -> None:
        for suspect in self._suspects:
            suspect.look()

    def module_met(self, call: ForwardCall) -> None:
        count = self._classes[type(call.module)] = self._classes.get(type(call.module), 0) + 1
        if count <= ALIKE and not isinstance(call.module, torch.jit.ScriptModule):
            self._look_through(call.module)
        if self._suspects:
            self.wake()

    def step_begins(self, call: StepCall) -> None:
        owned = {id(parameter) for group in call.optimizer.param_groups for parameter in group["params"]}
        self._suspects = [suspect for suspect in self._suspects if suspect.parameters.isdisjoint(owned)]
        for suspect in self._suspects:
            suspect.steps += not suspect.siblings.isdisjoint(owned)
        self._decide([suspect for suspect in self._suspects if suspect.steps >= PATIENCE])

    def tensors_swapped(self, call: SwapCall) -> None:
        """Suspect no tensor that becomes another one."""
        swapped = set(map(id, call.tensors))
        self._suspects = [one for one in self._suspects if one.tensor is None or id(one.tensor()) not in swapped]

    def finish(self, _: FrameSite) -> None:
        """The guard ends.  Of models that were not trained it is not known what is trained along with them."""
        self._decide([suspect for suspect in self._suspects if suspect.steps or not suspect.siblings])

    def _decide(self, suspects: list[_Suspect]) -> None:
        if not suspects:
            return
        registered = _registered(self._modules)
        for suspect in suspects:
            suspect.look()
            if suspect.parameters.isdisjoint(registered) and not suspect.was_written:
                self._judge.send(suspect.event)
        self._suspects = [suspect for suspect in self._suspects if suspect not in suspects]
        if not self._suspects:
            self.rest()

    def _look_through(self, whole: nn.Module) -> None:
        parts = list(whole.modules())
        if any(_lists_itself(part) for part in parts):
            return
        registered = _registered([whole])
        siblings = frozenset(id(parameter) for parameter in whole.parameters() if parameter.requires_grad)
        handed = frozenset().union(*(_handed(part) for part in parts))
        for part in parts:
            for name, value in list(vars(part).items()):
                if name not in _OWN and isinstance(value, (list, tuple, dict)):
                    self._container(part, name, value, registered | handed, siblings)
                elif name not in _OWN and isinstance(value, torch.Tensor):
                    self._tensor(part, name, value, registered | handed, siblings)

    def _container(
        self,
        part: nn.Module,
        name: str,
        container: list[Any] | tuple[Any, ...] | dict[Any, Any],
        known: frozenset[int],
        siblings: frozenset[int],
    ) -> None:
        if len(container) < 2 and not isinstance(container, dict):
            return  # ``self.teacher = [teacher]`` hides a module on purpose
        held = [one for one in _held(container, DEPTH) if _trainable(one)]
        parameters = frozenset(id(parameter) for one in held for parameter in _trainable(one))
        if not parameters or parameters & known:
            return
        place = _where_made(part, name, tuple({type(one) for one in held}))
        if place is not None:
            kind = "dict" if isinstance(container, dict) else "list" if isinstance(container, list) else "tuple"
            event = ModuleBuilt(
                site=place, module=type(part).__name__, attribute=name, container=kind, registered=FALSE
            )
            self._suspects.append(_Suspect(event, parameters, siblings))

    def _tensor(
        self, part: nn.Module, name: str, tensor: torch.Tensor, known: frozenset[int], siblings: frozenset[int]
    ) -> None:
        if not tensor.requires_grad or isinstance(tensor, nn.Parameter):
            return
        leaves = frozenset({id(tensor)} if tensor.is_leaf else _leaves(tensor))
        if not leaves or leaves & known:
            return
        place = _where_set(part, name, computed=not tensor.is_leaf)
        if place is not None:
            event = TensorKept(
                site=place,
                module=type(part).__name__,
                attribute=name,
                requires_grad=TRUE,
                computed=fact(not tensor.is_leaf),
                registered=FALSE,
            )
            self._suspects.append(
                _Suspect(event, leaves, siblings, weakref.ref(tensor), tensor._version, weakref.ref(part))
            )


def _registered(modules: Iterator[nn.Module] | list[nn.Module] | KnownModules) -> frozenset[int]:
    return frozenset(id(parameter) for module in modules for parameter in module.parameters())


def _handed(module: nn.Module) -> frozenset[int]:
    """What the optimizers hold that a module keeps."""
    optimizers = [value for value in vars(module).values() if isinstance(value, torch.optim.Optimizer)]
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    return frozenset(id(parameter) for group in groups for parameter in group["params"])


def _lists_itself(module: nn.Module) -> bool:
    """Whether the class says itself what its parameters are."""
    kind = type(module)
    return any(
        getattr(kind, name) is not getattr(nn.Module, name) for name in ("parameters", "named_parameters", "state_dict")
    )


def _held(container: Any, depth: int) -> Iterator[Any]:
    """The layers and parameters in a container."""
    for one in container.values() if isinstance(container, dict) else container:
        if isinstance(one, (nn.Module, nn.Parameter)):
            yield one
        elif depth and isinstance(one, (list, tuple, dict)):
            yield from _held(one, depth - 1)


def _trainable(held: nn.Module | nn.Parameter) -> list[nn.Parameter]:
    parameters = [held] if isinstance(held, nn.Parameter) else list(held.parameters())
    return [parameter for parameter in parameters if parameter.requires_grad]


def _leaves(tensor: torch.Tensor) -> set[int]:
    nodes: list[Any] = [tensor.grad_fn]
    seen, found = set(nodes), set()
    while nodes:
        node = nodes.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            found.add(id(leaf))
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                nodes.append(child)
    return found


# --- what the source of a class says -----------------------------------------------------------------------------


def methods_of(cls: type) -> Iterator[types.FunctionType]:
    """The methods of a class and its bases, as far as they are not torch's."""
    for base in cls.__mro__[: cls.__mro__.index(nn.Module)]:
        for method in vars(base).values():
            if isinstance(method, types.FunctionType) and not is_foreign(method.__code__.co_filename):
                yield method


def _where_made(part: nn.Module, name: str, classes: tuple[type, ...]) -> Location | None:
    """Where the class itself makes the first of what it holds in this attribute."""
    for method in methods_of(type(part)):
        syntax = function_syntax(method.__code__)
        if syntax is None or not method.__code__.co_argcount:
            continue
        names = {f"{method.__code__.co_varnames[0]}.{name}"}
        names |= {ast.unparse(value) for value in _given_to(syntax, names) if isinstance(value, ast.Name)}
        assigned = list(_given_to(syntax, names))
        values = [*assigned, *_added_to(syntax, names)]
        made = [call for value in values for call in _calls(value) if _makes(call, method, part, classes)]
        if made:
            first = min(made, key=lambda call: (call.lineno, call.col_offset))
            helper = _helper(first, method, part) if first in assigned else None
            inside = () if helper is None else _made_by(helper, classes)
            # A helper that makes the whole container is where the layers are made; else it makes one for the class.
            return _location(inside[0], helper) if helper is not None and inside else _location(first, method)
    return None


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (call for call in ast.walk(node) if isinstance(call, ast.Call))


def _makes(call: ast.Call, method: types.FunctionType, part: nn.Module, classes: tuple[type, ...]) -> bool:
    """Whether a call makes a layer: by its class, or by a function of the user's that does."""
    if _resolved(call.func, method) in classes:
        return True
    helper = _helper(call, method, part)
    return helper is not None and bool(_made_by(helper, classes))


def _helper(call: ast.Call, method: types.FunctionType, part: nn.Module) -> types.FunctionType | None:
    """The function of the user's, or the method of the module, that is called."""
    found = _resolved(call.func, method)
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == method.__code__.co_varnames[0]:
        found = inspect.getattr_static(type(part), call.func.attr, None)
        found = getattr(found, "__func__", found)  # of a static method, or one of the class
    if isinstance(found, types.FunctionType) and not is_foreign(found.__code__.co_filename):
        return found
    return None


def _made_by(helper: types.FunctionType, classes: tuple[type, ...]) -> list[ast.Call]:
    syntax = function_syntax(helper.__code__)
    return [] if syntax is None else [one for one in _calls(syntax) if _resolved(one.func, helper) in classes]


def _where_set(part: nn.Module, name: str, computed: bool) -> Location | None:
    """Where the class sets the attribute in ``__init__``; None where another method sets it, too."""
    places = []
    for method in methods_of(type(part)):
        syntax = function_syntax(method.__code__)
        if syntax is None or not method.__code__.co_argcount:
            continue
        for value in _given_to(syntax, {f"{method.__code__.co_varnames[0]}.{name}"}):
            calls = [call for call in ast.walk(value) if isinstance(call, ast.Call)]
            if method.__name__ != "__init__" or not calls:
                return None
            if computed and not any(_resolved(call.func, method) is nn.Parameter for call in calls):
                return None
            places.append(_location(value, method))
    return places[0] if len(places) == 1 else None


def _given_to(syntax: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """What is assigned to any of these."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if node.value is not None and any(ast.unparse(target) in names for target in targets):
            yield node.value


def _added_to(syntax: ast.AST, names: set[str]) -> Iterator[ast.expr]:
    """What is added to a container of any of these names."""
    for node in ast.walk(syntax):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in names:
            yield node.value
        elif isinstance(node, ast.Assign):
            items = [target for target in node.targets if isinstance(target, ast.Subscript)]
            if any(ast.unparse(item.value) in names for item in items):
                yield node.value
        elif isinstance(node, ast.Call):
            container = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in ADDING else None
            if container is not None and ast.unparse(container) in names:
                yield from node.args


def _resolved(name: ast.expr, method: types.FunctionType) -> Any:
    """What a name stands for in a method; None where that is not plain to see."""
    if isinstance(name, ast.Name):
        return method.__globals__.get(name.id)
    if isinstance(name, ast.Attribute):
        owner = _resolved(name.value, method)
        return vars(owner).get(name.attr) if isinstance(owner, types.ModuleType) else None
    return None


def _location(node: ast.expr, method: types.FunctionType) -> Location:
    end = node.end_lineno or node.lineno
    path = path_of(method.__code__.co_filename)
    return Location(path, node.lineno, node.col_offset + 1, end, (node.end_col_offset or 0) + 1)
