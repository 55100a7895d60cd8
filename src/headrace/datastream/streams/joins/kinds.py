"""The kinds of joins, by what they show besides pairs."""

from __future__ import annotations

from typing import Final

from headrace.common.arguments import refused, shown
from headrace.common.errors import InvalidTypeError
from headrace.operators.join.tagged import INNER, Outer

_HOW: Final = {
    "inner": INNER,
    "left": Outer(left=True, right=False),
    "right": Outer(left=False, right=True),
    "outer": Outer(left=True, right=True),
}
_OF_SPARK: Final = {
    "leftouter": "left",
    "rightouter": "right",
    **dict.fromkeys(("full", "fullouter"), "outer"),
}


def outer_of(how: str, method: str, keys: str) -> Outer:
    """Of which streams records without a partner are shown as well.

    Args:
        how: the kind.
        method: what it was given to, for messages.
        keys: how the keys are told, which others give in its place; begins in lower case.

    Raises:
        InvalidTypeError: when it is no text.
        InvalidProgramError: when there is no such kind.
    """
    if not isinstance(how, str):
        raise refused(f"{method} takes 'left' or the like as how, not {shown(how)}: {keys}", InvalidTypeError)
    if how not in _HOW:
        same = _OF_SPARK.get(how.lower().replace("_", ""))
        hint = f"write how={same!r}" if same else keys
        raise refused(f"{method} takes one of {', '.join(map(repr, _HOW))} as how, not {how!r}: {hint}")
    return _HOW[how]
