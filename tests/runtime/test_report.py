"""The report of a guard: text, JSON, and a page that stands alone."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.events import GradientsMeasured
from gradlint.finding import Location
from gradlint.runtime import Guard
from gradlint.runtime import recording as recordings
from gradlint.runtime.recording import FIRST, LAST, POINTS, Recording

VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """Checks that elements close in order, and collects what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.labels: list[str] = []  #: what is written beside axes
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "text":
            self.labels.append(data)

    def classes(self, tag: str) -> list[str]:
        return [str(attributes.get("class", "")) for name, attributes in self.elements if name == tag]


def train(steps: int = 3, clear: bool = False, **options: Any) -> Guard:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradlint.guard(model, optimizer, on_finding="collect", **options) as guard:
        for _ in range(steps):
            if clear:
                optimizer.zero_grad()
            model(torch.randn(8, 2)).pow(2).mean().backward()  # <script>alert("&")</script>
            optimizer.step()
    return guard


def test_text_and_json() -> None:
    guard = train()
    assert guard.report().count("GL201 [missing-zero-grad]") == 1
    assert guard.report().endswith("gradlint: 1 error while it ran\n")
    assert guard.report("concise").count("\n") == 2
    (finding,) = json.loads(guard.report("json"))
    assert (finding["code"], finding["count"]) == ("GL201", 2)


def test_formats_of_other_programs_name_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    guard = train()
    (found,) = guard.findings
    (run,) = json.loads(guard.report("sarif"))["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "GL201"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "test_report.py"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == found.location.row
    (issue,) = json.loads(guard.report("gitlab"))
    assert issue["location"] == {
        "path": "test_report.py",
        "lines": {"begin": found.location.row, "end": found.location.row},
    }
    assert 'failures="1"' in guard.report("junit")


def test_the_ending_of_a_file_decides(tmp_path: Path) -> None:
    guard = train()
    for name in ("report.html", "report.JSON", "report.txt"):
        guard.save(tmp_path / name)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads((tmp_path / "report.JSON").read_text(encoding="utf-8"))[0]["code"] == "GL201"
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == guard.report()


def test_a_page_tells_the_finding_and_marks_it_on_the_timeline() -> None:
    page = Page(train().report("html"))
    assert "Gradients are added to those an earlier step already applied" in page.text
    assert 'model(torch.randn(8, 2)).pow(2).mean().backward()  # <script>alert("&")</script>' in page.text
    assert page.classes("rect").count("bad") == 2
    assert page.classes("rect").count("forward") == page.classes("rect").count("backward") == 3
    assert page.classes("rect").count("step") == 1
    assert page.classes("rect").count("heat") == 4  # the two layers, at the first and the second step
    assert page.classes("polyline") == ["curve c0"] * 3  # the loss, live graphs and memory


def test_a_page_needs_nothing_else_and_runs_nothing() -> None:
    text = train().report("html")
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.elements}
    assert not re.search(r"https?:|url\(|@import|\bsrc=|\bhref=", text)
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_a_page_of_a_right_loop_says_so() -> None:
    page = Page(train(clear=True).report("html"))
    assert "None. What the guard looks for did not happen" in page.text
    assert "bad" not in page.classes("rect")


def test_a_page_before_anything_happened() -> None:
    assert "no findings while it ran" in Page(gradlint.guard().report("html")).text


def test_losses_that_are_not_finite_are_shown_as_such() -> None:
    weight = torch.ones(1, requires_grad=True)
    with gradlint.guard(on_finding="collect") as guard:
        for factor in (1.0, math.inf, math.nan, 2.0):
            (weight * factor).sum().backward()
            weight.grad = None
    page = Page(guard.report("html"))
    assert page.classes("circle") == ["bad", "bad"]
    assert [value for line in guard._recording.losses.values() for _, value in line][0::3] == [1.0, 2.0]


def test_a_long_loop_is_kept_in_bounded_memory() -> None:
    guard = train(steps=700, clear=True)
    recording = guard._recording
    assert recording.counts == {"forward": 700, "backward": 700, "grad": 0, "step": 700}
    assert len(recording.happenings) == FIRST + LAST
    (losses,) = recording.losses.values()
    assert POINTS / 2 <= len(losses) <= POINTS
    assert [x for x, _ in losses] == list(range(1, 700, 2))
    assert "1,980 events are left out" in Page(guard.report("html")).text


def test_norms_are_kept_by_backward_pass() -> None:
    recording = Recording()
    for step in range(1, 4):
        for row in (5, 9):
            site = Location("train.py", row)
            recording.measured(GradientsMeasured(site=site, step=step, norms={"a.weight": (0.0, float(step + row))}))
    assert [site.row for site in recording.norms] == [5, 9]  # type: ignore[attr-defined]  # they are locations here
    assert recording.norms[Location("train.py", 9)].points[-1] == (3, {"a.weight": 12.0})


def test_live_graphs_and_memory_are_those_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter(range(100 * 2**20, 200 * 2**20, 2**20))
    monkeypatch.setattr(recordings, "PAUSE", 0.0)
    monkeypatch.setattr(recordings, "memory_used", lambda: next(used))
    model, kept = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradlint.guard(on_finding="collect") as guard:
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(torch.randn(3, 2)).pow(2).mean()
            loss.backward()
            optimizer.step()
            kept.append(loss)
    recording = guard._recording
    assert recording.graphs.points == [(1, 1), (2, 2), (3, 3), (4, 4), (4, 4)], "the last one at the end"
    assert [used // 2**20 for _, used in recording.memory.points] == [100, 101, 102, 103, 104]
    page = Page(guard.report("html"))
    assert "Live graphs" in page.text
    assert "MiB that the process takes" in page.text
    titles = [text for text in ("live graphs", "memory") if text in page.text]
    assert titles == ["live graphs", "memory"]
    assert {"0", "2", "4", "52", "104"} <= set(page.labels), "the axes of both"


def test_looks_at_memory_are_rare() -> None:
    recording = train(steps=40, clear=True)._recording
    assert 1 < len(recording.memory.points) < 40
    assert [step for step, _ in recording.graphs.points] == [step for step, _ in recording.memory.points]


def test_the_memory_of_this_process_is_told() -> None:
    used = recordings.memory_used()
    assert used is None or 10 * 2**20 < used < 2**40


def test_names_and_messages_of_the_program_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "<b>train & 'fit'.py"
    path.write_text(
        "import torch\nmodel = torch.nn.Sequential()\nmodel.add_module('<i>\"&', torch.nn.Linear(2, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    model(torch.ones(1, 2)).sum().backward()  # </pre><script>alert(1)</script>\n"
        "    optimizer.step()\n",
        encoding="utf-8",
    )
    with gradlint.guard(on_finding="collect") as guard:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "train"})  # noqa: S102  our own
    text = guard.report("html")
    page = Page(text)
    assert "<script" not in text
    assert "</pre><script>alert(1)</script>" in page.text, "as text"
    assert '<i>"&' in page.text, "the layer is named"
    assert "<b>train & 'fit'.py" in page.text


def test_modes_of_the_program_see_nothing_of_the_recording() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    weight = torch.ones(1, requires_grad=True)
    with gradlint.guard(on_finding="collect"), Mode():
        (weight * 2).sum().backward()
    assert not [name for name in seen if "scalar" in name or "clone" in name]


def test_the_command_line_writes_a_page(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, torch\nweight = torch.ones(1, requires_grad=True)\nos.chdir('/')\n(weight * 2).sum().backward()\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "gradlint", "run", "--html", "report.html", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "backward  train.py:4" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium is installed to look at the page with")
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    train().save(tmp_path / "report.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    command = ["chromium", *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, (tmp_path / "report.html").as_uri()], capture_output=True, text=True, check=False, timeout=120
    )
    assert "missing-zero-grad" in done.stdout, done.stderr
    assert "Refused to" not in done.stderr
