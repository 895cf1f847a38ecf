"""The result cache: what earlier runs came to, kept as long as everything they consulted stays as it was.

Three kinds of files lie in its folder.  ``*.checked`` holds, for what was asked to be checked, the report and
all that was consulted for it; ``*.told`` holds, for a command line, what was printed of such a report.  With both,
a run in which nothing has changed prints the same without importing anything but this module and
:mod:`gradlint.consulted`.  ``*.part`` holds, for files that imports connect, what their analysis came to, and what
from: where something has changed, only the parts are analysed that it belongs to, whatever is checked with them.

A file is replaced at once, so that runs at the same time and crashes do no harm; one that is damaged, or of another
version, is as good as none.  Each is signed with a key that only the user has who made it, and that is asked for before
anything else: the folder may come with a project, or be open to others, and what they put there must neither be told
as a result of gradlint nor reach ``marshal``, which takes what it reads on trust.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from _blake2 import blake2b  # from hashlib, it costs a warm run more than the rest of the cache

from gradlint import __version__
from gradlint.cachefolder import CHECKED, HEAD, PART, TOLD, CacheFolder, is_draft, is_entry
from gradlint.cachekey import key as secret_key
from gradlint.consulted import MARKERS, Consulted

TYPE_CHECKING = False  # typing alone costs a warm run more than all that is below
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Place = tuple[str, str]

NAME = ".gradlint_cache"
VARIABLE = "GRADLINT_CACHE_DIR"
_HEAD = HEAD + f"2 {marshal.version}\n".encode()
_SIGNATURE = 16  #: bytes
_MOST_FILES, _MOST_BYTES, _MOST_OF_ENTRY = 10_000, 256 * 2**20, 64 * 2**20
_DAY = 86_400


def location(asked: str | None = None, here: str = "", configured: Place | None = None) -> Place:
    """The folder of the cache: the one asked for, that of the environment or configuration, or one of the project.

    Of a folder that the user asks for, links are followed; in a project there must be none, because it may have them
    lead anywhere.

    Args:
        asked: what the command line says.
        here: a folder of the project; the current one when empty.
        configured: what the configuration says; it names no folder to trust where links are to be followed.

    Returns:
        The folder, and the one above it below which no link is followed.
    """
    given = asked or os.environ.get(VARIABLE)
    if not given and configured is not None:
        if configured[1]:
            return configured
        given = configured[0]
    if given:
        path = os.path.realpath(given)
        return path, os.path.dirname(path)
    root = _root(os.path.abspath(here))
    return os.path.join(root, NAME), root


def _root(folder: str) -> str:
    above = folder
    while not any(os.path.exists(os.path.join(above, marker)) for marker in MARKERS):
        parent = os.path.dirname(above)
        if parent == above:
            return folder
        above = parent
    return above


class Cache:
    """The files of one cache, as one process uses them.

    Args:
        folder: where they are; it need not exist.
        trusted: the folder above it below which no link is followed; the one that holds it when empty.
    """

    def __init__(self, folder: str, trusted: str = "") -> None:
        self.folder = folder
        self._trusted = trusted
        self.trouble = ""  #: why nothing could be written
        self._secret: bytes | None = None

    def recall(self, request: tuple[Any, ...]) -> tuple[bytes, bytes] | None:
        """What a request came to (marshalled) and its mark, if everything consulted for it is as it was."""
        key = (_program(), request)
        found = self._read(key, CHECKED)
        if found is None:
            return None
        mark, stored, result = found
        consulted = Consulted(stored)
        if not consulted.holds():
            return None
        if consulted.renewed:
            self._write(key, CHECKED, (mark, consulted.stored(), result))
        return result, mark

    def remember(self, request: tuple[Any, ...], result: tuple[Any, ...], consulted: Consulted) -> bytes:
        """Keep what a request came to, and return its mark."""
        key = (_program(), request)
        mark = os.urandom(16)
        self._write(key, CHECKED, (mark, consulted.stored(), marshal.dumps(result)), prune=True)
        return mark

    def told(self, arguments: Sequence[str]) -> tuple[str, str, int] | None:
        """What a command line printed, on standard output and standard error, and its exit code, if it would again."""
        key = (_program(), tuple(arguments), _surroundings())
        found = self._read(key, TOLD)
        if found is None:
            return None
        request, mark, out, err, code = found
        recalled = self.recall(request)
        return (out, err, code) if recalled is not None and recalled[1] == mark else None

    def tell(
        self, arguments: Sequence[str], request: tuple[Any, ...], mark: bytes, printed: tuple[str, str, int]
    ) -> None:
        """Keep what a command line printed of the report with this mark."""
        key = (_program(), tuple(arguments), _surroundings())
        self._write(key, TOLD, (request, mark, *printed))

    def recall_part(self, key: tuple[Any, ...]) -> Any:
        """What was kept of a part; None if nothing was."""
        found = self._read(key, PART)
        return None if found is None else found[0]

    def keep_part(self, key: tuple[Any, ...], content: tuple[Any, ...]) -> None:
        """Keep what a part came to, and what from."""
        self._write(key, PART, (content,))

    def clean(self) -> bool:
        """Remove the cache, and its folder if nothing else is in it; False if there is none.

        Raises:
            OSError: it cannot be removed, or is a symbolic link.
        """
        try:
            with CacheFolder(self.folder, self._trusted) as folder:
                return folder.clean()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _signature(self, *parts: bytes | memoryview, make: bool = False) -> bytes:
        """What nobody can tell who has not the key.

        Raises:
            OSError: there is no key, or none that is ours alone; with ``make``, none could be made.
        """
        if self._secret is None:
            self._secret = secret_key(make=make)
        digest = blake2b(key=self._secret, digest_size=_SIGNATURE)
        for part in parts:
            digest.update(part)
        return digest.digest()

    def _name(self, key: tuple[Any, ...], suffix: str, *, make: bool = False) -> str:
        return self._signature(repr(key).encode("utf-8", "surrogatepass"), make=make).hex() + suffix

    def _read(self, key: tuple[Any, ...], suffix: str) -> Any:
        """What is kept under a key, without the key."""
        try:
            name = self._name(key, suffix)
            with CacheFolder(self.folder, self._trusted) as folder:
                data, seen = folder.read(name)
                begin, body = data[: len(_HEAD) + _SIGNATURE], memoryview(data)[len(_HEAD) + _SIGNATURE :]
                if begin != _HEAD + self._signature(_HEAD, body):
                    return None
                if time.time() - seen.st_mtime > _DAY:
                    _renew(folder, name)
        except OSError:
            return None
        found = marshal.loads(body)  # noqa: S302 -- nobody but us has written it
        return found[1:] if isinstance(found, tuple) and found[:1] == (key,) else None

    def _write(self, key: tuple[Any, ...], suffix: str, content: tuple[Any, ...], *, prune: bool = False) -> None:
        body = marshal.dumps((key, *content))
        if len(body) > _MOST_OF_ENTRY:
            return
        try:
            name = self._name(key, suffix, make=True)
            with CacheFolder(self.folder, self._trusted, make=True) as folder:
                folder.claim()
                folder.replace(name, b"".join((_HEAD, self._signature(_HEAD, body), body)))
                if prune:
                    _prune(folder)
        except OSError as error:
            self.trouble = f"{error.filename or self.folder}: {error.strerror}"


def _renew(folder: CacheFolder, name: str) -> None:
    """Let stay what is used."""
    try:
        folder.renew(name)
    except OSError:  # it may be read-only: then nothing else is kept or dropped there either
        return


def _prune(folder: CacheFolder) -> None:
    """Drop what was not used for longest where there is too much, and what crashed runs left."""
    kept: list[tuple[float, int, str]] = []
    dropped: list[str] = []
    for name in folder.names():
        try:
            seen = folder.seen(name)
        except OSError:  # another run drops the same
            continue
        if is_entry(name):
            kept.append((seen.st_mtime, seen.st_size, name))
        elif is_draft(name) and seen.st_mtime < time.time() - _DAY:
            dropped.append(name)
    total = 0
    for number, (_, size, name) in enumerate(sorted(kept, reverse=True)):
        total += size
        if number >= _MOST_FILES or total > _MOST_BYTES:
            dropped.append(name)
    for name in dropped:
        try:
            folder.remove(name)
        except OSError:  # those of others, in a folder where each may remove only his own
            continue


def _program() -> tuple[Any, ...]:
    """What is not read from the disk and yet decides what a run comes to."""
    return __version__, sys.version, sys.prefix, tuple(sys.path), os.getcwd()


def _surroundings() -> tuple[Any, ...]:
    """What decides how a report is printed."""
    return sys.stdout.isatty(), *map(os.environ.get, ("NO_COLOR", "FORCE_COLOR", "TERM"))
