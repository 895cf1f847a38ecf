"""Regressions whose target carries the graph of what is to meet it.

What the two sides of a regression are, their graphs tell: outputs of modules are stamped, and a target is the sum of
what has no graph and of an output that is discounted, or the best of several.  Graphs are looked into where two values
with one are compared; whether that matters, a backward pass tells.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from gradlint.events import TargetWalked
from gradlint.facts import known
from gradlint.regressions import BEST, DISCOUNTED, ERROR, OUTPUT, PREDICTIONS, combined, meet

from ..frames import FrameSite, user_site
from ..records.walks import Mark, Walks, nodes_below
from ..torch_functions import POWERS, PRODUCTS, REGRESSIONS, SIZES

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ..calls import BackwardCall, BuildCall, ForwardCall, StepCall, SwapCall
    from ..judging import Judge

_guards = itertools.count(1)
_NUMBER: Final = re.compile(r"Backward\d*$")
MANY = 64  #: regressions that wait for a backward pass
DEEP = 400  #: nodes from the loss to the outputs it compares

_PICKS: Final = frozenset(
    re.findall(
        r"\w+",
        "Alias Clamp ClampMax ClampMin Clone Expand Gather Index IndexSelect MaskedFill MaskedSelect Permute Repeat "
        "ReshapeAlias Select Slice Split Squeeze T TakeAlongDim ToCopy Transpose Unbind UnsafeView Unsqueeze View",
    )
)
_SYMBOLS: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_EXTREMES: Final = ("Amax", "Amin", "Fmax", "Fmin", "Max", "Maximum", "Min", "Minimum", "Sort", "Topk")


class _Met(Mark):
    """A prediction and a target that were compared."""

    __slots__ = ("loss", "parameters", "site")

    def __init__(self, site: FrameSite, loss: str, parameters: frozenset[int]) -> None:
        super().__init__()
        self.site = site
        self.loss = loss
        self.parameters = parameters  #: the ids of those that give both


class Targets:
    """Reports regressions that train their targets as well."""

    def __init__(self, judge: Judge, walks: Walks, optimizers: Iterable[Optimizer]) -> None:
        self._judge = judge
        self._walks = walks
        self._key = f"gradlint.output.{next(_guards)}"
        self._optimizers = weakref.WeakSet(optimizers)
        self._waiting: deque[_Met] = deque(maxlen=MANY)
        self._told: set[FrameSite] = set()

    # --- what is told by the interception

    def forward_ended(self, call: ForwardCall) -> None:
        for tensor in call.tensors:
            node: Any = tensor.grad_fn
            if node is not None:
                node.metadata[self._key] = True

    def optimizer_built(self, call: BuildCall) -> None:
        self._optimizers.add(call.optimizer)

    def step_begins(self, call: StepCall) -> None:
        self._optimizers.add(call.optimizer)

    def backward_ended(self, _: BackwardCall) -> None:
        walked = [met for met in self._waiting if met.walked]
        if not walked:
            return
        self._waiting = deque((met for met in self._waiting if not met.walked), maxlen=MANY)
        owned = {id(one) for each in self._optimizers for group in each.param_groups for one in group["params"]}
        for met in walked:
            if met.site not in self._told and not met.parameters.isdisjoint(owned):
                self._told.add(met.site)
                self._judge.send(TargetWalked(site=met.site, loss=met.loss, owned=known(True)))

    def tensors_swapped(self, _: SwapCall) -> None:
        """Parameters become others: wait for nothing that was known of them."""
        self._waiting.clear()

    # --- what is told by the watch over functions

    def before(self) -> dict[Any, Callable[..., None]]:
        """Nothing."""
        return {}

    def after(self) -> dict[Any, Callable[..., None]]:
        """What to do where two values are compared, or a difference is squared."""
        compared = {function: self._compared(loss) for function, loss in REGRESSIONS.items()}
        compared |= dict.fromkeys(SIZES, self._squared)
        return compared | dict.fromkeys(POWERS, self._raised) | dict.fromkeys(PRODUCTS, self._multiplied)

    def _compared(self, loss: str) -> Callable[..., None]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            given = args[0] if args else kwargs.get("input")
            target = args[1] if len(args) > 1 else kwargs.get("target")
            sides = [getattr(side, "grad_fn", None) for side in (given, target)]
            if None in sides:
                return
            roles = [_role(side, self._key) for side in sides]
            if meet(*roles):
                self._meet(user_site(4), loss, sides, result)

        return handle

    def _raised(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
        if isinstance(exponent, (int, float)) and exponent == 2:
            self._square(args, result, user_site(3))

    def _multiplied(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if len(args) > 1 and args[0] is args[1]:
            self._square(args, result, user_site(3))

    def _squared(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self._square(args, result, user_site(3))

    def _square(self, args: tuple[Any, ...], result: Any, site: FrameSite) -> None:
        """Something is squared at a place: it may be an error."""
        node = getattr(args[0], "grad_fn", None) if args else None
        if node is None:
            return
        while _name(node) in ("Mul", "Div", "Neg", *_PICKS):
            children = [child for child, _ in node.next_functions if child is not None]
            if len(children) != 1:
                return
            node = children[0]
        if _name(node) == "Sub" and _role(node, self._key) == ERROR:
            self._meet(site, "", [child for child, _ in node.next_functions], result)

    def _meet(self, site: FrameSite, loss: str, sides: list[Any], result: Any) -> None:
        node = getattr(result, "grad_fn", None)
        if node is None or site in self._told:
            return
        one, other = (
            {id(below.variable) for below in nodes_below([side]) if hasattr(below, "variable")} for side in sides
        )
        if one & other:
            met = _Met(site, loss, frozenset(one & other))
            self._waiting.append(met)
            self._walks.put(met, [node])


def _name(node: Any) -> str:
    return _NUMBER.sub("", node.name())


def _role(node: Any, key: str, depth: int = DEEP) -> str:
    """What the tensor that a node has computed is to a regression."""
    if key in node.metadata:
        return OUTPUT
    name = _name(node)
    children = [child for child, _ in node.next_functions]
    if not depth or not children:
        return ""
    roles = [_role(child, key, depth - 1) if child is not None else None for child in children[: _looked_at(name)]]
    found = {role for role in roles if role is not None}
    if name in _PICKS:
        return roles[0] or ""
    if name in _EXTREMES:
        return BEST if found and found <= PREDICTIONS else ""
    if name in ("Cat", "IndexPut", "Stack", "Where"):
        return found.pop() if len(found) == 1 and (None not in roles or name in ("IndexPut", "Where")) else ""
    if name in ("Neg", "Sum"):
        role = roles[0] if roles[0] in PREDICTIONS else ""
        return role if name == "Sum" or not role else DISCOUNTED
    return combined(_SYMBOLS.get(name, ""), *roles) if len(roles) == 2 else ""


def _looked_at(name: str) -> int:
    """How many of the nodes below one tell what it has computed: of most operations, none do."""
    if name in ("Cat", "Stack"):
        return MANY
    combines = name in ("Add", "Div", "IndexPut", "Mul", "Neg", "Sub", "Sum", "Where")
    return 2 if combines or name in _EXTREMES else int(name in _PICKS)
