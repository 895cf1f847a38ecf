"""What is known of a function that is too costly to follow where something calls it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from fixture_cases import cases_of

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import analyze
from gradlint.static.python.budget import Budget
from gradlint.static.text.project import Project

UNFOLLOWED = [
    ("dropout_without_training", "silent, the same where nothing builds the module", "noise"),
    ("eval_without_no_grad", "silent, a property is set, and the model asks it", "records"),
    ("frozen_norm_drifts", "silent, train() keeps it frozen", "train"),
    ("graph_freed", "each action of a memory has a graph of its own", "put_data"),
    ("input_requires_grad", "style transfer optimises the input", "closure"),
    ("missing_zero_grad", "a closure that forgets to clear, and one that clears", "clearing"),
    ("missing_zero_grad", "silent, the generator that a loop goes over clears gradients", "cleared"),
    ("missing_zero_grad", "silent, the generator that a loop goes over clears gradients", "losses"),
    ("missing_zero_grad", "silent, the model is one of several by name, and None for any other name", "build"),
    (
        "missing_zero_grad",
        "silent, all optimizers in a dict of a library are cleared, and settings lie in others",
        "reset",
    ),
    ("numpy_on_grad", "method that another file calls under no_grad", "detect"),
]


@pytest.mark.parametrize(("slug", "name", "function"), UNFOLLOWED, ids=lambda value: value[:40])
def test_what_is_not_followed_makes_nothing_false(
    slug: str, name: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(case for case in cases_of(slug) if case.name == name)
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == function)
    rules = [rule for rule in all_rules() if rule.default() or rule.name.replace("-", "_") == slug]
    found = analyze(Project([tmp_path]), case.write(tmp_path), rules).findings
    places = ((str(Path(each.location.filename).relative_to(tmp_path)), each.location.row, each.code) for each in found)
    assert not Counter(places) - Counter(case.marks)


NET = """\
import torch
from torch import nn, optim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, batch):
        return self.head(self.scaled(batch))

    def scaled(self, batch):
        return batch / 2

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(8, 4, 3):
    net(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("function", ["__init__", "forward", "scaled"])
def test_what_neither_trains_nor_clears_is_not_taken_to(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == function)
    assert found_rows(tmp_path, NET, "GL201") == [NET[: NET.index("backward()")].count("\n") + 1]


@pytest.mark.parametrize("cleared", ["net.zero_grad()", "[setattr(p, 'grad', None) for p in net.parameters()]"])
def test_what_clears_what_it_mentions_may_do_so(cleared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "begin")
    text = NET.replace("    net(x)", "    begin()\n    net(x)")
    assert not found_rows(tmp_path, text.replace("net = Net()", f"def begin():\n    {cleared}\n\nnet = Net()"), "GL201")


TOLD = """\
import torch
from torch import nn

class Clearing:
    def before(self, fitter):
        fitter.optimizer.zero_grad()

class Base:
    def begin(self):
        self.prepare()

    def prepare(self):
        pass

class Fitter(Base):
    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.net = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def prepare(self):
        self.optimizer.zero_grad()

    def notify(self):
        for callback in self.callbacks:
            callback.before(self)

    def tell(self, name):
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def fit(self, batches):
        for batch in batches:
            BEGINNING
            self.net(batch).mean().backward()
            self.optimizer.step()

Fitter([Clearing()]).fit(torch.randn(4, 2, 3))
"""


@pytest.mark.parametrize("beginning", ["self.begin()", "self.notify()", 'self.tell("before")'])
def test_what_calls_others_by_names_that_do_not_tell_so_may_clear(
    beginning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: f"self.{unit.name}(" in beginning)
    assert not found_rows(tmp_path, TOLD.replace("BEGINNING", beginning), "GL201")
    assert found_rows(tmp_path, TOLD.replace("BEGINNING", "pass"), "GL201")


ASKED = """\
import functools
import math
import torch
from madeup import equip, hook
from torch import nn

def clear(batch):
    optimizer.zero_grad()

class Clearing:
    def __call__(self, batch):
        optimizer.zero_grad()

class Hooks:
    pass

class Fresh:
    def __init__(self, cleared=None):
        if cleared is not None:
            cleared.zero_grad()

class Telling:
    def before(self, batch):
        optimizer.zero_grad()

def tell(asked, batch):
    asked.before(batch)

def restart(asked, batch):
    asked.restart(batch)

class Part(nn.Module):
    def forward(self, batch):
        optimizer.zero_grad()
        return batch

class Named(nn.Module):
    def restart(self, batch):
        optimizer.zero_grad()

def made(asked):
    def ask(batch):
        asked.before(batch)

    return ask

class Net(nn.Module):
    def __init__(self, asked):
        super().__init__()
        self.head = nn.Linear(3, 1)
        self.asked = asked

    def begin(self, batch, asked=None):
        BEGINNING

net = Net(HELD)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
EQUIPPED
for x in torch.randn(8, 4, 3):
    net.begin(x, GIVEN)
    net.head(x).mean().backward()
    optimizer.step()
"""
ASKS = "lambda batch: optimizer.zero_grad()"
ASKING = [
    ("Hooks()", "self.asked.begin(batch)", "None"),
    ("Clearing()", "self.asked(batch)", "None"),
    ('{"one": [Clearing()]}', 'self.asked["one"][0](batch)', "None"),
    ("Telling()", "tell(self.asked, batch)", "None"),
    ("Part()", "self.asked(batch)", "None"),
    ("Named()", "restart(self.asked, batch)", "None"),
    ("Named()", "getattr(self.asked, batch.name)(batch)", "None"),
    ("clear", "self.asked(batch)", "None"),
    (ASKS, "self.asked(batch)", "None"),
    ("functools.partial(clear)", "self.asked(batch)", "None"),
    ("hook", "self.asked(batch)", "None"),
    ("made(Telling())", "self.asked(batch)", "None"),
    ("Clearing", "self.asked()(batch)", "None"),
    ("None", "asked(batch)", "clear"),
    ("None", "asked(batch)", ASKS),
    ("None", "asked(batch)", "Clearing()"),
    ("None", "asked(batch)", "hook"),
]


@pytest.mark.parametrize(("held", "beginning", "given"), ASKING)
def test_a_method_of_a_model_may_have_what_is_at_hand_clear(
    held: str, beginning: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "begin")
    equipped = "equip(net.asked, optimizer)" if held == "Hooks()" else ""
    text = ASKED.replace("BEGINNING", beginning).replace("EQUIPPED", equipped)
    assert not found_rows(tmp_path, text.replace("HELD", held).replace("GIVEN", given), "GL201")
    for harmless in ("nn.Identity()", "Hooks()", "Fresh()"):
        plain = ASKED.replace("BEGINNING", "print(math.pi, batch)").replace("HELD", harmless).replace("EQUIPPED", "")
        assert found_rows(tmp_path, plain.replace("GIVEN", "None"), "GL201")


def test_what_a_function_is_given_and_is_not_known_may_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "begin")
    begin = "from madeup import trainer\n\ndef begin(net, given):\n    given.restart(net)\n\n"
    text = begin + NET.replace("    net(x).mean()", "    begin(net, trainer.current())\n    net(x).mean()")
    assert not found_rows(tmp_path, text, "GL201")


COUNTING = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1)
        self.seen = SEEN

    def begin(self, batch):
        self.seenBINDS

    def forward(self, batch):
        return self.head(batch)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(8, 4, 3):
    net.begin(x)
    if net.seenASKED:
        optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""


BOUND = [
    ("0", " = len(batch)", ""),
    ("()", " = (len(batch),)", ""),
    ("(0,)", " = (len(batch),)", "[0]"),
    ("[]", " = [len(batch)]", ""),
    ("[0]", " = [len(batch)]", "[0]"),
    ("[]", ".append(batch)", ""),
    ("[0]", "[0] = len(batch)", "[0]"),
    ('{"last": 0}', ' = {"last": len(batch)}', '["last"]'),
    ('{"last": 0}', '["last"] = len(batch)', '["last"]'),
    ('{"last": 0}', '["first"] = len(batch)', '.get("first")'),
]


@pytest.mark.parametrize(("seen", "binds", "asked"), BOUND)
def test_what_a_method_binds_anew_is_any(
    seen: str, binds: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "begin")
    text = COUNTING.replace("SEEN", seen).replace("ASKED", asked)
    assert not found_rows(tmp_path, text.replace("BINDS", binds), "GL201")
    assert found_rows(tmp_path, text.replace("self.seenBINDS", "pass"), "GL201")


def test_what_does_not_train_makes_no_backward_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name in ("scaled", "forward"))
    text = NET.replace("    net(x).mean().backward()\n", "    net.scaled(x)\n")
    assert found_rows(tmp_path, text, "GL206") == [text[: text.index("optimizer.step")].count("\n") + 1]


UNBUILT = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, deep):
        super().__init__()
        self.head = nn.Linear(3, 1)
        if deep:
            self.body = nn.Linear(3, 3)

net = Net(False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(8, 4, 3):
    if hasattr(net, "body"):
        optimizer.zero_grad()
    net.head(x).mean().backward()
    optimizer.step()
"""


def test_what_is_not_known_to_be_built_may_have_what_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found_rows(tmp_path, UNBUILT, "GL201")
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "__init__")
    assert not found_rows(tmp_path, UNBUILT, "GL201")


HOLDING = """\
from torch import nn

class Base:
    merged = []

    def __init__(self, layer):
        self.layer, self.merged = layer, []

class Merging(nn.Module, Base):
    def __init__(self, layer):
        super().__init__()
        Base.__init__(self, layer)

    def merge(self, delta):
        self.layer.weight.data += delta
        self.merged.append(delta)

    def unmerge(self):
        while self.merged:
            self.layer.weight.data -= self.merged.pop()
"""


@pytest.mark.parametrize("function", ["none", "__init__"])
def test_what_an_initializer_assigns_is_not_what_the_class_has_of_that_name(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfollowed = f"Base.{function}"
    monkeypatch.setattr(
        Budget, "is_opaque", lambda _, unit: unit.class_unit and f"{unit.class_unit.name}.{unit.name}" == unfollowed
    )
    rows = [row for row, line in enumerate(HOLDING.splitlines(), 1) if ".data" in line]
    assert found_rows(tmp_path, HOLDING, "GL110") == rows


def found_rows(root: Path, text: str, code: str) -> list[int]:
    """The rows of a program in which a rule reports something."""
    (root / "main.py").write_text(text)
    rules = [rule for rule in all_rules() if rule.code == code]
    return [finding.location.row for finding in analyze(Project([root]), [root / "main.py"], rules).findings]


FORECASTING = """\
import torch
from torch import nn

class Forecaster(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.shown(x) * 2

    def shown(self, x):
        with torch.no_grad():
            return self.model(x)

print(Forecaster(nn.Linear(3, 1))(torch.randn(4, 3)).numpy())
"""


def test_a_class_that_is_not_followed_may_record_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "Forecaster")
    assert not found_rows(tmp_path, FORECASTING, "GL501")
    assert found_rows(tmp_path, FORECASTING.replace("with torch.no_grad():", "if True:"), "GL501")


TEACHING = """\
import torch
from torch import nn

class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.teacher = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        return (self.body(x) - target).pow(2).mean()

net = Student()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(4, 2, 3):
    CLEARED
    net(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("cleared", "code", "rows"), [("pass", "GL201", [18]), ("net.zero_grad()", "GL206", [])])
def test_what_may_record_nothing_may_be_trained_all_the_same(
    cleared: str, code: str, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "Student")
    assert found_rows(tmp_path, TEACHING.replace("CLEARED", cleared), code) == rows


NAMED = """\
import torch
from torch import nn

class Scaled(nn.Module):
    def forward(self, x):
        return x / x.norm(p=2, dim=1)

class Flow(nn.Sequential):
    def forward(self, x):
        for module in self:
            x = module(x)
        return x

model = Flow(nn.Linear(3, 3), Scaled())
model.step = torch.load("model.pt")["step"]
print(sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.Adam(model.parameters())
for x in torch.randn(8, 4, 3):
    model(x).mean().backward()
    optimizer.step()
"""


def test_a_keyword_is_no_variable_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "forward" and "module(x)" in unit.text)
    assert found_rows(tmp_path, NAMED, "GL201") == [NAMED[: NAMED.index("model(x)")].count("\n") + 1]
