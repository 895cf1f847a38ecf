"""The key that entries of the cache are signed with: one for each user, outside of any project."""

from __future__ import annotations

import errno
import os
import stat
import time
from _blake2 import blake2b  # from hashlib, it costs a warm run more than the rest of the cache

from gradlint.reading import read_regular

VARIABLE = "GRADLINT_CACHE_KEY"
_SIZE = 32  #: bytes


def key(*, make: bool) -> bytes:
    """The key of whoever runs this: from the environment, or else from a file that only he can read.

    Args:
        make: make one where there is none.

    Raises:
        OSError: there is none, or it could not be made, or others can read or have written it.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return blake2b(os.fsencode(given), digest_size=_SIZE).digest()
    path = location()
    try:
        return _read(path)
    except FileNotFoundError:
        if not make:
            raise
    _make(path)
    return _read(path)


def location() -> str:
    """The file that holds it.

    Raises:
        OSError: nobody knows where the user keeps such files.
    """
    for given in (os.environ.get("XDG_STATE_HOME"), os.environ.get("LOCALAPPDATA") if os.name == "nt" else None):
        if given and os.path.isabs(given):
            return os.path.join(given, "gradlint", "cache-key")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # below a checked folder, perhaps
        raise FileNotFoundError(errno.ENOENT, "no home folder to keep a key in", home)
    return os.path.join(home, ".local", "state", "gradlint", "cache-key")


def _read(path: str) -> bytes:
    data, seen = read_regular(path, _SIZE)
    if len(data) != _SIZE or (
        hasattr(os, "geteuid") and (seen.st_uid != os.geteuid() or stat.S_IMODE(seen.st_mode) & 0o077)
    ):
        raise PermissionError(errno.EPERM, "a key that others may know: remove it, and another will be made", path)
    return data


def _make(path: str) -> None:
    """Make a key, unless another run does at this moment."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}-{time.monotonic_ns()}.new"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with open(handle, "wb", buffering=0) as file:
            if file.write(os.urandom(_SIZE)) != _SIZE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        _put(draft, path)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)


def _put(draft: str, path: str) -> None:
    """Give the draft its name, unless there is a file of that name by now."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except (OSError, NotImplementedError):  # a file system without hard links
        os.replace(draft, path)
