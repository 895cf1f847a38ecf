"""Control flow: executes statements over worlds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from collections.abc import Sequence as AbstractSequence

import libcst as cst

from gradlint.static.python.attributes import Attributes
from gradlint.static.python.binding import Imports, Names
from gradlint.static.python.budget import Budget
from gradlint.static.python.calls import Calls
from gradlint.static.python.choices import Decisions
from gradlint.static.python.collections import Collections
from gradlint.static.python.conditions import Conditions
from gradlint.static.python.containers import Containers, Filling
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.expressions import Expressions
from gradlint.static.python.patterns import Patterns
from gradlint.static.python.progress import Coverage, Progress, Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.context import Context, Outcome, Results
from gradlint.static.state.liveness import Live, Liveness
from gradlint.static.state.provenance import figures_in, known_by
from gradlint.static.state.reducing import reduce
from gradlint.static.state.values import (
    NONE,
    Choice,
    Instance,
    Ref,
    Value,
    new_unknown,
)
from gradlint.static.state.world import LAST, World
from gradlint.static.text.counters import adds_to, running_total
from gradlint.static.text.nodes import place_of

_CASES = 32  #: ways through the cases of a ``match`` of which those that agree are joined before the next case


class Flow:
    """Executes statements.  Every method takes a world it may change and tells how execution may go on."""

    _budget: Budget
    _coverage: Coverage
    _domain: Domain
    _execution: Execution
    _liveness: Liveness
    _progress: Progress
    _whole: Wholeness
    _witness: Witness
    _definitions: Definitions
    _imports: Imports
    _names: Names
    _decisions: Decisions
    _calls: Calls
    _attributes: Attributes
    _collections: Collections
    _conditions: Conditions
    _containers: Containers
    _patterns: Patterns
    _expressions: Expressions
    _filling: Filling

    def __init__(self) -> None:
        self._compound: dict[type, Callable[..., Outcome]] = {
            cst.If: self._if,
            cst.With: self._with,
            cst.Try: self._try,
            cst.TryStar: self._try,
            cst.Match: self._match,
            cst.FunctionDef: self._define,
            cst.ClassDef: self._define,
            cst.SimpleStatementLine: self._line,
            cst.SimpleStatementSuite: self._line,
            cst.IndentedBlock: self._line,
        }
        self._loops: dict[type, Callable[..., Outcome]] = {cst.For: self._for, cst.While: self._while}
        self._small: dict[type, Callable[..., list[World]]] = {
            cst.Expr: self._expression,
            cst.Assign: self._assign,
            cst.AnnAssign: self._annotated,
            cst.AugAssign: self._augmented,
            cst.Del: self._delete,
            cst.Import: self._import,
            cst.ImportFrom: self._import,
            cst.Global: self._global,
            cst.Nonlocal: self._global,
            cst.Assert: self._assert,
        }

    def _with(self, node: cst.With, w: World, ctx: Context) -> Outcome:
        return self._execution.manage(node, w, ctx)

    def _for(self, node: cst.For, worlds: list[World], ctx: Context) -> Outcome:
        return self._execution.loop_over(node, worlds, ctx)

    def _while(self, node: cst.While, worlds: list[World], ctx: Context) -> Outcome:
        return self._execution.loop_while(node, worlds, ctx)

    # --- blocks

    def block(self, statements: AbstractSequence[cst.CSTNode], worlds: list[World], ctx: Context) -> Outcome:
        """Execute statements one after the other, each in every world that reaches it."""
        out = Outcome(list(worlds))
        for statement in statements:
            if not out.normal:
                break
            reached, out.normal = out.normal, []
            self.statements(statement, reached, ctx, out)
            if self._whole.holds:
                self._progress.settle()
        return out

    def statements(self, node: cst.CSTNode, worlds: list[World], ctx: Context, out: Outcome) -> None:
        """Execute one statement in every world that reaches it, adding to ``out``."""
        if not self._witness.muted:
            self._coverage.meets(id(node))
        self._liveness.reached(node, ctx.frame)
        loop = self._loops.get(type(node))  # isinstance is slow: nodes of libcst have an abstract metaclass
        if loop is not None:
            self._budget.tick()
            result = loop(node, worlds, ctx)
            out.normal += result.normal
            out.absorb(result)
        else:
            with self._whole.partly(len(worlds) == 1):
                for world in worlds:
                    self._liveness.reached(node, ctx.frame)
                    self.statement(node, world, ctx, out)
        if any(world.raised for world in out.normal) and type(node) not in self._small:
            out.normal = _standing(out.normal)
        if len(out.normal) > 1 and (len(out.normal) > len(worlds) or self._liveness.ends(node, ctx)):
            out.normal = self.fewer(out.normal, self._liveness.after(node, ctx))

    def fewer(self, worlds: list[World], live: Live | None = None) -> list[World]:
        """As many worlds as the steps taken so far allow: an entry point that takes long is followed less closely."""
        return reduce(worlds, self._budget.worlds(), live) if len(worlds) > 1 else worlds

    def statement(self, node: cst.CSTNode, w: World, ctx: Context, out: Outcome) -> None:
        """Execute one statement in one world, adding to ``out``."""
        kind = type(node)
        if kind in self._loops:
            self.statements(node, [w], ctx, out)
            return
        self._budget.tick()
        small = self._small.get(kind)
        if small is not None:
            worlds = self._decisions.before(node, w, ctx)
            if len(worlds) == 1:
                out.normal += small(node, worlds[0], ctx)
                return
            with self._whole.partly():
                for world in worlds:
                    out.normal += small(node, world, ctx)
            return
        compound = self._compound.get(kind)
        if compound is not None:
            result = compound(node, w, ctx)
            out.normal += result.normal
            out.absorb(result)
        elif isinstance(node, cst.Return):
            worlds = self._decisions.before(node, w, ctx)
            with self._whole.partly(len(worlds) == 1):
                for world in worlds:
                    ends = self.value(node.value, world, ctx) if node.value else [(world, NONE)]
                    out.returns += [(end, self._domain.branches.returned(value, end, ctx)) for end, value in ends]
        elif isinstance(node, cst.Raise):
            if node.exc is not None:
                self._execution.evaluate(node.exc, w, ctx)
        elif isinstance(node, cst.Break):
            out.breaks.append(w)
        elif isinstance(node, cst.Continue):
            out.continues.append(w)
        else:
            out.normal.append(w)

    def _line(self, node: cst.SimpleStatementLine, w: World, ctx: Context) -> Outcome:
        return self.block(node.body, [w], ctx)

    def value(self, node: cst.BaseExpression, w: World, ctx: Context) -> Results:
        """Evaluate an expression at the top of a statement: a call there may fork the world, a condition as well."""
        if isinstance(node, cst.Call):
            return self._calls.call_node(node, w, ctx)
        if isinstance(node, (cst.IfExp, cst.BooleanOperation)):
            return self._expressions.alternatives(node, w, ctx)
        return [(w, self._execution.evaluate(node, w, ctx))]

    # --- simple statements

    def _expression(self, node: cst.Expr, w: World, ctx: Context) -> list[World]:
        self._domain.mutations.statement(node, w, ctx)
        return [world for world, _ in self.value(node.value, w, ctx)]

    def _assign(self, node: cst.Assign, w: World, ctx: Context) -> list[World]:
        results = self.value(node.value, w, ctx)
        total = running_total(node)
        for world, value in results:
            if total is not None and ctx.iteration and not _is_state(total, ctx):
                held = self._execution.evaluate(total, world, ctx)
                whole = adds_to(total, node.value)
                self._domain.mutations.summed(total, held, value, world, ctx, ctx.site(node), whole)
                self._domain.mutations.totalled(held, value, world, ctx)
            for target in node.targets:
                if not self._domain.mutations.puts_back(target.target, node.value, world, ctx):
                    self.bind(target.target, value, world, ctx, node)
        return [world for world, _ in results]

    def _annotated(self, node: cst.AnnAssign, w: World, ctx: Context) -> list[World]:
        if node.value is None:
            return [w]
        results = self.value(node.value, w, ctx)
        for world, value in results:
            self.bind(node.target, value, world, ctx, node)
            self._domain.values.annotated(value, node.annotation, world, ctx)
        return [world for world, _ in results]

    def _augmented(self, node: cst.AugAssign, w: World, ctx: Context) -> list[World]:
        self._expressions.augment(node, w, ctx)
        return [w]

    def _delete(self, node: cst.Del, w: World, ctx: Context) -> list[World]:
        target = node.target
        if isinstance(target, cst.Name):
            w.write(ctx.frame).vars.pop(target.value, None)
        elif isinstance(target, cst.Attribute):
            owner = w.resolve(self._execution.evaluate(target.value, w, ctx))
            if isinstance(owner, Ref) and w.get(owner, Instance) is not None:
                w.write(owner.id).attrs.pop(target.attr.value, None)
            elif target.attr.value == "grad":  # there is none then, as if it were None
                self._attributes.set(owner, "grad", NONE, w, ctx, ctx.site(node))
        elif isinstance(target, cst.Subscript):
            owner = w.resolve(self._execution.evaluate(target.value, w, ctx))
            index = self._expressions.index(target, w, ctx)
            if isinstance(owner, Ref):
                self._containers.remove(owner, index, w)
        return [w]

    def _import(self, node: cst.Import | cst.ImportFrom, w: World, ctx: Context) -> list[World]:
        self._imports.execute(node, w, ctx)
        return [w]

    def _global(self, node: cst.Global | cst.Nonlocal, w: World, ctx: Context) -> list[World]:
        frame = w.write(ctx.frame)
        kind = "global" if isinstance(node, cst.Global) else "nonlocal"
        for item in node.names:
            frame.vars[f"{kind} {item.name.value}"] = NONE
        return [w]

    def _assert(self, node: cst.Assert, w: World, ctx: Context) -> list[World]:
        return [world for taken, world in self._conditions.decide(node.test, w, ctx) if taken]

    def bind(self, target: cst.CSTNode, value: Value, w: World, ctx: Context, node: cst.CSTNode) -> None:
        """Assign ``value`` to a target: a name, attribute, subscript, or a tuple of targets."""
        if isinstance(target, cst.Name):
            self._names.assign(target.value, known_by(value, target.value), w, ctx)
        elif isinstance(target, cst.Attribute):
            owner, name = self._execution.evaluate(target.value, w, ctx), target.attr.value
            self._attributes.set(owner, name, known_by(value, name), w, ctx, ctx.site(node))
        elif isinstance(target, cst.Subscript):
            owner = self._execution.evaluate(target.value, w, ctx)
            index = self._expressions.index(target, w, ctx)
            self._filling.set_item(owner, index, value, w, ctx, ctx.site(node), place_of(target))
        elif isinstance(target, (cst.Tuple, cst.List)):
            starred = [isinstance(element, cst.StarredElement) for element in target.elements]
            values = self._collections.unpack(value, len(starred), starred, w, ctx)
            for element, item in zip(target.elements, values, strict=False):
                self.bind(element.value, item, w, ctx, node)
        elif isinstance(target, cst.StarredElement):
            self.bind(target.value, value, w, ctx, node)

    def _define(self, node: cst.FunctionDef | cst.ClassDef, w: World, ctx: Context) -> Outcome:
        self._definitions.define_node(node, w, ctx)
        return Outcome([w])

    # --- branches

    def _if(self, node: cst.If, w: World, ctx: Context) -> Outcome:
        out = Outcome()
        last: list[World] = []  # in which the program ends here
        mode = self._domain.branches.asked_by(node.test)
        one_sided = _exits(node.body) or (isinstance(node.orelse, cst.Else) and _exits(node.orelse.body))
        before, was_periodic, was_either, was_varying = w.within
        checked, w.device_checked = w.device_checked, w.device_checked or self._domain.branches.asks_device(node.test)
        periodic = bool(ctx.iteration) and self._domain.branches.is_periodic(node.test, w, ctx)
        either = periodic and (not was_periodic or was_either) and self._domain.branches.either_walks(node.test, ctx)
        assumed = set(w.assumed)
        ways = self._conditions.decide(node.test, w, ctx)
        varying = bool(ctx.iteration) and any(
            _is_of_iteration(world.assumed.keys() - assumed, ctx) for _, world in ways
        )
        if periodic and len({taken for taken, _ in ways}) > 1:
            self._take_turns(node, ways, ctx)
        affirmed = not _is_denied(node.test)
        for taken in (affirmed, not affirmed):  # in one order, whichever way the condition is written
            # A long condition may turn out the same for several reasons, which make no difference to its branch.
            worlds = self.fewer([world for way, world in ways if way is taken])
            body = node.body if taken else (node.orelse.body if isinstance(node.orelse, cst.Else) else node.orelse)
            for world in worlds:
                settled = mode and self._domain.branches.settled_by(node.test, taken)
                walks = either if periodic else was_either
                world.within = (before or settled, was_periodic or periodic, walks, was_varying or varying)
            branch = Outcome(worlds)
            if body is not None and worlds:
                branch.normal = []
                self.statements(body, worlds, ctx, branch)
            for end in branch.normal:
                end.device_checked = checked
                settled = mode and one_sided and self._domain.branches.settled_by(node.test, taken)
                walks = either if periodic and one_sided else was_either
                after = was_periodic or (periodic and one_sided), walks, was_varying or (varying and one_sided)
                end.within = (before or settled, *after)
            if body is not None and _ends_program(body):
                last += branch.normal
            else:
                out.normal += branch.normal
            out.absorb(branch)
        out.normal = out.normal or last
        if mode:
            self._domain.branches.branched(node, out.normal, ctx)
        return out

    def _take_turns(self, node: cst.If, ways: list[tuple[bool, World]], ctx: Context) -> None:
        """Some iterations are sure to take the one way, and some the other."""
        if all(self._domain.branches.is_periodic_alone(node.test, world, ctx) for _, world in ways[:1]):
            for taken, world in ways:
                world.turns = {**world.turns, (id(node), ctx.key): taken}
        last = self._domain.branches.asks_for_last(node.test, ctx)
        if last is not None:
            for world in (world for taken, world in ways if taken is last):
                world.turns = {**world.turns, LAST: ctx.loop}

    def _match(self, node: cst.Match, w: World, ctx: Context) -> Outcome:
        subject = w.resolve(self._execution.evaluate(node.subject, w, ctx))
        out, most = Outcome(), _CASES
        left = w.alternatives(subject) if isinstance(subject, Choice) else [(subject, w)]
        for case in node.cases:
            ways = [(way, value) for value, world in left for way in self._patterns.decide(case, value, world, ctx)]
            taken = self.fewer([world for (matched, world), _ in ways if matched])
            left = [(value, world) for (matched, world), value in ways if not matched]
            if taken:
                out.absorb(branch := self.block(case.body.body, taken, ctx))
                out.normal += branch.normal
                if len(out.normal) > most and not any(world.raised for world in out.normal):
                    out.normal = reduce(out.normal, len(out.normal), self._liveness.after(node, ctx))
                    most = max(_CASES, 2 * len(out.normal))
        out.normal += [world for _, world in left]
        return out

    # --- try

    def _try(self, node: cst.Try, w: World, ctx: Context) -> Outcome:
        entry = w.copy()
        out = self.block(node.body.body, [w], ctx)
        if node.orelse is not None and out.normal:
            rest = self.block(node.orelse.body.body, out.normal, ctx)
            out.normal = rest.normal
            out.absorb(rest)
        for handler in node.handlers:
            if self._only_import_error(handler, node):
                continue
            world = entry.copy()
            if handler.name is not None:
                self.bind(handler.name.name, new_unknown("except", "error"), world, ctx, handler)
            caught = self.block(handler.body.body, [world], ctx)
            if not out.normal or not _ends_program(handler.body):
                out.normal += caught.normal
            out.absorb(caught)
        if not out.normal and not node.handlers:
            out.normal = []
        out.normal = self.fewer(out.normal)
        if node.finalbody is not None:
            with self._whole.partly():  # those that leave otherwise come after the others
                out = self._finally(node.finalbody, out, ctx)
        return out

    def _finally(self, final: cst.Finally, out: Outcome, ctx: Context) -> Outcome:
        done = self.block(final.body.body, out.normal, ctx)
        result = Outcome(done.normal)
        result.absorb(done)
        for world in out.breaks:
            result.breaks += self.block(final.body.body, [world], ctx).normal
        for world in out.continues:
            result.continues += self.block(final.body.body, [world], ctx).normal
        for world, value in out.returns:
            result.returns += [(end, value) for end in self.block(final.body.body, [world], ctx).normal]
        return result

    def _only_import_error(self, handler: cst.ExceptHandler | cst.ExceptStarHandler, node: cst.Try) -> bool:
        """``except ImportError`` stands for another installation: the first alternative is the usual one."""
        names = ("ImportError", "ModuleNotFoundError", "NameError")
        kind = handler.type
        if not any(
            isinstance(s, cst.SimpleStatementLine) and isinstance(s.body[0], (cst.Import, cst.ImportFrom))
            for s in node.body.body
        ):
            return False
        if kind is None:
            return True
        elements = [e.value for e in kind.elements] if isinstance(kind, cst.Tuple) else [kind]
        return all(isinstance(e, cst.Name) and e.value in (*names, "Exception") for e in elements)


def _is_state(total: cst.BaseExpression, ctx: Context) -> bool:
    """Whether a sum is what a forward pass makes of a value it is given: the state of a recurrent network."""
    function = ctx.function.unit if ctx.function is not None else None
    return ctx.in_forward and isinstance(total, cst.Name) and function is ctx.unit and function.name == "forward"


def _standing(worlds: list[World]) -> list[World]:
    """The worlds in which nothing raised; all of them if there is none: then something was not understood."""
    standing = [world for world in worlds if not world.raised]
    for world in worlds:
        world.raised = False
    return standing or worlds


def _is_denied(test: cst.BaseExpression) -> bool:
    """Whether a condition begins with ``not``, an odd number of times."""
    denied = False
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, denied = test.expression, not denied
    return denied


def _ends_program(body: cst.BaseSuite | cst.If) -> bool:
    """Whether a block ends by ``sys.exit()`` or the like."""
    last = body.body[-1] if not isinstance(body, cst.If) and body.body else None
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    call = last.value if type(last) is cst.Expr else None
    if type(call) is not cst.Call:
        return False
    if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name):
        return (call.func.value.value, call.func.attr.value) in (("sys", "exit"), ("os", "_exit"), ("os", "abort"))
    return isinstance(call.func, cst.Name) and call.func.value in ("exit", "quit")


def _is_of_iteration(conditions: Iterable[Hashable], ctx: Context) -> bool:
    """Whether one of these conditions asks for what was computed in this iteration of a loop."""
    return any(number > ctx.iteration for key in conditions for number in figures_in(key))


def _exits(body: cst.BaseSuite) -> bool:
    """Whether a block ends by leaving the function or the iteration."""
    last = body.body[-1] if body.body else None
    if type(last) is cst.SimpleStatementLine:
        last = last.body[-1]
    return type(last) in (cst.Return, cst.Raise, cst.Continue, cst.Break)
