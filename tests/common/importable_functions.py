"""Functions that any process can import which has the tests."""

from __future__ import annotations

from functools import lru_cache, singledispatch


@lru_cache
def remembered(number: int) -> int:
    """The number."""
    return number


@singledispatch
def generic(value: object) -> str:
    """A text."""
    return str(value)
