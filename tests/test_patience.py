from __future__ import annotations

import math
from pathlib import Path

import pytest

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import Analysis, analyze
from gradlint.static.drive.interpreter import Interpreter
from gradlint.static.python.budget import Budget, Stage
from gradlint.static.python.progress import OFTEN, Patience
from gradlint.static.report.witness import Witness
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Reach

LONG = "\n".join(f"    x = x + {n}" for n in range(400))
LIBRARY = f"def prepare(x):\n{LONG}\n    return x\n"
SCRIPT = """\
import torch
from torch import nn
from {home} import prepare

net = nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(8, 4, 2):
    loss = net(prepare(x)).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlint.static.python.budget.MAX_STEPS", 800)
    monkeypatch.setattr("gradlint.static.python.progress.WORTHWHILE", 100)


def written(root: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [root / name for name in files]


def checked(root: Path, files: dict[str, str], code: str = "GL201") -> Analysis:
    rules = [rule for rule in all_rules() if rule.code == code]
    return analyze(Project([root]), written(root, files), rules)


@pytest.mark.usefixtures("impatient")
def test_a_script_is_followed_to_its_end_though_another_package_takes_too_long(tmp_path: Path) -> None:
    package = {"library/__init__.py": "", "library/work.py": LIBRARY}
    found = checked(tmp_path, {**package, "examples/train.py": SCRIPT.format(home="library.work")})
    assert [(Path(f.location.filename).name, f.location.row) for f in found.findings] == [("train.py", 9)]
    assert not found.notes


@pytest.mark.usefixtures("impatient")
def test_a_script_is_followed_to_its_end_though_a_function_beside_it_takes_too_long(tmp_path: Path) -> None:
    found = checked(tmp_path, {"work.py": LIBRARY, "train.py": SCRIPT.format(home="work")})
    assert [(Path(f.location.filename).name, f.location.row) for f in found.findings] == [("train.py", 9)]


TRAINING = """\
import torch
from torch import nn

net = nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    x = 0
{long}
    for batch in batches:
        optimizer.zero_grad()
        net(batch).mean().backward()
        optimizer.step()
    {mode}
        for batch in batches:
            print(net(batch).mean().item())


for epoch in range(9):
    train(torch.randn(8, 4, 2))
"""


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("mode", "found"), [("with torch.no_grad():", []), ("if True:", ["GL406"])])
def test_a_function_that_takes_too_long_where_it_is_called_is_followed_by_itself(
    mode: str, found: list[str], tmp_path: Path
) -> None:
    text = TRAINING.format(long="\n".join(LONG.splitlines()[:250]), mode=mode)
    assert [f.code for f in checked(tmp_path, {"train.py": text}, "GL406").findings] == found


@pytest.mark.usefixtures("impatient")
def test_what_is_too_long_itself_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradlint.static.python.budget.LONG", 1)
    body = LONG.replace("    ", "")
    found = checked(tmp_path, {"train.py": f"{SCRIPT.format(home='work')}\n{body}\n{body}\n{body}\n"})
    assert [note.partition(": ")[2] for note in found.notes] == [
        "too long to follow, only what it defines and imports is known",
    ]


@pytest.mark.usefixtures("impatient")
def test_a_file_that_is_long_itself_is_followed_to_its_end(tmp_path: Path) -> None:
    body = LONG.replace("    ", "")
    found = checked(tmp_path, {"train.py": f"x = 0\n{body}\n{body}\n{body}\n{SCRIPT.format(home='work')}"})
    assert [f.location.row for f in found.findings] == [1210]
    assert not found.notes


NARROWED = tuple(Stage(steps, (2,), 4, training=False) for steps in (100, 200, 300))
"""When less is followed, where little is too much."""


def narrowing(monkeypatch: pytest.MonkeyPatch, stages: tuple[Stage, ...], steps: int = 600) -> None:
    monkeypatch.setattr("gradlint.static.python.budget.MAX_STEPS", steps)
    monkeypatch.setattr("gradlint.static.python.budget.NARROWING", stages)
    monkeypatch.setattr("gradlint.static.python.progress.WORTHWHILE", 100_000)  # no second try


MANY_CALLS = """import torch
from torch import nn
from work import prepare

net = nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{calls}
for x in torch.randn(8, 4, 2):
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("stages", "rows"), [((), []), (NARROWED, [17])])
def test_what_takes_most_of_the_steps_is_followed_no_more_while_the_rest_is(
    stages: tuple[Stage, ...],
    rows: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrowing(monkeypatch, stages)
    monkeypatch.setattr("gradlint.static.python.progress.TRIES", 0)
    monkeypatch.setattr("gradlint.static.drive.analysis.TRIES", 0)
    monkeypatch.setattr("gradlint.static.python.bodies.TRIES", 0)
    work = "def prepare(x):\n" + "\n".join(LONG.splitlines()[:90]) + "\n    return x\n"
    script = MANY_CALLS.format(calls="\n".join(f"a{n} = prepare({n})" for n in range(8)))
    found = checked(tmp_path, {"work.py": work, "train.py": script})
    assert [f.location.row for f in found.findings] == rows
    assert bool(found.notes) is (not rows)


TRAINED = """import torch
from torch import nn

net = nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def learn(x):
    y = 0
{long}
    net(x).mean().backward()
    optimizer.step()


def note(x):
{long}
    print(y)


for x in torch.randn(8, 4, 2):
    learn(x)
    note(x)
"""


def test_what_trains_is_followed_however_much_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrowing(monkeypatch, NARROWED, 1_000)
    long = "\n".join(LONG.splitlines()[:80]).replace("x", "y")
    found = checked(tmp_path, {"train.py": TRAINED.format(long=long)})
    assert [f.location.row for f in found.findings] == [90]
    assert not found.notes


COLLECTOR = """\
from torch import nn


class Collector:
    def __init__(self, policy: nn.Module):
        self.policy = policy

    def collect(self, batches):
        self.policy.eval()
        return self.act(batches)

    def act(self, batches):
        x = 0
{long}
        return [self.policy(batch).argmax(1).tolist() for batch in batches]


class Another(Collector):
    def collect(self, batches):
        self.policy.eval()
        return self.act(batches)
"""

SCRIPT_THAT_COLLECTS = """\
from collecting import Collector

collector = Collector(None)
{calls}
"""


def test_what_takes_too_much_of_a_script_is_followed_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowing(monkeypatch, NARROWED, 1_000)
    long = "\n".join(f"    {line}" for line in LONG.splitlines()[:80])
    calls = "\n".join(f"collector.collect({n})" for n in range(9))
    files = {"collecting.py": COLLECTOR.format(long=long), "script.py": SCRIPT_THAT_COLLECTS.format(calls=calls)}
    found = checked(tmp_path, files, "GL406")
    assert [(Path(f.location.filename).name, f.location.row) for f in found.findings] == [("collecting.py", 94)]
    assert not found.notes


LAGGED = """\
import copy
import torch
from torch import nn


class Algorithm(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.lagged = copy.deepcopy(self.model)

    def target(self, batch):
        return self.lagged(batch).max(dim=1)[0]

    def estimate(self, batch, target):
        {mode}:
            return target(batch) * 0.9

    def update(self, batch):
        loss = (self.estimate(batch, self.target) - self.model(batch).mean()).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


algorithm = Algorithm(nn.Linear(4, 2))
for batch in torch.randn(8, 4, 4):
    algorithm.update(batch)
"""


@pytest.mark.parametrize(("mode", "found"), [("with torch.no_grad()", []), ("if True", ["GL209"])])
def test_what_is_not_followed_may_call_modules_where_gradients_are_disabled(
    mode: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "is_opaque", lambda _, unit: unit.name == "estimate")
    text = LAGGED.format(mode=mode)
    assert [f.code for f in checked(tmp_path, {"train.py": text}, "GL209").findings] == found


def patience(project: Project) -> Patience:
    return Interpreter(project, Witness([]), Reach(project, bool)).patience


def test_the_files_of_a_package_are_near_one_another(tmp_path: Path) -> None:
    names = ["top.py", "package/__init__.py", "package/inner/__init__.py", "package/inner/a.py", "package/b.py"]
    project = Project([tmp_path])
    script, outer, inner, a, b = (project.module(path) for path in written(tmp_path, dict.fromkeys(names, "")))
    apart = patience(project).apart
    assert not any(apart(outer, other) for other in (inner, a, b))
    assert all(apart(script, other) for other in (outer, inner, a, b))


def test_other_packages_are_too_far_once_they_have_often_taken_too_long(tmp_path: Path) -> None:
    project = Project([tmp_path])
    script, other = (project.module(path) for path in written(tmp_path, {"top.py": "", "other/a.py": ""}))
    part = patience(project)
    part._budget.spent = 10_000
    for _ in range(OFTEN):
        assert part.far(script, near=False) is None
        assert part.is_worth_another(script, all_followed=True)
    far = part.far(script, near=False)
    assert far is not None
    assert (far(script), far(other)) == (False, True)


DECORATOR = """\
def needs_gpu(test):
    def wrapper(*args, **kwargs):
        return test(*args, **kwargs)

    return wrapper
"""
LONG_TEST = """\
import torch
from decorating import needs_gpu
from torch import nn


class TestLong:
    @needs_gpu
    def test_long(self):
        x = 0
{long}
        with torch.no_grad():
            assert nn.Linear(2, 1).eval()(torch.ones(3, 2)).sum() < x

    def test_short(self):
        x = 0
{short}
        with torch.no_grad():
            assert nn.Linear(2, 1).eval()(torch.ones(3, 2)).sum() < x
"""
EVALUATION = """\
import torch
from decorating import needs_gpu
from torch import nn


class TestEvaluation:
    @needs_gpu
    def test_same(self):
        model = nn.Sequential(nn.Linear(2, 1), nn.Dropout()).eval()
        x = torch.ones(3, 2)
        assert torch.allclose(model(x), model(x))
"""


def test_a_decorator_is_followed_however_much_what_it_calls_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowing(monkeypatch, (Stage(500, (2,), 4, training=False),), 1_000)
    long = LONG.replace("    ", "        ")
    short = "\n".join(long.splitlines()[:150])
    long_test = LONG_TEST.format(long=long, short=short)
    files = {"decorating.py": DECORATOR, "test_a.py": long_test, "test_b.py": EVALUATION}
    found = checked(tmp_path, files, "GL406")
    assert [(Path(f.location.filename).name, f.location.row) for f in found.findings] == [("test_b.py", 11)]


COMMON = """\
import torch
from decorating import needs_gpu


class Common:
    @needs_gpu
    def test_long(self):
        x = 0
{long}
        with torch.no_grad():
            assert self.make().eval()(torch.ones(3, 2)).sum() < x

    @needs_gpu
    def test_again(self):
        x = 0
{long}
        with torch.no_grad():
            assert self.make().eval()(torch.ones(3, 2)).sum() < x
"""
INHERITING = """\
import torch
from common import Common
from torch import nn


class TestLong(Common):
    def make(self):
        return nn.Linear(2, 1)

    def test_short(self):
        x = 0
{short}
        with torch.no_grad():
            assert self.make().eval()(torch.ones(3, 2)).sum() < x
"""


def test_a_decorator_of_inherited_tests_is_followed_however_much_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowing(monkeypatch, (Stage(900, (2,), 4, training=False),), 1_500)
    monkeypatch.setattr("gradlint.static.drive.effort.PER_FILE", 2_000)
    long = LONG.replace("    ", "        ")
    short = "\n".join(long.splitlines()[:150])
    files = {
        "common.py": COMMON.format(long=long),
        "decorating.py": DECORATOR,
        "test_a.py": INHERITING.format(short=short),
        "test_b.py": EVALUATION,
    }
    found = checked(tmp_path, files, "GL406")
    assert [(Path(f.location.filename).name, f.location.row) for f in found.findings] == [("test_b.py", 11)]


LIBRARY_MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        x = 0
{long}
        self.layer = nn.Linear(2, x)

    def forward(self, x):
        return self.layer(x)
"""
FIRST_USE = """\
import torch
from library import Net


def test_first():
    with torch.no_grad():
        assert Net().eval()(torch.ones(3, 2)).sum() < 1
    x = 0
{short}
    assert x > 0
"""
SECOND_USE = """\
import torch
from library import Net


def test_second():
    model = Net().eval()
    x = torch.ones(3, 2)
    assert torch.allclose(model(x), model(x))
"""


@pytest.mark.parametrize("stages", [(), (Stage(900, (2,), 4, training=False),)])
@pytest.mark.parametrize(
    ("layer", "rows"),
    [
        ("nn.Linear(2, x)", [8]),
        ("nn.Softmax(dim=x)", []),
        ("nn.Linear(2, x).requires_grad_(False)", []),
    ],
)
def test_a_model_is_what_it_holds_though_building_it_is_followed_no_more(
    layer: str, rows: list[int], stages: tuple[Stage, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowing(monkeypatch, stages, 1_500)
    monkeypatch.setattr("gradlint.static.drive.effort.PER_FILE", 2_000)
    model = LIBRARY_MODEL.replace("nn.Linear(2, x)", layer)
    files = {
        "library.py": model.format(long=LONG.replace("    ", "        ")),
        "test_a.py": FIRST_USE.format(short="\n".join(LONG.splitlines()[:150])),
        "test_b.py": SECOND_USE,
    }
    found = checked(tmp_path, files, "GL406")
    assert [(Path(f.location.filename).name, f.location.row) for f in found.findings] == [
        ("test_b.py", r) for r in rows
    ]


BASE = """\
import torch


class Base(torch.nn.Module):
    def generate(self, x):
{long}
        return self.forward(x).numpy()
"""
DERIVED = """\
from base import Base
from torch import nn


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x)

    def shown(self, x):
        return self(x).numpy()
"""


@pytest.mark.parametrize(("room", "rows"), [(2_000, [806, 14]), (300, [14])])
def test_what_a_class_inherits_has_what_its_file_has_left(
    room: int, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradlint.static.drive.effort.PER_FILE", room)
    monkeypatch.setattr("gradlint.static.drive.analysis._AGAIN", 100)  # nor is it followed once more
    long = "\n".join(f"        x = x + {n}" for n in range(800))
    found = checked(tmp_path, {"derived.py": DERIVED, "base.py": BASE.format(long=long)}, "GL501")
    assert [f.location.row for f in found.findings] == rows
    notes = [note for note in found.notes if "inherits" in note]
    assert notes == ([] if len(rows) == 2 else [f"{tmp_path / 'derived.py'}:5: {notes[0].partition(': ')[2]}"])


ONE_WORLD = ((math.inf, (1, 2)),)
"""How closely an entry point is followed that has taken many steps already."""


@pytest.fixture
def _as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are followed as after many steps."""
    monkeypatch.setattr("gradlint.static.python.budget.ORDERLY", ONE_WORLD)


TERMS = """\
import torch
import torch.nn.functional as F
from torch import nn


def train(loader, weight):
    net = nn.Linear(3, 3)
    net.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        if weight > 0:
            identity = F.l1_loss(net(y), x)
        else:
            identity = 0
        loss = F.l1_loss(net(x), y){term}
        loss.backward()
        optimizer.step()
        if weight > 0:
            print(identity.item())
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(("term", "found"), [(" + identity * weight", []), (" * weight", [13])])
def test_a_term_that_may_be_left_out_is_part_of_the_loss_where_both_ways_are_one(
    term: str, found: list[int], tmp_path: Path
) -> None:
    text = TERMS.format(term=term)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL406").findings] == found


SCHEDULED = """\
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR


def train(loader, name):
    model = nn.Linear(3, 2)
    if name == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    elif name == "adam":
        optimizer = torch.optim.Adam(model.parameters())
    else:
        raise ValueError(name)
    scheduler = StepLR(optimizer, step_size=3)
    for epoch in range(9):
        {before}
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        {behind}
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(
    ("places", "found"), [(("scheduler.step()", "pass"), [16]), (("pass", "scheduler.step()"), [])]
)
def test_a_scheduler_is_that_of_an_optimizer_that_was_chosen_where_both_ways_are_one(
    places: tuple[str, str], found: list[int], tmp_path: Path
) -> None:
    before, behind = places
    text = SCHEDULED.format(before=before, behind=behind)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL206").findings] == found


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(("given", "found"), [("None", []), ("make(model)", [16])])
@pytest.mark.parametrize("first", [True, False])
def test_the_order_in_which_optimizers_are_chosen_from_does_not_matter(
    given: str, found: list[int], first: bool, tmp_path: Path
) -> None:
    text = SCHEDULED.format(before="scheduler.step()", behind="pass")
    replaced = "torch.optim.SGD(model.parameters(), lr=0.1)" if first else "torch.optim.Adam(model.parameters())"
    files = {"train.py": text.replace(replaced, given)}
    assert [f.location.row for f in checked(tmp_path, files, "GL206").findings] == found


ACCUMULATED = """\
from torch import nn, optim


def train(model, loader, k):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y{part}
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(("part", "found"), [(")", [8]), (") / k", []), (', reduction="sum")', [])])
def test_averages_are_summed_where_the_iterations_that_step_and_the_others_are_one(
    part: str, found: list[int], tmp_path: Path
) -> None:
    text = ACCUMULATED.format(part=part)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL214").findings] == found


IN_PARTS = """\
from torch import nn, optim


def train(model, loader, k):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        optimizer.zero_grad()
        for i, x in enumerate(batch.chunk(k)):
            (model(x).pow(2).mean() / k).backward()
            if i == {last}:
                optimizer.step()
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(("last", "found"), [("k - 1", []), ("2", [9])])
def test_nothing_follows_the_last_iteration_where_it_and_the_others_are_one(
    last: str, found: list[int], tmp_path: Path
) -> None:
    text = IN_PARTS.format(last=last)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL201").findings] == found


GIVEN_LISTS = """\
import torch.nn.functional as F


def train(model, loader, optimizer, logs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {kept}
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ('logs["train"].append(loss)', [10]),
        ("logs.append(loss)", [10]),
        ("logs.append(loss.item())", []),
        ("x.log.append(loss)", []),
    ],
)
def test_two_iterations_tell_what_a_list_that_is_given_keeps(kept: str, found: list[int], tmp_path: Path) -> None:
    text = GIVEN_LISTS.format(kept=kept)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL205").findings] == found


SCALED = """\
import sys

import torch
from madeup import adapt
from torch import nn

class Plain:
    def scale(self, loss):
        return loss

    def step(self, optimizer):
        optimizer.step()

class Adapted(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.base, self.shift = adapt(name), nn.Parameter(torch.zeros(3))

    def forward(self, **batch):
        return self.base(shift=self.shift, **batch)

def train(model, loader, scaler):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    if hasattr(model.base, "eval"):
        adapt.begin(model)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        losses.append({kept}.item())

scalers = {{"mixed": torch.amp.GradScaler(), "plain": Plain()}}
train(Adapted("base"), [dict(x=torch.randn(2, 3))] * 5, scalers[sys.argv[1]])
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(("kept", "found"), [("loss", []), ("model(**batch)[0].argmax()", [32])])
def test_what_is_a_tensor_on_one_way_and_not_known_on_another_is_walked_on_both(
    kept: str, found: list[int], tmp_path: Path
) -> None:
    text = SCALED.format(kept=kept)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL406").findings] == found


TAUGHT = """\
import sys

import torch
from madeup import distil, report
from torch import nn

net = nn.Linear(3, 1)
for x in torch.randn(5, 2, 3):
    loss = net(x).mean()
    if sys.argv[1:]:
        total = loss
    else:
        total = distil(x)
    report(x)
    net.zero_grad()
    total.backward()
    {otherwise}
        loss.backward()
"""


@pytest.mark.usefixtures("_as_one")
@pytest.mark.parametrize(
    ("otherwise", "found"), [("if not sys.argv[1:]:", []), ("loss.backward()\n    if x.any():", [19])]
)
def test_what_is_a_tensor_on_one_way_and_not_known_on_another_may_not_have_its_graph(
    otherwise: str, found: list[int], tmp_path: Path
) -> None:
    text = TAUGHT.format(otherwise=otherwise)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL203").findings] == found


SLICES = """\
import torch
from torch.autograd import grad

loc = torch.zeros(3, requires_grad=True)
moments = torch.stack([loc.mean(), loc.exp().mean()])
for moment in {gone_through}:
    print(grad(moment.sum(), [loc], retain_graph=True))
"""


@pytest.mark.parametrize(("gone_through", "found"), [("moments", []), ("[moments]", [7])])
def test_a_graph_that_is_retained_has_more_than_one_iteration_looked_at(
    gone_through: str, found: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradlint.static.python.budget.UNORDERED", ((math.inf, (1, 1)),))
    text = SLICES.format(gone_through=gone_through)
    assert [f.location.row for f in checked(tmp_path, {"train.py": text}, "GL204").findings] == found
