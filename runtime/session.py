"""The guard: one watched stretch of a program."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import torch
from torch.optim import Optimizer

from gradlint.finding import Finding

from .assembly import needed
from .calls import BackwardCall, ForwardCall
from .delivery import FindingError as FindingError
from .delivery import FindingWarning as FindingWarning
from .delivery import OnFinding
from .distributed.ranks import Ranks
from .errors import explain, note
from .frames import forget_sites, user_site
from .judging import Judge, selected
from .log import Log
from .page.rendering import as_page
from .patches import interception
from .recording import Recording
from .records.modules import KnownModules
from .reporting import ALONE, left_out_in_short, told
from .roster import Roster

F = TypeVar("F", bound=Callable[..., Any])

_unseen = torch._C.DisableTorchFunction  # the user's own modes do not see what a guard looks at


class Guard:
    """Watches from ``__enter__`` to ``__exit__``; see :func:`gradlint.runtime.guard` for the arguments."""

    def __init__(
        self,
        *watched: Any,
        on_finding: OnFinding = "warn",
        select: str | Iterable[str] | None = None,
        ignore: str | Iterable[str] | None = None,
        exact: bool | float = False,
        rank_timeout: float = 10.0,
        logger: Any = None,
        include_libraries: bool = False,
    ) -> None:
        for thing in watched:
            if not isinstance(thing, (torch.nn.Module, Optimizer)):
                raise TypeError(f"guard() watches modules and optimizers, not {type(thing).__name__}")
        if not callable(on_finding) and on_finding not in ("warn", "raise", "collect"):
            raise ValueError(f"on_finding is 'warn', 'raise', 'collect' or a callable, not {on_finding!r}")
        if not 0 <= float(exact) <= 1:
            raise ValueError(f"exact is False, True or the fraction of steps to compare exactly, not {exact!r}")
        if not 0 <= rank_timeout < threading.TIMEOUT_MAX:
            raise ValueError(f"rank_timeout is a number of seconds, not {rank_timeout!r}")
        self._watched = [weakref.ref(thing) for thing in watched]
        self._on_finding = on_finding
        self._exact = float(exact)
        self._judge = Judge(selected(select, ignore))
        self._judge.include_libraries = include_libraries
        self._recording = self._judge.recording = Recording()
        self._log = Log(logger)
        self._lock = threading.RLock()
        self._modules = KnownModules()
        self.active = False  #: whether the guard is watching
        self.thread = 0  #: the thread that is watched
        self._depth = 0
        self._roster = Roster()
        self._ranks = Ranks(rank_timeout)
        self._gathered: list[Finding] | None = None
        self._world = ALONE
        self._told = 0
        self._failed = False

    @property
    def findings(self) -> list[Finding]:
        """What this process found so far, each mistake once, with how often it was seen."""
        return self._judge.findings

    @property
    def library_findings(self) -> list[Finding]:
        """What it found in code of installed packages and left out, each mistake once."""
        return list(self._judge.left_out.values())

    @property
    def told(self) -> list[Finding]:
        """What a report tells: ``findings``; after a distributed training, on rank 0, those of all ranks."""
        return self.findings if self._gathered is None else self._gathered

    @property
    def silent(self) -> bool:
        """Whether rank 0 of a distributed training tells what this process finds."""
        return self._ranks.silent

    def report(
        self,
        output_format: Literal["text", "concise", "json", "github", "gitlab", "junit", "sarif", "html"] = "text",
    ) -> str:
        """What was found so far, in a format of ``gradlint check``, or as an HTML page that needs no other file.

        The page shows the loop's events, the loss and gradient norms as well; its text says how to read it.
        """
        if output_format == "html":
            return as_page(self.told, self._recording, Path.cwd(), self._world, self.library_findings)
        return told(self.told, output_format, Path.cwd(), world=self._world, left_out=self._left_out())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file: HTML to ``….html``, JSON to ``….json``, text to any other.

        Raises:
            OSError: the file cannot be written.
        """
        formats: dict[str, Literal["html", "json"]] = {".html": "html", ".htm": "html", ".json": "json"}
        target = Path(path)
        target.write_text(self.report(formats.get(target.suffix.lower(), "text")), encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self.active = True
                self.thread = threading.get_ident()
                self._gathered, self._world = None, ALONE
                with _unseen():
                    self._prepare()
                self._ranks.begin()
                interception.activate(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        with self._lock:
            if self._depth != 1:
                self._depth = max(0, self._depth - 1)
                return False
            interception.deactivate(self)
            self._ranks.hurried = error is not None and not isinstance(error, SystemExit)
            if error is not None:
                self._explain(error)
            self.tell("finish", user_site(2), deliver=False)
            self._judge.finish()
            self._ranks.look()
            forget_sites()
            self._depth = 0
            self.active = False
            self._roster.close()
        try:
            self._deliver(raising=error is None)
        finally:
            self._gathered, self._world = self._ranks.end(self.findings)
            self._sum_up()
        return False

    def __call__(self, function: F) -> F:
        """Decorate ``function``: each call of it is watched; the findings of all calls add up."""
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[no-any-return]  # it has the signature of the function it wraps

    def __repr__(self) -> str:
        return f"<gradlint.guard: {'active' if self.active else 'not active'}, {len(self.findings)} findings>"

    # --- watching ----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Build the witnesses that the selected rules need."""
        things = [thing for reference in self._watched if (thing := reference()) is not None]
        self._modules = KnownModules()
        for thing in things:
            if isinstance(thing, torch.nn.Module):
                self._modules.add(thing)
        self._recording.on_norms = self._log.measured if self._log.wanted else None
        witnesses = needed(
            self._judge, self._recording, self._modules, things, self._exact, self._say_failed, interception.unwatched
        )
        self._ranks.on_meeting = lambda call: self.tell("ranks_met", call, deliver=False)
        witnesses += [self._ranks, *([self._log] if self._log.wanted else [])]
        self._roster = Roster(witnesses)

    def forward_ended(self, call: ForwardCall) -> None:
        """An outermost module has returned; one of those that are known from now on."""
        met = self._modules.meet(call.module)
        self.tell("forward_ended", call)
        if met:
            self.tell("module_met", call)
        if not (call.module.training and torch.is_grad_enabled()):
            self.tell("evaluated", call)

    def backward_ended(self, call: BackwardCall) -> None:
        """The autograd engine has run, or raised."""
        self.tell("backward_ended", call, raising=call.error is None)
        if call.retain:
            self.tell("graph_retained", call, raising=call.error is None)
        if call.error is not None:
            for finding in call.explained:
                note(call.error, finding)
            call.explained = ()

    def tell(self, event: str, call: object, raising: bool = True, deliver: bool = True) -> None:
        """Tell the witnesses what happens.

        Args:
            event: a name of :data:`gradlint.runtime.roster.EVENTS`.
            call: what is known about it, as the witnesses expect it.
            raising: whether a finding may be raised here.
            deliver: whether findings are delivered here.
        """
        judge = self._judge
        with self._lock, _unseen():
            judge.turn += 1
            for handler in self._roster.handlers[event]:
                try:
                    handler(call)
                except Exception as error:  # noqa: BLE001  whatever goes wrong in a witness, the training goes on
                    self._give_up(handler, error)
        if deliver and (judge.undelivered or self._log.waiting):
            self._deliver(raising)

    def _give_up(self, handler: Any, error: Exception) -> None:
        """A witness failed: do without it, and say so once."""
        witness = handler.__self__
        self._roster.dismiss(witness)
        self._say_failed(type(witness).__name__, error)

    def _explain(self, error: BaseException) -> None:
        try:
            explain(error, self._judge)
        except Exception as failure:  # noqa: BLE001  the user's error comes first
            self._say_failed("the explanation of an error", failure)

    def _say_failed(self, what: str, failure: Exception) -> None:
        if not self._failed:
            self._failed = True
            sys.stderr.write(
                f"gradlint: the guard failed in {what} ({type(failure).__name__}: {failure}); "
                "it goes on without it, and the training is not affected\n"
            )

    # --- telling -----------------------------------------------------------------------------------------------

    def _deliver(self, raising: bool) -> None:
        fresh = self._judge.fresh()
        if fresh:
            self._ranks.leave(self.findings)
        failure = self._log.deliver(fresh)
        if failure is not None:
            self._say_failed("the logger", failure)
        for finding in fresh:
            if callable(self._on_finding):
                self._on_finding(finding)
            elif self._on_finding == "warn" and not self.silent:
                where = finding.location
                warnings.warn_explicit(str(finding), FindingWarning, where.filename, where.row, registry={})
            elif self._on_finding == "raise" and raising:
                raise FindingError(finding)

    def _left_out(self) -> str:
        return left_out_in_short(self.library_findings, "include_libraries=True")

    def _sum_up(self) -> None:
        findings, left_out = self.told, self.library_findings
        many = len(findings) + len(left_out)
        if self._on_finding != "warn" or self.silent or (many == self._told and not self._world.unfinished):
            return
        self._told = many
        if self._world.size > 1:
            sys.stderr.write(told(findings, "concise", Path.cwd(), sys.stderr, self._world, self._left_out()))
            return
        if left_out:
            sys.stderr.write(f"gradlint: {self._left_out()}\n")
        if not findings:
            return
        counts = Counter({(finding.code, finding.name): 0 for finding in findings})
        for finding in findings:
            counts[finding.code, finding.name] += 1
        what = ", ".join(f"{count} {code} [{name}]" for (code, name), count in sorted(counts.items()))
        noun = "finding" if len(findings) == 1 else "findings"
        sys.stderr.write(f"gradlint: {len(findings)} {noun} while training: {what}\n")
