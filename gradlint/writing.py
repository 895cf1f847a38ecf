"""Writing files that gradlint makes: reports and baselines."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write_file(path: Path, content: bytes) -> None:
    """Write a file at once, so that nobody ever reads half of it; one that exists keeps its permissions and links.

    What is no regular file, such as a pipe or ``/dev/stdout``, is written to.

    Raises:
        OSError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    try:
        mode = real.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG | (0o666 & ~_umask())
    if not stat.S_ISREG(mode):
        path.write_bytes(content)
        return
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.chmod(stat.S_IMODE(mode))
        draft.replace(real)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
