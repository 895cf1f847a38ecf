"""Messages of an editor on standard input: whatever is wrong with one is answered and costs no other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.io_ import StdoutWriter

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer

_LENGTH = re.compile(rb"Content-Length[ \t]*:[ \t]*(\d{1,10})[ \t]*\r?\n\Z", re.IGNORECASE)
_LONGEST_LINE, _LONGEST_BODY = 2**16, 2**28  #: bytes
_PARSE, _REQUEST, _PARAMETERS = -32700, -32600, -32602  #: codes of errors, as JSON-RPC has them
_NOT_INITIALIZED = types.ErrorCodes.ServerNotInitialized.value
_NAMES = ("id", "token", "workDoneToken", "partialResultToken")  #: parameters that name a message or a progress
_log = logging.getLogger(__name__)


def next_body(stream: BinaryIO) -> bytes | None:
    """The body of the next message; None at the end of the stream.

    What stands before the next length, such as the rest of a message that was longer than it said, is passed over.

    Args:
        stream: the bytes that an editor sends.
    """
    length = None
    while line := stream.readline(_LONGEST_LINE):
        found = _LENGTH.search(line)
        if found is not None and int(found[1]) <= _LONGEST_BODY:
            length = int(found[1])
        elif length is not None and not line.strip():
            body = stream.read(length)
            return body if len(body) == length else None
    return None


class Session:
    """What an editor and a server say to one another, from the first message to ``exit``.

    Args:
        server: what handles the messages that are in order.
        writer: where answers go.
    """

    def __init__(self, server: LanguageServer, writer: StdoutWriter) -> None:
        self._protocol = server.protocol
        self._writer = writer
        self._is_initialized = self._is_shut_down = False
        self.code: int | None = None  #: with which the process is to end, once that is known

    def take(self, body: bytes) -> None:
        """Handle a message, or answer what is wrong with it."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._answer(None, _PARSE, f"not JSON: {error}")
            return
        number = data.get("id") if isinstance(data, dict) else None
        number = number if isinstance(number, (int, str)) and not isinstance(number, bool) else None
        if not isinstance(data, dict) or data.get("jsonrpc") != "2.0" or not isinstance(data.get("method", ""), str):
            self._answer(number, _REQUEST, "not a message of JSON-RPC 2.0")
        elif "id" in data and number is None:
            self._answer(None, _REQUEST, "an id is a number or a string")
        elif self._is_in_turn(data, number):
            self._handle(data, number)

    def ends(self) -> int:
        """The exit code where an editor says nothing more: 1, if it has not asked to shut down before."""
        return 0 if self._is_shut_down else 1

    def _is_in_turn(self, data: Mapping[str, Any], number: int | str | None) -> bool:
        """Whether a message may come now; what may not is answered if it asks for an answer."""
        method = data.get("method")
        if method == "exit":
            self.code = self.ends()
            return False
        if self._is_shut_down:
            code, why = _REQUEST, "the server was asked to shut down"
        elif method == "initialize" and self._is_initialized:
            code, why = _REQUEST, "the server is initialized already"
        elif method != "initialize" and not self._is_initialized:
            code, why = _NOT_INITIALIZED, "the server is not initialized"
        else:
            return True
        if method is not None and number is not None:
            self._answer(number, code, why)
        return False

    def _handle(self, data: dict[str, Any], number: int | str | None) -> None:
        method = data.get("method")
        if method is not None and self._protocol.get_message_type(method) is None:
            data.setdefault("params", None)  # answered as unknown, whatever else it lacks
        try:
            _check_names(data.get("params"))
            message = self._protocol.structure_message(data)
        except Exception as error:  # noqa: BLE001 -- pygls raises several types on parameters of another shape
            why = error if isinstance(error, JsonRpcInvalidParams) else f"{type(error).__name__}: {error}"
            _log.warning("%s: parameters of another shape: %s", method, why)
            if method is not None and number is not None:
                self._answer(number, _PARAMETERS, f"{method}: these are no parameters of it")
            return
        self._is_initialized |= method == "initialize"
        self._is_shut_down |= method == "shutdown"
        try:
            self._protocol.handle_message(message)
        except Exception:  # noqa: BLE001 -- one message costs no other
            _log.exception("%s could not be handled", method)

    def _answer(self, number: int | str | None, code: int, why: str) -> None:
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": why}}
        body = json.dumps(error).encode()
        self._writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def _check_names(params: object) -> None:
    """Raise TypeError where a message names another, or a progress, by what is no name."""
    given = params if isinstance(params, dict) else {}
    for key in _NAMES:
        if isinstance(given.get(key), (list, dict)):
            raise TypeError(f"{key} is a number or a string")


def serve(server: LanguageServer) -> int:
    """Serve an editor on standard input and output, and end the process with it.

    The exit code is 0 after a request to shut down, and 1 without one.  A check that still runs is not waited for:
    nobody is left to be told.

    Returns:
        The exit code, where the connection was lost.
    """
    writer = StdoutWriter(sys.stdout.buffer)
    server.protocol.set_writer(writer)
    session = Session(server, writer)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # what is wrong with a message is answered
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        asyncio.run(_listen(session, sys.stdin.buffer))
    return session.ends()


async def _listen(session: Session, stream: BinaryIO) -> None:
    """Take messages until there are no more; then the process ends, whatever its threads are about."""
    loop = asyncio.get_running_loop()
    reading = ThreadPoolExecutor(1, "editor")
    while session.code is None:
        body = await loop.run_in_executor(reading, next_body, stream)
        if body is None:
            break
        session.take(body)
        await asyncio.sleep(0)  # what a message has started goes first
    sys.stderr.flush()
    os._exit(session.ends() if session.code is None else session.code)
