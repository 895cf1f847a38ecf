"""How the time of a check grows with the number of files, and what a check costs beside parsing alone.

Run from anywhere, with gradlint installed; nothing is fetched::

    python tests/benchmarks/linter_growth.py                   # generated projects of 100, 1,000 and 3,000 files
    python tests/benchmarks/linter_growth.py --sizes 50 100    # other sizes
    python tests/benchmarks/linter_growth.py FOLDER …          # real code: ratio to read + libcst.parse_module

All figures are CPU seconds of one process, and ratios of figures measured in the same run.  A generated project
is made of small experiments of five files (a network, losses, data, helpers and the loop that uses them), each
importing the others, as research code does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

NETWORK = """
import logging
import os

import torch
from torch import nn
from torch.nn import functional as F


logger = logging.getLogger(__name__)
ROOT = os.environ.get("ROOT", ".")
FOLDERS = {name: os.path.join(ROOT, name) for name in ("data", "runs", "weights")}
SCALES = [os.cpu_count() * width for width in (1, 2, 4)]


class Net(nn.Module):
    def __init__(self, width=32, classes={n}):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = F.dropout(self.body(x), 0.1, training=self.training)
        return self.head(x)
"""
LOSSES = """
from torch import nn


def build_loss(name):
    if name == "ce":
        return nn.CrossEntropyLoss()
    return nn.MSELoss()
"""
DATA = """
import torch
from torch.utils.data import DataLoader, TensorDataset


def batches(size=8):
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    return DataLoader(data, batch_size=size, shuffle=True)
"""
HELPERS = """
import torch


def update(loss, optimizer):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = [(model(x).argmax(1) == y).float().mean().item() for x, y in loader]
    return sum(hits) / len(hits)
"""
TRAIN = """
import torch
from .data import batches
from .helpers import accuracy, update
from .losses import build_loss
from .network import Net


def main(epochs=5):
    model = Net()
    criterion = build_loss("ce")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    history = []
    for epoch in range(epochs):
        model.train()
        for x, y in batches():
            loss = criterion(model(x), y)
            history.append(update(loss, optimizer))
        print(epoch, history[-1], accuracy(model, batches()))


if __name__ == "__main__":
    main()
"""


def generate(folder: Path, files: int) -> None:
    """Write a project of about ``files`` files."""
    for number in range(max(files // 6, 1)):
        package = folder / f"experiment_{number}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        parts = {
            "network": NETWORK.replace("{n}", str(2 + number % 9)),
            "losses": LOSSES,
            "data": DATA,
            "helpers": HELPERS,
            "train": TRAIN,
        }
        for name, text in parts.items():
            (package / f"{name}.py").write_text(text)


def check(folder: Path) -> tuple[float, int]:
    """CPU seconds of a check of all files below ``folder``, and the number of findings."""
    from gradlint.rule import all_rules
    from gradlint.static.drive.analysis import analyze
    from gradlint.static.text.project import Project

    rules = [rule for rule in all_rules() if rule.default()]
    files = sorted(folder.rglob("*.py"))
    started = time.process_time()
    findings = analyze(Project([folder]), files, rules).findings
    return time.process_time() - started, len(findings)


def parse(folder: Path) -> float:
    """CPU seconds to read and parse, with libcst, the files below ``folder`` that mention torch."""
    import libcst

    from gradlint.source import SourceError, read_source

    started = time.process_time()
    for path in sorted(folder.rglob("*.py")):
        try:
            text = read_source(path).text
            if "torch" in text:
                libcst.parse_module(text)
        except (SourceError, libcst.ParserSyntaxError):
            continue
    return time.process_time() - started


def main() -> None:
    """Print the figures asked for."""
    parser = argparse.ArgumentParser(description="time of a check against the number of files")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1000, 3000])
    options = parser.parse_args()
    if options.folders:
        print("folder                          files  findings  parse s  check s  ratio")
        for folder in options.folders:
            baseline = parse(folder)
            seconds, findings = check(folder)
            files = sum(1 for _ in folder.rglob("*.py"))
            ratio = seconds / baseline if baseline else float("nan")
            print(f"{folder.name[-30:]:30} {files:6} {findings:9} {baseline:8.2f} {seconds:8.2f} {ratio:6.2f}")
        return
    print("files   check s   ms a file")
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            generate(folder, size)
            seconds, _ = check(folder)
            files = sum(1 for _ in folder.rglob("*.py"))
            print(f"{files:5} {seconds:9.2f} {1000 * seconds / files:11.2f}")


if __name__ == "__main__":
    main()
