"""Mistakes that can be planted in correct training code, one at a time: where each fits, and where it must be found.

The sites are found by the shape of the source alone, with `ast` and nothing of gradlint, so that what is measured
does not depend on what is to be measured.  A site is passed over where the change would not surely be a mistake:
gradients that are accumulated, outputs that no backward pass reaches, conversions under `no_grad`, losses that are not
known to be cross-entropy.  Every edit stays on its line: the rows of a mutant are those of the original.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shapes import (
    SEQUENTIAL,
    Edit,
    File,
    Scope,
    Tree,
    calls,
    carrying,
    gives_tensor,
    made,
    models,
    origin,
    outputs,
    spelled,
    tainted,
    trained,
)

_CROSS_ENTROPY = frozenset({"nn.CrossEntropyLoss", "torch.nn.CrossEntropyLoss", "CrossEntropyLoss"})
_CROSS_ENTROPY_FUNCTIONS = frozenset(
    {"F.cross_entropy", "nn.functional.cross_entropy", "torch.nn.functional.cross_entropy"}
)


@dataclass(frozen=True)
class Mutant:
    """One planted mistake: a finding of `code` is expected in `path` on one of `rows`."""

    code: str
    how: str
    changed: Path
    edits: tuple[Edit, ...]
    path: Path
    rows: frozenset[int]
    model: str = ""  #: where what it is planted on comes from: "built" in the file, a "parameter", or not told

    @property
    def row(self) -> int:
        """The first line on which the mistake may be found."""
        return min(self.rows)


# --- GL201


def missing_zero_grad(file: File, tree: Tree) -> Iterator[Mutant]:
    """Delete the statements that clear the gradients of one optimizer."""
    for scope in file.scopes:
        steps, clears, backwards = (calls(scope.nodes, name) for name in ("step", "zero_grad", "backward"))
        owners = {ast.unparse(c.func.value) for c in clears if isinstance(c.func, ast.Attribute)}
        stepped = {ast.unparse(c.func.value) for c in steps if isinstance(c.func, ast.Attribute)}
        for owner in sorted(owners & stepped):
            mine = [c for c in clears if ast.unparse(c.func.value) == owner]
            own_steps = [c for c in steps if ast.unparse(c.func.value) == owner]
            others = owners - stepped
            statements = [file.statement(c) for c in mine]
            if others or not backwards or not all(isinstance(s, ast.Expr) for s in statements):
                continue
            around = [n for c in [*mine, *own_steps] for n in file.above(c)]
            if any(isinstance(n, ast.If) and "%" in ast.unparse(n.test) for n in around):
                continue  # accumulation
            looped = [c for c in own_steps if file.in_loop(c)] or scope.name in tree.called_in_loop
            remade = any(
                spelled(t) == owner
                for n in scope.nodes
                if isinstance(n, ast.Assign)
                for t in n.targets
                if file.in_loop(n)
            )
            if (
                not looped
                or remade
                or "_grad = None" in file.text
                or ".grad = None" in file.text
                or "closure" in file.text
            ):
                continue
            rows = frozenset(r for c in [*backwards, *own_steps] for r in range(c.lineno, (c.end_lineno or 0) + 1))
            edits = tuple(file.replace(s, "pass") for s in statements if s is not None)
            yield Mutant("GL201", "cleared no more", file.path, edits, file.path, rows, origin(owner, scope))


# --- GL301, GL308


def _cross_entropies(file: File, tree: Tree) -> Iterator[tuple[Scope, ast.Call]]:
    built = {name for name, call in made(file, tree).items() if spelled(call.func) in _CROSS_ENTROPY}
    for scope in file.scopes:
        for node in scope.nodes:
            if isinstance(node, ast.Call) and len(node.args) >= 2 and not isinstance(node.args[0], ast.Starred):
                name = spelled(node.func)
                direct = isinstance(node.func, ast.Call) and spelled(node.func.func) in _CROSS_ENTROPY
                if direct or name in built | _CROSS_ENTROPY_FUNCTIONS:
                    yield scope, node


def _softened(function: str, layer: str, code: str) -> Callable[[File, Tree], Iterator[Mutant]]:
    def mutants(file: File, tree: Tree) -> Iterator[Mutant]:
        known = models(file, tree)
        for scope, loss in _cross_entropies(file, tree):
            logits = loss.args[0]
            rows = frozenset(range(loss.lineno, (loss.end_lineno or 0) + 1))
            where = (file.path, rows)
            if "torch" in file.names:
                yield Mutant(
                    code, "around the argument", file.path, file.wrap(logits, f"torch.{function}(", ", dim=1)"), *where
                )
            producer = logits if isinstance(logits, ast.Call) else None
            for assign, name, call in outputs(scope, known):
                if isinstance(logits, ast.Name) and name == logits.id and assign.lineno < loss.lineno:
                    producer = call
                    if "torch" in file.names:
                        edits = file.wrap(call, f"torch.{function}(", ", dim=1)")
                        yield Mutant(
                            code, "around the model's call", file.path, edits, *where, origin(spelled(call.func), scope)
                        )
            if producer is None or spelled(producer.func) not in known:
                continue
            built, source = known[spelled(producer.func)], origin(spelled(producer.func), scope)
            if spelled(built.func) in SEQUENTIAL:
                last = built.args[-1] if built.args else None
                if last is not None and not isinstance(last, ast.Starred) and "oftmax" not in ast.unparse(last):
                    prefix = spelled(built.func).removesuffix("Sequential")
                    end = file.span(last)[1]
                    edits = (Edit(end, end, f", {prefix}{layer}(dim=1)"),)
                    yield Mutant(code, "at the end of the Sequential", file.path, edits, *where, source)
                continue
            found = tree.module(spelled(built.func), file)
            if found is not None:
                home, network = found
                yield from _returned(home, network, function, code, where, source)

    return mutants


def _returned(
    other: File, cls: ast.ClassDef, function: str, code: str, where: tuple[Path, frozenset[int]], source: str
) -> Iterator[Mutant]:
    forward = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
    if forward is None or "torch" not in other.names:
        return
    returns = [n for n in ast.walk(forward) if isinstance(n, ast.Return) and n.value is not None]
    if any(isinstance(r.value, (ast.Tuple, ast.Dict)) for r in returns) or not returns:
        return
    edits = tuple(
        e for r in returns if r.value is not None for e in other.wrap(r.value, f"torch.{function}(", ", dim=1)")
    )
    if not any(word in ast.unparse(forward) for word in ("softmax", "loss")):
        how = "in the model's forward" if where[0] == other.path else "in the model's forward, in another file"
        yield Mutant(code, how, other.path, edits, *where, source)


# --- GL401


def dropout_without_training(file: File, tree: Tree) -> Iterator[Mutant]:
    """Drop `training=self.training`; put a dropout without it at the end of a forward."""
    functional = next((n for n in ("F", "functional") if n in file.names), None)
    functional = functional or ("nn.functional" if "nn" in file.names else None)
    for scope in file.scopes:
        if scope.cls is None or tree.module(scope.cls.name, file) is None:
            continue
        for node in scope.nodes:
            if isinstance(node, ast.Call) and spelled(node.func).rpartition(".")[2] in ("dropout", "dropout2d"):
                given = [k for k in node.keywords if k.arg == "training" and ast.unparse(k.value) == "self.training"]
                if given and node.args:
                    start = file.span(node.args[-1] if len(node.keywords) == 1 else node.keywords[-2].value)[1]
                    if node.keywords[-1] is given[0]:
                        edits = (Edit(start, file.span(given[0].value)[1], ""),)
                        yield Mutant("GL401", "training dropped", file.path, edits, file.path, frozenset({node.lineno}))
        last = scope.node.body[-1]
        if scope.name != "forward" or not isinstance(last, ast.Return) or last.value is None or not functional:
            continue
        if not isinstance(last.value, (ast.Tuple, ast.Dict)) and "loss" not in ast.unparse(last.value):
            edits = file.wrap(last.value, f"{functional}.dropout(", ", 0.5)")
            rows = frozenset(range(last.lineno, (last.end_lineno or 0) + 1))
            yield Mutant("GL401", "dropout inserted", file.path, edits, file.path, rows)


# --- GL101, GL110


def data_mutation(file: File, tree: Tree) -> Iterator[Mutant]:
    """Change a model's output through `.data` between forward and backward."""
    known = models(file, tree)
    for scope in file.scopes:
        backwards = calls(scope.nodes, "backward")
        for statement, name, call in outputs(scope, known):
            ends = [b for b in backwards if b.lineno > statement.lineno]
            if not ends or file.without_grad(statement, scope) or not isinstance(ends[0].func, ast.Attribute):
                continue
            model = spelled(call.func)
            if not (trained(model, file) and gives_tensor(known[model], file, tree)):
                continue
            if any(again is not statement and other == name for again, other, _ in outputs(scope, known)):
                continue  # which of them reaches the backward pass cannot be told by its name
            if not carrying(ends[0].func.value, tainted(scope, {name}, file) - {""}):
                continue
            edits = (file.after(statement, f"{name}.data.mul_(0.5)"),)
            model = origin(spelled(call.func), scope)
            yield Mutant(
                "GL101", "output changed", file.path, edits, file.path, frozenset({statement.end_lineno or 0}), model
            )


def parameter_data_mutation(file: File, tree: Tree) -> Iterator[Mutant]:
    """Change parameters through `.data`: initialisation, clipping, and updates written for `no_grad`."""
    for scope in file.scopes:
        for node in scope.nodes:
            yield from _initialised(file, scope, node, tree)
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
            ):
                call, how = node.value, node.value.func
                owner = spelled(how.value)
                known = models(file, tree)
                if how.attr == "step" and file.in_loop(node) and not call.args and known:
                    model = next((m for m in known if origin(m, scope) == "built" and _visible(m, scope)), None)
                    if model and owner and "optim" in owner.lower():
                        row = node.end_lineno or 0
                        edits = (file.after(node, f"[p.data.clamp_(-1, 1) for p in {model}.parameters()]"),)
                        yield Mutant("GL110", "clipped", file.path, edits, file.path, frozenset({row}), "built")


def _visible(name: str, scope: Scope) -> bool:
    return name.startswith("self.") == (scope.cls is not None) and (
        name.startswith("self.")
        or isinstance(scope.node, ast.Module)
        or any(isinstance(n, ast.Name) and n.id == name for n in scope.nodes)
    )


def _initialised(file: File, scope: Scope, node: ast.AST, tree: Tree) -> Iterator[Mutant]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        name = spelled(call.func)
        weight = call.args[0] if call.args else None
        if (
            "init." in name
            and name.endswith("_")
            and isinstance(weight, ast.Attribute)
            and weight.attr in ("weight", "bias")
        ):
            edits = (file.replace(node, f"{ast.unparse(weight)}.data.normal_(0, 0.02)"),)
            yield Mutant(
                "GL110",
                "initialised",
                file.path,
                edits,
                file.path,
                frozenset({node.lineno}),
                "parameter" if name.partition(".")[0] in scope.parameters else "",
            )
    if scope.name != "__init__" or scope.cls is None or not tree.module(scope.cls.name, file):
        return
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        layer, kind = spelled(node.targets[0]), spelled(node.value.func)
        if layer.startswith("self.") and kind in ("nn.Linear", "nn.Conv2d", "torch.nn.Linear"):
            edits = (file.after(node, f"{layer}.weight.data.normal_(0, 0.02)"),)
            rows = frozenset({node.end_lineno or 0})
            yield Mutant("GL110", "a layer initialised", file.path, edits, file.path, rows)


# --- GL501, GL502


def numpy_on_grad(file: File, tree: Tree) -> Iterator[Mutant]:
    """Convert what requires grad: no `detach()`, no `item()` on a collected loss, or right after forward."""
    known = models(file, tree)
    for scope in file.scopes:
        yield from _converted_output(file, tree, scope, known)
        seeds = {name for statement, name, _ in outputs(scope, known) if not file.without_grad(statement, scope)}
        carries = tainted(scope, seeds, file) if seeds else set()
        for node in calls(scope.nodes, "detach"):
            assert isinstance(node.func, ast.Attribute)
            chain = file.parents.get(file.parents.get(node, node), node)
            numpy = any(
                "numpy" in ast.unparse(n.func) for n in [chain, *file.above(node)][:5] if isinstance(n, ast.Call)
            )
            if numpy and carrying(node.func.value, carries) and not file.without_grad(node, scope):
                start = file.span(node.func.value)[1]
                rows = frozenset(range(node.lineno, (node.end_lineno or 0) + 1))
                yield Mutant(
                    "GL501", "detach removed", file.path, (Edit(start, file.span(node)[1], ""),), file.path, rows
                )
        yield from _collected(file, scope, carries)


def _converted_output(file: File, tree: Tree, scope: Scope, known: dict[str, ast.Call]) -> Iterator[Mutant]:
    for statement, name, call in outputs(scope, known):
        model = spelled(call.func)
        found = used_whole(call, file) and trained(model, file) and gives_tensor(known[model], file, tree)
        if file.without_grad(statement, scope) or not found or not calls(scope.nodes, "backward"):
            continue
        edits = (file.after(statement, f"print({name}.cpu().numpy())"),)
        rows = frozenset({statement.end_lineno or 0})
        yield Mutant("GL501", "output converted", file.path, edits, file.path, rows, origin(spelled(call.func), scope))


def used_whole(call: ast.Call, file: File) -> bool:
    """Whether the result of a call is used as one tensor: nothing indexes the name it is assigned to."""
    statement = file.statement(call)
    assert isinstance(statement, ast.Assign)
    name = spelled(statement.targets[0])
    later = [n for n in ast.walk(file.tree) if isinstance(n, ast.Subscript) and spelled(n.value) == name]
    return not later


def _collected(file: File, scope: Scope, carries: set[str]) -> Iterator[Mutant]:
    plots = {"plot", "mean", "array", "asarray", "average"}
    for node in calls(scope.nodes, "append"):
        assert isinstance(node.func, ast.Attribute)
        kept, value = spelled(node.func.value), node.args[0] if node.args else None
        if (
            not kept
            or not isinstance(value, ast.Call)
            or not isinstance(value.func, ast.Attribute)
            or value.func.attr != "item"
        ):
            continue
        if not carrying(value.func.value, carries) or file.without_grad(node, scope):
            continue
        uses = [
            n
            for other in file.scopes
            if other is scope or kept.startswith("self.")
            for n in other.nodes
            if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr in plots
            and spelled(n.func).partition(".")[0] in ("np", "numpy", "plt")
            and any(spelled(arg) == kept for arg in n.args)
        ]
        if uses:
            edits = (Edit(file.span(value.func.value)[1], file.span(value)[1], ""),)
            rows = frozenset(r for n in uses for r in range(n.lineno, (n.end_lineno or 0) + 1))
            yield Mutant("GL501", "item removed", file.path, edits, file.path, rows | {node.lineno})


def numpy_on_cuda(file: File, tree: Tree) -> Iterator[Mutant]:
    """Convert what lies on a GPU: the model and its input are moved there, the output is not moved back."""
    known = models(file, tree)
    for scope in file.scopes:
        for statement, name, call in outputs(scope, known):
            model = spelled(call.func)
            built = known[model]
            if not call.args or isinstance(call.args[0], ast.Starred) or origin(model, scope) == "parameter":
                continue
            moved = any(f"{model}.{how}(" in file.text for how in ("to", "cuda", "cpu", "module"))
            outer = file.statement(built)
            if moved or not used_whole(call, file) or not isinstance(outer, ast.Assign):
                continue
            if not gives_tensor(built, file, tree) or not any(c is not call for c in calls(scope.nodes, "backward")):
                continue
            end = file.span(outer.value)[1]
            edits = (
                Edit(end, end, ".cuda()"),
                *file.wrap(call.args[0], "(", ").cuda()"),
                file.after(statement, f"print({name}.detach().numpy())"),
            )
            yield Mutant(
                "GL502", "moved by cuda()", file.path, edits, file.path, frozenset({statement.end_lineno or 0}), "built"
            )
            if "torch" in file.names:
                place = 'torch.device("cuda:0")'
                edits = (
                    Edit(end, end, f".to({place})"),
                    *file.wrap(call.args[0], "(", ').to("cuda")'),
                    file.after(statement, f"print({name}.detach().numpy())"),
                )
                yield Mutant(
                    "GL502",
                    "moved by to()",
                    file.path,
                    edits,
                    file.path,
                    frozenset({statement.end_lineno or 0}),
                    "built",
                )
        yield from _left_on_cuda(file, scope, known)


def _left_on_cuda(file: File, scope: Scope, known: dict[str, ast.Call]) -> Iterator[Mutant]:
    moved = {m for m, call in known.items() if f"{m}.cuda()" in file.text or _moved(file, call)}
    seeds = {name for _, name, call in outputs(scope, known) if spelled(call.func) in moved}
    for node in calls(scope.nodes, "cpu"):
        assert isinstance(node.func, ast.Attribute)
        base = node.func.value
        while isinstance(base, (ast.Call, ast.Attribute, ast.Subscript)) and spelled(base) not in seeds:
            base = base.func if isinstance(base, ast.Call) else base.value
        after = file.parents.get(node)
        if (
            seeds
            and spelled(base) in seeds
            and isinstance(after, ast.Attribute)
            and after.attr in ("numpy", "detach", "data")
        ):
            statement = file.statement(node)
            if statement is not None and "numpy" in ast.unparse(statement):
                edits = (Edit(file.span(node.func.value)[1], file.span(node)[1], ""),)
                rows = frozenset(range(node.lineno, (node.end_lineno or 0) + 1))
                yield Mutant("GL502", "cpu removed", file.path, edits, file.path, rows)


def _moved(file: File, built: ast.Call) -> bool:
    outer = file.statement(built)
    return isinstance(outer, ast.Assign) and ast.unparse(outer.value).endswith(".cuda()")


MUTATIONS: dict[str, Callable[[File, Tree], Iterator[Mutant]]] = {
    "GL101": data_mutation,
    "GL110": parameter_data_mutation,
    "GL201": missing_zero_grad,
    "GL301": _softened("softmax", "Softmax", "GL301"),
    "GL308": _softened("log_softmax", "LogSoftmax", "GL308"),
    "GL401": dropout_without_training,
    "GL501": numpy_on_grad,
    "GL502": numpy_on_cuda,
}
