"""What ``named_parameters()`` calls the parameters of a module, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import PARAMETER_NAMES, may_freeze
from gradlint.static.state.origins import Text, fresh
from gradlint.static.state.values import Choice, Const, Instance, Ref, Sequence, Tensor, Unknown, Value, new_unknown
from gradlint.static.state.world import World
from gradlint.static.torch.module_methods import ModuleMethods
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.tensors import Tensors

MAX_APART = 24  #: layers and parameters that a loop comes to one by one


class ParameterNames:
    """Tells parameters apart by their names.

    Those of one layer share a history, and stand for each other under the names that each of them may have.
    """

    _tensors: Tensors
    _modules: Modules
    _module_methods: ModuleMethods

    def apart(self, value: Value, node: cst.For, w: World) -> list[Value] | None:
        """The names and parameters that a loop comes to, where it may freeze some of them; None to take all as one."""
        obj = w.get(w.resolve(value), Instance)
        if obj is None or obj.role is not roles.PARAMETERS or not obj.attrs.get("named") or not obj.args:
            return None
        module = obj.args[0]
        if not isinstance(module, Ref) or not may_freeze(cst.Module([]).code_for_node(node.body)):
            return None
        found: dict[frozenset[int], Value] = {}
        for name, groups in self._of(module, w):
            found.setdefault(groups, name)
        if len(found) > MAX_APART or frozenset[int]().union(*found) != obj.groups:
            return None
        if all(isinstance(name, Unknown) for name in found.values()):
            return None
        pairs: list[Value] = []
        for groups, name in found.items():
            parameter = self._tensors.parameter(groups, w, obj.made_at, obj.device)
            pairs.append(w.new(Sequence([name, parameter], [None, None], None, None, False)))
        return pairs

    def _of(self, top: Ref, w: World) -> Iterator[tuple[Value, frozenset[int]]]:
        """The names of the parameters of a module and those below it, in order, with their groups."""
        paths = self._module_methods.names(top, [], w)
        for ref in self._in_order(top, w, set()):
            obj = w.get(ref, Instance)
            path = paths.get(ref)
            if obj is None:
                continue
            prefix = None if path is None else f"{path.value}." * bool(path.value)
            if obj.groups:
                yield self._of_layer(obj, prefix), obj.groups
            for attribute, value in obj.attrs.items():
                tensor = w.get(w.resolve(value), Tensor)
                if tensor is not None and tensor.is_parameter and tensor.groups:
                    known = prefix is not None and not attribute.startswith("<")
                    yield (
                        Const(f"{prefix}{attribute}") if known else new_unknown("name", "name"),
                        tensor.groups,
                    )

    def _of_layer(self, obj: Instance, prefix: str | None) -> Value:
        own = PARAMETER_NAMES.get(obj.name, ()) if obj.cls is None else ()
        if prefix is None:
            return new_unknown("name", "name")
        if not own:
            return Unknown(Text(fresh(), prefix), "name")
        names = tuple(Const(f"{prefix}{name}") for name in own)
        return names[0] if len(names) == 1 else Choice(("names", fresh()), names)

    def _in_order(self, ref: Ref, w: World, seen: set[int]) -> Iterator[Ref]:
        """A module and those below it, each before its own parts."""
        obj = w.get(ref, Instance)
        if obj is None or ref.id in seen:
            return
        seen.add(ref.id)
        yield ref
        for child in self._modules.children(obj, w):
            yield from self._in_order(child, w, seen)
