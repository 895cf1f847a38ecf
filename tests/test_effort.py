"""What is spent on definitions that nothing calls: enough for what is wrong in them, in proportion to their code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import indent

import pytest

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.protocol import Token
from gradlint.rule import all_rules
from gradlint.selection import Choice
from gradlint.static.drive import effort
from gradlint.static.drive.analysis import analyze
from gradlint.static.python import budget
from gradlint.static.python.collections import MAX_KNOWN
from gradlint.static.text.project import Project

Steps = Callable[[Callable[[], object]], int]

NET = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return nn.Linear(8, 8)(self.fc(x))


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def build(width, depth):
    return Net(width, depth)
"""
VARIANT = "\n\ndef net_{0}():\n    return build({0}, 10)\n"
TRAINED = (
    NET.replace("nn.Linear(8, 8)(self.fc(x))", "self.fc(x)")
    + """

def train(model, loader, clears):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        if clears:
            optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def first(loader):
    train(build(4, 2), loader, True)


def second(loader):
    train(build(4, 2), loader, {clears})
"""
)


def check(root: Path, text: str) -> list[str]:
    """The findings in a file, as ``code:row``."""
    path = root / "net.py"
    path.write_text(text, encoding="utf-8")
    report = Engine(Configuration(isolated=True)).check([path], [path])
    assert report.troubles == []
    return [f"{finding.code}:{finding.location.row}" for finding in report.findings]


def test_variants_of_a_model_cost_hardly_more_than_one(tmp_path: Path, steps: Steps) -> None:
    one, two, many = (
        steps(partial(check, tmp_path, NET + "".join(VARIANT.format(width) for width in range(1, count))))
        for count in (2, 3, 42)
    )
    assert one > 20
    assert two - one <= 2
    assert many - one <= 2 * 40


def test_what_is_wrong_in_a_model_is_told_whatever_its_variants(tmp_path: Path) -> None:
    variants = "".join(VARIANT.format(width) for width in range(1, 9))
    assert check(tmp_path, NET + variants) == check(tmp_path, NET) == ["GL405:11"]


def test_a_variant_that_does_something_of_its_own_is_executed(tmp_path: Path) -> None:
    variants = VARIANT.format(1) + "\n\ndef show(x):\n    return build(2, 1)(x).numpy()\n"
    assert check(tmp_path, NET + variants) == ["GL405:11", f"GL501:{(NET + variants).count(chr(10))}"]


def test_a_class_that_only_a_variant_gives_is_followed_with_it(tmp_path: Path) -> None:
    text = NET.replace("nn.Linear(8, 8)(self.fc(x))", "self.fc(x)").replace(
        "def build(width, depth):\n    return Net(width, depth)\n",
        "def show(model, x):\n    return model.apply_to(x)\n\n\n"
        "class Plain:\n    def apply_to(self, x):\n        return x\n\n\n"
        "class Read:\n    def apply_to(self, x):\n        return nn.Linear(2, 2)(x).numpy()\n\n\n"
        "def plain(x):\n    return show(Plain(), x)\n\n\n"
        "def read(x):\n    return show(Read(), x)\n",
    )
    row = 1 + text[: text.index("numpy")].count("\n")
    assert check(tmp_path, text) == [f"GL501:{row}"]


@pytest.mark.parametrize(("clears", "found"), [("True", []), ("False", ["GL201"])])
def test_where_order_matters_each_caller_is_followed(clears: str, found: list[str], tmp_path: Path) -> None:
    assert [each.partition(":")[0] for each in check(tmp_path, TRAINED.format(clears=clears))] == found


def test_a_function_called_again_and_again_is_not_executed_each_time(tmp_path: Path, steps: Steps) -> None:
    helper = "import torch\n\n\ndef size(k):\n    a = k + 1\n    b = a * 2\n    c = b - a\n    return c\n\n\n"
    head = "def table(x):\n    w = torch.ones(2, requires_grad=True)\n    print((w * x).numpy())\n"

    def text(calls: int) -> str:
        return helper + head + "".join(f"    n{number} = size({number})\n" for number in range(calls))

    assert check(tmp_path, text(40)) == ["GL501:13"]
    few, many, more = (steps(partial(check, tmp_path, text(calls))) for calls in (4, 24, 44))
    assert few > 4 * 5
    assert many - few == more - many == 20 * 2  # a line and the assignment in it; the body is not executed


@pytest.mark.parametrize(
    "put",
    ["REGISTRY[{0}] = net_{0}", "REGISTRY.setdefault({0}, net_{0})", "REGISTRY.update({{{0}: net_{0}}})"],
)
def test_a_long_registry_is_known_at_its_beginning(put: str, tmp_path: Path) -> None:
    def text(key: int) -> str:
        return (
            "from torch import nn\n\nREGISTRY = {}\n\n"
            + "".join(
                f"\ndef net_{number}():\n    return nn.Linear(2, {number + 1})\n\n{put.format(number)}\n"
                for number in range(2 * MAX_KNOWN)
            )
            + f"\ndef show(x):\n    return REGISTRY[{key}]()(x).numpy()\n"
        )

    row = text(0).count("\n")
    assert check(tmp_path, text(MAX_KNOWN - 1)) == [f"GL501:{row}"]
    assert check(tmp_path, text(2 * MAX_KNOWN - 1)) == []


def test_a_decorator_that_takes_long_is_not_executed_each_time(tmp_path: Path, steps: Steps) -> None:
    decorator = "import torch\n\n\ndef documented(f):\n" + "    text = f.__doc__\n" * 300 + "    return f\n\n\n"
    definition = "@documented\ndef show_{0}(x):\n    return torch.nn.Linear(2, 2)(x).numpy()\n\n\n"

    def text(count: int) -> str:
        return decorator + "".join(map(definition.format, range(count)))

    rows = [text(number).count("\n") + 3 for number in range(5)]
    assert check(tmp_path, text(5)) == [f"GL501:{row}" for row in rows]
    few, many, more = (steps(partial(check, tmp_path, text(count))) for count in (4, 14, 24))
    assert few > 2 * 500
    assert more - many == many - few <= 10 * 4


#: whatever is called ``last`` is too far from ``read`` to know that this reports anything
CHAIN = (
    "import torch\nfrom torch import nn\n\n\ndef read(x):\n    return nn.Linear(2, 2)(x).numpy()\n\n\n"
    "def third(x):\n    return read(x)\n\n\ndef second(x):\n    return third(x)\n\n\n"
    "def first(x):\n    return second(x)\n\n\ndef last(x):\n"
)


def test_what_is_far_from_anything_to_report_is_not_executed(tmp_path: Path, steps: Steps) -> None:
    def text(lines: int) -> str:
        return CHAIN + "    x = [x]\n" * lines + "    return first(x)\n"

    assert check(tmp_path, text(1)) == ["GL501:6"]
    assert steps(partial(check, tmp_path, text(90))) == steps(partial(check, tmp_path, text(1))) > 4


@pytest.mark.parametrize(("mode", "found"), [("", ["GL501:6"]), ("    with torch.no_grad():\n    ", [])])
def test_what_is_far_but_sets_a_mode_is_executed(mode: str, found: list[str], tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(f"{CHAIN}{mode}    return first(x)\n", encoding="utf-8")
    (rule,) = (rule for rule in all_rules() if rule.code == "GL501")
    findings = analyze(Project([tmp_path]), [path], [rule]).findings
    assert [f"{finding.code}:{finding.location.row}" for finding in findings] == found


def test_values_are_handed_to_what_reports(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Start:\n    def __init__(self, layer):\n"
        "        self.first = layer(torch.ones(1, 2)).numpy()\n"
    )
    assert check(tmp_path, text) == []
    assert check(tmp_path, text + "\n\ndef build(depth):\n    return Start(nn.Linear(2, depth))\n") == ["GL501:7"]


@pytest.mark.parametrize("layers", [2, 150])
def test_a_loop_is_come_to_through_what_is_built_for_it(layers: int, tmp_path: Path) -> None:
    built = "".join(f"        self.fc{number} = nn.Linear(4, 2)\n" for number in range(layers))
    text = TRAINED.replace(
        "        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])\n", built
    ).replace(
        "        for block in self.blocks:\n            x = block(x)\n        return x\n",
        "        return self.fc1(x)\n",
    )
    assert check(tmp_path, text.format(clears="False")) == [
        f"GL201:{1 + text[: text.index('backward')].count(chr(10))}"
    ]
    assert check(tmp_path, text.format(clears="True")) == []


def test_a_function_that_calls_the_training_of_its_file_is_followed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradlint.static.drive.effort.LED_CLOSELY", 40)
    figures = "".join(f"    value_{number} = {number}\n" for number in range(40))
    text = (
        TRAINED.split("\n\ndef first")[0]
        + f"\n\ndef main(loader):\n    model = build(4, 2)\n{figures}    train(model, loader, False)\n"
    )
    assert any(code.startswith("GL201") for code in check(tmp_path, text))


@pytest.mark.parametrize("place", ["module", "function"])
@pytest.mark.parametrize(("clears", "found"), [("optimizer.zero_grad()", []), ("pass", ["GL201"])])
def test_a_model_too_deep_to_follow_whole_is_trained_all_the_same(
    clears: str, found: list[str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MAX_STEPS", 1_500)
    depth = 16
    text = (
        "import torch\nfrom torch import nn\n\n\n"
        "class Block(nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(width, width)\n\n"
        "    def forward(self, x):\n" + "        x = torch.relu(self.fc(x))\n" * 60 + "        return x\n\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        + "".join(f"        self.block{number} = Block(8)\n" for number in range(depth))
        + "\n    def forward(self, x):\n"
        + "".join(f"        x = self.block{number}(x)\n" for number in range(depth))
        + "        return x\n\n\n"
    )
    train = (
        "net = Net()\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(9):\n"
        f"    {clears}\n"
        "    net(torch.randn(2, 8)).pow(2).mean().backward()\n"
        "    optimizer.step()\n"
    )
    path = tmp_path / "net.py"
    path.write_text(text + (train if place == "module" else f"def main():\n{indent(train, '    ')}"), encoding="utf-8")
    report = Engine(Configuration(isolated=True)).check([path], [path])
    assert not [note for note in report.notes if "to follow" in note]
    assert [finding.code for finding in report.findings] == found


LIBRARY = (
    "import torch\nfrom torch import nn\n\n\n"
    + "".join(
        f"def part_{number}(model):\n" + "    model.requires_grad_(True)\n" * 700 + "    return model\n\n\n"
        for number in range(9)
    )
    + "def wrap(model):\n"
    + "".join(f"    model = part_{number}(model)\n" for number in range(9))
    + "    return model\n"
)
SCRIPT = (
    "import torch\nfrom lib.wrapping import wrap\n\n"
    "net = wrap(torch.nn.Linear(4, 1))\n"
    "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "for x in range(9):\n"
    "    net(torch.ones(2, 4)).mean().backward()\n"
    "    optimizer.step()\n"
)


def test_what_is_too_costly_in_another_package_is_tried_by_one_script_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Steps
) -> None:
    monkeypatch.setattr(budget, "MAX_STEPS", 600)
    monkeypatch.setattr("gradlint.static.python.progress.WORTHWHILE", 300)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "lib/wrapping.py").write_text(LIBRARY, encoding="utf-8")

    found: list[str] = []

    def check_scripts(count: int) -> None:
        paths = [tmp_path / f"example_{number}/train.py" for number in range(count)]
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            path.write_text(SCRIPT, encoding="utf-8")
        findings = analyze(Project([tmp_path]), paths, list(all_rules())).findings
        found[:] = [f"{finding.code}:{finding.location.row}" for finding in findings]

    one = steps(partial(check_scripts, 1))
    assert found == ["GL201:7"]
    many = steps(partial(check_scripts, 6))
    assert found == ["GL201:7"] * 6
    assert many - one < 5 * 100 < one


def test_functions_that_all_call_one_another_are_not_followed_in_every_order(tmp_path: Path, steps: Steps) -> None:
    def text(count: int) -> str:
        functions = (
            f"\n\ndef train_{own}(model, optimizer, x):\n"
            + ("    optimizer.zero_grad()\n" if own else "    optimizer.step()\n    print(model(x).numpy())\n")
            + "    model(x).mean().backward()\n    optimizer.step()\n"
            + "".join(f"    train_{other}(model, optimizer, x)\n" for other in range(count) if other != own)
            for own in range(count)
        )
        return (
            "import torch\n"
            + "".join(functions)
            + "\n\nmodel = torch.nn.Linear(4, 1)\n"
            + "train_1(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.ones(2, 4))\n"
        )

    assert "GL501:6" in check(tmp_path, text(8))
    few, many = (steps(partial(check, tmp_path, text(count))) for count in (5, 10))
    assert many < 5 * few < 5_000


@pytest.mark.parametrize(("retains", "found"), [("", ["GL203:10"]), ("retain_graph=True", [])])
def test_a_long_graph_is_known_as_far_as_its_operations_are_told_apart(
    retains: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradlint.static.torch.operations._LONG", 3)
    text = (
        "import torch\n\nw = torch.ones(3, requires_grad=True)\nfirst = w.exp()\n"
        "later = first.exp().exp().exp().exp()\nlast = later.exp()\n{change}\nloss = last.sum()\n"
        f"loss.backward({retains})\nloss.backward()\nprint(w.grad)\n"
    )
    assert check(tmp_path, text.format(change="")) == found
    assert "GL104:7" in check(tmp_path, text.format(change="first.mul_(2)"))
    assert "GL104:7" not in check(tmp_path, text.format(change="last.mul_(2)"))


def test_ways_through_loops_are_not_told_apart_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlint.static.state import tokens

    numbers = range(6)
    updates = "".join(
        f"\n\ndef update_{number}(model, optimizer, x):\n"
        f"    if x.sum() > {number}:\n        optimizer.zero_grad()\n"
        f"    elif x.mean() > {number}:\n        model.zero_grad()\n"
        "    model(x).mean().backward()\n    optimizer.step()\n"
        for number in numbers
    )
    text = (
        f"import torch\n{updates}\n\ndef train(loader, epochs):\n    model = torch.nn.Linear(4, 1)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    for epoch in range(epochs):\n        for x in loader:\n"
        + "".join(f"            update_{number}(model, optimizer, x)\n" for number in numbers)
        + "    print(model(torch.ones(4)).numpy())\n"
    )
    sizes: list[tuple[int, int]] = []
    told_apart = tokens.told_apart

    def watched(several: frozenset[Token]) -> frozenset[Token]:
        kept = told_apart(several)
        assert {(token.state, token.lineage) for token in kept} == {(token.state, token.lineage) for token in several}
        sizes.append((len(several), len(kept)))
        return kept

    monkeypatch.setattr(tokens, "told_apart", watched)
    assert check(tmp_path, text) == [f"GL501:{text.count(chr(10))}"]
    assert max(sizes)[0] > tokens.MANY >= max(kept for _, kept in sizes)


LONG = """\
for a in range(4):
    for b in range(4):
        for c in range(4):
            for d in range(4):
                for e in range(4):
                    x = [a, b, c, d, e]
"""
CLASS = """\
import torch
from torch import nn


class Net(nn.Module):
    sizes = []

    def __init__(self, width):
        super().__init__()
        {init}
        self.layer = nn.Linear(width, width)

    def first(self, x):
        {first}
        return self.layer(x).numpy()

    def second(self, x):
        if len(self.sizes) > 2:
            nn.Linear(2, 2).weight.data[0] = 1
        return nn.Linear(2, 2)(x).numpy()

    def third(self, x):
        {third}
        return nn.Linear(2, 2)(x).numpy()
"""


def _class(**parts: str) -> str:
    given = dict.fromkeys(("init", "first", "third"), "pass") | parts
    return CLASS.format(**{name: indent(part, " " * 8).strip() for name, part in given.items()})


def _rows(text: str, *, of: str) -> list[int]:
    return [row for row, line in enumerate(text.splitlines(), 1) if of in line]


@pytest.mark.parametrize(("slow", "others"), [("first", slice(1, 3)), ("third", slice(2))])
def test_a_method_that_takes_too_long_costs_no_other(slow: str, others: slice, tmp_path: Path) -> None:
    short, long = _class(), _class(**{slow: LONG})
    assert check(tmp_path, short) == [f"GL501:{row}" for row in _rows(short, of=".numpy()")]
    assert check(tmp_path, long) == [f"GL501:{row}" for row in _rows(long, of=".numpy()")[others]]


def test_what_takes_too_long_to_build_has_its_methods_followed(tmp_path: Path) -> None:
    text = _class(init=LONG)
    (data,) = _rows(text, of=".data")
    assert check(tmp_path, text) == [f"GL110:{data}", f"GL501:{data + 1}", f"GL501:{data + 5}"]


def test_what_takes_too_long_to_set_up_has_its_tests_followed(tmp_path: Path) -> None:
    texts = [SET_UP.format(slow=indent(slow, " " * 8).strip()) for slow in ("pass", LONG)]
    rows = [_rows(text, of=".numpy()") for text in texts]
    assert [check(tmp_path, text) for text in texts] == [[f"GL501:{row}" for row in found] for found in rows]


SET_UP = """\
import unittest

import torch
from torch import nn


class TestNet(unittest.TestCase):
    def setUp(self):
        {slow}
        self.x = torch.ones(2)

    def test_forward(self):
        print(nn.Linear(2, 2)(self.x).numpy())
"""


def test_what_a_method_leaves_stands_when_another_takes_too_long(tmp_path: Path) -> None:
    texts = [KEEPER.format(slow=indent(slow, " " * 8).strip()) for slow in ("pass", LONG)]
    assert [len(check(tmp_path, text)) for text in texts] == [1, 1]


KEEPER = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, loader):
        self.loader = loader
        self.layer = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    def evaluate(self):
        self.layer.eval()
        total = 0
        for x, y in self.loader:
            total += (self.layer(x) - y).pow(2).mean().item()
        return total

    def slow(self, x):
        {slow}
        return self.layer(x).detach().numpy()
"""


INHERITED = """\
from torch import nn


class Keeper:
    def __init__(self):
        self.net = nn.Linear(2, 1)
        self.kept = [1]

    def fill(self, x):
        self.kept.append(self.net(x))

    def show(self):
        return [each.numpy() for each in self.kept]
"""
EMPTY = "\n\nclass Empty{0}(Keeper):\n    def __init__(self):\n        super().__init__()\n        self.kept = []\n"


def test_what_a_class_inherits_is_filled_where_it_leaves_it_empty(tmp_path: Path) -> None:
    assert check(tmp_path, INHERITED.replace("[1]", "[]")) == ["GL501:13"]
    assert check(tmp_path, INHERITED + EMPTY.format(0)) == ["GL501:13"]


def test_what_many_classes_inherit_is_filled_once(tmp_path: Path, steps: Steps) -> None:
    def text(classes: int) -> str:
        return INHERITED + "".join(EMPTY.format(number) for number in range(classes))

    one, two, many = (steps(partial(check, tmp_path, text(classes))) for classes in (1, 2, 11))
    assert many - two == 9 * (two - one)
    own = EMPTY + "\n    def fill(self, x):\n        self.kept.append(self.net(x + 1))\n"
    each = steps(partial(check, tmp_path, INHERITED + own.format(0) + own.format(1)))
    assert each - steps(partial(check, tmp_path, INHERITED + own.format(0))) > two - one


def test_a_file_in_which_all_takes_too_long_once_more_is_not_tried_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Steps
) -> None:
    monkeypatch.setattr("gradlint.static.drive.analysis._AGAIN", 20)
    ends = "".join(
        f"\n\ndef end_{number}(x, ends):\n    if not ends:\n        return x\n"
        + "".join(f"    x = x + {row}\n" for row in range(40))
        + "    print(torch.ones(2, requires_grad=True).numpy())\n"
        for number in range(12)
    )
    calls = "".join(f"end_{number}(1, False)\n" for number in range(12))
    whole = "import torch\n" + ends + "\n\n" + calls
    assert check(tmp_path, whole) == []
    few = steps(partial(check, tmp_path, whole))
    monkeypatch.setattr("gradlint.static.drive.analysis._ENOUGH", 100)
    assert steps(partial(check, tmp_path, whole)) - few == 8 * 21  # each is tried once


LED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        if False:
            x = nn.Linear(4, 4)(x)
        return self.layer(4, 4)(x)


def use(x):
    y = x.data
    {calls}
    return Net(nn.Linear)(x), y
"""


@pytest.mark.parametrize("others", [(), ("GL102",), ("ALL",)])
def test_it_is_followed_as_far_whichever_rules_are_selected(others: tuple[str, ...], tmp_path: Path) -> None:
    """A function that other rules have more to say of gets the steps for that, be they selected or not."""
    helpers = [f"\n\ndef prepare_{n}(x):\n" + "    x = x + 1\n" * 20 + "    return x\n" for n in range(20)]
    calls = "\n    ".join(f"x = prepare_{n}(x)" for n in range(20))
    (tmp_path / "net.py").write_text(LED.format(calls=calls) + "".join(helpers), encoding="utf-8")
    engine = Engine(Configuration(isolated=True), Choice(select=("GL405", *others)))
    found = engine.check([tmp_path / "net.py"], [tmp_path]).findings
    assert [each.location.row for each in found if each.code == "GL405"] == [13]


CALLED = """\
import torch


def show(x):
    print(x.numpy())


def train(model, x):
    model(x).mean().backward()
"""
LEADS = """\
import torch
from torch import nn

from helpers import show, train

if __name__ == "__main__":
    model = nn.Linear(2, 2)
    x = torch.ones(2)
    train(model, x)
    for i in range(9):
{body}
    train(model, x)
"""


def test_what_leads_to_a_file_is_followed_in_proportion_to_it(tmp_path: Path, steps: Steps) -> None:
    (tmp_path / "helpers.py").write_text(CALLED, encoding="utf-8")

    def check_with(scripts: int) -> list[str]:
        for number in range(scripts):
            body = "        n = i + 1\n" * 2_500
            (tmp_path / f"script_{number}.py").write_text(LEADS.format(body=body), encoding="utf-8")
        (tmp_path / "short.py").write_text(LEADS.format(body="        show(model(x))"), encoding="utf-8")
        targets = [tmp_path / "helpers.py"]
        callers = [*sorted(tmp_path.glob("script_*.py")), tmp_path / "short.py"]
        found = analyze(Project([tmp_path]), targets, all_rules(), callers).findings
        return [f"{finding.code}:{finding.location.row}" for finding in found]

    assert check_with(1) == ["GL501:5"]  # the last that is followed proves it
    one, many, more = (steps(partial(check_with, scripts)) for scripts in (1, 4, 6))
    assert one > effort.CALLERS + effort.CALLER  # the first has what there is for all
    assert more - many <= 2 * 2 * (effort.CALLER + 100)  # as far as each of two may go, tried twice


MAIN = """\
import torch

from helpers import fit

if __name__ == "__main__":
    model, x = torch.nn.Linear(2, 2), torch.ones(2)
{body}"""
FIT = "import torch\n\n\ndef fit(model, x, shown):\n" + "    y = x + 1\n" * 400
FIT += "    model(x).mean().backward()\n    if shown:\n        print(x.numpy())\n"


def test_what_leads_to_a_file_and_takes_long_makes_nothing_too_costly_for_others(tmp_path: Path) -> None:
    calls = "    fit(model, x, False)\n" * 14
    for number in range(3):
        (tmp_path / f"script_{number}.py").write_text(MAIN.format(body=calls), encoding="utf-8")
    (tmp_path / "short.py").write_text(MAIN.format(body="    fit(model, model(x), True)\n"), encoding="utf-8")
    helpers = tmp_path / "helpers.py"
    helpers.write_text(FIT, encoding="utf-8")
    callers = [*sorted(tmp_path.glob("script_*.py")), tmp_path / "short.py"]
    found = analyze(Project([tmp_path]), [helpers], all_rules(), callers).findings
    assert [f"{each.code}:{each.location.row}" for each in found] == [f"GL501:{FIT.count(chr(10))}"]
