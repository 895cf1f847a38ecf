"""The witness: sends events to the rules, advances protocols, and decides what is proven.

Several worlds may reach the same moment (the same place, the same call string, the same loop iteration).  Each
casts a vote; a mistake is reported only when no world at that moment, or for a protocol none of the same
lineage, does without it.  Different moments are alternatives: one that is proven suffices.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from gradlint import events
from gradlint.facts import Fact, known, unknown
from gradlint.finding import Location
from gradlint.intents import agreed
from gradlint.protocol import Protocol
from gradlint.rule import Rule, Violation
from gradlint.static.knowledge import roles
from gradlint.static.state.contents import divided, left_by
from gradlint.static.state.context import Context, chosen
from gradlint.static.state.origins import fresh
from gradlint.static.state.tokens import SEVERAL, Moves
from gradlint.static.state.values import Averages, Group, Instance, Tokens
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site
    from gradlint.intents import Intent


_REVOCABLE = (
    events.OutputMeasured,
    events.HookRegistered,
    events.NormDrifts,
    events.PlainTensorUsed,
    events.TensorKept,
    events.ModuleBuilt,
    events.GraphRetained,
    events.ValueKept,
    events.GraphKept,
)
"""Events that code further on may take back; see :meth:`Witness.withdraw`."""

MANUAL = "manual update"  #: the "optimizer" of parameters that the user's own code changes by their gradients


@dataclass(slots=True)
class _Votes:
    """What was said about one moment."""

    violations: list[Violation] = field(default_factory=list)
    vetoed: bool = False


class _Happened(NamedTuple):
    """Something that a check of a rule was told of."""

    code: str
    check: str
    site: Site
    moment: int | None
    alternative: Hashable  #: which of several things that may happen at that moment


class _Asked(NamedTuple):
    """What the worlds vote on."""

    happened: _Happened
    variant: Hashable  #: what it happened to
    turns: frozenset[tuple[Hashable, Hashable]] = frozenset()  #: in which of the iterations, by what some of them do

    def passes(self, other: _Asked) -> bool:
        """Whether both are sure to happen, in different iterations."""
        return not self.turns.isdisjoint((turn, not taken) for turn, taken in other.turns)


class _Judged(NamedTuple):
    """What the worlds vote on where a subject of a protocol has come to an event that may violate it."""

    moment: tuple[str, Site, int | None, Hashable]  #: the protocol, where and when it happens, and the subject
    lineage: Site | None


class Witness:
    """Feeds the rules of one analysis."""

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self.rules = [rule() for rule in rules]
        self._checks: dict[type[events.Event], list[tuple[Rule, str]]] = {}
        self._protocols: dict[type[events.Event], list[tuple[Rule, Protocol, str]]] = {}
        self._starts: dict[str, Tokens] = {}
        for rule in self.rules:
            for event, names in rule.checks.items():
                self._checks.setdefault(event, []).extend((rule, name) for name in names)
            for protocol in rule.protocols:
                for event in protocol.events:
                    key = f"{rule.code}.{protocol.name}"
                    self._protocols.setdefault(event, []).append((rule, protocol, key))
                self._starts[f"{rule.code}.{protocol.name}"] = frozenset([protocol.start])
        self._moves = Moves()
        self._votes: dict[Hashable, _Votes] = {}
        self._owners: dict[Hashable, Rule] = {}
        self._recent: set[Hashable] = set()  #: the moments of which something was said since votes were last final
        self._final: set[Hashable] = set()  #: those of what was followed to its end
        self._settled: list[tuple[Rule, Violation]] = []  #: proven already, of the bodies of files
        self.muted = False  #: code is executed to learn what it sets, not for what it does
        self.only: Container[type[events.Event]] | None = None
        """A method is called at a time of which nothing is known but what leads to these."""
        self.repeated = False
        """A method is called again: only the order of events, and what is kept, tell anything new."""
        self._withdrawn: dict[type[events.Event], set[Site]] = {}
        self._withdrawn_there: set[tuple[type[events.Event], Site, Hashable]] = set()
        """Of what was told of a place as one of several things that happen there, those that do not hold."""
        self._told: dict[tuple[str, Site], set[type[events.Event]]] = {}
        """By a code and a place, the events that told of it and may be taken back."""
        self._read: set[Site] = set()  #: where inputs were made whose gradients are read
        self._disputed: set[tuple[type[Intent], Site]] = set()
        self._given_up = False  #: not all code was followed to its end
        self.steps = 0  #: how often gradients were applied
        self._noted: list[set[int]] = []  #: whose gradients are cleared, by those who want to know
        self._lending = False  #: gradients of some parameters were handed to others

    def trim(self) -> None:
        """Forget how tokens moved, which follows again from the events."""
        self._moves.clear()

    # --- sending

    def listened(self, *kinds: type[events.Event]) -> bool:
        """Whether any rule listens to one of these events."""
        return any(kind in self._checks or kind in self._protocols for kind in kinds)

    def send(
        self,
        event: events.Event,
        w: World,
        ctx: Context,
        alternative: Hashable = None,
        variant: Hashable = None,
        *,
        idle: bool = False,
    ) -> None:
        """Send an event to the checks and protocols that listen to its type.

        Args:
            event: what happens.
            w: the world it happens in.
            ctx: where.
            alternative: which of several things happens: the worlds of one do not speak for those of another.
            variant: what it happens to, where that is chosen; likewise, unless what happens is chosen, too, and it is
                not known what is chosen with what.  None for what the models are that were looked up in a table.
            idle: it happens to a mere constant: where nothing is wrong with that, it tells nothing of other worlds.
        """
        kind = type(event)
        if self.muted or (self.only is not None and kind not in self.only):
            return
        if variant is None and kind in self._checks:
            variant = chosen(w, ctx)
        for rule, name in self._checks.get(kind, ()) if not self.repeated or kind is events.ValueKept else ():
            found = list(getattr(rule, name)(event))
            every_time = getattr(getattr(rule, name), "__gradlint_every_time__", False)
            happened = _Happened(rule.code, name, event.site, None if every_time else ctx.key, alternative)
            key = _Asked(happened, None) if every_time else _Asked(happened, variant, frozenset(w.turns.items()))
            if not found and (w.raised or idle):
                continue  # it does not happen in this world, or to nothing that is trained
            self._vote(key, rule, found[0] if found else None)
            if found and kind in _REVOCABLE:
                self._told.setdefault((rule.code, event.site), set()).add(kind)
        self.advance(event, w, ctx)

    def advance(self, event: events.Event, w: World, ctx: Context) -> None:
        """Send an event to the protocols alone."""
        if self.muted or (self.only is not None and type(event) not in self.only):
            return
        for rule, protocol, slot in self._protocols.get(type(event), ()):
            self._advance(rule, protocol, slot, event, w, ctx)

    def _vote(self, key: Hashable, rule: Rule, violation: Violation | None) -> None:
        votes = self._votes.get(key)
        self._recent.add(key)
        if votes is None:
            votes = self._votes[key] = _Votes()
            self._owners[key] = rule
        if violation is None:
            votes.vetoed = True
        elif violation not in votes.violations:
            votes.violations.append(violation)

    def _advance(self, rule: Rule, protocol: Protocol, slot: str, event: events.Event, w: World, ctx: Context) -> None:
        start = self._starts[slot]
        judged = type(event) in protocol.judged
        for subject, certain in event.touches.items():
            if not isinstance(subject, int) or not isinstance(w.find(subject), (Group, Instance)):
                continue
            group: Group | Instance = w.write(subject)
            move = self._moves.of(slot, protocol, group.tokens.get(slot, start), event)
            group.tokens[slot] = move.after if certain else move.perhaps
            # Worlds in which nothing is wrong vote too, wherever another might be wrong.
            if judged or (certain and move.violates):
                for token, violated in move.verdicts:
                    key = _Judged((slot, event.site, ctx.key, subject), token.lineage)
                    self._vote(key, rule, protocol.tell(rule, token, event) if violated and certain else None)

    # --- taking back

    def withdraw(self, kind: type[events.Event], site: Site, alternative: Hashable = None) -> None:
        """What events of this kind told of this place does not hold: code elsewhere, or further on, makes it right.

        Of several things that happen there, it may be one ``alternative`` alone.
        """
        if alternative is not None:
            self._withdrawn_there.add((kind, site, alternative))
        else:
            self._withdrawn.setdefault(kind, set()).add(site)

    def _is_withdrawn(self, key: Hashable, rule: Rule) -> bool:
        """Whether the one of several things that happen at a place does not hold, of which something was said."""
        if not isinstance(key, _Asked) or not self._withdrawn_there:
            return False
        happened = key.happened
        return any((kind, happened.site, happened.alternative) in self._withdrawn_there for kind in rule.checks)

    def withdrawn(self) -> set[tuple[str, Location]]:
        """The codes and places of findings that were taken back."""
        return {
            (rule.code, site.locate())
            for kind, sites in self._withdrawn.items()
            for rule in self.rules
            if kind in rule.checks
            for site in sites
            if all(site in self._withdrawn.get(told, ()) for told in self._told.get((rule.code, site), ()))
        }

    def used_elsewhere(self, told: Container[str]) -> set[tuple[str, Location]]:
        """Codes that are told of something, and causes of which they do not hold: such inputs' gradients are read."""
        codes = {rule.code for rule, _, _ in self._protocols.get(events.InputDone, ()) if rule.code in told}
        return {(code, site.locate()) for code in codes for site in self._read}

    def dispute(self, kind: type[Intent], site: Site) -> None:
        """A change of this kind at this place would do harm: other code depends on what is there."""
        self._disputed.add((kind, site))

    def disputes(self, violation: Violation) -> bool:
        """Whether what would mend a violation is disputed."""
        intents = violation.mend.intents if violation.mend is not None else ()
        return any(
            (type(intent), intent.at or violation.at) in self._disputed or (intent.disputable and self._given_up)
            for intent in intents
        )

    def start_again(self) -> None:
        """Forget all votes of an entry point: it is executed once more."""
        self._votes.clear()
        self._owners.clear()
        self._recent.clear()
        self._final.clear()

    def settle(self) -> None:
        """All worlds have passed the moments of which anything was said so far: nobody will contradict it."""
        self._recent.clear()

    def finish(self) -> None:
        """What was followed by itself has come to its end: nothing will take back what was said of it."""
        self._final |= self._votes.keys()

    def give_up(self, *, again: bool = False) -> None:
        """The entry point is not followed to its end: only what is settled stays, if nothing may take it back.

        Where code is followed once more (again), its callers have already told what they depend on.
        """
        revocable = {rule.code for kind in _REVOCABLE for rule, _ in self._checks.get(kind, ())}
        revoked = {key for key, rule in self._owners.items() if rule.code in revocable} - self._final
        for key in [key for key in self._owners if key in self._recent or key in revoked]:
            del self._votes[key], self._owners[key]
        self._recent.clear()
        self._given_up = self._given_up or not again  # what the rest would have disputed is not known

    # --- conveniences of the tracer

    def step(
        self, groups: Iterable[int], optimizer: str, w: World, ctx: Context, site: Site, *, whole: bool = True
    ) -> None:
        """An optimizer, or the user's own update, applied the gradients of these groups: some of them, or the whole."""
        self.steps += 1
        members = sorted(groups)
        whole = whole and optimizer != MANUAL
        prepared = self._prepared(members, w) if whole else unknown()
        parted = divided(w)
        for key in members:
            group = w.write(key)
            group.stepped, group.gradients_used, group.averages = fresh(), True, Averages.NONE
            group.prepared = False if whole and key not in parted else group.prepared
        event = events.Step(
            site=site,
            touches=dict.fromkeys(members, True),
            optimizer=optimizer,
            by_hand=optimizer == MANUAL,
            prepared=prepared,
        )
        self.send(event, w, ctx)
        if lenders := self._lenders(members, w):
            self.send(events.AppliedElsewhere(site=site, touches=dict.fromkeys(lenders, True)), w, ctx)
        if whole and self.listened(events.GradientsLeft):
            left = left_by(frozenset(members), w)
            self.send(events.GradientsLeft(site=site, touches=dict.fromkeys(left, True)), w, ctx)
        if self.listened(events.WeightsUpdated):
            touches = self._applied(members, optimizer == MANUAL, w)
            self.send(events.WeightsUpdated(site=site, touches=touches), w, ctx)

    def lent(self, lenders: Iterable[int], groups: frozenset[int], w: World) -> None:
        """The gradients of these groups are now those of others, too, or what those have was computed from them."""
        self._lending = True
        for key in lenders:
            group: Group = w.write(key)
            group.lent |= groups

    def _lenders(self, groups: Iterable[Hashable], w: World) -> list[int]:
        """Those whose gradients these groups have."""
        if not self._lending:
            return []
        borrowers = frozenset(groups)
        return sorted(key for key, group in w.all(Group) if not group.lent.isdisjoint(borrowers))

    def _given_back(self, groups: Iterable[int], w: World) -> None:
        """Gradients are dropped: by those who lent them, or by those who had them."""
        dropped = frozenset(groups)
        for key in [*dropped, *self._lenders(dropped, w)]:
            group = w.find(key)
            if isinstance(group, Group) and group.lent:
                w.write(key).lent = frozenset() if key in dropped else group.lent - dropped

    def _applied(self, members: list[int], by_hand: bool, w: World) -> events.Touches:
        """Without those that have no gradients, where others have some: for them, this step was not made.

        What is applied by hand need not be what a backward pass has left there.
        """
        touches = self.presumed(members, w)
        found = {key: group for key in members if isinstance(group := w.find(key), Group)}
        if not by_hand and all(group.fed <= group.cleared for group in found.values()):
            return touches
        gone = {key for key, group in found.items() if group.fed < group.cleared}
        return {key: touch for key, touch in touches.items() if key not in gone}

    def _prepared(self, groups: Iterable[int], w: World) -> Fact[bool]:
        """Whether a backward pass reached any of these groups since their last step."""
        answers = [
            None if group.opaque and not group.prepared else group.prepared
            for group in (w.find(key) for key in groups)
            if isinstance(group, Group)
        ]
        return known(True) if True in answers else unknown() if None in answers or not answers else known(False)

    def presumed(self, groups: Iterable[int], w: World) -> events.Touches:
        """The groups of an optimizer and, if it is the only one and opaque, those of the opaque modules."""
        touched = set(groups)
        optimizers = [obj for _, obj in w.having(roles.OPTIMIZER)]
        if len(optimizers) == 1 and optimizers[0].opaque and touched <= optimizers[0].groups:
            touched.update(*(obj.groups for _, obj in w.having(roles.MODULE) if obj.opaque))
        return _certain(dict.fromkeys(sorted(touched), True))

    def cleared(
        self,
        groups: Iterable[int],
        owner: str,
        w: World,
        ctx: Context,
        site: Site,
        certain: bool = True,
        *,
        zeroed: bool = False,
    ) -> None:
        """The gradients of these groups were cleared, or (not certain) may have been: dropped, or set to zero."""
        touches: dict[Hashable, Literal[True] | None] = dict.fromkeys(sorted(groups), True if certain else None)
        if zeroed:  # in place, for all that have the same tensors
            touches |= dict.fromkeys(self._lenders(touches, w))
        elif self._lending:
            self._given_back(groups, w)
        for noted in self._noted:
            noted.update(touches)  # type: ignore[arg-type]
        for key in groups:
            if isinstance(w.find(key), Group):
                group: Group = w.write(key)
                group.gradients_used, group.cleared = True, fresh()
                group.averages = Averages.NONE if certain else Averages.MIXED
        self.send(events.Cleared(site=site, touches=touches, owner=owner), w, ctx)

    @contextmanager
    def clearing(self) -> Iterator[set[int]]:
        """While something is executed: whose gradients it clears."""
        cleared: set[int] = set()
        self._noted.append(cleared)
        try:
            yield cleared
        finally:
            self._noted.pop()

    def read(self, groups: Iterable[int], w: World, ctx: Context, site: Site, *, certain: bool = True) -> None:
        """The gradients of these inputs were read, or may be; if they are, no other way to use them makes it vain."""
        touches = dict.fromkeys(sorted(groups), True)
        if certain:
            made = (getattr(w.find(key), "made_at", None) for key in touches)
            self._read.update(site for site in made if site is not None)
        if touches:
            self.send(events.GradientRead(site=site, touches=_certain(touches)), w, ctx)

    def inputs_done(self, groups: Iterable[int], w: World, ctx: Context) -> None:
        """Nothing can reach these groups any more: the gradients of inputs among them are never read."""
        if not self.listened(events.InputDone):
            return
        for key in sorted(groups):
            group = w.find(key)
            if isinstance(group, Group) and group.tokens and group.made_at is not None:
                event = events.InputDone(site=group.made_at, touches={key: True}, asked_at=group.made_at)
                self.send(event, w, ctx)

    # --- the verdict

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What is voted meanwhile is counted for itself, whatever becomes of the entry point that led there."""
        before = self._votes, self._owners, self._recent
        self._votes, self._owners, self._recent = {}, {}, set()
        try:
            yield
            self._settled += self._counted()
        finally:
            self._votes, self._owners, self._recent = before

    def proven(self) -> list[tuple[Rule, Violation]]:
        """What no world contradicted, each mistake of a rule at a place told once.  Forgets all votes."""
        settled, self._settled = self._settled, []
        return settled + self._counted()

    def _counted(self) -> list[tuple[Rule, Violation]]:
        best: dict[tuple[str, object], tuple[Rule, Violation]] = {}
        doubted = self._doubted() | self._of_several()
        for key, votes in self._votes.items():
            if votes.vetoed or not votes.violations or key in doubted:
                continue
            rule = self._owners[key]
            if self._is_withdrawn(key, rule):
                continue
            for violation in votes.violations:
                place = (rule.code, violation.at)
                known_one = best.get(place)
                if known_one is None:
                    best[place] = (rule, violation)
                    continue
                mend = agreed(known_one[1].mend, violation.mend)
                better = min(known_one[1], violation, key=_story_key)
                best[place] = (rule, better if better.mend == mend else replace(better, mend=mend))
        self.start_again()
        return list(best.values())

    def _of_several(self) -> set[Hashable]:
        """What is no mistake for a lineage that may be the one that is asked for, where some are not told apart."""
        judged = [key for key in self._votes if isinstance(key, _Judged)]
        several = {key.moment for key in judged if key.lineage is SEVERAL}
        vetoed = {key for key in judged if key.moment in several and self._votes[key].vetoed}
        by_any = {key.moment for key in vetoed if key.lineage is SEVERAL}
        by_one = {key.moment for key in vetoed}
        return {key for key in judged if key.moment in (by_one if key.lineage is SEVERAL else by_any)}

    def _doubted(self) -> set[Hashable]:
        """What happened to some variant that is no mistake for another, where it is not known what goes with which.

        That is where one of several things happened, or it is not told apart in all worlds what it happened to.
        """
        asked = {key: votes for key, votes in self._votes.items() if isinstance(key, _Asked)}
        alternatives: dict[Hashable, set[Hashable]] = {}
        vetoed: dict[_Happened, set[_Asked]] = {}
        for key, votes in asked.items():
            alternatives.setdefault(key.happened[:-1], set()).add(key.happened.alternative)
            if votes.vetoed:
                vetoed.setdefault(key.happened, set()).add(key)
        return {
            key
            for key in asked
            for other in vetoed.get(key.happened, ())
            if not key.passes(other)
            and (
                len(alternatives[key.happened[:-1]]) > 1
                or key.variant == other.variant
                or None in (key.variant, other.variant)
            )
        }


def _certain(touches: dict[int, bool]) -> Mapping[Hashable, Literal[True] | None]:
    return dict.fromkeys(touches, True)


def _story_key(violation: Violation) -> tuple[object, ...]:
    related = [(site.locate(), message) for message, site in violation.related]
    return (bool(violation.in_function), len(related), related)
