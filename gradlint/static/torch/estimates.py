"""Estimates: what the outputs of modules are to a regression, targets that come from them, and averages of a loss."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as SequenceABC
from typing import TYPE_CHECKING

from gradlint import events
from gradlint.facts import known
from gradlint.regressions import BEST, DISCOUNTED, ERROR, OUTPUT, PREDICTIONS, TARGET, combined, meet
from gradlint.static.knowledge.ops import Loss, Op
from gradlint.static.knowledge.torch_layers import REGRESSIONS
from gradlint.static.knowledge.torch_table import EXTREMES, MASKING, STORING, SYMBOLS
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Arguments, Context, Results
from gradlint.static.state.provenance import from_module
from gradlint.static.state.tensor import Regression
from gradlint.static.state.values import Const, Instance, Ref, Sequence, Tensor, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.ownership import Ownership
from gradlint.static.torch.tensors import Tensors

if TYPE_CHECKING:
    from gradlint.finding import Site


def average_of(op: Op, tensors: Iterable[Tensor | None], over_dim: bool = False) -> str:
    """What the result of an operation is of an average, or of a product: see ``Tensor.average``.

    Args:
        op: the operation.
        tensors: what it is given.
        over_dim: it reduces a dimension, and not all of them.
    """
    given = [tensor.average for tensor in tensors if tensor is not None]
    if op.activation == "averages":
        return "mean" if given[:1] != ["product"] and not over_dim else ""
    if op.activation == "keeps":
        return given[0] if given else ""
    if op.activation == "scales":
        return "product"
    return "mean" if op.activation == "combines" and op.size == "broadcast" and "mean" in given else ""


class Estimates:
    """Follows outputs of modules into targets, and tells of those that a backward pass walks."""

    _witness: Witness
    _tensors: Tensors
    _modules: Modules
    _ownership: Ownership

    # --- what they become

    def returned(self, module: Ref, results: Results, ctx: Context) -> None:
        """A module of the project, or of torch, was called, which is no part of another one that is being called."""
        if ctx.in_forward or not self._witness.listened(events.TargetWalked):
            return
        for w, value in results:
            obj = w.get(module, Instance)
            if obj is None or obj.loss is not None or not self._modules.groups(module, w):
                continue
            for part in self._tensors.tensors_in([value], w):
                tensor = w.get(part, Tensor)
                if isinstance(part, Ref) and tensor is not None and tensor.requires_grad and not tensor.is_leaf:
                    w.write(part.id).estimate = OUTPUT

    def applied(self, name: str, op: Op, args: Arguments, result: Value, w: World, site: Site) -> None:
        """A function or method called ``name`` (its last part) gave ``result``."""
        values = [w.resolve(value) for value in (*args.positional, *args.keywords.values())]
        several = w.get(values[0], Sequence) if values else None
        if several is not None:
            values = [w.resolve(value) for value in several.parts()]
        roles = [self._role(value, w) for value in values]
        if any(roles):
            self._learn(result, self._of(name, op, values, roles, w), w)
            if ERROR in roles:
                self._squared(name, values, result, w, site)

    def combined(self, symbol: str, left: Value, right: Value, result: Value, w: World, site: Site) -> None:
        """``left symbol right``."""
        values = [w.resolve(left), w.resolve(right)]
        roles = [self._role(value, w) for value in values]
        if any(roles):
            self._learn(result, self._combined(symbol, values, roles, w), w)
            if ERROR in roles:
                self._squared(symbol, values, result, w, site)

    def changed(self, how: str, target: int, used: SequenceABC[Value], before: str, w: World) -> None:
        """A tensor, which was ``before`` to a regression, is changed in place by these."""
        values = [w.resolve(value) for value in used] or [Const(0.5)]  # a number
        roles = [before, *(self._role(value, w) for value in values)]
        if not any(roles):
            return
        tensor: Tensor = w.write(target)
        if how in MASKING:
            return
        given = all(self._is_given(value, w) for value in values)
        if how in STORING:
            blank = not before and tensor.constant
            tensor.estimate = roles[-1] if blank and len(roles) == 2 else before if given else ""
        else:
            symbol = SYMBOLS.get(how, "")
            tensor.estimate = self._combined(symbol, [Ref(target), *values], roles, w) if len(values) == 1 else ""

    def _learn(self, result: Value, role: str, w: World) -> None:
        pair = w.get(result, Sequence)
        if pair is not None and pair.fields == ("values", "indices"):
            result = w.resolve(pair.items[0])
        tensor = w.get(result, Tensor)
        if role and tensor is not None and isinstance(result, Ref) and tensor.requires_grad:
            w.write(result.id).estimate = role

    def _of(self, name: str, op: Op, values: list[Value], roles: list[str], w: World) -> str:
        known_roles = {role for role in roles if role}
        if name in SYMBOLS and len(values) >= 2:
            return self._combined(SYMBOLS[name], values[:2], roles[:2], w)
        if op.ranks or name in EXTREMES:
            others = [value for value, role in zip(values, roles, strict=True) if not role]
            plain = known_roles <= {OUTPUT, BEST, DISCOUNTED} and all(self._is_given(value, w) for value in others)
            return BEST if plain else ""
        if name == "where":
            chosen = [r for value, r in zip(values[1:], roles[1:], strict=True) if r or not self._is_given(value, w)]
            return chosen[0] if chosen and len(set(chosen)) == 1 else ""
        if SYMBOLS.get(name, name) == "neg":
            return ERROR if roles[0] == ERROR else DISCOUNTED if roles[0] in PREDICTIONS else ""
        if name == "sum":
            return roles[0] if roles[0] in PREDICTIONS else ""
        if name in MASKING or op.picks or op.view or op.activation == "bounds":
            return roles[0]
        return known_roles.pop() if op.activation == "keeps" and len(known_roles) == 1 and "" not in roles[:1] else ""

    def _combined(self, symbol: str, values: list[Value], roles: list[str], w: World) -> str:
        """What a sum, difference, product or quotient of two values is; of a difference, where both come from one."""
        one, other = (
            role or (None if self._is_given(value, w) else "") for role, value in zip(roles, values, strict=True)
        )
        role = combined(symbol, one, other)
        is_difference = role == ERROR and one is not None and other is not None
        return "" if is_difference and not self._shared(values[0], values[1], w) else role

    def _role(self, value: Value, w: World) -> str:
        tensor = w.get(value, Tensor)
        return tensor.estimate if tensor is not None and tensor.requires_grad else ""

    def _is_given(self, value: Value, w: World) -> bool:
        """Whether nothing tells that a value depends on parameters."""
        tensor = w.get(value, Tensor)
        if tensor is not None:
            unknown = tensor.requires_grad is None and not tensor.deps and not tensor.presumed
            return self._tensors.requires_grad(value, w) is False or unknown
        return isinstance(value, Const) or (isinstance(value, Unknown) and not value.deps and not from_module(value))

    # --- where they meet

    def judged(self, loss: Loss, args: Arguments, value: Value, w: World, site: Site) -> None:
        """A loss compares two values, and gave a third."""
        prediction, target = args.get(loss.input, "input"), args.get(loss.target, "target")
        if loss.name not in REGRESSIONS or prediction is None or target is None or not isinstance(value, Ref):
            return
        sides = [w.resolve(prediction), w.resolve(target)]
        roles = [self._role(side, w) for side in sides]
        if not meet(*roles):
            return
        groups = self._shared(sides[0], sides[1], w)
        at = roles.index(TARGET)
        tensor = w.get(sides[at], Tensor)
        if groups and tensor is not None:
            word, place = ("target", loss.target) if at else ("input", loss.input)
            role = f"argument {word if word in args.keywords else place}"
            self._note(value, Regression(site, loss.name, groups, tensor.made_at, role), w)

    def _squared(self, name: str, values: list[Value], result: Value, w: World, site: Site) -> None:
        """An error is squared, or its size is taken: what is made of it is to become small."""
        symbol = SYMBOLS.get(name, name)
        twice = symbol == "**" and len(values) == 2 and values[1] in (Const(2), Const(2.0))
        product = symbol == "*" and len(values) == 2 and values[0] == values[1]
        if not (twice or product or name in ("square", "abs", "absolute")) or not isinstance(result, Ref):
            return
        error = w.get(values[0], Tensor)
        if error is not None:
            self._note(result, Regression(site, "", error.deps, None), w)

    def _note(self, result: Ref, regression: Regression, w: World) -> None:
        tensor = w.get(result, Tensor)
        if tensor is not None and regression not in tensor.regressions:
            w.write(result.id).regressions = (*tensor.regressions, regression)

    def _shared(self, one: Value, other: Value, w: World) -> frozenset[int]:
        """The parameters that both values are computed from."""
        both = self._tensors.deps(one, w) & self._tensors.deps(other, w)
        return frozenset(key for key in both if self._tensors.group_grad(key, w))

    def walked(self, root: Tensor, w: World, ctx: Context) -> None:
        """A backward pass begins: it walks the targets of these regressions."""
        held = self._ownership.held(w) if root.regressions else frozenset[int]()
        for regression in root.regressions:
            event = events.TargetWalked(
                site=regression.at,
                loss=regression.loss,
                target_at=regression.target_at,
                role=regression.role,
                owned=known(bool(regression.groups & held)),
            )
            self._witness.send(event, w, ctx, alternative=regression.at)


__all__ = ["Estimates", "average_of"]
