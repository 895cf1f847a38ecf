"""What a guard measures and finds, in TensorBoard, Weights & Biases, MLflow, and loggers of one's own."""

from __future__ import annotations

import json
import math
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
import wandb
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from wandb.proto import wandb_internal_pb2

import gradlint
from gradlint.events import GradientsMeasured
from gradlint.finding import Finding, Location, Severity
from gradlint.runtime.log import Log
from gradlint.runtime.loggers import Logger, logger_of
from gradlint.runtime.witnesses import norms

NORM = "gradlint/gradient_norm/"


class Kept:
    """A logger that keeps what it is given."""

    def __init__(self) -> None:
        self.numbers: list[tuple[dict[str, float], int]] = []
        self.findings: list[tuple[str, int]] = []

    def log_numbers(self, numbers: Mapping[str, float], step: int) -> None:
        self.numbers.append((dict(numbers), step))

    def log_finding(self, finding: Finding, step: int) -> None:
        self.findings.append((finding.code, step))

    def steps(self, name: str) -> list[int]:
        return [step for numbers, step in self.numbers if name in numbers]


def train(logger: Any, steps: int = 12, each_step: Any = None, **options: Any) -> nn.Module:
    """A training that never clears its gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options = {"on_finding": "collect", **options}
    with gradlint.guard(model, optimizer, logger=logger, **options):
        for step in range(steps):
            model(torch.randn(8, 2)).pow(2).mean().backward()
            optimizer.step()
            if each_step is not None:
                each_step(step)
    return model


def test_a_logger_of_ones_own_is_told_norms_by_layer_and_findings_once() -> None:
    kept = Kept()
    train(kept)
    assert kept.findings == [("GL201", 2)], "at the step that applied them again, of twelve"
    assert kept.steps(f"{NORM}0") == kept.steps("gradlint/total_gradient_norm") == [1, 2, 4, 8, 10]
    numbers, _ = next(entry for entry in kept.numbers if f"{NORM}0" in entry[0])
    assert numbers.keys() == {f"{NORM}0", f"{NORM}2", "gradlint/total_gradient_norm"}
    assert numbers["gradlint/total_gradient_norm"] == pytest.approx(
        math.hypot(numbers[f"{NORM}0"], numbers[f"{NORM}2"])
    )
    assert [entry for entry in kept.numbers if "gradlint/findings" in entry[0]] == [({"gradlint/findings": 1.0}, 2)]


def test_norms_are_those_of_the_gradients() -> None:
    kept = Kept()
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with gradlint.guard(optimizer, logger=kept, on_finding="collect"):
        (weight * 3).sum().backward()
        optimizer.step()
    ((numbers, step),) = kept.numbers
    assert step == 1
    assert numbers["gradlint/total_gradient_norm"] == pytest.approx(6.0)


@pytest.mark.parametrize("value", [3.0, math.nan, math.inf])
def test_norms_of_many_small_gradients_are_those_of_each(value: float) -> None:
    shapes = [(), (0,), (3,), (4, 2), (2, 3, 5)] * norms.MANY
    grads = [torch.randn(shape) for shape in shapes]
    grads[7] = torch.full((4, 2), value).t()  # not contiguous
    together, found = norms._measured(grads, torch.device("cpu"))[0], [float(grad.norm()) for grad in grads]
    assert together == pytest.approx(found, rel=1e-5, nan_ok=True)
    assert norms._are_many_and_small(grads)
    assert not norms._are_many_and_small([torch.randn(norms.SMALL + 1)] * norms.MANY)
    assert not norms._are_many_and_small([*grads, torch.randn(3).double()])
    before = [grad.clone() for grad in grads]
    norms._measured(grads, torch.device("cpu"))
    assert all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(before, grads, strict=True))


def test_norms_are_told_where_no_rule_asks_for_them() -> None:
    kept = Kept()
    train(kept, select="GL201")
    assert kept.steps(f"{NORM}0") == [1, 2, 4, 8, 10]


def test_a_function_is_a_logger_of_numbers() -> None:
    told: list[tuple[int, set[str]]] = []
    train(lambda numbers, step: told.append((step, set(numbers))))
    assert (1, {f"{NORM}0", f"{NORM}2", "gradlint/total_gradient_norm"}) in told
    assert (2, {"gradlint/findings"}) in told


def test_two_models_with_layers_of_one_name_are_told_apart() -> None:
    kept = Kept()
    models = [nn.Sequential(nn.Linear(2, 1)) for _ in range(3)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    with gradlint.guard(*models, logger=kept, on_finding="collect"):
        for model, optimizer in zip(models, optimizers, strict=True):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    names = {name for numbers, _ in kept.numbers for name in numbers if name.startswith(NORM)}
    assert names == {f"{NORM}0", f"{NORM}Sequential 2.0", f"{NORM}Sequential 3.0"}


def test_norms_of_one_step_on_several_devices_are_told_together() -> None:
    kept = Kept()
    log = Log(kept)
    where = Location("train.py", 3)
    for name, norm in (("a.weight", 3.0), ("b.weight", 4.0)):
        log.measured(GradientsMeasured(site=where, step=7, norms={name: (1.0, norm)}))
    assert log.deliver([]) is None
    assert kept.numbers == [({f"{NORM}a": 3.0, f"{NORM}b": 4.0, "gradlint/total_gradient_norm": 5.0}, 7)]


def test_a_finding_is_logged_before_it_is_raised() -> None:
    kept = Kept()
    with pytest.raises(gradlint.runtime.FindingError):
        train(kept, on_finding="raise")
    assert kept.findings == [("GL201", 2)]


@pytest.mark.parametrize("method", ["log_numbers", "log_finding"])
def test_a_logger_that_fails_ends_alone(
    method: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    kept = Kept()
    monkeypatch.setattr(kept, method, fail)
    watched = train(kept)
    assert capsys.readouterr().err.count("the guard failed in the logger (OSError: the disk is full)") == 1
    plain = train(None)
    assert all(map(torch.equal, watched.parameters(), plain.parameters()))


@pytest.mark.parametrize("given", [3, "tensorboard", Kept, object()])
def test_what_is_no_logger_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match="logger is a SummaryWriter"):
        gradlint.guard(logger=given)


def test_loggers_are_of_the_protocol(tmp_path: Path) -> None:
    for given in (Kept(), print, mlflow, wandb, SummaryWriter(str(tmp_path))):
        assert isinstance(logger_of(given), Logger)


def test_none_of_the_libraries_is_imported_for_another() -> None:
    code = (
        "import sys, torch, gradlint\n"
        "weight = torch.ones(1, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "with gradlint.guard(logger=lambda numbers, step: None):\n"
        "    weight.sum().backward()\n"
        "    optimizer.step()\n"
        "print([name for name in ('wandb', 'mlflow', 'tensorboard', 'tensorboardX') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- TensorBoard ---------------------------------------------------------------------------------------------------


def test_tensorboard_has_scalars_and_texts(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        train(writer)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars(f"{NORM}2")] == [1, 2, 4, 8, 10]
    assert all(event.value > 0 for event in events.Scalars("gradlint/total_gradient_norm"))
    assert [(event.step, event.value) for event in events.Scalars("gradlint/findings")] == [(2, 1.0)]
    (text,) = events.Tensors("gradlint/GL201/text_summary")
    told = text.tensor_proto.string_val[0].decode()
    assert told.startswith("**GL201 missing-zero-grad**: gradients are added")
    assert f"{__file__}:" in told
    assert "help: clear the gradients" in told


# --- Weights & Biases ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    run = wandb.init(project="gradlint", dir=tmp_path, settings=wandb.Settings(console="off"))
    yield run
    run.finish()


def rows(run: Any) -> list[dict[str, Any]]:
    """The rows that a run has written, once its file tells that it ended: another process writes it."""
    run.finish()
    (path,) = Path(run.dir).parent.glob("*.wandb")
    deadline = time.monotonic() + 60
    while True:
        records = list(read(path.read_bytes()))
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = [record.history.item for record in records if record.WhichOneof("record_type") == "history"]
    return [{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items} for items in found]


def read(raw: bytes) -> Iterator[Any]:
    """The records of a run's file, in the log format of LevelDB: parts of records in blocks of 32 KiB."""
    at, parts = 7, b""
    while at + 7 <= len(raw):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", raw[at : at + 7])
        parts += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4) and at <= len(raw):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def test_wandb_has_numbers_beside_those_of_the_run(run: Any) -> None:
    train(run, each_step=lambda step: run.log({"loss": float(step)}, step=100 + step))
    told = rows(run)
    assert [row["loss"] for row in told if "loss" in row] == list(map(float, range(12))), "none is lost"
    assert [row["_step"] for row in told if "loss" in row] == list(range(100, 112)), "and none is moved"
    assert len([row for row in told if f"{NORM}0" in row]) == 5
    assert max(row.get("gradlint/findings", 0) for row in told) == 1


def test_wandb_has_a_table_of_the_findings(run: Any) -> None:
    train(wandb, each_step=lambda step: run.log({"loss": float(step)}))
    rows(run)
    (path,) = Path(run.dir).rglob("*.table.json")
    table = json.loads(path.read_text(encoding="utf-8"))
    (row,) = table["data"]
    assert dict(zip(table["columns"], row, strict=True))["code"] == "GL201"
    assert row[0] == 2


def test_wandb_without_a_run_is_said_and_hurts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert wandb.run is None
    train(wandb)
    assert "no run of Weights & Biases is under way" in capsys.readouterr().err


# --- MLflow --------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowClient]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield MlflowClient()
    mlflow.set_tracking_uri(before)


@pytest.mark.parametrize("given", ["module", "run"])
def test_mlflow_has_metrics_and_an_artifact(store: MlflowClient, tmp_path: Path, given: str) -> None:
    with mlflow.start_run() as run:
        train(mlflow if given == "module" else run)
    history = store.get_metric_history(run.info.run_id, f"{NORM}0")
    assert [metric.step for metric in history] == [1, 2, 4, 8, 10]
    metrics = store.get_run(run.info.run_id).data.metrics
    assert metrics.keys() == {f"{NORM}0", f"{NORM}2", "gradlint/total_gradient_norm", "gradlint/findings"}
    path = store.download_artifacts(run.info.run_id, "gradlint/findings.md", str(tmp_path))
    text = Path(path).read_text(encoding="utf-8")
    assert text.count("GL201") == 1
    assert "first seen at step 2" in text


def test_mlflow_takes_names_it_would_refuse(store: MlflowClient) -> None:
    with mlflow.start_run() as run:
        logger_of(run).log_numbers({"gradlint/gradient_norm/<lambda>#1": 1.0, "gradlint/x": math.inf}, 1)
    assert store.get_run(run.info.run_id).data.metrics == {
        "gradlint/gradient_norm/_lambda__1": 1.0,
        "gradlint/x": math.inf,
    }


def test_many_layers_are_more_than_mlflow_takes_at_once(store: MlflowClient) -> None:
    with mlflow.start_run() as run:
        logger_of(run).log_numbers({f"n/{index}": 1.0 for index in range(1001)}, 1)
    assert len(store.get_run(run.info.run_id).data.metrics) == 1001


def test_mlflow_without_a_run_begins_none(store: MlflowClient, capsys: pytest.CaptureFixture[str]) -> None:
    train(mlflow)
    assert "no run of MLflow is active" in capsys.readouterr().err
    assert mlflow.active_run() is None


# --- all of them ---------------------------------------------------------------------------------------------------


def test_a_finding_can_be_told_more_than_once(store: MlflowClient, tmp_path: Path, run: Any) -> None:
    places = {"GL1": Location("train.py", 1), "GL2": Location("train.py", 2)}
    findings = [Finding(code, "name", "what", Severity.WARNING, where) for code, where in places.items()]
    with mlflow.start_run() as active, SummaryWriter(str(tmp_path / "board")) as writer:
        for given in (active, writer, run):
            logger = logger_of(given)
            for finding in findings:
                logger.log_finding(finding, 3)
    text = Path(store.download_artifacts(active.info.run_id, "gradlint/findings.md", str(tmp_path))).read_text("utf-8")
    assert [code in text for code in ("GL1", "GL2")] == [True, True]
    latest = max(Path(run.dir).rglob("*.table.json"), key=lambda path: path.stat().st_size)
    assert len(json.loads(latest.read_text(encoding="utf-8"))["data"]) == 2


@pytest.mark.parametrize("library", ["tensorboard", "wandb", "mlflow"])
def test_a_training_is_what_it_is_without_a_logger(
    library: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def drawn() -> tuple[object, ...]:
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    random.seed(0)
    np.random.seed(0)
    plain = train(None)
    before = drawn()
    if library == "tensorboard":
        given: Any = SummaryWriter(str(tmp_path))
    elif library == "wandb":
        given = request.getfixturevalue("run")
    else:
        request.getfixturevalue("store")
        given = mlflow.start_run()
    random.seed(0)
    np.random.seed(0)
    watched = train(given)
    assert drawn() == before
    assert all(map(torch.equal, watched.parameters(), plain.parameters()))
    if library == "tensorboard":
        given.close()
    elif library == "mlflow":
        mlflow.end_run()
