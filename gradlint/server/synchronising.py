"""How texts come from the editor: files whole, cells of notebooks by what has changed in them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol, lsp_method


class Protocol(LanguageServerProtocol):
    """Asks for the whole text of a file after each change.

    Editors tell of cells only what has changed in them, whatever they are asked for, so that the workspace has to
    understand that; of files it need not be trusted, as it takes form feeds for ends of lines.
    """

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Tell what the server can do."""
        result = yield from super().lsp_initialize(params)
        sync = result.capabilities.text_document_sync
        if isinstance(sync, types.TextDocumentSyncOptions):
            sync.change = types.TextDocumentSyncKind.Full
        return result
