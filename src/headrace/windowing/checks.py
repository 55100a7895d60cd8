"""Refusing what windows cannot be made of, and promises of a class that a derived class takes back by overriding."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from headrace.common.arguments import check_call
from headrace.common.errors import HeadraceError, InvalidProgramError, InvalidTypeError, refused
from headrace.windowing.windows import LONGEST

WHOLE: Final = (int, np.integer)
"""Whole numbers."""


def check(holds: bool, message: str, error: type[HeadraceError] = InvalidProgramError) -> None:
    """Refuse what does not hold.

    Raises:
        HeadraceError: of the given class; it ends in the user's own line.
    """
    if not holds:
        raise refused(message, error)


def check_whole(owner: str, **numbers: int) -> None:
    """Refuse what is no whole number: windows of 2.5 records would never be full.

    Args:
        owner: the class that is made.
        numbers: by their names.
    """
    for name, number in numbers.items():
        if not isinstance(number, WHOLE):
            raise refused(f"{owner} takes a whole number as {name}, not {number!r}", InvalidTypeError)


def check_positive(owner: str, **lengths: int) -> None:
    """Refuse lengths of zero or less, and those that lead beyond the end of time from any timestamp of today.

    Args:
        owner: the class that is made.
        lengths: by their names.
    """
    check_whole(owner, **lengths)
    for name, length in lengths.items():
        if not 0 < length <= LONGEST:
            wanted = "> 0" if length <= 0 else "<= 2**62"
            raise refused(f"{owner} needs {name} {wanted}, not {length}")


def check_function(owner: str, name: str, function: Any, *parameters: str) -> None:
    """Refuse what cannot be called, or not with so many parameters."""
    check(callable(function), f"{owner} takes a function as {name}, not {function!r}", InvalidTypeError)
    check_call(function, name, *parameters)


def check_extractor(owner: str, extractor: Any) -> None:
    """Refuse what cannot say the gap of an element."""
    said = f"{owner} takes a SessionWindowTimeGapExtractor or a function, not {extractor!r}"
    function = getattr(extractor, "extract", extractor)
    check(callable(function) and not isinstance(extractor, type), said, InvalidTypeError)
    check_call(function, "extract", "element")


def keep_true(cls: type, promise: str, methods: Iterable[str], default: type) -> None:
    """Has a class take back what a base says of methods that the class overrides, unless it says it anew.

    So what is computed from ``promise`` in the place of the methods never passes over those of a program.

    Args:
        cls: the class, as it is made.
        promise: the name of the property or method that says it.
        methods: the names of those that it is about; the class need not have all of them.
        default: the class that promises nothing: its ``promise`` is what holds then.
    """
    lineage = cls.__mro__
    said = _first_with(lineage, promise)
    if lineage[said] is not default and any(_first_with(lineage, method) < said for method in methods):
        setattr(cls, promise, vars(default)[promise])


def _first_with(lineage: tuple[type, ...], name: str) -> int:
    """The position of the class that a name is found in; behind all classes when there is none."""
    return next((position for position, owner in enumerate(lineage) if name in vars(owner)), len(lineage))
