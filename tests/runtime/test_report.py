"""The report of a guard: text, JSON, and a page that stands alone."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.events import GradientsMeasured
from gradlint.finding import Finding, Location, Severity
from gradlint.runtime import Guard
from gradlint.runtime import recording as recordings
from gradlint.runtime.page.charts import HEIGHT, curves, ticks
from gradlint.runtime.page.heatmap import heat
from gradlint.runtime.page.places import Name, shortened
from gradlint.runtime.page.rendering import as_page
from gradlint.runtime.recording import FIRST, LAST, POINTS, Recording

VOID = {"meta", "br", "wbr", "link", "img"}


class Page(HTMLParser):
    """Checks that elements close in order, and collects what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.labels: list[str] = []  #: what is written beside axes
        self.names: list[str] = []  #: of rows of charts
        self.tails: list[str] = []  #: of names, which are never cut short
        self.latest = ""  # class of the latest element
        self.depth: int | None = None  # of the name of a row that is open
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.latest = str(dict(attrs).get("class") or "")
        if self.latest.startswith("name ") and self.latest != "name end":
            self.names.append("")
            self.depth = len(self.open)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if self.depth is not None and len(self.open) == self.depth:
            self.depth = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.depth is not None:
            self.names[-1] += data
        if self.open and self.open[-1] == "text":
            self.labels.append(data)
        if self.latest == "tail":
            self.tails.append(data)
            self.latest = ""

    @property
    def titles(self) -> list[str]:
        return [str(attributes["title"]) for _, attributes in self.elements if "title" in attributes]

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
    assert page.classes("rect").count("found") == page.classes("rect").count("bad") == 2  # at the step, in its own row
    assert page.classes("rect").count("forward") == page.classes("rect").count("backward") == 3
    assert page.classes("rect").count("step") == 1
    assert page.text.count("GL201") == 1 + 1 + 2  # the card, its row, and what two marks say on demand
    assert page.classes("rect").count("heat") == 4  # the two layers, at the first and the second step
    assert page.classes("polyline") == ["curve c0"] * 3  # the loss, live graphs and memory


def test_a_page_needs_nothing_else_and_runs_nothing() -> None:
    text = train().report("html")
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.elements}
    assert not re.search(r"https?:|url\(|@import|\bsrc=", text)
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = {str(attributes["href"]) for _, attributes in page.elements if "href" in attributes}
    assert links == {f"#{name}" for name in ids} == {"#finding-1"}
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
    assert page.classes("rect").count("bad") == 1, "both lie side by side"
    assert "inf, nan at 2 to 3" in page.text
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
    assert {"0", "1", "2", "3", "4"} | {"50", "100"} <= set(page.labels), "the axes of both"


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
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "backward train.py:4" in " ".join(page.text.split())


def run_in(path: Path, source: str) -> Page:
    """The page of a program at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    with gradlint.guard(on_finding="collect") as guard:
        exec(compile(source, str(path), "exec"), {"__name__": "train"})  # noqa: S102  our own
    return Page(guard.report("html"))


SPENT = """
import torch
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range({steps}):
    (weight * 2).sum().backward()
    optimizer.step()
"""


def test_long_paths_cost_a_row_neither_its_kind_nor_its_line(tmp_path: Path) -> None:
    folder = tmp_path / ("a_folder_with_a_long_name/" * 5)
    page = run_in(folder / f"{'train' * 12}.py", SPENT.format(steps=3))
    labels = [" ".join(row.split()) for row in page.names]
    file = "train" * 12 + ".py"
    assert labels == [f"GL201 {file}:6", f"backward {file}:6", f"step {file}:7", "a parameter of shape (1,)"]
    assert page.tails[:4] == [":6", ":6", ":7", ":6"], "what is never cut short; the last is that of the loss"
    assert f"{folder}/{file}:6" in page.titles, "the whole path is there on demand"


def test_a_finding_that_is_seen_again_and_again_is_named_once(tmp_path: Path) -> None:
    page = run_in(tmp_path / "train.py", SPENT.format(steps=12))
    assert page.classes("rect").count("bad") == 11
    assert [name for name in page.names if "GL201" in name] == page.names[:1]
    assert page.classes("line").count("run") == 1, "its marks are connected"


def test_a_legend_tells_the_colours_that_are_there(tmp_path: Path) -> None:
    page = run_in(tmp_path / "train.py", SPENT.format(steps=2))
    shown = [style for style in page.classes("i") if style.startswith("swatch")]
    assert shown == ["swatch backward", "swatch step", "swatch bad", "swatch c0"]
    for words in ("backward pass", "optimizer step", "a finding"):
        assert words in page.text
    assert "forward call " not in page.text


def test_gradient_norms_have_axes_and_fill_the_width() -> None:
    measured = [(step, {"body.layer.weight": 10.0**-step, "head.weight": 1.0}) for step in (1, 2, 4, 8, 10, 20, 30)]
    chart = heat(Name("train.py", ":3", "train.py:3"), [*measured, (40, {"head.weight": math.inf})])
    assert chart is not None
    body, head = chart.rows.rows
    assert (str(body.name), body.name.tail, str(head.name)) == ("body.layer", ".layer", "head")
    assert [cell.x for cell in head.cells] == [12.5 * column for column in range(8)]
    assert {cell.width for cell in head.cells} == {12.5}
    assert [cell.weight for cell in body.cells][::6] == [0.97, 0.12], "the darker, the greater"
    assert [cell.style for cell in head.cells][-2:] == ["heat", "bad"]
    assert [tick.text for tick in chart.rows.ticks] == ["1", "2", "8", "10", "30", "40"]
    assert (chart.low, chart.high, chart.rows.x_name) == ("1e-30", "1", "step of the optimizer")
    assert chart.rows.legend == (("bad", "not finite"),)
    assert heat(Name("", "", ""), []) is None


def test_what_stands_in_backticks_is_code() -> None:
    where = Location(__file__, 1)
    finding = Finding("GL404", "x", "`self.<b>` is no `nn.Module`, ` alone", Severity.ERROR, where, remedy="use `a`")
    text = as_page([finding], Recording(), Path.cwd())
    Page(text)
    assert "<code>self.&lt;b&gt;</code> is no <code>nn.Module</code>, ` alone" in text
    assert "Use <code>a</code>." in text


def test_many_findings_of_one_rule_are_folded() -> None:
    findings = [
        Finding("GL110", "parameter-data-mutation", f"the {row}th", Severity.WARNING, Location(__file__, row))
        for row in range(1, 6)
    ]
    page = Page(as_page([*findings, replace(findings[0], code="GL101", name="other")], Recording(), Path.cwd()))
    assert "2 more of GL110 [parameter-data-mutation]" in page.text
    assert [name for name, _ in page.elements].count("details") == 1
    ids = [attributes["id"] for name, attributes in page.elements if name == "article"]
    assert ids == [f"finding-{number}" for number in (1, 2, 3, 4, 5, 6)]


def test_source_is_shown_without_its_common_indentation(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("class A:\n    def f(self):\n        if x:\n            y(\n  z)\n\n", encoding="utf-8")
    finding = Finding("GL404", "x", "m", Severity.ERROR, Location(str(path), 4, 13, 4, 14))
    page = Page(as_page([finding], Recording(), tmp_path))
    assert "2    def f(self):\n3        if x:\n4            y(\n5  z)\n" in page.text


def test_short_names_of_files_tell_them_apart() -> None:
    names = shortened(["/a/b/train.py", "/a/c/train.py", "/a/c/model.py", "/b/train.py", "<string>", "train.py"])
    assert names == {
        "/a/b/train.py": "a/b/train.py",
        "/a/c/train.py": "c/train.py",
        "/a/c/model.py": "model.py",
        "/b/train.py": "/b/train.py",
        "<string>": "<string>",
        "train.py": "train.py",
    }


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 4, [0, 1, 2, 3, 4]),
        (0, 104, [0, 50, 100]),
        (-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]),
        (3.0, 3.0, [3]),
        (1e300, 1.5e308, [5e307, 1e308, 1.5e308]),
    ],
)
def test_axes_have_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_a_line_stays_in_its_chart_whatever_its_values() -> None:
    for values in ([1.7e308, -1.7e308], [2.0, 2.0], [0.0], [math.nan, math.inf], [5e-324, 1e-323]):
        chart = curves({"loss": list(enumerate(values))}, "step")
        assert chart is not None
        for point in " ".join(curve.points for curve in chart.curves).split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 1000
            assert 0 <= y <= HEIGHT
        assert all(0 <= tick.at <= HEIGHT for tick in chart.left)
        assert all(0 <= band.x <= band.x + band.width <= 100 for band in chart.bands)


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
