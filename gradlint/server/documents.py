"""What an editor has open: files and notebooks, each with the documents of the protocol that hold its text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lsprotocol import types
from pygls import uris

from gradlint.notebook import notebook_of
from gradlint.source import Source, source_from_text

if TYPE_CHECKING:
    from pygls.workspace import TextDocument, Workspace

NOTEBOOK = ".ipynb"
#: the cells that are wanted of a notebook; an editor counts only these
SYNCHRONISED = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithCells([types.NotebookCellLanguage("python")], "*")], save=True
)


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the protocol: a file, or a code cell of a notebook."""

    uri: str
    version: int | None
    text: str
    cell: int | None = None  #: counted from 1 among all cells that the editor tells of


@dataclass(frozen=True, slots=True)
class Opened:
    """A file, or a notebook, as it stands in the editor."""

    uri: str  #: of a notebook none of its cells has
    path: Path  #: under which it is checked
    documents: tuple[Document, ...]  #: the file itself, or the code cells of the notebook in their order

    @property
    def is_notebook(self) -> bool:
        """Whether its documents are cells."""
        return self.path.suffix == NOTEBOOK

    @property
    def text(self) -> str:
        """What would be found on the disk had it been saved; of a notebook its cells alone."""
        if self.is_notebook:
            return notebook_of({each.cell: each.text for each in self.documents if each.cell is not None})
        return self.documents[0].text

    @property
    def source(self) -> Source:
        """The text as it is analysed."""
        return source_from_text(self.text, self.path)

    @property
    def stamp(self) -> tuple[tuple[str, int | None], ...]:
        """Differs where the text does, as far as the editor counts versions."""
        return tuple((document.uri, document.version) for document in self.documents)

    def document(self, cell: int | None) -> Document:
        """The document that holds a cell, or the whole of a file; LookupError if there is none."""
        for document in self.documents:
            if document.cell == cell:
                return document
        raise LookupError(cell)

    def with_text(self, cell: int | None, text: str) -> Opened:
        """The same with another text in one of its documents."""
        return replace(
            self,
            documents=tuple(replace(each, text=text) if each.cell == cell else each for each in self.documents),
        )

    def texts_in(self, data: bytes) -> Mapping[int | None, str]:
        """By cell, the texts of the documents in what would be written to the disk."""
        text = data.decode("utf-8", "surrogatepass")
        if not self.is_notebook:
            return {None: text}
        return {number: cell["source"] for number, cell in enumerate(json.loads(text)["cells"], start=1)}


def of_file(path: Path, text: str, uri: str = "", version: int | None = None) -> Opened:
    """A file that is open."""
    return Opened(uri, path, (Document(uri, version, text),))


def opened(workspace: Workspace) -> Iterator[Opened]:
    """What is open and has a place on the disk, be it saved there or not."""
    cells: set[str] = set()
    for notebook in workspace.notebook_documents.values():
        cells |= {unquote(cell.document) for cell in notebook.cells}
        path = path_of(notebook.uri)
        if path is not None:
            yield Opened(notebook.uri, path.with_name(_notebook_name(path)), tuple(_code(notebook, workspace)))
    for key, document in workspace.text_documents.items():
        path = None if key in cells else path_of(document.uri)
        if path is None:
            continue
        if path.suffix != NOTEBOOK:
            yield of_file(path, document.source, document.uri, document.version)
        elif document.language_id == "python":  # its cells put together by the editor, as JupyterLab does
            yield of_file(path.with_name(f"{path.name}.py"), document.source, document.uri, document.version)


def _notebook_name(path: Path) -> str:
    """Notebooks may lie in files that are named otherwise, as scripts with cells."""
    return path.name if path.suffix == NOTEBOOK else f"{path.name}{NOTEBOOK}"


def _code(notebook: types.NotebookDocument, workspace: Workspace) -> Iterator[Document]:
    for number, cell in enumerate(notebook.cells, start=1):
        document: TextDocument | None = workspace.text_documents.get(unquote(cell.document))
        if cell.kind is types.NotebookCellKind.Code and document is not None and document.language_id == "python":
            yield Document(cell.document, document.version, document.source, number)


def uri_of(path: Path) -> str:
    """The URI of a file."""
    return uris.from_fs_path(str(path)) or path.as_uri()


def path_of(uri: str) -> Path | None:
    """The file that a URI names; None where it names something else, such as a document that was never saved."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None
