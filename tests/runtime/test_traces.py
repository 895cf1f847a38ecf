"""A guard changes nothing about the training and leaves nothing behind."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import random
import subprocess
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks
from torch.overrides import TorchFunctionMode

import gradlint
from gradlint.runtime import Guard, frames
from gradlint.runtime.gradients.history import GradientHistory
from gradlint.runtime.patches import interception

ENGINE = torch.autograd._engine_run_backward
METHODS = {
    (owner, name): vars(owner)[name]
    for owner, names in {
        nn.Module: ("__call__", "__setattr__", "train", "eval"),
        torch.optim.Optimizer: ("__init__",),
        torch.amp.GradScaler: ("get_scale", "scale", "step", "unscale_", "update"),
    }.items()
    for name in names
}
CLIPPING = {
    function: [cell.cell_contents for cell in function.__closure__ or ()]
    for function in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_, nn.utils.clip_grads_with_norm_)
}


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 4, clear: bool = True) -> None:
    for _ in range(steps):
        if clear:
            optimizer.zero_grad()
        x = torch.randn(6, 4).requires_grad_()
        nn.functional.cross_entropy(model(x), torch.randint(0, 2, (6,))).backward()
        optimizer.step()


def watch(*things: Any, **options: Any) -> Guard:
    return gradlint.guard(*things, on_finding="collect", **options)


def traces() -> list[object]:
    """Everything a guard installs, as far as it is installed."""
    return [
        *optimizer_hooks._global_optimizer_pre_hooks,
        *optimizer_hooks._global_optimizer_post_hooks,
        *module_hooks._global_forward_pre_hooks,
        *module_hooks._global_forward_hooks,
        *module_hooks._global_forward_hooks_with_kwargs,
        *([] if torch.autograd._engine_run_backward is ENGINE else ["engine"]),
        *(name for (owner, name), method in METHODS.items() if vars(owner)[name] is not method),
        *(
            function
            for function, within in CLIPPING.items()
            if [cell.cell_contents for cell in function.__closure__ or ()] != within
        ),
        *frames._sites,
        *(["saved"] if torch._C._autograd._top_saved_tensors_default_hooks(False) else []),
        *(["grad"] if "grad" in torch.Tensor.__dict__ else []),
        *(["filter"] if any("global hooks" in str(entry[1]) for entry in warnings.filters) else []),
        *interception._patch.guards,
        *interception._patch.running,
    ]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    assert traces() == []
    yield
    assert traces() == []


# --- the training is the same ----------------------------------------------------------------------------------

BUILDERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD fused": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "Adam": lambda p: torch.optim.Adam(p),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "Adam fused": lambda p: torch.optim.Adam(p, fused=True),
    "NAdam": lambda p: torch.optim.NAdam(p),
    "RAdam": lambda p: torch.optim.RAdam(p),
    "Adamax": lambda p: torch.optim.Adamax(p),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adagrad": lambda p: torch.optim.Adagrad(p),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "ASGD": lambda p: torch.optim.ASGD(p),
    "RMSprop": lambda p: torch.optim.RMSprop(p),
    "Rprop": lambda p: torch.optim.Rprop(p),
}


def outcome(build: Callable[[Any], torch.optim.Optimizer], clear: bool, guard: AbstractContextManager[object]) -> bytes:
    """Parameters, buffers, gradients, optimizer state and random state after a training."""
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    model = network()
    optimizer = build(model.parameters())
    with guard:
        train(model, optimizer, clear=clear)
    grads = [parameter.grad for parameter in model.parameters()]
    buffer = io.BytesIO()
    dice = [torch.get_rng_state(), random.getstate(), numpy.random.get_state()]
    torch.save([model.state_dict(), optimizer.state_dict(), grads, dice], buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("clear", [True, False], ids=["clearing", "accumulating"])
@pytest.mark.parametrize("name", BUILDERS)
def test_training_is_bitwise_the_same(name: str, clear: bool, exact: bool) -> None:
    guard = watch(exact=exact)
    assert outcome(BUILDERS[name], clear, nullcontext()) == outcome(BUILDERS[name], clear, guard)
    assert ("GL201" in [finding.code for finding in guard.findings]) is not clear


def test_models_are_copied_and_saved_inside_a_guard(tmp_path: Path) -> None:
    model = network()
    keys = list(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer):
        train(model, optimizer)
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]  # noqa: S301  its own dump
        torch.save(model, tmp_path / "model.pt")
        copies.append(torch.load(tmp_path / "model.pt", weights_only=False))
        copy.deepcopy(optimizer)
        train(copies[0], torch.optim.SGD(copies[0].parameters(), lr=0.1))
    assert all(list(other.state_dict()) == keys for other in copies)
    assert "gradlint" not in repr(vars(copies[1]))


@pytest.mark.parametrize("within", [True, False], ids=["within a guard", "around it"])
def test_a_function_mode_does_not_see_the_guard(within: bool) -> None:
    class Count(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: Counter[str] = Counter()

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls[getattr(func, "__name__", str(func))] += 1
            return func(*args, **(kwargs or {}))

    def calls(guard: Callable[..., AbstractContextManager[object]]) -> Counter[str]:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
        contexts = [guard(model, optimizer), count := Count()]
        with contexts[not within], contexts[within]:
            train(model, optimizer, clear=False)
        return count.calls

    alone = calls(lambda *_: nullcontext())
    assert calls(watch) == alone
    assert calls(partial(watch, exact=True)) == alone


# --- torch.compile -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_compiled_models_keep_their_single_graph(exact: bool, recwarn: pytest.WarningsRecorder) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)  # type: ignore[no-untyped-call]

    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, exact=exact) as guard:
        for _ in range(4):
            compiled(torch.randn(6, 4)).square().mean().backward()
            optimizer.step()
    assert len(graphs) == 1
    assert [str(warning.message) for warning in recwarn if "hooks" in str(warning.message)] == []
    assert [finding.code for finding in guard.findings] == ["GL201"]
    torch._dynamo.reset()


# --- nothing is left behind --------------------------------------------------------------------------------------


def test_nothing_keeps_models_or_losses_alive() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = watch(model, optimizer)
    with guard:
        x = torch.randn(6, 4, requires_grad=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        graph, fed = weakref.ref(loss), weakref.ref(x)
        del loss, x
        gc.collect()
        assert graph() is None
        assert fed() is None
    watched = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(next(model.parameters()))]
    del model, optimizer
    gc.collect()
    assert [reference() for reference in watched] == [None, None, None]


def test_a_dropped_guard_is_collected() -> None:
    guard = watch(network())
    with guard:
        pass
    reference = weakref.ref(guard)
    del guard
    gc.collect()
    assert reference() is None


def test_models_may_die_inside_a_guard() -> None:
    with watch() as guard:
        for _ in range(3):
            model = network()
            train(model, torch.optim.SGD(model.parameters(), lr=0.1))
            reference = weakref.ref(next(model.parameters()))
            del model
            gc.collect()
            assert reference() is None
    assert not guard._failed


def test_an_exception_takes_the_guard_down_with_it() -> None:
    with pytest.raises(ZeroDivisionError), watch() as guard:
        train(network(), torch.optim.SGD(network().parameters(), lr=0.1))
        raise ZeroDivisionError
    assert not guard.active


def test_a_forward_and_a_step_that_raise_do_not_blind_the_guard() -> None:
    class Broken(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            raise ArithmeticError

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch() as guard:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.ones(6, 3))
        with pytest.raises(ArithmeticError):
            Broken(model.parameters(), lr=0.1).step()
        train(model, optimizer, clear=False)
    assert {finding.code for finding in guard.findings} == {"GL109", "GL201"}


def test_guards_may_leave_in_any_order() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first, second = watch(), watch()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    train(model, optimizer, clear=False)
    second.__exit__(None, None, None)
    assert first.findings == []
    assert "GL201" in [finding.code for finding in second.findings]


def test_nested_guards_see_the_same() -> None:
    model = network()
    with watch() as outer, watch() as inner:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), clear=False)
    assert outer.findings == inner.findings != []


def test_a_guard_may_be_entered_again_inside_itself() -> None:
    model = network()
    guard = watch()
    with guard:
        with guard:
            pass
        assert guard.active
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), clear=False)
    assert "GL201" in [finding.code for finding in guard.findings]


def test_guards_overlap_in_threads() -> None:
    errors: list[BaseException] = []
    found: dict[bool, set[str]] = {}
    started = threading.Barrier(2)

    def work(clear: bool) -> None:
        try:
            model = network()
            started.wait()
            guard = watch(model, ignore=["GL109"])
            for _ in range(5):
                with guard:
                    train(model, torch.optim.SGD(model.parameters(), lr=0.1), clear=clear)
            found[clear] = {finding.code for finding in guard.findings}
        except BaseException as error:  # noqa: BLE001  a thread must hand it over
            errors.append(error)

    threads = [threading.Thread(target=work, args=(clear,)) for clear in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert found == {True: set(), False: {"GL201"}}


def test_a_later_patch_of_somebody_else_survives() -> None:
    calls = []
    with watch():
        inner = torch.autograd._engine_run_backward

        def theirs(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return inner(*args, **kwargs)

        torch.autograd._engine_run_backward = theirs
    try:
        torch.ones(1, requires_grad=True).sum().backward()
        assert len(calls) == 1
        with watch() as guard:
            model = network()
            train(model, torch.optim.SGD(model.parameters(), lr=0.1), clear=False)
        assert [finding.count for finding in guard.findings if finding.code == "GL201"] == [3]
    finally:
        torch.autograd._engine_run_backward = ENGINE


def test_a_failure_of_the_guard_is_told_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def fail(self: object, call: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(GradientHistory, "backward_ended", fail)
    model = network()
    with watch() as guard:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), clear=False)
    told = capsys.readouterr().err
    assert told.count("planted") == 1
    assert "GradientHistory" in told
    assert [finding.code for finding in guard.findings] == ["GL109"]


# --- without torch -------------------------------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Absent())
import gradlint, gradlint.runtime
assert len(gradlint.runtime.EVENTS) > 3
try:
    gradlint.guard()
except ModuleNotFoundError as error:
    print(error)
"""


def test_without_torch_the_guard_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout == "gradlint.guard watches PyTorch, which is not installed: pip install 'gradlint[runtime]'\n"
