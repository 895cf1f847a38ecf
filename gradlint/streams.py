"""Standard output and standard error where they cannot be written: closed, or on a full disk."""

from __future__ import annotations

import errno
import os
import sys

#: errors that what is not buffered leaves no other trace of
_OF_WRITING = (errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, getattr(errno, "EDQUOT", 0))


def open_closed() -> None:
    """Put something in the place of streams that are closed, lest what is opened next be taken for them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)
            setattr(sys, name, nowhere)


def is_of_output(error: OSError) -> bool:
    """Whether an error came of writing to standard output or standard error; then python does not try again."""
    return (give_up() or error.errno in _OF_WRITING) and error.filename is None


def give_up() -> bool:
    """Let python not try again, as it ends, to write what could not be written; False if all could."""
    failed = False
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            failed = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return failed


def complain(error: OSError) -> None:
    """Say why something could not be printed, if that can be."""
    try:
        os.write(2, f"gradlint: the output cannot be written: {error.strerror}\n".encode())
    except OSError:
        return
