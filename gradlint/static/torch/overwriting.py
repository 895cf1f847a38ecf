"""Operations that overwrite what they are given, and return it: ``F.relu_(x)``, a layer built with ``inplace=True``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import DROPOUTS, OVERWRITES
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.values import Const, Ref, Tensor, Value
from gradlint.static.state.world import World
from gradlint.static.torch.changes import Changes
from gradlint.static.torch.memory import Memory, overwriting
from gradlint.static.torch.operations import Operations
from gradlint.static.torch.residuals import Residuals

if TYPE_CHECKING:
    from gradlint.finding import Site


class Overwriting:
    """Applies them: what they return is known by another name, and holds what the old one holds from now on."""

    _changes: Changes
    _operations: Operations
    _memory: Memory
    _residuals: Residuals

    def applied(
        self,
        how: str,
        op: Op,
        args: Arguments,
        w: World,
        ctx: Context,
        site: Site,
        *,
        parameters: frozenset[int] = frozenset(),
        device: str | None = None,
    ) -> Value:
        """The result of an operation that overwrites its first argument.

        Args:
            how: its name, that of a function or of a layer.
            op: what it would do to a copy.
            args: what it is given.
            w: the world.
            ctx: where.
            site: the place.
            parameters: those of the layer.
            device: that of the layer.
        """
        target = w.resolve(args.positional[0])
        before = w.get(target, Tensor)
        unsigned = before is not None and before.unsigned
        moves = self._residuals.moves(how, target, w)
        self._changes.in_place(f"{how.lower()}_", target, [], w, ctx, site)
        self._sign(target, unsigned, w)  # as it was given
        value = self._operations.apply(overwriting(op), args, w, ctx, site, parameters=parameters, device=device)
        result = w.get(value, Tensor)
        self._sign(target, result is not None and result.unsigned, w)
        self._memory.alias(value, target, w)
        if moves:
            self._residuals.overwritten(target, value, w, site)
        return value

    def is_asked(self, name: str, op: Op, args: Arguments, w: World) -> bool:
        """Whether a function overwrites its first argument: always, or because it is told to."""
        told = args.get(OVERWRITES[name], "inplace") if name in OVERWRITES else None
        asked = told is not None and w.resolve(told) == Const(True) and not self._is_inert(name, args, w)
        return bool(args.positional) and (op.inplace or asked)

    def _is_inert(self, name: str, args: Arguments, w: World) -> bool:
        """Whether a dropout is known to be told to drop nothing."""
        dropout = DROPOUTS.get(name)
        if dropout is None or dropout.training is None:
            return False
        training = args.get(dropout.training, "training")
        return training is not None and w.resolve(training) == Const(False)

    def _sign(self, target: Value, unsigned: bool, w: World) -> None:
        if isinstance(target, Ref) and w.get(target, Tensor) is not None:
            w.write(target.id).unsigned = unsigned
