"""Reading what may be anything: only regular files are opened, and none is read that is larger than can be borne.

A file of that name may be a pipe that nobody writes to, a device without an end, or grow while it is read.
"""

from __future__ import annotations

import errno
import os
import stat

_KIB, _MIB = 2**10, 2**20
_MOST = {".ipynb": 64 * _MIB, ".toml": 256 * _KIB}  #: bytes, by the end of a name
_MOST_OF_PATTERNS = _MIB  #: bytes, of what tells git what to ignore
_MOST_ELSE = 8 * _MIB  #: the largest Python file of a large project has less than half of it
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class NotRegularError(OSError):
    """A device, a pipe or the like."""


class TooLargeError(OSError):
    """A file of more bytes than can be borne."""


def most_bytes(path: str) -> int:
    """How many bytes a file may have, by its name."""
    name = os.path.basename(path)
    return _MOST_OF_PATTERNS if name in (".gitignore", "exclude") else _MOST.get(os.path.splitext(name)[1], _MOST_ELSE)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file of a bearable size.

    Raises:
        OSError: it cannot be read, is no regular file, or is too large.
    """
    return read_regular(os.fspath(path))[0]


def read_regular(
    path: str, most: int | None = None, *, folder: int | None = None, links: bool = True
) -> tuple[bytes, os.stat_result]:
    """The content of a regular file, and what it was like before it was read.

    Args:
        path: where it lies.
        most: how many bytes it may have; a bound that goes by its name when not given.
        folder: the descriptor of the folder that ``path`` is relative to.
        links: whether the last part of the path may be a symbolic link.

    Raises:
        OSError: it cannot be read, is no regular file, or is too large.
    """
    most = most_bytes(path) if most is None else most
    handle, seen = _opened(path, folder, links=links)
    try:
        if seen.st_size > most:
            raise too_large(path, most)
        data = _first(handle, most + 1, seen.st_size)
    finally:
        os.close(handle)
    if len(data) > most:
        raise too_large(path, most)
    return data, seen


def read_first(path: str, count: int, *, folder: int | None = None) -> bytes:
    """The first bytes of a regular file that is no link; fewer if it has no more.

    Args:
        path: where it lies.
        count: how many bytes.
        folder: the descriptor of the folder that ``path`` is relative to.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    handle, _ = _opened(path, folder, links=False)
    try:
        return _first(handle, count, count)
    finally:
        os.close(handle)


def _opened(path: str, folder: int | None, *, links: bool) -> tuple[int, os.stat_result]:
    _refuse(os.stat(path, dir_fd=folder, follow_symlinks=links), path)  # to open a device may do something
    handle = os.open(path, _FLAGS | (0 if links else _NO_LINK), dir_fd=folder)
    try:
        seen = os.fstat(handle)
        _refuse(seen, path)  # it may be another by now
    except BaseException:
        os.close(handle)
        raise
    return handle, seen


def _refuse(seen: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(seen.st_mode):
        raise NotRegularError(errno.EINVAL, "not a regular file", path)


def _first(handle: int, count: int, expected: int) -> bytes:
    """As many bytes as there are, up to ``count``; ``expected`` of them probably."""
    parts = []
    while count > 0 and (part := os.read(handle, min(count, max(expected + 1, 65536)))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def too_large(path: str, most: int) -> TooLargeError:
    """What is raised where a file has more than ``most`` bytes."""
    size = f"{most // _MIB} MiB" if most >= _MIB else f"{most // _KIB} KiB" if most >= _KIB else f"{most} bytes"
    return TooLargeError(errno.EFBIG, f"larger than {size}, which is too large to be read", path)
