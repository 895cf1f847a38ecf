"""``gradlint`` and ``python -m gradlint``."""

from __future__ import annotations

import gc
import io
import os
import sys

from gradlint.cache import Cache
from gradlint.cachedir import arguments_location


def main() -> int:
    """Run the command line, without importing it where what it would print is known; see :func:`gradlint.cli.main`."""
    told = _told(sys.argv[1:])
    if told is None:
        from gradlint.cli import main as run

        code = run()
        gc.freeze()  # it goes with the process: python would first look for garbage in it, for a tenth of the run
        return code
    out, err, code = told
    try:
        for stream, text in ((sys.stdout, out), (sys.stderr, err)):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            stream.write(text)
            stream.flush()
    except BrokenPipeError:
        code = 2
    os._exit(code)  # nothing is open that python would have to close, which costs a tenth of such a run


def _told(arguments: list[str]) -> tuple[str, str, int] | None:
    if "_GRADLINT_COMPLETE" in os.environ:  # a shell asks for completions, and shows no reports
        return None
    try:
        folder = arguments_location(arguments)
        return None if folder is None else Cache(folder).told(arguments)
    except Exception:  # noqa: BLE001 -- whatever is wrong with a cache, the run goes on without it
        return None


if __name__ == "__main__":
    sys.exit(main())
