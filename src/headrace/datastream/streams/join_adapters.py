"""Functions over records of two streams as functions over windows of tagged records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.datastream.functions import WindowFunction
from headrace.datastream.streams.adapters import Adapter
from headrace.operators.collector import results_of
from headrace.operators.functions import method_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Outer:
    """Of which streams records without a partner are shown as well.

    Attributes:
        left: whether those of the left stream are.
        right: whether those of the right stream are.
    """

    left: bool
    right: bool


class CoGroupApply(Adapter, WindowFunction):
    """Calls a ``CoGroupFunction``, or a function of the records of both streams."""

    method = "co_group"

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = method_of(self.function, self.method)(*_sides(inputs))
        return results


class JoinApply(Adapter, WindowFunction):
    """Calls a ``JoinFunction``, or a function of two records.

    Args:
        function: the function.
        outer: of which streams records without a partner are shown as well.
    """

    method = "join"

    def __init__(self, function: Any, outer: Outer) -> None:
        super().__init__(function)
        self._outer = outer

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        join = method_of(self.function, self.method)
        return (join(left, right) for left, right in self._pairs(inputs))

    def _pairs(self, inputs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Each record of the left stream with each of the right one."""
        lefts, rights = _sides(inputs)
        if lefts and rights:
            yield from ((left, right) for left in lefts for right in rights)
        elif self._outer.left and lefts:
            yield from ((left, None) for left in lefts)
        elif self._outer.right:
            yield from ((None, right) for right in rights)


class FlatJoinApply(JoinApply):
    """Calls a ``FlatJoinFunction``, or a function of two records that yields."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        join = method_of(self.function, self.method)
        for left, right in self._pairs(inputs):
            yield from results_of(join(left, right), self.__headrace_adapted__)


def _sides(inputs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The records of both streams, in the order in which they came."""
    lefts: list[Any] = []
    rights: list[Any] = []
    for is_left, left, right in inputs:
        (lefts if is_left else rights).append(left if is_left else right)
    return lefts, rights
