"""Sharded and replicated parameters, whose gradients are views of buckets or local parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradlint
from gradlint.runtime import Guard


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def train(model: nn.Module, clear: str, accumulate: int = 1) -> Guard:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with gradlint.guard(on_finding="collect", select=["ALL"]) as guard:
        for i in range(6):
            last = (i + 1) % accumulate == 0
            waiting: Any = nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync()
            with waiting:
                (model(torch.randn(3, 4)).square().mean() / accumulate).backward()
            if last:
                optimizer.step()
                if clear == "none":
                    optimizer.zero_grad()
                elif clear == "zero":
                    optimizer.zero_grad(set_to_none=False)
    return guard


def codes(guard: Guard) -> list[str]:
    assert not guard._failed
    return [finding.code for finding in guard.findings]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


REPLICATED: list[dict[str, Any]] = [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}]


@pytest.mark.parametrize("options", REPLICATED, ids=str)
@pytest.mark.parametrize("clear", ["none", "zero"])
def test_replicated_parameters(options: dict[str, Any], clear: str) -> None:
    assert codes(train(DistributedDataParallel(network(), **options), clear)) == []


@pytest.mark.parametrize("options", REPLICATED[:2], ids=str)  # torch has no static graph that begins without sync
@pytest.mark.parametrize("clear", ["none", "zero"])
def test_accumulation_without_synchronization(options: dict[str, Any], clear: str) -> None:
    assert codes(train(DistributedDataParallel(network(), **options), clear, accumulate=2)) == []


@pytest.mark.parametrize("options", REPLICATED, ids=str)
def test_replicated_parameters_that_are_never_cleared(options: dict[str, Any]) -> None:
    assert codes(train(DistributedDataParallel(network(), **options), "never")) == ["GL201"]


@pytest.mark.parametrize("clear", ["none", "zero"])
def test_sharded_parameters(clear: str) -> None:
    model: nn.Module = network()
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (1,)))
    assert codes(train(model, clear)) == []


def test_sharded_parameters_that_are_never_cleared() -> None:
    model = network()
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (1,)))
    assert codes(train(model, "never")) == ["GL201"]
