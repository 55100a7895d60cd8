"""Functions over records of two streams as functions over windows of tagged records."""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING, Any

from headrace.common.columns import array_to_values, layout_of
from headrace.common.errors import EvaluationError
from headrace.common.row import Row
from headrace.datastream.functions import WindowFunction
from headrace.datastream.streams.adapters import Adapter
from headrace.expressions import evaluate
from headrace.operators.collector import results_of
from headrace.operators.functions import method_of
from headrace.operators.join import find_pairs
from headrace.operators.join.tagged import pair_type
from headrace.operators.user_code import record_text
from headrace.state.copying import copier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.operators.join.tagged import Outer


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
        types: those of both streams.
    """

    method = "join"

    def __init__(self, function: Any, outer: Outer, types: Sequence[TypeInformation]) -> None:
        super().__init__(function)
        self._outer = outer
        self._copy_left, self._copy_right = map(copier, types)

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        join = method_of(self.function, self.method)
        return (join(left, right) for left, right in self._pairs(inputs))

    def _pairs(self, inputs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Each record of the left stream with each of the right one."""
        lefts, rights = _sides(inputs)
        if lefts and rights:
            yield from self._matched(lefts, rights)
        elif self._outer.left and lefts:
            yield from ((left, None) for left in lefts)
        elif self._outer.right:
            yield from ((None, right) for right in rights)

    def _matched(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """No two pairs share a record, as the function may change it and return it; the last one has it itself."""
        last_left, last_right = len(lefts) - 1, len(rights) - 1
        for i, left in enumerate(lefts):
            for j, right in enumerate(rights):
                own_left = left if j == last_right else self._copy_left(left)
                yield own_left, right if i == last_left else self._copy_right(right)


class FlatJoinApply(JoinApply):
    """Calls a ``FlatJoinFunction``, or a function of two records that yields."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        join = method_of(self.function, self.method)
        for left, right in self._pairs(inputs):
            yield from results_of(join(left, right), self.__headrace_adapted__)


class SelectApply(JoinApply):
    """Computes expressions over the pairs of a window; of very many some at a time.

    Args:
        columns: the expressions.
        types: those of both streams.
        outer: of which streams records without a partner are shown as well.
    """

    def __init__(self, columns: Sequence[Bound], types: Sequence[TypeInformation], outer: Outer) -> None:
        super().__init__(None, outer, types)
        self._columns, self._type = columns, pair_type(*types)

    def _matched(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        return product(lefts, rights)

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        pairs = self._pairs(inputs)
        while some := [Row(*pair) for pair in islice(pairs, find_pairs.PAIRS)]:
            yield from self._rows(some)

    def _rows(self, pairs: Sequence[Row]) -> Iterator[Row]:
        try:
            computed = evaluate(self._columns, layout_of(self._type).rows_to_columns(pairs))
        except EvaluationError as error:
            error.add_note(f"record: {record_text(pairs[error.row])}")
            raise
        values = (array_to_values(column.type, array) for column, array in zip(self._columns, computed, strict=True))
        return (Row(*fields) for fields in zip(*values, strict=True))


def _sides(inputs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The records of both streams, in the order in which they came."""
    lefts: list[Any] = []
    rights: list[Any] = []
    for is_left, left, right in inputs:
        (lefts if is_left else rights).append(left if is_left else right)
    return lefts, rights
