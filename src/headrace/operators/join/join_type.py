"""The kinds of joins."""

from enum import Enum
from typing import Final

from headrace.operators.join.results import Outer

NOBODY: Final = -1
"""The place of a partner that is not there."""


class JoinType(Enum):
    """The kinds of joins."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def outer(self) -> Outer:
        """Of which inputs rows without a partner are shown as well, with NULLs in place of one."""
        return Outer(self in (JoinType.LEFT, JoinType.FULL), self in (JoinType.RIGHT, JoinType.FULL))

    @property
    def gives_left_rows(self) -> bool:
        """Whether results are rows of the left input, and no pairs."""
        return self in (JoinType.SEMI, JoinType.ANTI)
