"""What patterns tell of a text, before anything is parsed."""

from __future__ import annotations

import re

from gradlint.static.knowledge.guesses import is_misspelt
from gradlint.static.knowledge.torch_table import OVERWRITES, RENAMING
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.units import Unit

STATEMENT_CALL = re.compile(r"(?m)^[ \t]*[^\W\d](?:[\w.]|\[[^\[\]()\n]*\])*\.(\w+)\(")
_END = re.compile(r"[ \t]*(?:[;#\n]|\Z)")
_OPERATOR = r"[ \t]*(?:[-+*/@%&|^]|//|\*\*|<<|>>)=(?!=)"
_ITEM = r"\[(?![\"'][^\"'\n]*[\"']\][ \t]*[-+*/]?=).*\]"  #: under a name, there are mostly settings and figures
AUGMENTED = re.compile(
    rf"(?m)^[ \t]*[\w.]+(?:\.\w+|{_ITEM}){_OPERATOR}|^[ \t]*\w+[ \t]*-=(?!=)|^[ \t]*[\w.]+{_ITEM}[ \t]*=(?!=)"
)
AUGMENTED_NAME = re.compile(rf"(?m)^[ \t]*\w+{_OPERATOR}")
AMENDED = re.compile(r"(?m)^[ \t]*\w+[ \t]*[*/]=")
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
_MULTIPLIES = re.compile(r"[\w)\]]\s*\*\s*\[")
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
    return _MULTIPLIES.search(text) is not None


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
