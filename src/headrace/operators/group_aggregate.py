"""Built-in aggregates of all records of a key, of which some take former ones back: the results are a changelog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import concat, differ, fixed_width, gather
from headrace.common.batch import Batch, Kinds, take_back
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.types import RowKind
from headrace.operators.aggregates.aggregator import Aggregator, AggregatorList, GroupedRows
from headrace.operators.aggregates.simple import KeyField
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.changelog.lifetimes import counts_after
from headrace.operators.distinct_values import distinct_values, store_names
from headrace.operators.mini_batch import accumulators_of_records, in_order_of_leaving, merged_in_mini_batches, parts_of
from headrace.operators.waiting import BufferingOperator, TakenBatches
from headrace.operators.window.columnar.accumulators import Accumulators, ArrivalCounter, Chunk, accumulators_of
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT
from headrace.state.evolution import OTHER_UID
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import hash_array, partitions_of_hashes
from headrace.state.runs.grouping import Groups, Segments, group_keys
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL
from headrace.state.sorted_table import TableLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.operators.mini_batch import MiniBatch
    from headrace.operators.window.columnar.accumulators import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]
    _Part = tuple[Longs, list[pa.Array]]
    Mask = npt.NDArray[np.bool_]

_STORE: Final = "group-aggregates"
_KIND: Final = "aggregates-by-key"
_KIND_THAT_EXPIRES: Final = "aggregates-by-key-that-expire"
_WORDS: Final = {"keys": "key type", "parts": "set of aggregates, or others for records that may be taken back"}
_HELD_ROWS: Final = 1 << 20
"""The number of accumulators of a bounded input that are held before those of a key are merged."""
_WAITING_ROWS: Final = 1 << 17
"""The most records that wait; the more there are, the less often a key is read and written."""

_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = (
    np.int8(kind.value) for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)


class GroupAggregateOperator(BufferingOperator):
    """Emits the changelog that Flink's ``GroupAggFunction`` emits, which handles one record at a time.

    The first record of a key makes an insertion, each one after it an update, unless the result stays the same, and the
    one that takes the last one back makes a deletion. What takes back something of a key without records is dropped.

    With mini-batches, all records of a key in one make a change together.

    Here records wait until the stretch of input ends, or until there are many, and the results of all of them are
    computed at once: those of a key are sorted into *lives*, which begin at an insertion and end at a deletion, and the
    accumulators of a life, of which the first is the one in state, are merged each with all before it.

    Args:
        layout: the aggregates and the columns.
        update_before: whether an update takes the former result back as well.
        is_batch: whether only the last result of each key is emitted.
        ttl: how many milliseconds of processing time after its last record a key is forgotten; 0 for never. Updates
            are emitted then also where the result stays the same, so that what reads them forgets no earlier.
        mini_batch: the settings of mini-batches; None where each record makes a change.
        nothing: the accumulators whose result is emitted at the end where there was no record; None for no result.
    """

    def __init__(
        self,
        layout: ColumnarWindowLayout,
        *,
        update_before: bool,
        is_batch: bool,
        ttl: int = 0,
        mini_batch: MiniBatch | None = None,
        nothing: list[pa.Array] | None = None,
    ) -> None:
        super().__init__(_WAITING_ROWS, layout.aggregators.user_code)
        self._layout = layout
        self._aggregators = layout.aggregators
        self._update_before = update_before
        self._is_batch, self._nothing = is_batch, nothing
        self._mini_batch = None if is_batch else mini_batch
        self._ttl, self._now = ttl, MIN_WATERMARK

    def restore_state(self, context: OperatorContext) -> None:
        layout = self._layout
        known = (_STORE, *store_names(layout.aggregators))
        others = [name for name in context.state.stored() if name not in known]
        if others:
            raise StateMigrationError(f"there is state of another kind of operator ({', '.join(others)}); {OTHER_UID}")
        _, key, *accumulators = layout.accumulator_schema
        live = pa.field(LIVE, pa.bool_())
        fields = [pa.field(HASH, pa.uint64()), key.with_name(KEY), live, *accumulators]
        self._schema = pa.schema([*fields, pa.field(RETAINED_UNTIL, pa.int64())] if self._ttl else fields)
        about = {"keys": layout.codec.to_json(), "parts": layout.aggregators.to_json()}
        what, kind = "the aggregates of keys", _KIND_THAT_EXPIRES if self._ttl else _KIND
        table = TableLayout(what, kind, self._schema, 2, about, _WORDS, named_now=layout.named_now)
        self._table = KeySortedTable(context.state.store(_STORE), table, latest_only=True)
        self._distinct = distinct_values(context, layout.codec, layout.aggregators)

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        self._watermark = scope.watermark
        self._held: list[Accumulators] = []
        self._held_rows = self._merged_rows = 0
        self._arrivals = ArrivalCounter(scope.epoch)
        self._now = scope.processing_time if self._ttl else MIN_WATERMARK
        self._table.begin_epoch(self._now)
        for values in self._distinct:
            values.begin_epoch()

    def process(self, input_index: int, batch: Batch) -> None:
        if input_index != ACCUMULATORS_INPUT:
            super().process(input_index, batch)
        elif len(batch):
            self.buffer(input_index, batch)

    def advance_watermark(self, watermark: int) -> None:
        self.handle_waiting()
        if self._is_batch and watermark == MAX_WATERMARK > self._watermark:
            self._emit_all()
        self._watermark = watermark
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._store_held()
        self._table.end_epoch(self._now)
        for values in self._distinct:
            values.end_epoch()

    def handle_taken(self, taken: TakenBatches[Any]) -> None:
        if self._is_batch and not self._layout.retracts:
            for input_index, batch in taken.in_stretches():
                rows = self._accumulators(input_index, batch, np.zeros(len(batch), np.int64))
                is_of_senders = input_index == ACCUMULATORS_INPUT  # several may have the same keys
                self._hold(merged_in_mini_batches(self._aggregators, rows) if is_of_senders else rows)
            return
        if self._mini_batch is None:
            (batch,) = (batch for _, batch in taken.in_stretches())
            self._add(_SignedRecords(self._aggregators, batch, self._chunk(batch)))
            return
        self._watermark = max(self._watermark, int(taken.watermarks[-1]))
        parts, start = [], 0
        for input_index, batch in taken.in_stretches():
            bundles = self._mini_batch.numbers(start, len(batch))
            parts.append(self._accumulators(input_index, batch, bundles))
            start += len(batch)
        rows = Accumulators.concat(parts)
        if self._mini_batch.has_two_phases and self._layout.is_ordered:
            rows = self._sent(rows)
        if self._mini_batch.has_two_phases or self._layout.retracts:
            rows = merged_in_mini_batches(self._aggregators, rows)
        rows = in_order_of_leaving(self._layout, rows, is_incremental=self._mini_batch.is_incremental)
        self._add(_MiniBatches(self._aggregators, rows, int(taken.timestamps[-1]), self._watermark))

    def _hold(self, rows: Accumulators) -> None:
        """Hold accumulators until the input, or the epoch, ends; those of a key are merged when there are many."""
        self._held.append(rows)
        self._held_rows += len(rows)
        if self._held_rows >= max(_HELD_ROWS, 2 * self._merged_rows):
            self._held = [self._merged()]
            self._held_rows = self._merged_rows = len(self._held[0])

    def _merged(self) -> Accumulators:
        """One row for each key of which there are accumulators, in the order in which the keys came."""
        if len(self._held) == 1:
            return self._held[0]
        return merged_in_mini_batches(self._aggregators, Accumulators.concat(self._held))

    def _store_held(self) -> None:
        """Put what is held into state."""
        if self._held:
            self._add(_MiniBatches(self._aggregators, self._merged(), MAX_WATERMARK, self._watermark))
            self._held = []

    def _chunk(self, batch: KeyedBatch) -> Chunk:
        chunk = Chunk.of(batch, self._layout.inputs_of(batch, self.context), self._arrivals.next(len(batch)))
        if self._distinct:
            groups = group_keys(chunk.hashes, chunk.keys)
            keys = batch.keys.take(groups.first_rows)
            for values in self._distinct:
                chunk = values.first_only(chunk, groups, keys)
        return chunk

    def _accumulators(self, input_index: int, batch: Batch, bundles: Longs) -> Accumulators:
        """The accumulators of records, by mini-batch and key, or those that senders have made."""
        if input_index == ACCUMULATORS_INPUT:
            rows = accumulators_of(batch)
            return Accumulators(bundles, rows.hashes, rows.keys, rows.columns)
        assert isinstance(batch, KeyedBatch)
        chunk = replace(self._chunk(batch), ends=bundles)
        return accumulators_of_records(self._layout, *zip(*parts_of(chunk, batch.kinds), strict=True))

    def _sent(self, rows: Accumulators) -> Accumulators:
        """The accumulators in mini-batches of their own, as if senders had made them, which need records in order."""
        assert self._mini_batch is not None
        rows = in_order_of_leaving(self._layout, merged_in_mini_batches(self._aggregators, rows))
        return replace(rows, ends=self._mini_batch.numbers(0, len(rows)))

    def _add(self, added: _SignedRecords | _MiniBatches) -> None:
        groups = group_keys(added.keys.hashes, added.keys.values)
        keys = added.keys.take(groups.first_rows)
        of_stored, stored = self._find(keys)
        steps = added.steps
        lives = _Lives.of(
            groups.segments, None if steps is None else steps[groups.order], of_stored, fixed_width(stored[0])
        )
        columns = _elements(lives, stored, added.accumulators(groups.order, lives.rows))
        if not self._is_batch:
            self._emit_changes(added, groups.order, lives, columns)
        self._write(keys, of_stored[~lives.is_left[of_stored]], lives, columns)

    def _find(self, keys: KeyColumn) -> tuple[Longs, list[pa.Array]]:
        """Return which of some different keys have accumulators in state, and these."""
        of_stored, stored = self._table.find(keys)
        is_live = fixed_width(stored.column(LIVE)) != 0
        if not is_live.all():
            of_stored, stored = of_stored[is_live], stored.filter(pa.array(is_live))
        return of_stored, stored.columns[3 : 3 + self._layout.width]

    def _emit_changes(
        self, added: _SignedRecords | _MiniBatches, order: Longs, lives: _Lives, columns: list[pa.Array]
    ) -> None:
        if not len(lives.rows):
            return
        layout, segments = self._layout, lives.segments
        values = self._aggregators.running_values(layout.aggregates, columns, segments)
        changes = _EmittedChanges.of(order, lives, self._changed(values, segments), with_before=self._update_before)
        if not len(changes.kinds):
            return
        fields: dict[Aggregator, pa.Array] = {
            field: field.result([changes.of_records(added.field(field))]) for field in layout.key_fields
        }
        made = [gather(value, changes.elements) for value in values]
        results = layout.rows(changes.of_records(added.keys.values), (), fields, made)
        times = added.timestamps, added.watermarks
        if not changes.are_of_all:
            times = times[0][changes.records], times[1][changes.records]
        found = changes.kinds if changes.kinds.any() else None
        self.output.emit(Batch(layout.output_type, *times, columns=results, kinds=found))

    def _changed(self, values: Sequence[pa.Array], segments: Segments) -> Mask:
        """True for each element whose result differs from that of the element before it in its life."""
        is_changed = np.full(segments.total, self._ttl > 0)
        is_changed[segments.starts] = True
        for column in values:
            if is_changed.all():
                break
            is_changed[1:] |= differ(column.slice(1), column.slice(0, len(column) - 1))
        return is_changed

    def _write(self, keys: KeyColumn, gone: Longs, lives: _Lives, columns: list[pa.Array]) -> None:
        """Writes the accumulators of keys that are left, and that others are gone."""
        segments = lives.segments
        of_keys = lives.of_keys[segments.starts]
        is_last = np.diff(of_keys, append=-1) != 0
        left = is_last & lives.is_left[of_keys]
        if not left.all():
            elements = np.flatnonzero(left[segments.ids])
            columns = [gather(column, elements) for column in columns]
            counts, of_keys = segments.counts[left], of_keys[left]
            segments = Segments(np.cumsum(counts) - counts, len(elements))
        merged = self._aggregators.settle(self._aggregators.merge(columns, segments))
        if len(gone):
            columns = [pa.concat_arrays([column, pa.nulls(len(gone), column.type)]) for column in merged]
            of_keys = np.concatenate((of_keys, gone))
            order = np.argsort(of_keys)
            is_live, of_keys = order < len(order) - len(gone), of_keys[order]
            merged = [gather(column, order) for column in columns]
        else:
            is_live = np.ones(len(of_keys), np.bool_)
        written = keys.take(of_keys)
        arrays = [pa.array(written.hashes), written.values, pa.array(is_live), *merged]
        if self._ttl:
            arrays.append(pa.array(np.full(len(written), self._now + self._ttl)))
        self._table.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema), self._now)

    def _is_owner(self, key: pa.Array) -> bool:
        """Return whether the records of a key come to this subtask."""
        context = self.context
        (owner,) = partitions_of_hashes(hash_array(key), context.parallelism, context.max_parallelism)
        return int(owner) == context.subtask

    def _emit_all(self) -> None:
        if self._held and not self._table.sections():
            rows = self._merged()
            keys, columns = rows.keys, self._aggregators.settle(rows.columns)
            self._held = []
        else:
            self._store_held()
            self._table.end_epoch(self._now)
            _, keys, _, *columns = self._table.stored().columns
            columns = columns[: self._layout.width]
        if not len(keys) and self._nothing is not None:
            keys = pa.array([0], keys.type)
            if not self._is_owner(keys):
                return
            columns = self._nothing
        if count := len(keys):
            results = self._layout.finish(keys, (), columns)
            times = np.full(count, MAX_WATERMARK), np.full(count, self._watermark)
            self.output.emit(Batch(self._layout.output_type, *times, columns=results))


@dataclass(frozen=True)
class _SignedRecords:
    """Records, each of which adds a row to its key or retracts one.

    Attributes:
        aggregators: the aggregators.
        batch: the records.
        chunk: what the aggregates need of them.
    """

    aggregators: AggregatorList
    batch: KeyedBatch
    chunk: Chunk

    @property
    def keys(self) -> KeyColumn:
        """Their keys."""
        return self.batch.keys

    @property
    def timestamps(self) -> Longs:
        """Their timestamps."""
        return self.batch.timestamps

    @property
    def watermarks(self) -> Longs:
        """The watermark that each meets."""
        return self.batch.watermarks

    @cached_property
    def steps(self) -> Longs | None:
        """By how much each changes the number of rows of its key; None if all add one."""
        kinds = self.batch.kinds
        return None if kinds is None else np.where(take_back(kinds), -1, 1)

    def field(self, field: KeyField) -> pa.Array:
        """A field of their keys."""
        return self.chunk.columns[field.column]

    def accumulators(self, order: Longs, rows: Longs) -> Iterator[_Part]:
        """The accumulators of some of them, in parts: which these are, and the columns.

        Args:
            order: an order of all.
            rows: their positions in it; negative for none.
        """
        steps = None if self.steps is None else self.steps[order[rows]]
        for step, make in ((1, self.aggregators.accumulate), (-1, self.aggregators.retract)):
            if steps is None and step < 0:
                continue
            chosen = np.flatnonzero(rows >= 0 if steps is None else (rows >= 0) & (steps == step))
            if len(chosen):
                each = Groups(order[rows[chosen]], Segments(np.arange(len(chosen)), len(chosen)))
                yield chosen, make(GroupedRows(self.chunk.columns, self.chunk.arrivals, each))


@dataclass(frozen=True)
class _MiniBatches:
    """The accumulators of mini-batches, each of all records of a key in one; otherwise as ``_SignedRecords``.

    Attributes:
        aggregators: the aggregators.
        rows: the accumulators, in the order in which keys leave the mini-batches.
        time: the timestamp of all.
        watermark: the watermark that all meet.
    """

    aggregators: AggregatorList
    rows: Accumulators
    time: int
    watermark: int

    @property
    def keys(self) -> KeyColumn:
        """The key of each."""
        return KeyColumn(self.rows.keys, self.rows.hashes)

    @property
    def timestamps(self) -> Longs:
        """The timestamp of each."""
        return np.full(len(self.rows), self.time)

    @property
    def watermarks(self) -> Longs:
        """The watermark that each meets."""
        return np.full(len(self.rows), self.watermark)

    @property
    def steps(self) -> Longs:
        """By how much each changes the number of rows of its key."""
        return fixed_width(self.rows.columns[0])

    def field(self, field: KeyField) -> pa.Array:
        """A field of the keys."""
        return self.rows.columns[self.aggregators.bounds[self.aggregators.aggregators.index(field)][0]]

    def accumulators(self, order: Longs, rows: Longs) -> Iterator[_Part]:
        """Some of the accumulators."""
        chosen = np.flatnonzero(rows >= 0)
        yield chosen, [gather(column, order[rows[chosen]]) for column in self.rows.columns]


def _elements(lives: _Lives, stored: list[pa.Array], parts: Iterable[_Part]) -> list[pa.Array]:
    """The accumulator of each element of lives: that in state, or what is added or retracted."""
    found = [(np.flatnonzero(lives.rows < 0), stored), *parts]
    if not len(found[0][0]) and len(found) == 2:
        return found[1][1]
    places = np.empty(len(lives.rows), np.int64)
    places[np.concatenate([rows for rows, _ in found])] = np.arange(len(places))
    return [gather(concat(list(pieces)), places) for pieces in zip(*(columns for _, columns in found), strict=True)]


@dataclass(frozen=True)
class _EmittedChanges:
    """The emitted changes, in the order of the records that cause them.

    Attributes:
        elements: the element whose result each change shows.
        records: the record that causes each.
        kinds: the kind of each.
        are_of_all: whether each record causes one.
    """

    elements: Longs
    records: Longs
    kinds: Kinds
    are_of_all: bool

    def of_records(self, column: pa.Array) -> pa.Array:
        """A column of the records, gathered for each change from the record that causes it."""
        return column if self.are_of_all else gather(column, self.records)

    @staticmethod
    def of(order: Longs, lives: _Lives, is_changed: Mask, *, with_before: bool) -> _EmittedChanges:
        """The changes of lives.

        Args:
            order: the records, key after key.
            lives: the lives.
            is_changed: whether each element's result differs from the one before it.
            with_before: whether updates include ``UPDATE_BEFORE`` rows.
        """
        is_first = np.zeros(len(is_changed), np.bool_)
        is_first[lives.segments.starts] = True
        after = np.flatnonzero(is_changed & (lives.rows >= 0))
        updated = after[~is_first[after]] if with_before else after[:0]
        causes = [order[rows] for rows in (lives.rows[updated], lives.deletions, lives.rows[after])]
        counts = np.zeros(len(order), np.int64)
        for records in causes:
            counts[records] += 1
        ends = np.cumsum(counts)
        # UPDATE_BEFORE precedes UPDATE_AFTER; a record that ends a life emits no row to follow.
        places = ends[causes[0]] - 2, ends[causes[1]] - 1, ends[causes[2]] - 1
        elements, kinds = np.empty(int(counts.sum()), np.int64), np.full(int(counts.sum()), _UPDATE_AFTER)
        elements[places[0]], kinds[places[0]] = updated - 1, _UPDATE_BEFORE
        elements[places[1]], kinds[places[1]] = lives.last_elements, _DELETE
        elements[places[2]] = after
        kinds[places[2][is_first[after]]] = _INSERT
        return _EmittedChanges(elements, np.repeat(np.arange(len(order)), counts), kinds, bool((counts == 1).all()))


@dataclass(frozen=True)
class _Lives:
    """The records of each key, key after key, cut into lives.

    The elements of a life are the accumulator in state, if there is one, and the records after which the key has
    records. The one that takes the last one back ends the life, and is no element.

    Attributes:
        rows: the record that each element is, by its place among those of all keys; -1 for what is in state.
        of_keys: the number of each element's key.
        segments: the lives, as stretches of elements.
        deletions: the records that end a life, by their places.
        last_elements: the last element of each of these lives.
        is_left: of each key, whether it has records at the end.
    """

    rows: Longs
    of_keys: Longs
    segments: Segments
    deletions: Longs
    last_elements: Longs
    is_left: Mask

    @staticmethod
    def of(keys: Segments, steps: Longs | None, of_stored: Longs, stored: Longs) -> _Lives:
        """The lives of keys.

        Args:
            keys: the records of each key, in the order in which they came.
            steps: by how much each changes the number of rows of its key; None if all add one.
            of_stored: the keys that have state, ascending.
            stored: the number of their records.
        """
        before = np.zeros(len(keys), np.int64)
        before[of_stored] = 1
        before = np.cumsum(before)  # of how many keys, up to each, there is something in state
        if steps is None:
            places = np.arange(keys.total) + before[keys.ids]
            rows = np.full(keys.total + len(of_stored), -1)
            rows[places] = np.arange(keys.total)
            segments = Segments(keys.starts + np.concatenate(([0], before[:-1]))[: len(keys)], len(rows))
            none = of_stored[:0]
            return _Lives(rows, segments.ids, segments, none, none, np.ones(len(keys), np.bool_))
        held = np.zeros(len(keys), np.int64)
        held[of_stored] = stored
        counts, is_kept = counts_after(keys, steps, held)
        kept = np.flatnonzero(is_kept & (counts > 0))
        is_deletion = is_kept & (counts == 0) & (steps < 0)  # a mini-batch may retract all that it has added
        lives = keys.ids + np.cumsum(is_deletion) - is_deletion  # they rise with each key, and behind each deletion
        rows = np.full(len(kept) + len(of_stored), -1)
        rows[np.arange(len(kept)) + before[keys.ids[kept]]] = kept
        is_stored = rows < 0
        of_keys, of_lives = keys.ids[rows], lives[rows]
        of_keys[is_stored], of_lives[is_stored] = of_stored, lives[keys.starts[of_stored]]
        segments = Segments(np.flatnonzero(np.diff(of_lives, prepend=-1)), len(rows))
        deletions = np.flatnonzero(is_deletion)
        last_elements = np.searchsorted(of_lives, lives[deletions], side="right") - 1
        ends = np.append(keys.starts[1:], keys.total) - 1
        return _Lives(rows, of_keys, segments, deletions, last_elements, counts[ends] > 0)


register_key_sorted_merger(_KIND, latest_only=True)
register_key_sorted_merger(_KIND_THAT_EXPIRES, latest_only=True)
