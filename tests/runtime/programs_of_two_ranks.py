"""Programs as two ranks, each under a guard: for the tests of what the guard sees in them.

``programs_of_two_ranks.py TARGET FOLDER``: a rank writes to ``TARGET/RANK.json``, for each program of FOLDER in
the order of their names, what it told, and what it left in stores and took out of them.  Each program begins a process
group, at a port that rank 0 takes only then: others might take one that was looked for earlier.

Each process group is kept to the very end, at which nothing is taken down.  Its destructor waits for threads of gloo
and holds Python's lock, while such a thread needs that lock to let go of the context that a backward pass has left with
the last collective: a program that ends just after a backward pass of DistributedDataParallel may hang, with a guard or
without one.
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
KEPT: list[Any] = []  #: process groups


def noting(method: str) -> set[str]:
    """The keys that are handed to a method of channels from now on."""
    before, keys = getattr(Channel, method), set()

    def note(self: Channel, key: str, *args: Any) -> None:
        keys.add(key)
        before(self, key, *args)

    setattr(Channel, method, note)
    return keys


def keep_groups(maker: str) -> None:
    """Keep each process group that a function of torch.distributed makes from now on."""
    before = getattr(dist, maker)

    def make(*args: Any, **kwargs: Any) -> Any:
        group = before(*args, **kwargs)
        KEPT.append(group or dist.group.WORLD)
        return group

    setattr(dist, maker, make)


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
    keep_groups("init_process_group")
    keep_groups("new_group")
    told = {}
    for number, path in enumerate(sorted(folder.glob("*.py"))):
        os.environ["MASTER_PORT"] = port_of(number, target)
        told[path.stem] = outcome(path, put, dropped)
    (target / f"{RANK}.json").write_text(json.dumps(told), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
