"""The window operator for built-in aggregates over windows of any kind, their log, and the accumulators they hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import gather
from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import TypeInformation
from headrace.operators.aggregates.aggregator import GroupedRows, renamed_columns
from headrace.operators.base import EpochScope, OperatorContext
from headrace.operators.window.columnar.accumulators import ArrivalCounter, ColumnarWindowLayout
from headrace.operators.window.columnar.version_log import LoggedWindow, VersionLog
from headrace.operators.window.general.contents import EmittedResults, KeyedContents, RecordedResults
from headrace.operators.window.general.window_operator import CalledWindows, WindowOperator
from headrace.operators.window.stored_windows import CONTENTS
from headrace.state.descriptors import ValueStateDescriptor
from headrace.state.evolution import RenamedFields
from headrace.state.keyed.namespaces import GivenNamespace
from headrace.state.keys.codecs import NO_KEY, KeyEntry
from headrace.state.protocols import KeyedStates
from headrace.state.runs.grouping import Groups
from headrace.windowing.definition import WindowDefinition, WindowFunctions
from headrace.windowing.trigger import Firing
from headrace.windowing.windows import WindowSerializer

Longs = npt.NDArray[np.int64]
Columns = list[pa.Array]


class _Held(LoggedWindow):
    """The contents of one window of a key in the course of an epoch.

    Attributes:
        entry: the key.
        namespace: the window.
        is_stored: whether there is something in state.
        is_changed: whether that is not what the window holds now.
        columns: accumulators that an earlier batch has left; None when there are none.
        row: which of them are the window's.
        batch: the batch whose log the window is in.
    """

    __slots__ = ("batch", "columns", "entry", "is_changed", "is_stored", "namespace", "row")

    def __init__(self, log: VersionLog, entry: KeyEntry, namespace: GivenNamespace) -> None:
        super().__init__(log)
        self.entry = entry
        self.namespace = namespace
        self.is_stored = self.is_changed = False
        self.columns: Columns | None = None
        self.row = self.batch = -1


class AccumulatedContents(KeyedContents):
    """Accumulators of built-in aggregates. What is emitted is the number of a version in the log.

    Args:
        keyed: the state.
        kind: what the windows are.
        layout: the aggregates and the columns.
        log: where what happens is noted.
    """

    def __init__(self, keyed: KeyedStates, kind: str, layout: ColumnarWindowLayout, log: "AggregateLog") -> None:
        descriptor = ValueStateDescriptor(CONTENTS, layout.contents_type)
        descriptor.evolves = False  # the accumulators of other aggregates are no others' beginning
        super().__init__(keyed, kind, descriptor, renamed_columns(layout.aggregators, layout.renamed))
        self._type = layout.contents_type
        self._log = log
        self._held: dict[tuple[int, GivenNamespace], _Held] = {}
        self._touched: list[_Held] = []
        self._batch = 0

    def add(self, namespace: GivenNamespace, element: object, timestamp: int) -> None:
        held = self._enter(namespace)
        held.is_changed = True
        held.add(self._log.versions, self._log.row_of(element))

    def elements(self, namespace: GivenNamespace, window: object) -> Sequence[Any] | None:
        held = self._enter(namespace)
        return (held.now(self._log.versions),) if held.parts else None

    def held(self, namespace: GivenNamespace, window: object) -> Sequence[Any] | None:
        """The row that the window would show."""
        elements = self.elements(namespace, window)
        if elements is None:
            return None
        emitted: list[Batch] = []
        self._log.note_result(elements[0], self._keyed.current.raw, window, MIN_WATERMARK)
        self.work_out(emitted.append)
        return [row for batch in emitted for row in batch.rows]

    def clear(self, namespace: GivenNamespace) -> None:
        self._clear(self._enter(namespace))

    def merge(self, namespace: GivenNamespace, sources: Sequence[GivenNamespace]) -> None:
        target = self._enter(namespace)
        target.is_changed = True
        target.close_part()
        for held in map(self._enter, sources):
            target.take(held.parts)
            self._clear(held)

    def work_out(self, emit: Callable[[Batch], None]) -> None:
        """Has the log emit its results, and takes up what the windows hold now."""
        touched, self._touched = self._touched, []
        for held in touched:
            held.now(self._log.versions)
        columns = self._log.work_out(emit)
        for held in touched:
            held.columns, held.row = (columns, held.version) if held.parts else (None, -1)
            if not held.parts and not held.is_stored:
                del self._held[held.entry.ordinal, held.namespace]
        self._batch += 1

    def end_epoch(self) -> None:
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
        """Return what the current key holds in a window."""
        entry: Any = self._keyed.current
        held = self._held.get((entry.ordinal, namespace))
        if held is not None and held.batch == self._batch:
            return held
        if held is None:
            held = self._held[entry.ordinal, namespace] = _Held(self._log.versions, entry, namespace)
            part = self._stored_part(held)
        else:
            part = None if held.columns is None else self._log.part_of(held.columns, held.row)
        held.begin(self._log.versions, () if part is None else (part,))
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

    def _clear(self, held: _Held) -> None:
        held.is_changed = True
        held.begin(self._log.versions)


_NOTHING: Final = object()


class _NotedResult(NamedTuple):
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
    """The changes of windows with built-in aggregates in the course of a batch.

    Args:
        layout: the aggregates and the columns.
        windows: gives the columns that identify windows.
        input_type: the type of the elements.
        context: the operator.

    Attributes:
        versions: the parts and versions of windows.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        windows: WindowSerializer,
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
        self._arrivals = ArrivalCounter(epoch)

    def row_of(self, element: object) -> int:
        """The row of an element, which is aggregated with the others of the batch."""
        if element is not self._newest:  # an element of several windows comes several times
            self._newest = element
            self._elements.append(element)
        return len(self._elements) - 1

    def part_of_row(self, accumulators: object) -> int:
        """A part that was aggregated before, as a row."""
        part = self.versions.new_part()
        self._row_parts.append(part)
        self._stored.append(accumulators)
        return part

    def part_of(self, columns: Columns, row: int) -> int:
        """A part that was aggregated before, as a row of columns, which :meth:`work_out` has given."""
        part = self.versions.new_part()
        _, parts, rows = self._earlier.setdefault(id(columns), (columns, [], []))
        parts.append(part)
        rows.append(row)
        return part

    def version_of(self, elements: Sequence[object]) -> int:
        """A version that consists of some elements, at least one."""
        window = LoggedWindow(self.versions)
        for element in elements:
            window.add(self.versions, self.row_of(element))
        return window.now(self.versions)

    def note_result(self, version: int, key: object, window: object, stamp: int) -> None:
        """Notes a result.

        Args:
            version: what the window holds.
            key: the key, in canonical form.
            window: the window.
            stamp: the watermark that the result is made under.
        """
        self._noted.append(_NotedResult(version, key, window, stamp))

    def work_out(self, emit: Callable[[Batch], None]) -> Columns:
        """Emits all results, in the order in which they were noted, and forgets what has happened.

        Returns:
            The accumulators of all versions, by their numbers.
        """
        columns: Columns = []
        if self.versions.has_versions:
            columns = self.versions.versions(self._layout.aggregators, self._parts())
        noted = self._noted
        self._forget()
        if noted:
            emit(self._results(columns, noted))
        return columns

    def _forget(self) -> None:
        self.versions = VersionLog()
        self._newest = _NOTHING
        self._elements: list[Any] = []
        self._row_parts: list[int] = []
        self._stored: list[Any] = []
        self._earlier: dict[int, tuple[Columns, list[int], list[int]]] = {}
        self._noted: list[_NotedResult] = []

    def _parts(self) -> Iterator[tuple[Longs, Columns]]:
        """The numbers of parts, and their accumulators."""
        yield self.versions.parts_of_records(self._accumulated)
        if self._stored:
            stored = layout_of(self._layout.contents_type).rows_to_columns(self._stored)
            yield np.array(self._row_parts), stored.columns
        for columns, parts, rows in self._earlier.values():
            yield np.array(parts), [gather(column, np.array(rows)) for column in columns]

    def _accumulated(self, groups: Groups) -> Columns:
        elements = self._elements
        times = np.zeros(len(elements), np.int64)  # they are not read
        inputs = self._layout.inputs_of(Batch.of_rows(self._input_type, elements, times, times), self._context)
        return self._layout.aggregators.accumulate(GroupedRows(inputs, self._arrivals.next(len(elements)), groups))

    def _results(self, columns: Columns, noted: Sequence[_NotedResult]) -> Batch:
        versions, keys, windows, stamps = zip(*noted, strict=True)
        chosen = np.array(versions)
        bounds = [pa.array(values) for values in zip(*map(self._windows.values_of, windows), strict=True)]
        rows = self._layout.finish(
            pa.array(keys, self._layout.codec.arrow_type), bounds, [gather(column, chosen) for column in columns]
        )
        timestamps = np.array([window.max_timestamp() for window in windows], np.int64)
        return Batch(self._layout.output_type, timestamps, np.array(stamps, np.int64), columns=rows)


class AggregatingWindowOperator(WindowOperator):
    """Built-in aggregates over windows; the trigger is called element by element, results are made a batch at once.

    Args:
        definition: the windows.
        input_type: the type of the elements.
        columns: the aggregates and the columns.
        side_types: as of :class:`.CalledWindows`.
        is_batch: likewise.
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
        super().__init__(
            CalledWindows(definition, WindowFunctions(), input_type, columns.output_type, side_types, is_batch)
        )
        self._columns = columns

    def restore_state(self, context: OperatorContext) -> None:
        self._log = AggregateLog(self._columns, self._windows, self._input_type, context)
        super().restore_state(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._log.begin_epoch(scope.epoch)
        super().begin_epoch(scope)

    def _keyed_contents(self, renamed: RenamedFields) -> KeyedContents:
        if self._definition.evictor is not None:
            return super()._keyed_contents(renamed)
        return AccumulatedContents(self._keyed, self._definition.kind, self._columns, self._log)

    def _new_former_results(self, renamed: RenamedFields) -> EmittedResults:
        return RecordedResults(self._keyed, self._output_type, renamed)

    def _emit_result(
        self, elements: Sequence[Any], window: Any, contents: GivenNamespace, firing: Firing, stamp: int
    ) -> None:
        former = self._former if isinstance(self._former, RecordedResults) else None
        if elements:
            version = elements[0] if self._definition.evictor is None else self._log.version_of(elements)
            self._log.note_result(version, self._keyed.current.raw, window, stamp)
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
