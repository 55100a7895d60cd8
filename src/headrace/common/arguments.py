"""Checks of the arguments that a program gives, made at once so that errors point at the line that is wrong."""

from __future__ import annotations

from headrace.common.call_site import caller
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError


def refused(message: str, error: type[HeadraceError] = InvalidProgramError) -> HeadraceError:
    """An error that ends in the user's own line."""
    return error(f"{message}\n  at {caller()}")


def expect(value: object, kind: type, method: str) -> None:
    """Refuse an argument of another class.

    A boolean is no number, although it is one to Python; where a ``float`` is expected, an integer does as well.

    Raises:
        InvalidTypeError: when ``value`` is no instance of ``kind``; the message begins with ``method``.
    """
    kinds = (int, float) if kind is float else kind
    is_odd_number = isinstance(value, bool) and kind in (int, float)
    if is_odd_number or not isinstance(value, kinds):
        hint = ": call its build()" if callable(getattr(value, "build", None)) else ""
        raise refused(f"{method} takes {with_article(kind)}, not {value!r}{hint}", InvalidTypeError)


def with_article(kind: type) -> str:
    """The name of a class in a sentence: ``a FileSink``, ``an int``."""
    return f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}"
