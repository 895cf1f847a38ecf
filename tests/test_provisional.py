"""What an editor is told before all that imports its documents has been followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from lsprotocol import types
from pygls import uris
from pygls.workspace import Workspace

from gradlint.configuration import Configuration
from gradlint.engine import Report
from gradlint.selection import Choice
from gradlint.server.checking import Checker, SupersededError
from gradlint.server.serving import Server
from tests.test_server import Editor, session

MODEL = """\
import torch
from torch import nn


def loss_of(criterion, out, y):
    return criterion(torch.softmax(out, dim=1), y)


def fit(net, optimizer, batches):
    for x in batches:
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
"""
TRAIN = """\
import torch
from model import fit, loss_of
from torch import nn

net = nn.Linear(6, 4)
loss_of(nn.CrossEntropyLoss(), net(torch.randn(3, 6)), torch.tensor([0, 1, 0]))


class Clearing(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        self.zero_grad()


fit(net, Clearing(net.parameters(), lr=0.1), torch.randn(3, 5, 6))
"""
UNUSED = "import math  # noqa: GL101\n"


class Project:
    """A folder with a script that imports a document, and a checker of the document."""

    def __init__(self, folder: Path, script: str = TRAIN) -> None:
        self.folder, self.model = folder, folder / "model.py"
        self.model.write_text(MODEL, encoding="utf-8")
        (folder / "train.py").write_text(script, encoding="utf-8")
        self.checker = Checker(lambda disk: Configuration(isolated=True, disk=disk), Choice(extend_select=("GL002",)))
        self.changed: frozenset[Path] | None = None

    def soon(self, text: str) -> list[tuple[str, int]] | None:
        report = self.checker.check_alone({self.model: text}, [self.folder], self.changed)
        return None if report is None else found(report)

    def whole(self, text: str) -> list[tuple[str, int]]:
        report = self.checker.check({self.model: text}, [self.folder], self.changed)
        self.changed = frozenset([self.model])
        return found(report)


def found(report: Report) -> list[tuple[str, int]]:
    return [(finding.code, finding.location.row) for finding in report.findings]


def test_what_other_files_tell_is_known_once_they_were_followed(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.soon(MODEL) == [("GL201", 12)]
    assert project.whole(MODEL) == [("GL301", 6)]
    other = MODEL.replace("import torch\n", "import torch\n\nSIZE = 4\n", 1)
    assert project.soon(other) == [("GL301", 8)]
    assert project.whole(other) == [("GL301", 8)]


def test_a_new_mistake_is_told_at_once_and_one_that_is_mended_no_more(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.soon(MODEL)
    project.whole(MODEL)
    more = MODEL + "\n\nx = torch.ones(3)\nx.add(1)\n"
    assert project.soon(more) == [("GL301", 6), ("GL505", 17)]
    assert project.soon(MODEL) == [("GL301", 6)]


def test_nothing_is_fixed_before_all_is_known(tmp_path: Path) -> None:
    project = Project(tmp_path)
    texts = {project.model: MODEL + "\n\nx = torch.ones(3)\nx.add(1)\n"}
    soon = project.checker.check_alone(texts, [tmp_path])
    assert soon is not None
    assert [(finding.code, finding.fix) for finding in soon.findings] == [("GL201", None), ("GL505", None)]
    whole = project.checker.check(texts, [tmp_path])
    assert [(finding.code, finding.fix is not None) for finding in whole.findings] == [("GL301", True), ("GL505", True)]
    again = project.checker.check_alone(texts, [tmp_path], frozenset([project.model]))
    assert again is not None
    assert [(finding.code, finding.fix) for finding in again.findings] == [("GL301", None), ("GL505", None)]


def test_what_was_edited_is_told_anew(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.soon(MODEL)
    project.whole(MODEL)
    edited = MODEL.replace("torch.softmax(out, dim=1)", "out").replace("loss.backward()", "(loss * 2).backward()")
    assert project.soon(edited) == [("GL201", 12)]  # nothing is known of this line yet
    assert project.whole(edited) == []


def test_a_document_that_nothing_imports_is_checked_once(tmp_path: Path) -> None:
    project = Project(tmp_path, script="import math\n")
    assert project.soon(MODEL) is None
    assert project.whole(MODEL) == [("GL201", 12)]


def test_comments_that_only_seem_to_suppress_nothing_wait_for_the_whole_check(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.soon(UNUSED + MODEL) == [("GL201", 13)]
    assert ("GL002", 1) in project.whole(UNUSED + MODEL)


def test_findings_move_with_comments_and_so_does_what_they_were_made_from(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.soon(MODEL)
    project.whole(MODEL)
    commented = "# a remark\n" + MODEL
    moved = project.checker.moved({project.model: commented}, frozenset([project.model]))
    assert moved is not None
    assert found(moved) == [("GL301", 7)]
    assert project.soon(commented + "SIZE = 4\n") == [("GL301", 7)]


def test_a_check_that_is_superseded_leaves_what_was_known(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.soon(MODEL)
    project.whole(MODEL)
    edited = MODEL + "SIZE = 4\n"
    project.soon(edited)
    with pytest.raises(SupersededError):
        project.checker.check({project.model: edited}, [tmp_path], frozenset([project.model]), lambda: True)
    assert project.soon(MODEL + "SIZE = 5\n") == [("GL301", 6)]


def test_the_editor_is_told_twice_where_more_comes_out(tmp_path: Path) -> None:
    Project(tmp_path)

    async def act(editor: Editor) -> None:
        editor.open("model.py", MODEL)
        assert [one.code for one in await editor.told("model.py")] == ["GL201"]
        assert [one.code for one in await editor.told("model.py")] == ["GL301"]
        editor.type("model.py", MODEL + "SIZE = 4\n")
        assert [one.code for one in await editor.told("model.py")] == ["GL301"]

    session(tmp_path, act)


class Endless(Checker):
    """A checker whose whole checks end only where they are not wanted any more, but for one of a last text."""

    def check(
        self,
        texts: Mapping[Path, str],
        roots: Sequence[Path] = (),
        changed: frozenset[Path] | None = None,
        superseded: Callable[[], bool] = lambda: False,
    ) -> Report:
        while LAST not in "".join(texts.values()):
            if superseded():
                raise SupersededError
            time.sleep(0.01)
        return super().check(texts, roots, changed, superseded)


LAST = "SIZE = 3\n"


def test_a_change_does_not_wait_for_a_whole_check_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Project(tmp_path).model
    server = Server(Endless(lambda disk: Configuration(isolated=True, disk=disk), Choice()))
    uri = uris.from_fs_path(str(model)) or ""
    told: list[list[str]] = []

    async def act() -> None:
        workspace = server.protocol._workspace = Workspace(None, types.TextDocumentSyncKind.Full)
        workspace.add_folder(types.WorkspaceFolder(uris.from_fs_path(str(tmp_path)) or "", "project"))
        for number in range(4):
            text = MODEL + f"SIZE = {number}\n"
            workspace.put_text_document(types.TextDocumentItem(uri, "python", number, text))
            server.ask(model if number else None)
            while len(told) == number:
                await asyncio.sleep(0.01)
        while len(told) == number + 1:
            await asyncio.sleep(0.01)

    def tell(_checked: object, report: Report) -> None:
        told.append([code for code, _ in found(report)])

    monkeypatch.setattr(server, "_tell_all", tell)
    asyncio.run(asyncio.wait_for(act(), 60))
    assert told == [["GL201"]] * 4 + [["GL301"]]
