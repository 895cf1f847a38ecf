"""Places in the running program: the first frame of the user's own code, located only when a finding needs it."""

from __future__ import annotations

import itertools
import linecache
import os
import re
import sys
from pathlib import Path
from types import CodeType, FrameType

import torch

import gradlint
from gradlint.finding import Location

_FRAMEWORKS = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]"
    r"(?:torch|torchvision|functorch|lightning|lightning_fabric|pytorch_lightning|accelerate|transformers)[/\\]"
)
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_STANDARD = (f"{Path(os.__file__).parent}{os.sep}", "<frozen ")
_OWN = tuple(f"{Path(path).resolve().parent}{os.sep}" for path in (torch.__file__, gradlint.__file__, __file__))
_DISPATCHING = (
    f"{Path(__file__).resolve().parent}{os.sep}",
    str(Path(torch.overrides.__file__)),
    str(Path(torch.nn.functional.__file__)),
)
_FUNCTIONS = str(Path(torch.autograd.function.__file__))
MANY = 4096  #: sites, above which all are forgotten: a program may compile code without end
_GENERATED = ("<frozen ", "<eval_with_key>", "<torch_package")

_packages: dict[str, str] = {}  # by file name: the package it is installed with, empty for none
_foreign: dict[str, bool] = {}  # by file name: whether its frames are passed over
_sites: dict[tuple[int, int], FrameSite] = {}  # by id of the code, which each keeps alive, and instruction
_paths: dict[str, str] = {}  # by file name: its path, from before the program changes its directory


def is_foreign(filename: str) -> bool:
    """Whether a file belongs to torch, a known framework, or gradlint itself."""
    verdict = _foreign.get(filename)
    if verdict is None:
        path = filename if filename.startswith("<") else str(Path(filename).resolve())
        _paths[filename] = path if filename.startswith("<") else str(Path(filename).absolute())
        verdict = path.startswith(_OWN + _GENERATED) or _FRAMEWORKS.search(path) is not None
        _foreign[filename] = verdict
    return verdict


def is_installed(filename: str) -> bool:
    """Whether a file belongs to an installed package, however it is linked to, or to Python itself."""
    if filename.startswith(_STANDARD) or _INSTALLED.search(filename) is not None:
        return True
    return not filename.startswith("<") and _INSTALLED.search(str(Path(filename).resolve())) is not None


def package_of(filename: str) -> str:
    """The installed package that a file belongs to; empty for code of the user's own, or of the program's package."""
    package = _packages.get(filename)
    if package is None:
        package = _packages[filename] = _package_of(filename)
    return "" if package and package == _program() else package


def _package_of(filename: str) -> str:
    if is_foreign(filename) or not is_installed(filename):
        return ""
    found = _INSTALLED.search(filename) or _INSTALLED.search(str(Path(filename).resolve()))
    if found is None:
        return "Python"
    return found[1].removesuffix(".py")


def _program() -> str:
    """The installed package whose module, or whose script, is being run: not cached, for its package comes first."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name.partition(".")[0])
    found = _INSTALLED.search(str(getattr(main, "__file__", None) or ""))
    return found[1].removesuffix(".py") if found else ""


def path_of(filename: str) -> str:
    """The absolute path of a file that code names."""
    is_foreign(filename)
    return _paths[filename]


class FrameSite:
    """An instruction of a code object: where a call of the user's program was when something happened."""

    __slots__ = ("_hash", "caller", "code", "lasti", "line")

    def __init__(self, code: CodeType, lasti: int, line: int, caller: FrameSite | None = None) -> None:
        self.code = code
        self.lasti = lasti
        self.line = line
        self.caller = caller  #: for code of an installed package: where the user's own first called it
        self._hash = hash((id(code), lasti))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameSite) and self.code is other.code and self.lasti == other.lasti

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: FrameSite) -> bool:
        return (self.code.co_filename, self.line, self.lasti) < (other.code.co_filename, other.line, other.lasti)

    def __repr__(self) -> str:
        return f"FrameSite({self.code.co_filename}:{self.line})"

    def locate(self) -> Location:
        """The expression that was being evaluated, as a range of its source text."""
        filename = path_of(self.code.co_filename)
        start, end, first, last = next(
            itertools.islice(self.code.co_positions(), self.lasti // 2, None), (None, None, None, None)
        )
        if start is None or end is None or first is None or last is None:
            return Location(filename, self.line or 1, 1, self.line or 1, 1)
        return Location(filename, start, _column(filename, start, first), end, _column(filename, end, last))


def _column(filename: str, row: int, offset: int) -> int:
    """The column of a byte offset: positions of code count UTF-8 bytes, locations count characters."""
    text = linecache.getline(filename, row).encode("utf-8")
    return len(text[:offset].decode("utf-8", "replace")) + 1 if text else offset + 1


def user_site(depth: int = 1) -> FrameSite:
    """Where the user's program is now: the innermost frame outside torch, the known frameworks and gradlint.

    When every frame is theirs (a callback in a device thread), the outermost frame stands in.

    Args:
        depth: how many frames to pass over without looking, counted from the caller.
    """
    frame: FrameType | None = sys._getframe(depth)
    last = frame
    while frame is not None:
        code = frame.f_code
        foreign = _foreign.get(code.co_filename)
        if foreign is None:
            foreign = is_foreign(code.co_filename)
        if not foreign:
            return _sites.get((id(code), frame.f_lasti)) or site_of(frame)
        last, frame = frame, frame.f_back
    assert last is not None
    return site_of(last)


def site_of(frame: FrameType) -> FrameSite:
    """Where a frame is now.  What happens at one place again and again is given the same site."""
    code = frame.f_code
    key = id(code), frame.f_lasti
    site = _sites.get(key)
    if site is None:
        if len(_sites) >= MANY:
            _sites.clear()
        caller = _caller(frame.f_back) if package_of(code.co_filename) else None
        site = _sites[key] = FrameSite(code, frame.f_lasti, frame.f_lineno, caller)
    return site


def _caller(frame: FrameType | None) -> FrameSite | None:
    """The innermost frame of the user's own, from ``frame`` on outwards."""
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_foreign(filename) and not package_of(filename):
            return site_of(frame)
        frame = frame.f_back
    return None


def forget_sites() -> None:
    """Keep no code alive any longer; sites that are in use stay what they are."""
    _sites.clear()


def calling_frame(frame: FrameType) -> FrameType | None:
    """The frame that called a function of torch, seen from a function mode; None where the caller is no user's.

    Passed over are gradlint's own frames, those that dispatch to the mode, and the Python part of the function.
    """
    current: FrameType | None = frame
    while current is not None and current.f_code.co_filename.startswith(_DISPATCHING):
        current = current.f_back
    if current is None or is_foreign(current.f_code.co_filename):
        return None
    return current


def is_in_function(frame: FrameType) -> bool:
    """Whether the user's own ``autograd.Function`` is running, which defines its gradients itself."""
    current: FrameType | None = frame
    while current is not None:
        before = current.f_back
        if (
            before is not None
            and before.f_code.co_filename == _FUNCTIONS
            and not is_foreign(current.f_code.co_filename)
        ):
            return True
        current = before
    return False
