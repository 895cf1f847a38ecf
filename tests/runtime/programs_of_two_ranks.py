"""Programs as two ranks, each under a guard: for the tests of what the guard sees in them.

``programs_of_two_ranks.py TARGET FOLDER``: a rank writes to ``TARGET/RANK.json``, for each program of FOLDER in
the order of their names, what it told, and what it left in stores and took out of them.  Each program begins a process
group, at a port that rank 0 takes only then: others might take one that was looked for earlier.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import time
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


def port_of(number: int, target: Path) -> str:
    """A port that nothing else uses, the same for both ranks."""
    told = target / f"{number}.port"
    if RANK == "0":
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        draft = told.with_suffix(".draft")
        draft.write_text(str(port), encoding="ascii")
        draft.rename(told)
    while not told.exists():
        time.sleep(0.01)
    return told.read_text(encoding="ascii")


def main(target: Path, folder: Path) -> None:
    """Run them all."""
    put, dropped = noting("put"), noting("drop")
    told = {}
    for number, path in enumerate(sorted(folder.glob("*.py"))):
        os.environ["MASTER_PORT"] = port_of(number, target)
        told[path.stem] = outcome(path, put, dropped)
    (target / f"{RANK}.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
