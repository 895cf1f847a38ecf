"""What a file imports is executed where something of it is used, and no sooner, unless others would miss it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import libcst as cst
import pytest

from gradlint.rule import all_rules
from gradlint.static.drive.analysis import Analysis, analyze
from gradlint.static.python.bodies import Images
from gradlint.static.python.budget import UNORDERED, Budget, OrderMattersError
from gradlint.static.text.definition_units import FunctionUnit
from gradlint.static.text.files import Module
from gradlint.static.text.index import index_of
from gradlint.static.text.project import Project

RULES = [rule for rule in all_rules() if rule.listens()]
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
NET = f"""{HEAD}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return F.softmax(self.fc(x), dim=1)
"""
LOSS = """
def loss(x, y):
    return F.cross_entropy(MODEL(x), y)
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__in__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text))


def check(folder: Path, *targets: str) -> Analysis:
    files = [folder / target for target in targets] if targets else sorted(folder.rglob("*.py"))
    return analyze(Project([folder]), files, RULES)


def codes(folder: Path, *targets: str) -> list[tuple[str, str, int]]:
    found = check(folder, *targets).findings
    return [(f.code, Path(f.location.filename).name, f.location.row) for f in found]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the modules whose bodies were executed, in order."""
    names: list[str] = []
    execute = Images._execute

    def note(self: Images, module: Module) -> object:
        names.append(module.name)
        return execute(self, module)

    monkeypatch.setattr(Images, "_execute", note)
    return names


def test_what_is_not_used_is_not_executed(tmp_path: Path, executed: list[str]) -> None:
    write(
        tmp_path,
        main=HEAD
        + "from net import Net\nfrom tools import draw\nfrom more import *\n"
        + LOSS.replace("MODEL", "Net()"),
        net=NET,
        tools="def draw(): pass\n",
        more="LIMIT = 3\n",
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]
    assert executed == ["main", "net"]


def test_what_does_nothing_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def note(text: str) -> cst.Module:
        parsed.append(text)
        return cst.parse_module(text)

    monkeypatch.setattr("gradlint.static.text.units.parse_module", note)
    started = "if __name__ == '__main__':\n    print(torch.ones(2, requires_grad=True).numpy())\n"
    write(
        tmp_path,
        main=f"{HEAD}'what it is about'\nfrom net import Net\n{LOSS.replace('MODEL', 'Net()')}",
        net=NET.replace("class Net(nn.Module):", "class Net(nn.Module):\n    'a network'\n") + started,
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]
    assert not any(text.lstrip().startswith(("if __name__", "'")) for text in parsed)
    assert any("forward" in text for text in parsed)
    assert [code for code, *_ in codes(tmp_path, "net.py")] == ["GL501"]


REGISTRY = """
KNOWN = {}

def register(cls):
    KNOWN[cls.__name__] = cls
    return cls

def build(name):
    return KNOWN[name]()
"""
CLASS = NET.partition(HEAD)[2]


@pytest.mark.parametrize(
    "net",
    [
        "from .registry import register\n" + CLASS.replace("class Net", "@register\nclass Net"),
        "from .registry import register\n" + CLASS + "\nregister(Net)\n",
        "from .registry import KNOWN\n" + CLASS + "\nKNOWN['Net'] = Net\n",
        "from .registry import KNOWN\n" + CLASS + "\nKNOWN.update(Net=Net)\n",
        "from .registry import KNOWN\n" + CLASS + "\nfor cls in [Net]:\n    KNOWN[cls.__name__] = cls\n",
        "from .registry import register\nenter = register\n" + CLASS.replace("class Net", "@enter\nclass Net"),
        "from .registry import *\n" + CLASS.replace("class Net", "@register\nclass Net"),
    ],
)
@pytest.mark.parametrize("brought", ["Net", "*"])
def test_a_file_that_enters_something_into_a_registry_is_executed(net: str, brought: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        main=HEAD + "from models import build\n" + LOSS.replace("MODEL", "build('Net')"),
        models__in____init__=f"from .net import {brought}\nfrom .registry import build\n",
        models__in__net=HEAD + net,
        models__in__registry=REGISTRY,
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]


@pytest.mark.parametrize(
    ("package", "main"),
    [
        ("from . import net\n", "from models.registry import build\n"),
        ("import models.net\n", "from models.registry import build\n"),
        ("", "import models.net\nfrom models.registry import build\n"),
        ("", "import models.net as _\nfrom models.registry import build\n"),
        ("", "from models import net\nfrom models.registry import build\n"),
        ("", "from models import net as _, registry\nbuild = registry.build\n"),
    ],
)
def test_a_module_that_is_imported_for_what_it_registers(package: str, main: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        main=HEAD + main + LOSS.replace("MODEL", "build('Net')"),
        models__in____init__=package,
        models__in__net=HEAD + "from .registry import register\n" + CLASS.replace("class Net", "@register\nclass Net"),
        models__in__registry=REGISTRY,
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]


def test_a_decorator_that_keeps_nothing_is_no_registry(tmp_path: Path, executed: list[str]) -> None:
    write(
        tmp_path,
        main=HEAD + "from net import Net\nprint(torch.ones(2, requires_grad=True).numpy())\n",
        net=HEAD + "from tools import plain\n" + CLASS.replace("class Net", "@plain\nclass Net"),
        tools="def plain(cls):\n    cls.plain = True\n    return cls\n",
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL501"]
    assert executed == ["main"]


@pytest.mark.parametrize(
    ("text", "changed", "imported"),
    [
        ("import a\nfrom . import b\n", set(), {(0, "a"), (1, "b")}),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b\n", set(), {(0, "b")}),
        ("def f():\n    import a\n    a.x()\n", set(), set()),
        ("import a.b as c\nfrom a.d import *\n", set(), {(0, "a.b"), (0, "a.d")}),
        ("try:\n    import a\nexcept ImportError:\n    import b\n", set(), {(0, "a"), (0, "b")}),
        ("from a import r\n\n@r.register('x')\nclass B: pass\n", {"r"}, {(0, "a.r")}),
        ("import a\nb = a.get()\nb.x(1)\nc = b\nc[0] = 1\n", {"a"}, {(0, "a")}),
        ("b = {}\nb['x'] = 1\nb.update(y=2)\n", set(), set()),
        ("import a\nif __name__ == '__main__':\n    a.run()\n", set(), {(0, "a")}),
    ],
)
def test_what_a_body_may_change_is_told_by_its_index(
    text: str, changed: set[str], imported: set[tuple[int, str]], tmp_path: Path
) -> None:
    write(tmp_path, main=text)
    index = index_of(Project([tmp_path]).module(tmp_path / "main.py"))
    assert index.changed == frozenset(changed)
    assert index.executed == imported


def test_files_that_import_from_each_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        main=HEAD + "from a import Net, lost\n" + LOSS.replace("MODEL", "Net()") + "\nprint(lost)\n",
        a="from b import Net, lost\n\ndef helper(): pass\n",
        b=f"from a import helper, lost\n{NET}",
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]


def test_a_file_that_imports_itself(tmp_path: Path) -> None:
    write(
        tmp_path,
        net=NET
        + f"\nif __name__ == '__main__':\n    from net import Net\n{LOSS.replace('MODEL', 'Net()')}".replace(
            "\ndef loss(x, y):\n    return", "    x, y = torch.ones(2, 4), torch.tensor([0, 1])\n    loss ="
        ),
    )
    assert [code for code, *_ in codes(tmp_path, "net.py")] == ["GL301"]


def test_one_of_two_imports(tmp_path: Path) -> None:
    main = f"{HEAD}if PLAIN:\n    from fast import Net\nelse:\n    from slow import Net\n"
    write(tmp_path, main=main + LOSS.replace("MODEL", "Net()"), fast=NET, slow=NET)
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]


PLAIN = NET.replace("F.softmax(self.fc(x), dim=1)", "self.fc(x)")


@pytest.mark.parametrize(
    ("imports", "files", "found"),
    [
        ("from a import *\nfrom b import *\n", {"a": PLAIN, "b": NET}, True),
        ("from b import *\nfrom a import *\n", {"a": PLAIN, "b": NET}, False),
        ("from a import *\n", {"a": "from b import *\n", "b": NET}, True),
        ("from a import *\n", {"a": "from b import *\n", "b": "from a import *\n" + NET}, True),
        ("if PLAIN:\n    from a import *\nelse:\n    from b import *\n", {"a": NET, "b": NET}, True),
        ("from a import *\n", {"a": "__all__ = ['Net']\n" + NET}, True),
        ("from a import *\n", {"a": "__all__ = ['other']\n" + NET + "\nother = Net\n"}, False),
        ("from a import *\n", {"a": NET.replace("Net", "_Net") + "\n_other = 1\n"}, False),
    ],
)
def test_everything_of_a_file(imports: str, files: dict[str, str], found: bool, tmp_path: Path) -> None:
    name = "_Net" if "_Net" in files["a"] else "Net"
    write(tmp_path, main=HEAD + imports + LOSS.replace("MODEL", f"{name}()"), **files)
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"] * found


@pytest.mark.parametrize("name", ["net", "net.net"])
def test_a_function_that_is_called_like_its_file(name: str, tmp_path: Path) -> None:
    star = "from .net import *\n" if name == "net" else ""
    write(
        tmp_path,
        main=HEAD + "from nets import net\n" + LOSS.replace("MODEL", f"{name}()"),
        nets__in____init__="from .other import *\n" + star,
        nets__in__net=NET + "\n\ndef net():\n    return Net()\n",
        nets__in__other="net = None\n" if name == "net" else "other = None\n",
    )
    assert [code for code, *_ in codes(tmp_path, "main.py")] == ["GL301"]


def test_a_decorator_that_takes_long_leaves_its_class_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = "def document(cls):\n    text = ''\n" + "    text += 'a'\n" * 40 + "    return cls\n"
    write(
        tmp_path,
        main=HEAD + "from net import Net\n" + LOSS.replace("MODEL", "Net()"),
        net=HEAD + "from tools import document\n" + CLASS.replace("class Net", "@document\nclass Net"),
        tools=tools,
    )
    monkeypatch.setattr("gradlint.static.python.definitions.MAX_DECORATOR_STEPS", 20)
    monkeypatch.setattr("gradlint.static.python.budget.MAX_STEPS", 40)
    analysis = check(tmp_path, "main.py")
    assert [finding.code for finding in analysis.findings] == ["GL301"]
    assert not analysis.notes


def test_what_an_imported_file_shows_does_not_depend_on_who_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        a="from flawed import value\n\ndef f():\n" + "    value.sum()\n" * 80 + "\nf()\n",
        flawed="import torch\n\nvalue = torch.ones(2, requires_grad=True)\nprint(value.numpy())\n",
    )
    monkeypatch.setattr("gradlint.static.python.budget.MAX_STEPS", 60)
    assert ("GL501", "flawed.py", 4) in codes(tmp_path)


@pytest.mark.parametrize("walk", ["loss.backward()", "getattr(loss, WALK)()"])
def test_order_counts_once_a_backward_pass_is_met(walk: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        main=f"{HEAD}from engine import Engine\n\n"
        "model = nn.Linear(4, 4)\n"
        "engine = Engine(torch.optim.SGD(model.parameters(), lr=0.1))\n"
        "state = torch.zeros(2, 4)\n"
        + "seed = 1\n"
        * UNORDERED[0][0]  # from here on, one iteration stands for all where order does not count
        + "for _ in range(99):\n"
        "    state = torch.tanh(model(state))\n"
        "    engine.learn(state.sum())\n",
        engine=f"""
            from names import WALK

            class Engine:
                def __init__(self, optimizer):
                    self.optimizer = optimizer

                def learn(self, loss):
                    self.optimizer.zero_grad()
                    {walk}
                    self.optimizer.step()
            """,
        names='WALK = "backward"\n',
    )
    assert [code for code, *_ in codes(tmp_path, "main.py", "engine.py")] == ["GL203"]


def test_a_function_that_calls_for_a_backward_pass_is_followed_closely(tmp_path: Path) -> None:
    write(tmp_path, main="def learn(loss):\n    loss.backward()\n\ndef hand_on(loss):\n    return loss.backward\n")
    learn, hand_on = Project([tmp_path]).module(tmp_path / "main.py").units
    assert isinstance(learn, FunctionUnit)
    assert isinstance(hand_on, FunctionUnit)
    budget = Budget()
    budget.begins(learn)
    budget.ordered = False
    budget.begins(hand_on)
    with pytest.raises(OrderMattersError):
        budget.begins(learn)
