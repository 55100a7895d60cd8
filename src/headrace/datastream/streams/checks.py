"""Checks of what a program hands to a stream, made at once so that errors point at the line that is wrong."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from headrace.common.arguments import refused, with_article
from headrace.common.errors import InvalidTypeError

if TYPE_CHECKING:
    from headrace.datastream.functions import Function


_IS_NO_FUNCTION: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def check_function(function: Any, base: type[Function], method: str) -> None:
    """Refuse what cannot be called for a record.

    Args:
        function: what the user gave.
        base: the class that it should be of, unless it is callable.
        method: the method that is called for a record.

    Raises:
        InvalidTypeError: when it is neither.
    """
    check_instance(function, base)
    if not callable(getattr(function, method, None)) and not callable(function):
        raise refused(f"expected {with_article(base)} or a function, got {function!r}", InvalidTypeError)


def check_object(function: Any, base: type[Function], method: str) -> None:
    """Refuse what does not have the method: plain callables do not do here.

    Raises:
        InvalidTypeError: when the method is missing.
    """
    check_instance(function, base)
    if not callable(getattr(function, method, None)):
        raise refused(f"expected {with_article(base)}, got {function!r}", InvalidTypeError)


def check_returns(function: Any, method: str) -> None:
    """Refuse a function that lacks its ``return``: all its results would be null.

    A ``lambda`` gives what it says, and a function that yields or only raises is another matter.

    Args:
        function: what the user gave: a function, or an object with the method.
        method: the method that is called for a record.

    Raises:
        InvalidProgramError: when it never returns anything but None.
    """
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(function, method, function)
    code = getattr(called, "__code__", None)  # of what is called: a decorator may return what the function does not
    if isinstance(code, CodeType) and code.co_name != "<lambda>" and not code.co_flags & _IS_NO_FUNCTION:
        returned = [*_returned_constants(code)]
        if returned and all(returned):
            raise refused(
                f"{code.co_name} ({code.co_filename}:{code.co_firstlineno}) never returns a value, so {method} would "
                "make null of every record: return the result"
            )


def _returned_constants(code: CodeType) -> Iterator[bool]:
    """For each place where a function returns, whether it is the constant None that is returned."""
    for before, now in pairwise(dis.get_instructions(code)):
        if now.opname == "RETURN_CONST":  # Python 3.12 and 3.13
            yield now.argval is None
        elif now.opname == "RETURN_VALUE":
            yield before.opname == "LOAD_CONST" and before.argval is None


def check_instance(function: Any, base: type[Function]) -> None:
    """Refuse a class where an instance is meant.

    Raises:
        InvalidTypeError: when ``function`` is a class derived from ``base``.
    """
    if isinstance(function, type) and issubclass(function, base):
        text = f"expected {with_article(base)}, got the class itself: write {function.__name__}()"
        raise refused(text, InvalidTypeError)
