"""Errors that autograd raises in the user's program, told as events: what they say, and where they were raised."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

from gradlint.events import (
    BackwardAsked,
    ChangedInPlace,
    ConvertedToNumpy,
    Event,
    NumberTaken,
    RequiresGradSet,
    Tensor,
)
from gradlint.facts import FALSE, TRUE, known
from gradlint.finding import Finding

from .frames import FrameSite, is_foreign, is_installed
from .judging import Judge
from .spelling import operation_at


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the source spells the operation that raised: ``loss.numpy()`` is ``.numpy()`` of ``loss``."""

    how: str
    operand: str


Build = Callable[[FrameSite, Spelling, re.Match[str]], Event]

_BUILDERS: list[tuple[re.Pattern[str], Build]] = []


def _raised_as(pattern: str) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        _BUILDERS.append((re.compile(pattern), build))
        return build

    return register


@_raised_as(r"Can't call numpy\(\) on Tensor that requires grad")
def _numpy_on_grad(site: FrameSite, spelling: Spelling, _: re.Match[str]) -> Event:
    tensor = Tensor(text=spelling.operand, requires_grad=TRUE)
    return ConvertedToNumpy(site=site, tensor=tensor, how=spelling.how or ".numpy()", grad_enabled=TRUE)


@_raised_as(r"can't convert (\w+):?\d* device type tensor to numpy")
def _numpy_on_device(site: FrameSite, spelling: Spelling, found: re.Match[str]) -> Event:
    tensor = Tensor(text=spelling.operand, device=known(found[1]))
    return ConvertedToNumpy(site=site, tensor=tensor, how=spelling.how or ".numpy()")


@_raised_as(r"leaf Variable that requires grad is being used in an in-place operation")
def _leaf_changed(site: FrameSite, spelling: Spelling, _: re.Match[str]) -> Event:
    tensor = Tensor(text=spelling.operand, requires_grad=TRUE, is_leaf=TRUE)
    return ChangedInPlace(site=site, tensor=tensor, how=spelling.how, grad_enabled=TRUE)


@_raised_as(r"you can only change requires_grad flags of leaf variables")
def _nonleaf_asked(site: FrameSite, spelling: Spelling, _: re.Match[str]) -> Event:
    tensor = Tensor(text=spelling.operand, requires_grad=TRUE, is_leaf=FALSE)
    return RequiresGradSet(site=site, tensor=tensor, value=FALSE, assigned=not spelling.how.endswith(")"))


@_raised_as(r"grad can be implicitly created only for scalar outputs")
def _nonscalar(site: FrameSite, spelling: Spelling, _: re.Match[str]) -> Event:
    root = Tensor(text=spelling.operand, requires_grad=TRUE, scalar=FALSE)
    return BackwardAsked(site=site, root=root, gradient_given=FALSE, noticed=TRUE)


@_raised_as(r"with (\d+) elements cannot be converted to Scalar")
def _many_elements(site: FrameSite, spelling: Spelling, _: re.Match[str]) -> Event:
    return NumberTaken(site=site, tensor=Tensor(text=spelling.operand, scalar=FALSE))


def explain(error: BaseException, judge: Judge) -> None:
    """Add to an error that leaves the guard, and to what it was raised from, what the rules know about it."""
    for raised in _chain(error):
        site = _raised_at(raised.__traceback__)
        if site is None or any("gradlint: " in note for note in getattr(raised, "__notes__", ())):
            continue
        for pattern, build in _BUILDERS:
            if found := pattern.search(str(raised)):
                for finding in judge.send(build(site, spelled(site), found)):
                    note(raised, finding)


def note(error: BaseException, finding: Finding) -> None:
    """Let an error of the user's program say what it is about, once."""
    text = f"gradlint: {finding}"
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)


def spelled(site: FrameSite) -> Spelling:
    """How the operation at ``site`` is written; empty where the source is not at hand."""
    operation = operation_at(site)
    if isinstance(operation, ast.Call) and isinstance(operation.func, ast.Attribute) and _is_method(operation):
        return Spelling(f".{operation.func.attr}()", ast.unparse(operation.func.value))
    if isinstance(operation, ast.Call):
        operands = [ast.unparse(argument) for argument in operation.args[:1]]
        return Spelling(ast.unparse(operation.func), operands[0] if operands else "")
    if isinstance(operation, ast.Attribute):
        return Spelling(f".{operation.attr}", ast.unparse(operation.value))
    if isinstance(operation, (ast.AugAssign, ast.Subscript)):
        target = operation.target if isinstance(operation, ast.AugAssign) else operation
        return Spelling(ast.unparse(operation), ast.unparse(target))
    return Spelling("", "")


def _is_method(call: ast.Call) -> bool:
    """Whether a call reads as one of a method of a tensor: without arguments, or changing it in place."""
    assert isinstance(call.func, ast.Attribute)
    return not call.args or call.func.attr.endswith("_")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _raised_at(traceback: TracebackType | None) -> FrameSite | None:
    """The innermost place in the user's own code that an error passed through; in a library, where there is none."""
    own = outside = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        site = FrameSite(code, traceback.tb_lasti, traceback.tb_lineno)
        if not is_foreign(code.co_filename):
            outside = site
            if not is_installed(code.co_filename):
                own = site
        traceback = traceback.tb_next
    return own or outside
