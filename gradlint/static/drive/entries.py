"""Entry points: what is executed because nothing in the project calls it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress

from gradlint.events import ConvertedToNumpy, DataWritten
from gradlint.static.drive.effort import Shares
from gradlint.static.drive.receivers import Receivers
from gradlint.static.knowledge import roles
from gradlint.static.knowledge.torch_table import (
    CLEARING,
    TRAINING_STEPS,
    is_called_without_grad,
)
from gradlint.static.python.attributes import DeferredAttributes
from gradlint.static.python.bodies import Bodies, Images
from gradlint.static.python.budget import BESIDE, Budget, BudgetExceededError
from gradlint.static.python.calls import Calls
from gradlint.static.python.definitions import Definitions
from gradlint.static.python.progress import Nested, Progress, Waiting, Wholeness
from gradlint.static.report.witness import Witness
from gradlint.static.state.contents import reachable
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.reducing import reduce
from gradlint.static.state.values import (
    ESCAPED,
    OPEN,
    Class,
    Const,
    Frame,
    Function,
    Instance,
    Lambda,
    Ref,
    Value,
)
from gradlint.static.state.world import World
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, reached_from
from gradlint.static.text.files import Module
from gradlint.static.text.reach import Reach
from gradlint.static.text.triggers import Feature, Triggers, names_optimizer
from gradlint.static.text.units import StatementUnit, Unit
from gradlint.static.torch.custom_functions import CustomFunctions
from gradlint.static.torch.escapes import Escapes
from gradlint.static.torch.evaluation import Evaluation
from gradlint.static.torch.graph_retention import GraphRetention
from gradlint.static.torch.library_models import Trainers
from gradlint.static.torch.memory import Memory
from gradlint.static.torch.modules import Modules
from gradlint.static.torch.uses import Uses


class Entries:
    """Executes bodies of modules, functions that nothing calls, and the methods of classes."""

    _budget: Budget
    _progress: Progress
    _reach: Reach
    _receivers: Receivers
    _whole: Wholeness
    _witness: Witness
    _nested: Nested
    _definitions: Definitions
    _calls: Calls
    _late: DeferredAttributes
    _bodies: Bodies
    _images: Images
    _modules: Modules
    _evaluation: Evaluation
    _retention: GraphRetention
    _memory: Memory
    _uses: Uses
    _escapes: Escapes
    _trainers: Trainers
    _functions: CustomFunctions
    triggers: Triggers

    def __init__(self) -> None:
        self._idle = False  #: the object whose methods are executed was put into evaluation mode when it was built
        self._unbuilt: set[ClassUnit] = set()  #: classes that nothing had built when their methods were first executed
        self.short: list[ClassUnit] = []  #: classes that inherit methods which were not followed to their end
        self.alone: set[FunctionUnit] = set()  #: functions and methods that were executed because nothing called them

    def module(self, module: Module) -> None:
        """The body of a module, as an import executes it."""
        self._images.enter(module, World(self._images.shared))

    def main(self, module: Module) -> None:
        """The ``if __name__ == "__main__"`` parts of a module."""
        units = [u for u in module.units if isinstance(u, StatementUnit) and "__name__" in u.words]
        if not units:
            return
        world = World(self._images.shared)
        frame = self._images.enter(module, world)
        if frame is None:
            return
        world.write(frame).vars["__name__"] = Const("__main__")
        ctx = Context(module, units[0], frame).at("main", module)
        ends = self._bodies.units(list(units), [world], ctx).normal
        self._done(ends, ctx, set())

    def function(self, unit: FunctionUnit, grad: bool | None) -> None:
        """A function with unknown arguments; whether gradients are enabled where it is called is None if not known."""
        start = self._start(unit)
        if start is None:
            return
        world, ctx = start
        variables = world.find(ctx.frame)
        assert isinstance(variables, Frame)
        value = None if self._is_replaced(unit) else variables.vars.get(unit.name)
        if not isinstance(value, Function):  # the body of the module took too long to come there, or gave it up
            bare = self._definitions.function(unit, ctx)
            value = self._definitions.decorate(unit, bare, world, ctx)
            value = value if isinstance(value, Function) else bare
        if grad is None:
            world.grad = None
        world.module_checked = unit in self._progress.in_mode
        if unit not in self._progress.called:
            self.alone.add(unit)
        self._call(value, world, ctx, None)

    def lambdas(self, module: Module) -> None:
        """The lambdas that the body of a module gives a name and that nothing has called, with unknown arguments."""
        world = World(self._images.in_use)
        frame = self._images.enter(module, world)
        variables = world.find(frame) if frame is not None else None
        for value in list(variables.vars.values()) if isinstance(variables, Frame) else ():
            if isinstance(value, Lambda) and value.unit.module is module and value.site not in self._progress.applied:
                trial = world.copy()
                trial.grad = None
                ctx = Context(module, value.unit, value.frame).at("lambda", value.site)
                self._calls.call(value, Arguments(open=True), trial, ctx, value.site)

    def methods(self, unit: ClassUnit, again: Container[Unit] = (), *, unknown: bool = False) -> None:
        """The methods of a class that nothing has called, on an object that is built with unknown arguments.

        Some may be called once more: those of which something has not been executed (again).  Where building the object
        takes too long, nothing of it is to be known (unknown).
        """
        methods = self._due(unit, again)
        built = unit in self._progress.built and (unit not in self._unbuilt or bool(again))
        if built and not methods:
            return
        if not built:
            self._unbuilt.add(unit)
        start = self._start(unit)
        if start is None:
            return
        world, ctx = start
        cls = self._class_of(unit, world, ctx)
        if cls is None:
            return
        if self._definitions.role(cls) is roles.FUNCTION:
            self._functions.examine(cls, world.copy(), ctx)
        self._idle = False
        objects = self._receivers
        ends = [] if unknown else objects.built(unit, cls, world.copy(), ctx)
        ends = ends or [(world, objects.unknown(unit, cls, world))]
        self._open(cls, ends, built=built)
        shares = Shares(self._budget, self._progress, self._witness, again=bool(again))
        inherited = list(self._inherited(unit, cls, waiting=built))
        tests = [method for method in (*inherited, *methods) if objects.is_test(method, cls)]
        starts = dict.fromkeys(tests, objects.prepared(cls, ends, ctx)) if tests and not unknown else {}
        for method in inherited:
            with shares.of(method, inherited=True):
                for end, instance in starts.get(method, ends):
                    with self._whole.partly(len(ends) == 1):
                        self._method(method, cls, instance, end, ctx.at("inherited", unit, method), built=built)
        due: list[FunctionUnit] = []
        leading = [] if built else self._leading(unit, methods)
        for method in (*leading, *methods):
            called = method in self._progress.called and method not in again and method not in leading
            if called or method.name == "__init__":
                continue
            if method not in self._progress.called:
                self.alone.add(method)
            if method not in again:
                due.append(method)
            with shares.of(method):
                for end, instance in starts.get(method, ends):
                    here = end if method not in again else objects.unsettled(method, instance, end)
                    with self._whole.partly(len(ends) == 1):
                        self._method(method, cls, instance, here, ctx.at("method", method), built=built)
        if not built:  # what a class inherits may convert what its own methods make
            due += [one for name, one in self._definitions.methods(cls).items() if name not in unit.methods]
        for end, instance in ends:
            self._all_filled(due, cls, instance, end, ctx)
        self.short += [unit] if shares.are_short else []
        shares.end()

    def _open(self, cls: Class, ends: list[tuple[World, Ref]], *, built: bool) -> None:
        """Who calls the methods of an object may have done more with it than build it."""
        for end, instance in ends:
            obj: Instance = end.write(instance.id)
            obj.attrs |= self._definitions.running(cls, obj)
            obj.attrs |= {ESCAPED: Const(True)} if obj.role is roles.PLAIN else {}
            obj.attrs |= {} if built else {OPEN: Const(True)}
            if obj.role.is_model:
                self._idle = self._idle or obj.training is False
                for ref in self._modules.walk(instance, end):
                    end.write(ref.id).training = None

    def nested(self) -> None:
        """Functions that were handed on: whoever has them calls them, in whatever mode if that is no library."""
        budget = self._budget
        for waiting in self._nested.take():
            function, world, ctx = waiting.function, waiting.world, waiting.ctx
            features = self._reach.features_of_part(function.unit, function.unit.text)
            if waiting.handed:
                features |= self._reach.features_of_call(function.unit)
            if not self.triggers.any(features):
                continue
            if world.grad and not waiting.handed:
                world.grad = None
            ctx = ctx.at("nested", function.unit)
            with suppress(BudgetExceededError), budget.apart(BESIDE, briefly=not budget.ordered):
                steps = self._witness.steps
                self._call(function, world.copy(), ctx, None)
                if self._witness.steps > steps and not waiting.handed and self._is_step(waiting, features):
                    self._repeat_alone(function, world, ctx, None)
            budget.steps += budget.spent

    def _is_step(self, waiting: Waiting, features: Feature) -> bool:
        """Whether a nested function steps an optimizer from outside, and nothing around it clears gradients again.

        What the function around it clears is cleared once, before it returns the one that is called for each batch.
        """
        function = waiting.function
        frame = waiting.world.get(Ref(function.frame), Frame)
        given = frame.vars.keys() if frame is not None else ()
        if not features & Feature.STEP or not features & Feature.BACKWARD or names_optimizer(function.unit.text, given):
            return False
        around: Unit = function.unit
        while around.parent is not None:
            around = around.parent
        if waiting.returned and around is function.unit.parent and isinstance(around, FunctionUnit):
            return not (around.words_within if function.unit.takes_positional else around.words) & CLEARING
        return not around.words & CLEARING

    def _start(self, unit: Unit) -> tuple[World, Context] | None:
        world = World(self._images.in_use)
        frame = self._images.enter(unit.module, world)
        if frame is None:
            return None
        return world, Context(unit.module, unit, frame).at("entry", unit)

    def _method(
        self, method: FunctionUnit, cls: Class, instance: Ref, end: World, ctx: Context, *, built: bool
    ) -> None:
        """Run a method of an object that was just built."""
        function, obj = self._definitions.attribute(cls, method.name, end), end.get(instance, Instance)
        if not isinstance(function, Function):
            return
        self._budget.owns(method, function.unit)  # what a decorator made of it
        trial = end.copy()
        trial.module_checked = method in self._progress.in_mode
        if obj is not None and is_called_without_grad(obj.role, method.name):
            trial.grad = False
        elif method in self._progress.unrecorded or method.name in self._progress.unrecorded_names:
            trial.grad = None  # the object may be of this class
        if obj is not None and obj.role is roles.HOSTED and method.name in TRAINING_STEPS:
            self._repeat(function, trial, ctx, instance)
            return
        given, first = self._trainers.hooked(function, cls, trial), not built and self._steps_alone(method, cls)
        steps = self._witness.steps
        self._call(function, trial, ctx, instance, given, first=first)
        if self._witness.steps == steps:
            return
        if not built and not self._receivers.is_test(method, cls) and self._trains_alone(method, cls):
            self._repeat_alone(function, end.copy(), ctx, instance)

    def _due(self, unit: ClassUnit, again: Container[Unit]) -> list[FunctionUnit]:
        """The methods that a rule may report anything of and that nothing has called, or that are called again.

        Those come first that no other one calls.
        """
        walked = Feature(0) if TRAINING_STEPS.isdisjoint(unit.methods) else Feature.BACKWARD  # by the framework
        due = [
            method
            for method in unit.methods.values()
            if (method not in self._progress.called or method in again)
            and self.triggers.any(self._reach.features_of_method(method, unit) | walked)
        ]
        reached = [reached_from(unit.methods, [method.name]) - {method.name} for method in due]
        inner = frozenset[str]().union(*reached)
        return sorted(due, key=lambda method: (method.name.startswith("_"), method.name in inner, method.row))

    def _leading(self, unit: ClassUnit, due: list[FunctionUnit]) -> list[FunctionUnit]:
        """The methods that call some of those that are due: called they were, on objects of classes with other ones.

        These are steps of their own.  What does nothing with gradients may be there only to be replaced.
        """
        steps = Feature.BACKWARD | Feature.STEP
        left = {m.name for m in due if m not in self._progress.called and self._reach.features_of_call(m) & steps}
        return [
            method
            for method in unit.methods.values()
            if method in self._progress.called
            and not method.name.startswith("_")
            and left & reached_from(unit.methods, [method.name])
        ]

    def _inherited(self, unit: ClassUnit, cls: Class, *, waiting: bool) -> Iterator[FunctionUnit]:
        """The methods that a class inherits and that call some which it defines itself.

        Where something has built the class and called its methods, those that lead to one that is ``waiting`` for it.
        """
        methods = self._definitions.methods(cls)
        for name, method in methods.items() if len(methods) > len(unit.methods) else ():
            if name in unit.methods or (name.startswith("_") and name != "__call__"):
                continue
            own = [methods[other] for other in sorted(methods.mentioned_by(name) & unit.methods.keys())]
            features = self._reach.features_of_method(method, unit)
            for other in own:
                features |= self._reach.features_of_call(other)
            led_to = not waiting or any(other not in self._progress.called for other in own)
            if own and led_to and self.triggers.any(features):
                yield method

    def _all_filled(self, methods: list[FunctionUnit], cls: Class, instance: Ref, end: World, ctx: Context) -> None:
        """Call the methods that convert or write anything once more, when others may have filled what that is."""
        budget, obj = self._budget, end.get(instance, Instance)
        for method in methods:
            recorded = obj is None or not is_called_without_grad(obj.role, method.name)
            if not recorded or not self._reach.features_of_call(method) & (Feature.NUMPY | Feature.DATA):
                continue
            function = self._definitions.attribute(cls, method.name, end)
            if isinstance(function, Function):
                with suppress(BudgetExceededError), budget.apart(BESIDE, briefly=not budget.ordered):
                    self._filled(function, cls, instance, end, ctx)
                budget.steps += budget.spent

    def _filled(self, function: Function, cls: Class, receiver: Ref, world: World, ctx: Context) -> None:
        """Call a method once others may have filled what is empty when the object is built: what it does with that.

        Raises:
            BudgetExceededError: it takes too long, and nothing is told of it.
        """
        filled = self._late.filled(receiver, cls, function.unit, world, ctx)
        if filled is None:
            return
        with self._witness.apart():
            self._witness.only = (ConvertedToNumpy, DataWritten)
            try:
                self._call(function, filled, ctx.at("filled", function.unit), receiver)
            finally:
                self._witness.only = None

    def _trains_alone(self, method: FunctionUnit, cls: Class) -> bool:
        """Whether a method steps the optimizer that its object keeps, and no other is there to clear gradients.

        Nothing in the project builds the object; whoever does calls the method once for each batch.
        """
        features = self._reach.features_of_call(method)
        if not features & Feature.STEP or not features & Feature.BACKWARD:
            return False
        methods = self._definitions.methods(cls)
        reached = methods.mentioned_by(method.name)
        given = {name: methods[name].parameters if name != method.name else frozenset() for name in reached}
        if any(names_optimizer(methods[name].text, methods.keys() | given[name]) for name in reached):
            return False  # it has one of its own, or is given one
        return not any(methods[name].words & CLEARING for name in methods.keys() - reached)

    def _steps_alone(self, method: FunctionUnit, cls: Class) -> bool:
        """Whether no other method steps an optimizer: before this one is called first, nothing has been stepped."""
        methods = self._definitions.methods(cls)
        others = methods.keys() - methods.mentioned_by(method.name)
        return not any(self._reach.features_of_call(methods[name]) & Feature.STEP for name in others)

    def _class_of(self, unit: ClassUnit, world: World, ctx: Context) -> Class | None:
        variables = world.find(ctx.frame)
        assert isinstance(variables, Frame)
        cls = self._definitions.klass(unit, world, ctx) if self._is_replaced(unit) else variables.vars.get(unit.name)
        if not isinstance(cls, Class):
            cls = self._definitions.seen_classes.get(unit)
        return None if cls is None or world.find(cls.scope) is None else cls

    def _is_replaced(self, unit: FunctionUnit | ClassUnit) -> bool:
        """Whether another definition further down in its file has its name, which is what bears that in the end."""
        named = self._reach.scope(unit.module).defined.get(unit.name, ())
        last = next((other for other in reversed(named) if isinstance(other, (FunctionUnit, ClassUnit))), unit)
        return last is not unit

    def _repeat_alone(self, function: Function, world: World, ctx: Context, receiver: Value | None) -> None:
        """As :meth:`_repeat`, where all else was told of a single call."""
        self._witness.repeated = True
        try:
            self._repeat(function, world, ctx, receiver)
        finally:
            self._witness.repeated = False

    def _repeat(self, function: Function, world: World, ctx: Context, receiver: Value | None) -> None:
        """A framework calls this method again and again."""
        worlds = [world]
        for number in range(4):
            here = ctx.at("again", number, peeled=True).iterating(("again", function.unit))
            with self._whole.partly():  # worlds come one after the other
                results = [r for w in worlds for r in self._results(function, w, here, receiver)]
                self._trainers.returned(receiver, function.unit.name, results, here, function.unit.here)
            worlds = reduce([w for w, _ in results], 4)

    def _results(
        self, function: Function, world: World, ctx: Context, receiver: Value | None, args: Arguments | None = None
    ) -> list[tuple[World, Value]]:
        given = Arguments(open=True) if args is None else args
        return self._calls.function(function, given, world, ctx, function.unit.here, receiver)

    def _call(
        self,
        function: Function,
        world: World,
        ctx: Context,
        receiver: Value | None,
        args: Arguments | None = None,
        *,
        first: bool = False,
    ) -> None:
        """Call what nothing in the project calls; the first time, what the receiver has built has not been stepped."""
        before = set(world.heap)
        self._history_unknown(world, first=first)
        results = self._results(function, world, ctx, receiver, args)
        module = world.get(receiver, Instance) if receiver is not None and function.unit.name == "forward" else None
        if module is not None and module.role is roles.MODULE and not self._idle:
            self._memory.handed_on(results, ctx, function.unit.here)
        escaped: set[int] = set()
        for end, value in results:
            self._evaluation.escaped([value], end)
            self._uses.escaped([value], end)
            owner = end.get(receiver, Instance) if receiver is not None else None
            kept = [value, *(owner.attrs.values() if owner is not None else ())]
            self._evaluation.left(kept, end)
            self._retention.escaped(kept, end)
            escaped |= reachable([value, *([receiver] if receiver else []), *end.bound.values()], end)
        self._done([end for end, _ in results], ctx, escaped | before)

    def _history_unknown(self, world: World, *, first: bool) -> None:
        """What was done with the optimizers at hand before this entry point is called is not known.

        The first time (first), those that were built for it have not stepped.
        """
        left = [key for module in world.modules for key in self._images.optimizers.get(module, ())]
        built = [key for key, obj in world.having(roles.OPTIMIZER)]
        for key in dict.fromkeys([*left, *built]):
            current = world.get(Ref(key), Instance)
            if current is not None:
                is_new = first and key not in left
                self._escapes.doubt(current.groups, [] if is_new else [Ref(key)], world)

    def _done(self, worlds: Iterable[World], ctx: Context | None, escaped: set[int]) -> None:
        """The end of an entry point: gradients of inputs that nothing else can reach are never read."""
        if ctx is not None:
            for world in worlds:
                self._witness.inputs_done((key for key in world.heap if key not in escaped), world, ctx)
