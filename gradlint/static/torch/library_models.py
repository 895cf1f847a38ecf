"""Models that libraries build: their inside is not known, but for what the torch table tells of their kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import classifies_many, depends_on_mode, gives_tensors, has_parameters, heads
from gradlint.static.state.origins import AttributeOf
from gradlint.static.state.values import Const, Instance, Ref, Tensor, Unknown, Value
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.grouping import inside
from gradlint.static.torch.library_objects import part_of
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.placement import Placement
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Arguments, Context
    from gradlint.static.state.world import World

_OPAQUE = Op(activation="clears", saves="other")
_MANY = "<many>"
"""An attribute of a model that gives many numbers for each sample, as long as nothing in it is replaced."""


class LibraryModels:
    """Builds and calls models of which only the outside is known, and parts of them."""

    _tensors: Tensors
    _modules: Modules
    _graphs: Graphs
    _placement: Placement
    _operations: Operations

    def built(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Ref:
        """A model that a library builds: its inside is not known, but for what the torch table tells of its kind."""
        ref = self._modules.opaque(w, name, site, True, place=(site, ctx.key, name))
        new: Instance = w.write(ref.id)
        if depends_on_mode(name, args.keywords) and not args.open:
            new.mode_dependent, new.training = True, True
        if classifies_many(name, args.keywords) and not args.open:
            new.attrs[_MANY] = Const(True)
        return ref

    def output(self, ref: Ref, obj: Instance, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """What a model of which the inside is not known gives."""
        value = self._operations.apply(_OPAQUE, args, w, ctx, site, parameters=self._modules.groups(ref, w))
        tensor = w.get(value, Tensor)
        if tensor is not None and isinstance(value, Ref):
            new: Tensor = w.write(value.id)
            new.structured, new.activation, new.integral = True, None, None
            new.device_if_tensor, new.device = None, self._placement.device_of(obj, args, w)
            new.on_device_as_one = new.device is not None
            new.open = True
            new.presumed = new.whole_output = new.requires_grad is None and w.grad is True
            new.doubtful |= self._perhaps_unused(args, w) & new.segments
            if _MANY in obj.attrs and self._is_as_built(ref, obj, w):
                new.size, new.structured = "many", False
        return value

    def _perhaps_unused(self, args: Arguments, w: World) -> frozenset[int]:
        """The graphs behind what such a model is given beside its input: it need not use that, or may detach it."""
        behind = [self._graphs.of_known(value, w) for value in args]
        return frozenset[int]().union(*behind[1:]) - behind[0] if args.positional else frozenset[int]()

    def _is_as_built(self, ref: Ref, obj: Instance, w: World) -> bool:
        """Whether no part of a library's model was replaced."""
        return obj.attrs.keys() <= {_MANY} and not any(inside(key)[0] == ref for key in w.bound)

    def is_part(self, value: Unknown, w: World) -> bool:
        """Whether an unknown value is a module of a library's model: ``resnet.layer4``, ``vgg.features[0]``."""
        return part_of(value, w) is not None

    def part_called(self, part: Unknown, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """What a module of a library's model gives when it is called by itself; None if the value is no such module."""
        found = part_of(part, w)
        if found is None or args.open or not heads(found[0].name):
            return None
        owner, name = found
        whole = isinstance(part.key, AttributeOf) and has_parameters(owner.name, name)
        op = _OPAQUE if whole else replace(_OPAQUE, saves="")  # a layer inside may have no parameters
        value = self._operations.apply(op, args, w, ctx, site, parameters=owner.groups if whole else frozenset())
        tensor = w.get(value, Tensor)
        if tensor is not None and isinstance(value, Ref):
            new: Tensor = w.write(value.id)
            new.activation = new.integral = new.device = new.device_if_tensor = None
            new.structured = not gives_tensors(owner.name)
            new.open, new.from_unknown, new.deps = True, True, new.deps | owner.groups
            frozen = all(self._tensors.group_grad(key, w) is False for key in owner.groups)
            if new.requires_grad is False and w.grad is not False and not whole and not frozen:
                new.requires_grad = new.is_leaf = None
        return value
