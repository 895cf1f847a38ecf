"""The analysis of a project: which code is executed, in which order, and what is reported of it."""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import libcst as cst

from gradlint.finding import Finding, Fix, Location
from gradlint.room import with_room
from gradlint.rule import Rule, Violation, all_rules
from gradlint.source import SourceError
from gradlint.static.drive.effort import Agenda, Effort, Watch
from gradlint.static.drive.interpreter import Interpreter
from gradlint.static.knowledge.torch_table import GRAD_MODES
from gradlint.static.python.budget import BESIDE, BudgetExceededError, OrderMattersError
from gradlint.static.python.progress import TRIES
from gradlint.static.report.fixes import agreed, fix_of
from gradlint.static.report.together import Together
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import forget_keys
from gradlint.static.state.tokens import forget_tokens
from gradlint.static.text.chains import chains_in
from gradlint.static.text.definition_units import ClassUnit, DefinitionUnit, FunctionUnit, leaves
from gradlint.static.text.files import Module
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Callers, Reach
from gradlint.static.text.triggers import Feature, Triggers, walks_in
from gradlint.static.text.units import StatementUnit, Unit

_DISABLING = tuple(name.rpartition(".")[2] for name, mode in GRAD_MODES.items() if mode != "on")
"""What code says that disables gradients."""
_AGAIN = 2 * BESIDE  #: statements executed where a function is followed once more
_ENOUGH = 4  #: functions of a file that took too long once more, after which no others are tried there
_OBJECTS = ("self", "cls", "")  #: what no file is known by: their attributes are no functions of one
_Row = tuple[str, int | None, int]  #: a file, a cell of it if it is a notebook, and a row there


@dataclass(slots=True)
class Analysis:
    """What an analysis found."""

    findings: list[Finding] = field(default_factory=list)
    rejected: list[SourceError] = field(default_factory=list)  #: parts of the files that only Python can parse
    notes: list[str] = field(default_factory=list)  #: what could not be followed, for ``--verbose``
    crashes: list[str] = field(default_factory=list)  #: faults of gradlint itself, a line each; the rest was analysed
    ended_by: BaseException | None = None  #: what ended it before its time; what was found until then stands


def analyze(
    project: Project,
    targets: AbstractSequence[Path],
    rules: AbstractSequence[type[Rule]],
    callers: Iterable[Path] | None = None,
    watch: Watch = lambda _path, _files, _share: None,
) -> Analysis:
    """Check files.

    Args:
        project: the files that may be followed.
        targets: the files that findings are wanted for.
        rules: the rules to check.
        callers: the files that import the targets; looked for in the project when not given.
        watch: told what is followed.

    Returns:
        The findings in the targets, sorted.  Files that cannot be parsed are passed over.  Where the user interrupts
        it, or memory runs out, those that are known by then.
    """
    try:
        with warnings.catch_warnings():
            for kind in (SyntaxWarning, DeprecationWarning):  # of escapes and numbers: the business of other linters
                warnings.filterwarnings("ignore", ".*invalid (escape|octal|decimal|hexadecimal|binary)", kind)
            return with_room(lambda: _Analyzer(project, targets, rules, callers, watch).run())
    finally:
        forget_keys()
        forget_tokens()


class _Analyzer:
    def __init__(
        self,
        project: Project,
        targets: AbstractSequence[Path],
        rules: AbstractSequence[type[Rule]],
        callers: Iterable[Path] | None,
        watch: Watch,
    ) -> None:
        self.project = project
        self.targets = [Path(t) for t in targets]
        self.agenda = Agenda(watch)
        self.callers = project.importers_of(self.targets) if callers is None else list(callers)
        self.rules = {rule.code: rule for rule in rules}
        every = {rule.code: rule for rule in (*all_rules(), *rules)}.values()
        self.witness = Witness(every)  # what tells worlds apart for one rule does for all, whichever are selected
        self.triggers = Triggers(rules)
        self.reach = Reach(project, self.triggers.any)
        self.machine = Interpreter(project, self.witness, self.reach)
        self.entries = self.machine.entries(self.triggers)
        self.effort = Effort(self.reach, Triggers(list(every)).begin)  # as far, whichever they are
        self.found: dict[tuple[str, Location], Finding] = {}
        self.mended: dict[tuple[str, Location], list[Violation]] = {}
        self.together = Together()
        self.notes: list[str] = []
        self.crashes: list[str] = []

    def run(self) -> Analysis:
        modules: list[Module] = []
        ended_by: BaseException | None = None
        try:
            modules += self._modules([*self.targets, *self.callers])
            self._follow_all(modules)
        except (KeyboardInterrupt, MemoryError) as error:
            ended_by = error.with_traceback(None)  # which keeps what took up the memory
        self.notes += [
            f"{module.path}: too long to follow, only what it defines and imports is known"
            for module in dict.fromkeys(self.machine.images.given_up)
        ]
        self.notes += [
            f"{unit.module.path}:{unit.row}: methods that it inherits take too long to follow them here to their end"
            for unit in dict.fromkeys(self.entries.short)
        ]
        wanted = {str(path.resolve()) for path in self.targets}
        withdrawn, used = self.witness.withdrawn(), self.witness.used_elsewhere({code for code, _ in self.found})
        findings = [
            self._undisputed(finding)
            for (code, location), finding in self.found.items()
            if str(Path(location.filename).resolve()) in wanted
            and (code, location) not in withdrawn
            and (code, finding.cause) not in used
        ]
        told = {(f.code, _start(f.location)): f for f in sorted(self._superseded(findings), key=lambda f: f.location)}
        rejected = [error for module in self._wanted(modules) for _, error in sorted(module.rejected.items())]
        merged = self.together.merged(self._once(told.values()))
        return Analysis(merged, rejected, self.notes, self.crashes, ended_by)

    def _wanted(self, modules: Iterable[Module]) -> list[Module]:
        """Those that findings are wanted for."""
        wanted = {str(path.resolve()) for path in self.targets}
        return [module for module in modules if str(module.path.resolve()) in wanted]

    def _follow_all(self, modules: list[Module]) -> None:
        modules = [module for module in modules if not self.reach.scope(module).is_elsewhere]
        targets = self._wanted(modules)
        self.effort.plan(targets)
        callers = Callers(self.reach, targets)
        scripts = {
            module: self.reach.features_of_body(module)
            for module in modules
            if module in targets or callers.among(_statements(module.units))
        }
        pending = [
            unit
            for module in modules
            for unit in _definitions(module.units)
            if module in targets or callers.among([unit])
        ]
        self.agenda.plan([*(module.path for module in scripts), *(unit.module.path for unit in pending)])
        for module, features in scripts.items():
            self.agenda.begin(module.path)
            self._entry(module, features, partial(self.entries.module, module))
        for module, features in scripts.items():
            self._entry(module, features, partial(self.entries.main, module))
        referenced = self._referenced(modules, pending)
        # Of a class only the methods that nothing has called are entry points: the functions go first, and of the
        # classes those that tell where gradients are disabled.
        for unit in sorted(pending, key=lambda u: (_rank(u), u in referenced, referenced.get(u))):
            self.agenda.begin(unit.module.path)
            self._definition(unit, True if self._records(unit, referenced) else None)
        for module in targets:
            if any("lambda" in unit.words for unit in _statements(module.units)):
                self._entry(module, scripts[module], partial(self.entries.lambdas, module))
        self._follow_missed(targets)

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

    def _entry(
        self,
        start: Module | DefinitionUnit,
        features: Feature,
        act: Callable[[], None],
        among: Container[_Row] | None = None,
    ) -> None:
        """Run one entry point, if any rule may report what it leads to; what it proves (in some rows) is kept."""
        if not self.triggers.any(features):
            return
        if isinstance(start, Module):
            name, text = f"{start.path}", start.source.text
        else:
            name, text = f"{start.module.path}:{start.row}", start.text
        try:
            self._follow(start, act, closely=walks_in(text), again=among is not None)
        except BudgetExceededError:
            if among is None:
                self.notes.append(f"{name}: too many paths to follow, the rest is unknown")
            self.machine.progress.give_up(again=among is not None)
        except RecursionError:
            self.notes.append(f"{name}: nested too deeply to follow")
            self.machine.progress.give_up()
        except SourceError:  # told where the findings are
            self.machine.progress.give_up()
        except MemoryError:
            self.crashes.append(f"{name}: out of memory, what it leads to is not known")
            self.machine.progress.give_up()
        except KeyboardInterrupt:
            self.machine.progress.give_up()
            self._keep_proven(among)
            raise
        except Exception as error:  # noqa: BLE001 -- a fault met in one entry point must not cost the others
            self.crashes.append(f"{name}: internal error: {type(error).__name__}: {error}")
            self.notes.append("".join(traceback.format_exception(error)).rstrip())
            self.machine.progress.give_up()
        self._keep_proven(among)
        self.machine.trim()

    def _keep_proven(self, among: Container[_Row] | None) -> None:
        """Keep what the entry point that was followed last has proven, in some rows only where they are given."""
        for rule, violation in self.witness.proven():
            if rule.code not in self.rules:
                continue
            finding = replace(rule.finding(violation), fix=fix_of(violation))
            if among is not None and _row(finding.location) not in among:
                continue
            key = (finding.code, finding.location)
            self.together.note(key, violation)
            if finding.fix is not None:
                self.mended.setdefault(key, []).append(violation)
            known = self.found.get(key)
            if known is not None:
                fix = agreed(known.fix, finding.fix)
                better = finding if len(finding.related) < len(known.related) else known
                finding = better if better.fix == fix else replace(better, fix=fix)
            self.found[key] = finding

    def _follow(
        self,
        start: Module | DefinitionUnit,
        act: Callable[[], None],
        *,
        closely: bool,
        again: bool = False,
        tries: int = 0,
        near: bool = False,
    ) -> None:
        """Run an entry point, once more and closely if that turns out to be needed; less far where it was (again).

        What takes too many steps is run once more in a hurry: first without following other packages (near), then
        without what has taken most of the steps, as long as something has.  What a run has settled stays.  What is
        followed once more (again) is tried once: for what its callers have left over, not for all that it leads to.
        """
        budget = self.machine.budget
        budget.ordered = closely
        self.machine.whole.holds = True
        self.machine.progress.begin()
        self.machine.nested.clear()
        brief = None if closely or isinstance(start, Module) else start
        order_matters = too_long = False
        steps = self._steps(start, brief, again)
        home = start if isinstance(start, Module) else start.module
        patience = self.machine.patience
        far, elsewhere = patience.far(home, near=near), patience.elsewhere(home)
        try:
            own, briefly = partial(_stands_in, start), brief is not None
            with budget.apart(
                steps, briefly=briefly, hurried=tries > 0, far=far, elsewhere=elsewhere, own=own, home=home
            ):
                act()
                self.entries.nested()
        except OrderMattersError:
            order_matters = True
        except BudgetExceededError:
            another = partial(patience.is_worth_another, home, all_followed=far is None)
            too_long = tries < TRIES and not again and another(learns=not self.effort.only_leads(home))
            if not too_long:
                raise
            near = True
        finally:
            self.effort.followed(home, budget.spent)
            if brief is not None and not order_matters:
                self.effort.spent(brief, budget.spent, self.machine.progress.met)
        if order_matters:
            self.witness.start_again()
        elif too_long:
            self.machine.progress.give_up()
        if order_matters or too_long:
            self.machine.progress.start_again()
            self._follow(start, act, closely=closely or order_matters, again=again, tries=tries + too_long, near=near)

    def _steps(self, start: Module | DefinitionUnit, brief: DefinitionUnit | None, again: bool) -> int | None:
        """How many statements may be executed for an entry point; None for as many as for any."""
        if again:
            return _AGAIN
        steps = self.effort.steps_closely(start) if brief is None else self.effort.steps(brief)
        return self.effort.bounded(start if isinstance(start, Module) else start.module, steps)

    def _follow_missed(self, modules: AbstractSequence[Module]) -> None:
        """Follow functions once more, as if nothing called them, for what their callers never came to in them."""
        missed: dict[FunctionUnit, set[_Row]] = {}
        for unit in list(self.machine.coverage.functions()):
            followed_alone = unit in self.entries.alone
            if unit.module in modules and not followed_alone and (rows := self._missed_rows(unit)):
                missed[unit] = rows
        if not missed:
            return
        called = self.machine.progress.called
        # What was followed without knowing its callers, or not at all, may turn out to be called there.
        others = [
            unit
            for module in modules
            for unit in leaves(module.units)
            if isinstance(unit, FunctionUnit) and (unit in self.entries.alone or unit not in called)
        ]
        among = set[_Row]().union(*missed.values(), *(_rows(unit.extent) for unit in others))
        starts: Iterable[DefinitionUnit] = dict.fromkeys(unit.class_unit or unit for unit in missed)
        too_long, spent = Counter[Module](), Counter[Module]()
        for start in starts:
            if too_long[start.module] >= _ENOUGH or spent[start.module] >= self.effort.again(start.module):
                self.notes.append(f"{start.module.path}:{start.row}: not followed once more, others took too long")
                continue
            if isinstance(start, ClassUnit):
                act = partial(self.entries.methods, start, missed)
            else:
                act = partial(self.entries.function, start, None if start in self.machine.progress.unrecorded else True)
            self.machine.budget.spent = 0
            self._entry(start, self.reach.features(start), act, among)
            too_long[start.module] += self.machine.budget.spent > _AGAIN
            spent[start.module] += self.machine.budget.spent

    def _missed_rows(self, unit: FunctionUnit) -> set[_Row]:
        """The rows of statements of a function that were not executed and may matter to a rule."""
        rows: set[_Row] = set()
        owner = unit.class_unit
        features = self.reach.features_of_call(unit) if owner is None else self.reach.features_of_method(unit, owner)
        if self.triggers.any(features):
            for part in self.machine.coverage.missed(unit):
                if self.reach.features_of_part(unit, cst.Module([]).code_for_node(part)):
                    rows.update(_rows(unit.locate(part)))
        return rows

    def _records(self, unit: DefinitionUnit, referenced: Mapping[Unit, bool]) -> bool:
        """Whether gradients are enabled where a definition is executed that nothing at hand calls.

        A program that hands on a function which trains, to a launcher as it may be, wants it to be trained there.
        """
        if unit not in referenced:
            return True
        return not referenced[unit] and bool(self.reach.near(unit) & Feature.BACKWARD)

    def _definition(self, unit: DefinitionUnit, grad: bool | None) -> None:
        if unit in self.machine.progress.called or not self.effort.is_due(unit):
            return
        if isinstance(unit, ClassUnit):
            self._entry(unit, self.reach.features(unit), partial(self.entries.methods, unit))
            if unit in self.machine.receivers.costly:
                self._entry(unit, self.reach.features(unit), partial(self.entries.methods, unit, unknown=True))
        else:
            self._entry(unit, self.reach.features(unit), partial(self.entries.function, unit, grad))

    # --- what is referenced, what is told already

    def _referenced(self, modules: list[Module], pending: list[DefinitionUnit]) -> dict[Unit, bool]:
        """Functions that other code mentions: of their own file, or of one that mentions theirs.

        Also told is whether another function does, or a statement that sets a gradient mode.  Code that is not worth
        following sets none.
        """
        at_home: dict[tuple[Module, str], list[FunctionUnit]] = {}
        abroad: dict[str, dict[str, list[FunctionUnit]]] = {}  # by their names, and those of their files
        for unit in pending:
            if isinstance(unit, FunctionUnit):
                at_home.setdefault((unit.module, unit.name), []).append(unit)
                for file in _names_of(unit.module):
                    abroad.setdefault(unit.name, {}).setdefault(file, []).append(unit)
        found: dict[Unit, bool] = {}
        for module in modules:
            parts = list(leaves(module.units))
            scope = self.reach.scope(module)
            words = frozenset[str]().union(*(part.words for part in parts)) - scope.defined.keys()
            for leaf in parts:
                if isinstance(leaf, StatementUnit) and leaf.is_import:
                    continue
                mode = scope.mentions(leaf) & Feature.GRAD_MODE
                within = isinstance(leaf, FunctionUnit) or bool(mode)
                own = leaf.name if isinstance(leaf, FunctionUnit) else None
                named = abroad.keys() & leaf.words - {own}
                if named and isinstance(leaf, FunctionUnit) and not self.effort.steps(leaf.class_unit or leaf):
                    continue
                chains = [chain for chain in chains_in(leaf.text) if named.intersection(chain.parts)] if named else []
                for name in sorted(named):
                    units = list(at_home.get((module, name), ())) if any(c.parts[0] == name for c in chains) else []
                    if any(name in c.parts and c.parts[0] not in _OBJECTS for c in chains):
                        met = [abroad[name][file] for file in sorted(abroad[name].keys() & words)]
                        units += [unit for others in met for unit in others if unit.module is not module]
                    for unit in units:
                        found[unit] = found.get(unit, False) or within
        return found

    def _superseded(self, findings: list[Finding]) -> list[Finding]:
        """Each mistake told once: a rule silences those it supersedes at the same cause."""
        silenced: set[int] = set()
        safer: dict[int, Fix] = {}
        for finding in findings:
            rule = self.rules[finding.code]
            if not rule.supersedes:
                continue
            for other in findings:
                if other.code in rule.supersedes and _tells(finding, other, rule.supersedes_within):
                    silenced.add(id(other))
                    if other.fix and finding.fix and other.fix.is_safe and other.fix.edits == finding.fix.edits:
                        safer[id(finding)] = other.fix
        return [replace(f, fix=safer.get(id(f), f.fix)) for f in findings if id(f) not in silenced]

    def _once(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Findings; of those of one cause only the first, where the rule wants no more."""
        by_code: dict[str, list[Finding]] = {}
        for finding in findings:
            by_code.setdefault(finding.code, []).append(finding)
        for code, found in by_code.items():
            rule = self.rules[code]
            yield from self.together.once(found, rule.loops_apart) if rule.once_for_a_cause else found


def _row(place: Location) -> _Row:
    return place.filename, place.cell, place.row


def _rows(place: Location) -> Iterator[_Row]:
    return ((place.filename, place.cell, row) for row in range(place.row, place.end_row + 1))


def _rank(unit: DefinitionUnit) -> int:
    """When a definition is followed, among all that nothing has called: that of functions is 0."""
    if not isinstance(unit, ClassUnit):
        return 0
    return 1 if any(word in unit.text for word in _DISABLING) else 2


def _start(place: Location) -> tuple[str, int | None, int, int]:
    """Where a place begins: a chain of calls on one receiver begins where its first call does."""
    return place.filename, place.cell, place.row, place.column


def _tells(finding: Finding, other: Finding, within: bool) -> bool:
    """Whether a finding tells what another does, and the other is not the only one that can be mended where it is."""
    if other.fix and not finding.fix and other.location.filename != finding.location.filename:
        return False
    places = [finding.location, *([finding.cause] if finding.cause else [])]
    return other.location in places or (within and any(_within(other.location, place) for place in places))


def _within(inner: Location, outer: Location) -> bool:
    if (inner.filename, inner.cell) != (outer.filename, outer.cell):
        return False
    return (outer.row, outer.column) <= (inner.row, inner.column) and (inner.end_row, inner.end_column) <= (
        outer.end_row,
        outer.end_column,
    )


def _stands_in(start: Module | DefinitionUnit, unit: Unit) -> bool:
    """Whether a function is an entry point, or a method of one; of a file, none is."""
    return unit is start or (
        isinstance(start, ClassUnit) and isinstance(unit, FunctionUnit) and unit.class_unit is start
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
