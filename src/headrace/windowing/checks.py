"""Refusing what windows cannot be made of, with the line of the program that asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.call_site import caller
from headrace.common.errors import InvalidProgramError

if TYPE_CHECKING:
    from headrace.common.errors import HeadraceError


def check(holds: bool, message: str, error: type[HeadraceError] = InvalidProgramError) -> None:
    """Refuse what does not hold.

    Raises:
        HeadraceError: of the given class; it ends in the user's own line.
    """
    if not holds:
        raise error(f"{message}\n  at {caller()}")


def check_positive(owner: str, **lengths: int) -> None:
    """Refuse lengths of zero or less.

    Args:
        owner: the class that is made.
        lengths: by their names.
    """
    for name, length in lengths.items():
        check(length > 0, f"{owner} needs {name} > 0, not {length}")
