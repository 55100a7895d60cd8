"""What methods of states are given that take several elements, or entries, at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.common.errors import InvalidTypeError
from headrace.common.values.handler import WrongValueError


def elements_of(given: Any, subject: str) -> Iterable[Any]:
    """The elements that a list state is given.

    A string, whose characters would become elements, and a dict, whose keys would, are taken for one element that
    somebody has forgotten to put into a list.

    Args:
        given: what the method was called with.
        subject: what an error calls it.

    Raises:
        InvalidTypeError: when that is nothing to iterate over, a string, bytes or a dict.
    """
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | bytearray | Mapping):
        return given
    raise InvalidTypeError(subject + WrongValueError(given, "a list of elements").describe())


def entries_of(given: Any, subject: str) -> Iterable[tuple[Any, Any]]:
    """The keys and values of the entries that a map state is given; arguments as of :func:`elements_of`.

    Raises:
        InvalidTypeError: when it is no dict, nor like one.
    """
    items = getattr(given, "items", None)
    if callable(items):
        entries: Iterable[tuple[Any, Any]] = items()
        return entries
    raise InvalidTypeError(subject + WrongValueError(given, "a dict").describe())
