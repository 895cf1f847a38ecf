"""What is known of libraries, as data: one file for each, ``libraries/NAME.toml``.

A file has a table for each namespace of its library, and speaks of the names in it: ``optimizers = "Lion"`` below
``[lion_pytorch]`` means ``lion_pytorch.Lion``.  Blanks separate names; all are canonical.  ``namespaces = "a b"`` makes a
table speak for these instead of the one that it is named after.  What such a table may say stands in ``KEYS``.  A file
whose name begins with ``_`` lists libraries of which a single thing is known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from gradlint.static.knowledge.ops import Conversion, Layer, Op

Words = tuple[str, ...]


class LibraryError(ValueError):
    """A data file says what nobody understands: in which file, at which key, and why."""


class Models(NamedTuple):
    """What is known of the models that a namespace builds; one below it may have a table of its own."""

    build: Words | bool = ()  #: what builds a trainable model whose inside is not known; true: whatever is called
    pretrained: bool = False  #: so do ``from_pretrained`` and the like of its classes
    others: Words = ()  #: what stands in names that build none all the same: ``Tokenizer``
    heads: Words = ()  #: the attributes under which a model may keep its last layer, whose output it gives
    headless: Words = ()  #: what stands in the names of models of which that does not hold
    parts: Words = ()  #: further attributes under which models keep modules, if anything
    bare_parts: Words = ()  #: the same of modules that may have no parameters
    parts_give_tensors: bool = False  #: what a module inside gives is a tensor, and no structure of several
    classes_option: str = (
        ""  #: functions give models with a number for each of many classes, unless told by this option
    )
    parameters: bool = False  #: the weights of the layers inside are parameters, and none of them is frozen
    batch_norm: Words = ()  #: the beginnings of names of models that have batch norm
    dropout: Words = ()  #: the same of dropout, or stochastic depth
    layer_options: Words = ()  #: the options that say which layers to use instead


class Handler(NamedTuple):
    """An object that leaves the loop to the user and makes its backward passes: what its methods do."""

    passes: Words = ()  #: they give back the first thing they are given
    passes_all: Words = ()  #: they give back all that they are given, and schedulers keep pace with their optimizers
    backward: Words = ()  #: they walk the graph of the loss they are given


class Writer(NamedTuple):
    """A log of numbers and images, which touches nothing: what its methods do."""

    shows: Words = ()  #: they write the numbers they are given
    saves: Words = ()  #: they write the images, sounds or tensors they are given
    telling: Words = ()  #: those of them by which a writer is known wherever it comes from: nothing else has them


class Hosted(NamedTuple):
    """Modules whose training loop the library runs: which methods it calls, and which it gives them."""

    bases: Words = ()  #: the base classes of such modules
    training: Words = ()  #: these methods are given a batch, and return the loss
    evaluation: Words = ()  #: these are given batches as well
    without_grad: Words = ()  #: these are called under ``no_grad``, in callbacks too
    with_grad: Words = ()  #: those whose names begin so are called while gradients are enabled
    configures: Words = ()  #: these return the optimizers
    by_hand: Words = ()  #: the attributes that say that a module makes the backward passes itself
    optimizers: Words = ()  #: methods that modules get: these give what those that configure optimizers return
    backward: Words = ()  #: these walk the graph of the loss they are given
    methods: Words = ()  #: further ones, which touch no gradient


class Apart(NamedTuple):
    """What runs a function in a process or thread of its own, by position and name of its arguments."""

    function: tuple[int, str]
    args: tuple[int, str]
    numbered: bool = False  #: the number of the process comes before the arguments
    derived: Words = ()  #: of an object of a class derived from it: the method that starts it, and what is run then


class Tried(NamedTuple):
    """What calls a function again and again, to try out settings, in the gradient mode at hand."""

    function: tuple[int, str]
    given: int  #: the number of arguments that the function is given


Read = Callable[[Any], Any]
"""What reads a value of a data file; it raises ``TypeError`` with the reason where it cannot."""


def _words(value: Any) -> Words:
    if not isinstance(value, str):
        raise TypeError("expected names, separated by blanks")
    return tuple(value.split())


def _either(value: Any) -> Words | bool:
    if value is not True and not isinstance(value, str):
        raise TypeError("expected names, separated by blanks, or true for all names of the namespace")
    return value is True or _words(value)


def _of(kind: type, meant: str) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {meant}")
        return value

    return read


_flag, _text, _number = _of(bool, "true or false"), _of(str, "a text"), _of(int, "a whole number")


def _place(value: Any) -> tuple[int, str]:
    if not isinstance(value, list) or [type(one) for one in value] != [int, str]:
        raise TypeError("expected the position and the name of an argument")
    return value[0], value[1]


def _table(read: Read) -> Read:
    """A table of values, by names of the namespace."""

    def whole(value: Any) -> dict[str, Any]:
        return {name: _inner(name, read, one) for name, one in _of(dict, "a table")(value).items()}

    return whole


def _inner(key: str, read: Read, value: Any) -> Any:
    try:
        return read(value)
    except TypeError as error:
        raise TypeError(f"{key}: {error}") from None


def _record(cls: Any) -> Read:
    """A table whose keys are the fields of a class."""

    def read(value: Any) -> Any:
        known = cls.__annotations__
        given = _of(dict, "a table")(value)
        _check_keys(given, known)
        try:
            return cls(**{key: _inner(key, _READERS[known[key].__forward_arg__], one) for key, one in given.items()})
        except TypeError as error:
            raise TypeError(str(error).replace(f"{cls.__name__}.__new__()", "it")) from None

    return read


def _check_keys(given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in given:
        if key not in known:
            raise TypeError(f"{key!r} is none of: {', '.join(known)}")


_READERS: Final[dict[str, Read]] = {
    "Words": _words,
    "Words | bool": _either,
    "bool": _flag,
    "str": _text,
    "int": _number,
    "tuple[int, str]": _place,
}
"""How the value of a field is read, by its annotation."""


def _rows(cls: type[Any]) -> Read:
    """Rows of a table of :mod:`~gradlint.static.knowledge.ops`: ``names``, and columns for all of them.

    Those of conversions are made where it is known how a name is spelled.
    """

    def read(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in _of(list, "rows, each below the key in double brackets")(value):
            columns = dict(row)
            names = _inner("names", _words, columns.pop("names", None))
            if cls is Layer and "op" in columns:
                columns["op"] = _inner("op", lambda op: Op(**_columns(Op, op)), columns["op"])
            made = _columns(cls, columns)
            made = made if cls is Conversion else cls(**made)
            found.update((name, made) for name in names)
        return found

    return read


def _columns(cls: Any, given: dict[str, Any]) -> dict[str, Any]:
    known = _column_types(cls)
    _check_keys(given, known)
    return {key: _inner(key, _column(known[key]), value) for key, value in given.items()}


def _column(kind: Any) -> Read:
    """What reads a column of a type: a list is a tuple, and so are words, and "all" is None."""

    def read(value: Any) -> Any:
        choices = get_args(kind)
        if kind is bool:
            return _flag(value)
        if kind == tuple[str, ...]:
            return _words(value)
        if isinstance(value, list):
            return tuple(value)
        if value == "all" and type(None) in choices:
            return None
        if value not in choices and kind is not str and not isinstance(value, Op):
            raise TypeError(f"{value!r} is none of: {', '.join(map(repr, choices))}")
        return value

    return read


@cache
def _column_types(cls: Any) -> dict[str, Any]:
    return {name: kind for name, kind in get_type_hints(cls).items() if name in {one.name for one in fields(cls)}}


class Key(NamedTuple):
    """What a table of a namespace may say."""

    read: Read
    meaning: str


KEYS: Final[dict[str, Key]] = {
    # other spellings
    "inner": Key(_words, "modules whose names the namespace itself gives as well"),
    "aliases": Key(_table(_text), "other names of a thing, and of all below it: the canonical one"),
    "same_as": Key(_text, "the namespace of which this one is another name"),
    # what is trained
    "models": Key(_record(Models), Models.__doc__ or ""),
    "module_bases": Key(_words, "classes whose subclasses are modules of torch"),
    "hosted": Key(_record(Hosted), Hosted.__doc__ or ""),
    "layers": Key(_rows(Layer), "layers that act like those of torch; the columns are those of ``Layer``"),
    "functions": Key(_rows(Op), "functions of tensors; the columns are those of ``Op``"),
    "wrappers": Key(_words, "classes around a module: calling one calls the module"),
    "foreign_modules": Key(_flag, "what is called a module there is none of torch"),
    # what trains
    "optimizers": Key(_words, "optimizers: the first argument is what they update"),
    "proportional": Key(_words, "those of them that go as far as the gradients are large"),
    "schedulers": Key(_words, "learning-rate schedulers: the first argument is the optimizer"),
    "schedule_lengths": Key(
        _table(_number), "the position of the argument of schedulers that tells their number of steps"
    ),
    "autocasts": Key(_words, "context managers that choose the precision"),
    "clips": Key(_words, "what changes gradients in place: the first argument is the parameters"),
    "passes": Key(_words, "what gives back its first argument, or what acts like it over the same parameters"),
    "passes_together": Key(_table(_words), "what gives back what these parameters are given: all of it, in order"),
    "handlers": Key(_table(_record(Handler)), Handler.__doc__ or ""),
    "engines": Key(_table(_number), "what gives an engine that trains, and so many other things behind it"),
    "trainers": Key(_words, "objects that run the loop, or parts of it, for the user"),
    "trainer_steps": Key(
        _table(_table(_text)), "the methods of trainers that call another one for each batch, and which"
    ),
    "callbacks": Key(_words, "base classes of callbacks: their methods are given the trainer and the model"),
    # data
    "datasets": Key(_words, "classes whose items are data: no gradient comes with them"),
    "loaders": Key(_words, "classes whose batches are data"),
    "stackable": Key(_flag, "what its data sets hold is stacked, unless a transform makes something else of it"),
    "transforms": Key(_flag, "its callables change such items, and give none of another kind"),
    "arbitrary_transforms": Key(_words, "those of them that call any function"),
    "collecting_transforms": Key(_words, "those of them that apply others"),
    "one_by_one": Key(_words, "those of these that apply one after the other, each always"),
    "tensor_transforms": Key(_words, "those of them that make a tensor of an image"),
    "image_transforms": Key(_words, "those of them that may give something else where they are given a tensor"),
    "downloads": Key(_table(_number), "what downloads to a path, with the position of the path"),
    "foreign_paths": Key(_words, "what returns the path of something from elsewhere"),
    "unpickles": Key(_words, "what gives what some other program has made, as it was: a model may be frozen"),
    "strings": Key(_words, "what holds strings that come from outside of the program"),
    # what touches neither gradients nor parameters of what it is given
    "touches_nothing": Key(_either, "what does so"),
    "touches": Key(_words, "what does not, where all the rest does"),
    "shows": Key(_words, "what prints or logs the numbers it is given"),
    "saves": Key(_words, "what writes the images, sounds or tensors it is given to a file or a log"),
    "writers": Key(_table(_record(Writer)), Writer.__doc__ or ""),
    "iterates": Key(_either, "what gives the items of the first thing it is given, one after the other"),
    "estimators": Key(_words, "methods of its classes, which learn from arrays, that convert their arguments"),
    "gives": Key(_table(_text), "the class, of the same namespace, of what a callable or an attribute gives"),
    "gives_several": Key(_table(_words), "the classes of what a callable gives together"),
    "gives_itself": Key(
        _words, "methods of such objects that give the object itself, or what it holds in another shape"
    ),
    # what calls functions that it is given
    "runs_apart": Key(_table(_record(Apart)), Apart.__doc__ or ""),
    "tries": Key(_table(_record(Tried)), Tried.__doc__ or ""),
    "calls_by_key": Key(_words, "what calls its argument ``key`` with each of the items it is given"),
    "calls_later": Key(
        _flag, "its functions and classes call what they are given as it is, later or in another thread"
    ),
    # tests
    "test_bases": Key(_words, "base classes of tests: before each of their methods that are tests, others are called"),
    "expects": Key(_words, "what gives a context manager whose body is meant to raise"),
    # arrays
    "converts": Key(_rows(Conversion), "what asks for numpy arrays; the columns are those of ``Conversion``"),
    "spelled": Key(_text, "how users spell the namespace: ``np``; else by its last part"),
    "convert_all": Key(_words, "namespaces inside of which all functions convert what they are given by position"),
    "objects_convert": Key(_flag, "its objects convert what their methods are given"),
    "fills": Key(
        _words, "what makes an array that is filled afterwards: what is stored into a part of it is converted, too"
    ),
}
"""What a table may say.  Where names are expected, and ``true`` is possible, it stands for the whole namespace."""

FOLDERS: Final = [Path(__file__).parent / "libraries"]
"""Where the data files stand."""


class Libraries:
    """What all data files say, by key."""

    def __init__(self) -> None:
        self._said: dict[str, list[tuple[str, Any]]] = {key: [] for key in KEYS}
        self._read_in: dict[str, Path] = {}

    def read(self, path: Path) -> None:
        """Add what a file says.

        Raises:
            LibraryError: it is no TOML, or says what nobody understands.
        """
        try:
            with path.open("rb") as file:
                tables = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise LibraryError(f"{path}: {error}") from None
        for name, table in tables.items():
            try:
                self._add(name, table, path)
            except TypeError as error:
                raise LibraryError(f"{path}: {name}: {error}") from None

    def _add(self, name: str, table: Any, path: Path) -> None:
        said = dict(_of(dict, "a table for each namespace")(table))
        spaces = _inner("namespaces", _words, said.pop("namespaces")) if "namespaces" in said else (name,)
        _check_keys(said, KEYS)
        for key, value in said.items():
            read = _inner(key, KEYS[key].read, value)
            self._said[key].extend((space, read) for space in spaces)
        for space in spaces:
            before = self._read_in.setdefault(space, path)
            if before != path:
                raise TypeError(f"{before} speaks for {space} already")

    # --- what a key says

    def spaces(self, key: str) -> dict[str, Any]:
        """What the key says, by namespace."""
        return dict(self._said[key])

    def each(self, key: str) -> Iterator[tuple[str, Any]]:
        """The same, where a namespace may say it more than once."""
        yield from self._said[key]

    def names(self, key: str) -> frozenset[str]:
        """The names that the key lists."""
        lists = ((space, names) for space, names in self._said[key] if names is not True)
        return frozenset(f"{space}.{name}" for space, names in lists for name in names)

    def whole(self, key: str) -> Words:
        """The namespaces of which the key is true."""
        return tuple(space for space, value in self._said[key] if value is True)

    def words(self, key: str) -> frozenset[str]:
        """The words that the key lists, which are no names of the namespace."""
        return frozenset(word for _, words in self._said[key] for word in words)

    def table(self, key: str) -> dict[str, Any]:
        """The rows of the tables below the key, by name."""
        return {f"{space}.{name}": value for space, table in self._said[key] for name, value in table.items()}


def load(*folders: Path) -> Libraries:
    """What the data files in some folders say.

    Raises:
        LibraryError: one of them cannot be understood.
    """
    libraries = Libraries()
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            libraries.read(path)
    return libraries


@cache
def known() -> Libraries:
    """What is known of libraries."""
    return load(*FOLDERS)
