"""Arguments: evaluated at the call, and bound to the parameters of what is called."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from gradlint.static.knowledge.torch_layers import LOSSES
from gradlint.static.python.domain import Domain
from gradlint.static.python.execution import Execution
from gradlint.static.python.streams import Streams
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Parameter
from gradlint.static.state.provenance import from_module
from gradlint.static.state.values import (
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Sequence,
    Unknown,
    Value,
    new_unknown,
)
from gradlint.static.state.world import World


class Binding:
    """Evaluates arguments and binds them."""

    _domain: Domain
    _execution: Execution
    _streams: Streams

    def arguments(self, node: cst.Call, w: World, ctx: Context) -> Arguments:
        """Evaluate the arguments of a call, unpacking known ``*args`` and ``**kwargs``."""
        args = Arguments()
        for arg in node.args:
            value = w.resolve(self._execution.evaluate(arg.value, w, ctx))
            if arg.star == "*":
                self._streams.used(value, "this call", w, ctx, ctx.site(arg.value))
                items = self._execution.iterate(value, w, ctx, ctx.site(arg.value))
                if items.known is None:
                    sequence = w.get(value, Sequence)
                    if sequence is not None and sequence.items and sequence.tail is not None and not args.open:
                        args.positional += sequence.items  # these come first, however many there are
                        sequence = Sequence([], [], sequence.tail, sequence.tail_site, False)
                        value = w.new(sequence)
                    args.rest = value if not args.open else None
                    args.open, args.last = True, sequence.ending if sequence is not None else None
                    if sequence is not None and sequence.tail is not None:
                        args.unpacked += [*sequence.items, sequence.tail]
                else:
                    args.positional += items.known
            elif arg.star == "**":
                mapping = w.get(self._execution.dict_in(value, w), Mapping)
                if mapping is None or mapping.tail is not None:
                    args.open = True
                if mapping is not None:
                    for key, item in mapping.items.items():
                        if isinstance(key, Const) and isinstance(key.value, str):
                            args.keywords[key.value] = item
            elif arg.keyword is not None:
                args.keywords[arg.keyword.value] = value
            else:
                args.positional.append(value)
                args.last, args.rest = value if args.open else None, None
        return args

    def bind(self, fn: Function, args: Arguments, w: World, here: Context) -> None:
        """Bind the arguments of a call to the parameters of its frame."""
        params = fn.unit.node.params
        variables = w.write(here.frame).vars
        keywords = dict(args.keywords)
        position = 0
        given = args.positional + self._unpacked(params, args, w, here)
        for param in (*params.posonly_params, *params.params):
            name = param.name.value
            if position < len(given):
                variables[name] = given[position]
            elif name in keywords:
                variables[name] = keywords.pop(name)
            else:
                variables[name] = self._default(fn, param, args.open, w, here)
            position += 1
        if isinstance(params.star_arg, cst.Param):
            rest = given[position:]
            tail = new_unknown("args") if args.open else None
            sequence = Sequence(list(rest), [None] * len(rest), tail, None, False)
            variables[params.star_arg.name.value] = w.new(sequence)
        for param in params.kwonly_params:
            name = param.name.value
            if name in keywords:
                variables[name] = keywords.pop(name)
            else:
                variables[name] = self._default(fn, param, args.open, w, here)
        if params.star_kwarg is not None:
            tail = new_unknown("kwargs") if args.open else None
            items: dict[Value, Value] = {Const(key): value for key, value in keywords.items()}
            variables[params.star_kwarg.name.value] = w.new(Mapping(items, tail))
        outside = self.around(fn, here)
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            self._domain.values.annotated(variables[param.name.value], param.annotation, w, outside)

    def _unpacked(self, params: cst.Parameters, args: Arguments, w: World, here: Context) -> list[Value]:
        """What parameters without a default are given of a last ``*values`` of which the number is not known."""
        if args.rest is None:
            return []
        left = [*params.posonly_params, *params.params][len(args.positional) :]
        count = 0
        while count < len(left) and left[count].default is None and left[count].name.value not in args.keywords:
            count += 1
        values = self._execution.unpack(args.rest, count, [False] * count, w, here)
        return [] if any(isinstance(value, Unknown) and not from_module(value) for value in values) else values

    def _default(self, fn: Function, param: cst.Param, open_: bool, w: World, here: Context) -> Value:
        """What a parameter is that is given nothing; where that is not known, a loss of torch is taken as it is."""
        name = param.name.value
        if param.default is not None and (not open_ or type(param.default) in (cst.Call, cst.Attribute)):
            default = self._execution.evaluate(param.default, w, self.around(fn, here))
            if not open_ or self._is_loss(default, w):
                return default
        return Unknown(Parameter(fn.unit, name, here.key), name)

    def _is_loss(self, value: Value, w: World) -> bool:
        if isinstance(value, External):
            return value.name in LOSSES
        obj = w.get(value, Instance)
        return obj is not None and obj.loss is not None

    def around(self, fn: Function, here: Context) -> Context:
        """Where the header of a function is evaluated: around its body."""
        return replace(here, frame=fn.frame, function=None, parent=None)
