"""The language server, spoken to by a client as an editor would."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient
from pygls.workspace import PositionCodec

from gradlint.rule import all_rules
from gradlint.server.translation import line_edits, troubles_of

BROKEN = """\
import torch
from torch import nn

net = nn.Linear(6, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 6):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
MENDED = BROKEN.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")


class Editor:
    """An editor with documents open, and what it was told of them."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.shown: list[str] = []
        self._published: dict[str, asyncio.Queue[types.PublishDiagnosticsParams]] = {}
        self._versions: dict[str, int] = {}
        self._texts: dict[str, str] = {}

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self._queue(params.uri).put_nowait(params)

        @client.feature(types.WINDOW_SHOW_MESSAGE)
        def shown(params: types.ShowMessageParams) -> None:
            self.shown.append(params.message)

    def uri(self, name: str) -> str:
        return uris.from_fs_path(str(self.folder / name)) or ""

    def _queue(self, uri: str) -> asyncio.Queue[types.PublishDiagnosticsParams]:
        return self._published.setdefault(uri, asyncio.Queue())

    def open(self, name: str, text: str) -> None:
        uri = self.uri(name)
        self._texts[uri], self._versions[uri] = text, 1
        document = types.TextDocumentItem(uri, "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def type(self, name: str, text: str) -> None:
        uri = self.uri(name)
        self._texts[uri] = text
        self._versions[uri] += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self._versions[uri], uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def told(self, name: str) -> list[types.Diagnostic]:
        """What is told of a document as it stands now."""
        uri = self.uri(name)
        while True:
            params = await asyncio.wait_for(self._queue(uri).get(), 60)
            if params.version in (None, self._versions[uri]):
                return list(params.diagnostics)

    async def actions(
        self, name: str, line: int, only: list[types.CodeActionKind | str] | None = None
    ) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 8), types.Position(line, 8))
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(self.uri(name)), place, types.CodeActionContext([], only=only)
            )
        )
        return [action for action in found or () if isinstance(action, types.CodeAction)]

    def after(self, name: str, action: types.CodeAction) -> str:
        """The text of a document once the edits of an action are applied, from the last to the first."""
        uri = self.uri(name)
        assert action.edit is not None
        assert action.edit.changes is not None
        edits = action.edit.changes[uri]
        lines = self._texts[uri].split("\n")
        for edit in sorted(edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True):
            start, end = edit.range.start, edit.range.end
            head = _units(lines[start.line])[: 2 * start.character].decode("utf-16-le")
            tail = _units(lines[end.line] if end.line < len(lines) else "")[2 * end.character :].decode("utf-16-le")
            lines[start.line : end.line + 1] = f"{head}{edit.new_text}{tail}".split("\n")
        return "\n".join(lines)


def _units(line: str) -> bytes:
    return line.encode("utf-16-le")


def session(
    folder: Path, act: Callable[[Editor], Awaitable[None]], *options: str, settings: dict[str, str] | None = None
) -> None:
    """Run a server in a folder, and something an editor does with it."""

    @asynccontextmanager
    async def started() -> AsyncIterator[Editor]:
        client = LanguageClient("editor", "1")
        await client.start_io(sys.executable, "-m", "gradlint", "server", *options, cwd=folder)
        editor = Editor(client, folder)
        root = types.WorkspaceFolder(uris.from_fs_path(str(folder)) or "", "project")
        await client.initialize_async(
            types.InitializeParams(
                types.ClientCapabilities(), workspace_folders=[root], initialization_options=settings
            )
        )
        client.initialized(types.InitializedParams())
        try:
            yield editor
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()

    async def run() -> None:
        async with started() as editor:
            await act(editor)

    asyncio.run(run())


def test_findings_follow_what_is_typed(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        (found,) = await editor.told("train.py")
        assert (found.code, found.source, found.severity) == ("GL201", "gradlint", types.DiagnosticSeverity.Error)
        assert found.range == types.Range(types.Position(7, 4), types.Position(7, 19))
        assert "help: clear the gradients" in found.message
        (related,) = found.related_information or ()
        assert related.location.uri == editor.uri("train.py")
        assert related.location.range.start == types.Position(8, 4)
        editor.type("train.py", MENDED)
        assert await editor.told("train.py") == []
        editor.type("train.py", BROKEN)
        assert [one.code for one in await editor.told("train.py")] == ["GL201"]

    session(tmp_path, act)


def test_findings_move_with_the_code(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        await editor.told("train.py")
        for number in range(1, 4):
            editor.type("train.py", "# a remark\n" * number + BROKEN)
            (found,) = await editor.told("train.py")
            assert found.range == types.Range(types.Position(7 + number, 4), types.Position(7 + number, 19))
        editor.type("train.py", "# a remark\n" + MENDED)
        assert await editor.told("train.py") == []

    session(tmp_path, act)


def test_columns_are_counted_as_the_editor_counts_them(tmp_path: Path) -> None:
    text = BROKEN.replace("    loss.backward()", '    "🙂"; loss.backward()')

    async def act(editor: Editor) -> None:
        editor.open("train.py", text)
        (found,) = await editor.told("train.py")
        assert found.range.start == types.Position(7, 10)  # the face takes two units of UTF-16

    session(tmp_path, act)


@pytest.mark.parametrize("saved", [True, False])
def test_a_change_in_one_document_is_seen_in_another(tmp_path: Path, saved: bool) -> None:
    model = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1))

    def forward(self, x):
        return self.layers(x)
"""
    train = """\
import torch
from model import Net
from torch import nn

criterion = nn.CrossEntropyLoss()
net = Net()
loss = criterion(net(torch.randn(4, 3)), torch.tensor([0, 1, 0, 1]))
loss.backward()
"""
    if saved:
        (tmp_path / "model.py").write_text(model.replace("nn.Softmax(dim=1)", "nn.ReLU()"))
        (tmp_path / "train.py").write_text("")

    async def act(editor: Editor) -> None:
        editor.open("model.py", model)
        assert await editor.told("model.py") == []
        editor.open("train.py", train)
        (found,) = await editor.told("train.py")
        assert found.code == "GL301"
        (related,) = found.related_information or ()
        assert related.location.uri == editor.uri("model.py")
        editor.type("model.py", model.replace(", nn.Softmax(dim=1)", ""))
        assert await editor.told("train.py") == []

    session(tmp_path, act)


def test_fixes_are_offered_where_the_finding_is(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        await editor.told("train.py")
        mend, ignore = await editor.actions("train.py", 7)
        assert mend.is_preferred is False
        assert mend.title.endswith("(may change more)")
        assert "    optimizer.zero_grad()\n    loss.backward()\n" in editor.after("train.py", mend)
        expected = "    loss.backward()  # gradlint: ignore[missing-zero-grad]\n"
        assert expected in editor.after("train.py", ignore)
        assert await editor.actions("train.py", 1) == []
        assert await editor.actions("train.py", 7, ["refactor"]) == []
        editor.type("train.py", editor.after("train.py", ignore))
        assert await editor.actions("train.py", 7) == [], "the document has changed since it was checked"
        assert await editor.told("train.py") == []

    session(tmp_path, act)


def test_all_safe_fixes_at_once(tmp_path: Path) -> None:
    text = "import torch\n\nw = torch.nn.Linear(2, 2)\nprint(w.weight.numpy())\nprint(w.bias.numpy())"

    async def act(editor: Editor) -> None:
        editor.open("look.py", text)
        assert [one.code for one in await editor.told("look.py")] == ["GL501", "GL501"]
        (action,) = await editor.actions("look.py", 0, ["source.fixAll"])
        assert action.kind == "source.fixAll.gradlint"
        assert editor.after("look.py", action) == text.replace(".numpy()", ".detach().numpy()")
        editor.type("look.py", editor.after("look.py", action))
        assert await editor.told("look.py") == []
        assert await editor.actions("look.py", 0, ["source.fixAll"]) == []

    session(tmp_path, act)


def test_hovering_shows_the_manual(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        await editor.told("train.py")
        document = types.TextDocumentIdentifier(editor.uri("train.py"))
        page = await editor.client.text_document_hover_async(types.HoverParams(document, types.Position(7, 6)))
        assert page is not None
        assert isinstance(page.contents, types.MarkupContent)
        (rule,) = (rule for rule in all_rules() if rule.code == "GL201")
        assert rule.page() in page.contents.value
        nothing = await editor.client.text_document_hover_async(types.HoverParams(document, types.Position(0, 1)))
        assert nothing is None

    session(tmp_path, act)


def test_settings_are_those_of_the_project(tmp_path: Path) -> None:
    configuration = tmp_path / "pyproject.toml"
    configuration.write_text('[tool.gradlint]\nignore = ["GL201"]\nextend-exclude = ["old"]\n')

    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        assert await editor.told("train.py") == []
        editor.open("old/train.py", BROKEN)
        assert await editor.told("old/train.py") == []
        configuration.write_text("[tool.gradlint]\nselekt = []\n")
        editor.client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(editor.uri("train.py")))
        )
        while not editor.shown:
            await asyncio.sleep(0.05)
        assert "selekt" in editor.shown[0]
        assert str(configuration) in editor.shown[0]
        configuration.write_text("")
        editor.type("train.py", BROKEN + "\n")
        while not (found := await editor.told("train.py")):
            pass
        assert [one.code for one in found] == ["GL201"]

    session(tmp_path, act)


def test_the_option_that_editors_add_is_accepted(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        assert [one.code for one in await editor.told("train.py")] == ["GL201"]

    session(tmp_path, act, "--stdio")


def test_options_choose_rules(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN + "print(net.weight.numpy())\n")
        assert [one.code for one in await editor.told("train.py")] == ["GL501"]

    session(tmp_path, act, "--select", "GL5")


@pytest.mark.parametrize("run", ["onSave", "onType"])
def test_changes_wait_until_they_are_saved_where_that_is_wanted(tmp_path: Path, run: str) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        assert [one.code for one in await editor.told("train.py")] == ["GL201"]
        editor.type("train.py", MENDED)
        if run == "onSave":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(editor.told("train.py"), 2)
            document = types.TextDocumentIdentifier(editor.uri("train.py"))
            editor.client.text_document_did_save(types.DidSaveTextDocumentParams(document))
        assert await editor.told("train.py") == []

    session(tmp_path, act, settings={"run": run})


def test_what_is_not_python_is_told_where_it_is_not(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", "import torch\nx = (\n")
        (found,) = await editor.told("train.py")
        assert (found.code, found.range.start.line) == ("GL001", 1)

    session(tmp_path, act)


def test_closed_documents_are_forgotten(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("train.py", BROKEN)
        assert await editor.told("train.py")
        document = types.TextDocumentIdentifier(editor.uri("train.py"))
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        assert await editor.told("train.py") == []

    session(tmp_path, act)


def test_without_pygls_the_command_says_what_to_install(tmp_path: Path) -> None:
    program = """
import sys
import time
sys.modules["pygls"] = None
from gradlint.__main__ import main
sys.argv = ["gradlint", "server"]
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "python -m pip install 'gradlint[server]'" in done.stderr


@pytest.mark.parametrize("line", ['    s = """loss', "    s = 1 + \\"])
def test_no_comment_is_offered_where_none_can_stand(line: str) -> None:
    from gradlint.finding import Finding, Location, Severity
    from gradlint.server.documents import of_file
    from gradlint.server.suppressing import suppressed

    ends = {'    s = """loss': '    """', "    s = 1 + \\": "    2"}
    text = f"def f():\n{line}\n{ends[line]}\n"
    finding = Finding("GL201", "missing-zero-grad", "…", Severity.ERROR, Location("a.py", 2, 5, 2, 8))
    assert suppressed(of_file(Path("a.py"), text), finding) is None


def framed(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def request(number: int, method: str, params: object = None) -> bytes:
    given = {} if params is None else {"params": params}
    return framed({"jsonrpc": "2.0", "id": number, "method": method, **given})


INITIALIZE = request(1, "initialize", {"processId": None, "rootUri": None, "capabilities": {}})
SHUTDOWN, EXIT = request(9, "shutdown"), framed({"jsonrpc": "2.0", "method": "exit"})


def spoken(folder: Path, sent: bytes) -> tuple[int, list[dict[str, Any]], str]:
    """What a server answers to bytes, its exit code first and what it says on standard error last."""
    command = [sys.executable, "-m", "gradlint", "server", "--isolated"]
    done = subprocess.run(command, input=sent, cwd=folder, capture_output=True, timeout=120, check=False)
    bodies = re.split(rb"Content-Length: \d+\r\n(?:[^\r\n]+\r\n)*\r\n", done.stdout)[1:]
    return done.returncode, [json.loads(body) for body in bodies], done.stderr.decode()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(INITIALIZE + SHUTDOWN + EXIT, 0, id="shutdown and exit"),
        pytest.param(INITIALIZE + SHUTDOWN, 0, id="shutdown and nothing more"),
        pytest.param(INITIALIZE + EXIT, 1, id="exit"),
        pytest.param(INITIALIZE, 1, id="nothing more"),
        pytest.param(EXIT, 1, id="exit at once"),
    ],
)
def test_the_exit_code_tells_whether_the_end_was_announced(sent: bytes, code: int, tmp_path: Path) -> None:
    returned, _, err = spoken(tmp_path, sent)
    assert (returned, err) == (code, "")


def test_what_is_wrong_with_a_message_is_answered_and_costs_no_other(tmp_path: Path) -> None:
    place = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}
    sent = [
        request(2, "textDocument/hover", place),  # before initialize
        b"Content-Length: -5\r\n\r\n" + b"junk\r\n\r\n" + b"Content-Length: 99999999999999999999\r\n\r\n",
        INITIALIZE.replace(b"Content-Length", b"content-length").replace(b"\r\n", b"\n"),
        INITIALIZE,  # again
        framed({"jsonrpc": "2.0", "method": "initialized", "params": {}}),
        framed(b"{nope"),
        framed(b"\xff\xfe"),
        framed(b"[" * 100_000),
        framed([1, 2]),
        framed({"jsonrpc": "2.0", "id": {}, "method": "shutdown"}),
        request(3, "textDocument/hover", {"position": 1}),
        request(4, "textDocument/hover", [1]),
        request(5, "no/such"),
        framed({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 7}}),
        framed({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 77}}),
        framed({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {}}),
        framed({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": ["x", 7]}}),
        framed({"jsonrpc": "2.0", "method": "window/workDoneProgress/cancel", "params": {"token": {}}}),
        request(6, "textDocument/hover", place),
        SHUTDOWN,
        request(7, "textDocument/hover", place),  # too late
        EXIT,
    ]
    code, answers, said = spoken(tmp_path, b"".join(sent))
    assert "Traceback" not in said
    told = [(answer["id"], answer.get("error", {}).get("code")) for answer in answers if "id" in answer]
    assert told == [
        (2, -32002),
        (1, None),
        (1, -32600),
        *[(None, -32700)] * 3,
        *[(None, -32600)] * 2,
        (3, -32602),
        (4, -32602),
        (5, -32601),
        (6, None),
        (9, None),
        (7, -32600),
    ]
    assert code == 0


def test_what_is_nested_too_deeply_is_told_in_its_document(tmp_path: Path) -> None:
    async def act(editor: Editor) -> None:
        editor.open("deep.py", "import torch\nx = 1\nif x:\n    x = 2\n" + "elif x:\n    x = 3\n" * 1000)
        editor.open("flawed.py", "import torch\nimport deep\n" + BROKEN)
        (deep,) = await editor.told("deep.py")
        assert deep.code == "GL001"
        assert deep.message.startswith("the code is nested too deeply to be parsed")
        assert [found.code for found in await editor.told("flawed.py")] == ["GL201"]

    session(tmp_path, act, "--isolated")


def test_a_fault_in_one_document_is_told_there(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    (told,) = troubles_of(path, [f"{tmp_path}/b.py: internal error", f"{path}:7: internal error: ValueError: a fault"])
    assert told.message == "7: internal error: ValueError: a fault"
    assert told.range.start == types.Position(0, 0)


LINES = 200_000


def test_a_document_of_many_lines(tmp_path: Path) -> None:
    long = "# a note\n" * LINES

    async def act(editor: Editor) -> None:
        editor.open("train.py", long + BROKEN)
        (found,) = await editor.told("train.py")
        assert (found.code, found.range.start) == ("GL201", types.Position(LINES + 7, 4))
        mend, _ignore = await editor.actions("train.py", LINES + 7)
        assert editor.after("train.py", mend) == long + MENDED
        editor.type("train.py", long + MENDED)
        assert await editor.told("train.py") == []

    session(tmp_path, act, "--isolated")


@pytest.mark.parametrize("between", [0, 10, 100_000])
def test_edits_of_long_texts_are_found_at_once_and_make_the_one_of_the_other(between: int) -> None:
    before = "a\n" * between + "b\n" + "a\n" * between + "c\n" + "a\n" * between
    after = before.replace("b", "d").replace("c\n", "")
    edits = line_edits(before, after, PositionCodec())
    lines = before.splitlines(keepends=True)
    for edit in reversed(edits):
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    assert "".join(lines) == after
    assert len(edits) == (2 if between == 10 else 1)
    assert line_edits(before, before, PositionCodec()) == []


def test_while_a_check_takes_long_requests_are_answered_cancelled_and_the_end_is_not_delayed(tmp_path: Path) -> None:
    busy = "".join(["import torch\n", *(f"x{number} = {number}\n" for number in range(LINES)), BROKEN])
    document = {"uri": (tmp_path / "train.py").as_uri(), "languageId": "python", "version": 1, "text": busy}
    place = {"textDocument": {"uri": document["uri"]}, "position": {"line": 7, "character": 0}}
    command = [sys.executable, "-m", "gradlint", "server", "--isolated"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            opened = {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": document}}
            server.stdin.write(INITIALIZE + framed(opened))
            server.stdin.flush()
            assert answer(server.stdout)["id"] == 1
            time.sleep(2)  # the check has begun
            server.stdin.write(request(2, "textDocument/hover", place) + request(3, "textDocument/hover", place))
            server.stdin.write(framed({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 3}}))
            server.stdin.write(SHUTDOWN + EXIT)
            server.stdin.flush()
            assert [answer(server.stdout)["id"] for _ in range(3)] == [2, 3, 9]
            assert server.wait(timeout=60) == 0
            assert server.stdout.read() == b""
        finally:
            server.kill()


def answer(stream: IO[bytes]) -> dict[str, Any]:
    """The next message of a server."""
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    found: dict[str, Any] = json.loads(stream.read(length))
    return found
