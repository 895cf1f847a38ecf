"""The magics, in a shell of IPython and in a kernel."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

IPython = pytest.importorskip("IPython", reason="the magics are IPython's")
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402 -- once it is known to be there
from IPython.utils.capture import capture_output  # noqa: E402
from traitlets.config import Config  # noqa: E402

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the guard watches torch")

MODEL = """\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(6, 4), nn.Softmax(dim=1))
"""
LOSS = "loss = nn.CrossEntropyLoss()(net(torch.randn(3, 6)), torch.tensor([0, 1, 2]))\n"
LOOP = """\
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 6):
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""

Run = Callable[[str], "Ran"]


class Ran:
    """What came of a cell."""

    def __init__(self, result: Any, captured: Any) -> None:
        self.success = result.success
        self.error = result.error_in_exec
        self.displayed: list[dict[str, str]] = [output.data for output in captured.outputs]
        self.stdout, self.stderr = captured.stdout, captured.stderr

    @property
    def text(self) -> str:
        return "\n".join(data["text/plain"] for data in self.displayed)

    @property
    def html(self) -> str:
        return "\n".join(data.get("text/html", "") for data in self.displayed)

    @property
    def codes(self) -> list[str]:
        return re.findall(r"\b(GL\d{3}) \[", self.text)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / ".ipython"))
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    yield made
    made.run_line_magic("unload_ext", "gradlint")
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


@pytest.fixture
def run(shell: InteractiveShell) -> Run:
    """Runs a cell as a notebook would, in a shell that has loaded the extension."""

    def ran(cell: str) -> Ran:
        with capture_output() as captured:
            result = shell.run_cell(cell, store_history=True)
        return Ran(result, captured)

    assert ran("%load_ext gradlint").success
    return ran


def test_a_cell_is_checked_with_those_before_it(run: Run) -> None:
    run(MODEL)
    ran = run(f"%%gradlint --no-run\n{LOSS}")
    assert ran.codes == ["GL301"]
    assert "In[3]:2:8: GL301 [softmax-before-cross-entropy]" in ran.text
    assert "2 | loss = nn.CrossEntropyLoss()" in ran.text
    assert "In[2]:4:" in ran.text
    assert "net = nn.Sequential(" in ran.text


def test_what_comes_before_is_not_told_again(run: Run) -> None:
    run(MODEL)
    assert run(f"%%gradlint --no-run\n{LOOP}").codes == ["GL201"]
    ran = run("%%gradlint --no-run\nx = 1\n")
    assert ran.text == "gradlint: nothing found"


def test_html_marks_the_place(run: Run) -> None:
    run(MODEL)
    html = run(f"%%gradlint --no-run\nnames = '<b>'; {LOSS}").html
    assert ">nn.CrossEntropyLoss()(net(torch.randn(3, 6)), torch.tensor([0, 1, 2]))</mark>" in html
    assert "names = &#x27;&lt;b&gt;&#x27;; " in html
    assert "<b>softmax-before-cross-entropy</b>" in html
    assert "<b>'" not in html
    assert "nothing found" in run("%%gradlint --no-run\nx = 1").html


def test_a_cell_that_was_only_checked_did_not_happen(shell: InteractiveShell, run: Run) -> None:
    run(f"%%gradlint --no-run\n{MODEL}")
    assert "net" not in shell.user_ns
    assert run(f"%%gradlint --no-run\n{LOSS}").codes == []


def test_a_cell_runs_after_it_was_checked(shell: InteractiveShell, run: Run) -> None:
    ran = run("%%gradlint\nimport math\nprint('ran')\nmath.inf")
    assert ran.success
    assert ran.stdout.startswith("ran\n")
    assert shell.user_ns["math"].inf > 0
    assert ran.text.startswith("gradlint: nothing found")


def test_a_cell_that_fails_has_failed(run: Run) -> None:
    ran = run("%%gradlint\n1 / 0")
    assert not ran.success
    assert isinstance(ran.error, ZeroDivisionError)
    assert (ran.stdout + ran.stderr).count("ZeroDivisionError: division by zero") == 1
    assert run("1 + 1").success, "and the next one has not"


def test_of_a_cell_that_failed_nothing_is_known_but_its_names(run: Run) -> None:
    run(MODEL + "1 / 0\n")
    assert run(f"%%gradlint --no-run\n{LOSS}").codes == []


def test_rules_can_be_chosen(run: Run) -> None:
    run(MODEL)
    assert run(f"%%gradlint --no-run --ignore GL301\n{LOSS}").codes == []
    assert run(f"%%gradlint --no-run --select GL201,GL5\n{LOSS}").codes == []
    unknown = run(f"%%gradlint --no-run --select GL999\n{LOSS}")
    assert "GL999" in unknown.stderr
    assert "%gradlint: --select" in unknown.stderr


def test_settings_and_comments_hold(run: Run, tmp_path: Path) -> None:
    run(MODEL)
    assert run(f"%%gradlint --no-run\n{LOSS.rstrip()}  # noqa: GL301\n").codes == []
    (tmp_path / "gradlint.toml").write_text('ignore = ["GL301"]\n')
    assert run(f"%%gradlint --no-run\n{LOSS}").codes == []


def test_files_beside_the_notebook_are_followed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "networks.py").write_text(MODEL)
    ran = run(f"%%gradlint --no-run\nimport torch\nfrom torch import nn\nfrom networks import net\n{LOSS}")
    assert ran.codes == ["GL301"]
    assert "networks.py:4:" in ran.text


def test_a_magic_that_is_unknown_to_python_counts_as_a_row(run: Run) -> None:
    run(f"%config InlineBackend.figure_format = 'svg'\n{MODEL}")
    ran = run(f"%%gradlint --no-run\n%pwd\n\n{LOSS}")
    assert "In[3]:4:8: GL301" in ran.text


def test_options_are_explained(shell: InteractiveShell, run: Run) -> None:
    ran = run("%%gradlint --select\nx = 1")
    assert not ran.success
    assert "--select" in ran.stderr + ran.stdout
    assert "--no-run" in (shell.find_cell_magic("gradlint").__doc__ or "")


def test_the_extension_leaves_when_it_is_unloaded(shell: InteractiveShell, run: Run) -> None:
    run("%unload_ext gradlint")
    assert shell.find_cell_magic("gradlint") is None
    assert shell.find_line_magic("gradlint_guard") is None
    run("%load_ext gradlint")
    assert shell.find_cell_magic("gradlint") is not None


@needs_torch
def test_the_guard_tells_below_the_cell_what_it_did(run: Run) -> None:
    assert run("%gradlint_guard on").success
    assert run(MODEL).displayed == []
    ran = run(f"# train\n{LOOP}")
    assert "GL201" in ran.codes
    assert "In[4]:5:5: GL201 [missing-zero-grad]" in ran.text
    assert "5 |     loss.backward()" in ran.text
    assert "In[4]:6:5: they were applied here" in ran.text
    assert "<mark" in ran.html
    assert run("1 + 1").codes == [], "each is told once"
    page = run("%gradlint_guard report")
    assert "srcdoc=" in page.html
    assert "In[4]" in page.html
    assert "ipython-input" not in page.html
    assert page.codes == ["GL201"]
    assert run("%gradlint_guard off").stdout == "gradlint: the guard is off; it has found 1 mistake\n"


@needs_torch
def test_the_guard_names_a_checked_cell_as_its_check_does(run: Run) -> None:
    run("%gradlint_guard on")
    run(MODEL)
    ran = run(f"%%gradlint\n{LOOP}")
    assert ran.codes == ["GL201", "GL201"]
    assert ran.text.count("In[4]:5:5: GL201") == 2


def test_a_checked_cell_may_be_one_of_another_magic(shell: InteractiveShell, run: Run) -> None:
    run("%%gradlint\n%%capture kept\nprint(1)")
    assert shell.user_ns["kept"].stdout == "1\n"
    assert run("1").success


@needs_torch
def test_the_guard_watches_from_on_to_off(run: Run) -> None:
    run(MODEL)
    assert run(LOOP).displayed == []
    run("%gradlint_guard on --ignore GL201")
    assert run("%gradlint_guard").stdout == "gradlint: the guard is on; it has found nothing\n"
    assert run(LOOP).codes == []
    run("%gradlint_guard off")
    assert run(LOOP).displayed == []
    assert "%gradlint_guard on" in run("%gradlint_guard report").stderr


@needs_torch
def test_comments_in_cells_suppress_what_the_guard_finds(run: Run) -> None:
    run("%gradlint_guard on")
    run(MODEL)
    assert run(LOOP.replace("backward()", "backward()  # gradlint: ignore[missing-zero-grad]")).codes == []
    assert run(LOOP).codes == ["GL201"]
    run("%gradlint_guard off")


@needs_torch
def test_unloading_ends_the_guard(run: Run) -> None:
    from gradlint.runtime.patches.interception import _watching

    run("%gradlint_guard on")
    assert len(_watching()) == 1
    run("%unload_ext gradlint")
    assert not _watching()


@needs_torch
def test_a_kernel_shows_it_in_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # below which the code of cells is said to lie
    pytest.importorskip("ipykernel", reason="there is no kernel without it")
    nbclient = pytest.importorskip("nbclient", reason="it speaks to the kernel")
    from nbformat import v4

    sources = ["%load_ext gradlint\n%gradlint_guard on", MODEL, f"%%gradlint\n{LOOP}", "%gradlint_guard report"]
    failing = [*sources[:2], "%%gradlint\n1 / 0", "print('not reached')"]

    def executed(cells: list[str], *, errors: bool = False) -> Any:
        notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
        client = nbclient.NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
        )
        if errors:
            with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
                client.execute()
            return notebook
        return client.execute()

    outputs = [cell.outputs for cell in executed(sources).cells]
    assert outputs[:2] == [[], []]
    checked, watched = (output.data for output in outputs[2] if output.output_type == "display_data")
    for data in (checked, watched):
        assert "GL201" in data["text/plain"]
        assert "missing-zero-grad" in data["text/html"]
    assert "In[3]:5:5" in checked["text/plain"]
    assert "In[3]:5:5" in watched["text/plain"]
    assert "loss.backward()" in watched["text/plain"]
    report = outputs[3][0].data["text/html"]
    assert "<iframe" in report
    assert "In[3]" in report
    assert "ipykernel_" not in report
    assert executed(failing, errors=True).cells[3].outputs == []
