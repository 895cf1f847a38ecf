"""Where the nodes of a parsed text stand, computed in one pass when the first position is asked for."""

from __future__ import annotations

from types import TracebackType

import libcst as cst  # noqa: TC002 -- the next line imports it anyway
from libcst._nodes.internal import CodegenState  # libcst.metadata offers the same, at 0.4 s for the import

from gradlint.static.text.nodes import children

Span = tuple[int, int, int, int]  #: row, column, end row, end column; from 1, the end column exclusive


class Tree:
    """A piece of a file that libcst has parsed by itself.

    Args:
        root: what it was parsed to.
        offset: what is to be added to the rows of ``root`` to have those of the file.
    """

    __slots__ = ("__weakref__", "_parents", "_spans", "offset", "root", "units")

    def __init__(self, root: cst.Module, offset: int = 0) -> None:
        self.root = root
        self.offset = offset
        self.units: dict[int, object] = {}  #: by the identity of the node that defines them
        self._spans: dict[int, Span] | None = None
        self._parents: dict[int, cst.CSTNode] = {}

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that ``node`` is a child of; None for the root, whitespace, and what does not stand in this tree."""
        if not self._parents:
            queue: list[cst.CSTNode] = [self.root]
            while queue:
                each = queue.pop()
                for child in children(each):
                    self._parents.setdefault(id(child), each)
                    queue.append(child)
        return self._parents.get(id(node))

    def span(self, node: cst.CSTNode) -> Span | None:
        """Where ``node`` stands in the file; None if it does not stand in this tree, or is nested too deeply."""
        if self._spans is None:
            recorder = _Recorder(self.root)
            try:
                self.root._codegen(recorder)  # noqa: SLF001 -- what libcst's own PositionProvider calls
            except RecursionError:
                recorder.spans = {}
            self._spans = recorder.spans
        span = self._spans.get(id(node))
        if span is None:
            return None
        row, column, end_row, end_column = span
        return row + self.offset, column + 1, end_row + self.offset, end_column + 1


class _Recorder(CodegenState):
    """Follows the position while libcst writes a tree, and keeps where each node begins and ends.

    A node's syntactic position, which libcst announces where it differs, excludes the whitespace it owns.
    """

    def __init__(self, root: cst.Module) -> None:
        super().__init__(root.default_indent, root.default_newline)
        self.row = 1
        self.column = 0
        self.spans: dict[int, Span] = {}
        self._begun: list[tuple[int, int]] = []

    def add_token(self, value: str) -> None:
        newlines = value.count("\n")
        if newlines:
            self.row += newlines
            self.column = len(value) - value.rfind("\n") - 1
        else:
            self.column += len(value)

    def add_indent_tokens(self) -> None:
        for indent in self.indent_tokens:
            self.column += len(indent)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._begun.append((self.row, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        begun = self._begun.pop()
        if id(node) not in self.spans:
            self.spans[id(node)] = (*begun, self.row, self.column)

    def pop_trailing_newline(self) -> None:
        """Nothing stands after the last newline, and no text is kept that it could be taken from."""

    def record_syntactic_position(  # type: ignore[override]  # a context manager, if not one made of a generator
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Syntactic:
        return _Syntactic(self, node, start_node, end_node)


class _Syntactic:
    __slots__ = ("begun", "end_node", "node", "recorder", "start_node")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self.recorder, self.node, self.start_node, self.end_node = recorder, node, start_node, end_node

    def __enter__(self) -> None:
        self.begun = (self.recorder.row, self.recorder.column)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        recorder, spans = self.recorder, self.recorder.spans
        begun = self.begun if self.start_node is None else spans[id(self.start_node)][:2]
        ended = (recorder.row, recorder.column) if self.end_node is None else spans[id(self.end_node)][2:]
        spans[id(self.node)] = (*begun, *ended)
