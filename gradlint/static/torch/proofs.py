"""What a backward pass proves: that its root requires grad, and with it all that this is because of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import TRUE
from gradlint.static.report.witness import Witness
from gradlint.static.state.provenance import carries_graph, is_computed, operands_of
from gradlint.static.state.values import Group, Ref, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.graph_breaks import GraphBreaks
from gradlint.static.torch.graphs import Graphs
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.static.state.context import Context

_STEPS = 32  #: back from a tensor to what may be why it requires grad


class Proofs:
    """Learns which values require grad, and tells what was done before that was known."""

    _witness: Witness
    _tensors: Tensors
    _breaks: GraphBreaks
    _graphs: Graphs

    def suspected(self, value: Value, event: events.ConvertedToNumpy | events.DataWritten, w: World) -> None:
        """Something was done with a value that is wrong if it requires grad, which may turn out later on.

        So it does if anything does that it was computed from.
        """
        tensor = w.get(value, Tensor)
        if tensor is None or not isinstance(value, Ref) or event in tensor.pending:
            return
        if self._tensors.requires_grad(value, w) is not None:
            return
        w.write(value.id).pending = (*tensor.pending, event)
        for key in tensor.sources:
            self.suspected(Ref(key), event, w)
        for source in tensor.results:
            self.suspected(self._made_of(source, w), event, w)

    def differentiated(self, value: Value, w: World, ctx: Context, site: Site) -> None:
        """Derivatives of a value are asked for: it requires grad, unless its graph was cut, which raises."""
        tensor = w.get(value, Tensor)
        if tensor is None or tensor.cut is not None or tensor.requires_grad is not None:
            return
        self._prove(value, w, ctx, site)
        undecided = [(key, obj) for key, obj in w.all(Tensor) if obj.requires_grad is None]
        for key, tensor in sorted(undecided):  # so does what else was computed from what is proven to by now
            if tensor.recorded and any(self._tensors.requires_grad(source, w) for source in _sources(tensor)):
                self._prove(Ref(key), w, ctx, site)

    def _prove(self, value: Value, w: World, ctx: Context, site: Site, depth: int = 8) -> None:
        """Learn that a value requires grad, and why if there is only one way it can."""
        tensor = w.get(value, Tensor)
        if tensor is None or not isinstance(value, Ref) or depth == 0 or tensor.groups:
            return
        if tensor.requires_grad is None:
            reasons = self._reasons(tensor, w)
            for event in tensor.pending:
                if tensor.structured and isinstance(event, events.DataWritten):
                    continue  # no tensor, it may be: what has other data
                view = replace(event.tensor, requires_grad=TRUE)
                self._witness.send(replace(event, tensor=view, derived_at=site), w, ctx, alternative=site)
            new: Tensor = w.write(value.id)
            new.requires_grad = True
            if new.is_leaf is None and new.segments:
                new.is_leaf = False
            self._graphs.proven(new)
            self._graphs.trained(new)
            for source in reasons:
                self._prove(source, w, ctx, site, depth - 1)
            every = all(self._tensors.requires_grad(Ref(key), w) for key in tensor.sources)
            sources = self._segments(tensor.sources, w, doubtful=every or len(tensor.sources) == 1)
            new.doubtful &= sources | self._graphs.of_others(tensor.doubtful)
            self._prove_group(tensor, w)

    def _reasons(self, tensor: Tensor, w: World) -> list[Value]:
        """The only value that can be why a tensor requires grad: where more can be, all outputs of the same module.

        Where several can be, so can what all of these were computed from, which is one value then.
        """
        reasons = self._candidates(tensor, w)
        for _ in range(_STEPS if len(reasons) > 1 else 0):
            made = ((value, w.find(value.id)) for value in reasons if isinstance(value, Ref))
            before = {value: self._candidates(obj, w) for value, obj in made if isinstance(obj, Tensor)}
            youngest = max((value for value in before if before[value]), key=lambda value: value.id, default=None)
            if youngest is None or len(reasons) == 1:
                break
            reasons = list(dict.fromkeys([value for value in reasons if value != youngest] + before[youngest]))
        modules = {self._made_by(value, w) for value in reasons}
        if len(reasons) > 1 and (len(modules) > 1 or not all(modules)):
            return []
        return [self._computed(value, w) if isinstance(value, Unknown) else value for value in reasons]

    def _candidates(self, tensor: Tensor, w: World) -> list[Value]:
        """What may be why a tensor requires grad, which is not known of it: outputs of modules, if any."""
        sources = [value for value in _sources(tensor) if self._tensors.requires_grad(value, w) is not False]
        if any(self._tensors.requires_grad(value, w) for value in sources):
            return []
        outputs = [value for value in sources if self._tensors.presumed(value, w)]
        if outputs and not tensor.results:
            return outputs
        return [] if self._own_groups(tensor, w) else sources

    def _made_by(self, value: Value, w: World) -> frozenset[Hashable]:
        """The modules a value is an output of: their parameters, or what they were called by."""
        if not self._tensors.presumed(value, w):
            return frozenset()
        return self._tensors.deps(value, w) or self._graphs.callees(value, w)

    def _made_of(self, result: Unknown, w: World) -> Value:
        """What an unknown call returned, which is a tensor now."""
        value = w.resolve(result)
        return self._tensors.from_unknown(value, w, structured=True) if isinstance(value, Unknown) else value

    def _computed(self, result: Unknown, w: World) -> Value:
        """What is sure to require grad is a tensor; if operators gave it, so does one of those they were given."""
        value = self._made_of(result, w)
        tensor = w.get(value, Tensor)
        if isinstance(value, Ref) and tensor is not None and tensor.requires_grad is None and is_computed(result):
            operands = [w.resolve(operand) for operand in operands_of(result)]
            new: Tensor = w.write(value.id)
            new.sources = tuple(each.id for each in operands if w.get(each, Tensor) is not None)  # type: ignore[union-attr]
            new.results = tuple(each for each in operands if isinstance(each, Unknown) and carries_graph(each))
        return value

    def _own_groups(self, tensor: Tensor, w: World) -> list[int]:
        """The parameters of the layer that made a tensor, where they may require grad."""
        given = frozenset[int]().union(*(self._tensors.deps(Ref(key), w) for key in tensor.sources))
        return [g for g in tensor.deps - given if isinstance(group := w.find(g), Group) and group.requires_grad is None]

    def _prove_group(self, tensor: Tensor, w: World) -> None:
        """Learn that the parameters of a layer require grad, where what it was given does not."""
        own = self._own_groups(tensor, w)
        if len(own) == 1 and not any(self._breaks.carries(Ref(k), w, presume_data=True) for k in tensor.sources):
            w.write(own[0]).requires_grad = True

    def _segments(self, keys: Iterable[int], w: World, doubtful: bool = False) -> frozenset[int]:
        """The segments (or those that are doubtful) of several tensors."""
        tensors = [tensor for key in keys if isinstance(tensor := w.find(key), Tensor)]
        return frozenset[int]().union(*(t.doubtful if doubtful else t.segments for t in tensors))


def _sources(tensor: Tensor) -> list[Value]:
    """The values that may be why a tensor requires grad."""
    return [*map(Ref, tensor.sources), *tensor.results]


__all__ = ["Proofs"]
