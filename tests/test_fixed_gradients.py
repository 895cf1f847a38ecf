"""What fixed programs compute: the parameters they end with are those of the program that was right from the start.

Each program is run three times from the same seed: with the mistake, as the fixes leave it, and written right.
"""

from __future__ import annotations

import runpy
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradlint.configuration import Configuration
from gradlint.engine import Engine
from gradlint.fixing import mend
from gradlint.selection import Choice

torch = pytest.importorskip("torch", reason="running programs needs torch")

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

"""
NET = """\
net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batches = [(torch.randn(3, 6), torch.randint(0, 4, (3,))) for _ in range(4)]
"""


@dataclass(frozen=True)
class Program:
    """A program with a mistake, and the same without."""

    name: str
    code: str
    wrong: str
    right: str
    differs: bool = True  #: the mistake shows in the parameters
    raises: bool = False  #: the mistake raises
    net: str = NET

    def text(self, body: str) -> str:
        return HEAD + self.net + textwrap.dedent(body)


CLASSIFIER = """\
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 5)
        self.head = nn.Linear(5, 4)
        self.last = nn.{layer}

    def forward(self, x):
        scores = self.head(torch.relu(self.body(x)))
        return {returned}


net = Classifier()
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
x, y = torch.randn(3, 6), torch.randint(0, 4, (3,))
right_count = 0
for _ in range(3):
    output = net(x)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    _, predicted = output.max(1)
    right_count += (predicted == y).sum().item()
"""


def classifier(name: str, code: str, returned: str, loss: str, layer: str = "Identity()", **options: Any) -> Program:
    wrong = CLASSIFIER.format(layer=layer, returned=returned, loss=loss)
    return Program(name, code, wrong, CLASSIFIER.format(layer=layer, returned="scores", loss=loss), net="", **options)


GAN = """\
net = nn.Linear(4, 6)
critic = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.SGD(net.parameters(), lr=0.1)
opt_d = torch.optim.SGD(critic.parameters(), lr=0.1)
"""

PROGRAMS = [
    Program(
        "never cleared",
        "GL201",
        """
        for x, y in batches:
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        """,
        """
        for x, y in batches:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    ),
    Program(
        "cleared once per epoch",
        "GL201",
        """
        for epoch in range(2):
            optimizer.zero_grad()
            for x, y in batches:
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        """,
        """
        for epoch in range(2):
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        """,
    ),
    Program(
        "accumulation that is never cleared",
        "GL201",
        """
        for i, (x, y) in enumerate(batches):
            loss = F.cross_entropy(net(x), y) / 2
            loss.backward()
            if (i + 1) % 2 == 0:
                optimizer.step()  # every other batch
        """,
        """
        for i, (x, y) in enumerate(batches):
            loss = F.cross_entropy(net(x), y) / 2
            loss.backward()
            if (i + 1) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
    ),
    Program(
        "micro-batches in a loop of their own",
        "GL201",
        """
        for epoch in range(3):
            for x, y in batches:
                loss = F.cross_entropy(net(x), y)
                loss.backward()
            optimizer.step()
        """,
        """
        for epoch in range(3):
            optimizer.zero_grad()
            for x, y in batches:
                loss = F.cross_entropy(net(x), y)
                loss.backward()
            optimizer.step()
        """,
    ),
    Program(
        "two losses for one step",
        "GL201",
        """
        for x, y in batches:
            first = F.cross_entropy(net(x), y)
            first.backward()
            second = net(x).square().mean()
            second.backward()
            optimizer.step()
        """,
        """
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            net(x).square().mean().backward()
            optimizer.step()
        """,
    ),
    Program(
        "the critic of a GAN, with a backward pass for real and one for fake",
        "GL201",
        """
        for _ in range(3):
            fake = net(torch.randn(5, 4))
            loss_real = F.softplus(-critic(torch.randn(5, 6))).mean()
            loss_real.backward()
            loss_fake = F.softplus(critic(fake.detach())).mean()
            loss_fake.backward()
            opt_d.step()
            opt_g.zero_grad()
            loss_g = F.softplus(-critic(fake)).mean()
            loss_g.backward()
            opt_g.step()
        """,
        """
        for _ in range(3):
            fake = net(torch.randn(5, 4))
            opt_d.zero_grad()
            loss_real = F.softplus(-critic(torch.randn(5, 6))).mean()
            loss_real.backward()
            loss_fake = F.softplus(critic(fake.detach())).mean()
            loss_fake.backward()
            opt_d.step()
            opt_g.zero_grad()
            loss_g = F.softplus(-critic(fake)).mean()
            loss_g.backward()
            opt_g.step()
        """,
        net=GAN,
    ),
    Program(
        "the critic of a GAN, trained behind the generator",
        "GL201",
        """
        for _ in range(3):
            fake = net(torch.randn(5, 4))
            opt_g.zero_grad()
            loss_g = F.softplus(-critic(fake)).mean()
            loss_g.backward()
            opt_g.step()
            loss_d = (F.softplus(-critic(torch.randn(5, 6))) + F.softplus(critic(fake.detach()))).mean()
            loss_d.backward()
            opt_d.step()
        """,
        """
        for _ in range(3):
            fake = net(torch.randn(5, 4))
            opt_g.zero_grad()
            loss_g = F.softplus(-critic(fake)).mean()
            loss_g.backward()
            opt_g.step()
            opt_d.zero_grad()
            loss_d = (F.softplus(-critic(torch.randn(5, 6))) + F.softplus(critic(fake.detach()))).mean()
            loss_d.backward()
            opt_d.step()
        """,
        net=GAN,
    ),
    Program(
        "a scaler",
        "GL201",
        """
        scaler = torch.amp.GradScaler("cpu")
        for x, y in batches:
            loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
        """
        scaler = torch.amp.GradScaler("cpu")
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    Program(
        "a closure",
        "GL201",
        """
        x, y = batches[0]

        def closure():
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        """,
        """
        x, y = batches[0]

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        """,
    ),
    Program(
        "an update by hand",
        "GL201",
        """
        w = torch.randn(1, requires_grad=True)
        b = torch.zeros(1, requires_grad=True)
        for x, _ in batches:
            loss = (w * x + b - 3).square().mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
        """,
        """
        w = torch.randn(1, requires_grad=True)
        b = torch.zeros(1, requires_grad=True)
        for x, _ in batches:
            loss = (w * x + b - 3).square().mean()
            w.grad = b.grad = None
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
                b -= 0.1 * b.grad
        """,
    ),
    classifier("a function in forward", "GL301", "F.softmax(scores, dim=1)", "F.cross_entropy(output, y)"),
    classifier("a method in forward", "GL301", "scores.softmax(-1)", "nn.CrossEntropyLoss()(output, y)"),
    classifier("a layer", "GL301", "self.last(scores)", "F.cross_entropy(output, y)", layer="Softmax(dim=1)"),
    classifier(
        "a function in forward that is redundant",
        "GL308",
        "F.log_softmax(scores, dim=1)",
        "F.cross_entropy(output, y)",
        differs=False,
    ),
    Program(
        "the last layer of a Sequential",
        "GL301",
        """
        net = nn.Sequential(
            nn.Linear(6, 5),
            nn.Linear(5, 4),  # logits
            nn.Softmax(dim=1),
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
        """
        net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
    ),
    Program(
        "the sigmoid of a discriminator",
        "GL303",
        """
        net = nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
        loss = F.binary_cross_entropy_with_logits(net(batches[0][0]), torch.ones(3, 1))
        loss.backward()
        """,
        """
        net = nn.Sequential(nn.Linear(6, 1))
        loss = F.binary_cross_entropy_with_logits(net(batches[0][0]), torch.ones(3, 1))
        loss.backward()
        """,
    ),
    Program(
        "a retained graph",
        "GL204",
        """
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward(retain_graph=True)
            optimizer.step()
        """,
        """
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
        differs=False,
    ),
    Program(
        "a running total",
        "GL205",
        """
        total = 0.0
        for x, y in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            total = total + loss
        """,
        """
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
        differs=False,
    ),
    Program(
        "functional dropout that evaluation does not turn off",
        "GL401",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(6, 4)

            def forward(self, x):
                return F.dropout(self.fc(x), 0.5)


        net = Net().eval()
        loss = net(batches[0][0]).square().sum()
        loss.backward()
        """,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(6, 4)

            def forward(self, x):
                return F.dropout(self.fc(x), 0.5, training=self.training)


        net = Net().eval()
        loss = net(batches[0][0]).square().sum()
        loss.backward()
        """,
    ),
    Program(
        "a dropout layer built on the spot",
        "GL401",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(6, 4)

            def forward(self, x):
                return nn.Dropout(0.5)(self.fc(x))


        net = Net().eval()
        loss = net(batches[0][0]).square().sum()
        loss.backward()
        """,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(6, 4)

            def forward(self, x):
                return self.fc(x)


        net = Net().eval()
        loss = net(batches[0][0]).square().sum()
        loss.backward()
        """,
    ),
    Program(
        "a body that was to be frozen",
        "GL410",
        """
        net[0].requires_grad = False
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
        """
        net[0].requires_grad_(False)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
    ),
    Program(
        "outputs changed behind autograd's back, where nothing needs them",
        "GL101",
        """
        scores = net(batches[0][0])
        scores.data[:, 0] = -5.0
        scores.data *= 0.5
        F.cross_entropy(scores, batches[0][1]).backward()
        """,
        """
        scores = net(batches[0][0])
        with torch.no_grad():
            scores[:, 0] = -5.0
            scores *= 0.5
        F.cross_entropy(scores, batches[0][1]).backward()
        """,
        differs=False,
    ),
    Program(
        "initial weights",
        "GL110",
        """
        net[0].weight.data.normal_(0, 0.02)
        net[0].bias.data.zero_()
        for p in net[2].parameters():
            p.data.mul_(0.5).add_(1.0)
        F.cross_entropy(net(batches[0][0]), batches[0][1]).backward()
        """,
        """
        nn.init.normal_(net[0].weight, 0, 0.02)
        nn.init.zeros_(net[0].bias)
        with torch.no_grad():
            for p in net[2].parameters():
                p.mul_(0.5).add_(1.0)
        F.cross_entropy(net(batches[0][0]), batches[0][1]).backward()
        """,
        differs=False,
    ),
    Program(
        "an average of parameters",
        "GL110",
        """
        slow = nn.Linear(5, 4)
        for p, q in zip(net[2].parameters(), slow.parameters()):
            q.data = q.data * 0.9 + p.data * 0.1
        """,
        """
        slow = nn.Linear(5, 4)
        for p, q in zip(net[2].parameters(), slow.parameters()):
            with torch.no_grad():
                q.copy_(q * 0.9 + p * 0.1)
        """,
        differs=False,
    ),
    Program(
        "a list of losses as an array",
        "GL501",
        """
        import numpy as np

        losses = []
        for x, y in batches:
            loss = F.cross_entropy(net(x), y)
            losses.append(loss)
        sum(losses).backward()
        print(np.asarray(net(batches[0][0])))
        """,
        """
        losses = []
        for x, y in batches:
            loss = F.cross_entropy(net(x), y)
            losses.append(loss)
        sum(losses).backward()
        """,
        raises=True,
    ),
]


def outcome(path: Path, text: str | bytes) -> dict[str, Any]:
    """The parameters and gradients that a program ends with."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    torch.manual_seed(7)
    names = runpy.run_path(str(path), run_name="__main__")
    found: dict[str, Any] = {}
    for name, value in names.items():
        if isinstance(value, torch.nn.Module) and name in ("net", "critic", "slow"):
            for key, parameter in value.named_parameters():
                found[f"{name}.{key}"] = parameter.detach()
                if name == "net" and parameter.grad is not None:
                    found[f"{name}.{key}.grad"] = parameter.grad
        elif isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
            found[name] = value.detach()
    assert found
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    shared = one.keys() & other.keys()
    assert {key for key in one if not key.endswith(".grad")} <= shared
    return all(torch.allclose(one[key], other[key], atol=1e-6) for key in shared)


@pytest.mark.parametrize("program", PROGRAMS, ids=[f"{program.code}-{program.name}" for program in PROGRAMS])
def test_a_fixed_program_computes_what_the_right_one_does(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(program.text(program.wrong), encoding="utf-8")
    engine = Engine(Configuration(isolated=True), Choice("test", (program.code,)))
    before = engine.check([path], [tmp_path])
    assert before.findings
    assert all(finding.fix is not None for finding in before.findings)
    after = mend(before, lambda given, earlier: engine.check([path], [tmp_path], given, earlier), unsafe=True)
    assert after.report.findings == []
    fixed, right = outcome(path, after.after[path]), outcome(path, program.text(program.right))
    assert same(fixed, right)
    if not program.raises:
        assert same(outcome(path, program.text(program.wrong)), right) is not program.differs
