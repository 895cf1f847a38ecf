"""Options of a command line: of those with a few choices, what they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradlint.static.python.collections import Collections
from gradlint.static.state.context import Arguments, Context
from gradlint.static.state.origins import Among, AttributeOf, OptionAmong
from gradlint.static.state.values import NONE, Const, Sequence, Value, new_unknown
from gradlint.static.state.world import World

if TYPE_CHECKING:
    from gradlint.finding import Site

PARSER = "argparse.ArgumentParser"
OPTIONS = "options"  #: the kind of what holds those that were given: its attributes come from the command line
_UNLIKE = frozenset(["action", "nargs"])  #: arguments with which an option is something else than one of its choices


class Options:
    """Knows the choices that options have: in a world in which a parser was given them."""

    _collections: Collections

    def declared(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``parser.add_argument("--model", choices=["a", "b"], default="a")``."""
        names = [str(name.value) for name in map(w.resolve, args.positional) if isinstance(name, Const)]
        given = args.keywords.get("choices")
        if given is None or not names or args.open or not _UNLIKE.isdisjoint(args.keywords):
            return NONE
        known = self._collections.iterate(given, w, ctx, site).known or []
        choices = tuple(choice.value for choice in known if isinstance(choice, Const))
        if choices and len(choices) == len(known) and self._is_one(names, choices, args, w):
            w.assumed[OptionAmong(_attribute(names, args, w), choices)] = True
        return NONE

    def _is_one(self, names: list[str], choices: tuple[object, ...], args: Arguments, w: World) -> bool:
        """Whether an option is sure to be one of its choices, also where it is not given."""
        if not names[0].startswith("-") or w.resolve(args.keywords.get("required", NONE)) == Const(True):
            return True
        default = w.resolve(args.keywords.get("default", NONE))
        return isinstance(default, Const) and default.value in choices

    def parsed(self, _args: Arguments, w: World, _ctx: Context, _site: Site) -> Value:
        """``parser.parse_args()``."""
        options = new_unknown("options", "options")
        for condition in list(w.assumed):
            if isinstance(condition, OptionAmong):
                w.assumed[Among(AttributeOf(options.key, condition.name), condition.values)] = True
        return options

    def parsed_some(self, args: Arguments, w: World, ctx: Context, site: Site) -> Value:
        """``parser.parse_known_args()``: the options, and what is left."""
        rest = new_unknown("options", "rest")
        return w.new(Sequence([self.parsed(args, w, ctx, site), rest], [None] * 2, None, None, False))


def _attribute(names: list[str], args: Arguments, w: World) -> str:
    """The attribute that holds an option: named as told, or as its first long name, or as its first."""
    told = w.resolve(args.keywords.get("dest", NONE))
    if isinstance(told, Const) and isinstance(told.value, str):
        return told.value
    first = next((name for name in names if name.startswith("--")), names[0])
    return first.lstrip("-").replace("-", "_")


__all__ = ["OPTIONS", "PARSER", "Options"]
