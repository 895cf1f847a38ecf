"""Correct trainings of two ranks, and wrong ones, for the tests of distributed training: each rank runs this program.

``distributed_loops.py FILE``: rank 0 writes to FILE, for each training, the codes that each rank found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import gradlint

STEPS = 12
Loop = Callable[[], object]
LOOPS: dict[str, tuple[Loop, list[str]]] = {}


def loop(*codes: str) -> Callable[[Loop], Loop]:
    """Mark a training, with the codes each rank is to find in it."""

    def mark(function: Loop) -> Loop:
        LOOPS[function.__name__] = function, list(codes)
        return function

    return mark


class Heads(nn.Module):
    """Two heads, of which a call uses one, or both."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleList([nn.Linear(8, 2), nn.Linear(8, 2)])

    def forward(self, x: torch.Tensor, which: int) -> torch.Tensor:
        hidden = self.body(x).tanh()
        out: torch.Tensor = self.heads[which](hidden)
        return out


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def replicated(**options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(network(), **options)


def sharded(**options: Any) -> nn.Module:
    model = network()
    for layer in model:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model


def batch() -> torch.Tensor:
    return torch.randn(3, 4)


def loss(out: torch.Tensor) -> torch.Tensor:
    return out.square().mean()


def train(model: nn.Module, clear: bool = True, to_none: bool = True) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(STEPS):
        loss(model(batch())).backward()
        optimizer.step()
        if clear:
            optimizer.zero_grad(set_to_none=to_none)


@loop()
def replicas() -> None:
    train(replicated())


@loop("GL201")
def replicas_that_are_never_cleared() -> None:
    train(replicated(), clear=False)


@loop()
def views_of_buckets() -> None:
    train(replicated(gradient_as_bucket_view=True))


@loop()
def views_of_buckets_cleared_to_zero() -> None:
    train(replicated(gradient_as_bucket_view=True), to_none=False)


@loop("GL201")
def views_of_buckets_that_are_never_cleared() -> None:
    train(replicated(gradient_as_bucket_view=True), clear=False)


@loop()
def small_buckets_of_a_static_graph() -> None:
    train(replicated(static_graph=True, bucket_cap_mb=0.0001, gradient_as_bucket_view=True))


@loop()
def accumulation_without_synchronization() -> None:
    model = replicated(gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for i in range(STEPS):
        last = i % 3 == 2
        with nullcontext() if last else model.no_sync():
            (loss(model(batch())) / 3).backward()
        if last:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


@loop()
def heads_that_only_one_rank_uses() -> None:
    model = DistributedDataParallel(Heads(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(batch(), dist.get_rank())).backward()
        optimizer.step()


@loop()
def heads_that_take_turns() -> None:
    model = DistributedDataParallel(Heads(), find_unused_parameters=True, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(STEPS):
        optimizer.zero_grad(set_to_none=i % 2 == 0)
        loss(model(batch(), i // 3 % 2)).backward()
        optimizer.step()


@loop("GL702")
def a_head_that_no_rank_uses() -> None:
    model = DistributedDataParallel(Heads(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(batch(), 0)).backward()
        optimizer.step()


@loop()
def uneven_inputs() -> None:
    model = replicated()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with model.join():
        for _ in range(STEPS + 3 * dist.get_rank()):
            optimizer.zero_grad()
            loss(model(batch())).backward()
            optimizer.step()


@loop()
def shards_of_the_optimizer_joined() -> None:
    model = replicated()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for _ in range(STEPS + dist.get_rank()):
            optimizer.zero_grad()
            loss(model(batch())).backward()
            optimizer.step()


@loop()
def a_generator_and_a_critic() -> None:
    generator, critic = replicated(), DistributedDataParallel(nn.Linear(2, 1))
    first = torch.optim.SGD(generator.parameters(), lr=0.01)
    second = torch.optim.SGD(critic.parameters(), lr=0.01)
    for _ in range(STEPS):
        second.zero_grad()
        loss(critic(generator(batch()).detach())).backward()
        second.step()
        first.zero_grad()
        loss(critic(generator(batch()))).backward()
        first.step()


@loop()
def synchronized_statistics_in_evaluation_too() -> None:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model.train()
        for _ in range(4):
            optimizer.zero_grad()
            loss(model(batch())).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            total = loss(model(batch()))
            dist.all_reduce(total)


@loop()
def checkpoints_under_replicas() -> None:
    inner = network()

    class Recomputed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = checkpoint(self.inner, x, use_reentrant=False)
            return out

    train(DistributedDataParallel(Recomputed(), static_graph=True))


@loop()
def gradients_averaged_by_hand() -> None:
    model = network()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(batch())).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            assert parameter.grad is not None
            parameter.grad /= dist.get_world_size()
        optimizer.step()


@loop()
def shards() -> None:
    train(sharded())


@loop()
def shards_cleared_to_zero() -> None:
    train(sharded(), to_none=False)


@loop("GL201")
def shards_that_are_never_cleared() -> None:
    train(sharded(), clear=False)


@loop()
def shards_kept_after_forward_whose_gradients_are_clipped() -> None:
    model = sharded(reshard_after_forward=False, offload_policy=CPUOffloadPolicy(pin_memory=False))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(batch())).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@loop()
def shards_that_accumulate_without_synchronization() -> None:
    model: Any = sharded()
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(STEPS):
        last = i % 3 == 2
        model.set_requires_gradient_sync(last)
        (loss(model(batch())) / 3).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


@loop("GL702")
def a_shard_that_no_rank_uses() -> None:
    model = Heads()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model(batch(), 0)).backward()
        optimizer.step()


def outcome(build: Callable[[], nn.Module], watch: Any) -> list[float]:
    """Parameters after a training, as numbers."""
    torch.manual_seed(dist.get_rank())
    model = build()
    with watch:
        train(model, to_none=False)
    local = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    return [*torch.cat([p.detach().flatten() for p in local]).tolist(), float(torch.rand(()))]


def watched(exact: bool) -> Any:
    return gradlint.guard(on_finding="collect", select=["ALL"], exact=exact, rank_timeout=60)


def main(target: Path) -> None:
    dist.init_process_group("gloo")
    told: dict[str, Any] = {}
    for exact in (False, True):
        for name, (function, _) in LOOPS.items():
            torch.manual_seed(dist.get_rank())
            with watched(exact) as guard:
                function()
            told[f"{name} {exact}"] = [[finding.code, list(finding.ranks), str(finding)] for finding in guard.told]
            assert not guard._failed
    for name, build in {"replicas": replicated, "shards": sharded, "each alone": network}.items():
        for exact in (False, True):
            alone = outcome(build, nullcontext())
            told[f"{name} the same {exact}"] = alone == outcome(build, watched(exact)) and len(alone) > 9
    if dist.get_rank() == 0:
        target.write_text(json.dumps(told), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
