"""Built-in aggregates of windows that fire one by one: what happens is noted, and worked out for many at once.

Triggers are asked element by element, but nobody sees a result before the batch has ended. So elements that are added
to a window and results that it shows are only noted meanwhile. Elements that come to a window between two results are
a *part*; what a window holds at a result is a *version* of it: the version before and the parts that came since. When
the batch ends, all parts are aggregated by one call of each aggregator, and all versions are merged by a few.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.operators.aggregates.aggregator import GroupedRows
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.accumulators import Arrivals
from headrace.operators.window.columnar.late_firings import running_merges
from headrace.state.runs.grouping import Groups, Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.windowing.serializers import WindowSerializer

    Longs = npt.NDArray[np.int64]
    Columns = list[pa.Array]

_NOTHING: Final = object()


class _Shown(NamedTuple):
    """A result: a version of a window.

    Attributes:
        version: the version.
        key: the key, in canonical form.
        window: the window.
        stamp: the watermark that the result is made under.
    """

    version: int
    key: Any
    window: Any
    stamp: int


class AggregateLog:
    """What happens to windows with built-in aggregates in the course of a batch.

    Args:
        layout: the aggregates and the columns.
        windows: says which columns tell windows apart.
        input_type: the type of the elements.
        context: the operator.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        windows: WindowSerializer[Any],
        input_type: TypeInformation,
        context: OperatorContext,
    ) -> None:
        self._layout = layout
        self._windows = windows
        self._input_type = input_type
        self._context = context
        self._newest: Any = _NOTHING
        self._forget()

    def begin_epoch(self, epoch: int) -> None:
        """Elements are numbered by epoch."""
        self._arrivals = Arrivals(epoch)

    def new_part(self) -> int:
        """A part without elements."""
        return next(self._part_numbers)

    def add(self, part: int, element: Any) -> None:
        """Adds an element to a part."""
        if element is not self._newest:  # an element of several windows comes several times
            self._newest = element
            self._elements.append(element)
        self._parts.append(part)
        self._rows.append(len(self._elements) - 1)

    def part_of_row(self, accumulators: Any) -> int:
        """A part that was aggregated before, as a row."""
        part = next(self._part_numbers)
        self._row_parts.append(part)
        self._stored.append(accumulators)
        return part

    def part_of(self, columns: Columns, row: int) -> int:
        """A part that was aggregated before, as a row of columns, which :meth:`work_out` has given."""
        part = next(self._part_numbers)
        _, parts, rows = self._earlier.setdefault(id(columns), (columns, [], []))
        parts.append(part)
        rows.append(row)
        return part

    def new_chain(self) -> int:
        """The number of a window whose versions follow one another."""
        return next(self._chain_numbers)

    def new_version(self, chain: int, parts: Sequence[int]) -> int:
        """What a window holds: its last version, and parts that came since, at least one."""
        version = len(self._chains)
        self._chains.append(chain)
        self._pair_parts.extend(parts)
        self._pair_versions.extend([version] * len(parts))
        return version

    def version_of(self, elements: Sequence[Any]) -> int:
        """A version that consists of some elements, at least one."""
        part = self.new_part()
        for element in elements:
            self.add(part, element)
        return self.new_version(self.new_chain(), (part,))

    def show(self, version: int, key: Any, window: Any, stamp: int) -> None:
        """Notes a result.

        Args:
            version: what the window holds.
            key: the key, in canonical form.
            window: the window.
            stamp: the watermark that the result is made under.
        """
        self._shown.append(_Shown(version, key, window, stamp))

    def work_out(self, emit: Callable[[Batch], None]) -> Columns:
        """Emits all results, in the order in which they were noted, and forgets what has happened.

        Returns:
            The accumulators of all versions, by their numbers.
        """
        columns = self._versions() if self._chains else []
        shown = self._shown
        self._forget()
        if shown:
            emit(self._results(columns, shown))
        return columns

    def _forget(self) -> None:
        self._part_numbers, self._chain_numbers = count(), count()
        self._newest = _NOTHING
        self._elements: list[Any] = []
        self._parts: list[int] = []  # of each pair of an element and a part
        self._rows: list[int] = []  # the element of each pair
        self._row_parts: list[int] = []
        self._stored: list[Any] = []
        self._earlier: dict[int, tuple[Columns, list[int], list[int]]] = {}
        self._chains: list[int] = []  # of each version
        self._pair_parts: list[int] = []  # of each pair of a part and a version
        self._pair_versions: list[int] = []  # the version of each pair
        self._shown: list[_Shown] = []

    def _versions(self) -> Columns:
        """The accumulators of all versions, by their numbers."""
        aggregators = self._layout.aggregators
        numbers, tables = zip(*self._aggregated_parts(), strict=True)
        place = np.empty(next(self._part_numbers), np.int64)
        place[np.concatenate(numbers)] = np.arange(sum(map(len, numbers)))
        chains, versions = np.array(self._chains), np.array(self._pair_versions)
        order = np.argsort(chains[versions], kind="stable")
        rows, versions = place[np.array(self._pair_parts)[order]], versions[order]
        parts = [gather(concat(list(columns)), rows) for columns in zip(*tables, strict=True)]
        of_versions = _stretches(versions)
        versions = versions[of_versions.starts]
        columns = aggregators.merge(parts, of_versions)
        columns = running_merges(aggregators, columns, _stretches(chains[versions]))
        return [gather(column, np.argsort(versions)) for column in columns]

    def _aggregated_parts(self) -> Iterator[tuple[Longs, Columns]]:
        """The numbers of parts, and their accumulators."""
        if self._parts:
            yield self._aggregated_elements()
        if self._stored:
            stored = layout_of(self._layout.contents_type).rows_to_columns(self._stored)
            yield np.array(self._row_parts), stored.columns
        for columns, parts, rows in self._earlier.values():
            yield np.array(parts), [gather(column, np.array(rows)) for column in columns]

    def _aggregated_elements(self) -> tuple[Longs, Columns]:
        elements = self._elements
        times = np.zeros(len(elements), np.int64)  # nobody asks for them
        inputs = self._layout.inputs_of(Batch.of_rows(self._input_type, elements, times, times), self._context)
        arrivals = self._arrivals.next(len(elements))
        parts, rows = np.array(self._parts), np.array(self._rows)
        order = np.argsort(parts, kind="stable")
        parts, rows = parts[order], rows[order]
        groups = Groups(rows, _stretches(parts))
        columns = self._layout.aggregators.accumulate(GroupedRows(inputs, arrivals, groups))
        return parts[groups.segments.starts], columns

    def _results(self, columns: Columns, shown: Sequence[_Shown]) -> Batch:
        versions, keys, windows, stamps = zip(*shown, strict=True)
        chosen = np.array(versions)
        bounds = [pa.array(values) for values in zip(*map(self._windows.values_of, windows), strict=True)]
        rows = self._layout.finish(
            pa.array(keys, self._layout.codec.arrow_type), bounds, [gather(column, chosen) for column in columns]
        )
        timestamps = np.array([window.max_timestamp() for window in windows], np.int64)
        return Batch(self._layout.output_type, timestamps, np.array(stamps, np.int64), columns=rows)


def _stretches(numbers: Longs) -> Segments:
    """The stretches of equal numbers."""
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
    return Segments(starts, len(numbers))
