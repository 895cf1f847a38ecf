"""What a check costs beside parsing alone, and beside other linters.

Run from anywhere, with gradlint installed in the environment that runs it, not editable, because the finder of an
editable install slows every start of Python down; nothing is fetched::

    python tests/benchmarks/linter_cost.py FOLDER …
    python tests/benchmarks/linter_cost.py --torchfix ENV/bin/torchfix --ruff ENV/bin/ruff --rounds 3 FOLDER …
    python tests/benchmarks/linter_cost.py --pyright ENV/bin/pyright --pythonpath ENV/bin/python FOLDER …
    python tests/benchmarks/linter_cost.py --flake8 ENV/bin/flake8 FOLDER …

Every command runs in a process of its own, all of a round one after the other, and its user and system time and
its peak memory are those the operating system counted, with the processes that it started.  Told are the medians of
the rounds, as ratios:

- ``cold``: a check without a cache, to reading and parsing with libcst the files that mention torch;
- ``warm``: a check of which nothing has changed since the last one, to the same, and to ``ruff check`` warm;
- ``python``: an interpreter that starts and ends, which is the least a warm check can cost, to the same;
- ``file``: a cold check of a single file, the median of five spread over the folder, to TorchFix on that file;
- ``memory``: the peak of the cold check, to that of TorchFix, or of pyright, on the folder;
- ``hook``: a check of a single file as a pre-commit hook makes it, cold and warm, the median of the same five, to
  flake8 on that file, with TorchFix as its plugin where that is installed beside it.

Pyright, a type checker, infers the types of all files below the folder, with those of the libraries in the
environment of ``--pythonpath``, which should have torch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PARSE = """
import sys, pathlib, libcst
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    data = path.read_bytes()
    if b"torch" in data:
        try:
            libcst.parse_module(data)
        except Exception as error:
            print(path, error, file=sys.stderr)
"""


@dataclass
class Cost:
    """What a command cost, in each round."""

    seconds: list[float] = field(default_factory=list)  #: of the CPU
    megabytes: list[float] = field(default_factory=list)  #: at the peak

    def measure(self, command: Sequence[str], *, cwd: str) -> None:
        """Run a command; what it prints is dropped, and its exit code is its own business."""
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd) as process:
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        self.seconds.append(usage.ru_utime + usage.ru_stime)
        self.megabytes.append(usage.ru_maxrss / 1024)

    @property
    def cpu(self) -> float:
        """The median."""
        return statistics.median(self.seconds)

    @property
    def peak(self) -> float:
        """The median."""
        return statistics.median(self.megabytes)


def measure(folder: Path, tools: argparse.Namespace) -> dict[str, Cost]:
    """The costs of all commands on one folder."""
    files = sorted(path for path in folder.rglob("*.py") if b"torch" in path.read_bytes())
    single = files[:: max(len(files) // 5, 1)][:5]
    script = Path(sys.executable).with_name("gradlint")
    gradlint = [str(script)] if script.exists() else [sys.executable, "-m", "gradlint"]
    gradlint += ["check", "--isolated", "--exit-zero", "--jobs", "1"]
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as scratch:
        cached = [*gradlint, "--cache-dir", str(Path(scratch, "results"))]
        commands: dict[str, list[list[str]]] = {
            "parse": [[sys.executable, "-c", PARSE, str(folder)]],
            "cold": [[*gradlint, "--no-cache", str(folder)]],
            "warm": [[*cached, str(folder)]],
            "python": [[sys.executable, "-c", "pass"]],
            "file": [[*gradlint, "--no-cache", str(path)] for path in single],
            "file warm": [[*gradlint, "--cache-dir", str(Path(scratch, "hook-results")), str(path)] for path in single],
        }
        if tools.ruff:
            ruff = [tools.ruff, "check", "--isolated", "--exit-zero", "--quiet", "--select", "E9"]
            commands["ruff cold"] = [[*ruff, "--no-cache", str(folder)]]
            commands["ruff"] = [[*ruff, "--cache-dir", str(Path(scratch, "ruff-results")), str(folder)]]
        if tools.torchfix:
            commands["torchfix"] = [[tools.torchfix, "-j", "1", str(folder)]]
            commands["torchfix file"] = [[tools.torchfix, "-j", "1", str(path)] for path in single]
        if tools.flake8:
            commands["flake8 file"] = [[tools.flake8, "--isolated", "-j", "1", str(path)] for path in single]
        if tools.pyright:
            commands["pyright"] = [[tools.pyright, "--pythonpath", tools.pythonpath, str(folder)]]
        for name in ("warm", "file warm", "ruff"):
            for command in commands.get(name, ()):
                Cost().measure(command, cwd=scratch)  # fills the cache
        for _ in range(tools.rounds):
            for name, runs in commands.items():
                for command in runs:
                    costs.setdefault(name, Cost()).measure(command, cwd=scratch)
    return costs


def _command(name: str) -> str:
    """A command by a name that means the same in every folder."""
    return os.path.abspath(name) if os.sep in name else name


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description="cost of a check, as ratios")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ruff", type=_command, help="the command")
    parser.add_argument("--torchfix", type=_command, help="the command")
    parser.add_argument("--flake8", type=_command, help="the command")
    parser.add_argument("--pyright", type=_command, help="the command")
    parser.add_argument("--pythonpath", type=_command, default=sys.executable, help="an interpreter that has torch")
    options = parser.parse_args()
    for folder in options.folders:
        costs = measure(folder.resolve(), options)
        print(f"{folder}: parse {costs['parse'].cpu:.2f} s, {costs['cold'].peak:.0f} MB at the peak of a cold check")
        ratios = [("cold / parse", "cold", "parse"), ("warm / parse", "warm", "parse")]
        ratios += [("warm / ruff warm", "warm", "ruff"), ("python / ruff warm", "python", "ruff")]
        ratios += [("cold / ruff cold", "cold", "ruff cold")]
        ratios += [("cold / TorchFix", "cold", "torchfix"), ("file / TorchFix", "file", "torchfix file")]
        ratios += [("hook cold / flake8", "file", "flake8 file"), ("hook warm / flake8", "file warm", "flake8 file")]
        ratios += [("cold / pyright", "cold", "pyright"), ("warm / pyright", "warm", "pyright")]
        for title, one, other in ratios:
            if other in costs:
                print(f"  {title:18} {costs[one].cpu / costs[other].cpu:8.3f}")
        for title, other in (("memory / TorchFix", "torchfix"), ("memory / pyright", "pyright")):
            if other in costs:
                print(f"  {title:18} {costs['cold'].peak / costs[other].peak:8.3f}")


if __name__ == "__main__":
    main()
