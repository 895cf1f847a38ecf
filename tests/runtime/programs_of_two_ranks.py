"""Programs as two ranks, each under a guard: for the tests of what the guard sees in them.

``programs_of_two_ranks.py TARGET FOLDER PORT…``: a rank writes to ``TARGET/RANK.json``, for each program of FOLDER in
the order of their names, what it told, and what it left in stores and took out of them.  Each program begins a process
group, and takes a port of its own.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import gradlint
from gradlint.runtime.distributed.channels import Channel

RANK = os.environ["RANK"]


def noting(method: str) -> set[str]:
    """The keys that are handed to a method of channels from now on."""
    before, keys = getattr(Channel, method), set()

    def note(self: Channel, key: str, *args: Any) -> None:
        keys.add(key)
        before(self, key, *args)

    setattr(Channel, method, note)
    return keys


def outcome(path: Path, put: set[str], dropped: set[str]) -> dict[str, Any]:
    """What is found in a program."""
    put.clear()
    dropped.clear()
    torch.manual_seed(1)
    with gradlint.guard(on_finding="collect", rank_timeout=30) as guard:
        runpy.run_path(str(path))
    found = [[finding.code, finding.location.row, str(finding)] for finding in guard.told]
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    return {"found": found, "failed": guard._failed, "put": sorted(put), "dropped": sorted(dropped)}


def main(target: Path, folder: Path, ports: list[str]) -> None:
    """Run them all."""
    put, dropped = noting("put"), noting("drop")
    told = {}
    for path, port in zip(sorted(folder.glob("*.py")), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        told[path.stem] = outcome(path, put, dropped)
    (target / f"{RANK}.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
