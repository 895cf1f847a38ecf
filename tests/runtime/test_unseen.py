"""What a program does and what its own patches and modes see is the same with a guard and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gradlint


def run(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dynamo_is_not_imported_before_the_program_needs_it(tmp_path: Path) -> None:
    code = """
import sys, torch, gradlint
model = torch.nn.Linear(2, 1)
with gradlint.guard(model):
    model(torch.ones(3, 2)).sum().backward()
    print("torch._dynamo" in sys.modules)
    import torch._dynamo.variables
call = torch.nn.Module.__call__
print(torch._dynamo.utils.unpatched_nn_module_call is call)
print(torch._dynamo.variables.nn_module.unpatched_nn_module_call is call)
"""
    assert run(code, tmp_path).split() == ["False", "True", "True"]


def test_the_first_guard_computes_nothing_that_a_mode_of_the_program_sees(tmp_path: Path) -> None:
    code = """
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(func)
        return func(*args, **(kwargs or {}))
class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(func)
        return func(*args, **(kwargs or {}))
with Functions(), Operations():
    import gradlint
    with gradlint.guard():
        pass
print(seen)
"""
    assert run(code, tmp_path) == "[]\n"


@pytest.mark.parametrize("name", ["backward", "split", "norm"])
def test_a_method_that_the_program_has_replaced_runs_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = getattr(torch.Tensor, name)

    def replaced(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, name, replaced)
    weight = torch.ones(4, requires_grad=True)
    with gradlint.guard(on_finding="collect") as guard:
        weight.split(2)[0].norm().backward()
    assert not guard._failed
    assert calls == [name]


def test_a_function_that_the_program_has_replaced_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = nn.functional.softmax

    def replaced(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(nn.functional, "softmax", replaced)
    with gradlint.guard(on_finding="collect") as guard:
        assert nn.functional.softmax(torch.zeros(2), 0).tolist() == [0.5, 0.5]
    assert not guard._failed
    assert len(calls) == 1
