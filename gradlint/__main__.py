"""``gradlint`` and ``python -m gradlint``."""

import os
import sys

import gradlint

if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != os.path.dirname(gradlint.__path__[0]):
    gradlint.left_out = sys.path.pop(0)  # the current folder: it may hold a re.py that somebody else has written

import gc
import io

from gradlint.cache import Cache
from gradlint.cachedir import arguments_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> int:
    """Run the command line, without importing it where what it would print is known; see :func:`gradlint.cli.main`."""
    if sys.stdout is None or sys.stderr is None:
        from gradlint.streams import open_closed

        open_closed()
    runs_program = sys.argv[1:2] == ["run"]  # which has an argv of its own, later
    try:
        told = _told(sys.argv[1:])
        if told is not None:
            _print(*told)
        if not runs_program:
            from gradlint.room import look_for_garbage_seldom

            look_for_garbage_seldom()
        from gradlint.cli import main as run

        code = run()
    except KeyboardInterrupt:  # before the command line could see to it
        if runs_program:
            raise
        return 130
    gc.freeze()  # it goes with the process: python would first look for garbage in it, for a tenth of the run
    return code


def _print(out: str, err: str, code: int) -> "NoReturn":
    """Print what is known, and end at once: nothing is open that python would have to close, for a tenth of the run."""
    try:
        for stream, text in ((sys.stdout, out), (sys.stderr, err)):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            stream.write(text)
            stream.flush()
    except BrokenPipeError:
        os._exit(2)
    except OSError as error:
        from gradlint.streams import complain

        complain(error)
        os._exit(2)
    os._exit(code)


def _told(arguments: list[str]) -> tuple[str, str, int] | None:
    if "_GRADLINT_COMPLETE" in os.environ:  # a shell asks for completions, and shows no reports
        return None
    try:
        folder = arguments_location(arguments)
        return None if folder is None else Cache(*folder).told(arguments)
    except Exception:  # noqa: BLE001 -- whatever is wrong with a cache, the run goes on without it
        return None


if __name__ == "__main__":
    sys.exit(main())
