"""The result cache: what earlier runs came to, kept as long as everything they consulted stays as it was.

Three kinds of files lie in its folder.  ``*.checked`` holds, for what was asked to be checked, the report and
all that was consulted for it; ``*.told`` holds, for a command line, what was printed of such a report.  With both,
a run in which nothing has changed prints the same without importing anything but this module and
:mod:`gradlint.consulted`.  ``*.part`` holds, for files that imports connect, what their analysis came to, and what
from: where something has changed, only the parts are analysed that it belongs to, whatever is checked with them.

A file is replaced at once, so that runs at the same time and crashes do no harm; one that is damaged, or of another
version, is as good as none.  They are read by ``marshal``, which makes data of them and executes nothing.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
import zlib

from gradlint import __version__
from gradlint.consulted import MARKERS, Consulted

TYPE_CHECKING = False  # typing alone costs a warm run more than all that is below
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

NAME = ".gradlint_cache"
VARIABLE = "GRADLINT_CACHE_DIR"
CHECKED, TOLD, PART = ".checked", ".told", ".part"
_HEAD = f"gradlint cache 1 {marshal.version}\n".encode()
_TAG = "CACHEDIR.TAG"
_BESIDE = {
    ".gitignore": b"# made by gradlint\n*\n",
    _TAG: b"Signature: 8a477f597d28d172789f06886806bc55\n# made by gradlint; see https://bford.info/cachedir/\n",
}
_MOST_FILES, _MOST_BYTES = 10_000, 256 * 2**20
_DAY = 86_400


def location(asked: str | None = None, here: str = "") -> str:
    """The folder of the cache: the one asked for, that of the environment, or one at the root of the project.

    Args:
        asked: what the command line says.
        here: a folder of the project; the current one when empty.
    """
    given = asked or os.environ.get(VARIABLE)
    return os.path.abspath(given) if given else os.path.join(_root(os.path.abspath(here)), NAME)


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
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.trouble = ""  #: why nothing could be written
        self._prepared = False

    def recall(self, request: tuple[Any, ...]) -> tuple[bytes, bytes] | None:
        """What a request came to (marshalled) and its mark, if everything consulted for it is as it was."""
        key = (_program(), request)
        found = self._read(_name(key, CHECKED), key)
        if found is None:
            return None
        mark, stored, result = found
        consulted = Consulted(stored)
        if not consulted.holds():
            return None
        if consulted.renewed:
            self._write(_name(key, CHECKED), (key, mark, consulted.stored(), result))
        return result, mark

    def remember(self, request: tuple[Any, ...], result: tuple[Any, ...], consulted: Consulted) -> bytes:
        """Keep what a request came to, and return its mark."""
        key = (_program(), request)
        mark = os.urandom(16)
        self._write(_name(key, CHECKED), (key, mark, consulted.stored(), marshal.dumps(result)))
        self._prune()
        return mark

    def told(self, arguments: Sequence[str]) -> tuple[str, str, int] | None:
        """What a command line printed, on standard output and standard error, and its exit code, if it would again."""
        key = (_program(), tuple(arguments), _surroundings())
        found = self._read(_name(key, TOLD), key)
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
        self._write(_name(key, TOLD), (key, request, mark, *printed))

    def recall_part(self, key: tuple[Any, ...]) -> Any:
        """What was kept of a part; None if nothing was."""
        found = self._read(_name(key, PART), key)
        return None if found is None else found[0]

    def keep_part(self, key: tuple[Any, ...], content: tuple[Any, ...]) -> None:
        """Keep what a part came to, and what from."""
        self._write(_name(key, PART), (key, content))

    def clean(self) -> bool:
        """Remove the cache, and its folder if nothing else is in it; False if there is none.

        Raises:
            OSError: it cannot be removed.
        """
        try:
            own = [name for name in os.listdir(self.folder) if _is_own(name)]
        except (FileNotFoundError, NotADirectoryError):
            return False
        for name in own:
            os.unlink(os.path.join(self.folder, name))
        if not os.listdir(self.folder):
            os.rmdir(self.folder)
        return bool(own)

    def _read(self, name: str, key: tuple[Any, ...]) -> Any:
        """What is kept under a key, without the key."""
        path = os.path.join(self.folder, name)
        try:
            with open(path, "rb") as file:
                age = time.time() - os.fstat(file.fileno()).st_mtime
                data = file.read()
        except OSError:
            return None
        start = len(_HEAD) + 4
        if data[: len(_HEAD)] != _HEAD or zlib.crc32(data[start:]).to_bytes(4, "little") != data[len(_HEAD) : start]:
            return None
        try:
            found = marshal.loads(data[start:])  # noqa: S302 -- it makes data of it and executes nothing
        except (EOFError, TypeError, ValueError):
            return None
        if not isinstance(found, tuple) or found[:1] != (key,):
            return None
        if age > _DAY:  # what is used stays
            try:
                os.utime(path)
            except OSError:
                return found[1:]
        return found[1:]

    def _write(self, name: str, content: tuple[Any, ...]) -> None:
        body = marshal.dumps(content)
        try:
            if not self._prepared:
                self._prepare()
            self._replace(name, _HEAD + zlib.crc32(body).to_bytes(4, "little") + body)
        except OSError as error:
            self.trouble = f"{error.filename or self.folder}: {error.strerror}"

    def _prepare(self) -> None:
        """Make the folder, and tell backups and git to leave it alone, if it holds nothing of others."""
        os.makedirs(self.folder, exist_ok=True)
        names = os.listdir(self.folder)
        if not _BESIDE.keys() <= set(names) and all(map(_is_own, names)):
            for name, content in _BESIDE.items():
                self._replace(name, content)
        self._prepared = True

    def _replace(self, name: str, content: bytes) -> None:
        path = os.path.join(self.folder, name)
        draft = f"{path}.{os.getpid()}-{time.monotonic_ns()}.new"
        try:
            with open(draft, "xb") as file:
                file.write(content)
            os.replace(draft, path)
        except BaseException:
            if os.path.exists(draft):
                os.unlink(draft)
            raise

    def _prune(self) -> None:
        """Drop what was not used for longest where there is too much, and what crashed runs left."""
        kept: list[tuple[float, int, str]] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    seen = entry.stat()
                    if entry.name.endswith((CHECKED, TOLD, PART)):
                        kept.append((seen.st_mtime, seen.st_size, entry.path))
                    elif _is_own(entry.name) and entry.name not in _BESIDE and seen.st_mtime < time.time() - _DAY:
                        os.unlink(entry.path)
            total = 0
            for number, (_, size, path) in enumerate(sorted(kept, reverse=True)):
                total += size
                if number >= _MOST_FILES or total > _MOST_BYTES:
                    os.unlink(path)
        except OSError:  # another run drops the same
            return


def _program() -> tuple[Any, ...]:
    """What is not read from the disk and yet decides what a run comes to."""
    return __version__, sys.version, sys.prefix, tuple(sys.path), os.getcwd()


def _surroundings() -> tuple[Any, ...]:
    """What decides how a report is printed."""
    return sys.stdout.isatty(), *map(os.environ.get, ("NO_COLOR", "FORCE_COLOR", "TERM"))


def _name(key: tuple[Any, ...], suffix: str) -> str:
    return f"{zlib.crc32(repr(key).encode('utf-8', 'surrogatepass')):08x}{suffix}"


def _is_own(name: str) -> bool:
    return name in _BESIDE or name.endswith((CHECKED, TOLD, PART, ".new"))
