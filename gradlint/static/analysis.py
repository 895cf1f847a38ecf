"""The analysis of a project: which code is executed, in which order, and what is reported of it."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as AbstractSequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gradlint.events import ConvertedToNumpy
from gradlint.finding import Finding, Fix, Location
from gradlint.rule import Rule, Violation
from gradlint.source import SourceError
from gradlint.static.budget import CLOSE, BudgetExceededError, OrderMattersError
from gradlint.static.callers import Callers
from gradlint.static.context import Arguments, Context, forget_keys
from gradlint.static.effort import Effort
from gradlint.static.escapes import closed_over
from gradlint.static.fixes import agreed, fix_of
from gradlint.static.interpreter import Interpreter
from gradlint.static.joining import join, reduce
from gradlint.static.project import Project
from gradlint.static.reach import Reach, reached_from
from gradlint.static.torch_table import CLEARING, EVALUATION_STEPS
from gradlint.static.triggers import Feature, Triggers, names_optimizer, walks_in
from gradlint.static.units import ClassUnit, DefinitionUnit, FunctionUnit, Module, StatementUnit, Unit, leaves
from gradlint.static.values import (
    NONE,
    Class,
    Const,
    Frame,
    Function,
    Instance,
    Lambda,
    Mapping,
    Object,
    Ref,
    Sequence,
    Tensor,
    Unknown,
    Value,
)
from gradlint.static.witness import Witness
from gradlint.static.world import World

_RECURSION = 6_000
_YOUNG = 50_000  #: objects made before garbage is looked for: a third of the memory, at a twentieth more time


@dataclass(slots=True)
class Analysis:
    """What an analysis found."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  #: what could not be followed, for ``--verbose``
    crashes: list[str] = field(default_factory=list)  #: faults of gradlint itself, a line each; the rest was analysed


def analyze(
    project: Project,
    targets: AbstractSequence[Path],
    rules: AbstractSequence[type[Rule]],
    callers: Iterable[Path] | None = None,
) -> Analysis:
    """Check files.

    Args:
        project: the files that may be followed.
        targets: the files that findings are wanted for.
        rules: the rules to check.
        callers: the files that import the targets; looked for in the project when not given.

    Returns:
        The findings in the targets, sorted.  Files that cannot be parsed are passed over.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    thresholds = gc.get_threshold()
    gc.set_threshold(max(thresholds[0], _YOUNG) if thresholds[0] else 0, *thresholds[1:])  # trees are long-lived
    try:
        return _Analyzer(project, targets, rules, callers).run()
    finally:
        forget_keys()
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)


class _Analyzer:
    def __init__(
        self,
        project: Project,
        targets: AbstractSequence[Path],
        rules: AbstractSequence[type[Rule]],
        callers: Iterable[Path] | None,
    ) -> None:
        self.project = project
        self.targets = [Path(t) for t in targets]
        self.callers = project.importers_of(self.targets) if callers is None else list(callers)
        self.rules = {rule.code: rule for rule in rules}
        self.witness = Witness(rules)
        self.triggers = Triggers(rules)
        self.reach = Reach(project, self.triggers.any)
        self.machine = Interpreter(project, self.witness, self.reach)
        self.effort = Effort(self.reach)
        self.found: dict[tuple[str, Location], Finding] = {}
        self.mended: dict[tuple[str, Location], list[Violation]] = {}
        self.notes: list[str] = []
        self.crashes: list[str] = []

    def run(self) -> Analysis:
        modules = list(self._modules([*self.targets, *self.callers]))
        wanted = {str(Path(t).resolve()) for t in self.targets}
        targets = [module for module in modules if str(module.path.resolve()) in wanted]
        callers = Callers(self.reach, targets)
        scripts = {
            module: self.reach.features_of_body(module)
            for module in modules
            if module in targets or callers.among(_statements(module.units))
        }
        for act in (self._module, self._main):
            for module, features in scripts.items():
                self._entry(module, features, partial(act, module))
        pending = [
            unit
            for module in modules
            for unit in _definitions(module.units)
            if module in targets or callers.among([unit])
        ]
        referenced = self._referenced(modules, pending)
        # Of a class only the methods that nothing has called are entry points: the functions go first.
        for unit in sorted(pending, key=lambda u: (isinstance(u, ClassUnit), u in referenced)):
            self._definition(unit, None if unit in referenced else True)
        self.notes += [
            f"{module.path}: too long to follow, only what it defines and imports is known"
            for module in dict.fromkeys(self.machine.images.given_up)
        ]
        withdrawn = self.witness.withdrawn()
        findings = [
            self._undisputed(finding)
            for (code, location), finding in self.found.items()
            if str(Path(location.filename).resolve()) in wanted and (code, location) not in withdrawn
        ]
        told = {(f.code, _start(f.location)): f for f in sorted(self._superseded(findings), key=lambda f: f.location)}
        return Analysis(list(self._once(told.values())), self.notes, self.crashes)

    def _undisputed(self, finding: Finding) -> Finding:
        """A finding, without the fix that would do harm elsewhere."""
        violations = self.mended.get((finding.code, finding.location), ())
        return replace(finding, fix=None) if any(map(self.witness.disputes, violations)) else finding

    def _modules(self, paths: Iterable[Path]) -> Iterator[Module]:
        for path in dict.fromkeys(paths):
            try:
                yield self.project.module(path)
            except SourceError:
                continue

    # --- entry points

    def _entry(self, start: Module | DefinitionUnit, features: Feature, act: Callable[[], None]) -> None:
        """Run one entry point, if any rule may report what it leads to; what it proves is kept."""
        if not self.triggers.any(features):
            return
        if isinstance(start, Module):
            name, text = f"{start.path}", start.source.text
        else:
            name, text = f"{start.module.path}:{start.row}", start.text
        try:
            self._follow(start, act, closely=walks_in(text))
        except BudgetExceededError:
            self.notes.append(f"{name}: too many paths to follow, the rest is unknown")
            self.machine.give_up()
        except RecursionError:
            self.notes.append(f"{name}: nested too deeply to follow")
            self.machine.give_up()
        except Exception as error:  # noqa: BLE001 -- a fault met in one entry point must not cost the others
            self.crashes.append(f"{name}: internal error: {type(error).__name__}: {error}")
            self.notes.append("".join(traceback.format_exception(error)).rstrip())
            self.machine.give_up()
        for rule, violation in self.witness.proven():
            finding = replace(rule.finding(violation), fix=fix_of(violation))
            key = (finding.code, finding.location)
            if finding.fix is not None:
                self.mended.setdefault(key, []).append(violation)
            known = self.found.get(key)
            if known is not None:
                fix = agreed(known.fix, finding.fix)
                better = finding if len(finding.related) < len(known.related) else known
                finding = better if better.fix == fix else replace(better, fix=fix)
            self.found[key] = finding
        self.machine.trim()

    def _follow(self, start: Module | DefinitionUnit, act: Callable[[], None], *, closely: bool) -> None:
        """Run an entry point, once more and closely if that turns out to be needed."""
        budget = self.machine.budget
        budget.ordered = closely
        self.machine.flow.whole = True
        self.machine.settle()
        self.machine.met.clear()
        brief = None if closely or isinstance(start, Module) else start
        order_matters = False
        try:
            with budget.apart(None if brief is None else self.effort.steps(brief), briefly=brief is not None):
                act()
        except OrderMattersError:
            order_matters = True
        finally:
            if brief is not None and not order_matters:
                self.effort.spent(brief, budget.spent, self.machine.met)
        if order_matters:
            self.witness.start_again()
            self._follow(start, act, closely=True)

    def _module(self, module: Module) -> None:
        self.machine.images.enter(module, World(self.machine.shared))

    def _main(self, module: Module) -> None:
        """The ``if __name__ == "__main__"`` parts of a module."""
        units = [u for u in module.units if isinstance(u, StatementUnit) and "__name__" in u.words]
        if not units:
            return
        world = World(self.machine.shared)
        frame = self.machine.images.enter(module, world)
        if frame is None:
            return
        world.write(frame).vars["__name__"] = Const("__main__")
        ctx = Context(module, units[0], frame).at("main", module)
        ends = self.machine.run_units(list(units), [world], ctx).normal
        self._done(ends, ctx, set())

    def _definition(self, unit: DefinitionUnit, grad: bool | None) -> None:
        if isinstance(unit, ClassUnit):
            self._entry(unit, self.reach.features(unit), partial(self._class, unit))
        elif unit not in self.machine.called and self.effort.is_due(unit):
            self._entry(unit, self.reach.features(unit), partial(self._function, unit, grad))

    def _start(self, unit: Unit) -> tuple[World, Context] | None:
        world = World(self.machine.shared)
        frame = self.machine.images.enter(unit.module, world)
        if frame is None:
            return None
        return world, Context(unit.module, unit, frame).at("entry", unit)

    def _function(self, unit: FunctionUnit, grad: bool | None) -> None:
        start = self._start(unit)
        if start is None:
            return
        world, ctx = start
        variables = world.find(ctx.frame)
        assert isinstance(variables, Frame)
        value = variables.vars.get(unit.name)
        if not isinstance(value, Function):
            value = self.machine.definitions.function(unit, ctx)
        if grad is None:
            world.grad = None
        self._call(value, world, ctx, None)

    def _class(self, unit: ClassUnit) -> None:
        methods = [
            method
            for method in unit.methods.values()
            if method not in self.machine.called and self.triggers.any(self.reach.features_of_method(method, unit))
        ]
        built = unit in self.machine.built
        if built and not methods:
            return
        start = self._start(unit)
        if start is None:
            return
        world, ctx = start
        cls = self._class_of(unit, world, ctx)
        if cls is None:
            return
        if self.machine.definitions.kind(cls) == "function":
            self.machine.functions.examine(cls, world.copy(), ctx)
        site = unit.here
        args = Arguments(open=True)
        results = self.machine.calls.instantiate(cls, args, world, ctx, site)
        ends = self._built(results)
        for end, instance in ends:
            obj = end.get(instance, Instance)
            if obj is not None and obj.kind in ("module", "lightning"):
                for ref in self.machine.modules.walk(instance, end):
                    end.write(ref.id).training = None
        due: list[FunctionUnit] = []
        for method in sorted(methods, key=lambda m: (m.name.startswith("_"), m.row)):
            if method in self.machine.called or method.name == "__init__":
                continue
            due.append(method)
            for end, instance in ends:
                with self.machine.flow.partly(len(ends) == 1):
                    self._method(method, cls, instance, end, ctx.at("method", method), built=built)
        for end, instance in ends:
            self._all_filled(due, cls, instance, end, ctx)

    def _method(
        self, method: FunctionUnit, cls: Class, instance: Ref, end: World, ctx: Context, *, built: bool
    ) -> None:
        """Run a method of an object that was just built."""
        function, obj = self.machine.definitions.attribute(cls, method.name, end), end.get(instance, Instance)
        if not isinstance(function, Function):
            return
        trial = end.copy()
        if obj is not None and obj.kind == "lightning" and method.name in EVALUATION_STEPS:
            trial.grad = False
        if obj is not None and obj.kind == "lightning" and method.name == "training_step":
            self._repeat(function, trial, ctx, instance)
            return
        self._call(function, trial, ctx, instance)
        if not built and self._trains_alone(method, cls):
            self.witness.repeated = True
            try:
                self._repeat(function, end.copy(), ctx, instance)
            finally:
                self.witness.repeated = False

    def _built(self, results: Iterable[tuple[World, Value]]) -> list[tuple[World, Ref]]:
        """The ways an object may have been built: apart where it has a model of its own or one that it was given."""
        built = [(w, value, obj) for w, value in results if isinstance(value, Ref) and (obj := w.get(value, Instance))]
        own = frozenset[str]().union(*(_models(obj, world) for world, _, obj in built))
        ends: dict[frozenset[str], tuple[World, Ref]] = {}
        for world, value, obj in built:
            given = frozenset(name for name in own if isinstance(world.resolve(obj.attrs.get(name, NONE)), Unknown))
            known = ends.get(given)
            ends[given] = (world, value) if known is None else (join(known[0], world), value)
        return list(ends.values())

    def _all_filled(self, methods: list[FunctionUnit], cls: Class, instance: Ref, end: World, ctx: Context) -> None:
        """Call the methods that convert anything once more, when others may have filled what they convert."""
        budget, obj = self.machine.budget, end.get(instance, Instance)
        for method in methods:
            evaluates = obj is not None and obj.kind == "lightning" and method.name in EVALUATION_STEPS
            if evaluates or not self.reach.features_of_call(method) & Feature.NUMPY:
                continue
            function = self.machine.definitions.attribute(cls, method.name, end)
            if isinstance(function, Function):
                with suppress(BudgetExceededError), budget.apart(CLOSE, briefly=not budget.ordered):
                    self._filled(function, cls, instance, end, ctx)
                budget.steps += budget.spent

    def _filled(self, function: Function, cls: Class, receiver: Ref, world: World, ctx: Context) -> None:
        """Call a method once others may have filled what is empty when the object is built: what it converts then.

        Raises:
            BudgetExceededError: it takes too long, and nothing is told of it.
        """
        filled = self.machine.late.filled(receiver, cls, function.unit, world, ctx)
        if filled is None:
            return
        with self.witness.apart():
            self.witness.only = ConvertedToNumpy
            try:
                self._call(function, filled, ctx.at("filled", function.unit), receiver)
            finally:
                self.witness.only = None

    def _trains_alone(self, method: FunctionUnit, cls: Class) -> bool:
        """Whether a method steps the optimizer that its object keeps, and no other is there to clear gradients.

        Nothing in the project builds the object; whoever does calls the method once for each batch.
        """
        features = self.reach.features_of_call(method)
        if not features & Feature.STEP or not features & Feature.BACKWARD:
            return False
        methods = self.machine.definitions.methods(cls)
        reached = reached_from(methods, [method.name])
        if any(names_optimizer(methods[name].text, methods.keys()) for name in reached):  # it has one of its own
            return False
        return not any(methods[name].words & CLEARING for name in methods.keys() - reached)

    def _class_of(self, unit: ClassUnit, world: World, ctx: Context) -> Class | None:
        variables = world.find(ctx.frame)
        assert isinstance(variables, Frame)
        cls = variables.vars.get(unit.name)
        if not isinstance(cls, Class):
            cls = self.machine.seen_classes.get(unit)
        return None if cls is None or world.find(cls.scope) is None else cls

    def _repeat(self, function: Function, world: World, ctx: Context, receiver: Value) -> None:
        """A framework calls this method again and again."""
        worlds = [world]
        for number in range(4):
            here = ctx.at("again", number, peeled=True)
            with self.machine.flow.partly():  # worlds come one after the other
                results = [r for w in worlds for r in self._results(function, w, here, receiver)]
            worlds = reduce([w for w, _ in results], 4)

    def _results(
        self, function: Function, world: World, ctx: Context, receiver: Value | None
    ) -> list[tuple[World, Value]]:
        site = function.unit.here
        return self.machine.calls.function(function, Arguments(open=True), world, ctx, site, receiver)

    def _call(self, function: Function, world: World, ctx: Context, receiver: Value | None) -> None:
        before = set(world.heap)
        self._history_unknown(world)
        results = self._results(function, world, ctx, receiver)
        escaped: set[int] = set()
        for end, value in results:
            self.machine.evaluation.escaped([value], end)
            self.machine.uses.escaped([value], end)
            owner = end.get(receiver, Instance) if receiver is not None else None
            self.machine.graphs.escaped([value, *(owner.attrs.values() if owner is not None else ())], end)
            escaped |= _reachable([value, *([receiver] if receiver else []), *end.bound.values()], end)
        self._done([end for end, _ in results], ctx, escaped | before)

    def _history_unknown(self, world: World) -> None:
        """What was done with the optimizers at hand before this entry point is called is not known."""
        built = [key for key, obj in world.heap.items() if isinstance(obj, Instance) and obj.kind == "optimizer"]
        for key in dict.fromkeys([*self.machine.images.optimizers, *built]):
            current = world.get(Ref(key), Instance)
            if current is not None:
                self.machine.escapes.doubt(current.groups, [Ref(key)], world)

    def _done(self, worlds: Iterable[World], ctx: Context | None, escaped: set[int]) -> None:
        """The end of an entry point: gradients of inputs that nothing else can reach are never read."""
        if ctx is not None:
            for world in worlds:
                self.witness.inputs_done((key for key in world.heap if key not in escaped), world, ctx)

    # --- what is referenced, what is told already

    def _referenced(self, modules: list[Module], pending: list[DefinitionUnit]) -> set[Unit]:
        """Functions that other code mentions: of their own file, or of one that mentions theirs."""
        named: dict[str, list[FunctionUnit]] = {}
        for unit in pending:
            if isinstance(unit, FunctionUnit):
                named.setdefault(unit.name, []).append(unit)
        found: set[Unit] = set()
        for module in modules:
            parts = list(leaves(module.units))
            words = frozenset[str]().union(*(part.words for part in parts))
            for leaf in parts:
                own = leaf.name if isinstance(leaf, FunctionUnit) else None
                for name in named.keys() & leaf.words - {own}:
                    found.update(
                        f for f in named[name] if f.module is module or not words.isdisjoint(_names_of(f.module))
                    )
        return found

    def _superseded(self, findings: list[Finding]) -> list[Finding]:
        """Each mistake told once: a rule silences those it supersedes at the same cause."""
        silenced: set[int] = set()
        safer: dict[int, Fix] = {}
        for finding in findings:
            weaker = self.rules[finding.code].supersedes
            if not weaker:
                continue
            for other in findings:
                if other.code in weaker and _tells(finding, other):
                    silenced.add(id(other))
                    if other.fix and finding.fix and other.fix.is_safe and other.fix.edits == finding.fix.edits:
                        safer[id(finding)] = other.fix
        return [replace(f, fix=safer.get(id(f), f.fix)) for f in findings if id(f) not in silenced]

    def _once(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Findings in order; of those of one cause the first, where the rule wants no more."""
        told: set[tuple[str, Location]] = set()
        for finding in sorted(findings, key=lambda f: f.sort_key):
            if finding.cause is not None and self.rules[finding.code].once_for_a_cause:
                if (finding.code, finding.cause) in told:
                    continue
                told.add((finding.code, finding.cause))
            yield finding


def _models(obj: Instance, w: World) -> Iterator[str]:
    """The attributes that hold models of the project."""
    for name, value in obj.attrs.items():
        held = w.get(w.resolve(value), Instance)
        if held is not None and held.kind == "module" and held.cls is not None:
            yield name


def _start(place: Location) -> tuple[str, int | None, int, int]:
    """Where a place begins: a chain of calls on one receiver begins where its first call does."""
    return place.filename, place.cell, place.row, place.column


def _tells(finding: Finding, other: Finding) -> bool:
    """Whether a finding tells what another does, and the other is not the only one that can be mended where it is."""
    if other.fix and not finding.fix and other.location.filename != finding.location.filename:
        return False
    places = [finding.location, *([finding.cause] if finding.cause else [])]
    return any(_within(other.location, place) for place in places)


def _within(inner: Location, outer: Location) -> bool:
    if (inner.filename, inner.cell) != (outer.filename, outer.cell):
        return False
    return (outer.row, outer.column) <= (inner.row, inner.column) and (inner.end_row, inner.end_column) <= (
        outer.end_row,
        outer.end_column,
    )


def _statements(units: Iterable[Unit]) -> Iterator[StatementUnit]:
    return (unit for unit in units if isinstance(unit, StatementUnit))


def _definitions(units: Iterable[Unit]) -> Iterator[DefinitionUnit]:
    for unit in units:
        if isinstance(unit, (FunctionUnit, ClassUnit)):
            yield unit


def _names_of(module: Module) -> set[str]:
    """What a file that imports from a module mentions at least one of: its name, or those of its packages."""
    return {module.path.stem, *(folder.name for folder in list(module.path.parents)[:2])}


def _is_nested(value: Function | Lambda, w: World) -> bool:
    """Whether a function was defined while another one ran."""
    frame = w.find(value.frame)
    return isinstance(frame, Frame) and frame.parent is not None


def _reachable(values: Iterable[Value], w: World) -> set[int]:
    """The ids of all objects that can be reached from values."""
    seen: set[int] = set()
    closures: set[Value] = set()
    queue = list(values)
    while queue:
        value = w.resolve(queue.pop())
        if isinstance(value, (Function, Lambda)) and value not in closures and _is_nested(value, w):
            closures.add(value)
            queue += closed_over(value, w)
        if not isinstance(value, Ref) or value.id in seen:
            continue
        seen.add(value.id)
        obj: Object | None = w.find(value.id)
        if isinstance(obj, Tensor):
            seen |= obj.groups
        elif isinstance(obj, Instance):
            seen |= obj.groups
            queue += obj.attrs.values()
        elif isinstance(obj, Sequence):
            queue += [*obj.items, *([obj.tail] if obj.tail is not None else [])]
        elif isinstance(obj, Mapping):
            queue += [*obj.items.values(), *([obj.tail] if obj.tail is not None else [])]
    return seen
