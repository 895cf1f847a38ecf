"""The shape of source text that mistakes are planted in: scopes, calls, what is built, what carries a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MOVES = frozenset({"to", "cuda", "cpu", "float", "double", "half", "train", "eval"})
_WRAPPERS = frozenset({"nn.DataParallel", "torch.nn.DataParallel", "DataParallel"})
_CUTS = frozenset(
    {"detach", "item", "argmax", "max", "topk", "numpy", "tolist", "size", "data", "shape", "eq", "backward"}
)
SEQUENTIAL = frozenset({"nn.Sequential", "torch.nn.Sequential", "Sequential"})


@dataclass(frozen=True)
class Edit:
    """Characters `start` to `end` of a text are replaced."""

    start: int
    end: int
    text: str


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    """The text with the edits made."""
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


@dataclass
class Scope:
    """A function body or a module's top level, without the functions and classes inside."""

    node: Function | ast.Module
    cls: ast.ClassDef | None = None
    nodes: list[ast.AST] = field(default_factory=list)  #: all nodes, in the order of the text

    @property
    def name(self) -> str:
        """The function's name, empty for a module."""
        return "" if isinstance(self.node, ast.Module) else self.node.name

    @property
    def parameters(self) -> set[str]:
        """The names of the parameters."""
        if isinstance(self.node, ast.Module):
            return set()
        args = self.node.args
        return {a.arg for a in [*args.posonlyargs, *args.args, *args.kwonlyargs]}


class File:
    """A parsed file: its scopes, the parents of its nodes, and offsets in its text."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: list[Scope] = []
        self._starts = [0]
        for line in text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._lines = text.split("\n")
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self._collect(self.tree, None)
        self.names = {
            a.asname or a.name
            for n in ast.walk(self.tree)
            if isinstance(n, (ast.Import, ast.ImportFrom))
            for a in n.names
        }

    def _collect(self, owner: Function | ast.Module, cls: ast.ClassDef | None) -> None:
        scope = Scope(owner, cls)
        self.scopes.append(scope)

        def visit(node: ast.AST, cls: ast.ClassDef | None) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self._collect(child, cls)
                elif isinstance(child, ast.ClassDef):
                    visit(child, child)
                elif not isinstance(node, ast.ClassDef):
                    scope.nodes.append(child)
                    visit(child, cls)

        for statement in owner.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._collect(statement, cls)
            elif isinstance(statement, ast.ClassDef):
                visit(statement, statement)
            else:
                scope.nodes.append(statement)
                visit(statement, None if isinstance(owner, ast.Module) else cls)

    def offset(self, row: int, column: int) -> int:
        """The offset in characters of a row and a column in bytes of UTF-8, as `ast` counts."""
        line = self._lines[row - 1]
        return self._starts[row - 1] + len(line.encode()[:column].decode(errors="replace"))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node stands in the text."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def wrap(self, node: ast.expr, before: str, after: str) -> tuple[Edit, Edit]:
        """Put text around an expression."""
        start, end = self.span(node)
        return Edit(start, start, before), Edit(end, end, after)

    def after(self, statement: ast.stmt, text: str) -> Edit:
        """Put another simple statement behind one, on its line."""
        end = self.span(statement)[1]
        return Edit(end, end, f"; {text}")

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """Put other text in the place of a node."""
        return Edit(*self.span(node), text)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around one, innermost first, up to its function."""
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            yield parent
            parent = self.parents.get(parent)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement an expression belongs to."""
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.stmt):
            here = self.parents.get(here)
        return here

    def in_loop(self, node: ast.AST) -> bool:
        """Whether a loop of the same function is around it."""
        return any(isinstance(n, (ast.For, ast.While, ast.AsyncFor)) for n in self.above(node))

    def without_grad(self, node: ast.AST, scope: Scope) -> bool:
        """Whether a grad mode is, or may be, set around it: by a decorator or a `with`."""
        decorators = [] if isinstance(scope.node, ast.Module) else scope.node.decorator_list
        items = [item.context_expr for n in self.above(node) if isinstance(n, ast.With) for item in n.items]
        return any("grad" in ast.unparse(e) or "inference" in ast.unparse(e) for e in [*decorators, *items])


class Tree:
    """The files of a project, and what of its classes and functions the mutations need to know."""

    def __init__(self, texts: dict[Path, str]) -> None:
        self.files: dict[Path, File] = {}
        for path, text in texts.items():
            try:
                self.files[path] = File(path, text)
            except (SyntaxError, ValueError, RecursionError):
                continue
        classes = [(f, n) for f in self.files.values() for n in ast.walk(f.tree) if isinstance(n, ast.ClassDef)]
        known: set[str] = set()
        for _ in range(3):
            for _, cls in classes:
                if any(spelled(base).rpartition(".")[2] in {"Module", *known} for base in cls.bases):
                    known.add(cls.name)
        #: the modules of the project, by name, where the name is unique in its file's imports
        self.modules: dict[str, list[tuple[File, ast.ClassDef]]] = {}
        for file, cls in classes:
            if cls.name in known:
                self.modules.setdefault(cls.name, []).append((file, cls))
        self.called_in_loop = {
            spelled(node.func).rpartition(".")[2]
            for file in self.files.values()
            for node in ast.walk(file.tree)
            if isinstance(node, ast.Call) and file.in_loop(node)
        }

    def module(self, name: str, file: File) -> tuple[File, ast.ClassDef] | None:
        """The class that a name means in a file: its own, or the only one it can have imported."""
        found = self.modules.get(name, [])
        own = [each for each in found if each[0] is file]
        if own:
            return own[-1]
        return found[0] if len(found) == 1 and name in file.names else None


def spelled(node: ast.AST) -> str:
    """A name or a chain of attributes as it is written; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = spelled(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def calls(nodes: list[ast.AST], method: str) -> list[ast.Call]:
    """The calls of methods of this name."""
    return [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == method]


def unmoved(value: ast.expr) -> ast.expr:
    """What was made, under the calls that move or wrap it: `Net().to(device)`."""
    while isinstance(value, ast.Call):
        if (
            isinstance(value.func, ast.Attribute)
            and value.func.attr in _MOVES
            and isinstance(value.func.value, ast.Call)
        ):
            value = value.func.value
        elif spelled(value.func) in _WRAPPERS and value.args:
            value = value.args[0]
        else:
            break
    return value


def made(file: File, tree: Tree) -> dict[str, ast.Call]:
    """What is built in a file, by the name or attribute it is assigned to; names of several things are left out."""
    found: dict[str, list[ast.Call | None]] = {}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name, value = spelled(node.targets[0]), unmoved(node.value)
            if name and isinstance(value, ast.Call) and spelled(value.func) != f"{name}.to":
                itself = isinstance(value.func, ast.Attribute) and spelled(value.func.value) == name
                if not itself:
                    found.setdefault(name, []).append(value)
            elif name and name != spelled(value):
                found.setdefault(name, []).append(None)
    result = {}
    for name, values in found.items():
        first = values[0]
        if first is not None and all(v is not None and spelled(v.func) == spelled(first.func) for v in values):
            result[name] = first
    return result


def models(file: File, tree: Tree) -> dict[str, ast.Call]:
    """The modules of the project and the `nn.Sequential`s that are built in a file, by name."""
    return {
        name: call
        for name, call in made(file, tree).items()
        if spelled(call.func) in SEQUENTIAL or tree.module(spelled(call.func), file)
    }


def tainted(scope: Scope, seeds: set[str], file: File) -> set[str]:
    """Names whose values carry the graph of the seeds' results, in a scope."""
    carries = set(seeds)
    for _ in range(2):
        for node in scope.nodes:
            if isinstance(node, ast.Assign) and carrying(node.value, carries):
                carries |= {spelled(t) for t in node.targets if spelled(t)}
    return carries


def carrying(value: ast.AST, carries: set[str]) -> bool:
    """Whether an expression of arithmetic and plain calls carries the graph of one of these names."""
    if isinstance(value, (ast.Name, ast.Attribute)) and spelled(value) in carries:
        return True
    if isinstance(value, ast.BinOp):
        return carrying(value.left, carries) or carrying(value.right, carries)
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute):
            if value.func.attr in _CUTS:
                return False
            if carrying(value.func.value, carries):
                return True
        return any(carrying(arg, carries) for arg in value.args[:2])
    return isinstance(value, ast.Subscript) and carrying(value.value, carries)


def outputs(scope: Scope, names: dict[str, ast.Call]) -> Iterator[tuple[ast.Assign, str, ast.Call]]:
    """Statements `out = model(x)`."""
    for node in scope.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        if isinstance(node.targets[0], ast.Name) and spelled(node.value.func) in names:
            yield node, node.targets[0].id, node.value


def trained(model: str, file: File) -> bool:
    """Whether the parameters of a model are handed to an optimizer in the file."""
    return f"{model}.parameters()" in file.text


def gives_tensor(built: ast.Call, file: File, tree: Tree) -> bool:
    """Whether what a model returns is, by the look of its forward, one tensor."""
    found = tree.module(spelled(built.func), file)
    forward = [n for n in found[1].body if isinstance(n, ast.FunctionDef) and n.name == "forward"] if found else []
    returns = [n.value for f in forward for n in ast.walk(f) if isinstance(n, ast.Return)]
    plain = (ast.Name, ast.Call, ast.BinOp)
    names = {n.id for n in returns if isinstance(n, ast.Name)}
    tuples = any(
        isinstance(n, ast.Assign)
        and isinstance(n.value, (ast.Tuple, ast.List, ast.Dict))
        and spelled(n.targets[0]) in names
        for f in forward
        for n in ast.walk(f)
    )
    return found is None or (bool(returns) and all(isinstance(r, plain) for r in returns) and not tuples)


def origin(name: str, scope: Scope) -> str:
    """Whether a name is built around here or is handed to the function."""
    return "parameter" if name in scope.parameters else "built"
