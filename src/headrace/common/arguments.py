"""Checks of the arguments that a program gives, made at once so that errors point at the line that is wrong."""

from __future__ import annotations

from inspect import isabstract
from types import FunctionType, MethodType

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
        raise refused(
            f"{method} takes {with_article(kind)}, not {shown(value)}{uncalled(value, kind)}", InvalidTypeError
        )


def uncalled(value: object, kind: type) -> str:
    """The end of a message about an argument that only has to be called; empty for others.

    Args:
        value: what was given: a builder, a class, a function.
        kind: what was to be given.
    """
    if callable(getattr(value, "build", None)):
        return ": call its build()"
    if isinstance(value, type) and issubclass(value, kind):
        return ": extend it, and make one of the class" if isabstract(value) else f": make one, {value.__name__}(...)"
    if isinstance(value, FunctionType | MethodType) and value.__name__ != "<lambda>":
        return f": call it, {value.__name__}()"
    return ""


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8: halves of characters cannot, as in names of files that are no text."""
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def shown(value: object) -> str:
    """What was given, as messages name it: by its class where Python shows an address or many lines."""
    if isinstance(value, FunctionType | MethodType):
        return "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__name__}"
    if type(value).__repr__ is object.__repr__:
        return with_article(type(value))
    text = repr(value)
    return with_article(type(value)) if "\n" in text else text  # a table, say


def with_article(kind: type) -> str:
    """The name of a class in a sentence: ``a FileSink``, ``an int``."""
    return f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}"
