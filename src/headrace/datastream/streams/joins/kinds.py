"""The kinds of joins, by what they show besides pairs."""

from __future__ import annotations

from typing import Final

from headrace.common.arguments import refused
from headrace.operators.join.tagged import INNER, Outer

_HOW: Final = {
    "inner": INNER,
    "left": Outer(left=True, right=False),
    "right": Outer(left=False, right=True),
    "outer": Outer(left=True, right=True),
}


def shown_alone(how: str, method: str) -> Outer:
    """Of which streams records without a partner are shown as well.

    Raises:
        InvalidProgramError: when there is no such kind.
    """
    if str(how) not in _HOW:
        raise refused(f"{method} takes one of {', '.join(map(repr, _HOW))} as how, not {how!r}")
    return _HOW[how]
