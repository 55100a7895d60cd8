"""Built-in aggregates of all records of a key, of which some take former ones back: the results are a changelog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch, Kinds, take_back
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.common.types import RowKind
from headrace.operators.aggregates.aggregator import Aggregator, GroupedRows, running_sums
from headrace.operators.arrays import concat, differ, fixed_width, gather
from headrace.operators.base import EpochScope, KeyedBatch, KeyedOperator, OperatorContext
from headrace.operators.distinct_values import distinct_values, store_names
from headrace.operators.waiting import WaitingBatches
from headrace.operators.window.columnar.accumulators import Arrivals, Chunk
from headrace.operators.window.columnar.windows_by_key import ArrivedRecords
from headrace.state.evolution import OTHER_UID
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyColumn
from headrace.state.keys.hashing import hash_array, partitions_of_hashes
from headrace.state.runs.grouping import Groups, Segments, group_rows
from headrace.state.runs.layout import HASH, KEY, LIVE, RETAINED_UNTIL
from headrace.state.table_layout import TableLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.operators.mini_batch import Bundle, MiniBatch
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout

    Longs = npt.NDArray[np.int64]
    _OfKeys = tuple[Longs, list[pa.Array]]
    Mask = npt.NDArray[np.bool_]

_STORE: Final = "group-aggregates"
_KIND: Final = "aggregates-by-key"
_KIND_THAT_EXPIRES: Final = "aggregates-by-key-that-expire"
_WORDS: Final = {"keys": "key type", "parts": "set of aggregates, or others for records that may be taken back"}
_WAITING_ROWS: Final = 1 << 17
"""So many records wait at most; the more there are, the less often a key is read and written."""

_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = (
    np.int8(kind.value) for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)


class GroupAggregateOperator(KeyedOperator):
    """Emits the changelog that Flink's ``GroupAggFunction`` emits, which sees one record at a time.

    The first record of a key makes an insertion, each one after it an update, unless the result stays the same, and the
    one that takes the last one back makes a deletion. What takes back something of a key without records is dropped.

    Here records wait until the stretch of input ends, or until there are many, and the results of all of them are
    computed at once: those of a key are sorted into *lives*, which begin at an insertion and end at a deletion, and the
    accumulators of a life, of which the first is the one in state, are merged each with all before it.

    Args:
        layout: the aggregates and the columns.
        update_before: whether an update takes the former result back as well.
        is_batch: whether only the last result of each key is emitted.
        ttl: how many milliseconds of processing time after its last record a key is forgotten; 0 for never. Updates
            are emitted then also where the result stays the same, so that what reads them forgets no earlier.
        mini_batch: how records are put together, so that those of a key make one change; None where each makes one.
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
        super().__init__()
        self.user_code = layout.aggregators.user_code
        self._layout = layout
        self._aggregators = layout.aggregators
        self._update_before = update_before
        self._is_batch, self._nothing = is_batch, nothing
        self._mini_batch = None if is_batch else mini_batch
        self._ttl, self._now = ttl, MIN_WATERMARK
        self._waiting: WaitingBatches[KeyedBatch] = WaitingBatches(_WAITING_ROWS, are_stored=True)

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
        self._watermark = scope.watermark
        self._waiting.forget()
        self._arrivals = Arrivals(scope.epoch)
        self._now = scope.processing_time if self._ttl else MIN_WATERMARK
        self._table.begin_epoch(self._now)
        for values in self._distinct:
            values.begin_epoch()

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._waiting.add(0, batch):
            self._add_waiting()

    def advance_watermark(self, watermark: int) -> None:
        self._add_waiting()
        if self._is_batch and watermark == MAX_WATERMARK > self._watermark:
            self._emit_all()
        self._watermark = watermark
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self._table.end_epoch(self._now)
        for values in self._distinct:
            values.end_epoch()

    def _add_waiting(self) -> None:
        arrived = ArrivedRecords.taken(self._waiting, self._layout, self._arrivals, self.context)
        if arrived is None:
            return
        if self._mini_batch is None:
            self._add(arrived)
            return
        for bundle in self._mini_batch.bundles(arrived.batch.columns):
            self._add(arrived.take(bundle.records), bundle)

    def _add(self, arrived: ArrivedRecords, bundle: Bundle | None = None) -> None:
        chunk = arrived.chunk
        groups = group_rows(chunk.ends, chunk.hashes, chunk.keys)
        keys = KeyColumn(gather(chunk.keys, groups.first_rows), chunk.hashes[groups.first_rows])
        for values in self._distinct:
            chunk = values.first_only(chunk, groups, keys)
        of_stored, stored = self._table.find(keys)
        is_live = fixed_width(stored.column(LIVE)) != 0
        if not is_live.all():
            of_stored, stored = of_stored[is_live], stored.filter(pa.array(is_live))
        columns = stored.columns[3 : 3 + self._layout.width]
        steps = _steps(arrived.batch.kinds, groups.order)
        lives, held = _Lives.of(groups.segments, steps, of_stored, fixed_width(columns[0])), columns
        columns = self._accumulators(chunk, groups.order, steps, lives, columns)
        if not self._is_batch and bundle is None:
            self._emit_changes(arrived, groups.order, lives, columns)
        left, merged = self._write(keys, of_stored[~lives.is_left[of_stored]], lives, columns)
        if bundle is not None:
            places = bundle.places[groups.first_rows]
            self._emit_net(arrived, keys, (of_stored, held), (left, merged), places)

    def _accumulators(
        self, chunk: Chunk, order: Longs, steps: Longs | None, lives: _Lives, stored: list[pa.Array]
    ) -> list[pa.Array]:
        """The columns of the accumulator of each element: that in state, or what a record adds or takes back."""
        parts, numbers = [stored], [np.flatnonzero(lives.rows < 0)]
        for step, make in ((1, self._aggregators.accumulate), (-1, self._aggregators.retract)):
            if steps is None and step < 0:
                continue
            is_chosen = lives.rows >= 0
            if steps is not None:
                is_chosen &= steps[lives.rows] == step
            chosen = np.flatnonzero(is_chosen)
            if len(chosen):
                each = Groups(order[lives.rows[chosen]], Segments(np.arange(len(chosen)), len(chosen)))
                parts.append(make(GroupedRows(chunk.columns, chunk.arrivals, each)))
                numbers.append(chosen)
        if not len(numbers[0]) and len(parts) == 2:
            return parts[1]
        places = np.empty(len(lives.rows), np.int64)
        places[np.concatenate(numbers)] = np.arange(len(places))
        return [gather(concat(list(pieces)), places) for pieces in zip(*parts, strict=True)]

    def _emit_changes(self, arrived: ArrivedRecords, order: Longs, lives: _Lives, columns: list[pa.Array]) -> None:
        if not len(lives.rows):
            return
        layout, segments = self._layout, lives.segments
        values = self._aggregators.running_values(layout.aggregates, columns, segments)
        changes = _Changes.of(order, lives, self._changed(values, segments), with_before=self._update_before)
        if not len(changes.kinds):
            return
        chunk = arrived.chunk
        fields: dict[Aggregator, pa.Array] = {
            field: field.result([changes.of_records(chunk.columns[field.column])]) for field in layout.key_fields
        }
        made = [gather(value, changes.elements) for value in values]
        results = layout.rows(changes.of_records(chunk.keys), (), fields, made)
        times = arrived.timestamps, arrived.watermarks
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

    def _emit_net(
        self, arrived: ArrivedRecords, keys: KeyColumn, before: _OfKeys, after: _OfKeys, places: Longs
    ) -> None:
        """Emits what has become of each key, in the order of places."""
        (old_keys, old), (new_keys, new) = before, after
        finish, values = self._layout.finish, keys.values
        rows = pa.concat_batches([finish(gather(values, old_keys), (), old), finish(gather(values, new_keys), (), new)])
        of_keys = np.concatenate((old_keys, new_keys))
        has_old, has_new = (np.isin(np.arange(len(keys)), each) for each in (old_keys, new_keys))
        both = np.flatnonzero(has_old & has_new)
        same = [np.searchsorted(old_keys, both), len(old_keys) + np.searchsorted(new_keys, both)]
        is_changed = np.full(len(keys), self._ttl > 0)
        for column in rows.columns:
            is_changed[both] |= differ(gather(column, same[0]), gather(column, same[1]))
        is_update = (has_old & has_new)[of_keys]
        is_new = np.arange(len(of_keys)) >= len(old_keys)
        kinds = np.where(is_update, np.where(is_new, _UPDATE_AFTER, _UPDATE_BEFORE), np.where(is_new, _INSERT, _DELETE))
        kept = ~is_update | is_changed[of_keys]
        if not self._update_before:
            kept &= kinds != _UPDATE_BEFORE
        chosen = np.flatnonzero(kept)
        chosen = chosen[np.argsort(places[of_keys[chosen]], kind="stable")]
        if len(chosen):
            times = (np.full(len(chosen), each[-1]) for each in (arrived.timestamps, arrived.watermarks))
            found = kinds[chosen] if kinds[chosen].any() else None
            made = rows.take(pa.array(chosen))
            self.output.emit(Batch(self._layout.output_type, *times, columns=made, kinds=found))

    def _write(self, keys: KeyColumn, gone: Longs, lives: _Lives, columns: list[pa.Array]) -> _OfKeys:
        """Writes the accumulators of keys that are left, and that others are gone; gives those that are left."""
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
        found = of_keys, merged
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
        return found

    def _is_owner(self, key: pa.Array) -> bool:
        """Return whether the records of a key come to this subtask."""
        context = self.context
        (owner,) = partitions_of_hashes(hash_array(key), context.parallelism, context.max_parallelism)
        return int(owner) == context.subtask

    def _emit_all(self) -> None:
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


def _steps(kinds: Kinds | None, order: Longs) -> Longs | None:
    """1 for each record that adds a row to its key, -1 for each that retracts one; None if all add."""
    return None if kinds is None else np.where(take_back(kinds[order]), -1, 1)


@dataclass(frozen=True)
class _Changes:
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
    def of(order: Longs, lives: _Lives, is_changed: Mask, *, with_before: bool) -> _Changes:
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
        return _Changes(elements, np.repeat(np.arange(len(order)), counts), kinds, bool((counts == 1).all()))


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
            steps: 1 for each record that adds a row to its key, -1 for each that retracts one; None if all add.
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
        counts, is_kept = counts_after(keys, steps, of_stored, stored)
        kept = np.flatnonzero(is_kept & (counts > 0))
        is_deletion = is_kept & (counts == 0)
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


def counts_after(keys: Segments, steps: Longs, of_stored: Longs, stored: Longs) -> tuple[Longs, Mask]:
    """How many records the key of each record has after it, and which records count.

    A record that takes back one of a key without records does not. So the count is the sum of steps, less the lowest
    that it has been below zero.
    """
    before = np.zeros(len(keys), np.int64)
    before[of_stored] = stored
    sums = running_sums(steps, keys) + before[keys.ids]
    if (sums >= 0).all():
        return sums, np.ones(len(sums), np.bool_)
    # Each key lies below all values of the one before it, so that one pass finds the lowest of each.
    step = keys.total + 1
    lowest = np.minimum.accumulate(np.minimum(sums, 0) - step * keys.ids) + step * keys.ids
    counts = sums - lowest
    is_lower = np.diff(lowest, prepend=0) < 0
    is_lower[keys.starts] = lowest[keys.starts] < 0
    return counts, ~is_lower


register_key_sorted_merger(_KIND, latest_only=True)
register_key_sorted_merger(_KIND_THAT_EXPIRES, latest_only=True)
