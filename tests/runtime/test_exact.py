"""Exact mode: values that change between forward and backward, by whatever means."""

from __future__ import annotations

import gc
import linecache
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

import gradlint
from gradlint.runtime import Guard
from gradlint.runtime.records import checksums
from gradlint.runtime.records.checksums import Content, is_readable, reader
from gradlint.runtime.sampling import SAMPLE
from gradlint.runtime.witnesses.exact import SavedTensors


@pytest.fixture(params=[checksums.SMALL, 0], ids=["bytes", "sums"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[torch.Tensor], Content]:
    """Reads the content of a tensor: of a small one either way."""
    monkeypatch.setattr(checksums, "SMALL", request.param)

    def content(tensor: torch.Tensor) -> Content:
        found = reader(tensor)()
        assert found is not None
        return found

    return content


def line(offset: int = 0) -> int:
    return sys._getframe(1).f_lineno + offset


def watch(exact: bool | float = True, **options: Any) -> Guard:
    return gradlint.guard(on_finding="collect", exact=exact, **options)


def through_data(tensor: torch.Tensor) -> None:
    tensor.data.zero_()


def through_numpy(tensor: torch.Tensor) -> None:
    tensor.detach().numpy()[...] = 0


def through_a_view_of_the_memory(tensor: torch.Tensor) -> None:
    torch.from_dlpack(tensor.detach().clone())
    memoryview(tensor.detach().numpy()).cast("B")[:4] = b"\1\2\3\4"


@pytest.mark.parametrize("change", [through_data, through_numpy, through_a_view_of_the_memory])
@pytest.mark.parametrize("value", [0.5, 1.0, 2.0])
def test_a_silent_change_of_a_saved_tensor(change: Callable[[torch.Tensor], None], value: float) -> None:
    weight = torch.full((2, 3), value, requires_grad=True)
    with watch() as guard:
        out = weight.exp()
        change(out)
        out.sum().backward()
    (finding,) = guard.findings
    backward = line(-2)
    written = through_data.__code__.co_firstlineno + 1 if change is through_data else backward
    assert (finding.code, finding.location.row) == ("GL101", written)
    if change is not through_data:  # which is seen when it happens
        assert [other.location.row for other in finding.related] == [backward - 2]
        assert "ExpBackward0" in finding.message


def test_a_silent_change_of_a_constant() -> None:
    mask = torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    with watch() as guard:
        loss = (weight * mask).sum()
        mask.numpy()[0] = 0
        loss.backward()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL101", line(-1))]


def test_nothing_is_said_of_changes_that_backward_does_not_need() -> None:
    weight = torch.ones(3, requires_grad=True)
    with watch(ignore=["GL110"]) as guard:
        out = weight + 1
        through_numpy(out)
        out.sum().backward()
    assert guard.findings == []


def test_the_error_of_autograd_itself_is_still_raised() -> None:
    weight = torch.ones(3, requires_grad=True)
    with watch():
        out = weight.exp()
        out.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
    out = weight.exp()
    with watch():
        loss = out.exp().sum()
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()  # the graph has outlived the guard


def test_graphs_outlive_the_guard() -> None:
    weight = torch.ones(3, requires_grad=True)
    with watch() as guard:
        loss = weight.exp().sum()
    loss.backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, weight.detach().exp())
    assert guard.findings == []


def test_saved_outputs_do_not_keep_their_graph_alive() -> None:
    weight = torch.ones(3, requires_grad=True)
    with watch():
        out = weight.exp()
        reference = weakref.ref(out)
        del out
        gc.collect()
        assert reference() is None


def test_second_derivatives_are_right() -> None:
    x = torch.tensor([0.3, 0.7], requires_grad=True)
    with watch(ignore=["GL109"]) as guard:
        (first,) = torch.autograd.grad(x.exp().pow(2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, 4 * (2 * x.detach()).exp())
    assert guard.findings == []


def test_running_statistics_change_on_purpose() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.InstanceNorm1d(8, track_running_stats=True))
    mean, variance = torch.zeros(8), torch.ones(8)
    with watch() as guard:
        hidden = nn.functional.batch_norm(model[1](model[0](torch.randn(6, 4))), mean, variance, training=True)
        model[2](hidden[None].mT).square().sum().backward()
    assert guard.findings == []
    assert not torch.equal(mean, torch.zeros(8))


def test_hooks_of_the_user_stay_in_force() -> None:
    packed = []
    weight = torch.ones(3, requires_grad=True)
    with saved_tensors_hooks(lambda t: packed.append(t.detach()) or t.detach(), lambda t: t), watch():
        weight.exp().sum().backward()
    assert len(packed) == 1
    with watch() as guard, save_on_cpu():
        weight.exp().sum().backward()
    assert guard.findings == []
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


def test_guards_leave_in_any_order() -> None:
    first, second = watch(), watch()
    weight = torch.ones(3, requires_grad=True)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    out = weight.exp()
    through_numpy(out)
    out.sum().backward()
    second.__exit__(None, None, None)
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None
    assert (first.findings, [finding.code for finding in second.findings]) == ([], ["GL101"])


def test_hooks_that_are_left_inside_those_of_the_user_do_nothing() -> None:
    weight = torch.ones(3, requires_grad=True)
    guard = watch()
    guard.__enter__()
    user = saved_tensors_hooks(lambda t: t.detach(), lambda t: t)
    user.__enter__()
    guard.__exit__(None, None, None)
    user.__exit__()
    weight.exp().sum().backward()
    with watch() as other:
        out = weight.exp()
        through_numpy(out)
        out.sum().backward()
    assert [finding.code for finding in other.findings] == ["GL101"]
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


TRANSFORMS: dict[str, Callable[[Callable[[torch.Tensor], torch.Tensor], torch.Tensor], Any]] = {
    "grad": lambda loss, x: torch.func.grad(loss)(x),
    "grad of grad": lambda loss, x: torch.func.grad(lambda y: torch.func.grad(loss)(y).sum())(x),
    "vjp": lambda loss, x: torch.func.vjp(loss, x)[1](torch.ones(())),
    "jacrev": lambda loss, x: torch.func.jacrev(loss)(x),
    "hessian": lambda loss, x: torch.func.hessian(loss)(x),
}


@pytest.mark.parametrize("exact", [True, 1 / 3])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_function_transforms_forbid_hooks_and_get_none(transform: Callable[..., Any], exact: bool | float) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return x.exp().square().sum()

    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    plain = transform(loss, weight.detach())
    with watch(exact=exact) as guard:
        for _ in range(6):
            optimizer.zero_grad()
            found = transform(loss, weight.detach())
            out = weight.exp()
            through_numpy(out)
            out.sum().backward()
            optimizer.step()
    assert not guard._failed
    assert str(found) == str(plain)
    assert [finding.code for finding in guard.findings] == ["GL101"], "the hooks are back afterwards"
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


def test_hooks_may_be_forbidden_by_the_user() -> None:
    weight = torch.ones(3, requires_grad=True)
    forbid = torch.autograd.graph.disable_saved_tensors_hooks
    with forbid("none"), watch() as guard:
        weight.exp().sum().backward()
    with watch() as other, forbid("none"):
        with forbid("none at all"):
            weight.exp().sum().backward()
        with pytest.raises(RuntimeError, match="none"), saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
    assert not guard._failed
    assert not other._failed
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None
    assert torch._C._autograd._saved_tensors_hooks_is_enabled()


def test_hooks_of_the_user_are_refused_as_without_a_guard() -> None:
    forbid = torch.autograd.graph.disable_saved_tensors_hooks
    hooks = saved_tensors_hooks(lambda t: t.detach(), lambda t: t)
    with watch() as guard, hooks, pytest.raises(RuntimeError, match="none"), forbid("none"):
        pass
    assert not guard._failed


def test_a_sample_of_the_steps_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SAMPLE, "randrange", lambda period: period - 1)
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    watched = []
    with watch(exact=1 / 4) as guard:
        for step in range(12):
            before = sum(finding.count for finding in guard.findings)
            optimizer.zero_grad()
            out = weight.exp()
            through_numpy(out)
            out.sum().backward()
            optimizer.step()
            if sum(finding.count for finding in guard.findings) > before:
                watched.append(step)
    assert watched == [3, 7, 11]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(7),
        torch.randn(3, 5).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(9)[1:],
        torch.randn(9)[::2],
        torch.randn(1, 5).expand(4, 5),
        torch.randn(5, dtype=torch.bfloat16),
        torch.randn(3, dtype=torch.complex64).conj(),
        torch.tensor(2.5),
        torch.tensor([True, False, True]),
        torch.randint(0, 9, (11,), dtype=torch.int16),
        torch.empty(0),
    ],
    ids=lambda tensor: f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}",
)
def test_the_content_is_that_of_every_element(tensor: torch.Tensor, read: Callable[[torch.Tensor], Content]) -> None:
    before = read(tensor)
    assert read(tensor) == before
    for element in range(tensor.numel()):
        changed = tensor.clone(memory_format=torch.preserve_format)
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(element), tensor.shape)) if tensor.dim() else ()
        changed[index] = 0 if changed[index] else 1
        assert read(changed) != read(tensor.clone(memory_format=torch.preserve_format))


@pytest.mark.parametrize("value", [1, 2, -1])
def test_constants_differ_from_zeros(value: int, read: Callable[[torch.Tensor], Content]) -> None:
    assert read(torch.full((4,), float(value))) != read(torch.zeros(4))


def test_a_reader_sees_what_is_there_now() -> None:
    small, large = torch.zeros(8), torch.zeros(checksums.SMALL)
    for tensor in (small, small[1:4], large):
        read_again = reader(tensor)
        before = read_again()
        tensor.data[2] = 1
        assert read_again() != before


@pytest.mark.parametrize("small", [checksums.SMALL, 0], ids=["bytes", "sums"])
def test_memory_that_was_given_back_is_not_read(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "SMALL", small)
    tensor = torch.ones(8, 2)
    parts = [tensor, tensor[4:], tensor.t(), tensor[::2], tensor[:, 1], tensor[:1].expand(8, 2)]
    views = [reader(part) for part in parts]
    assert None not in [view() for view in views]
    tensor.untyped_storage().resize_(8)
    assert [view() is None for view in views] == [True, True, True, True, True, False]
    tensor.untyped_storage().resize_(0)
    assert {view() for view in views} == {None}


@pytest.mark.parametrize("length", [8, 2 * checksums.SMALL])
def test_memory_that_is_given_back_until_it_is_used_is_no_change(length: int) -> None:
    weight = torch.ones(length, requires_grad=True)
    with watch() as guard:
        out = weight.exp()
        content, memory = out.detach().clone(), out.untyped_storage()
        memory.resize_(0)
        memory.resize_(content.untyped_storage().nbytes())
        memory.copy_(content.untyped_storage())
        out.sum().backward()
    assert not guard.findings


def test_tensors_without_plain_memory_are_not_readable() -> None:
    assert is_readable(torch.ones(1))
    assert not is_readable(torch.eye(3).to_sparse())
    assert not is_readable(nn.Parameter(torch.ones(1)))


@pytest.mark.parametrize("changed", range(3))
def test_each_operation_has_its_own_place(changed: int) -> None:
    weight = torch.ones(3, requires_grad=True)
    with watch() as guard:
        outs = [weight.exp(), weight.sigmoid()]
        outs.append(weight.tanh())
        through_numpy(outs[changed])
        torch.stack(outs).sum().backward()
    ((saved,),) = [[other.location for other in finding.related] for finding in guard.findings]
    source = linecache.getline(__file__, saved.row)[saved.column - 1 : saved.end_column - 1]
    assert source == ("weight.exp()", "weight.sigmoid()", "weight.tanh()")[changed]


def test_what_a_function_saves_is_saved_where_it_is_applied() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x.detach().requires_grad_().exp()
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            return 2 * ctx.saved_tensors[0] * grads[0]

    weight = torch.ones(3, requires_grad=True)
    with watch() as guard:
        out = Square.apply(weight)
        weight.detach().numpy()[...] = 2
        out.sum().backward()
    assert [[other.location.row for other in finding.related] for finding in guard.findings] == [[line(-3)]]


def test_a_failure_in_the_hooks_is_told_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(tensor: torch.Tensor) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("gradlint.runtime.witnesses.exact.reader", fail)
    weight = torch.ones(3, requires_grad=True)
    with watch():
        for _ in range(3):
            weight.exp().sum().backward()
    assert torch.allclose(weight.grad, 3 * weight.exp())
    assert capsys.readouterr().err.count("planted") == 1


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(1, 6),
        torch.randn(3, 1, 5),
        torch.randn(8, 3)[:, :2],
        torch.randn(6, 4)[:, :2].t(),
        torch.randn(5000, 3),
    ],
    ids=lambda tensor: f"{tuple(tensor.shape)} {tensor.stride()}",
)
def test_the_content_of_odd_layouts_has_the_first_and_the_last_element(
    tensor: torch.Tensor, read: Callable[[torch.Tensor], Content]
) -> None:
    before = read(tensor)
    for index in (0, -1):
        changed = tensor.clone(memory_format=torch.preserve_format)
        changed.select(0, index).select(-1, index).fill_(7.0)
        assert read(changed) != read(tensor.clone(memory_format=torch.preserve_format))
    assert read(tensor) == before


def test_bad_fractions_are_named() -> None:
    with pytest.raises(ValueError, match="exact"):
        watch(exact=3)


def test_the_witness_is_only_there_when_asked_for() -> None:
    with watch(exact=False) as guard:
        assert not any(
            isinstance(handler.__self__, SavedTensors)  # type: ignore[attr-defined]  # all are bound methods
            for handlers in guard._roster.handlers.values()
            for handler in handlers
        )
