"""The magics: ``%%gradlint`` checks a cell before it runs, ``%gradlint_guard`` watches what runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic_arguments import MagicArgumentParser
from IPython.display import display

from gradlint.interactive.cells import check
from gradlint.interactive.watching import Watch
from gradlint.notebook import bound
from gradlint.refusal import Refusal
from gradlint.selection import Choice

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

_CHECK, _GUARD = "gradlint", "gradlint_guard"
_loaded: dict[int, Session] = {}  #: by the identity of the shell


def load(shell: InteractiveShell) -> None:
    """Give a shell the magics."""
    unload(shell)
    session = _loaded[id(shell)] = Session(shell)
    shell.register_magic_function(session.check, "cell", _CHECK)
    shell.register_magic_function(session.guard, "line", _GUARD)
    shell.events.register("post_run_cell", session.cell_ended)


def unload(shell: InteractiveShell) -> None:
    """Take the magics from a shell again, and end its guard."""
    session = _loaded.pop(id(shell), None)
    if session is None:
        return
    session.stop()
    shell.events.unregister("post_run_cell", session.cell_ended)
    shell.magics_manager.magics["cell"].pop(_CHECK, None)
    shell.magics_manager.magics["line"].pop(_GUARD, None)


def _parser(name: str, about: str) -> Any:
    parser = MagicArgumentParser(name, description=about, add_help=False)
    parser.add_argument(
        "--select", metavar="RULES", help="these rules only: codes, prefixes such as GL2, names, or ALL"
    )
    parser.add_argument("--ignore", metavar="RULES", default="", help="leave these rules out")
    parser.add_argument("--extend-select", metavar="RULES", default="", help="these rules too")
    return parser


_CHECKING = _parser(f"%%{_CHECK}", "Check the cell, with those before it in mind, and run it.")
_CHECKING.add_argument("--no-run", action="store_true", help="check it only")
_WATCHING = _parser(f"%{_GUARD}", "Watch what cells do to gradients, from now on.")
_WATCHING.add_argument("what", nargs="?", choices=("on", "off", "report"), help="on and off; report tells all so far")
_WATCHING.add_argument(
    "--exact", type=float, default=0.0, metavar="FRACTION", help="of the steps, on which saved tensors are compared"
)


class Session:
    """One shell, what has run in it, and the guard that watches it."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._not_run: set[int] = set()  #: the numbers of cells that were checked only
        self._failed: set[int] = set()  #: and of those that raised an error
        self._error: BaseException | None = None
        self._watch: Watch | None = None

    def check(self, line: str, cell: str) -> None:
        """Check a cell and run it; what is found comes before its output."""
        arguments = _CHECKING.parse_argstring(line)
        number = self._number(cell)
        cells = self._earlier(number) | {number: f"%%{_CHECK}\n{cell}"}
        try:
            shown, report = check(cells, _choice(_CHECK, arguments), Path.cwd())
            display(shown)
            _say(report.troubles)
        except Refusal as refusal:
            _say([str(refusal)])
        except Exception as error:  # noqa: BLE001 -- a fault of the checker must not keep the cell from running
            _say([f"gradlint: internal error: {type(error).__name__}: {error}"])
        if arguments.no_run:
            self._not_run.add(number)
            return
        result = self._run(cell, number)
        self._error = result.error_before_exec or result.error_in_exec

    check.__doc__ = _CHECKING.format_help()

    def _run(self, cell: str, number: int) -> ExecutionResult:
        """Run what stands below the magic, under the number and in the rows of the whole cell."""
        below = cell if cell.lstrip().startswith("%%") else f"# %%{_CHECK}\n{cell}"
        before, self._shell.execution_count = self._shell.execution_count, number
        try:
            return self._shell.run_cell(below)
        finally:
            self._shell.execution_count = before

    def guard(self, line: str) -> None:
        """Begin to watch, end it, or tell what was seen."""
        arguments = _WATCHING.parse_argstring(line)
        if arguments.what == "on":
            self._begin(arguments)
        elif self._watch is None:
            _say(["gradlint: the guard is off: %gradlint_guard on"])
        elif arguments.what == "report":
            display(self._watch.report())
        elif arguments.what == "off":
            watch = self._watch
            self.stop()
            fresh = watch.fresh()
            if fresh is not None:
                display(fresh)
            sys.stdout.write(f"gradlint: the guard is off; it has found {_count(watch)}\n")
        else:
            sys.stdout.write(f"gradlint: the guard is on; it has found {_count(self._watch)}\n")

    guard.__doc__ = _WATCHING.format_help()

    def _begin(self, arguments: Any) -> None:
        self.stop()
        try:
            self._watch = Watch(_choice(_GUARD, arguments), arguments.exact, Path.cwd(), self._name_of)
        except (Refusal, ModuleNotFoundError, ValueError) as error:
            _say([str(error)])

    def stop(self) -> None:
        """End the guard, if there is one."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def cell_ended(self, result: ExecutionResult) -> None:
        """Show what the guard saw; a cell fails that failed within a magic, so that no other is run after it."""
        if self._watch is not None:
            fresh = self._watch.fresh()
            if fresh is not None:
                display(fresh)
        if not result.info.store_history:  # the inner part of a cell
            return
        if self._error is not None and result.success:
            result.error_in_exec = self._error
        self._error = None
        if not result.success and result.execution_count is not None:
            self._failed.add(result.execution_count)

    def _number(self, cell: str) -> int:
        """The number of the cell that is running; of one that the history does not keep, what the next will have."""
        raw = self._shell.history_manager.input_hist_raw
        return max(1, len(raw) - 1 if cell.strip() in raw[-1] else len(raw))

    def _earlier(self, number: int) -> dict[int, str]:
        """The cells that have run before one; of those that failed, what they bind is not known."""
        raw = self._shell.history_manager.input_hist_raw
        ran = {n: raw[n] for n in range(1, min(number, len(raw))) if n not in self._not_run}
        return {n: bound(text) if n in self._failed else text for n, text in ran.items()}

    def _name_of(self, filename: str) -> str | None:
        name = self._shell.compile.format_code_name(filename)
        return None if name is None else str(name[1])


def _choice(magic: str, arguments: Any) -> Choice:
    def split(written: str) -> tuple[str, ...]:
        return tuple(one.strip() for one in written.split(",") if one.strip())

    select = None if arguments.select is None else split(arguments.select)
    return Choice(f"%{magic}: --", select, split(arguments.ignore), split(arguments.extend_select))


def _count(watch: Watch) -> str:
    count = len(watch.findings)
    return f"{count} mistake{'' if count == 1 else 's'}" if count else "nothing"


def _say(lines: list[str]) -> None:
    sys.stderr.writelines(f"{line}\n" for line in lines)
