"""The cache touches nothing that is not its own, and tells nothing that it has not written itself."""

from __future__ import annotations

import marshal
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradlint import cachefolder, cachekey
from gradlint.cache import NAME, Cache, location
from gradlint.cachefolder import CacheFolder, ForeignFolderError
from gradlint.cli import main

FLAWED = "import torch\n\nprint(torch.ones(2, requires_grad=True).numpy())\n"
LONG_AGO = (0, 0)
ENTRY = "0123456789abcdef0123456789abcdef.checked"
KEY = (("program",), ("request",))

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def by_descriptor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not cachefolder._BY_DESCRIPTOR:
        pytest.skip("this system has no descriptors of folders")
    monkeypatch.setattr(cachefolder, "_BY_DESCRIPTOR", request.param)
    return bool(request.param)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GRADLINT_CACHE_DIR", raising=False)
    monkeypatch.delenv("GRADLINT_CACHE_KEY", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "train.py").write_text(FLAWED)
    monkeypatch.chdir(folder)
    return folder


THEIRS = {
    ".gitignore": b"*.pt\n",
    "doc.new": b"notes",
    "film.part": b"film" * 100,
    "list.checked": b"milk",
    "gossip.told": b"hush",
    f"{ENTRY}.new": b"x",
    f"{ENTRY}.1-2.new": b"the name alone makes it no draft of ours",
    f"{ENTRY}.1-two.new": b"",
    ENTRY: b"the name alone makes it no entry of ours",
}


def leave(folder: Path, **more: bytes) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    for name, content in (THEIRS | more).items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, LONG_AGO)
    return held(folder)


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("command", [["clean"], ["check"]])
def test_files_of_others_stay(
    command: list[str], by_descriptor: bool, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = leave(project)
    main([*command, "--cache-dir", "."])
    assert held(project) == before
    if command == ["clean"]:
        assert capsys.readouterr().out == f"There is no cache at {project}.\n"


def test_files_of_others_stay_beside_our_tag(by_descriptor: bool, project: Path) -> None:
    before = leave(project / NAME, **{"CACHEDIR.TAG": cachefolder._BESIDE["CACHEDIR.TAG"]})
    main(["check"])
    assert len(held(project / NAME)) > len(before)
    assert before.items() <= held(project / NAME).items()
    assert main(["clean"]) == 0
    assert held(project / NAME) == {name: content for name, content in before.items() if name != "CACHEDIR.TAG"}


def test_a_tag_that_is_not_ours_is_none(by_descriptor: bool, project: Path) -> None:
    before = leave(project / NAME, **{"CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n"})
    main(["check"])
    main(["clean"])
    assert held(project / NAME) == before


def test_a_linked_default_cache_is_refused(
    by_descriptor: bool, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", "--cache-dir", str(tmp_path / "other")])  # even if it leads to a cache
    before = leave(tmp_path / "other")
    (project / NAME).symlink_to(tmp_path / "other")
    capsys.readouterr()
    assert main(["--verbose"]) == 1
    assert f"no cache: {project / NAME}: a symbolic link, which is not followed" in capsys.readouterr().err
    assert held(tmp_path / "other") == before
    assert main(["clean"]) == 2
    assert capsys.readouterr().err == f"gradlint clean: {project / NAME}: a symbolic link, which is not followed\n"
    assert held(tmp_path / "other") == before


def test_a_linked_cache_that_is_asked_for_is_used(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    main(["check", "--cache-dir", str(tmp_path / "link")])
    assert location(str(tmp_path / "link")) == (str(tmp_path / "other"), str(tmp_path))
    assert "CACHEDIR.TAG" in held(tmp_path / "other")


@pytest.mark.parametrize("link", ["kept", "kept/deep/er", "../kept", "{project}/kept"])
def test_a_configured_cache_that_links_of_the_project_lead_to_is_refused(
    link: str, by_descriptor: bool, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    main(["check", "--cache-dir", str(other)])  # even if they lead to a cache
    before = leave(other)
    (project / "pyproject.toml").write_text(f'[tool.gradlint]\ncache-dir = "{link.format(project=project)}"\n')
    linked = tmp_path / "kept" if link.startswith("..") else project / "kept"
    linked.symlink_to(other)
    capsys.readouterr()
    assert main(["--verbose"]) == 1
    assert f"no cache: {linked}: a symbolic link, which is not followed" in capsys.readouterr().err
    assert main(["clean"]) == 2
    assert capsys.readouterr().err == f"gradlint clean: {linked}: a symbolic link, which is not followed\n"
    assert held(other) == before
    assert not (other / "deep").exists()


def test_a_configured_cache_without_links_is_made_used_and_removed(
    by_descriptor: bool, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text('[tool.gradlint]\ncache-dir = "../kept/deep/er"\n')
    alias = tmp_path / "alias"  # what leads to the project is not the project's
    alias.symlink_to(project)
    assert main(["check", str(alias)]) == 1
    assert "CACHEDIR.TAG" in held(tmp_path / "kept" / "deep" / "er")
    capsys.readouterr()
    assert main(["clean", str(alias)]) == 0
    assert not (tmp_path / "kept" / "deep" / "er").exists()
    assert (tmp_path / "kept" / "deep").exists()


def test_links_to_a_configured_cache_outside_of_the_project_are_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "large_disk").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "large_disk")
    (project / "pyproject.toml").write_text(f'[tool.gradlint]\ncache-dir = "{tmp_path}/scratch/kept"\n')
    assert main(["check"]) == 1
    assert "CACHEDIR.TAG" in held(tmp_path / "large_disk" / "kept")


@pytest.mark.skipif(not cachefolder._BY_DESCRIPTOR, reason="this system has no descriptors of folders")
def test_a_swap_above_the_folder_changes_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "pyproject.toml").write_text('[tool.gradlint]\ncache-dir = "deep/kept"\n')
    (tmp_path / "other" / "kept").mkdir(parents=True)
    make = cachefolder._make

    def swapped(path: str, handle: int | None = None) -> None:
        make(path, handle)
        if path == "kept" and not (project / "deep").is_symlink():
            (project / "deep").rename(project / "deeper")
            (project / "deep").symlink_to(tmp_path / "other")

    monkeypatch.setattr(cachefolder, "_make", swapped)
    main(["check"])
    assert held(tmp_path / "other" / "kept") == {}
    assert "CACHEDIR.TAG" in held(project / "deeper" / "kept")


@pytest.mark.skipif(not cachefolder._BY_DESCRIPTOR, reason="this system has no descriptors of folders")
def test_a_swap_in_between_changes_nothing(project: Path, tmp_path: Path) -> None:
    main(["check"])
    (project / NAME / f"{ENTRY}.1-2.new").write_bytes(b"")
    ours = sorted(name for name in held(project / NAME) if name.endswith((".checked", ".told", ".part", ".new")))
    assert len(ours) > 2
    victim = tmp_path / "victim"
    victim.mkdir()
    for name in ours:
        shutil.copy(project / NAME / name, victim / name)
    before = held(victim)
    with CacheFolder(str(project / NAME)) as folder:
        (project / NAME).rename(tmp_path / "away")
        (project / NAME).symlink_to(victim)
        for name in ours:
            assert folder.remove(name)
        folder.replace(ENTRY, b"new")
    assert held(victim) == before
    assert not held(tmp_path / "away").keys() & set(ours) - {ENTRY}
    assert (tmp_path / "away" / ENTRY).read_bytes() == b"new"


def test_links_in_the_folder_are_not_followed(by_descriptor: bool, project: Path, tmp_path: Path) -> None:
    main(["check"])
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in held(project / NAME):
        (project / NAME / name).rename(outside / name)
        (project / NAME / name).symlink_to(outside / name)
    before = held(outside)
    with CacheFolder(str(project / NAME)) as folder:
        assert not folder.is_tagged()
        for name in before:
            with pytest.raises(OSError):  # noqa: PT011 -- which one depends on the system
                folder.read(name)
    main(["check"])
    main(["clean"])
    assert held(outside) == before


def test_what_is_no_file_is_left_alone(by_descriptor: bool, project: Path) -> None:
    main(["check"])
    strange = ["00000000.checked", "00000000.told", f"{'0' * 32}.part.1-2.new"]
    (project / NAME / strange[0]).mkdir()
    os.mkfifo(project / NAME / strange[1])
    os.mkfifo(project / NAME / strange[2])
    assert main(["clean"]) == 0
    assert sorted(path.name for path in (project / NAME).iterdir()) == sorted(strange)


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, Path.mkdir], ids=["file", "pipe", "folder of others"])
def test_a_cache_that_is_none_costs_the_cache_only(
    make: Callable[[Path], None], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(project / NAME)
    if (project / NAME).is_dir():
        (project / NAME / "data").touch()
    assert main(["--verbose", "--output-format", "concise"]) == 1
    captured = capsys.readouterr()
    assert "GL501" in captured.out
    assert f"no cache: {project / NAME}: " in captured.err


def test_runs_that_start_together_share_a_folder(by_descriptor: bool, tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG.12-34.new").write_bytes(b"Sign")  # another is about to tag it
    (tmp_path / f"{ENTRY}.12-34.new").write_bytes(b"")
    with CacheFolder(str(tmp_path)) as folder:
        folder.claim()
        assert folder.is_tagged()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "CACHEDIR.TAG.new").touch()
    with CacheFolder(str(tmp_path / "more")) as folder, pytest.raises(ForeignFolderError):
        folder.claim()


# --- what is told was written by whoever is told it


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.delenv("GRADLINT_CACHE_KEY", raising=False)
    cache = Cache(str(tmp_path / "cache"))
    cache.keep_part(KEY, ("as it was",))
    assert not cache.trouble
    assert cache.recall_part(KEY) == ("as it was",)
    return cache


def forged(data: bytes, body: bytes) -> bytes:
    """An entry like another, as somebody makes it who knows all but the key."""
    head = data[: data.index(b"\n") + 1]
    return head + data[len(head) : len(head) + 16] + body


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda data: forged(data, marshal.dumps((KEY, ("forged",)))), id="another content"),
        pytest.param(lambda data: data[:-1], id="cut off"),
        pytest.param(lambda data: data + b"\0", id="lengthened"),
        pytest.param(lambda data: data[:25], id="cut off in the signature"),
        pytest.param(lambda data: data.replace(b"cache 2", b"cache 3"), id="another version"),
        pytest.param(lambda data: b"", id="empty"),
    ],
)
def test_what_is_not_signed_is_not_even_read(
    forge: Callable[[bytes], bytes], cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = Path(cache.folder).glob("*.part")
    entry.write_bytes(forge(entry.read_bytes()))
    monkeypatch.setattr("gradlint.cache.marshal.loads", lambda data: pytest.fail("marshal takes it on trust"))
    assert cache.recall_part(KEY) is None


def test_an_entry_answers_one_question_only(cache: Cache) -> None:
    (entry,) = Path(cache.folder).glob("*.part")
    cache.keep_part((*KEY, "another"), ("another",))
    (other,) = set(Path(cache.folder).glob("*.part")) - {entry}
    shutil.copy(entry, other)
    assert cache.recall_part((*KEY, "another")) is None


def test_another_user_has_another_key(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another"))
    other = Cache(cache.folder)
    assert other.recall_part(KEY) is None
    other.keep_part(KEY, ("as another sees it",))
    assert other.recall_part(KEY) == ("as another sees it",)
    assert cache.recall_part(KEY) == ("as it was",)


def test_a_key_may_be_shared(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLINT_CACHE_KEY", "of the team")
    Cache(cache.folder).keep_part(KEY, ("shared",))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    assert Cache(cache.folder).recall_part(KEY) == ("shared",)
    monkeypatch.setenv("GRADLINT_CACHE_KEY", "of another team")
    assert Cache(cache.folder).recall_part(KEY) is None
    assert not (tmp_path / "another machine").exists()


def test_a_key_is_for_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("GRADLINT_CACHE_KEY", raising=False)
    with pytest.raises(FileNotFoundError):
        cachekey.key(make=False)
    key = cachekey.key(make=True)
    path = tmp_path / "gradlint" / "cache-key"
    assert [path] == list(path.parent.iterdir())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cachekey.key(make=False) == cachekey.key(make=True) == key == path.read_bytes()
    path.chmod(0o644)
    with pytest.raises(PermissionError, match="others may know"):
        cachekey.key(make=True)
    path.chmod(0o600)
    path.write_bytes(key[:7])
    with pytest.raises(PermissionError, match="others may know"):
        cachekey.key(make=True)
    path.write_bytes(key * 2)
    with pytest.raises(OSError, match="larger than 32 bytes"):
        cachekey.key(make=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_key_that_belongs_to_another_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cachekey.key(make=True)
    os.chown(tmp_path / "gradlint" / "cache-key", 65534, 65534)
    with pytest.raises(PermissionError, match="others may know"):
        cachekey.key(make=True)


def test_a_home_in_the_checked_folder_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cachekey.location() == str(tmp_path / "home" / ".local" / "state" / "gradlint" / "cache-key")
    monkeypatch.setenv("HOME", ".")
    with pytest.raises(FileNotFoundError, match="no home folder"):
        cachekey.location()
    cache = Cache(str(tmp_path / "cache"))
    cache.keep_part(KEY, ("kept",))
    assert "no home folder" in cache.trouble
    assert list(tmp_path.iterdir()) == []


def test_runs_at_the_same_time_make_one_key(tmp_path: Path) -> None:
    program = "import sys; from gradlint.cachekey import key; sys.stdout.write(key(make=True).hex())"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) for _ in range(8)
    ]
    assert len({run.communicate(timeout=60)[0] for run in runs}) == 1
    assert [path.name for path in (tmp_path / "gradlint").iterdir()] == ["cache-key"]


def test_what_is_kept_is_for_its_user_only(cache: Cache) -> None:
    (entry,) = Path(cache.folder).glob("*.part")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


# --- folders that cannot be written


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"no cache: (.*)", done.stderr)


def test_a_read_only_folder_is_read(as_ordinary_user: Run, project: Path) -> None:
    first = as_ordinary_user("--output-format", "concise", cwd=project)
    for path in (project / NAME).iterdir():
        os.utime(path, LONG_AGO)  # so that each use would be noted
    before = sorted((project / NAME).iterdir())
    (project / NAME).chmod(0o555)
    try:
        again = as_ordinary_user("--output-format", "concise", cwd=project)
        other = as_ordinary_user("--verbose", "--select", "GL501", cwd=project)
    finally:
        (project / NAME).chmod(0o755)
    assert (first.returncode, first.stdout, first.stderr) == (again.returncode, again.stdout, again.stderr)
    assert "GL501" in other.stdout
    assert told(other) == [f"{project / NAME}: Permission denied"]
    assert sorted((project / NAME).iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_costs_the_cache_only(as_ordinary_user: Run, project: Path) -> None:
    as_ordinary_user("--output-format", "concise", cwd=project)
    for path in [project / NAME, *(project / NAME).iterdir()]:
        os.chown(path, 65534, 65534)
    before = held(project / NAME)
    done = as_ordinary_user("--verbose", cwd=project)
    assert (done.returncode, told(done)) == (1, [f"{project / NAME}: Permission denied"])
    clean = as_ordinary_user("clean", cwd=project)
    assert clean.returncode == 2
    assert clean.stderr.startswith(f"gradlint clean: {project / NAME}")
    assert clean.stderr.endswith(": Permission denied\n")
    assert held(project / NAME) == before


def test_a_full_disk_costs_the_cache_only(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (120, 120));"
        "from gradlint.cli import main; sys.exit(main(['--verbose']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "GL501" in done.stdout
    assert told(done) == [f"{project / NAME}: File too large"]
    assert held(project / NAME) == cachefolder._BESIDE  # nothing half written is left


def test_in_a_folder_for_all_each_drops_his_own(
    by_descriptor: bool, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gradlint.cache._MOST_FILES", 1)
    for number in range(3):
        cache.keep_part((KEY, number), ("kept",))
    entries = sorted(Path(cache.folder).glob("*.part"))
    for entry in entries:
        os.utime(entry, (time.time() - 9, time.time() - 9))
    theirs = entries[0].name
    unlink = os.unlink

    def guarded(path: str, *arguments: Any, **options: Any) -> None:
        if os.path.basename(path) == theirs:  # noqa: PTH119
            raise PermissionError(1, "Operation not permitted", path)
        unlink(path, *arguments, **options)

    monkeypatch.setattr("gradlint.cachefolder.os.unlink", guarded)
    from gradlint.consulted import Consulted

    cache.remember(("request",), (), Consulted())
    assert [path.name for path in Path(cache.folder).glob("*.part")] == [theirs]
    assert len(list(Path(cache.folder).glob("*.checked"))) == 1
