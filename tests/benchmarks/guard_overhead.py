"""What a guard costs: CPU time of a training step with and without it, interleaved in one process.

Run it from anywhere, with gradlint and torch installed:

    python tests/benchmarks/guard_overhead.py [--rounds 40] [--only resnet gpt …] [--ways default exact …]

Each round measures a block of steps without a guard and one in each of the ways, in random order; printed are the
median CPU time of an unguarded step, the median over the rounds of the ratio of their two blocks, which what drifts
from round to round does not touch, and a 95 % confidence interval of that median, bootstrapped over the rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import nn

import gradlint

Step = Callable[[], None]
WARM_UP = 10  #: a guard looks closer at the first steps, and at every tenth one


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(out), nn.BatchNorm2d(out)])
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the convolutions make of ``x`` to ``x``."""
        inner = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(inner)) + self.shortcut(x))


def resnet() -> Step:
    """ResNet-18 on a batch of small images."""
    plan = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [Block(*row) for row in plan] + [Block(512, 512, 1)]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return step(model, torch.randn(8, 3, 24, 24), torch.randint(0, 10, (8,)), lambda p: torch.optim.SGD(p, lr=1e-3))


class GPT(nn.Module):
    """Four causal transformer layers, with heads of 32 features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(256, width), nn.Linear(width, 256)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 32, 4 * width, dropout=0.0, batch_first=True) for _ in range(4)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token, vocabulary second."""
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        logits: torch.Tensor = self.head(x)
        return logits.transpose(1, 2)


def gpt(width: int) -> Step:
    """A small language model, on 256 tokens."""
    tokens = torch.randint(0, 256, (4, 64))
    return step(GPT(width), tokens, tokens, lambda p: torch.optim.AdamW(p, lr=1e-4))


def mlp() -> Step:
    """A model so small that every call of Python shows."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    return step(model, torch.randn(8, 16), torch.randint(0, 4, (8,)), lambda p: torch.optim.SGD(p, lr=1e-3))


def many() -> Step:
    """Four thousand modules, each with next to nothing to do."""
    pairs = ((nn.Linear(8, 8), nn.ReLU()) for _ in range(2000))
    model = nn.Sequential(*(module for pair in pairs for module in pair), nn.Linear(8, 4))
    return step(model, torch.randn(8, 8), torch.randint(0, 4, (8,)), lambda p: torch.optim.SGD(p, lr=1e-3))


def lstm() -> Step:
    """A recurrent cell, called fifty times in each closure of LBFGS: what a guard costs follows the calls."""
    cell, head = nn.LSTMCell(1, 16), nn.Linear(16, 1)
    optimizer = torch.optim.LBFGS([*cell.parameters(), *head.parameters()], lr=0.1, max_iter=4)
    x = torch.randn(8, 50)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        hidden, state = torch.zeros(8, 16), torch.zeros(8, 16)
        loss = torch.zeros(())
        for now, after in zip(x[:, :-1].split(1, dim=1), x[:, 1:].split(1, dim=1), strict=True):
            hidden, state = cell(now, (hidden, state))
            loss = loss + nn.functional.mse_loss(head(hidden), after)
        loss.backward()
        return loss

    def run() -> None:
        optimizer.step(closure)

    return run


def step(model: nn.Module, x: torch.Tensor, y: torch.Tensor, build: Callable[..., torch.optim.Optimizer]) -> Step:
    """One training step."""
    optimizer = build(model.parameters())

    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return run


def measure(run: Step, steps: int, guard: AbstractContextManager[object] | None) -> float:
    """CPU seconds of a step; before the clock starts a guard gets over its first steps, as in a long training."""
    if guard is None:
        start = time.process_time()
        for _ in range(steps):
            run()
        return (time.process_time() - start) / steps
    with guard:
        for _ in range(WARM_UP):
            run()
        return measure(run, steps, None)


def interval(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """A 95 % confidence interval of the ratio, over resampled rounds."""
    draws = sorted(ratio([random.choice(pairs) for _ in pairs]) for _ in range(2000))  # noqa: S311  resampling
    return draws[50], draws[-50]


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Guarded over unguarded, in the middle of the rounds."""
    return statistics.median(guarded / plain for guarded, plain in pairs)


#: What to measure: the guard as it is by default, with every saved tensor compared, and torch's own anomaly mode.
WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "default": lambda: gradlint.guard(on_finding="collect"),
    "exact": lambda: gradlint.guard(on_finding="collect", exact=True),
    "exact-1/20": lambda: gradlint.guard(on_finding="collect", exact=1 / 20),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=True),
}
#: How to build a step, and how many of them are a block.
MODELS: dict[str, tuple[Callable[[], Step], int]] = {
    "resnet": (resnet, 10),
    "gpt": (lambda: gpt(256), 10),
    "gpt-narrow": (lambda: gpt(128), 10),
    "mlp": (mlp, 200),
    "many": (many, 10),
    "lstm": (lstm, 10),
}


def compare(run: Step, steps: int, ways: list[str], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """For each way, pairs of what a step takes with and without it; each round takes all in random order."""
    measure(run, steps, None)
    pairs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        order: list[str | None] = [None, *ways]
        random.shuffle(order)
        seconds = {way: measure(run, steps, None if way is None else WAYS[way]()) for way in order}
        for way in ways:
            pairs[way].append((seconds[way], seconds[None]))
    return pairs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.only:
        build, steps = MODELS[name]
        for way, pairs in compare(build(), steps, options.ways, options.rounds).items():
            low, high = interval(pairs)
            plain = statistics.median(plain for _, plain in pairs)
            sys.stdout.write(
                f"{name:10} {plain * 1e3:8.2f} ms a step   {way:14} ratio {ratio(pairs):.3f}"
                f"   95 % in [{low:.3f}, {high:.3f}]\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
