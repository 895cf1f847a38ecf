"""Files of the project: what they are called, what stands in them, and why they cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import libcst as cst

from gradlint.source import Source, SourceError
from gradlint.static.knowledge.torch_table import may_freeze
from gradlint.static.text.chains import assigned_in, words_in
from gradlint.static.text.definition_units import ClassUnit, DefinitionUnit, FunctionUnit
from gradlint.static.text.index import EMPTY, Index, index_of
from gradlint.static.text.nodes import Tree, parse_module
from gradlint.static.text.trees import Trees
from gradlint.static.text.units import Unit

#: of what libcst says
_DETAILS = re.compile(r"^parser error: error at \d+:\d+: |(?<=expected one of ).*, (?=[A-Z][a-z])")


class Module:
    """A file of the project, or a folder that is a namespace package.

    Args:
        source: its text; empty for a namespace package.
        name: its dotted name, as seen from the folder above its outermost package.
        package: the dotted name of the package its relative imports start from; empty outside of packages.
        is_package: it is an ``__init__.py`` or a namespace package.
        folder: where its submodules are; None if it can have none.
        trees: what keeps the trees of its units.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        package: str = "",
        *,
        is_package: bool = False,
        folder: Path | None = None,
        trees: Trees | None = None,
    ) -> None:
        self.source = source
        self.name = name
        self.package = package
        self.is_package = is_package
        self.folder = folder
        self.trees = trees or Trees()
        self.trees.belongs(source.text)
        self.rejected: dict[int, SourceError] = {}
        """By their first rows, why units that were needed could not be parsed."""
        self._tree: Tree | SourceError | None = None

    @property
    def path(self) -> Path:
        """The file, as it is to be shown."""
        return self.source.path

    @cached_property
    def words(self) -> frozenset[str]:
        """The identifiers in its text, those in comments and strings too."""
        return frozenset(words_in(self.source.text))

    @cached_property
    def may_freeze(self) -> bool:
        """Whether anything in it may freeze parameters."""
        return may_freeze(self.source.text)

    @cached_property
    def definitions(self) -> Mapping[str, DefinitionUnit]:
        """The functions and classes of its body by name; the first where there are several."""
        units = [unit for unit in self.units if isinstance(unit, (FunctionUnit, ClassUnit))]
        return {unit.name: unit for unit in reversed(units)}

    @property
    def units(self) -> tuple[Unit, ...]:
        """The statements of its body, in order; none if it is not Python."""
        return self.index.units

    @property
    def imports(self) -> tuple[tuple[int, str, str | None, str], ...]:
        """Its import statements; see :func:`~gradlint.static.text.index.imports_in`."""
        return self.index.imports

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that its body may bind, but for those that ``import *`` brings."""
        found = {bound for _, _, _, bound in self.imports}
        for unit in self.units:
            found.update((unit.name,) if isinstance(unit, (FunctionUnit, ClassUnit)) else assigned_in(unit.text))
        return frozenset(found)

    @property
    def index(self) -> Index:
        """What stands in its body; nothing if it is not Python."""
        return EMPTY if isinstance(self._read, SourceError) else self._read

    def check(self) -> None:
        """Raise a SourceError if it is not Python."""
        if isinstance(self._read, SourceError):
            raise self._read

    @cached_property
    def _read(self) -> Index | SourceError:
        try:
            return index_of(self)
        except SourceError as error:
            return error
        except Exception as fault:  # noqa: BLE001 -- it costs what this file tells, not what those that import it do
            told = self.error(1, 1, f"internal error: {type(fault).__name__}: {fault}")
            told.__cause__ = fault
            return told

    @property
    def tree(self) -> Tree:
        """The whole file as libcst parses it.

        Raises:
            SourceError: libcst rejects the file.
        """
        if self._tree is None:
            try:
                self._tree = Tree(parse_module(self.source.text))
            except cst.ParserSyntaxError as error:
                reason = f"it cannot be parsed, although Python can: {_DETAILS.sub('', error.message)}"
                self._tree = self.error(error.raw_line, error.raw_column + 1, reason)
            except (RecursionError, MemoryError, ValueError, TypeError) as error:
                self._tree = self.error(1, 1, f"it cannot be parsed: {type(error).__name__}: {error}")
        if isinstance(self._tree, SourceError):
            raise self._tree
        return self._tree

    def error(self, row: int, column: int, reason: str) -> SourceError:
        """What is wrong at a row of the text."""
        cell, row = self.source.place(row)
        return SourceError(self.path, row, column, reason, cell)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"
