"""What two ranks tell of each other, for the tests of distributed training: each rank runs this program.

``distributed_reports.py FOLDER PORT…``: a rank writes to ``FOLDER/RANK.json`` what it told in each of the situations,
and at the end rank 1 dies inside a guard.  Each process group takes a port of its own.  Not to be run under torchrun.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradlint

RANK = int(os.environ["RANK"])
FOLDER = Path(sys.argv[1])
PORTS = iter(sys.argv[2:])
Situation = Callable[[dict[str, Any]], object]
SITUATIONS: list[Situation] = []


def situation(function: Situation) -> Situation:
    """Mark a situation; it notes what it likes to have looked at."""
    SITUATIONS.append(function)
    return function


def join(method: str | None = None) -> nn.Module:
    """Begin a process group; a model of it."""
    method = method or f"tcp://localhost:{next(PORTS)}"
    dist.init_process_group("gloo", init_method=method, rank=RANK, world_size=2)
    return DistributedDataParallel(nn.Linear(4, 2))


def train(model: nn.Module, clear: bool = False, steps: int = 3, leaf: bool = False) -> None:
    """Without clearing it is wrong; with a leaf as input it is wasteful."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(3, 4, requires_grad=leaf)
        model(x).square().mean().backward()
        optimizer.step()
        if clear:
            optimizer.zero_grad()


def watch(**options: Any) -> Any:
    return gradlint.guard(**{"select": ["ALL"], "rank_timeout": 60, **options})


def codes(guard: Any) -> list[Any]:
    return [[finding.code, list(finding.ranks), finding.count] for finding in guard.told]


@situation
def the_group_is_alive(notes: dict[str, Any]) -> None:
    model = join()
    with watch() as guard:
        train(model)
    notes["told"], notes["own"] = codes(guard), [[finding.code, finding.count] for finding in guard.findings]
    notes["report"], notes["html"] = guard.report(), guard.report("html")
    notes["ranks"] = [finding["ranks"] for finding in json.loads(guard.report("json"))]


@situation
def one_rank_is_wrong(notes: dict[str, Any]) -> None:
    model = join()
    with watch() as guard:
        train(model, clear=True, leaf=RANK == 1, steps=8)
    notes["told"] = codes(guard)


@situation
def the_group_is_destroyed_inside(notes: dict[str, Any]) -> None:
    with watch() as guard:
        train(join())
        dist.destroy_process_group()
        train(nn.Linear(4, 2))
    notes["told"] = codes(guard)
    notes["threads"] = [thread.name for thread in threading.enumerate() if "gradlint" in thread.name]


@situation
def the_group_begins_anew_inside(notes: dict[str, Any]) -> None:
    with watch() as guard:
        for _ in range(3):
            train(join())
            dist.destroy_process_group()
    notes["told"] = codes(guard)


@situation
def the_group_meets_in_a_file(notes: dict[str, Any]) -> None:
    model = join(f"file://{FOLDER}/meeting")
    with watch() as guard:
        train(model)
    notes["told"] = codes(guard)


@situation
def the_group_met_in_a_file_and_is_gone(notes: dict[str, Any]) -> None:
    with watch() as guard:
        train(join(f"file://{FOLDER}/vanishing"))
        dist.destroy_process_group()
    notes["told"] = codes(guard)


@situation
def guards_beside_each_other(notes: dict[str, Any]) -> None:
    model = join()
    notes["told"] = []
    with watch(select=["GL1"]) as outer:
        for clear in (False, True, False):
            with watch(on_finding="collect") as inner:
                train(model, clear, leaf=RANK == 1, steps=2)
            notes["told"].append(codes(inner))
    notes["outer"] = codes(outer)


@situation
def a_function_that_is_watched(notes: dict[str, Any]) -> None:
    watched = watch()
    model, function = join(), watched(train)
    for clear in (True, False, False):
        function(model, clear)
    notes["told"] = codes(watched)


@situation
def only_rank_0_has_a_guard(notes: dict[str, Any]) -> None:
    model = join()
    guard = watch()
    notes["seconds"] = []
    for _ in range(3):
        if RANK:
            train(model)
            continue
        with contextlib.suppress(ZeroDivisionError), guard:
            train(model)
            begun = time.perf_counter()
        notes["seconds"].append(time.perf_counter() - begun)
    notes["told"] = codes(guard)


@situation
def a_rank_raises(notes: dict[str, Any]) -> None:
    model = join()
    with contextlib.suppress(ZeroDivisionError), watch() as guard:
        train(model)
        if RANK:
            raise ZeroDivisionError
    notes["told"] = codes(guard)


@situation
def a_rank_dies(notes: dict[str, Any]) -> None:
    model = join()
    with watch(rank_timeout=3) as guard:
        train(model, leaf=RANK == 1, steps=6)
        if RANK:
            (FOLDER / "1.json").write_text(json.dumps(TOLD), encoding="utf-8")
            os._exit(0)
        begun = time.perf_counter()
    notes["seconds"] = time.perf_counter() - begun
    notes["told"] = codes(guard)


TOLD: dict[str, dict[str, Any]] = {}

if __name__ == "__main__":
    warnings.simplefilter("always")
    for examined in SITUATIONS:
        notes = TOLD[examined.__name__] = {}
        with contextlib.redirect_stderr(io.StringIO()) as told:
            examined(notes)
        notes["stderr"] = told.getvalue()
        if dist.is_initialized():
            if examined is not a_rank_dies:
                dist.barrier()
            dist.destroy_process_group()
    (FOLDER / f"{RANK}.json").write_text(json.dumps(TOLD), encoding="utf-8")
