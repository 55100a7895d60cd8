"""Call sites: lines in the user's own code, so that errors can point there."""

import functools
import inspect
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

_INSTALLED = "site-packages"
_OF_CYTHON = (".pyx", ".pxi")
_LIBRARIES = ("numpy", "pandas", "py4j", "pyarrow", "pyspark")
_STANDARD = (sysconfig.get_path("stdlib"), "<frozen ")
_CALLERS = tuple(f"{_STANDARD[0]}/{module}" for module in ("asyncio/", "concurrent/futures/", "threading.py"))
"""The modules that call functions for headrace, in loops and threads."""
_MADE = "<string>"
_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of the user's source."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


UNKNOWN_CALL_SITE = CallSite("<unknown>", 0, "<unknown>")

_declared_site: ContextVar[CallSite | None] = ContextVar("asked_for", default=None)


@contextmanager
def declared_at(site: CallSite) -> Iterator[None]:
    """Have :func:`caller` give a line that is not on the call stack: that of a statement in a script."""
    token = _declared_site.set(site)
    try:
        yield
    finally:
        _declared_site.reset(token)


def caller() -> CallSite:
    """The innermost frame of the current call stack that does not belong to headrace, or what ``declared_at`` says."""
    if (given := _declared_site.get()) is not None:
        return given
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inside(frame):
        frame = frame.f_back
    return innermost(frame)


def warn_caller(message: str) -> None:
    """A warning at the innermost line of the current call stack that does not belong to headrace."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and is_inside(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def innermost(frame: FrameType | None) -> CallSite:
    """The line that a call stack is at, in code of any package."""
    if frame is None:
        return UNKNOWN_CALL_SITE
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def of_stack(frame: FrameType | None) -> CallSite | None:
    """The innermost line of a call stack that is the user's own; None where there is none."""
    while frame is not None and not is_of_program(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else innermost(frame)


def of_traceback(traceback: TracebackType | None) -> CallSite | None:
    """The line of a traceback that is the user's own, the innermost one.

    Where there is none, since the program is installed beside the packages that it needs or has given a function of the
    standard library, it is the outermost one that could be.
    """
    own: CallSite | None = None
    other: CallSite | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        site = CallSite(code.co_filename, traceback.tb_lineno, code.co_name)
        if is_of_program(site.file):
            own = site
        elif other is None and _may_be_of_program(site.file):
            other = site
        traceback = traceback.tb_next
    return own or other


def of_function_at_work(frame: FrameType | None) -> CallSite | None:
    """The line of the program's function that a thread of headrace is in; None where it is in none.

    What only calls headrace is no such function: further out there has to be a frame of headrace's that has called it.
    """
    found: CallSite | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if found is not None and is_of_headrace(file):
            return found
        if found is None and is_of_program(file):
            found = CallSite(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def of_function(function: Any) -> CallSite | None:
    """The line at which a function, a method or a partial is defined; None where it is no function of Python."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType) or is_of_headrace(code.co_filename):
        return None
    return CallSite(code.co_filename, code.co_firstlineno, code.co_name)


def is_inside(frame: FrameType) -> bool:
    """Return whether a frame is of headrace's own code; also of what ``dataclass`` has made for one of its classes."""
    file = frame.f_code.co_filename
    if file != _MADE:
        return file.startswith(_PACKAGE_ROOT)
    return str(frame.f_globals.get("__name__")).startswith("headrace.")


def is_of_program(file: str) -> bool:
    """Return whether a source file is neither headrace's, nor an installed package's, nor of the standard library.

    Frames of packages that Cython has compiled say a path of the machine where that was done.
    """
    return not (is_of_headrace(file) or _INSTALLED in file or file.startswith(_STANDARD) or file.endswith(_OF_CYTHON))


def _may_be_of_program(file: str) -> bool:
    """Return whether a source file is of a package that headrace does not call on its own account."""
    package = file.rpartition(_INSTALLED)[2].lstrip("/\\")
    return not (is_of_headrace(file) or package.startswith(_LIBRARIES) or file.startswith(_CALLERS))


def is_of_headrace(file: str) -> bool:
    """Return whether a source file is one of headrace's own."""
    return file.startswith(_PACKAGE_ROOT)
