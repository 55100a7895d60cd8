"""``OVER`` ordered by other columns than time, whose results change as rows come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import Picked, codes_of, concat, differ, gather
from headrace.common.batch import Batch
from headrace.common.typeinfo.composite import schema_of
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Arrived,
    Changes,
    KeyedChangesOperator,
)
from headrace.operators.changelog.lifetimes import counts_after
from headrace.operators.changelog.order import SortField, order_codes, places_of
from headrace.operators.changelog.over.functions import RANKING, OverFunctions, PartitionedRows, ranked_rows
from headrace.state.runs.grouping import Segments, in_order
from headrace.state.runs.layout import rows_of_ranges

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]

_MOST_PAIRS: Final = 1 << 20
"""The number of pairs of a version and a row that are computed at a time."""


class ChangingOverOperator(KeyedChangesOperator):
    """Functions over each row and all before it in an order, where rows are inserted at any position and retracted.

    A record changes the results of all rows behind it, so its cost is linear in the rows of its key. Rows whose results
    change are emitted in order as updates, with the inserted or retracted row at its position.

    Each record makes a version of the rows of its key. The results of all versions of all keys are computed together,
    and compared with those of the version before.

    Args:
        functions: the functions, whose frames start at the first row.
        output_type: the type of the emitted rows.
        codec: the codec of the keys.
        order: the sort fields.
        update_before: whether updates include ``UPDATE_BEFORE`` rows.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "ordered-rows", "the rows of keys in order"

    def __init__(
        self,
        functions: OverFunctions,
        output_type: TypeInformation,
        codec: KeyCodec,
        order: tuple[SortField, ...],
        *,
        update_before: bool,
        ttl: int = 0,
    ) -> None:
        super().__init__(functions.input_type, output_type, codec, ttl=ttl)
        self._functions, self._order, self._update_before = functions, order, update_before

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        ranked = _Positions.of(arrived.rows, self._order)
        versions = _Versions.of(arrived, ranked.places)
        accumulators = self._functions.accumulators(arrived.rows, ranked.places)
        parts = [self._made(arrived, versions, pairs, ranked, accumulators) for pairs in versions.pairs()]
        self._values = [concat(list(column)) for column in zip(*(values for _, _, values in parts), strict=True)]
        if not parts:
            return Changes(_EMPTY, _EMPTY.astype(np.int8), _EMPTY, (_EMPTY,)), versions.left(arrived, ranked.places)
        found = Changes.concat([part for part, _, _ in parts])
        order = in_order(found.records, np.concatenate([places for _, places, _ in parts]))
        if not self._update_before:
            order = order[found.kinds[order] != UPDATE_BEFORE]
        found = Changes(found.rows, found.kinds, found.records, (np.arange(len(found.rows)),)).take(order)
        return found, versions.left(arrived, ranked.places)

    def _made(
        self, arrived: Arrived, versions: _Versions, pairs: _Pairs, ranked: _Positions, accumulators: list[pa.Array]
    ) -> tuple[Changes, Longs, list[pa.Array]]:
        """The changes that versions make, with the position of each among its record's changes, and its values."""
        values = self._over(arrived.rows, pairs, ranked, accumulators)
        after = np.flatnonzero(pairs.before >= 0)
        is_changed = np.zeros(len(after), np.bool_)
        for column in values:
            is_changed |= differ(gather(column, after), gather(column, pairs.before[after]))
        after = after[is_changed]
        came, went = pairs.came, pairs.went
        found = np.concatenate((pairs.before[after], after, came, went))
        rows = pairs.rows[found]
        made_by = (pairs.versions[after], pairs.versions[after], pairs.versions[came], pairs.versions[went] + 1)
        records = versions.records[np.concatenate(made_by)]
        kinds = np.full(len(found), UPDATE_AFTER)
        kinds[: len(after)], kinds[len(found) - len(went) :] = UPDATE_BEFORE, DELETE
        own = arrived.batch.kinds
        kinds[2 * len(after) :][: len(came)] = INSERT if own is None else own[versions.records[pairs.versions[came]]]
        places = 2 * ranked.places[rows] + (np.arange(len(found)) >= len(after))
        return Changes(rows, kinds, records), places, [gather(column, found) for column in values]

    def _over(
        self, rows: pa.RecordBatch, pairs: _Pairs, ranked: _Positions, accumulators: list[pa.Array]
    ) -> list[pa.Array]:
        """The values of the functions over the rows of each version."""
        functions = self._functions
        segments = Segments(np.flatnonzero(np.diff(pairs.versions, prepend=-1)), len(pairs.rows))
        running = functions.running([gather(column, pairs.rows) for column in accumulators], segments)
        ordered = PartitionedRows(segments, ranked.codes[pairs.rows])
        taken = Picked(rows.column, pairs.rows)
        shown = np.arange(len(pairs.rows)) if functions.frame.is_rows else ordered.peers[1] - 1
        columns = [
            ranked_rows(call, ordered)
            if call.function in RANKING
            else gather(running[call] if call in running else functions.navigated(call, taken, ordered), shown)
            for call in functions.calls
        ]
        return [column.cast(call.type.arrow_type) for column, call in zip(columns, functions.calls, strict=True)]

    def _emit(self, arrived: Arrived, found: Changes) -> None:
        if not len(found.rows):
            return
        (places,) = found.numbers
        columns = [gather(column, found.rows) for column in arrived.rows.columns]
        columns += [gather(column, places) for column in self._values]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        times = arrived.batch.timestamps[found.records], arrived.batch.watermarks[found.records]
        kinds = found.kinds if found.kinds.any() else None
        self.output.emit(Batch(self._output_type, *times, columns=made, kinds=kinds))


@dataclass(frozen=True)
class _Positions:
    """Positions of rows in the order, and codes that are equal for peers."""

    places: Longs
    codes: Longs

    @staticmethod
    def of(rows: pa.RecordBatch, fields: tuple[SortField, ...]) -> _Positions:
        codes = order_codes(rows, fields) or [np.zeros(rows.num_rows, np.int64)]
        order = in_order(*codes)
        whole = np.stack([code[order] for code in codes])
        is_new = np.append(True, (whole[:, 1:] != whole[:, :-1]).any(axis=0))
        peers = np.empty(len(order), np.int64)
        peers[order] = np.cumsum(is_new)
        return _Positions(places_of(order), peers)


@dataclass(frozen=True)
class _Pairs:
    """Rows of some versions, by version and order.

    Attributes:
        versions: the version of each.
        rows: the row.
        before: the pair of the same row in the version before; -1 where there is none.
        came: the pairs of rows that were inserted by the record of their version.
        went: the pairs of rows that are retracted by the record of the next version.
    """

    versions: Longs
    rows: Longs
    before: Longs
    came: Longs
    went: Longs


@dataclass(frozen=True)
class _Versions:
    """The versions of the rows of each key: the stored ones, then what each record leaves.

    Attributes:
        records: the record that makes each version; -1 for stored rows.
        rows: the rows of all versions.
        firsts: the first version that has each row.
        ends: the version that no longer has it.
        is_last: whether the last version of its key has it.
        places: the position of each row in the order.
    """

    records: Longs
    rows: Longs
    firsts: Longs
    ends: Longs
    is_last: npt.NDArray[np.bool_]
    places: Longs

    @staticmethod
    def of(arrived: Arrived, places: Longs) -> _Versions:
        sequence, of_keys, stored = arrived.sequence, arrived.of_keys, len(arrived.stored)
        is_retraction = np.zeros(len(sequence), np.bool_)
        is_record = sequence >= stored
        is_retraction[is_record] = arrived.takes_back[sequence[is_record] - stored]
        retracted, is_known = _retracted(arrived, is_retraction)
        makes = is_record & (~is_retraction | is_known)
        # The first version of a key is that of its stored rows.
        versions = np.cumsum(makes) + of_keys
        starts = arrived.segments.starts
        bases = versions[starts] - makes[starts]
        total = int(makes.sum()) + len(arrived.keys)
        records = np.full(total, -1)
        records[versions[makes]] = sequence[makes] - stored
        ends = np.append(bases[1:], total)[of_keys]
        is_last = ~is_retraction
        taken = np.flatnonzero(is_known)
        ends[retracted[taken]] = versions[taken]
        is_last[retracted[taken]] = False
        kept = np.flatnonzero(~is_retraction)
        rows = sequence[kept]
        return _Versions(records, rows, versions[kept], ends[kept], is_last[kept], places[rows])

    def left(self, arrived: Arrived, places: Longs) -> Longs:
        """The rows of the last versions, key by key in order."""
        keys_of = np.empty(arrived.segments.total, np.int64)
        keys_of[arrived.sequence] = arrived.of_keys
        rows = self.rows[self.is_last]
        found: Longs = rows[in_order(keys_of[rows], places[rows])]
        return found

    def pairs(self) -> Iterator[_Pairs]:
        """The pairs of all versions, some versions at a time; the first of them has been there before."""
        total = len(self.records)
        sizes = np.bincount(self.firsts, minlength=total + 1) - np.bincount(self.ends, minlength=total + 1)
        behind = np.cumsum(np.cumsum(sizes)[:total])
        start = 0
        while start < total - 1:
            most = behind[start] + _MOST_PAIRS
            stop = max(start + 2, int(np.searchsorted(behind, most, side="right")))
            pairs = self._pairs_of(start, min(stop, total))
            if len(pairs.rows):
                yield pairs
            start = stop - 1

    def _pairs_of(self, start: int, stop: int) -> _Pairs:
        chosen = np.flatnonzero((self.firsts < stop) & (self.ends > start))
        firsts, ends = np.maximum(self.firsts[chosen], start), np.minimum(self.ends[chosen], stop)
        counts = ends - firsts
        owners = np.repeat(np.arange(len(chosen)), counts)
        versions = rows_of_ranges(firsts, counts)
        order = in_order(versions, self.places[chosen][owners])
        at = places_of(order)
        is_first = versions == firsts[owners]
        before = np.full(len(order), -1)
        before[at[~is_first]] = at[np.flatnonzero(~is_first) - 1]
        is_new = (versions == self.firsts[chosen][owners]) & (versions > start) & (self.records[versions] >= 0)
        is_gone = (versions + 1 == self.ends[chosen][owners]) & ~self.is_last[chosen][owners] & (versions + 1 < stop)
        rows = self.rows[chosen][owners]
        return _Pairs(versions[order], rows[order], before, at[is_new], at[is_gone])


def _retracted(arrived: Arrived, is_retraction: npt.NDArray[np.bool_]) -> tuple[Longs, npt.NDArray[np.bool_]]:
    """For each element of the sequence the one that it retracts, the first equal one; and whether there is one."""
    rows = arrived.rows
    codes = codes_of(pa.StructArray.from_arrays(rows.columns, rows.schema.names))[arrived.sequence]
    order = in_order(codes)
    segments = Segments(np.flatnonzero(np.diff(codes[order], prepend=-1)), len(order))
    is_kept = counts_after(segments, np.where(is_retraction[order], -1, 1))[1]
    retracts = is_retraction[order] & is_kept
    adds, taken = order[~is_retraction[order]], order[retracts]
    # The nth retraction of a row retracts the nth of the equal rows.
    numbers = np.cumsum(retracts) - 1
    skipped = np.append(0, np.cumsum(retracts))[segments.starts]
    first_add = np.append(0, np.cumsum(~is_retraction[order]))[segments.starts]
    ids = segments.ids[retracts]
    retracted = np.full(len(order), -1)
    retracted[taken] = adds[first_add[ids] + numbers[retracts] - skipped[ids]]
    return retracted, retracted >= 0


_EMPTY = np.empty(0, np.int64)
