"""``gradlint server``: findings for the documents that an editor has open, as diagnostics, fixes and hovers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from gradlint import __version__
from gradlint.configuration import Configuration
from gradlint.disk import Disk
from gradlint.engine import Report
from gradlint.finding import Finding, Location
from gradlint.fixing import rewritten
from gradlint.manual import find, page
from gradlint.refusal import Refusal
from gradlint.rule import all_rules
from gradlint.selection import Choice
from gradlint.server.checking import Checker, SupersededError
from gradlint.server.documents import SYNCHRONISED, Document, Opened, opened, path_of, uri_of
from gradlint.server.suppressing import suppressed
from gradlint.server.synchronising import Protocol
from gradlint.server.translation import Translator, line_edits, troubles_of

PAUSE = 0.3  #: seconds without a change before what was typed is checked, at most
SHORT_PAUSE = 0.1  #: the same where a check takes no longer
_STACK = 64 * 2**20  #: bytes for the thread that checks
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.gradlint"
FIX_NOTEBOOK = f"notebook.{FIX_ALL}"  #: in all cells of a notebook, as some editors ask for when it is saved


@dataclass(frozen=True, slots=True)
class _Told:
    """What was last told of a document."""

    opened: Opened  #: the file, or the notebook, as it was checked
    document: Document  #: the file itself, or a cell
    all_findings: tuple[Finding, ...]  #: in all documents of the same file or notebook
    translator: Translator

    @property
    def findings(self) -> list[Finding]:
        """The findings in this document."""
        return [finding for finding in self.all_findings if finding.location.cell == self.document.cell]

    def at(self, place: types.Range) -> list[Finding]:
        """The findings at a place."""
        return [finding for finding in self.findings if self.translator.meets(finding, place)]


class Server(LanguageServer):
    """Checks what is open after each change, one check at a time, and tells the outcome as diagnostics."""

    def __init__(self, checker: Checker) -> None:
        incremental = types.TextDocumentSyncKind.Incremental
        super().__init__("gradlint", __version__, incremental, SYNCHRONISED, protocol_cls=Protocol)
        self.told: dict[str, _Told] = {}  #: by the URIs of documents, without their escapes
        self.on_save = False  #: whether changes wait until they are saved
        self._checker = checker
        self._worker = _roomy_worker()
        self._changed: set[Path] | None = set()  #: since the last check; None: anything may have, on the disk as well
        self._asked = False
        self._running: asyncio.Task[None] | None = None
        self._refusal = ""
        self._took = PAUSE  #: seconds that the last check took

    # --- what has to be checked

    def ask(self, changed: Path | None = None) -> None:
        """Have the open documents checked soon: one has changed, or anything."""
        if changed is None or self._changed is None:
            self._changed = None
        else:
            self._changed.add(changed)
        self._asked = True
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._check_until_quiet())

    def ask_after_change(self, uri: str) -> None:
        """Have the open documents checked soon, if saving does not: the file or notebook of this URI has changed."""
        if not self.on_save:
            self.ask(next((each.path for each in opened(self.workspace) if unquote(each.uri) == unquote(uri)), None))

    async def _check_until_quiet(self) -> None:
        while self._asked:
            self._asked = False
            if await self._has_moved():
                continue
            self._asked = True
            while self._asked:
                self._asked = False
                await asyncio.sleep(min(PAUSE, max(SHORT_PAUSE, self._took)))
            await self._check()
            if not self._asked:
                with suppress(Exception):  # whatever it is, a check will tell
                    await asyncio.get_running_loop().run_in_executor(self._worker, self._checker.prepare)

    async def _has_moved(self) -> bool:
        """Tell at once where findings are now, if only comments and blank lines have changed."""
        changed, self._changed = self._changed, set()
        if changed:
            checked = list(opened(self.workspace))
            texts = {each.path: each.text for each in checked}
            loop = asyncio.get_running_loop()
            report = None
            with suppress(Exception):  # whatever it is, a check will tell
                report = await loop.run_in_executor(self._worker, self._checker.moved, texts, frozenset(changed))
            if report is not None:
                self._tell(checked, report)
                return True
        self._changed = None if changed is None or self._changed is None else self._changed | changed
        return False

    async def _check(self) -> None:
        """Tell what can be told soon, and then, if nothing has changed meanwhile, what takes longer to find."""
        checked = list(opened(self.workspace))
        texts = {each.path: each.text for each in checked}
        folders = self.workspace.folders.values()
        roots = [path for folder in folders if (path := path_of(folder.uri)) is not None]
        changed, self._changed = self._changed, set()
        given = None if changed is None else frozenset(changed)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            soon = await loop.run_in_executor(self._worker, self._checker.check_alone, texts, roots, given)
            if soon is not None:
                self._took = loop.time() - begun
                self._tell_all(checked, soon)
                if self._asked:
                    raise SupersededError
            report = await loop.run_in_executor(
                self._worker, self._checker.check, texts, roots, given, lambda: soon is not None and self._asked
            )
        except SupersededError:
            self._changed = None if changed is None or self._changed is None else self._changed | changed
            return
        except Refusal as refusal:
            self._changed = None
            self._refuse(str(refusal))
            return
        except Exception as error:  # noqa: BLE001 -- a fault met in one check must not cost those to come
            self._changed = None
            self._refuse(f"gradlint: internal error: {type(error).__name__}: {error}")
            return
        if soon is None:
            self._took = loop.time() - begun
        if soon is None or (soon.findings, soon.troubles) != (report.findings, report.troubles):
            self._tell_all(checked, report)

    def _tell_all(self, checked: list[Opened], report: Report) -> None:
        self._refusal = ""
        for trouble in report.troubles:
            self.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"gradlint: {trouble}"))
        self._tell(checked, report)

    def _refuse(self, why: str) -> None:
        """Show why nothing is checked, once."""
        if why != self._refusal:
            self._refusal = why
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, why))

    def _tell(self, checked: list[Opened], report: Report) -> None:
        """Publish what was found in documents that are still open, with the places as they were when checked."""
        by_name = {str(each.path): each for each in checked}

        def uri_at(place: Location) -> str:
            known = by_name.get(place.filename)
            return uri_of(Path(place.filename)) if known is None else known.document(place.cell).uri

        translator = Translator(report, self.workspace.position_codec, uri_at)
        for each in checked:
            findings = tuple(finding for finding in report.findings if finding.location.filename == str(each.path))
            for document in each.documents:
                if unquote(document.uri) in self.workspace.text_documents:
                    self._publish(_Told(each, document, findings, translator), report.troubles)

    def _publish(self, told: _Told, troubles: Iterable[str]) -> None:
        uri, version = told.document.uri, told.document.version
        self.told[unquote(uri)] = told
        diagnostics = [told.translator.diagnostic(finding) for finding in told.findings]
        diagnostics += troubles_of(told.opened.path, troubles) if told.document is told.opened.documents[0] else ()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def forget(self, *uris: str) -> None:
        """Take back what was told of documents that were closed."""
        for uri in uris:
            self.told.pop(unquote(uri), None)
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    # --- what can be done about it

    def actions(self, uri: str, asked: types.Range, context: types.CodeActionContext) -> Iterator[types.CodeAction]:
        """What can be done about the findings in a range of a document, and about all of them."""
        told = self.told.get(unquote(uri))
        now = None if told is None else next((o for o in opened(self.workspace) if o.path == told.opened.path), None)
        if told is None or now is None or told.opened.stamp != now.stamp:
            return  # the places are no longer where they were
        if _wants(context, types.CodeActionKind.QuickFix.value):
            for finding in told.at(asked):
                yield from self._quick_fixes(finding, told)
        if _wants(context, FIX_ALL):
            where = " in this cell" if told.opened.is_notebook else ""
            yield from self._all_fixed(told, told.findings, f"gradlint: fix all that is safe to fix{where}", FIX_ALL)
        if told.opened.is_notebook and _wants(context, FIX_NOTEBOOK):
            title = "gradlint: fix all that is safe to fix in this notebook"
            yield from self._all_fixed(told, told.all_findings, title, FIX_NOTEBOOK)

    def _quick_fixes(self, finding: Finding, told: _Told) -> Iterator[types.CodeAction]:
        diagnostics = [told.translator.diagnostic(finding)]
        if finding.fix is not None:
            title = finding.fix.message if finding.fix.is_safe else f"{finding.fix.message} (may change more)"
            yield types.CodeAction(
                f"gradlint: {title}",
                types.CodeActionKind.QuickFix,
                diagnostics,
                is_preferred=finding.fix.is_safe,
                edit=told.translator.edits(finding.fix),
            )
        after = suppressed(told.opened, finding)
        if after is not None:
            yield types.CodeAction(
                f"gradlint: ignore {finding.code} ({finding.name}) here",
                types.CodeActionKind.QuickFix,
                diagnostics,
                edit=self._replaced(told.opened, {told.document.cell: after}),
            )

    def _all_fixed(self, told: _Told, findings: Iterable[Finding], title: str, kind: str) -> Iterator[types.CodeAction]:
        safe = [finding for finding in findings if finding.fix is not None and finding.fix.is_safe]
        if safe:
            after = told.opened.texts_in(rewritten(told.opened.source, safe).data)
            edit = self._replaced(told.opened, after)
            if edit.changes:
                yield types.CodeAction(title, kind, edit=edit)

    def _replaced(self, before: Opened, after: Mapping[int | None, str]) -> types.WorkspaceEdit:
        """The edits that give documents other texts, by cell."""
        changes: dict[str, Sequence[types.TextEdit]] = {}
        for document in before.documents:
            text = after.get(document.cell, document.text)
            edits = line_edits(document.text, text, self.workspace.position_codec)
            if edits:
                changes[document.uri] = edits
        return types.WorkspaceEdit(changes)

    def manual(self, uri: str, position: types.Position) -> types.Hover | None:
        """The manual pages of the rules that something at a position is reported by."""
        told = self.told.get(unquote(uri))
        if told is None:
            return None
        codes = dict.fromkeys(finding.code for finding in told.at(types.Range(position, position)))
        rules = [find(code, all_rules()) for code in codes]
        if not rules:
            return None
        pages = "\n---\n\n".join(map(page, rules))
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, pages))


def _roomy_worker() -> ThreadPoolExecutor:
    """One thread with room for deeply nested source: some platforms give threads far less than a program."""
    before = threading.stack_size(_STACK)
    try:
        worker = ThreadPoolExecutor(1, "gradlint")
        worker.submit(int).result()  # its thread begins with the first task
    finally:
        threading.stack_size(before)
    return worker


def _wants(context: types.CodeActionContext, kind: str) -> bool:
    """Whether actions of a kind are asked for."""
    return context.only is None or any(kind == one or kind.startswith(f"{one}.") for one in map(_name, context.only))


def _name(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


def build(configure: Callable[[Disk], Configuration], choice: Choice) -> Server:
    """A server that waits for an editor.

    Args:
        configure: how settings are had from a disk; asked before each check.
        choice: what the command line says about rules.
    """
    server = Server(Checker(configure, choice))

    @server.feature(types.INITIALIZE)
    def begun(ls: Server, params: types.InitializeParams) -> None:
        options = params.initialization_options
        ls.on_save = isinstance(options, Mapping) and options.get("run") == "onSave"

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(ls: Server, _params: types.DidChangeWatchedFilesParams) -> None:
        ls.ask()

    _hear_of_texts(server)
    _hear_of_notebooks(server)
    _answer(server)
    return server


def _hear_of_texts(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, _params: types.DidOpenTextDocumentParams) -> None:
        ls.ask()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.ask_after_change(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, _params: types.DidSaveTextDocumentParams) -> None:
        ls.ask()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)


def _hear_of_notebooks(server: Server) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_opened(ls: Server, _params: types.DidOpenNotebookDocumentParams) -> None:
        ls.ask()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_changed(ls: Server, params: types.DidChangeNotebookDocumentParams) -> None:
        structure = params.change.cells.structure if params.change.cells else None
        ls.forget(*(cell.uri for cell in (structure.did_close if structure else None) or ()))
        ls.ask_after_change(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def notebook_saved(ls: Server, _params: types.DidSaveNotebookDocumentParams) -> None:
        ls.ask()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_closed(ls: Server, params: types.DidCloseNotebookDocumentParams) -> None:
        ls.forget(*(cell.uri for cell in params.cell_text_documents))


def _answer(server: Server) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL, FIX_NOTEBOOK]),
    )
    def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        return list(ls.actions(params.text_document.uri, params.range, params.context))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(ls: Server, params: types.HoverParams) -> types.Hover | None:
        return ls.manual(params.text_document.uri, params.position)
