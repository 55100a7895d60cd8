"""``CountEvictor``: keeps the newest elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.windowing.checks import check, check_whole
from headrace.windowing.evictor import OneSidedEvictor

if TYPE_CHECKING:
    from typing import Self

    from headrace.windowing.evictor import TimestampedValue


@dataclass(frozen=True)
class CountEvictor(OneSidedEvictor[Any]):
    """Keeps the elements that came last, up to a number.

    Examples:
        >>> from headrace.datastream.window import CountEvictor, TimestampedValue
        >>> [each.value for each in CountEvictor.of(2).kept([TimestampedValue(value) for value in "abc"])]
        ['b', 'c']

    Attributes:
        max_count: how many stay.
        do_evict_after: whether they go after the window function was called, not before.
    """

    max_count: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_whole(type(self).__name__, max_count=self.max_count)
        check(self.max_count >= 0, f"CountEvictor needs max_count >= 0, not {self.max_count}")

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> Self:
        """The evictor that keeps so many.

        Raises:
            InvalidProgramError: when the number is negative.
        """
        return cls(max_count, do_evict_after)

    def kept(self, elements: list[TimestampedValue[Any]]) -> list[TimestampedValue[Any]]:
        return elements[max(0, len(elements) - self.max_count) :]
