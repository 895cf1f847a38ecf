"""``gradlint run``: a program of its own, run as ``python`` would run it, with a guard around it.

The guard begins when the program has imported torch, not before: what a program does ahead of that import
(environment variables, thread counts) keeps its effect.  Nothing here imports torch.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import itertools
import os
import sys
import threading
import types
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gradlint
from gradlint.configuration import Configuration
from gradlint.finding import Finding
from gradlint.refusal import Refusal
from gradlint.selection import Choice
from gradlint.settings import overriding

from .filtering import Filter
from .reporting import ALONE, left_out_in_short, told

if TYPE_CHECKING:
    from .session import Guard

OnFinding = Literal["warn", "raise", "collect"]
_OURS = f"{Path(__file__).parent}{os.sep}"


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: ``python TARGET ARGUMENTS…`` or ``python -m TARGET ARGUMENTS…``."""

    target: str
    arguments: tuple[str, ...] = ()
    as_module: bool = False


@dataclass(frozen=True, slots=True)
class Watching:
    """How it is watched, and where the report goes."""

    on_finding: OnFinding = "warn"
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    config: Path | None = None  #: the one configuration file to use
    isolated: bool = False  #: use none
    exact: float = 0.0
    rank_timeout: float = 10.0
    output_format: str | None = None  #: instead of the configured one
    output_file: Path | None = None  #: instead of standard error
    html: Path | None = None  #: where to write the report as a page too
    include_libraries: bool = False  #: tell what is found in code of installed packages, too


def run(program: Program, watching: Watching) -> object:
    """Run a program and report what the guard saw; what the program would have given to ``sys.exit()``.

    Raises:
        Refusal: there is nothing to run, no rule of that name, no torch, or a configuration that cannot be read.
        KeyboardInterrupt: the program was interrupted; python then ends as it would have without gradlint.
    """
    if importlib.util.find_spec("torch") is None:
        raise Refusal("gradlint run: PyTorch is not installed, and there is nothing to watch without it")
    process, cwd = os.getpid(), Path.cwd()
    watch = _Watch(watching, cwd, _folder(program, cwd))
    _take_arguments(program)
    watch.expect_torch()
    error: BaseException | None = None
    try:
        code, main = _load(program)
        sys.modules["__main__"] = main
        exec(code, vars(main))  # noqa: S102  it is what was asked for
    except Refusal:
        watch.end(None)
        raise
    except BaseException as raised:  # noqa: BLE001  python itself would end with it, and so do we
        error = raised
    error = watch.end(error)
    status = _status(error)
    if os.getpid() == process:  # a forked child that ends by itself reports nothing
        watch.report()
    if isinstance(error, KeyboardInterrupt):
        _interrupt()
    return status


def _folder(program: Program, cwd: Path) -> Path:
    """Where a program lies, or for a module is looked for."""
    path = cwd if program.as_module else Path(os.path.abspath(program.target))
    return path if path.is_dir() else path.parent


# --- the program ---------------------------------------------------------------------------------------------------


def _take_arguments(program: Program) -> None:
    """Set ``sys.argv`` and ``sys.path`` as python does before it looks for the program."""
    if not sys.flags.safe_path:
        own = {"", str(Path.cwd()), os.path.dirname(os.path.realpath(sys.argv[0]))}  # noqa: PTH120  as python does
        if gradlint.left_out is None and sys.path and sys.path[0] in own:
            del sys.path[0]
        if program.as_module:
            sys.path.insert(0, str(Path.cwd()))
        elif not _is_archive(program.target):
            sys.path.insert(0, os.path.dirname(os.path.realpath(program.target)))  # noqa: PTH120
    if not program.as_module and _is_archive(program.target):
        sys.path.insert(0, str(Path(program.target).absolute()))
    sys.argv = ["-m" if program.as_module else program.target, *program.arguments]


def _is_archive(target: str) -> bool:
    """Whether python takes this for a place with a ``__main__`` module: a folder, or a zip file."""
    return os.path.isdir(target) or (not target.endswith(".py") and zipfile.is_zipfile(target))


def _load(program: Program) -> tuple[Any, types.ModuleType]:
    """The code of a program, and the ``__main__`` module it runs in."""
    if not program.as_module:
        if _is_archive(program.target):
            spec = PathFinder.find_spec("__main__", [str(Path(program.target).absolute())])
            if spec is None:
                raise Refusal(f"gradlint run: can't find '__main__' module in {program.target!r}")
            return _of_spec(spec)
        return _of_script(program.target)
    spec = _find(program.target)
    if spec.submodule_search_locations is not None:
        try:
            spec = _find(f"{program.target}.__main__")
        except Refusal as refusal:
            package = program.target
            raise Refusal(f"{refusal}; {package!r} is a package and cannot be directly executed") from None
    code, main = _of_spec(spec)
    sys.argv[0] = spec.origin or program.target
    return code, main


def _find(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise Refusal(f"gradlint run: no module can be found for {name!r} ({type(error).__name__}: {error})") from None
    if spec is None:
        raise Refusal(f"gradlint run: no module named {name}")
    return spec


def _of_script(target: str) -> tuple[Any, types.ModuleType]:
    path = os.path.join(Path.cwd(), target)  # noqa: PTH118  a "./" stays, as with python
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise Refusal(f"gradlint run: can't open file {path!r}: {error.strerror}") from None
    main = _main(None, path, SourceFileLoader("__main__", path))
    return compile(source, path, "exec", dont_inherit=True), main


def _of_spec(spec: ModuleSpec) -> tuple[Any, types.ModuleType]:
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        raise Refusal(f"gradlint run: there is no code to run in {spec.name}")
    return code, _main(spec, spec.origin, loader)


def _main(spec: ModuleSpec | None, path: str | None, loader: Any) -> types.ModuleType:
    main: Any = types.ModuleType("__main__")
    main.__builtins__ = builtins
    main.__loader__ = loader
    main.__spec__ = spec
    main.__package__ = None if spec is None else spec.parent
    main.__file__ = path
    main.__cached__ = None if spec is None else spec.cached
    if sys.version_info < (3, 14):  # later ones make it when it is asked for
        main.__annotations__ = {}
    return main  # type: ignore[no-any-return]  # made as a module, two lines of attributes ago


def _status(error: BaseException | None) -> object:
    """What to give to ``sys.exit()``; an error that nobody caught is printed, as python prints it."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return error.code
    _forget_our_frames(error)
    traceback = error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    try:
        sys.excepthook(type(error), error, traceback)
    except SystemExit as end:
        return end.code
    except Exception:  # noqa: BLE001  a hook of the program's own that fails is no reason to lose its error
        sys.__excepthook__(*sys.exc_info())
        sys.__excepthook__(type(error), error, traceback)
    return 1


def _interrupt() -> None:
    """Let python end as after any interrupt, by the signal, without telling of it again."""
    last = sys.last_type, sys.last_value, sys.last_traceback

    def told_already(*_: object) -> None:
        sys.last_type, sys.last_value, sys.last_traceback = last

    sys.excepthook = told_already
    raise KeyboardInterrupt


def _forget_our_frames(error: BaseException) -> None:
    """Take the frames of gradlint out of the traceback of an error, and of those it came from."""
    pending, seen = [error], set[int]()
    while pending:
        error = pending.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = _of_the_program(error.__traceback__)
        pending += [other for other in (error.__cause__, error.__context__) if other is not None]
        if isinstance(error, BaseExceptionGroup):
            pending += error.exceptions


def _of_the_program(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of gradlint, nor those by which torch passes a call on to a mode of gradlint."""
    kept: list[types.TracebackType] = []
    passed_on = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_OURS) or (not kept and code.co_filename.startswith("<frozen importlib")):
            while kept and _is_dispatch(kept[-1]):
                passed_on = bool(kept.pop())
        else:
            if passed_on and kept[-1].tb_frame.f_code is code:
                kept.pop()
            passed_on = False
            kept.append(traceback)
        traceback = traceback.tb_next
    if not kept:
        return None
    for outer, inner in itertools.pairwise(kept):
        outer.tb_next = inner
    kept[-1].tb_next = None
    return kept[0]


def _is_dispatch(traceback: types.TracebackType) -> bool:
    overrides = sys.modules.get("torch.overrides")
    return overrides is not None and traceback.tb_frame.f_code.co_filename == overrides.__file__


# --- the watch -----------------------------------------------------------------------------------------------------


class _Watch:
    """A guard that begins when torch has been imported, with the settings that hold where the program lies."""

    def __init__(self, watching: Watching, cwd: Path, folder: Path) -> None:
        configuration = Configuration(
            watching.config, isolated=watching.isolated, override=overriding(output_format=watching.output_format)
        )
        choice = Choice("gradlint run: --", watching.select, watching.ignore, watching.extend_select)
        self._filter = Filter(configuration, choice)
        self._codes = self._filter.codes(folder)
        self._format = self._filter.settings(folder).output_format or "text"
        self._watching = watching
        self._cwd = cwd
        self._guard: Guard | None = None

    def expect_torch(self) -> None:
        """Begin now, or when torch is there."""
        if "torch" in sys.modules:
            self._begin()
        else:
            _when_imported("torch", self._begin)

    def _begin(self) -> None:
        from .session import Guard

        watching = self._watching
        self._guard = Guard(
            on_finding=self._tell if watching.on_finding == "warn" else watching.on_finding,
            select=self._codes,
            exact=watching.exact,
            rank_timeout=watching.rank_timeout,
            include_libraries=watching.include_libraries,
        )
        self._guard._judge.wants = self._filter.wants
        self._guard._ranks.name = "gradlint run"  # wherever each rank imports torch
        self._guard.__enter__()
        self._guard.thread = threading.main_thread().ident or 0  # whichever thread was the first to import torch

    def _tell(self, finding: Finding) -> None:
        """One line, at once: the end of a long training may be far.  Of a distributed one, rank 0 tells its own."""
        if self._guard is not None and self._guard.silent:
            return
        line = told([finding], "concise", self._cwd).partition("\n")[0]
        sys.stderr.write(f"gradlint: {line}\n")

    def end(self, error: BaseException | None) -> BaseException | None:
        """Stop watching; the error that the program ends with."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        if self._guard is None or not self._guard.active:
            return error
        try:
            self._guard.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except Exception as raised:  # noqa: BLE001  with on_finding="raise", a finding of the very end
            return raised
        return error

    def report(self) -> None:
        """Say what was found."""
        watching = self._watching
        if self._guard is not None and self._guard.silent:
            return
        findings = [self._filter.applied(finding) for finding in self._guard.told] if self._guard else []
        world = self._guard._world if self._guard else ALONE
        in_libraries = self._guard.library_findings if self._guard else []
        left_out = left_out_in_short(in_libraries, "--include-libraries")
        if watching.output_file is not None:
            text = told(findings, self._format, self._cwd, world=world, left_out=left_out)
            with _named_in_errors(watching.output_file):
                (self._cwd / watching.output_file).write_text(text, encoding="utf-8")
        elif findings or self._guard or self._format in ("json", "gitlab", "junit", "sarif"):
            stream = sys.stderr
            text = told(findings, self._format, self._cwd, stream, world, left_out)
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or replaced, by the program
                stream.write(text)
                stream.flush()
        if self._guard is not None and watching.html is not None:
            from .page.rendering import as_page

            with _named_in_errors(watching.html):
                page = as_page(findings, self._guard._recording, self._cwd, world, in_libraries)
                (self._cwd / watching.html).write_text(page, encoding="utf-8", errors="replace")
        if self._guard is None:
            sys.stderr.write("gradlint: the program did not import torch, and nothing was watched\n")


@contextlib.contextmanager
def _named_in_errors(path: Path) -> Any:
    try:
        yield
    except OSError as error:
        raise Refusal(f"gradlint run: cannot write {path}: {error.strerror}") from None


class _Finder:
    """Lets the import of one module go its way, and calls back after it."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find the module as the others would, with a loader that calls back once."""
        if name != self._name:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            try:
                self._then()
            except Exception as failure:  # noqa: BLE001  the program runs, watched or not
                sys.stderr.write(f"gradlint: the guard could not begin ({type(failure).__name__}: {failure})\n")

        with contextlib.suppress(AttributeError):  # a loader that takes no attributes: the guard does not begin
            loader.exec_module = exec_module


def _when_imported(name: str, then: Callable[[], None]) -> None:
    sys.meta_path.insert(0, _Finder(name, then))
