"""Whether a guard's memory grows with the length of a training: a hundred thousand small steps under one guard.

Run it from anywhere, with gradlint and torch installed, on a system that has ``/proc``:

    python tests/benchmarks/guard_memory.py [--steps 100000] [--exact FRACTION]

Printed are the memory of the process and the number of objects that Python's collector knows, at each tenth of the
steps.  Nothing may grow after the first tenth, in which caches fill: if anything does, the status is 1.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

import torch
from torch import nn

import gradlint

PAGE = 4096  #: bytes, as ``statm`` counts
OBJECTS = 200  #: that the collector may know more of at the end than after the first tenth
MEGABYTES = 4.0  #: that the process may take more


def trainer() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small classifier with dropout, and an optimizer that keeps moments."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    return model, torch.optim.Adam(model.parameters(), lr=1e-4)


def used() -> tuple[float, int]:
    """Megabytes of memory that the process takes, and objects that are alive in it."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * PAGE / 1e6, len(gc.get_objects())


def main() -> int:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--exact", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, optimizer = trainer()
    x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))
    tenth = max(1, options.steps // 10)
    seen: list[tuple[float, int]] = []
    with gradlint.guard(model, optimizer, on_finding="collect", exact=options.exact):
        for step in range(1, options.steps + 1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step % tenth == 0:
                seen.append(used())
                sys.stdout.write(f"{step:8} steps  {seen[-1][0]:8.1f} MB  {seen[-1][1]:8} objects\n")
                sys.stdout.flush()
    megabytes, objects = seen[-1][0] - seen[0][0], seen[-1][1] - seen[0][1]
    sys.stdout.write(f"after the first tenth: {megabytes:+.1f} MB, {objects:+} objects\n")
    return int(megabytes > MEGABYTES or objects > OBJECTS)


if __name__ == "__main__":
    sys.exit(main())
