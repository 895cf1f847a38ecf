"""Notebooks in the language server, spoken to by a client as an editor would: by cell, with changes of cells."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest
from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient

MODEL = """\
import torch
from torch import nn

net = nn.Linear(6, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
LOOP = """\
for x in torch.randn(3, 5, 6):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
SOFTMAXED = MODEL.replace("nn.Linear(6, 4)", "nn.Sequential(nn.Linear(6, 4), nn.Softmax(dim=1))")
LOSS = "loss = nn.CrossEntropyLoss()(net(torch.randn(3, 6)), torch.tensor([0, 1, 2]))\nloss.backward()\n"
CLEARS = "    optimizer.zero_grad()\n"

Changes = types.NotebookDocumentCellChanges


class NotebookEditor:
    """An editor with one notebook open, and what it was told of the cells; it applies what it is offered.

    Args:
        client: speaks to the server.
        folder: where the notebook lies, be it only in name.
    """

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.uri = uris.from_fs_path(str(folder / "train.ipynb")) or ""
        self.texts: dict[str, str] = {}  #: by the names of cells
        self._versions: dict[str, int] = {}
        self._version = 1
        self._published: dict[str, asyncio.Queue[types.PublishDiagnosticsParams]] = {}

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self._queue(params.uri).put_nowait(params)

    def _queue(self, uri: str) -> asyncio.Queue[types.PublishDiagnosticsParams]:
        return self._published.setdefault(uri, asyncio.Queue())

    def cell(self, name: str) -> str:
        """The URI of a cell, in the manner of VS Code."""
        return f"{self.uri.replace('file:', 'vscode-notebook-cell:')}#{name}"

    def _described(self, name: str, language: str = "python") -> types.NotebookCell:
        kind = types.NotebookCellKind.Markup if language == "markdown" else types.NotebookCellKind.Code
        return types.NotebookCell(kind, self.cell(name))

    def _item(self, name: str, text: str, language: str = "python") -> types.TextDocumentItem:
        self.texts[name], self._versions[name] = text, 1
        return types.TextDocumentItem(self.cell(name), language, 1, text)

    def open(self, cells: Mapping[str, str], languages: Mapping[str, str] | None = None) -> None:
        of = languages or {}
        self.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(
                types.NotebookDocument(
                    self.uri,
                    "jupyter-notebook",
                    self._version,
                    [self._described(name, of.get(name, "python")) for name in cells],
                ),
                [self._item(name, text, of.get(name, "python")) for name, text in cells.items()],
            )
        )

    def _change(self, changes: Changes) -> None:
        self._version += 1
        self.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(self._version, self.uri),
                types.NotebookDocumentChangeEvent(cells=changes),
            )
        )

    def type(self, name: str, place: types.Range, text: str) -> None:
        """Replace a range of a cell, and tell of that alone, as editors do."""
        self._versions[name] += 1
        self.texts[name] = applied(self.texts[name], [types.TextEdit(place, text)])
        document = types.VersionedTextDocumentIdentifier(self._versions[name], self.cell(name))
        change = types.TextDocumentContentChangePartial(place, text)
        self._change(Changes(text_content=[types.NotebookDocumentCellContentChanges(document, [change])]))

    def insert(self, at: int, name: str, text: str) -> None:
        array = types.NotebookCellArrayChange(at, 0, [self._described(name)])
        opened = [self._item(name, text)]
        self._change(Changes(structure=types.NotebookDocumentCellChangeStructure(array, did_open=opened)))

    def delete(self, at: int, name: str) -> None:
        array = types.NotebookCellArrayChange(at, 1)
        closed = [types.TextDocumentIdentifier(self.cell(name))]
        self._change(Changes(structure=types.NotebookDocumentCellChangeStructure(array, did_close=closed)))
        del self.texts[name], self._versions[name]

    def move(self, at: int, to: int, name: str) -> None:
        """Move a cell: it is taken out and put in elsewhere, and its document stays open."""
        for array in (
            types.NotebookCellArrayChange(at, 1),
            types.NotebookCellArrayChange(to, 0, [self._described(name)]),
        ):
            self._change(Changes(structure=types.NotebookDocumentCellChangeStructure(array)))

    async def told(self, name: str) -> list[types.Diagnostic]:
        """What is told next of a cell as it stands now."""
        while True:
            params = await asyncio.wait_for(self._queue(self.cell(name)).get(), 60)
            if params.version in (None, self._versions.get(name)):
                return list(params.diagnostics)

    async def codes(self, name: str) -> list[types.Diagnostic | int | str | None]:
        return [diagnostic.code for diagnostic in await self.told(name)]

    async def actions(
        self, name: str, line: int, only: Sequence[types.CodeActionKind | str] | None = None
    ) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 8), types.Position(line, 8))
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(self.cell(name)), place, types.CodeActionContext([], only=only)
            )
        )
        return [action for action in found or () if isinstance(action, types.CodeAction)]

    def after(self, action: types.CodeAction) -> dict[str, str]:
        """The texts of all cells once the edits of an action are applied."""
        assert action.edit is not None
        changes = action.edit.changes or {}
        assert set(changes) <= {self.cell(name) for name in self.texts}, "nothing but cells is edited"
        return {name: applied(text, changes.get(self.cell(name), ())) for name, text in self.texts.items()}


def applied(text: str, edits: Sequence[types.TextEdit]) -> str:
    """A text of ASCII with edits applied, from the last to the first."""
    assert text.isascii()
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
        start, end = edit.range.start, edit.range.end
        tail = (lines[end.line] if end.line < len(lines) else "")[end.character :]
        lines[start.line : end.line + 1] = f"{lines[start.line][: start.character]}{edit.new_text}{tail}".split("\n")
    return "\n".join(lines)


def line(row: int) -> types.Range:
    """The start of a line, where something is to be put in."""
    return types.Range(types.Position(row, 0), types.Position(row, 0))


@pytest.fixture
def session(tmp_path: Path) -> Callable[[Callable[[NotebookEditor], Awaitable[None]]], None]:
    """Runs a server in a folder whose name has to be escaped, and something an editor does with it."""
    folder = tmp_path / "my notebooks"
    folder.mkdir()

    async def run(act: Callable[[NotebookEditor], Awaitable[None]]) -> None:
        client = LanguageClient("editor", "1")
        await client.start_io(sys.executable, "-m", "gradlint", "server", cwd=folder)
        try:
            await asyncio.wait_for(started(client), 60)
            await act(NotebookEditor(client, folder))
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()

    async def started(client: LanguageClient) -> None:
        able = types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities())
        capabilities = types.ClientCapabilities(notebook_document=able)
        root = types.WorkspaceFolder(uris.from_fs_path(str(folder)) or "", "project")
        done = await client.initialize_async(types.InitializeParams(capabilities, workspace_folders=[root]))
        assert isinstance(done.capabilities.notebook_document_sync, types.NotebookDocumentSyncOptions)
        assert isinstance(done.capabilities.text_document_sync, types.TextDocumentSyncOptions)
        assert done.capabilities.text_document_sync.change is types.TextDocumentSyncKind.Full
        client.initialized(types.InitializedParams())

    return lambda act: asyncio.run(run(act))


def test_what_a_cell_does_is_told_in_its_own_rows(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"title": "# Training", "model": MODEL, "loop": LOOP}, {"title": "markdown"})
        assert await editor.told("model") == []
        (found,) = await editor.told("loop")
        assert found.code == "GL201"
        assert found.range == types.Range(types.Position(2, 4), types.Position(2, 19))
        (related,) = found.related_information or ()
        assert related.location.uri == editor.cell("loop")
        assert related.location.range.start == types.Position(3, 4)

    session(act)


def test_places_that_explain_it_are_in_other_cells(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": SOFTMAXED, "loss": LOSS})
        assert await editor.told("model") == []
        (found,) = await editor.told("loss")
        assert found.code == "GL301"
        (related,) = found.related_information or ()
        assert related.location.uri == editor.cell("model")
        assert related.location.range.start.line == 3

    session(act)


def test_findings_follow_changes_within_cells(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": MODEL, "loop": LOOP})
        assert await editor.codes("loop") == ["GL201"]
        editor.type("loop", line(2), CLEARS)
        assert await editor.codes("loop") == []
        editor.type("loop", types.Range(types.Position(2, 0), types.Position(3, 0)), "")
        assert editor.texts["loop"] == LOOP
        assert await editor.codes("loop") == ["GL201"]
        editor.type("loop", line(0), "'a\\x0cb'\n%matplotlib inline\n")
        (found,) = await editor.told("loop")
        assert found.range.start == types.Position(4, 4), "magics are no mistakes, and count as rows"

    session(act)


def test_cells_come_go_and_move(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": SOFTMAXED})
        assert await editor.codes("model") == []
        editor.insert(1, "loss", LOSS)
        assert await editor.codes("loss") == ["GL301"]
        editor.move(1, 0, "loss")
        assert await editor.codes("loss") == [], "nothing is known of a model that is built below"
        editor.move(0, 1, "loss")
        assert await editor.codes("loss") == ["GL301"]
        editor.delete(0, "model")
        assert await editor.codes("model") == [], "what was told of a cell is taken back with it"
        assert await editor.codes("loss") == [], "and nothing is known of the model without it"

    session(act)


def test_a_closed_notebook_is_forgotten(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": MODEL, "loop": LOOP})
        assert await editor.codes("loop") == ["GL201"]
        cells = [types.TextDocumentIdentifier(editor.cell(name)) for name in ("model", "loop")]
        notebook = types.NotebookDocumentIdentifier(editor.uri)
        editor.client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(notebook, cells))
        assert await editor.codes("loop") == []

    session(act)


def test_settings_are_read_again_when_a_notebook_is_saved(session: Callable[..., None], tmp_path: Path) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": MODEL, "loop": LOOP})
        assert await editor.codes("loop") == ["GL201"]
        (tmp_path / "my notebooks" / "gradlint.toml").write_text('ignore = ["GL201"]\n')
        saved = types.DidSaveNotebookDocumentParams(types.NotebookDocumentIdentifier(editor.uri))
        editor.client.notebook_document_did_save(saved)
        assert await editor.codes("loop") == []

    session(act)


def test_actions_edit_the_cell(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": MODEL, "loop": "%load_ext autoreload\n" + LOOP})
        await editor.told("loop")
        fix, ignore = await editor.actions("loop", 3)
        assert CLEARS + "    loss.backward()\n" in editor.after(fix)["loop"]
        assert editor.after(fix)["model"] == MODEL
        assert "    loss.backward()  # gradlint: ignore[missing-zero-grad]\n" in editor.after(ignore)["loop"]
        assert await editor.actions("model", 3) == []
        editor.type("model", line(0), "\n")
        assert await editor.actions("loop", 3) == [], "a cell has changed since the notebook was checked"
        assert await editor.codes("loop") == ["GL201"]
        assert len(await editor.actions("loop", 3)) == 2

    session(act)


def test_all_safe_fixes_of_a_cell_or_of_the_notebook(session: Callable[..., None]) -> None:
    first, second = "import torch\n\nw = torch.nn.Linear(2, 2)\nprint(w.weight.numpy())", "%pwd\nprint(w.bias.numpy())"
    fixed = {name: text.replace(".numpy()", ".detach().numpy()") for name, text in (("a", first), ("b", second))}

    async def act(editor: NotebookEditor) -> None:
        editor.open({"a": first, "title": "Look", "b": second}, {"title": "markdown"})
        assert await editor.codes("a") == ["GL501"]
        assert await editor.codes("b") == ["GL501"]
        (of_cell,) = await editor.actions("b", 0, ["source.fixAll"])
        assert of_cell.kind == "source.fixAll.gradlint"
        assert editor.after(of_cell) == {"a": first, "title": "Look", "b": fixed["b"]}
        (of_all,) = await editor.actions("a", 0, ["notebook.source.fixAll"])
        assert of_all.kind == "notebook.source.fixAll.gradlint"
        assert editor.after(of_all) == {"title": "Look", **fixed}

    session(act)


def test_hovering_in_a_cell_shows_the_manual(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": MODEL, "loop": LOOP})
        await editor.told("loop")
        document = types.TextDocumentIdentifier(editor.cell("loop"))
        page = await editor.client.text_document_hover_async(types.HoverParams(document, types.Position(2, 6)))
        assert page is not None
        assert isinstance(page.contents, types.MarkupContent)
        assert "missing-zero-grad" in page.contents.value

    session(act)


def test_a_cell_that_is_no_python_leaves_the_others_checked(session: Callable[..., None]) -> None:
    async def act(editor: NotebookEditor) -> None:
        editor.open({"model": MODEL, "draft": "x = (", "loop": LOOP})
        (found,) = await editor.told("draft")
        assert (found.code, found.range.start.line) == ("GL001", 0)
        assert await editor.codes("loop") == ["GL201"]

    session(act)


@pytest.mark.parametrize("language", ["python", "json"])
def test_a_notebook_opened_as_text_is_python_if_the_editor_says_so(session: Callable[..., None], language: str) -> None:
    """JupyterLab puts the cells together itself, under the name of the notebook; elsewhere it is the raw JSON."""

    async def act(editor: NotebookEditor) -> None:
        script = editor.uri.replace("train.ipynb", "other.py")
        for uri, name in ((editor.uri, language), (script, "python")):
            document = types.TextDocumentItem(uri, name, 1, MODEL + LOOP)
            editor.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        told = await asyncio.wait_for(editor._queue(script).get(), 60)
        assert [one.code for one in told.diagnostics] == ["GL201"]
        if language == "python":
            told = await asyncio.wait_for(editor._queue(editor.uri).get(), 60)
            assert [(one.code, one.range.start.line) for one in told.diagnostics] == [("GL201", 7)]
        else:
            assert editor._queue(editor.uri).empty()

    session(act)
