"""What is passed over by its names alone could not have come to anything."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from fixture_cases import cases_of

from gradlint.rule import all_rules
from gradlint.static import EVENTS
from gradlint.static.drive.analysis import analyze
from gradlint.static.text.chains import Chain, chains_in
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.project import Project
from gradlint.static.text.reach import Reach
from gradlint.static.text.triggers import NEEDS, Feature, Triggers, walks_in

RULES = [rule for rule in all_rules() if rule.listens()]


def chains(text: str) -> set[str]:
    return {".".join(chain.parts) + "()" * chain.called for chain in chains_in(text)}


def test_chains_are_read_off_a_text() -> None:
    assert chains("y = self.fc.weight.data.zero_()") == {"y", "self.fc.weight.data.zero_()"}
    assert chains("f(x)\n  .detach().numpy ()") == {"f()", "x", ".detach()", ".numpy()"}
    assert chains("super(Net, self).forward(x)") == {"super.forward()", "x"}
    assert chains("async def step(net): return net if net else None") == {"net"}
    assert chains("class Net(nn.Module): step(x)") == {"nn.Module", "step()", "x"}


def test_comments_and_strings_hold_no_chains() -> None:
    text = "'''\nx.data\n'''\n# loss.backward()\na = r'x.numpy()' + \"x.item()\""
    assert chains(text) == {"a"}


def test_braces_of_f_strings_do() -> None:
    assert chains("print(f'{loss.item():.3f} {{no.data}}')") >= {"print()", "loss.item()"}


@pytest.mark.parametrize(("text", "name"), [("F.dropout", "torch.nn.functional.dropout"), ("self.dropout", None)])
def test_chains_are_resolved_by_what_was_imported(text: str, name: str | None) -> None:
    assert Chain(tuple(text.split(".")), called=True).resolved({"F": "torch.nn.functional"}) == name


def reach(folder: Path, **files: str) -> tuple[Project, Reach]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    project = Project([folder])
    return project, Reach(project)


def test_features_are_those_of_all_that_a_name_leads_to(tmp_path: Path) -> None:
    project, reached = reach(
        tmp_path,
        helpers="import torch\n\ndef finish(loss):\n    loss.backward()\n\ndef other(x):\n    return x.data\n",
        train="import helpers as h\n\ndef step(loss):\n    h.finish(loss)\n\ndef look(x):\n    return x + 1\n",
    )
    step, look = (unit for unit in project.module(tmp_path / "train.py").units if hasattr(unit, "name"))
    assert reached.features(step) & Feature.BACKWARD
    assert not reached.features(step) & Feature.DATA
    assert not reached.features(look) & (Feature.BACKWARD | Feature.DATA)


FRAMEWORKS = [
    ("import oneflow as flow", True),
    ("import paddle\nfrom tools import clip", True),
    ("import numpy", False),
    ("import paddle\nimport torch", False),
    ("import paddle\nfrom helpers import clip", False),
]
STEP = "\n\ndef step(loss):\n    loss.backward()\n    return loss.numpy()\n"


@pytest.mark.parametrize(("imported", "passed_over"), FRAMEWORKS)
def test_what_is_not_known_in_a_file_of_another_framework_is_none_of_torch(
    imported: str, passed_over: bool, tmp_path: Path
) -> None:
    project, _ = reach(
        tmp_path,
        train=imported + STEP,
        helpers="import torch\n\ndef clip(x):\n    return x\n",
        tools="def clip(x):\n    return x\n",
    )
    found = analyze(project, [tmp_path / "train.py"], RULES).findings
    assert [finding.code for finding in found] == ([] if passed_over else ["GL501"])


def test_what_code_of_torch_gives_such_a_file_is_followed_there(tmp_path: Path) -> None:
    main = "import torch\nfrom train import step\n\nstep(torch.nn.Linear(2, 1)(torch.randn(3, 2)).sum())\n"
    project, _ = reach(tmp_path, train="import tensorflow as tf" + STEP, main=main)
    found = analyze(project, [tmp_path / "train.py", tmp_path / "main.py"], RULES).findings
    assert [(Path(finding.location.filename).name, finding.code) for finding in found] == [("train.py", "GL501")]


def test_units_that_lead_to_each_other_share_their_features(tmp_path: Path) -> None:
    project, reached = reach(tmp_path, loop="def a(x):\n    b(x)\n\ndef b(x):\n    a(x)\n    x.step()\n")
    a, b = project.module(tmp_path / "loop.py").units
    assert reached.features(a) == reached.features(b)
    assert reached.features(a) & Feature.STEP


def test_only_events_of_the_static_witness_have_needs() -> None:
    assert NEEDS.keys() <= EVENTS


def test_nothing_comes_of_nothing() -> None:
    triggers = Triggers(RULES)
    assert not triggers.any(Feature(0))
    assert triggers.any(Feature.BACKWARD)


def test_what_begins_elsewhere_does_not_begin_here() -> None:
    triggers = Triggers(RULES)
    assert triggers.begin(Feature.NUMPY, Feature.NUMPY | Feature.TRAINABLE)
    assert not triggers.begin(Feature.TRAINABLE, Feature.NUMPY | Feature.TRAINABLE)
    assert not triggers.begin(Feature.NUMPY, Feature.NUMPY)
    assert triggers.begin(Feature.MODULE | Feature.DROPOUT, Feature(0))
    assert not triggers.begin(Feature.MODULE, Feature.MODULE | Feature.DROPOUT)


def test_what_is_near_by_is_three_names_away(tmp_path: Path) -> None:
    text = "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n\n" for n in range(4)) + "def f4(x):\n    return x.data\n"
    project, reached = reach(tmp_path, main=text)
    near = [bool(reached.near(unit) & Feature.DATA) for unit in project.module(tmp_path / "main.py").units]
    assert near == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("text", "switches"),
    [
        ("self.train = train", False),
        ("if self.train:", False),
        ("self.model.train()", True),
        ("net.eval().cuda()", True),
    ],
)
def test_a_flag_with_the_name_of_a_mode_switches_none(text: str, switches: bool, tmp_path: Path) -> None:
    project, reached = reach(tmp_path, main=f"{text}\n" + "    pass\n" * text.endswith(":"))
    (unit,) = project.module(tmp_path / "main.py").units
    assert bool(reached.features(unit) & Feature.MODE) is switches


@pytest.mark.parametrize(
    ("text", "walks"),
    [
        ("loss.backward()", True),
        ("self.manual_backward(loss)", True),
        ("# loss.backward()", False),
        ("def f(x):\n    'as x.backward() does'", False),
        ("def backward(ctx, grad):\n    return grad", False),
    ],
)
def test_comments_and_strings_call_for_no_backward_pass(text: str, walks: bool) -> None:
    assert walks_in(text) is walks


@pytest.mark.parametrize("slug", ["unregistered_modules", "missing_super_init", "numpy_on_grad", "graph_freed"])
def test_passing_over_costs_no_finding(slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for number, case in enumerate(case for case in cases_of(slug) if case.alone):
        files.append(tmp_path / f"case_{number}.py")
        files[-1].write_text(case.text, encoding="utf-8")
    found = analyze(Project([tmp_path]), files, RULES).findings
    monkeypatch.setattr(Triggers, "any", lambda *_: True)
    monkeypatch.setattr(Triggers, "begin", lambda *_: True)
    monkeypatch.setattr("gradlint.static.drive.analysis.walks_in", lambda _: True)
    assert [f.sort_key for f in analyze(Project([tmp_path]), files, RULES).findings] == [f.sort_key for f in found]
    assert found


@pytest.mark.parametrize(
    ("statement", "changes"),
    [
        ("options['lr'] = 1", False),
        ('options["lr"] = options["rate"]', False),
        ("weight[0] = 1", True),
        ("weights['first'][0] = 1", True),
        ("weights['first'] += 1", False),
        ("weight[:, 0] = 1", True),
        ("weight[0] += 1", True),
        ("weight -= 1", True),
        ("weight-=1", True),
        ("weight.grad *= 0", True),
        ("weight == 1", False),
    ],
)
def test_items_under_a_name_are_no_places_of_a_tensor(statement: str, changes: bool, tmp_path: Path) -> None:
    project, reached = reach(tmp_path, main=f"def change(options, weight, weights):\n    {statement}\n")
    (unit,) = project.module(tmp_path / "main.py").units
    assert bool(reached.features(unit) & Feature.AUGMENTED) is changes


@pytest.mark.parametrize(
    ("statement", "discards"),
    [
        ("x.clamp(0, 1)", True),
        ("x[:, 0].clamp(0, 1)  # probabilities", True),
        ("self.x[0][1].detach(); print(x)", True),
        ("x[0].clamp(\n        0, max(1, 2),\n    )", True),
        ("x.view(-1).add_(1)", False),
        ("x[0].detach().zero_()", False),
        ("x[0].clamp_(0, 1)", False),
        ("x = x[0].clamp(0, 1)", False),
        ("x.detach()[0] = 1", False),
        ("layers[0].append(1)", False),
    ],
)
def test_results_are_discarded_by_statements_that_end_with_the_call(
    statement: str, discards: bool, tmp_path: Path
) -> None:
    project, reached = reach(tmp_path, main=f"def change(self, x, layers):\n    {statement}\n")
    (unit,) = project.module(tmp_path / "main.py").units
    assert bool(reached.features(unit) & Feature.DISCARDED) is discards


@pytest.mark.parametrize(
    ("text", "walks"),
    [
        ("loss.backward()", True),
        ("self.manual_backward(loss)", True),
        ("torch.autograd.grad(loss, x)", False),
        ("def backward(ctx, grad): pass", False),
        ("loss.register_full_backward_hook(print)", False),
    ],
)
def test_order_counts_where_gradients_accumulate(text: str, walks: bool) -> None:
    assert walks_in(text) is walks


def test_the_search_ends_where_enough_is_known(tmp_path: Path) -> None:
    text = "from far import finish\n\ndef look(x):\n    x.step()\n    finish(x)\n\ndef other(x):\n    finish(x)\n"
    project, _ = reach(tmp_path, far="def finish(loss):\n    loss.backward()\n", main=text)
    look, other = project.module(tmp_path / "main.py").units[1:]
    reached = Reach(project, lambda features: bool(features & Feature.STEP))
    assert reached.features(look) & (Feature.STEP | Feature.BACKWARD) == Feature.STEP
    assert reached.features(other) & (Feature.STEP | Feature.BACKWARD) == Feature.BACKWARD


def test_what_is_near_is_looked_at_first(tmp_path: Path) -> None:
    (tmp_path / "further.py").write_text("def further(x):\n    x.backward()\n", encoding="utf-8")
    (tmp_path / "far.py").write_text("from further import further\n\ndef far(x):\n    further(x)\n", encoding="utf-8")
    (tmp_path / "near.py").write_text(
        "from far import far\n\ndef start(x):\n    far(x)\n    other(x)\n\ndef other(x):\n    last(x)\n\n"
        "def last(x):\n    x.step()\n",
        encoding="utf-8",
    )
    project = Project([tmp_path])
    start = project.module(tmp_path / "near.py").units[1]
    assert Reach(project, lambda met: bool(met & Feature.STEP)).features(start) & Feature.STEP
    assert [module.path.name for module in project.modules_loaded] == ["near.py", "far.py"]
    features = Reach(project).features(start)
    assert features & Feature.STEP
    assert features & Feature.BACKWARD


def test_what_leads_to_modules_does_not_stand_aside(tmp_path: Path) -> None:
    text = "def total():\n    found = x.numpy()\n    found += train()\n\ndef train():\n    loss.backward()\n"
    project, _ = reach(tmp_path, main=f"{text}\ndef figure():\n    return x.numpy()\n")
    found = Reach(project, lambda features: bool(features & Feature.NUMPY))
    functions = [unit for unit in project.module(tmp_path / "main.py").units if isinstance(unit, FunctionUnit)]
    assert [found.stands_aside(unit) for unit in functions] == [False, False, True]


@pytest.mark.parametrize(
    ("function", "leads"),
    [
        ("def look(batch):\n    return [None for one in batch if one]", False),
        ("def look(batch):\n    return (batch or one).sum()", False),
        ("def look(net):\n    return net.head", False),
        ("def look(batch, *net: int):\n    return net", False),
        ("def look(batch):\n    net = batch.head\n    return net", False),
        ("def look(batch):\n    return [net.mean() for net in batch]", False),
        ("def look(batch):\n    return batch.sum(net=1)", False),
        ("def look(batch):\n    return net.head", True),
        ("def look(batch, first=net):\n    return first", True),
        ("def look(batch):\n    global net\n    net = batch.head\n    return net", True),
        ("def look(batch):\n    def inner(net):\n        return net\n    return net.head", True),
        ("def look(batch):\n    return batch.net", True),
    ],
)
def test_only_names_that_are_not_its_variables_lead_from_a_function_to_statements(
    function: str, leads: bool, tmp_path: Path
) -> None:
    text = "if __name__ == '__main__':\n    for net in (None or x).parts():\n        net.mean().backward()\n"
    project, found = reach(tmp_path, main=f"{function}\n\n\n{text}")
    (look,) = (unit for unit in project.module(tmp_path / "main.py").units if isinstance(unit, FunctionUnit))
    assert bool(found.features(look) & Feature.BACKWARD) is leads


@pytest.mark.parametrize(
    ("statement", "leads"),
    [
        ("for net in x.parts():\n    net.backward()", True),
        ("y = [net.backward() for net in x.parts()]", False),
        ("y = {k: net.backward() for k, (_, net) in x.items()}", False),
        ("y = [net.backward(z) for z in x.parts()]", True),
        ("if __name__ == '__main__':\n    y = list(net.backward() for net in x.parts())", False),
        ("if x:\n    def net():\n        return [z.backward() for z in x]", True),
        ("y = [net.backward() for net in net.parts()]", True),
        ("y = x.mean(net=1).backward()", False),
        ("y = x.mean(\n    net=net,\n).backward()", True),
        ("if __name__ == '__main__':\n    y = (list(z for z in x), net.backward())", True),
    ],
)
def test_not_all_names_in_a_statement_are_variables_of_the_file(statement: str, leads: bool, tmp_path: Path) -> None:
    project, found = reach(tmp_path, main=f"def look(batch):\n    return net\n\n{statement}\n")
    look = project.module(tmp_path / "main.py").units[0]
    assert bool(found.features(look) & Feature.BACKWARD) is leads


@pytest.mark.parametrize(("bound", "leads"), [("", False), ("sum = add; ", True)])
def test_builtins_lead_to_no_statement_that_does_not_bind_them(bound: str, leads: bool, tmp_path: Path) -> None:
    text = f"def look(batch):\n    return sum(batch)\n\n{bound}print(sum(x.parts()).backward())\n"
    project, found = reach(tmp_path, main=text)
    look = project.module(tmp_path / "main.py").units[0]
    assert bool(found.features(look) & Feature.BACKWARD) is leads


def test_nor_do_parameters_of_a_function_around_it(tmp_path: Path) -> None:
    around = "def look(net):\n    def inner():\n        return net\n    return inner\n"
    project, found = reach(tmp_path, main=f"{around}\nfor net in x.parts():\n    net.backward()\n")
    look = project.module(tmp_path / "main.py").units[0]
    assert isinstance(look, FunctionUnit)
    node = look.node.body.body[0]
    assert isinstance(node, cst.FunctionDef)
    assert not found.features_of_call(FunctionUnit.from_node(node, look)) & Feature.BACKWARD


@pytest.mark.parametrize("bound", ["from far import net", "def net():\n    loss.backward()"])
def test_a_parameter_is_not_what_a_file_has_of_its_name(bound: str, tmp_path: Path) -> None:
    text = f"{bound}\n\ndef look(net):\n    return net()\n\ndef other():\n    return net()\n"
    project, found = reach(tmp_path, main=text, far="def net():\n    loss.backward()\n")
    look, other = project.module(tmp_path / "main.py").units[1:]
    assert isinstance(look, FunctionUnit)
    assert isinstance(other, FunctionUnit)
    for features in (found.features, lambda unit: found.features_of_part(unit, unit.text)):
        assert not features(look) & Feature.BACKWARD
        assert features(other) & Feature.BACKWARD
