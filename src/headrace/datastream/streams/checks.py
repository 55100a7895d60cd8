"""Checks of what a program hands to a stream, made at once so that errors point at the line that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.call_site import caller
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError
from headrace.common.signatures import check_parameters

if TYPE_CHECKING:
    from headrace.datastream.functions import Function


def refused(message: str, error: type[HeadraceError] = InvalidProgramError) -> HeadraceError:
    """An error that ends in the user's own line."""
    return error(f"{message}\n  at {caller()}")


def check_function(function: Any, base: type[Function], method: str) -> None:
    """Refuse what cannot be called for a record, or not with what it is called with.

    Args:
        function: what the user gave.
        base: the class that it should be of, unless it is callable.
        method: the method that is called for a record.

    Raises:
        InvalidTypeError: when it is neither, or takes other parameters.
    """
    check_instance(function, base)
    if not callable(getattr(function, method, None)) and not callable(function):
        raise refused(f"expected {_with_article(base)} or a function, got {function!r}", InvalidTypeError)
    check_parameters(function, base, method)


def check_object(function: Any, base: type[Function], method: str) -> None:
    """Refuse what does not have the method, or with other parameters: plain callables do not do here.

    Raises:
        InvalidTypeError: when the method is missing, or takes other parameters.
    """
    check_instance(function, base)
    if not callable(getattr(function, method, None)):
        raise refused(f"expected {_with_article(base)}, got {function!r}", InvalidTypeError)
    check_parameters(function, base, method)


def expect(value: Any, kind: type, method: str) -> None:
    """Refuse an argument of another class.

    Raises:
        InvalidTypeError: when ``value`` is no instance of ``kind``; the message begins with ``method``.
    """
    if not isinstance(value, kind):
        hint = ": call its build()" if callable(getattr(value, "build", None)) else ""
        raise refused(f"{method} takes {_with_article(kind)}, not {value!r}{hint}", InvalidTypeError)


def check_instance(function: Any, base: type[Function]) -> None:
    """Refuse a class where an instance is meant.

    Raises:
        InvalidTypeError: when ``function`` is a class derived from ``base``.
    """
    if isinstance(function, type) and issubclass(function, base):
        text = f"expected {_with_article(base)}, got the class itself: write {function.__name__}()"
        raise refused(text, InvalidTypeError)


def _with_article(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
