"""Functions that only carry data about are followed until that is known, and then called by their headers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.static.python import progress

STEPS = 60  #: statements in the body of ``pack``

HEAD = (
    "import numpy as np\nimport torch\nfrom torch import nn\n\n\n"
    "def pack(value, keep=False):\n"
    + "".join(f"    size_{number} = np.size(value) + {number}\n" for number in range(STEPS))
    + "    if keep:\n        value.eval()\n    return value\n\n\n"
)
TRAIN = (
    "model = nn.Linear(4, 1)\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for x in loader:\n"
    "    {clears}\n"
    "    {pack}\n"
    "    model(x).mean().backward()\n"
    "    optimizer.step()\n"
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is known to be idle after fewer statements than otherwise."""
    monkeypatch.setattr(progress, "LONG", 12 * STEPS)


def check(root: Path, text: str) -> list[str]:
    """The findings in a script, as ``code:line of its text``."""
    path = root / "script.py"
    path.write_text(text, encoding="utf-8")
    report = Engine(Configuration(isolated=True)).check([path], [path])
    assert report.troubles == []
    lines = text.split("\n")
    return [f"{finding.code}: {lines[finding.location.row - 1].strip()}" for finding in report.findings]


def packs(count: int, what: str = "[1, 2]") -> str:
    """Calls of the function, one after the other."""
    return "".join(f"packed_{number} = pack({what})\n" for number in range(count))


@pytest.mark.parametrize(("clears", "found"), [("pass", ["GL201"]), ("optimizer.zero_grad()", [])])
def test_what_carries_data_is_not_followed_for_ever(
    clears: str, found: list[str], tmp_path: Path, steps: Callable[[Callable[[], object]], int]
) -> None:
    train = TRAIN.format(clears=clears, pack="pack(x)")
    texts = [HEAD + packs(count) + train for count in (40, 76)]
    many, more = (steps(partial(check, tmp_path, text)) for text in texts)
    assert many > 9 * 2 * STEPS
    assert more - many <= 3 * 36
    assert [code.partition(":")[0] for code in check(tmp_path, HEAD + packs(40) + train)] == found


def test_it_is_followed_where_it_is_given_something_of_a_model(tmp_path: Path) -> None:
    reads = HEAD.replace("value.eval()", "value.numpy()\n        nn.Linear(2, 2).eval()")
    assert reads != HEAD
    text = reads + packs(40) + "model = nn.Linear(4, 1)\npack(model(torch.ones(4)), True)\n"
    assert check(tmp_path, text) == ["GL501: value.numpy()"]


def test_it_may_give_back_what_it_is_given_of_a_model(tmp_path: Path) -> None:
    text = HEAD + packs(40) + "model = nn.Linear(4, 1)\nprint(pack(model(torch.ones(4))).numpy())\n"
    assert check(tmp_path, text) == ["GL501: print(pack(model(torch.ones(4))).numpy())"]


def test_a_function_that_builds_a_model_is_not_idle(tmp_path: Path) -> None:
    build = HEAD.replace("    return value\n", "    return nn.Linear(4, 1)\n")
    text = build + packs(40) + "print(pack(3)(torch.ones(4)).numpy())\n"
    assert check(tmp_path, text) == ["GL501: print(pack(3)(torch.ones(4)).numpy())"]


def test_what_it_calls_of_its_own_is_still_checked(tmp_path: Path) -> None:
    late = HEAD.replace(
        "    return value\n", "    if keep:\n        print(nn.Linear(2, 2)(value).numpy())\n    return value\n"
    )
    assert check(tmp_path, late + packs(40)) == ["GL501: print(nn.Linear(2, 2)(value).numpy())"]


def test_what_a_function_has_around_it_is_given_to_it(tmp_path: Path) -> None:
    around = "".join(f"        size_{number} = len(rows) + {number}\n" for number in range(2 * STEPS))
    head = "import torch\nfrom torch import nn\n\n\ndef in_parts(net):\n    def parts(rows):\n" + around
    head += "        return net(rows)\n\n    return parts\n\n\nrun = in_parts(nn.Linear(4, 1))\n"
    shows = "".join(f"with torch.no_grad():\n    shown_{number} = run([1, 2])\n" for number in range(12))
    assert check(tmp_path, head + shows + "print(run(torch.ones(4)).numpy())\n") == [
        "GL501: print(run(torch.ones(4)).numpy())"
    ]


def test_what_is_idle_without_gradients_may_do_more_with_them(tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\n\nnet = nn.Linear(4, 1)\n\n\ndef run(rows):\n"
    head += "".join(f"    size_{number} = len(rows) + {number}\n" for number in range(2 * STEPS))
    head += "    return net(rows)\n\n\n"
    shows = "".join(f"with torch.no_grad():\n    shown_{number} = run([1, 2])\n" for number in range(12))
    assert check(tmp_path, head + shows + "print(run(torch.ones(4)).numpy())\n") == [
        "GL501: print(run(torch.ones(4)).numpy())"
    ]
