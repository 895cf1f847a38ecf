"""The guard inside the training loops of other libraries, where these are installed."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gradlint
from gradlint.runtime.patches import interception


@pytest.fixture(autouse=True)
def nothing_stays() -> Any:
    yield
    assert not interception._patch.guards


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    return [(torch.randn(3, 4), torch.randint(0, 2, (3,))) for _ in range(6)]


def test_none_of_the_libraries_is_imported_by_the_guard(tmp_path: Path) -> None:
    code = (
        "import sys, torch, gradlint, gradlint.runtime.integrations\n"
        "with gradlint.guard(torch.nn.Linear(1, 1)): pass\n"
        "print(sorted({'transformers', 'lightning', 'pytorch_lightning', 'accelerate'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


class TestHuggingFace:
    class Net(nn.Module):
        """Speaks the Trainer's language: takes ``labels``, returns a dict with the loss."""

        def __init__(self, softmax: bool) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)
            self.softmax = softmax

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.layer(x)
            if self.softmax:
                logits = logits.softmax(-1)
            if labels.isnan().any():
                raise ArithmeticError("labels that are not numbers")
            return {"loss": nn.functional.cross_entropy(logits, labels.long()), "logits": logits}

    def train(self, folder: Path, callback: Any, softmax: bool = False, label: float = 1.0, **options: Any) -> None:
        transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
        data = [{"x": torch.randn(4), "labels": torch.tensor(label)} for _ in range(12)]
        arguments = transformers.TrainingArguments(
            str(folder),
            num_train_epochs=2,
            per_device_train_batch_size=2,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            **options,
        )
        transformers.Trainer(
            self.Net(softmax), arguments, train_dataset=data, eval_dataset=data, callbacks=[callback]
        ).train()

    def callback(self, **options: Any) -> Any:
        pytest.importorskip("transformers", reason="Transformers is not installed")
        from gradlint.runtime.integrations.huggingface import GuardCallback

        return GuardCallback(on_finding=options.pop("on_finding", "collect"), **options)

    def test_a_right_training_is_silent(self, tmp_path: Path) -> None:
        callback = self.callback()
        self.train(tmp_path, callback, gradient_accumulation_steps=2, eval_strategy="epoch")
        assert callback.findings == []

    def test_a_mistake_in_the_model_is_found(self, tmp_path: Path) -> None:
        callback = self.callback()
        self.train(tmp_path, callback, softmax=True)
        (finding,) = callback.findings
        assert (finding.code, finding.location.filename) == ("GL301", __file__)

    def test_a_finding_ends_the_training(self, tmp_path: Path) -> None:
        callback = self.callback(on_finding="raise")
        with pytest.raises(RuntimeError, match="GL301"):
            self.train(tmp_path, callback, softmax=True)
        callback.close()
        assert [finding.code for finding in callback.findings] == ["GL301"]

    def test_a_training_that_raises_ends_with_its_callback(self, tmp_path: Path) -> None:
        callback = self.callback()
        with pytest.raises(ArithmeticError):
            self.train(tmp_path, callback, label=float("nan"))
        assert interception._patch.guards
        self.train(tmp_path, callback)
        assert not interception._patch.guards

    def test_options_are_looked_at_when_they_are_given(self) -> None:
        with pytest.raises(ValueError, match="GL299"):
            self.callback(select="GL299")


class TestLightning:
    def module(self, softmax: bool = False, fail: bool = False) -> Any:
        lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

        class Net(lightning.LightningModule):  # type: ignore[name-defined]  # a module that may not be there
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 2))

            def training_step(self, batch: Any, index: int) -> torch.Tensor:
                x, y = batch
                out = self.layer(x)
                loss = nn.functional.cross_entropy(out.softmax(-1) if softmax else out, y)
                if fail:
                    loss.backward()
                return loss

            def validation_step(self, batch: Any, index: int) -> None:
                nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.Adam(self.parameters())

        return Net()

    def fit(self, module: Any, folder: Path, **options: Any) -> Any:
        lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
        from gradlint.runtime.integrations.lightning import GuardCallback

        callback = GuardCallback(on_finding="collect")
        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            callbacks=[callback],
            **options,
        )
        try:
            loader = torch.utils.data.DataLoader(batches(), batch_size=None)  # type: ignore[arg-type]  # a list is enough
            trainer.fit(module, loader, loader)
        finally:
            self.last = callback
        return callback

    def test_a_right_training_is_silent(self, tmp_path: Path) -> None:
        callback = self.fit(self.module(), tmp_path, accumulate_grad_batches=2, gradient_clip_val=1.0)
        assert callback.findings == []
        assert pickle.loads(pickle.dumps(callback._training)).findings == []  # noqa: S301  our own, a line ago
        assert copy.deepcopy(callback).findings == []

    def test_a_mistake_in_the_module_is_found(self, tmp_path: Path) -> None:
        (finding,) = self.fit(self.module(softmax=True), tmp_path).findings
        assert (finding.code, finding.location.filename) == ("GL301", __file__)

    def test_an_error_of_autograd_leaves_with_its_note(self, tmp_path: Path) -> None:
        with pytest.raises(RuntimeError) as raised:
            self.fit(self.module(fail=True), tmp_path)
        assert any("GL203" in note for note in raised.value.__notes__)
        assert [finding.code for finding in self.last.findings] == ["GL203"]


class TestAccelerate:
    def train(self, clear: bool, accumulate: int = 1, **options: Any) -> gradlint.Guard:
        accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
        from gradlint.runtime.integrations.accelerate import guard_prepared

        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        model = nn.Linear(4, 2)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with guard_prepared(accelerator, on_finding="collect", **options) as guard:
            for x, y in batches():
                with accelerator.accumulate(model):
                    accelerator.backward(nn.functional.cross_entropy(model(x), y))
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    if clear:
                        optimizer.zero_grad()
        return guard

    @pytest.mark.parametrize("accumulate", [1, 3])
    def test_a_right_training_is_silent(self, accumulate: int) -> None:
        assert self.train(clear=True, accumulate=accumulate).findings == []

    @pytest.mark.parametrize("accumulate", [1, 3])
    def test_gradients_that_nobody_clears_are_found(self, accumulate: int) -> None:
        (finding,) = self.train(clear=False, accumulate=accumulate).findings
        assert (finding.code, finding.location.filename) == ("GL201", __file__)
