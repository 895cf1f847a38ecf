"""Fixes over generated programs: mistakes in every kind of block, in every layout, with comments all around."""

from __future__ import annotations

import io
import tempfile
import textwrap
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradlint.configuration import Configuration
from gradlint.engine import Earlier, Engine, Report
from gradlint.finding import Severity
from gradlint.fixing import mend
from gradlint.selection import Choice
from gradlint.source import Source

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable

net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
flag = len(str(net)) > 3
"""
DATA = "x, y = torch.randn(3, 6), torch.tensor([0, 1, 2])"

#: statements with mistakes, each after ``DATA``
MISTAKES = [
    "net.weight.data.normal_(0, 0.02)",
    "net.bias.data.zero_()",
    "net.weight.data *= 0.5",
    "net.bias.data[0] = 1.0",
    "net.weight.data = net.weight.data * 0.9 + 0.1",
    "loss = F.cross_entropy(F.softmax(net(x), dim=1), y)",
    "out = net(x).softmax(-1)\nloss = F.cross_entropy(out, y)",
    "out = F.log_softmax(net(x), 1)\nloss = F.cross_entropy(out, y)\nprint(out.argmax(1))",
    "F.cross_entropy(net(x), y).backward(retain_graph=True)",
    "loss = F.cross_entropy(net(x), y)\nopt.zero_grad()\nloss.backward(retain_graph = True)\nopt.step()",
    "for i in range(3):\n    loss = F.cross_entropy(net(x), y)\n    loss.backward()\n    opt.step()",
    "for i in range(4):\n    F.cross_entropy(net(x), y).backward()\n    if i % 2:\n        opt.step()",
    "total = 0\nfor i in range(3):\n    loss = F.cross_entropy(net(x), y)\n    loss.backward()\n    total += loss",
    "print(net(x).numpy())",
    "values = np.asarray(net(x) + 1)",
    "x = Variable(x)",
    "x, y = Variable(x), Variable(y)",
    "nn.init.xavier_uniform(net.weight)",
    "scores = net.forward(x)",
    "net.requires_grad = False",
    "x.clamp(0, 1)\nprint(x)",
    "logp = torch.log(F.softmax(net(x), dim=1))",
    "scores = net(x)\nscores.data[:, 0] = -1.0\nF.cross_entropy(scores, y).backward()",
]
#: what they may stand in, ``{}`` for them
BLOCKS = [
    "{}",
    "if flag:\n    {}\nelse:\n    print('no')",
    "with torch.autocast('cpu', enabled=False):\n    {}",
    "try:\n    {}\nexcept RuntimeError as error:\n    print(error)",
    "def work{n}(x, y):\n    '''Work.'''\n    {}\n\n\nwork{n}(torch.randn(3, 6), torch.tensor([0, 1, 2]))",
    "class Job{n}:\n    def run(self, x, y):\n        {}\n\n\nJob{n}().run(torch.randn(3, 6), torch.tensor([0, 1, 2]))",
]


def within(block: str, body: str, number: int) -> str:
    """A body, indented as the place in a block asks for."""
    lines = []
    for line in block.replace("{n}", str(number)).split("\n"):
        stem = line.removesuffix("{}")
        lines.append(line if stem == line else textwrap.indent(body, stem))
    return "\n".join(lines)


def spread(line: str, comment: bool) -> str:
    """A statement with its first call over several rows."""
    indent = line[: len(line) - len(line.lstrip())]
    before, opening, rest = line.partition("(")
    if (
        not opening
        or not rest.endswith(")")
        or rest.startswith(")")
        or line.lstrip().startswith(("for", "def", "with"))
    ):
        return line
    note = "  # over rows" if comment else ""
    return f"{before}({note}\n{indent}        {rest}"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Programs with one to four mistakes."""
    parts = [HEAD]
    for number in range(draw(st.integers(1, 4))):
        lines = [DATA, *draw(st.sampled_from(MISTAKES)).split("\n")]
        if draw(st.booleans()):
            at = draw(st.integers(1, len(lines) - 1))
            lines[at] = spread(lines[at], draw(st.booleans()))
        if draw(st.booleans()):
            at = draw(st.integers(0, len(lines) - 1))
            lines[at] += "  # note é"
        if draw(st.booleans()):
            at = draw(st.integers(0, len(lines) - 1))
            lines[at] = f"{lines[at][: len(lines[at]) - len(lines[at].lstrip())]}# above\n{lines[at]}"
        parts.append(within(draw(st.sampled_from(BLOCKS)), "\n".join(lines), number))
    text = "\n\n".join(parts) + draw(st.sampled_from(["", "\n", "\n\n# end\n"]))
    width = draw(st.sampled_from(["    ", "  ", "\t"]))
    return "\n".join(width * ((len(row) - len(row.lstrip(" "))) // 4) + row.lstrip(" ") for row in text.split("\n"))


def comments(text: str) -> list[str]:
    return [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    ]


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_generated_program_is_mended_for_good(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "main.py"
        path.write_text(text, encoding="utf-8")
        engine = Engine(Configuration(isolated=True), Choice("test", ("ALL",)))

        def check(given: Mapping[Path, Callable[[], Source]], earlier: Earlier | None = None) -> Report:
            return engine.check([path], [path.parent], given, earlier)

        before = check({})
        result = mend(before, check, unsafe=True)
        fixed = [finding for finding in before.findings if finding.fix is not None]
        assert [finding for finding in result.report.findings if finding.fix is not None] == []
        assert errors(result.report) <= errors(before)
        left = Counter(finding.code for finding in result.report.findings)
        assert left["GL110"] + left["GL201"] + left["GL204"] + left["GL501"] + left["GL901"] <= sum(
            finding.fix is None for finding in before.findings
        )
        if fixed:
            after = result.after[path].decode()
            compile(after, "main.py", "exec")
            assert comments(after) == comments(text)
            assert kept_rows(text, after)


def errors(report: Report) -> Counter[str]:
    return Counter(finding.code for finding in report.findings if finding.severity is Severity.ERROR)


def kept_rows(before: str, after: str) -> bool:
    """Whether rows that no mistake is on are still there, in their order."""
    rows = iter(after.split("\n"))
    untouched = [
        row for row in before.split("\n") if row.strip().startswith(("#", "import", "def", "class", "x, y = t"))
    ]
    return all(row in rows for row in untouched)
