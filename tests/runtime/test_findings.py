"""What the guard finds, where it says so, and how it tells."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.finding import Finding, Severity
from gradlint.runtime import Guard


def line(offset: int = 0) -> int:
    """The line of the caller, and so many further on."""
    return sys._getframe(1).f_lineno + offset


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def batches(count: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(3, 4), torch.randint(0, 2, (3,))) for _ in range(count)]


def sgd(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, **options)


def codes(guard: Guard) -> list[str]:
    return [finding.code for finding in guard.findings]


def watch(*things: Any, **options: Any) -> Guard:
    return gradlint.guard(*things, on_finding="collect", **options)


def train_without_clearing(model: nn.Module, optimizer: torch.optim.Optimizer, clip: bool = False) -> tuple[int, int]:
    """Train wrongly; the lines of the backward pass and of the step."""
    for x, y in batches():
        nn.functional.cross_entropy(model(x), y).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return line(-4), line(-1)


OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda p: torch.optim.SGD(p, lr=0.01, foreach=False),
    lambda p: torch.optim.SGD(p, lr=0.01, foreach=True),
    lambda p: torch.optim.SGD(p, lr=0.01, fused=True),
    lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    lambda p: torch.optim.AdamW(p, lr=0.01),
    lambda p: torch.optim.RMSprop(p, lr=0.01),
    lambda p: torch.optim.Adagrad(p, lr=0.01),
]


@pytest.mark.parametrize("build", OPTIMIZERS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("clip", [False, True])
def test_spent_gradients(build: Callable[[Any], torch.optim.Optimizer], named: bool, clip: bool) -> None:
    model = network()
    optimizer = build(model.parameters())
    with watch(*([model, optimizer] if named else [])) as guard:
        backward, step = train_without_clearing(model, optimizer, clip)
    (finding,) = guard.findings
    assert (finding.code, finding.location.filename, finding.location.row) == ("GL201", __file__, backward)
    assert [other.location.row for other in finding.related] == [step]
    assert finding.severity is Severity.ERROR
    assert finding.count == 3
    assert str(finding).startswith(f"{__file__}:{backward}:9: GL201 [missing-zero-grad] ")


def test_columns_span_the_call_on_lines_that_are_not_ascii() -> None:
    model = network()
    optimizer = sgd(model)
    with watch() as guard:
        for x, y in batches(2):
            größe = nn.functional.cross_entropy(model(x), y).backward() or len(x)
            optimizer.step()
            assert größe == 3
    where = guard.findings[0].location
    assert where.column == len("            größe = ") + 1
    assert where.end_column == where.column + len("nn.functional.cross_entropy(model(x), y).backward()")


def test_clearing_the_wrong_optimizer_of_two() -> None:
    generator, critic = network(), nn.Linear(2, 1)
    first, second = sgd(generator), sgd(critic)
    with watch() as guard:
        for x, _ in batches():
            first.zero_grad()
            critic(generator(x).detach()).mean().backward()
            expected = line(-1)
            second.step()
            first.zero_grad()
            loss = generator(x).square().mean()
            loss.backward()
            first.step()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL201", expected)]


@pytest.mark.parametrize("clears", [False, True])
def test_gradients_that_are_handed_to_a_shared_network(clears: bool) -> None:
    own, shared = network(), network()
    optimizer = sgd(shared)
    with watch() as guard:
        for x, y in batches():
            optimizer.zero_grad(set_to_none=not clears)
            nn.functional.cross_entropy(own(x), y).backward()
            expected = line(-1)
            for mine, theirs in zip(own.parameters(), shared.parameters(), strict=True):
                theirs.grad = mine.grad
            optimizer.step()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL201", expected)] * (not clears)


def test_a_missing_clear_in_a_lbfgs_closure() -> None:
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    x, y = batches()[0]

    def closure() -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    expected = line(-3)
    with watch() as guard:
        for _ in range(3):
            optimizer.step(closure)  # type: ignore[arg-type]  # torch types the closure as returning a float
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL201", expected)]


def test_a_missing_clear_under_a_gradient_scaler() -> None:
    model = network()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with watch() as guard:
        for x, y in batches():
            scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    assert codes(guard) == ["GL201"]


def test_sparse_gradients_that_are_never_cleared() -> None:
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    with watch(table) as guard:
        for _ in range(3):
            table(torch.tensor([1, 2])).sum().backward()
            optimizer.step()
    assert codes(guard) == ["GL201"]


def test_a_freed_graph() -> None:
    model = network()
    x, y = batches()[0]
    with watch() as guard:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time") as caught:
            loss.backward()
    (finding,) = guard.findings
    again = line(-2)
    assert (finding.code, finding.location.row) == ("GL203", again)
    assert [other.location.row for other in finding.related] == [again - 2]
    assert caught.value.__notes__ == [f"gradlint: {finding}"]


def test_a_hidden_state_carried_over_iterations() -> None:
    cell = nn.RNNCell(4, 4)
    hidden = torch.zeros(3, 4)
    with watch() as guard, pytest.raises(RuntimeError, match="second time"):
        for x, _ in batches():
            hidden = cell(x, hidden)
            hidden.sum().backward()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL203", line(-1))]
    assert "earlier iteration" in guard.findings[0].related[0].message


def test_a_graph_freed_after_many_passes_at_one_place() -> None:
    model = network()
    with watch() as guard:
        for _ in range(10):
            loss = model(batches()[0][0]).square().mean()
            kept = loss.grad_fn.next_functions[0][0]  # type: ignore[union-attr]  # the graph of `loss`, without its root
            loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.backward(torch.autograd.graph.GradientEdge(kept, 0), torch.ones(3, 2))
    (finding,) = guard.findings
    assert (finding.code, finding.location.row) == ("GL203", line(-2))
    assert [other.location.row for other in finding.related] == [line(-5)]


def test_the_pass_that_freed_a_graph_is_told_from_others() -> None:
    model, other = network(), network()
    with watch() as guard:
        for _ in range(10):
            first = model(batches()[0][0]).square().mean()
            first.backward()
            second = other(batches()[0][0]).square().mean()
            second.backward()
        with pytest.raises(RuntimeError, match="second time"):
            (first * 2).backward()
        with pytest.raises(RuntimeError, match="second time"):
            (second * 2).backward()
    assert [finding.related[0].location.row for finding in guard.findings] == [line(-7), line(-5)]


def test_a_graph_that_may_have_been_freed_before_the_guard_began() -> None:
    model = network()
    freed = model(batches()[0][0]).square().mean()
    freed.backward()
    with watch() as guard:
        for _ in range(10):
            model(batches()[0][0]).square().mean().backward()
        with pytest.raises(RuntimeError, match="second time"):
            freed.backward()
    (finding,) = guard.findings
    assert (finding.code, finding.related) == ("GL203", ())


def test_a_graph_freed_by_autograd_grad() -> None:
    weight = torch.ones(3, requires_grad=True)
    with watch() as guard:
        y = (weight.exp() * 2).sum()
        torch.autograd.grad(y, weight)
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
    assert [other.location.row for other in guard.findings[0].related] == [line(-3)]


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_between_the_backward_passes_of_a_graph(fused: bool) -> None:
    model = network()
    optimizer = sgd(model, fused=fused, foreach=False)
    with contextlib.suppress(RuntimeError), watch() as guard:
        logits = model(batches()[0][0])
        first, second = logits.square().mean(), logits.abs().mean()
        first.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        second.backward()
        assert fused, "autograd does not notice what fused optimizers change"
    assert codes(guard) == ["GL213"]
    assert guard.findings[0].location.row == line(-3)
    assert [related.location.row for related in guard.findings[0].related] == [line(-6)]


def test_a_step_over_other_parameters_between_the_backward_passes() -> None:
    model, other = network(), network()
    optimizer = torch.optim.Adam(other.parameters(), fused=True)
    with watch() as guard:
        logits = model(batches()[0][0])
        other(batches()[0][0]).square().mean().backward()
        optimizer.step()
        logits.square().mean().backward()
    assert codes(guard) == []


def test_steps_in_vain_are_reported_when_they_always_are() -> None:
    model = network()
    optimizer = sgd(model)
    with watch(select="GL206") as guard:
        for number, (x, _) in enumerate(batches()):
            if number % 2 == 0:
                optimizer.step()  # the first time, there is nothing to apply yet
                optimizer.zero_grad()
            model(x).square().mean().backward()
    assert codes(guard) == []
    optimizer.zero_grad()
    with watch(select="GL206") as guard:
        for _ in range(3):
            optimizer.step()
            optimizer.zero_grad()
    assert codes(guard) == ["GL206"]
    assert guard.findings[0].location.row == line(-3)


def test_a_scheduler_that_steps_first() -> None:
    optimizer = sgd(network())
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.ConstantLR(optimizer),
            torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5),
        ],
        milestones=[1],
    )
    with watch(select="GL206") as guard, warnings.catch_warnings(action="ignore"):
        scheduler.step()
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    assert codes(guard) == ["GL206"]
    assert guard.findings[0].location.row == line(-5)


@pytest.mark.parametrize("select", [None, "GL703"])
def test_training_that_goes_on_in_evaluation_mode(select: str | None) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = sgd(model)
    with watch(select=select) as guard:
        for x, y in batches():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(x)
    assert codes(guard) == [select or "GL408"], "one mistake is told once"
    assert guard.findings[0].location.row == line(-5 if select else -4)


def test_an_input_that_requires_grad() -> None:
    model = network()
    optimizer = sgd(model)
    with watch() as guard:
        for x, y in batches():
            x.requires_grad_()
            optimizer.zero_grad()
            out = model(x)
            nn.functional.cross_entropy(out, y).backward()
            optimizer.step()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL109", line(-3))]


def test_an_input_given_by_keyword_requires_grad() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, *, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.layer(pixels)}

    model = Net()
    optimizer = sgd(model)
    with watch() as guard:
        for x, y in batches():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels=x.requires_grad_())["logits"], y).backward()
            optimizer.step()
    assert [(finding.code, finding.location.row) for finding in guard.findings] == [("GL109", line(-2))]


def test_an_error_that_leaves_the_guard_says_what_it_is_about() -> None:
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="numpy") as caught, watch() as guard:
        (weight * 2).numpy()
    (finding,) = guard.findings
    assert (finding.code, finding.location.row, finding.location.column) == ("GL501", line(-2), 9)
    assert finding.message == ".numpy() raises: `weight * 2` requires grad"
    assert caught.value.__notes__ == [f"gradlint: {finding}"]


LOUD: list[tuple[str, str, Callable[[], object]]] = [
    ("GL103", "leaf Variable", lambda: torch.ones(3, requires_grad=True).add_(1)),
    ("GL104", "modified by an inplace", lambda: change_what_is_saved()),
    ("GL105", "flags of leaf", lambda: (torch.ones(3, requires_grad=True) * 2).requires_grad_(False)),
    ("GL107", "does not require grad", lambda: torch.ones(3).sum().backward()),
    ("GL203", "second time", lambda: [torch.autograd.grad(loss, loss.weight) for loss in [squared()] * 2]),
    ("GL207", "scalar outputs", lambda: (torch.ones(3, requires_grad=True) * 2).backward()),
    ("GL208", "does not require grad", lambda: no_grad_loss().backward()),
    ("GL501", "numpy", lambda: torch.ones(3, requires_grad=True).numpy()),
    ("GL506", "cannot be converted", lambda: torch.ones(3).item()),
]


def squared() -> Any:
    weight = torch.ones(3, requires_grad=True)
    loss: Any = weight.pow(2).sum()
    loss.weight = weight
    return loss


def change_what_is_saved() -> None:
    out = torch.ones(3, requires_grad=True).exp()
    out.mul_(2)
    out.sum().backward()


def no_grad_loss() -> torch.Tensor:
    model = network()
    x, y = batches()[0]
    with torch.no_grad():
        out = model(x)
    return nn.functional.cross_entropy(out, y)


@pytest.mark.parametrize(("code", "message", "mistake"), LOUD, ids=[code for code, _, _ in LOUD])
def test_loud_errors_leave_with_a_note(code: str, message: str, mistake: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match=message) as caught, watch() as guard:
        mistake()
    assert codes(guard) == [code]
    assert caught.value.__notes__ == [f"gradlint: {guard.findings[0]}"]
    assert guard.findings[0].location.filename == __file__


def test_an_error_explained_is_the_one_that_was_raised_first() -> None:
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match="no plot") as caught, watch() as guard:
        try:
            weight.numpy()
        except RuntimeError as error:
            raise ValueError("no plot") from error
    assert codes(guard) == ["GL501"]
    assert not hasattr(caught.value, "__notes__")
    assert "GL501" in caught.value.__cause__.__notes__[0]  # type: ignore[union-attr]  # it has a cause, see above


def test_other_errors_leave_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError) as caught, watch() as guard:
        1 / 0  # noqa: B018  it raises
    assert guard.findings == []
    assert not hasattr(caught.value, "__notes__")


# --- how it tells ----------------------------------------------------------------------------------------------


def test_warnings_are_given_once_and_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    model = network()
    with pytest.warns(UserWarning, match="GL201") as caught, gradlint.guard(model):
        backward, _ = train_without_clearing(model, sgd(model))
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, backward)]
    assert capsys.readouterr().err == "gradlint: 1 finding while training: 1 GL201 [missing-zero-grad]\n"


def test_raising_stops_before_the_wrong_step() -> None:
    from gradlint.runtime.session import FindingError

    model = network()
    optimizer = sgd(model)
    with pytest.raises(FindingError, match="GL201") as caught, gradlint.guard(on_finding="raise"):
        for x, y in batches():
            nn.functional.cross_entropy(model(x), y).backward()
            before = [parameter.detach().clone() for parameter in model.parameters()]
            optimizer.step()
    assert caught.value.finding.code == "GL201"
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_the_users_own_error_is_not_replaced() -> None:
    weight = torch.ones(3, requires_grad=True)
    loss = weight.exp().sum()
    with pytest.raises(RuntimeError, match="second time"), gradlint.guard(on_finding="raise"):
        loss.backward()
        loss.backward()


def test_a_callable_is_given_each_finding_once() -> None:
    found: list[Finding] = []
    model = network()
    with gradlint.guard(on_finding=found.append) as guard:
        train_without_clearing(model, sgd(model))
    assert found == guard.findings


def test_a_decorator_adds_up_the_findings_of_all_calls() -> None:
    model = network()
    optimizer = sgd(model)
    guard = watch(model)

    @guard
    def train() -> str:
        """Documented."""
        train_without_clearing(model, optimizer)
        return "trained"

    assert (train(), train(), train.__doc__) == ("trained", "trained", "Documented.")
    assert codes(guard) == ["GL201"]
    assert not guard.active


def test_a_decorated_generator_is_watched_while_it_runs() -> None:
    model = network()
    guard = watch()

    @guard
    def train() -> Any:
        yield "started"
        train_without_clearing(model, sgd(model))

    assert list(train()) == ["started"]
    assert codes(guard) == ["GL201"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"select": ["GL201"]}, ["GL201"]),
        ({"select": ["GL2"]}, ["GL201"]),
        ({"select": "missing-zero-grad"}, ["GL201"]),
        ({"select": ["ALL"], "ignore": ["GL20"]}, []),
        ({"ignore": ["missing-zero-grad"]}, []),
        ({"select": ["GL109"]}, []),
    ],
)
def test_selection(options: dict[str, Any], expected: list[str]) -> None:
    model = network()
    with watch(model, **options) as guard:
        train_without_clearing(model, sgd(model))
    assert codes(guard) == expected


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"gradlint.guard: select: .*'GL999'"):
        gradlint.guard(select=["GL999"])
    with pytest.raises(ValueError, match=r"ignore: .*'nonsense'"):
        gradlint.guard(ignore=["nonsense"])
    with pytest.raises(TypeError, match="modules and optimizers, not list"):
        gradlint.guard([network()])
    with pytest.raises(ValueError, match="on_finding"):
        gradlint.guard(on_finding="shout")  # type: ignore[arg-type]  # what is tested
