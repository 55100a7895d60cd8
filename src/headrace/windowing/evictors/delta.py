"""``DeltaEvictor``: keeps the elements that are near the newest one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from headrace.common.type_variables import T
from headrace.windowing.checks import check_function
from headrace.windowing.evictor import OneSidedEvictor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from headrace.windowing.evictor import TimestampedValue


@dataclass(frozen=True)
class DeltaEvictor(OneSidedEvictor[T], Generic[T]):
    """Keeps the elements whose distance from the one that came last is below a threshold.

    Examples:
        >>> from headrace.datastream.window import DeltaEvictor, TimestampedValue
        >>> near = DeltaEvictor.of(5, lambda element, last: abs(element - last))
        >>> [each.value for each in near.kept([TimestampedValue(value) for value in (1, 4, 8)])]
        [4, 8]

    Attributes:
        threshold: what the distance has to be below.
        delta_function: gives the distance, of an element and the last one.
        do_evict_after: whether they go after the window function was called, not before.
    """

    threshold: float
    delta_function: Callable[[T, T], float]
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_function(type(self).__name__, "delta_function", self.delta_function, "element", "last")

    @classmethod
    def of(cls, threshold: float, delta_function: Callable[[T, T], float], do_evict_after: bool = False) -> Self:
        """The evictor for a distance.

        Raises:
            InvalidTypeError: when ``delta_function`` cannot be called.
        """
        return cls(threshold, delta_function, do_evict_after)

    def kept(self, elements: list[TimestampedValue[T]]) -> list[TimestampedValue[T]]:
        if not elements:
            return elements
        last = elements[-1].value
        # Not "< threshold": a distance that is no number keeps its element, as in Flink.
        return [each for each in elements if not self.delta_function(each.value, last) >= self.threshold]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.threshold})"
