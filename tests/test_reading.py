"""Nothing is opened but regular files, and none of them is read beyond what can be borne."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradlint import reading
from gradlint.cli import main
from gradlint.consulted import Consulted
from gradlint.disk import Disk
from gradlint.fixing import replace_file
from gradlint.reading import NotRegularError, read_bytes, read_first, read_regular

FLAWED = "import torch\nimport strange\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"
ENDLESS = Path("/dev/zero")
needs_endless = pytest.mark.skipif(not ENDLESS.exists(), reason="this system has no endless device")
MAKERS = [
    pytest.param(os.mkfifo, id="pipe"),
    pytest.param(lambda path: path.symlink_to(ENDLESS), id="endless", marks=needs_endless),
]

Make = Callable[[Path], None]


@pytest.fixture(autouse=True)
def nothing_hangs() -> Iterator[None]:
    """Opening a pipe waits for somebody to write to it: without a bound the tests would wait, too."""
    import signal

    if not hasattr(signal, "alarm"):
        pytest.skip("this system has no pipes with names")
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "train.py").write_text(FLAWED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(["--output-format", "concise", "--quiet", *arguments])
    out, err = capsys.readouterr()
    return code, [line.split()[1] for line in out.splitlines()], err


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("target", [".", "train.py"])
def test_what_stands_beside_a_file_is_not_opened(
    make: Make, target: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("strange.py", "other.ipynb", ".gitignore", "gradlint.toml"):
        make(project / name)
    (project / ".git").mkdir()
    for _ in range(2):  # the second time, it is asked whether all is as it was
        assert check(capsys, target) == (1, ["GL501"], "")
    assert len(list((project / ".gradlint_cache").glob("*.told"))) == 1


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_named_is_not_opened_and_costs_itself_only(
    make: Make, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(project / "strange.py")
    said = f"gradlint: {project / 'strange.py'}: not a regular file\n"
    assert check(capsys, "strange.py", "train.py") == (2, ["GL501"], said)


@pytest.mark.parametrize("make", MAKERS)
def test_a_configuration_is_not_opened(make: Make, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(project / "some.toml")
    assert check(capsys, "--config", "some.toml") == (2, [], "some.toml: not a regular file\n")


@pytest.mark.parametrize("make", MAKERS)
def test_what_takes_the_place_of_a_file_is_not_opened(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    look = os.stat

    def swap(path: str, **options: object) -> os.stat_result:
        seen = look(path, **options)  # type: ignore[arg-type]
        if Path(path).name == "a.py" and not (tmp_path / "gone").exists():
            (tmp_path / "a.py").rename(tmp_path / "gone")
            make(tmp_path / "a.py")
        return seen

    monkeypatch.setattr("gradlint.reading.os.stat", swap)
    with pytest.raises(NotRegularError):
        read_bytes(tmp_path / "a.py")


@pytest.mark.parametrize("make", MAKERS)
def test_what_was_a_file_is_not_opened_to_see_whether_it_still_is(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    disk = Disk()
    disk.read(path)
    path.unlink()
    make(path)
    assert not Consulted(disk.consulted.stored()).holds()
    with pytest.raises(OSError, match="not a regular file"):
        replace_file(path, b"x = 1\n", b"x = 2\n")


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)


@pytest.mark.parametrize(("name", "size"), [("big.py", "8 MiB"), ("big.ipynb", "64 MiB"), ("big.txt", "8 MiB")])
def test_what_is_too_large_is_named_and_costs_itself_only(
    name: str, size: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (project / name).open("wb") as file:
        file.truncate(reading.most_bytes(name) + 1)
    said = f"gradlint: {project / name}: larger than {size}, which is too large to be read\n"
    assert check(capsys, "train.py", name) == (2, ["GL501"], said)


def test_what_may_just_be_read_is(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"#" * 100)
    assert read_regular(str(path), 100)[0] == b"#" * 100
    with pytest.raises(OSError, match="larger than 99 bytes"):
        read_regular(str(path), 99)
    assert read_first(str(path), 7) == b"#" * 7
    assert read_first(str(path), 200) == b"#" * 100


def test_a_configuration_that_is_too_large_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "gradlint.toml").write_text("#" * 2**18 + "\n")
    code, found, err = check(capsys)
    assert (code, found) == (2, [])
    assert err == f"{project / 'gradlint.toml'}: larger than 256 KiB, which is too large to be read\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system tells no sizes that are wrong")
def test_a_size_that_is_wrong_misleads_nobody() -> None:
    path = Path("/proc/self/status")
    assert path.stat().st_size == 0
    assert read_bytes(path).startswith(b"Name:")
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular(str(path), 10)


@needs_endless
def test_standard_input_without_an_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with ENDLESS.open("rb") as endless:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(endless))
        said = "gradlint: -: larger than 8 MiB, which is too large to be read\n"
        assert check(capsys, "-") == (2, [], said)


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert check(capsys, "-") == (2, [], "gradlint: -: standard input is closed\n")
