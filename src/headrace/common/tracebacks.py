"""How much of a traceback is shown: the lines of the program, or all with ``HEADRACE_TRACEBACK=full``.

A message of headrace names operator, line and record. The calls inside headrace that led to it say nothing more to the
author of a program, and are many.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, TracebackType
from typing import Any, Final, ParamSpec, TypeGuard, TypeVar

from headrace.common.call_site import CallSite, is_inside, is_of_program
from headrace.common.errors import TRACEBACK, HeadraceError, shows_all

P = ParamSpec("P")
R = TypeVar("R")

_PUBLIC: Final = ("__init__", "__bool__", "__enter__", "__exit__", "__next__")
"""Methods that programs call by other means than the name, and that may fail."""


@contextmanager
def showing_all(is_wanted: bool) -> Iterator[None]:
    """Show everything for a while, if that is wanted."""
    before = os.environ.get(TRACEBACK)
    if is_wanted:
        os.environ[TRACEBACK] = "full"
    try:
        yield
    finally:
        if is_wanted and before is None:
            del os.environ[TRACEBACK]
        elif is_wanted and before is not None:
            os.environ[TRACEBACK] = before


def hides_engine(function: Callable[P, R]) -> Callable[P, R]:
    """Let what the author of a program is told leave a function with the lines of the program alone.

    That are errors of headrace, an interruption (Ctrl-C, or the button of a notebook), and arguments that are not those
    of the function. Anything else keeps its traceback: it is a fault of headrace, or of a library.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        handled = sys.exception()
        try:
            return function(*args, **kwargs)
        except (HeadraceError, KeyboardInterrupt, TypeError) as error:
            if args and isinstance(error, TypeError) and _is_for_the_author(error):
                _name_class(error, function.__qualname__, args[0])
            leave_the_program(error, handled)
            raise

    return call


def leave_the_program(error: BaseException, handled: BaseException | None) -> None:
    """Take the lines of headrace out of the traceback of an error that the author of a program is told.

    Unless all is wanted. In an ``except`` clause, before a bare ``raise``, which adds no line.

    Args:
        error: the error; what it comes of is trimmed as well.
        handled: what the program was handling when it called headrace, ``sys.exception()`` then: that is its own.
    """
    if _is_for_the_author(error) and not shows_all():
        _trim(error, handled)


def hides_engine_of_methods(cls: type, but: Collection[str], *, only_factories: bool) -> None:
    """Let errors leave the public methods of a class, and its constructor, as :func:`hides_engine` does.

    Class methods and static methods without parameters cannot fail, and stay as they are.

    Args:
        cls: the class; what it inherits is left alone.
        but: names of methods that are left alone as well.
        only_factories: whether all but class methods and static methods are left alone.
    """
    for name, member in list(vars(cls).items()):
        if name in but or (name.startswith("_") and name not in _PUBLIC):
            continue
        if isinstance(member, staticmethod | classmethod):
            if _may_be_hidden(member.__func__) and _parameters(member) > 0:
                setattr(cls, name, type(member)(hides_engine(member.__func__)))
        elif not only_factories and _may_be_hidden(member):
            setattr(cls, name, hides_engine(member))


def _may_be_hidden(member: object) -> TypeGuard[FunctionType]:
    return isinstance(member, FunctionType) and not hasattr(member, "__wrapped__")


def _parameters(member: staticmethod[..., object] | classmethod[Any, ..., object]) -> int:
    code = member.__func__.__code__
    more = bool(code.co_flags & (CO_VARARGS | CO_VARKEYWORDS))
    return code.co_argcount + code.co_kwonlyargcount + more - isinstance(member, classmethod)


def program_lines(error: BaseException) -> str:
    """The traceback of an error and its causes with the lines of the program alone; empty when that is one at most."""
    told = traceback.TracebackException.from_exception(error)
    found: list[traceback.FrameSummary] = []
    part: traceback.TracebackException | None = told
    while part is not None:
        kept = [frame for frame in part.stack if is_of_program(frame.filename)]
        part.stack = traceback.StackSummary.from_list(kept)
        found += kept
        part = part.__cause__ or part.__context__
    return "".join(told.format()) if len(found) > 1 else ""


def program_line(error: BaseException) -> CallSite | None:
    """The innermost line of the program in the traceback of an error; None when there is none."""
    trace = _of_the_program(error.__traceback__)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    code = trace.tb_frame.f_code
    return CallSite(code.co_filename, trace.tb_lineno, code.co_name)


def _is_for_the_author(error: BaseException) -> bool:
    """A ``TypeError`` is for the author where it is about the call itself: no frame behind the call has seen it."""
    if not isinstance(error, TypeError) or isinstance(error, HeadraceError):
        return True
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _name_class(error: TypeError, method: str, called_on: object) -> None:
    """Name the class that a method was called on, where Python names the base class that defines it."""
    base, _, name = method.rpartition(".")
    text = str(error)
    if base and text.startswith(f"{method}()"):
        owner = called_on if isinstance(called_on, type) else type(called_on)
        error.args = (f"{owner.__name__}.{name}{text.removeprefix(method)}",)


def _trim(error: BaseException, handled: BaseException | None) -> None:
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and current is not handled and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _of_the_program(current.__traceback__)
        current = current.__cause__ or current.__context__


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        if is_of_program(trace.tb_frame.f_code.co_filename) and not is_inside(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found
