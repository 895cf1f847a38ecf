"""What is let go of between entry points: trees, which come back when they are needed, and what was noted of values."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.finding import Finding
from gradlint.selection import Choice
from gradlint.source import source_from_text
from gradlint.static.state.context import Ledgers
from gradlint.static.text import trees
from gradlint.static.text.definition_units import ClassUnit, FunctionUnit
from gradlint.static.text.files import Module
from gradlint.static.text.units import StatementUnit, Unit

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent
TEXT = """\
import torch

class A:
    def f(self, x):
        return x.numpy()

def g(x):
    return x + 1
"""


def load(text: str = TEXT) -> Module:
    module = Module(source_from_text(text, Path("/somewhere/file.py")), "file")
    module.check()
    return module


def test_a_tree_comes_back_as_it_was_while_a_site_holds_it() -> None:
    _, cls, _ = load().units
    assert isinstance(cls, ClassUnit)
    method = cls.methods["f"]
    node = method.node
    site = method.site(node.body.body[0])
    place = site.locate()
    method.let_go()
    assert method.node is node
    assert method.site(node.body.body[0]) == site
    method.let_go()
    assert site.locate() == place
    assert (place.row, place.column) == (5, 9)


def test_a_tree_that_nothing_holds_is_parsed_again() -> None:
    function = load().units[2]
    assert isinstance(function, FunctionUnit)
    before = function.here
    before_row = function.node.body.body[0]
    code = cst.Module([]).code_for_node(before_row)
    function.let_go()
    del before_row
    gc.collect()
    assert function._former is not None
    assert function._former() is None
    assert cst.Module([]).code_for_node(function.node.body.body[0]) == code
    assert function.here is before
    assert (before.locate().row, before.locate().column) == (7, 1)


def test_a_unit_is_a_place_that_need_not_be_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = load().units[1]
    with monkeypatch.context() as patch:
        patch.setattr(cst, "parse_module", None)
        site = cls.here
    assert site == cls.here
    assert cls.site(cls.node) == site
    assert (site.locate().row, site.locate().column) == (3, 1)


def test_more_are_kept_of_a_large_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MAX_CHARACTERS", 1)
    module = load()
    for unit in module.units:
        assert unit.node is not None
    monkeypatch.setattr(trees, "SHARE", 1)  # as many as there are
    assert not module.trees.trim()
    monkeypatch.setattr(trees, "SHARE", 10)
    assert module.trees.trim()


def test_those_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first, cls, last = load().units
    module = first.module
    monkeypatch.setattr(trees, "MAX_CHARACTERS", 10_000)
    for unit in (first, cls, last):
        assert unit.node is not None
    assert not module.trees.trim()
    assert isinstance(first, StatementUnit)
    assert first.node is not None  # used again
    monkeypatch.setattr(trees, "MAX_CHARACTERS", 2 * len(first.text) + 2)
    assert module.trees.trim()
    assert [unit._tree is None for unit in (first, cls, last)] == [False, True, True]


def test_ledgers_keep_what_modules_noted() -> None:
    ledgers = Ledgers()
    notes: dict[str, int] = ledgers.open()
    notes["before"] = 1
    sizes = ledgers.sizes()
    notes["in a module"] = 2
    ledgers.keep(sizes)
    notes["after"] = 3
    ledgers.trim()
    assert notes == {"in a module": 2}
    notes["later"] = 4
    ledgers.trim()
    assert notes == {"in a module": 2}


def test_ledgers_forget_what_is_said_anew_of_what_lasts_but_by_modules() -> None:
    ledgers = Ledgers()
    notes: dict[str, int] = ledgers.open()
    sizes = ledgers.sizes()
    notes |= {"by functions": 1, "by modules": 1, "by both": 1}
    ledgers.keep(sizes)
    notes["by functions"] = 2
    notes |= {"by both": 2}
    sizes = ledgers.sizes()
    notes["by modules"] = notes["by both"] = 3
    ledgers.keep(sizes)
    ledgers.trim()
    assert notes == {"by functions": 1, "by modules": 3, "by both": 1}
    sizes = ledgers.sizes()
    notes["by both"] = 4
    ledgers.keep(sizes)
    ledgers.trim()
    assert notes == {"by functions": 1, "by modules": 3, "by both": 4}


class Note:
    """Counts how often it is looked up."""

    def __init__(self) -> None:
        self.looked_up = 0

    def __hash__(self) -> int:
        self.looked_up += 1
        return id(self)


def test_letting_go_does_not_look_at_what_stays() -> None:
    ledgers = Ledgers()
    notes: dict[object, int] = ledgers.open()
    sizes = ledgers.sizes()
    lasting = [Note() for _ in range(10)]
    notes.update(dict.fromkeys(lasting, 1))
    ledgers.keep(sizes)
    ledgers.trim()
    before = [note.looked_up for note in lasting]
    notes["of an entry point"] = 2
    ledgers.trim()
    assert [note.looked_up for note in lasting] == before
    assert len(notes) == len(lasting)


def test_the_fields_of_a_class_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = "".join(f"def f{n}(c: Config, x):\n    return x.numpy(), c.net(x).numpy()\n\n\n" for n in range(8))
    fields = "".join(f"    width_{n}: int = {n}\n" for n in range(20))
    path = tmp_path / "config.py"
    path.write_text(
        "from dataclasses import dataclass\n\nfrom torch import nn\n\n\n"
        f"@dataclass\nclass Config:\n    net: nn.Linear\n{fields}\n\n{functions}"
    )
    parsed: list[str] = []
    parse = cst.parse_module

    def counted(text: str) -> cst.Module:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(trees, "MAX_CHARACTERS", 0)
    monkeypatch.setattr(cst, "parse_module", counted)
    check(path)
    assert sum("width_7: int" in text and "width_8" not in text for text in parsed) <= 2  # once executed, once read
    assert sum("net: nn.Linear" in text for text in parsed) > 2


def check(*paths: Path) -> list[Finding]:
    """The findings in files, in order."""
    report = Engine(Configuration(isolated=True), Choice(select=("ALL",)), jobs=1).check(paths, paths)
    assert report.troubles == []
    return report.findings


def test_the_findings_are_those_of_trees_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = 0
    plain = Unit.let_go

    def counted(unit: Unit) -> None:
        nonlocal let_go
        let_go += 1
        plain(unit)

    files = sorted((HERE / "fixtures").rglob("*.py"))[::7]
    monkeypatch.setattr(trees, "MAX_CHARACTERS", 10**9)
    expected = check(*files)
    monkeypatch.setattr(trees, "MAX_CHARACTERS", 0)
    monkeypatch.setattr(Unit, "let_go", counted)
    assert check(*files) == expected
    assert len(expected) > 100
    assert let_go > 500


def test_what_a_module_left_behind_is_known_in_every_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MAX_CHARACTERS", 0)
    state, use = tmp_path / "state.py", tmp_path / "use.py"
    state.write_text(
        "import torch\n"
        "from torch import nn\n"
        "from somewhere import encode\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "total = encode(x * 2).sum()\n"
        "total.backward()\n"
        "kept = (x * 3).sum()\n"
        "kept.backward()\n"
        "frozen = x.detach()\n"
        "model = nn.Sequential(nn.Linear(3, 3), nn.Dropout())\n"
        "change = [\n    lambda value: value * 2,\n    lambda value: value.numpy(),\n]\n"
        "data = torch.ones(3)\n"
        "with torch.no_grad():\n"
        "    scores = model(data)\n",
        encoding="utf-8",
    )
    use.write_text(
        "import torch\nfrom state import change, data, frozen, kept, model, scores, x\n\n\n"
        "def first():\n    return frozen.numpy(), kept.item()\n\n\n"
        "def second():\n    kept.backward()\n\n\n"
        "def third():\n    return kept.numpy()\n\n\n"
        "@torch.no_grad()\ndef fourth():\n    return model(data).argmax().item(), scores.argmax().item()\n\n\n"
        "def fifth():\n    return change[1](x)\n",
        encoding="utf-8",
    )
    found = [f"{Path(f.location.filename).stem}:{f.location.row}:{f.code}" for f in check(state, use)]
    assert found == ["state:13:GL501", "state:17:GL407", "use:10:GL203", "use:14:GL501", "use:19:GL407"]


def test_named_tuples_of_different_kinds_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(
        "import torch\n"
        "from collections import namedtuple\n"
        "Short = namedtuple('Short', 'loss')\n"
        "Long = namedtuple('Long', 'loss logits')\n\n\n"
        "def f(flag, w):\n"
        "    x = torch.ones(3, requires_grad=True)\n"
        "    out = Long(x.sum(), x * 2) if flag else Short(x.sum())\n"
        "    return out.logits.numpy(), out.loss.numpy()\n",
        encoding="utf-8",
    )
    assert [finding.code for finding in check(path)] == ["GL501", "GL501"]
