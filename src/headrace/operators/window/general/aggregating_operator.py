"""The window operator for built-in aggregates over windows of any kind, their log, and the accumulators they hold."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK
from headrace.operators.aggregates.aggregator import GroupedRows, renamed_columns
from headrace.operators.arrays import concat, gather
from headrace.operators.window.columnar.accumulators import Arrivals
from headrace.operators.window.columnar.firing import running_merges
from headrace.operators.window.general.contents import KeyedContents
from headrace.operators.window.general.emitted_results import RecordedResults
from headrace.operators.window.general.window_operator import WindowOperator
from headrace.operators.window.stores import CONTENTS
from headrace.state.descriptors import ValueStateDescriptor
from headrace.state.keys.codecs import NO_KEY
from headrace.state.runs.grouping import Groups, Segments
from headrace.windowing.definition import WindowFunctions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import EpochScope, OperatorContext
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.operators.window.general.emitted_results import EmittedResults
    from headrace.state.keyed.namespaces import GivenNamespace
    from headrace.state.keys.codecs import AnyKeyEntry
    from headrace.state.protocols import KeyedStates
    from headrace.state.renamed_fields import RenamedFields
    from headrace.windowing.definition import WindowDefinition
    from headrace.windowing.serializers import WindowSerializer
    from headrace.windowing.trigger import Firing

    Longs = npt.NDArray[np.int64]
    Columns = list[pa.Array]


class _Held:
    """What one window of a key holds in the course of an epoch.

    Attributes:
        entry: the key.
        namespace: the window.
        is_stored: whether there is something in state.
        is_changed: whether that is not what the window holds now.
        columns: accumulators that an earlier batch has left; None when there are none.
        row: which of them are the window's.
        batch: the batch that the following is about.
        chain: the number of the window in the log.
        version: the last version of it; -1 when there is none.
        parts: all parts in the log that the window consists of.
        pending: those of them that the last version does not have.
        open_part: the part that elements are added to; -1 when there is none.
    """

    __slots__ = (
        "batch",
        "chain",
        "columns",
        "entry",
        "is_changed",
        "is_stored",
        "namespace",
        "open_part",
        "parts",
        "pending",
        "row",
        "version",
    )

    def __init__(self, entry: AnyKeyEntry, namespace: GivenNamespace) -> None:
        self.entry = entry
        self.namespace = namespace
        self.is_stored = self.is_changed = False
        self.columns: Columns | None = None
        self.row = self.batch = -1

    def begin(self, chain: int, part: int | None = None) -> None:
        """Lets the window consist of a part alone, or of nothing."""
        self.chain = chain
        self.version = self.open_part = -1
        self.parts: list[int] = [] if part is None else [part]
        self.pending = self.parts.copy()

    def take(self, part: int) -> None:
        """Lets the window have one more part."""
        self.parts.append(part)
        self.pending.append(part)


class AccumulatedContents(KeyedContents):
    """Accumulators of built-in aggregates. What is shown is the number of a version in the log.

    Args:
        keyed: the state.
        kind: what the windows are.
        layout: the aggregates and the columns.
        log: where what happens is noted.
    """

    def __init__(self, keyed: KeyedStates, kind: str, layout: ColumnarWindowLayout, log: AggregateLog) -> None:
        descriptor = ValueStateDescriptor(CONTENTS, layout.contents_type)
        descriptor.evolves = False  # the accumulators of other aggregates are no others' beginning
        super().__init__(keyed, kind, descriptor, renamed_columns(layout.aggregators, layout.renamed))
        self._type = layout.contents_type
        self._log = log
        self._held: dict[tuple[int, GivenNamespace], _Held] = {}
        self._touched: list[_Held] = []
        self._batch = 0

    def add(self, namespace: GivenNamespace, element: Any, timestamp: int) -> None:
        held = self._enter(namespace)
        held.is_changed = True
        if held.open_part < 0:
            held.open_part = self._log.new_part()
            held.take(held.open_part)
        self._log.add(held.open_part, element)

    def elements(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        held = self._enter(namespace)
        return (self._version(held),) if held.parts else None

    def held(self, namespace: GivenNamespace, window: Any) -> Sequence[Any] | None:
        """The row that the window would show."""
        elements = self.elements(namespace, window)
        if elements is None:
            return None
        shown: list[Batch] = []
        self._log.show(elements[0], cast("AnyKeyEntry", self._keyed.current).raw, window, MIN_WATERMARK)
        self.work_out(shown.append)
        return [row for batch in shown for row in batch.rows]

    def clear(self, namespace: GivenNamespace) -> None:
        self._clear(self._enter(namespace))

    def merge(self, namespace: GivenNamespace, sources: Sequence[GivenNamespace]) -> None:
        target = self._enter(namespace)
        target.is_changed, target.open_part = True, -1
        for held in map(self._enter, sources):
            for part in held.parts:
                target.take(part)
            self._clear(held)

    def work_out(self, emit: Callable[[Batch], None]) -> None:
        """Has the log emit its results, and takes up what the windows hold now."""
        touched, self._touched = self._touched, []
        for held in touched:
            if held.pending:
                self._version(held)
        columns = self._log.work_out(emit)
        for held in touched:
            held.columns, held.row = (columns, held.version) if held.parts else (None, -1)
            if not held.parts and not held.is_stored:
                del self._held[held.entry.ordinal, held.namespace]
        self._batch += 1

    def end_epoch(self, watermark: int) -> None:
        try:
            for held, accumulators in self._changed():
                self._keyed.current, self._keyed.namespace = held.entry, held.namespace
                if accumulators is None:
                    self._state.clear()
                else:
                    self._state.update(accumulators)
        finally:
            self._keyed.current = NO_KEY
        self._held.clear()

    def _changed(self) -> Iterator[tuple[_Held, Any]]:
        """The windows whose contents are not what is stored, and their accumulators as rows; None for no contents."""
        by_table: dict[int, list[_Held]] = {}
        for held in self._held.values():
            if held.is_changed:
                by_table.setdefault(id(held.columns), []).append(held)
        for members in by_table.values():
            columns = members[0].columns
            if columns is None:
                yield from ((held, None) for held in members)
                continue
            rows = np.array([held.row for held in members])
            table = [gather(column, rows) for column in columns]
            layout = layout_of(self._type)
            batch = pa.RecordBatch.from_arrays(table, schema=layout.schema)
            yield from zip(members, layout.columns_to_rows(batch), strict=True)

    def _enter(self, namespace: GivenNamespace) -> _Held:
        """What the current key holds in a window."""
        entry: Any = self._keyed.current
        held = self._held.get((entry.ordinal, namespace))
        if held is not None and held.batch == self._batch:
            return held
        if held is None:
            held = self._held[entry.ordinal, namespace] = _Held(entry, namespace)
            held.begin(self._log.new_chain(), self._stored_part(held))
        else:
            part = None if held.columns is None else self._log.part_of(held.columns, held.row)
            held.begin(self._log.new_chain(), part)
        held.batch = self._batch
        self._touched.append(held)
        return held

    def _stored_part(self, held: _Held) -> int | None:
        self._keyed.namespace = held.namespace
        accumulators = self._state.value()
        if accumulators is None:
            return None
        held.is_stored = True
        return self._log.part_of_row(accumulators)

    def _version(self, held: _Held) -> int:
        """What a window holds now."""
        if held.pending:
            held.version = self._log.new_version(held.chain, held.pending)
            held.pending = []
            held.open_part = -1
        return held.version

    def _clear(self, held: _Held) -> None:
        held.is_changed = True
        held.begin(self._log.new_chain())


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


class AggregatingWindowOperator(WindowOperator):
    """Built-in aggregates over windows; the trigger is asked element by element, results are made a batch at once.

    Args:
        definition: the windows.
        input_type: the type of the elements.
        columns: the aggregates and the columns.
        side_types: as of :class:`.WindowOperator`.
        is_batch: as of :class:`.WindowOperator`.
    """

    def __init__(
        self,
        definition: WindowDefinition,
        input_type: TypeInformation,
        columns: ColumnarWindowLayout,
        side_types: Mapping[str, TypeInformation],
        *,
        is_batch: bool = False,
    ) -> None:
        super().__init__(definition, WindowFunctions(), input_type, columns.output_type, side_types, is_batch=is_batch)
        self._columns = columns

    def restore_state(self, context: OperatorContext) -> None:
        self._log = AggregateLog(self._columns, self._windows, self._input_type, context)
        super().restore_state(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._log.begin_epoch(scope.epoch)
        super().begin_epoch(scope)

    def _fixed_windows(self) -> None:
        return None  # over those they are columnar, or the trigger is to be asked

    def _keyed_contents(self, renamed: RenamedFields) -> KeyedContents:
        if self._definition.evictor is not None:
            return super()._keyed_contents(renamed)
        return AccumulatedContents(self._keyed, self._definition.kind, self._columns, self._log)

    def _new_former_results(self, renamed: RenamedFields) -> EmittedResults:
        return RecordedResults(self._keyed, self._output_type, renamed)

    def _show(self, elements: Sequence[Any], window: Any, contents: GivenNamespace, firing: Firing, stamp: int) -> None:
        former = self._former if isinstance(self._former, RecordedResults) else None
        if elements:
            version = elements[0] if self._definition.evictor is None else self._log.version_of(elements)
            self._log.show(version, cast("AnyKeyEntry", self._keyed.current).raw, window, stamp)
            if former is not None:
                former.show(contents)
        elif former is not None:  # an evictor has left nothing
            former.show_nothing(contents, window.max_timestamp(), stamp)

    def _flush(self) -> None:
        super()._flush()
        made: list[Batch] = []
        if isinstance(self._contents, AccumulatedContents):
            self._contents.work_out(made.append)
        else:
            self._log.work_out(made.append)
        if isinstance(self._former, RecordedResults):
            made = self._former.all_changes(made)
        for results in made:
            self.output.emit(results)
