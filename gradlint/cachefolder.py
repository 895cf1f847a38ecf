"""The folder of the cache, in which nothing is touched but what gradlint has put there.

A folder with that name may come with a project that nobody trusts, hold files of others, or lead to some.  So it is
used only if no symbolic link of a project leads to it and it carries our tag, and a file in it is removed only if its
whole name and how it begins are ours.  Where the system allows it, all of this is asked of the folder that was opened,
whatever its path leads to by then.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from gradlint.reading import read_first, read_regular

TYPE_CHECKING = False  # typing alone costs a warm run more than the cache does
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

CHECKED, TOLD, PART = ".checked", ".told", ".part"
HEAD = b"gradlint cache "  #: how every entry begins, of whatever version
MOST_OF_ENTRY = 128 * 2**20  #: bytes
_TAG = "CACHEDIR.TAG"
_BESIDE = {  # the tag comes last: a folder that has it is complete
    ".gitignore": b"# made by gradlint\n*\n",
    _TAG: b"Signature: 8a477f597d28d172789f06886806bc55\n# made by gradlint; see https://bford.info/cachedir/\n",
}
_DIGITS = frozenset("0123456789")
_HEXADECIMAL = _DIGITS | frozenset("abcdef")
_BY_DESCRIPTOR = (
    {os.mkdir, os.open, os.rename, os.rmdir, os.stat, os.unlink, os.utime} <= os.supports_dir_fd
    and os.listdir in os.supports_fd
    and os.utime in os.supports_follow_symlinks
)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK | getattr(os, "O_CLOEXEC", 0)
_LINK = "a symbolic link, which is not followed"


class ForeignFolderError(OSError):
    """A folder that is not ours to use."""


class CacheFolder:
    """A folder, open as long as it is entered.

    Args:
        path: where it is.
        trusted: the folder at or above it below which no part of the path may be a symbolic link; the one that holds
            it when empty.
        make: whether it is made where there is none.

    Raises:
        OSError: a link leads to it, it is no folder, or cannot be opened.
    """

    def __init__(self, path: str, trusted: str = "", *, make: bool = False) -> None:
        self.path = path
        self._trusted = trusted or os.path.dirname(path)
        self._handle: int | None = None
        if make and not os.path.exists(self._trusted):
            os.makedirs(self._trusted, exist_ok=True)
        if _BY_DESCRIPTOR:
            self._handle = _opened(self._trusted, _parts(path, self._trusted), make=make)
        else:
            _walked(self._trusted, _parts(path, self._trusted), make=make)

    def __enter__(self) -> CacheFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def _at(self, name: str) -> str:
        return name if self._handle is not None else os.path.join(self.path, name)

    def names(self) -> list[str]:
        """What it holds."""
        return os.listdir(self.path if self._handle is None else self._handle)

    def read(self, name: str, most: int = MOST_OF_ENTRY) -> tuple[bytes, os.stat_result]:
        """The content of a file in it that is no link, and what it was like before."""
        return read_regular(self._at(name), most, folder=self._handle, links=False)

    def renew(self, name: str) -> None:
        """Mark a file as just used."""
        if self._handle is not None:
            os.utime(name, dir_fd=self._handle, follow_symlinks=False)
        else:
            os.utime(self._at(name))

    def seen(self, name: str) -> os.stat_result:
        """What a file is like."""
        return os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)

    def is_tagged(self) -> bool:
        """Whether it carries our tag."""
        return self._holds(_TAG)

    def _holds(self, name: str) -> bool:
        """Whether it has one of the files that stand beside the entries, just as we make it."""
        try:
            return self.read(name, len(_BESIDE[name]))[0] == _BESIDE[name]
        except OSError:
            return False

    def claim(self) -> None:
        """Tag it, and tell git to leave it alone, if it holds nothing of others.

        Raises:
            OSError: it does, or cannot be written.
        """
        if self.is_tagged():
            return
        names = self.names()
        if not all(is_entry(name) or is_draft(name) or self._holds_own(name) for name in names):
            raise ForeignFolderError(errno.EEXIST, "a folder that is no cache of gradlint, and not empty", self.path)
        for name, content in _BESIDE.items():
            self.replace(name, content)

    def replace(self, name: str, content: bytes) -> None:
        """Write a file at once.

        Raises:
            OSError: it cannot be written; what was there stays.
        """
        draft = f"{name}.{os.getpid()}-{time.monotonic_ns()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            handle = os.open(self._at(draft), flags, 0o666 if name in _BESIDE else 0o600, dir_fd=self._handle)
            with open(handle, "wb", buffering=0) as file:
                left = memoryview(content)
                while left:
                    left = left[file.write(left) or 0 :]
            os.replace(self._at(draft), self._at(name), src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except BaseException as error:
            self._drop(draft)
            if isinstance(error, OSError):
                error.filename = self.path
            raise

    def _drop(self, draft: str) -> None:
        try:
            os.unlink(self._at(draft), dir_fd=self._handle)
        except OSError:  # it may not even have been made
            return

    def remove(self, name: str) -> bool:
        """Remove a file if it is ours, and say whether it was.

        Raises:
            OSError: it is, and cannot be removed.
        """
        if not self.is_own(name):
            return False
        try:
            os.unlink(self._at(name), dir_fd=self._handle)
        except FileNotFoundError:  # another run has removed it
            return False
        except OSError as error:
            error.filename = os.path.join(self.path, name)
            raise
        return True

    def is_own(self, name: str) -> bool:
        """Whether a file is ours by its whole name, and by its content as far as that is always the same."""
        if not is_entry(name) and not is_draft(name):
            return self._holds_own(name)
        try:
            data = read_first(self._at(name), 128, folder=self._handle)
        except OSError:
            return False
        if is_entry(name):
            return data.startswith(HEAD)
        return any(data.startswith(head) or head.startswith(data) for head in (HEAD, *_BESIDE.values()))

    def _holds_own(self, name: str) -> bool:
        return name in _BESIDE and self._holds(name)

    def clean(self) -> bool:
        """Remove what is ours, and the folder if nothing else is in it; False if it does not carry our tag.

        Raises:
            OSError: something cannot be removed.
        """
        if not self.is_tagged():
            return False
        for name in sorted(self.names(), key=lambda name: (name in _BESIDE, name == _TAG)):  # the tag goes last
            self.remove(name)
        if not self.names():
            self._remove_folder()
        return True

    def _remove_folder(self) -> None:
        *above, last = _parts(self.path, self._trusted)
        if self._handle is None:
            os.rmdir(self.path)
            return
        handle = _opened(self._trusted, above)
        try:
            os.rmdir(last, dir_fd=handle)
        finally:
            os.close(handle)


def _parts(path: str, trusted: str) -> list[str]:
    return os.path.relpath(path, trusted).split(os.sep)


def _opened(trusted: str, parts: Sequence[str], *, make: bool = False) -> int:
    """The descriptor of a folder that no link leads to, each part opened from the one before."""
    try:
        path, handle = trusted, os.open(trusted, _FOLDER & ~_NO_LINK)
    except NotADirectoryError as error:
        error.filename = os.path.join(trusted, *parts)
        raise
    try:
        for part in parts:
            path = os.path.join(path, part)
            below = _opened_below(handle, part, path, make=make)
            os.close(handle)
            handle = below
    except BaseException:
        os.close(handle)
        raise
    return handle


def _opened_below(handle: int, part: str, path: str, *, make: bool) -> int:
    try:
        if make:
            _make(part, handle)
        if stat.S_ISLNK(os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode):
            raise ForeignFolderError(errno.ELOOP, _LINK, path)
        return os.open(part, _FOLDER, dir_fd=handle)
    except OSError as error:
        error.filename = path
        raise


def _walked(trusted: str, parts: Sequence[str], *, make: bool) -> None:
    """The same where folders have no descriptors: raises what stands in the way."""
    path = trusted
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise ForeignFolderError(errno.ELOOP, _LINK, path)
        if make:
            _make(path)
    if not os.path.isdir(path):
        os.listdir(path)


def _make(path: str, handle: int | None = None) -> None:
    try:
        os.mkdir(path, dir_fd=handle)
    except FileExistsError:
        return


def is_entry(name: str) -> bool:
    """Whether a file has the name of an entry, of this or an earlier version."""
    stem, suffix = os.path.splitext(name)
    return suffix in (CHECKED, TOLD, PART) and 8 <= len(stem) <= 64 and _HEXADECIMAL.issuperset(stem)


def is_draft(name: str) -> bool:
    """Whether a file has the name of one that is being written, or was when a run crashed."""
    rest, suffix = os.path.splitext(name)
    final, _, numbers = rest.rpartition(".")
    process, dash, moment = numbers.partition("-")
    return (
        suffix == ".new"
        and bool(process and dash and moment)
        and _DIGITS.issuperset(process + moment)
        and (final in _BESIDE or is_entry(final))
    )
