"""Fixes: what is mended is mended for good, and nothing else changes by a byte.

The fixtures of the rules are the programs: every fix that a finding in them has is applied.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fixture_cases import RAISING, Case, cases_of, linted_slugs

from gradlint.cli import main
from gradlint.configuration import Configuration
from gradlint.engine import Earlier, Engine, Report, syntax_errors
from gradlint.finding import Applicability, Edit, Finding, Fix, Location, Severity
from gradlint.fixing import Mended, mend, replace_file, rewritten
from gradlint.rule import all_rules
from gradlint.selection import Choice
from gradlint.source import Source, read_source, source_from_bytes
from gradlint.static.drive import analysis
from gradlint.static.text.project import Project

#: told only of programs that run to their end: what has been detached is seen to be an evaluation
REVEALED = {"GL406"}
ENGINE = partial(Engine, Configuration(isolated=True), Choice("test", ("ALL",)))
FIXABLE = {rule.name.replace("-", "_"): rule.code for rule in all_rules() if rule.fix}
CASES = [
    case
    for slug in linted_slugs()
    if slug in FIXABLE
    for case in cases_of(slug)
    if any(FIXABLE[slug] == code for *_, code in case.marks)
]
ALONE = [case for case in CASES if case.alone]


def mended(folder: Path, paths: list[Path], *, unsafe: bool = True) -> tuple[Report, Mended]:
    """What is found, and what becomes of it; nothing is written."""
    engine = ENGINE()

    def check(given: Mapping[Path, Callable[[], Source]], earlier: Earlier | None = None) -> Report:
        return engine.check(paths, [folder], given, earlier)

    report = check({})
    return report, mend(report, check, unsafe=unsafe)


def as_notebook(text: str, **style: object) -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# é “title”\n"]},
        {"cell_type": "code", "execution_count": 1.50, "metadata": {}, "outputs": [], "source": text.splitlines(True)},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, **style) + "\n"  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_what_has_a_fix_is_gone_for_good(case: Case, tmp_path: Path) -> None:
    before, result = mended(tmp_path, case.write(tmp_path))
    fixed = Counter(finding.code for finding in before.findings if finding.fix is not None)
    own = FIXABLE[case.slug]
    assert sorted(f.location.row for f in before.findings if f.code == own) == sorted(
        m[1] for m in case.marks if m[2] == own
    )
    after = result.report
    assert result.applied.total() >= fixed.total()
    assert [finding for finding in after.findings if finding.fix is not None] == []
    assert (
        Counter(f.code for f in after.findings if f.code not in REVEALED)
        <= Counter(f.code for f in before.findings) - fixed
    )
    for path, data in result.after.items():
        assert syntax_errors(source_from_bytes(path, data)) == []


RUNNABLE = [case for case in CASES if not case.not_run]


@pytest.mark.parametrize("case", RUNNABLE, ids=[case.id for case in RUNNABLE])
def test_a_fixed_program_runs(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every fix applied, a program runs to its end, or raises what is left to mend."""
    pytest.importorskip("torch", reason="running the fixtures needs torch")
    paths = case.write(tmp_path)
    _, result = mended(tmp_path, paths)
    for path, data in result.after.items():
        path.write_bytes(data)
    left = {finding.code for finding in result.report.findings}
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known_modules = set(sys.modules)
    raises = bool(left & RAISING)
    try:
        with pytest.raises((AttributeError, RuntimeError, TypeError)) if raises else nullcontext():
            runpy.run_path("main.py", run_name="__main__")
    finally:
        own = {path.split("/")[0].removesuffix(".py") for path in case.files}
        for name in set(sys.modules) - known_modules:
            if name.split(".")[0] in own:
                del sys.modules[name]


@pytest.mark.parametrize("case", ALONE, ids=[case.id for case in ALONE])
def test_the_file_keeps_its_form(case: Case, tmp_path: Path) -> None:
    """With other line endings, a byte order mark, or in a notebook, the fixed text is the same."""
    for path in case.write(tmp_path):
        text = path.read_text(encoding="utf-8")
        report = ENGINE().check([path], [tmp_path])
        expected = rewritten(read_source(path), report.findings).data.decode()
        for old, new in (("\n", "\r\n"), ("\n", "\r")):
            other = b"\xef\xbb\xbf" + text.replace(old, new).encode()
            path.write_bytes(other)
            report = ENGINE().check([path], [tmp_path])
            assert (
                rewritten(read_source(path), report.findings).data
                == b"\xef\xbb\xbf" + expected.replace(old, new).encode()
            )
        path.write_text(text, encoding="utf-8")
        for style in ({"indent": 1, "ensure_ascii": False}, {"separators": (",", ":")}):
            notebook = path.with_suffix(".ipynb")
            notebook.write_text(as_notebook(text, **style), encoding="utf-8")
            found = ENGINE().check([notebook], [tmp_path]).findings
            done = rewritten(read_source(notebook), found).data.decode()
            if len(found) == len(report.findings):  # a notebook shows what a program discards
                assert done == as_notebook(expected, **style)
            notebook.unlink()


# --- by hand

NUMPY = """\
import torch
from torch import nn

net = nn.Linear(6, 4)
print(net(torch.randn(5, 6)).numpy())  # "kept" é
"""
FIXED = NUMPY.replace(".numpy", ".detach().numpy")


def finding(path: Path, *edits: tuple[int, int, int, str]) -> Finding:
    made = tuple(Edit(Location(str(path), row, start, row, end), text) for row, start, end, text in edits)
    return Finding("GL000", "x", "m", Severity.ERROR, made[0].location, fix=Fix("f", Applicability.SAFE, made))


def test_overlapping_and_touching_fixes_wait_for_the_next_run() -> None:
    path = Path("/nowhere/a.py")
    source = source_from_bytes(path, b"a = 1 + 2\n")
    one, other, apart = finding(path, (1, 5, 6, "3")), finding(path, (1, 6, 10, "")), finding(path, (1, 1, 2, "b"))
    assert rewritten(source, [one, other, apart]).data == b"b = 3 + 2\n"
    assert rewritten(source, [one, one]).data == b"a = 3 + 2\n"


def test_of_fixes_that_begin_together_the_longer_one_comes_first() -> None:
    path = Path("/nowhere/a.py")
    source = source_from_bytes(path, b"print(loss.data[0])\n")
    short, long = finding(path, (1, 12, 16, "detach()")), finding(path, (1, 12, 19, "item()"))
    assert rewritten(source, [short, long]).data == b"print(loss.item())\n"


def test_a_fix_that_leaves_no_python_is_left_out() -> None:
    path = Path("/nowhere/a.py")
    source = source_from_bytes(path, b"a = 1\nb = 2\n")
    result = rewritten(source, [finding(path, (1, 5, 6, "(")), finding(path, (2, 5, 6, "3"))])
    assert result.data == b"a = 1\nb = 3\n"
    assert len(result.applied) == 1


def test_a_fix_beyond_the_text_is_left_out() -> None:
    path = Path("/nowhere/a.py")
    source = source_from_bytes(path, b"a = 1\n")
    assert rewritten(source, [finding(path, (9, 1, 2, "b"))]).data == b"a = 1\n"


def test_another_encoding_is_kept() -> None:
    path = Path("/nowhere/a.py")
    data = "# coding: latin-1\na = 'é'\n".encode("latin-1")
    done = rewritten(source_from_bytes(path, data), [finding(path, (2, 1, 2, "b"))]).data
    assert done == "# coding: latin-1\nb = 'é'\n".encode("latin-1")
    data_not_writable = finding(path, (2, 1, 2, "б"))
    assert rewritten(source_from_bytes(path, data), [data_not_writable]).data == data


def test_fix_writes_and_keeps_permissions_and_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    real = tmp_path / "real.py"
    real.write_text(NUMPY, encoding="utf-8")
    real.chmod(0o751)
    link = tmp_path / "train.py"
    link.symlink_to(real)
    assert main(["--fix", "--isolated", "train.py"]) == 0
    assert capsys.readouterr().out == "No findings in 1 file.\nFixed 1 finding in 1 file.\n"
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == FIXED
    assert real.stat().st_mode & 0o777 == 0o751
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gradlint_cache", "real.py", "train.py"]
    assert main(["--diff", "--isolated", "train.py"]) == 0
    assert capsys.readouterr() == ("", "Would fix nothing.\n")


def test_diff_shows_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(NUMPY, encoding="utf-8")
    assert main(["--diff", "--isolated", "train.py"]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-2:] == [
        '-print(net(torch.randn(5, 6)).numpy())  # "kept" é',
        '+print(net(torch.randn(5, 6)).detach().numpy())  # "kept" é',
    ]
    assert shown.err == "Would fix 1 finding in 1 file.\n"
    assert path.read_text(encoding="utf-8") == NUMPY


def test_unsafe_fixes_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(NUMPY, encoding="utf-8")
    assert main(["--unsafe-fixes", "--isolated", "train.py"]) == 2
    text = (
        "import matplotlib.pyplot as plt\nimport torch\nlosses = []\n"
        "losses.append(torch.ones(1, requires_grad=True) * 2)\nplt.plot(losses)\n"
    )
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    assert main(["--fix", "--isolated", "train.py"]) == 1
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == text
    assert main(["--fix", "--unsafe-fixes", "--isolated", "train.py"]) == 0
    assert "losses.append((torch.ones(1, requires_grad=True) * 2).detach())" in (tmp_path / "train.py").read_text()


def test_json_tells_the_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(NUMPY, encoding="utf-8")
    assert main(["--isolated", "--output-format", "json", "train.py"]) == 1
    place = {"row": 5, "column": 29}
    assert json.loads(capsys.readouterr().out)[0]["fix"] == {
        "applicability": "safe",
        "message": "detach first",
        "edits": [{"content": ".detach()", "location": place, "end_location": place}],
    }


def test_a_fix_that_mends_nothing_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    before = source_from_bytes(path, b"a = 1\nb = 2\n")
    idle, good = finding(path, (1, 6, 6, "  ")), finding(path, (2, 5, 6, "0"))

    def check(given: Mapping[Path, Callable[[], Source]], _earlier: Earlier) -> Report:
        source = given[path]()
        return Report([path], lambda _: source, [idle, *([good] if source.rows[1].endswith("2") else [])])

    done = mend(Report([path], lambda _: before, [idle, good]), check, unsafe=True)
    assert done.after == {path: b"a = 1\nb = 0\n"}
    assert done.report.findings == [idle]


MODEL = """\
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return F.dropout(self.fc(x))
"""
TRAIN = """\
import torch

from model import Net
from plots import draw

net = Net()
for p in net.parameters():
    p.data.clamp_(-1, 1)
draw(net(torch.randn(2, 6)))
"""
PLOTS = """\
def draw(values):
    print(values.numpy())
"""
ALONE_STANDING = """\
import torch

draw = torch.ones(3, requires_grad=True)
print((draw * 2).numpy())
"""


def test_only_what_a_fix_can_alter_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"model": MODEL, "train": TRAIN, "plots": PLOTS, "other": ALONE_STANDING}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    paths = sorted(tmp_path.glob("*.py"))
    checked: list[list[str]] = []
    analyze = analysis.analyze

    def watched(project: Project, targets: Sequence[Path], *rest: Any, **options: Any) -> Any:
        checked.append(sorted(path.name for path in targets))
        return analyze(project, targets, *rest, **options)

    monkeypatch.setattr(analysis, "analyze", watched)
    engine = ENGINE()
    earlier = engine.check(paths, [tmp_path])
    for changed, connected in (("other.py", ["other.py"]), ("model.py", ["model.py", "plots.py", "train.py"])):
        path = tmp_path / changed
        source = earlier.read(path)
        data = rewritten(source, [f for f in earlier.findings if f.location.filename == str(path)]).data
        assert data != source.data
        given = {path: partial(source_from_bytes, path, data)}
        checked.clear()
        again = engine.check(paths, [tmp_path], given, Earlier(earlier, frozenset([path])))
        assert checked == [connected]
        anew = engine.check(paths, [tmp_path], given)
        assert again.findings == anew.findings
        assert (again.files, again.left_out) == (anew.files, anew.left_out)


@pytest.mark.parametrize("number", range(1, 4))
def test_a_fix_that_brings_an_error_is_taken_back(number: int, tmp_path: Path) -> None:
    """Of several fixes, the one to blame is found, and the others stay."""
    path = tmp_path / "a.py"
    before = source_from_bytes(path, b"a = 1\nb = 2\nc = 3\n")
    told = [replace(finding(path, (row, 5, 6, "0")), message=str(row)) for row in range(1, 4)]

    def check(given: Mapping[Path, Callable[[], Source]], earlier: Earlier) -> Report:
        assert earlier.changed == {path}
        rows = given[path]().rows
        left = [each for each in told if not rows[each.location.row - 1].endswith("0")]
        if rows[number - 1].endswith("0"):
            left.append(replace(told[0], code="GL999", fix=None, location=Location(str(path), number, 1)))
        return Report([path], lambda _: given[path](), left)

    done = mend(Report([path], lambda _: before, told), check, unsafe=True)
    kept = [b"a = 0", b"b = 0", b"c = 0"]
    kept[number - 1] = before.data.split(b"\n")[number - 1]
    assert done.after == {path: b"\n".join(kept) + b"\n"}
    assert done.applied.total() == 2
    assert [each.code for each in done.report.findings] == ["GL000"]


def test_a_file_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"new\n")
    with pytest.raises(OSError, match="changed"):
        replace_file(path, b"old\n", b"fixed\n")
    assert path.read_bytes() == b"new\n"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("x = Variable(x)", []),
        ("x, y = Variable(x), Variable(y)", []),
        ("x, y = Variable(x), y", []),
        ("x = Variable(x)  # as it was", ["x = x  # as it was"]),
        ("z = Variable(x)", ["z = x"]),
        ("x, y = Variable(y), Variable(x)", ["x, y = y, x"]),
        ("x, y = Variable(x), Variable(y).float()", ["x, y = x, y.float()"]),
    ],
)
def test_an_assignment_that_says_nothing_is_left_out(written: str, left: list[str], tmp_path: Path) -> None:
    lines = ["from torch.autograd import Variable", "def f(x, y):", "    # first", f"    {written}", "    return x", ""]
    path = tmp_path / "main.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    _, result = mended(tmp_path, [path])
    lines[3:4] = [f"    {line}" for line in left]
    assert result.after[path].decode() == "\n".join(lines)


HELPING = """\
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))


def loss_of(x, y):
    return F.cross_entropy(net(x), y)


def {name}(x, y):
    return loss_of(x, y).item()


for _ in range(3):
    net.train()
    optimizer.zero_grad()
    loss_of(x, y).backward()
    optimizer.step()
    net.eval()
    print({name}(x, y))
"""


@pytest.mark.parametrize(("name", "fixed"), [("show", False), ("test_loss", True)])
def test_a_function_that_may_train_as_well_is_left_to_record_graphs(name: str, fixed: bool, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(HELPING.format(name=name), encoding="utf-8")
    before, _ = mended(tmp_path, [path])
    assert [(finding.code, finding.fix is not None) for finding in before.findings] == [("GL406", fixed)]
    assert before.findings[0].location.row == HELPING[: HELPING.index(".item()")].count("\n") + 1


STEPPING = """\
import torch.nn.functional as F


def train(model, batches, optimizers):
    for x, y in batches:
        F.cross_entropy(model(x), y).backward()
        {steps}
"""


@pytest.mark.parametrize(
    ("steps", "fixed"),
    [
        ("[optimizer.step() for optimizer in optimizers]", False),
        ("for optimizer in optimizers: optimizer.step()", False),
        ("for optimizer in optimizers:\n            optimizer.step()", True),
    ],
)
def test_an_optimizer_is_cleared_where_it_has_its_name(steps: str, fixed: bool, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(STEPPING.format(steps=steps), encoding="utf-8")
    before, result = mended(tmp_path, [path])
    assert [(finding.code, finding.fix is not None) for finding in before.findings] == [("GL201", fixed)]
    assert (b"            optimizer.zero_grad()\n" in result.after.get(path, b"")) is fixed


CUT = """\
import torch
from torch import nn

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    parts = []
    for x in torch.randn(3, 5, 4):
        parts.append(net(x).pow(2).mean())
    loss = {}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ("torch.tensor(parts).mean()", "torch.stack(parts).mean()"),
        ("torch.tensor(parts, requires_grad=True).mean()", None),
        ("torch.tensor([part.item() for part in parts]).mean()", None),
    ],
)
def test_no_fix_cuts_further_what_was_to_be_walked(written: str, fixed: str | None, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(CUT.format(written))
    _, done = mended(tmp_path, [path], unsafe=False)
    texts = [data.decode() for data in done.after.values()]
    assert texts == ([CUT.format(fixed)] if fixed is not None else [])


@pytest.mark.parametrize(("change", "fixed"), [("zero_()", "nn.init.zeros_(layer.bias)"), ("add_(1)", None)])
def test_all_that_a_function_initialises_is_fixed_together(change: str, fixed: str | None, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n\ndef start(layer: nn.Linear):\n"
        f"    layer.weight.data.normal_(0, 0.1)\n    layer.bias.data.{change}\n    layer.weight.data.fill_(0.5)\n"
    )
    report, done = mended(tmp_path, [path], unsafe=False)
    assert [finding.code for finding in report.findings if finding.code == "GL110"] == ["GL110"]
    texts = [data.decode() for data in done.after.values()]
    assert [text.splitlines()[5:] for text in texts] == (
        [["    nn.init.normal_(layer.weight, 0, 0.1)", f"    {fixed}", "    nn.init.constant_(layer.weight, 0.5)"]]
        if fixed is not None
        else []
    )


@pytest.mark.parametrize("name", ["weight", "bias", "scale"])
def test_what_may_have_been_meant_to_be_trained_becomes_no_buffer(name: str, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.{name} = torch.ones(3)\n\n"
        f"    def forward(self, x):\n        return x * self.{name}\n\n\nNet()(torch.ones(3))\n"
    )
    report, done = mended(tmp_path, [path])
    assert [finding.code for finding in report.findings] == ["GL411"]
    assert ["register_buffer" in data.decode() for data in done.after.values()] == ([True] if name == "scale" else [])


def test_a_fix_is_not_to_blame_for_what_another_mistake_has_hidden(tmp_path: Path) -> None:
    """A fix brings lines above, and one more mistake of the kind that the other fix mends shows elsewhere."""
    path = tmp_path / "a.py"
    before = source_from_bytes(path, b"a = 1\nb = 2\n")
    wrap = replace(finding(path, (1, 1, 1, "if 1:\n    ")), code="GL001")
    told = [wrap, finding(path, (2, 5, 6, "0"))]
    checks = []

    def check(given: Mapping[Path, Callable[[], Source]], _earlier: Earlier) -> Report:
        source = given[path]()
        checks.append(source)
        row = len(source.rows) - 2
        left = [] if source.rows[row - 1].endswith("0") else [finding(path, (row, 9, 10, "0"))]
        return Report([path], lambda _: source, left)

    done = mend(Report([path], lambda _: before, told), check, unsafe=True)
    assert (done.after, len(checks)) == ({path: b"if 1:\n    a = 0\nb = 0\n"}, 2)


def test_one_fix_to_take_back_costs_no_other(tmp_path: Path) -> None:
    """However many there are to look for: those of other files are applied in the same run."""
    paths = [tmp_path / f"{number}.py" for number in range(32)]
    before = {path: source_from_bytes(path, b"a = 1\nb = 2\n") for path in paths}
    idle = [finding(path, (1, 6, 6, "  ")) for path in paths[::8]]
    good = [finding(path, (2, 5, 6, "0")) for path in paths]

    def check(given: Mapping[Path, Callable[[], Source]], _earlier: Earlier) -> Report:
        now = {**before, **{path: read() for path, read in given.items()}}
        left = [each for each in good if now[Path(each.location.filename)].rows[1].endswith("2")]
        return Report(paths, now.__getitem__, [*idle, *left])

    done = mend(Report(paths, before.__getitem__, [*idle, *good]), check, unsafe=True)
    assert done.after == dict.fromkeys(paths, b"a = 1\nb = 0\n")
