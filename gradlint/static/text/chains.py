"""Names in a text that is not parsed: chains, as ``self.fc.weight`` is one, and how a file spells what it imports."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator, Mapping
from functools import lru_cache
from keyword import iskeyword
from typing import NamedTuple

from gradlint.syntax import TextError, parse

BUILTINS = frozenset(dir(builtins))

_STRING = r"'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
_CHAIN = re.compile(
    r"((?:super\([^()]*\)\s*)?(?:\.\s*)?(?<!\w)(?<!def )(?<!class )"
    rf"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*(?!\w|[\"']))(\s*\()?"
    rf"|(\b(?:[fFtT][rR]?|[rR][fFtT])(?:{_STRING}))|(?<!\w)[rRbBuU]{{0,2}}(?:{_STRING})|#[^\n]*",
    re.DOTALL,
)
_BOUND = re.compile(
    r"(?m)^[ \t]*(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)(\w+)"
    r"|^[ \t]*+((?:[\w,()*]|[ \t]++(?=[\w,()*]))++)[ \t]*+(?::[^=\n]++)?=(?!=)"
)
_LOOP = re.compile(r"\b(?:for|as)[ \t]++((?:(?!(?:as|for|in)\b)\w++|[()*]|[ \t]++(?=[\w()*]))++)[ \t]*+(?:in\b|:|,)")
_HEADER = re.compile(r"\bdef\s+\w+(?:\[[^\]]*\])?\s*\(")
_PARAMETER = re.compile(r"(?:\s|#[^\n]*\n|[*/],?)*(\w+)")
_MARK = re.compile(r"[\[({\])},]|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*")
_OPENING, _CLOSING = frozenset("[({"), frozenset("])}")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_WORD = re.compile(r"[^\W\d]\w*")
_BRACES = re.compile(r"\{([^{}]+)\}")
_SPACE = re.compile(r"\s+|\([^()]*\)")  # behind super, too


class Chain(NamedTuple):
    """A chain as it stands in a text."""

    parts: tuple[str, ...]  #: its names; the first is empty where something else stands before the first dot
    called: bool

    def resolved(self, imports: Mapping[str, str]) -> str | None:
        """The dotted name it means, by what the names of a file were imported as; None if it begins otherwise."""
        first = imports.get(self.parts[0])
        return None if first is None else ".".join((first, *self.parts[1:]))


@lru_cache(maxsize=512)  # several parts ask for those of one text
def chains_in(text: str) -> tuple[Chain, ...]:
    """The chains of a text, each once, in the order in which they first stand there."""
    found: dict[Chain, None] = {}
    for chain, called, f_string in dict.fromkeys(_CHAIN.findall(text)):
        if chain and not iskeyword(chain):
            plain = chain if chain.isidentifier() else _SPACE.sub("", chain)
            found[Chain(tuple(plain.split(".")), bool(called))] = None
        elif f_string:
            for part in _BRACES.findall(f_string):
                found.update(dict.fromkeys(chains_in(part)))
    return tuple(found)


def words_in(text: str) -> list[str]:
    """The identifiers in a text, those in comments and strings too, in order."""
    return _WORD.findall(text)


def assigned_in(text: str) -> set[str]:
    """The names that a statement may bind."""
    bound = {word for groups in _BOUND.findall(text) for group in groups for word in words_in(group)}
    bound.update(word for group in _LOOP.findall(text) for word in words_in(group))
    return bound


def parameters_in(text: str) -> set[str]:
    """The names of the parameters of a function."""
    header = _HEADER.search(text)
    found: set[str] = set()
    depth, place = 1, header.end() if header else len(text)
    while depth and (name := _PARAMETER.match(text, place)):
        found.add(name[1])
        place = name.end()
        for mark in _MARK.finditer(text, place):
            depth += (mark[0] in _OPENING) - (mark[0] in _CLOSING)
            place = mark.end()
            if not depth or (depth == 1 and mark[0] == ","):
                break
    return found


def read_from_outside(text: str) -> frozenset[str] | None:
    """The names of a function that are none of its variables, what it imports among them; None if Python rejects it."""
    try:
        tables = [symtable.symtable(standing(text), "<text>", "exec")]
    except (SyntaxError, ValueError):
        return None
    found: set[str] = set()
    for table in tables:  # which grows meanwhile; the first one is around the function, where its header is evaluated
        tables += table.get_children()
        symbols = table.get_symbols()
        found.update(symbol.get_name() for symbol in symbols if symbol.is_global() or symbol.is_imported())
    return frozenset(found)


def variables_in(text: str) -> set[str] | None:
    """The names in a statement but for keywords and the variables of comprehensions; None if Python rejects it."""
    try:
        return set(_named(parse(standing(text))))
    except TextError:
        return None


def _named(node: ast.AST) -> Iterator[str]:
    """The names in a piece of code that are no variables of comprehensions where they stand."""
    own: set[str] = set()
    if isinstance(node, _COMPREHENSIONS):
        yield from _named(node.generators[0].iter)  # which is evaluated before there are any
        parts = (part for each in node.generators for part in ast.walk(each.target))
        own = {part.id for part in parts if isinstance(part, ast.Name)}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in _named(child) if name not in own)
    names = (getattr(node, field, None) for field in ("id", "name", "asname"))
    yield from (name for name in names if isinstance(name, str))


def standing(text: str) -> str:
    """A piece of code, as it can be parsed by itself: where it is indented, something stands above it."""
    return f"if 1:\n{text}" if text[:1] in (" ", "\t") else text


@lru_cache(maxsize=8)
def imports(text: str) -> Mapping[str, str]:
    """How a file spells the modules it imports in its body, the shortest path first: torch.nn before torch."""
    found: dict[str, str] = {}
    try:
        tree = parse(text)
    except TextError:
        return found
    lost = {
        target.id
        for statement in tree.body
        for target in ast.walk(statement)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.asname is not None:
                    found.setdefault(alias.name, alias.asname)
                else:
                    top = alias.name.split(".")[0]
                    found.setdefault(top, top)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            for alias in statement.names:
                found.setdefault(f"{statement.module}.{alias.name}", alias.asname or alias.name)
    kept = {module: name for module, name in found.items() if name not in lost}
    return dict(sorted(kept.items(), key=lambda item: -item[0].count(".")))


def binds(text: str, name: str) -> bool:
    """Whether the text of a function (or of anything) gives ``name`` a meaning, be it as a parameter."""
    assigned = rf"(?:^|[^\w.]){name}\b\s*(?:=[^=]|,[^()]*=[^=]|:\s*\w)"
    parameter = rf"\bdef\b[^)]*[(,]\s*\*{{0,2}}{name}\b"
    bound = rf"\b(?:for|as|import)\s+{name}\b"
    return re.search(f"{assigned}|{parameter}|{bound}", text) is not None
