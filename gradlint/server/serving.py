"""``gradlint server``: findings for the documents that an editor has open, as diagnostics, fixes and hovers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from gradlint import __version__
from gradlint.configuration import Configuration
from gradlint.disk import Disk
from gradlint.engine import Report
from gradlint.finding import Finding
from gradlint.fixing import rewritten
from gradlint.manual import find, page
from gradlint.refusal import Refusal
from gradlint.rule import all_rules
from gradlint.selection import Choice
from gradlint.server.checking import Checker
from gradlint.server.suppressing import suppressed
from gradlint.server.translation import Translator, line_edits, path_of
from gradlint.source import source_from_text

PAUSE = 0.3  #: seconds without a change before what was typed is checked
_STACK = 64 * 2**20  #: bytes for the thread that checks
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.gradlint"


@dataclass(frozen=True, slots=True)
class _Told:
    """What was last told of a document."""

    version: int | None  #: of the document
    findings: tuple[Finding, ...]
    translator: Translator

    def at(self, place: types.Range) -> list[Finding]:
        """The findings at a place."""
        return [finding for finding in self.findings if self.translator.meets(finding, place)]


class Server(LanguageServer):
    """Checks what is open after each change, one check at a time, and tells the outcome as diagnostics."""

    def __init__(self, checker: Checker) -> None:
        super().__init__("gradlint", __version__, types.TextDocumentSyncKind.Full)
        self.told: dict[str, _Told] = {}  #: by the URIs of documents
        self._checker = checker
        self._worker = _roomy_worker()
        self._changed: set[Path] | None = set()  #: since the last check; None: anything may have, on the disk as well
        self._asked = False
        self._running: asyncio.Task[None] | None = None
        self._refusal = ""

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

    async def _check_until_quiet(self) -> None:
        while self._asked:
            while self._asked:
                self._asked = False
                await asyncio.sleep(PAUSE)
            await self._check()

    async def _check(self) -> None:
        documents = self.workspace.text_documents
        opened = {path: document for uri, document in documents.items() if (path := path_of(uri)) is not None}
        texts = {path: document.source for path, document in opened.items()}
        versions = {path: document.version for path, document in opened.items()}
        roots = [path for uri in self.workspace.folders if (path := path_of(uri)) is not None]
        changed, self._changed = self._changed, set()
        given = None if changed is None else frozenset(changed)
        loop = asyncio.get_running_loop()
        try:
            report = await loop.run_in_executor(self._worker, self._checker.check, texts, roots, given)
        except Refusal as refusal:
            self._changed = None
            self._refuse(str(refusal))
            return
        except Exception as error:  # noqa: BLE001 -- a fault met in one check must not cost those to come
            self._changed = None
            self._refuse(f"gradlint: internal error: {type(error).__name__}: {error}")
            return
        self._refusal = ""
        for trouble in report.troubles:
            self.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"gradlint: {trouble}"))
        for path, document in opened.items():
            if document.uri in self.workspace.text_documents:
                self._tell(document.uri, versions[path], path, report)

    def _refuse(self, why: str) -> None:
        """Show why nothing is checked, once."""
        if why != self._refusal:
            self._refusal = why
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, why))

    def _tell(self, uri: str, version: int | None, path: Path, report: Report) -> None:
        """Publish what was found in a document, with the places as they were when it was checked."""
        findings = tuple(finding for finding in report.findings if finding.location.filename == str(path))
        translator = Translator(report, self.workspace.position_codec)
        self.told[uri] = _Told(version, findings, translator)
        diagnostics = [translator.diagnostic(finding) for finding in findings]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def forget(self, uri: str) -> None:
        """Take back what was told of a document that was closed."""
        self.told.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    # --- what can be done about it

    def actions(self, uri: str, asked: types.Range, context: types.CodeActionContext) -> Iterator[types.CodeAction]:
        """What can be done about the findings in a range of a document, and about all of them."""
        told = self.told.get(uri)
        document = self.workspace.text_documents.get(uri)
        if told is None or document is None or told.version != document.version:
            return  # the places are no longer where they were
        if _wants(context, types.CodeActionKind.QuickFix.value):
            for finding in told.at(asked):
                yield from self._quick_fixes(finding, told, uri, document.source)
        if _wants(context, FIX_ALL):
            yield from self._all_fixed(told, uri, document.source)

    def _quick_fixes(self, finding: Finding, told: _Told, uri: str, text: str) -> Iterator[types.CodeAction]:
        diagnostics = [told.translator.diagnostic(finding)]
        if finding.fix is not None:
            title = finding.fix.message if finding.fix.is_safe else f"{finding.fix.message} (may change more)"
            yield types.CodeAction(
                f"gradlint: {title}",
                types.CodeActionKind.QuickFix,
                diagnostics,
                is_preferred=finding.fix.is_safe,
                edit=types.WorkspaceEdit({uri: told.translator.edits(finding.fix)}),
            )
        after = suppressed(text, finding)
        if after is not None:
            yield types.CodeAction(
                f"gradlint: ignore {finding.code} ({finding.name}) here",
                types.CodeActionKind.QuickFix,
                diagnostics,
                edit=types.WorkspaceEdit({uri: line_edits(text, after, self.workspace.position_codec)}),
            )

    def _all_fixed(self, told: _Told, uri: str, text: str) -> Iterator[types.CodeAction]:
        path = path_of(uri)
        safe = [finding for finding in told.findings if finding.fix is not None and finding.fix.is_safe]
        if path is None or not safe:
            return
        after = rewritten(source_from_text(text, path), safe).data.decode("utf-8", "surrogatepass")
        edits = line_edits(text, after, self.workspace.position_codec)
        if edits:
            yield types.CodeAction(
                "gradlint: fix all that can be fixed safely", FIX_ALL, edit=types.WorkspaceEdit({uri: edits})
            )

    def manual(self, uri: str, position: types.Position) -> types.Hover | None:
        """The manual pages of the rules that something at a position is reported by."""
        told = self.told.get(uri)
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

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: Server, _params: types.DidOpenTextDocumentParams) -> None:
        ls.ask()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.ask(path_of(params.text_document.uri))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: Server, _params: types.DidSaveTextDocumentParams) -> None:
        ls.ask()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(ls: Server, _params: types.DidChangeWatchedFilesParams) -> None:
        ls.ask()

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
    )
    def actions(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
        return list(ls.actions(params.text_document.uri, params.range, params.context))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(ls: Server, params: types.HoverParams) -> types.Hover | None:
        return ls.manual(params.text_document.uri, params.position)

    return server
