"""Where the type of a stream comes from, and what follows from that.

PyFlink knows the type of a stream only when the program declares it, and lets records of all other streams be anything.
headrace finds types out; a program that PyFlink runs must not fail because of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any


class TypeOrigin(IntEnum):
    """Where the type of a stream comes from, the most reliable first."""

    DECLARED = 0
    """The program says it, or the source or the operator always gives it."""

    ANNOTATED = 1
    """It follows from the annotations of a function, or there are none and nothing is known."""

    OBSERVED = 2
    """It is what the elements of a collection are; what a function makes of them may be something else."""


def origin_of(declared: Any) -> TypeOrigin:
    """Where the type of a function's results comes from, given what the program declares."""
    return TypeOrigin.ANNOTATED if declared is None else TypeOrigin.DECLARED


def weakest(origins: Iterable[TypeOrigin]) -> TypeOrigin:
    """The least reliable of some."""
    return max(origins)


def unchanged(record: Any) -> Any:
    """The same record; a function for streams whose records stay while their type does not."""
    return record
