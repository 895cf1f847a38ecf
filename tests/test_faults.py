"""A fault of gradlint itself costs no more than the part of the analysis it is met in."""

import importlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradlint.cli import main
from gradlint.static.state.comparisons import computed
from gradlint.static.state.origins import AttributeOf, Combined, Comparison, New, Operation, Origin, Parameter, operands
from gradlint.static.torch.module_calls import ModuleCalls


def test_a_fault_in_one_entry_point_is_named_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("from torch import nn\n\nlayer = nn.Linear(2, 2)\nlayer(1).backward()\n")
    (tmp_path / "flawed.py").write_text(
        "import torch\n\nw = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())\n"
    )

    def fail(*_arguments: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(ModuleCalls, "call", fail)
    assert main(["--isolated", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "broken.py: internal error: ValueError: a fault" in captured.err
    assert "GL501" in captured.out


FLAWED = (
    "import torch\n\n\n"
    "def show():\n    w = torch.ones(2, requires_grad=True)\n    print((w * 2).numpy())\n\n\n"
    "def tell():\n    w = torch.ones(2, requires_grad=True)\n    print((w * 3).numpy())\n"
)


def allow(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an entry point take so many steps, however long its file is."""
    monkeypatch.setattr("gradlint.static.python.budget.MAX_STEPS", steps)
    monkeypatch.setattr("gradlint.static.python.budget.LONG", 0)


LONG = "".join(f"value_{number} = {number}\n" for number in range(30))


@pytest.mark.parametrize(
    ("files", "flawed"),
    [
        pytest.param({"whole.py": FLAWED + LONG + LONG}, "whole.py", id="its own body"),
        pytest.param(
            {
                "flawed.py": "from first import value_1\nfrom second import value_2\n" + FLAWED,
                "first.py": LONG,
                "second.py": LONG,
            },
            "flawed.py",
            id="what it imports",
        ),
    ],
)
def test_a_file_too_long_to_follow_costs_the_functions_in_it_nothing(
    files: dict[str, str],
    flawed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    allow(60, monkeypatch)
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if "GL501" in line]
    assert [line.rpartition("/")[2].split(":")[0] for line in found] == [flawed, flawed]


def test_a_file_too_long_to_follow_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole.py").write_text(FLAWED + LONG + LONG)
    allow(60, monkeypatch)
    main(["--isolated", "--no-cache", "--verbose", str(tmp_path)])
    assert capsys.readouterr().err.count("whole.py: too long to follow") == 1


TRAINED = """import torch
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(model, optimizer, batches):
    for x in batches:
        model(x).sum().backward()
        optimizer.step()


"""
CALLED = "train(model, optimizer, list(open('x')))\n"
COUNTED = "    value = 0\n" + "    value += 1\n" * 40
IN_MAIN = "def main():\n{}\n\nmain()\n"


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(CALLED + LONG + LONG, id="before the file is given up"),
        pytest.param(LONG + LONG + CALLED, id="by itself"),
        pytest.param(IN_MAIN.format(f"    {CALLED}{COUNTED}{COUNTED}"), id="before a function is given up"),
        pytest.param(IN_MAIN.format(f"{COUNTED}    {CALLED}"), id="by itself, where the budget ends in it"),
    ],
)
def test_what_takes_too_long_costs_nothing_that_is_proven_without_it(
    rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole.py").write_text(TRAINED + rest)
    allow(60, monkeypatch)
    main(["--isolated", "--no-cache", "--verbose", "--output-format", "concise", str(tmp_path)])
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines() if "whole.py" in line] == ["GL201"]
    assert "whole.py: too long to follow" in err


DETACHED = """import sys
import torch

x = torch.ones(2, requires_grad=True)


def show(x):
    print(x.numpy())
    value = 1
"""
KEPT = """import torch
from torch import nn

model = nn.Linear(2, 1)
losses = []
for x in open("x"):
    losses.append(model(torch.full((1, 2), float(x))).sum())
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            DETACHED + "    value += 1\n" * 80 + "\n\nif len(sys.argv) < 2:\n    x = x.detach()\nshow(x)\n",
            id="one way through has not come there",
        ),
        pytest.param(
            KEPT + "value = 1\n" + "value += 1\n" * 80 + "torch.stack(losses).sum().backward()\n",
            id="what follows may make it right",
        ),
    ],
)
def test_what_takes_too_long_proves_nothing_that_is_not_settled(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "whole.py").write_text(text)
    allow(60, monkeypatch)
    assert main(["--isolated", "--no-cache", "--verbose", "--output-format", "concise", str(tmp_path)]) == 0
    assert "whole.py: too long to follow" in capsys.readouterr().err


def test_figures_computed_in_between_cost_few_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    branch = "            if row[0] > limit:\n                found.append(row)\n"
    loops = f"    for row in rows:\n        for _ in row:\n{branch * 8}"
    figures = f"def figures(rows, limit):\n    found = []\n{loops}    return found\n"
    text = TRAINED.replace("def train", f"{figures}\n\ndef train")
    text = text.replace("step()\n", "step()\n        print(figures(x.tolist(), 1))\n")
    (tmp_path / "whole.py").write_text(text + CALLED)
    allow(300, monkeypatch)
    main(["--isolated", "--no-cache", "--verbose", "--output-format", "concise", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "GL201" in out
    assert "too long" not in err


SHOWN = "w = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())\n"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        pytest.param("if len(w):\n    \\\n    x = w.numpy()\n", 4, id="a statement"),
        pytest.param("class A(list, metaclass=type, *w): pass\n", 4, id="a class"),
        pytest.param("class A:\n    class B(list, metaclass=type, *w):\n        x = w\n", 5, id="a class in another"),
        pytest.param("def show():\n    if 1:\n        \\\n        x = w.numpy()\n\n\nshow()\n", 4, id="a function"),
    ],
)
def test_what_only_python_can_parse_is_told_and_costs_nothing_else(
    text: str, row: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "strange.py").write_text(f"import torch\n\nw = torch.ones(2, requires_grad=True)\n{text}{SHOWN}")
    (tmp_path / "other.py").write_text(f"import torch\nimport strange\n{SHOWN}")
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    told = [line.rpartition("/")[2] for line in out.splitlines() if "GL" in line]
    last = 4 + text.count("\n") + 1
    assert [line.split(" ")[1] for line in told] == ["GL501", "GL001", "GL501"]
    assert told[0].startswith("other.py:4:")
    assert told[1].startswith(f"strange.py:{row}:")
    assert told[2].startswith(f"strange.py:{last}:")
    assert not err


@pytest.mark.parametrize("indent", ["\t  ", "\t \t", " \t"])
def test_indentation_may_mix_tabs_and_spaces(indent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block below a tab and blanks begins with other characters than the one that it stands in."""
    text = f"def show(w):\n{indent}if len(w):\n\t\t\t  print(w.numpy(), '''\n\t\t''')\n{indent}return w\n"
    (tmp_path / "mixed.py").write_text(f"import torch\n\n{text}\nshow(torch.ones(2, requires_grad=True))\n")
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "mixed.py:5:12: GL501" in out
    assert not err


def test_data_that_is_prepared_item_by_item_costs_few_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crop = "def crop(row):\n" + "    row = row[1:] + row[:1]\n" * 20 + "    return row\n\n\n"
    calls = "".join(f"rows.append(crop([{number}]))\n" for number in range(60))
    text = TRAINED.replace("\nmodel =", f"\n{crop}model =") + f"rows = []\n{calls}{CALLED}"
    (tmp_path / "whole.py").write_text(text)
    allow(2000, monkeypatch)
    main(["--isolated", "--no-cache", "--verbose", "--output-format", "concise", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "GL201" in out
    assert "too long" not in err


def test_arrays_that_a_loop_collects_do_not_prolong_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "".join(f"    value_{number} = {number}\n" for number in range(40))
    text = TRAINED + f"seen = []\nfor row in open('x'):\n    seen.append(np.asarray(row))\n{body}\n" + CALLED
    (tmp_path / "whole.py").write_text(f"import numpy as np\n{text}")
    allow(300, monkeypatch)
    main(["--isolated", "--no-cache", "--verbose", "--output-format", "concise", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "GL201" in out
    assert "too long" not in err


def test_a_parameter_that_only_one_way_makes_is_frozen_on_that_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an iteration does to some of several parameters is settled between the ways that have them."""
    text = """
from torch import nn


def lock(model: nn.Module):
    tower = model
    if hasattr(model, "text"):
        tower = model.text
    parts = {"transformer": getattr(tower, "transformer", None)}
    for part in parts.values():
        if isinstance(part, nn.Parameter):
            part.requires_grad = False
        elif isinstance(part, nn.Module):
            for parameter in part.parameters():
                parameter.requires_grad = False
"""
    (tmp_path / "lock.py").write_text(text)
    assert main(["--isolated", "--no-cache", "--select", "ALL", str(tmp_path)]) == 0
    assert "internal error" not in capsys.readouterr().err


SHOWS = "import torch\n\nw = torch.ones(2, requires_grad=True)\nprint((w * 2).numpy())\n"


@pytest.mark.parametrize(
    "deep",
    [
        pytest.param(
            "if w is 0:\n    x = 0\n" + "".join(f"elif w == {n}:\n    x = {n}\n" for n in range(1000)), id="elif"
        ),
        pytest.param("x = w" + " and w" * 20_000 + "\n", id="and"),
        pytest.param("x = w" + ".a" * 20_000 + "\n", id="attributes"),
        pytest.param("match w:\n    case " + "(" * 40 + "a" + ")" * 40 + ":\n        x = a\n", id="patterns"),
        pytest.param("import w" + ".a" * 20_000 + "\n", id="import"),
        pytest.param(
            "x = w" + "".join(f" if w else (\n{' ' * n}w" for n in range(190)) + ")" * 190 + "\n", id="brackets"
        ),
    ],
)
def test_code_that_is_nested_too_deeply_is_told_and_costs_nothing_else(
    deep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep.py").write_text(f"{SHOWS}{deep}")
    (tmp_path / "other.py").write_text(f"import deep\n{SHOWS}")
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "other.py:5:7: GL501" in out
    assert "deep.py:" in out.replace("other.py", "")
    assert not err


def test_an_elif_chain_of_hundreds_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chain = "".join(f"elif len(w) == {n}:\n    x = {n}\n" for n in range(600))
    (tmp_path / "long.py").write_text(f"{SHOWS}if len(w) < 0:\n    x = w\n{chain}print((w * 3).numpy())\n")
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[0].rpartition("/")[2] for line in out.splitlines() if "GL501" in line] == [
        "long.py:4:7:",
        "long.py:1207:7:",
    ]
    assert not err


@pytest.mark.parametrize("error", [ValueError("a fault"), RecursionError("too deep")], ids=["fault", "recursion"])
@pytest.mark.parametrize("step", ["gradlint.static.text.files.index_of", "gradlint.suppression.read_suppressions"])
def test_a_fault_in_any_step_on_one_file_costs_only_what_is_known_of_it(
    step: str,
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "broken.py").write_text("import torch  # broken\n")
    (tmp_path / "other.py").write_text(f"import broken\n{SHOWS}")
    module, _, name = step.rpartition(".")
    before = getattr(importlib.import_module(module), name)

    def fail(given: Any, *rest: Any) -> Any:
        text = given if isinstance(given, str) else given.source.text
        if "# broken" in text:
            raise error
        return before(given, *rest)

    monkeypatch.setattr(step, fail)
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert "other.py:5:7: GL501" in out
    assert f"broken.py: internal error: {type(error).__name__}: {error}" in err
    assert "Traceback" not in err


def test_a_wrong_configuration_file_costs_the_files_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "gradlint.toml").write_text("selct = []\n")
    (inner / "some.py").write_text(SHOWS)
    (tmp_path / "other.py").write_text(SHOWS)
    monkeypatch.chdir(tmp_path)
    for paths in ([], ["other.py", "inner/some.py"]):
        assert main(["--no-cache", "--output-format", "concise", *paths]) == 2
        out, err = capsys.readouterr()
        assert "other.py:4:7: GL501" in out
        assert "some.py" not in out
        assert err.count("unknown key 'selct'; did you mean 'select'?") == 1
    assert main(["--no-cache", "inner"]) == 2
    assert "unknown key" in capsys.readouterr().err


@pytest.fixture
def nothing_hangs() -> Iterator[None]:
    """What takes an exponential time never comes back: without a bound the tests would not, either."""
    alarm = getattr(signal, "alarm", lambda _seconds: None)
    alarm(300)
    yield
    alarm(0)


@pytest.mark.usefixtures("nothing_hangs")
@pytest.mark.parametrize(
    "line",
    [
        "x = x * x",
        "x += x",
        "x = x.a + x.a",
        "x = x[x]",
        "x = x < x",
        "x = x in x",
        "x = x is x",
        "x = x == x",
        "x = -x",
        "x = not x",
        "x = len(x)",
        "x = x.a",
        "x, _ = x",
    ],
)
def test_what_is_computed_from_itself_again_and_again_costs_few_steps(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = f"    {line}\n" * 60
    (tmp_path / "a.py").write_text(f"import torch\n\n\ndef f(x):\n{again}    x.sum().backward()\n\n\n{SHOWN}")
    assert main(["--isolated", "--no-cache", "--select", "ALL", "--output-format", "concise", str(tmp_path)]) == 1
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[:-1]] == ["GL501"]


@pytest.mark.usefixtures("nothing_hangs")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from" + " " * 20_000, id="a line of spaces"),
        pytest.param(" " * 20_000 + "!", id="another"),
        pytest.param("from " + "a " * 10_000, id="words"),
        pytest.param("from a import (\n" * 20_000, id="brackets that stay open"),
        pytest.param("from a import (# (\n" * 20_000, id="brackets in comments"),
        pytest.param("for " * 20_000, id="words that begin something"),
        pytest.param("a " * 10_000 + ":", id="names of nothing"),
        pytest.param("@a\n" * 20_000, id="decorators of nothing"),
        pytest.param("[" * 20_000 + "] * a" * 20_000, id="lists that are multiplied"),
    ],
)
@pytest.mark.parametrize("name", ["a.py", "a.ipynb"])
def test_lines_that_nobody_writes_cost_little(
    text: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f'import torch\n\nNOTES = """\n{text}\n"""\n\n\ndef f(x):\n    """\n{text}\n"""\n\n\n{SHOWN}'
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / name).write_text(source if name == "a.py" else json.dumps(book))
    (tmp_path / "b.py").write_text("from a import f\n")
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.count(": GL") == out.count(": GL501 ") == 1


@pytest.mark.usefixtures("nothing_hangs")
def test_a_field_that_nobody_writes_costs_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(f"import torch\n\nprint(f'{{torch:{':' * 20_000}1}}')\n{SHOWN}")
    assert main(["--isolated", "--no-cache", "--output-format", "concise", str(tmp_path)]) == 1
    assert "GL501" in capsys.readouterr().out


def test_the_key_of_what_is_computed_from_itself_tells_from_what() -> None:
    key = Parameter("f", "x", 1)
    small: Origin = computed(Operation("+", key, key))
    assert small == Operation("+", key, key)
    for number in range(100):
        small = computed(Operation("*", small, AttributeOf(Parameter("f", "y", number), "a")))
    assert isinstance(small, Combined)
    assert key in small.parts
    assert AttributeOf(Parameter("f", "y", 99), "a") in small.parts
    assert operands(computed(Operation("*", small, small))) == small.parts
    assert isinstance(computed(Comparison("==", small, small)), New)
