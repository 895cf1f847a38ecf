"""``torch.distributions``: what is drawn from them carries no graph, what is reparametrised or measured does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gradlint.static.knowledge import roles
from gradlint.static.knowledge.ops import Op
from gradlint.static.knowledge.torch_table import (
    DISTRIBUTION_DRAWS,
    DISTRIBUTION_FACTS,
    DISTRIBUTION_MEASURES,
    DISTRIBUTION_STATISTICS,
    DIVERGENCES,
    INDEX_DISTRIBUTIONS,
    builds_distribution,
)
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import AttributeOf
from gradlint.static.state.provenance import built_from
from gradlint.static.state.values import Bound, Instance, Ref, Unknown, Value
from gradlint.static.state.world import World
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.operations import Operations

if TYPE_CHECKING:
    from gradlint.finding import Site

_COMPUTED: Final = Op(saves="other", copies=True)
_DRAWN: Final = Op(grad="never", saves="", copies=True, detaches=True)
_DRAWN_INDEX: Final = Op(grad="never", saves="", integral=True, copies=True)


class Distributions:
    """Follows parameters of distributions to what is computed from them."""

    _operations: Operations
    _escapes: Escapes

    def built(self, name: str, args: Arguments, w: World, ctx: Context, site: Site) -> Value | None:
        """What ``name(…)`` of ``torch.distributions`` gives; None if it is no distribution."""
        if name in DIVERGENCES:
            return self._operations.apply(_COMPUTED, args, w, ctx, site)
        if not builds_distribution(name):
            return None
        attrs = {f"<{key}>": value for key, value in (*enumerate(args.positional), *args.keywords.items())}
        return w.new(Instance(name=name, role=roles.DISTRIBUTION, attrs=attrs, made_at=site))

    def method(
        self, owner: Ref, obj: Instance, name: str, args: Arguments, w: World, ctx: Context, site: Site
    ) -> Value:
        """Call a method of a distribution."""
        own = built_from(obj)
        if name in DISTRIBUTION_MEASURES:
            given = args if not name.startswith("rsample") else Arguments()
            return self._operations.apply(_COMPUTED, Arguments([*own, *given]), w, ctx, site)
        if name in DISTRIBUTION_DRAWS:
            op = _DRAWN_INDEX if obj.name in INDEX_DISTRIBUTIONS else _DRAWN
            return self._operations.apply(op, Arguments(own), w, ctx, site)
        if name == "expand":
            return owner
        return self._escapes.call(owner, args, w, ctx, site, method=name)

    def attribute(self, owner: Ref, obj: Instance, name: str, w: World, ctx: Context, site: Site) -> Value:
        """An attribute of a distribution: a statistic, what it was built from, or a method."""
        if name == "base_dist" and "<0>" in obj.attrs:
            return w.resolve(obj.attrs["<0>"])
        given = obj.attrs.get(f"<{name}>")
        if given is not None and name in DISTRIBUTION_STATISTICS:
            return w.resolve(given)
        if name in DISTRIBUTION_STATISTICS:
            return self._operations.apply(_COMPUTED, Arguments(built_from(obj)), w, ctx, site)
        if name in DISTRIBUTION_FACTS:
            return Unknown(AttributeOf(owner, name), name)
        return Bound(owner, name)
