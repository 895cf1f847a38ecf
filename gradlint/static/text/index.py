"""The index of a file: which statement stands on which rows, and what patterns tell of a text; nothing is parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradlint.static.knowledge.guesses import is_misspelt
from gradlint.static.knowledge.torch_table import ACTING, OVERWRITES, RENAMING
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit, units_of
from gradlint.static.text.nodes import Tree, parse_module
from gradlint.static.text.units import StatementUnit, Unit
from gradlint.syntax import TextError, parse

if TYPE_CHECKING:
    from gradlint.static.text.files import Module


_CONTINUED = re.compile(r"[ \t\f]*+;?[ \t\f]*+\\")


@dataclass(frozen=True, slots=True)
class Index:
    """What stands in the body of a file.

    Attributes:
        units: its statements, in order.
        imports: its import statements; see :func:`imports_in`.
        executed: the level and dotted name of what those name that are executed whenever the file is imported.
        changed: the first names of what the body calls for its effect, decorates with, or assigns parts of; None
            where that is not known.
        public: the names in its ``__all__``; None where it has none, or not all of them are known.
    """

    units: tuple[Unit, ...]
    imports: tuple[tuple[int, str, str | None, str], ...] = ()
    executed: frozenset[tuple[int, str]] = frozenset()
    changed: frozenset[str] | None = None
    public: frozenset[str] | None = None


EMPTY = Index((), changed=frozenset())


def index_of(module: Module) -> Index:
    """What stands in the body of a file.

    Raises:
        SourceError: neither the running Python nor libcst, which knows newer syntax, accepts the text.
    """
    text = module.source.text
    try:
        body = parse(text).body
    except TextError as error:
        reason = module.error(error.row, error.column, error.reason)
        if error.final:
            raise reason from error
        try:
            tree = Tree(parse_module(text))
        except Exception:  # noqa: BLE001 -- libcst raises several unrelated types on text that is not Python
            raise reason from error
        return Index(units_of(tree.root, module, tree, None))
    return Index(
        _units(body, text.split("\n"), module, None),
        tuple(imports_in(body)),
        executed=frozenset(_imports_executed(body)),
        changed=frozenset(_changed_in(body)) - {""},
        public=_public(text, body),
    )


def _units(body: Sequence[ast.stmt], lines: Sequence[str], module: Module, parent: Unit | None) -> tuple[Unit, ...]:
    groups: list[tuple[list[ast.stmt], int, int]] = []
    for node in body:
        row, end_row = _first_row(node, lines), _last_row(node, lines)
        if groups and row <= groups[-1][2]:  # a = 1; b = 2
            nodes, row, _ = groups.pop()
            groups.append(([*nodes, node], row, end_row))
        else:
            groups.append(([node], row, end_row))
    return tuple(
        _unit(nodes, (row, end), place, lines, module, parent) for place, (nodes, row, end) in enumerate(groups)
    )


def _unit(
    nodes: Sequence[ast.stmt],
    rows: tuple[int, int],
    place: int,
    lines: Sequence[str],
    module: Module,
    parent: Unit | None,
) -> Unit:
    node = nodes[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        is_async = isinstance(node, ast.AsyncFunctionDef)
        return FunctionUnit(
            module,
            parent,
            name=node.name,
            is_async=is_async,
            decorator_rows=node.lineno - rows[0],
            rows=rows,
            place=place,
        )
    if isinstance(node, ast.ClassDef):
        first = _first_row(node.body[0], lines)
        inline = bool(lines[first - 1][: node.body[0].col_offset].strip())
        doc = ast.get_docstring(node, clean=False)
        header_rows = 0 if inline else first - rows[0]
        unit = ClassUnit(module, parent, name=node.name, header_rows=header_rows, doc=doc, rows=rows, place=place)
        if not inline:
            unit.set_body(_units(node.body, lines, module, unit))
        return unit
    statement = StatementUnit(module, parent, rows=rows, place=place)
    statement.is_text = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in nodes)
    statement.is_main = len(nodes) == 1 and _is_main(node)
    return statement


def _is_main(node: ast.stmt) -> bool:
    """Whether a statement does something only where its file is the program: ``if __name__ == "__main__":``."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.test, ast.Compare):
        return False
    test = node.test
    sides = {getattr(side, "id", getattr(side, "value", None)) for side in (test.left, *test.comparators)}
    return len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq) and sides == {"__name__", "__main__"}


def _first_row(node: ast.stmt, lines: Sequence[str]) -> int:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or not node.decorator_list:
        return node.lineno
    row = node.decorator_list[0].lineno  # of the expression, which may stand in parentheses on a later row than its @
    while row > 1 and not lines[row - 1].lstrip().startswith("@"):
        row -= 1
    return row


def _last_row(node: ast.stmt, lines: Sequence[str]) -> int:
    """The row on which the logical line of a statement ends."""
    row = node.end_lineno or node.lineno
    if lines[row - 1].endswith("\\"):
        rest = lines[row - 1].encode()[node.end_col_offset :].decode()  # ast counts columns in bytes
        while _CONTINUED.fullmatch(rest):
            row += 1
            rest = lines[row - 1]
    return row


def imports_in(body: Sequence[ast.stmt]) -> Iterator[tuple[int, str, str | None, str]]:
    """The import statements of a file, those inside of functions too.

    Yields:
        The level, the module, what is taken from it (None for the module itself, ``*`` for everything) and the name
        that it is bound to.
    """
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                yield (0, alias.name, None, alias.asname) if alias.asname else (0, root, None, root)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.level, node.module or "", alias.name, alias.asname or alias.name
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from imports_in(getattr(node, name, ()))
            for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                yield from imports_in(handler.body)


def named(module: str, item: str) -> str:
    """What ``from module import item`` names, which may be a module itself."""
    return module if item == "*" else f"{module}.{item}".lstrip(".")


def _imports_executed(body: Sequence[ast.stmt]) -> Iterator[tuple[int, str]]:
    """What the imports of a body name, but for those in functions and those for type checkers: level, dotted name."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, named(node.module or "", alias.name)) for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        else:
            typing = isinstance(node, ast.If) and _mentions(node.test, "TYPE_CHECKING")
            for name in ("orelse",) if typing else ("body", "orelse", "finalbody"):
                yield from _imports_executed(getattr(node, name, ()))
            for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                yield from _imports_executed(handler.body)


def _changed_in(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The first names of what a body calls for its effect, decorates with, or assigns parts of."""
    made: dict[str, str] = {}  #: by what other names begin with, those that are assigned
    for name in _changed_by(body, made):
        seen = set[str]()
        while name in made and name not in seen:
            seen.add(name)
            name = made[name]
        yield name


def _changed_by(body: Sequence[ast.stmt], made: dict[str, str]) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from map(_root, node.decorator_list)
        elif isinstance(node, ast.Expr):
            yield _root(node.value)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    made[target.id] = _root(node.value)
                else:
                    yield _root(target)
        elif not (isinstance(node, ast.If) and _mentions(node.test, "__name__")):
            for name in ("body", "orelse", "finalbody"):
                yield from _changed_by(getattr(node, name, ()), made)
            for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                yield from _changed_by(handler.body, made)


def _public(text: str, body: Sequence[ast.stmt]) -> frozenset[str] | None:
    """The names in ``__all__``, where one statement lists them."""
    if text.count("__all__") != 1:
        return None
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            items = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
            names = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            return frozenset(names) if len(names) == len(items) else None
    return None


def _root(node: ast.expr) -> str:
    """The name that an expression begins with; empty if it begins otherwise."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _mentions(test: ast.expr, name: str) -> bool:
    return any(getattr(part, "id", getattr(part, "attr", None)) == name for part in ast.walk(test))


_PLAIN = r"(?m)^[ \t]*[^\W\d](?:[\w.]|\[[^\[\]()\n]*\])*\."  #: what something is called whose attribute begins a line
STATEMENT_CALL = re.compile(rf"{_PLAIN}(\w+)\(")
NAMED_ALONE = re.compile(rf"{_PLAIN}(?:{'|'.join(sorted(ACTING))})[ \t]*(?:[;#]|$)")
_END = re.compile(r"[ \t]*(?:[;#\n]|\Z)")
_OPERATOR = r"[ \t]*(?:[-+*/@%&|^]|//|\*\*|<<|>>)=(?!=)"
_ITEM = r"\[(?![\"'][^\"'\n]*[\"']\][ \t]*[-+*/]?=).*\]"  #: under a name, there are mostly settings and figures
AUGMENTED = re.compile(
    rf"(?m)^[ \t]*[\w.]+(?:\.\w+|{_ITEM}){_OPERATOR}|^[ \t]*\w+[ \t]*-=(?!=)|^[ \t]*[\w.]+{_ITEM}[ \t]*=(?!=)"
)
AUGMENTED_NAME = re.compile(rf"(?m)^[ \t]*\w+{_OPERATOR}")
AMENDED = re.compile(r"(?m)^[ \t]*\w+[ \t]*(?:[*/]=|\+=[ \t]*[^\W\d])")
OVERWRITING = re.compile(
    r"\binplace[ \t]*=|\b(?:"
    + "|".join(sorted({name.rpartition(".")[2] for name in OVERWRITES}))
    + r")\((?:[^()\n]*,)?\s*True\s*[,)]|\b(?:"
    + "|".join(sorted(RENAMING))
    + r")\("
)
_SOFTMAX = re.compile(r"\b(?:[lL]og_?)?[sS]oftm(?:ax|in)\s*\(")
CONVERTED = re.compile(
    r"\bParameter\s*\([^\n]*\)\s*\.|\bParameter\s*\([^\n]*\n[^\n]*\)\s*\.\s*(?:to|cuda|float|half|double)\b"
)
_ASSIGNED = re.compile(r"\.(r\w{8,16})[ \t]*(?::[^=\n]+)?=(?!=)", re.IGNORECASE)
_MULTIPLIED = re.compile(r"(?:\]|,\s*\))\s*\*\s*(?![*=])")
_TIMES_LIST = re.compile(r"\*\s*\[")
_MULTIPLIES = re.compile(rf"[\w)\]]\s*{_TIMES_LIST.pattern}")
_FAR = 10_000  #: characters between the brackets of a list; of a longer one nothing is asked
_SUBSCRIPTED = re.compile(r"[\w)\]}]")
_KEPT = re.compile(
    r"\.(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*(?:list|dict|tuple|OrderedDict|zip|map)?[\[({]\s*(?![\"'\d\])}-])"
)
_KEPT_EMPTY = re.compile(r"\.(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*(?:list|dict)?[\[({]\s*[\])}]")
_LOCAL = re.compile(r"(?m)^[ \t]*(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*(?:list|dict|tuple)?[\[({]\s*(?![\"'\d-])")
_BEGUN = re.compile(r"(?m)^[ \t]*(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*(?:list|dict)?[\[({]\s*[\])}]")
_GIVEN = re.compile(r"\.\w+[ \t]*(?::[^=\n]+)?=[ \t]*(\w+)[ \t]*$", re.MULTILINE)
_RETURNED = re.compile(r"(?m)^[ \t]*return\b[ \t]*\(?[ \t]*((?:\w+[ \t]*,[ \t]*)*\w+)[ \t]*\)?[ \t]*$")
_DISPLAYED = re.compile(r"(?m)^[ \t]*return\b[ \t]*(?:list|dict|tuple)?[\[({]\s*(?![\"'\d\])}-])")
WRAPPED = re.compile(
    r"\b(?:Parameter|register_buffer|Variable)\s*\(\s*(?:\w+\s*=\s*)?(?:f?[\"'][^\"'\n]*[\"']\s*,\s*)?[\w.]+"
)
_ATTRIBUTE = re.compile(r"\bself\.\w")
BASES = re.compile(r"(?m)^class\s+\w+[^(:]*\(([^)]*)\)")
_SUPER = re.compile(r"\bsuper\s*\(\s*(\w*)[^()]*\)\s*\.\s*__init__\s*\(|\.__init__\s*\(")


def initializes_late(text: str, name: str) -> bool:
    """Whether an ``__init__`` uses its object before that of its base has run, or names another class there."""
    call = _SUPER.search(text)
    if call is None:
        return True
    return call[1] not in (None, "", name, "__class__") or _ATTRIBUTE.search(text[: call.start()]) is not None


def keeps_container(text: str, builder: str) -> bool:
    """Whether a method may keep a list, tuple or dict of layers as attribute of its object."""
    if _KEPT.search(builder):
        return True
    for name in _KEPT_EMPTY.findall(builder):
        if re.search(rf"\.{name}\s*(?:\[|\+=|\.(?:append|extend|insert|update|setdefault)\b)", text):
            return True
    return not {*_LOCAL.findall(builder)}.isdisjoint(_GIVEN.findall(builder))


def gives_container(text: str) -> bool:
    """Whether a function may return a list, tuple or dict that it fills, or several things of which one is."""
    returned = {name for names in _RETURNED.findall(text) for name in re.split(r"[ \t]*,[ \t]*", names)}
    filled = {*_LOCAL.findall(text), *_BEGUN.findall(text)}
    return _DISPLAYED.search(text) is not None or not filled.isdisjoint(returned)


def ends_statement(text: str, start: int) -> bool:
    """Whether a statement ends with the arguments of a call, which begin at ``start``."""
    depth, end = 1, start
    while end < len(text) and depth:
        depth += (text[end] in "([{") - (text[end] in ")]}")
        end += 1
    return _END.match(text, end) is not None


def repeats(text: str) -> bool:
    """Whether a list or tuple that is written out may be multiplied."""
    for end in _MULTIPLIED.finditer(text):
        depth, start, least = 1, end.start(), max(0, end.start() - _FAR)
        while start > least and depth:
            start -= 1
            depth += (text[start] in ")]}") - (text[start] in "([{")
        if depth or _SUBSCRIPTED.match(text[start - 1 : start]) is None:
            return True
    return _TIMES_LIST.search(text) is not None and _MULTIPLIES.search(text) is not None


def misspells(text: str) -> bool:
    """Whether an attribute may be assigned whose name is nearly ``requires_grad``."""
    return any(is_misspelt(name) for name in _ASSIGNED.findall(text))


def guesses(text: str) -> bool:
    """Whether a softmax may not be told its dimension."""
    for call in _SOFTMAX.finditer(text):
        depth, commas, end = 1, 0, call.end()
        while end < len(text) and depth:
            depth += (text[end] in "([{") - (text[end] in ")]}")
            commas += depth == 1 and text[end] == ","
            end += 1
        inside = text[call.end() : end - 1]
        if "dim" not in inside and "axis" not in inside and not commas:
            return True
    return False


INIT_SUBCLASS = "__init_subclass__"  #: the method that a class has called with those that are derived from it

_KEEPS = re.compile(r"\][ \t]*=(?!=)|\.(?:add|append|insert|extend|update|setdefault|register\w*)\(|\bsetattr\(")
_DECORATORS = re.compile(r"(?m)\s*@(?:.*\n)+?(?=[ \t]*(?:async[ \t]+def|def|class)\b)")


def may_store_argument(unit: Unit) -> bool:
    """Whether a definition may keep what it is given; an object that a statement binds may."""
    return not isinstance(unit, FunctionUnit) or _KEEPS.search(unit.text) is not None


def decorators_in(unit: Unit) -> str:
    """The text before the header of a definition."""
    found = _DECORATORS.match(unit.text)
    return "" if found is None else found[0]
