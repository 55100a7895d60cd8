"""``OVER`` ordered by other columns than time, whose results change as rows come and go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import schema_of
from headrace.operators.arrays import codes_of, concat, differ, gather
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Arrived,
    Changes,
    KeyedChangesOperator,
)
from headrace.operators.changelog.order import SortField, order_codes
from headrace.operators.changelog.over.functions import OverFunctions, row_numbers
from headrace.state.runs.grouping import Segments

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]


class ChangingOverOperator(KeyedChangesOperator):
    """Functions over each row and all before it in an order, where rows are inserted at any position and retracted.

    A record changes the results of all rows behind it, so its cost is linear in the rows of its key. Rows whose results
    change are emitted in order as updates, with the inserted or retracted row at its position.

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
        self.user_code = functions.aggregators.user_code
        self._functions, self._order, self._update_before = functions, order, update_before

    def _handle_waiting(self) -> None:
        self._made = _Made()
        super()._handle_waiting()

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        ranked = _Positions.of(arrived.rows, self._order)
        accumulators = self._functions.accumulators(arrived.rows, ranked.places)
        identities = codes_of(pa.StructArray.from_arrays(arrived.rows.columns, arrived.rows.schema.names)).tolist()
        starts = [*arrived.segments.starts.tolist(), arrived.segments.total]
        sequence, stored = arrived.sequence.tolist(), len(arrived.stored)
        left: list[int] = []
        for key in range(len(arrived.keys)):
            over = _RowsOver(self._functions, ranked, accumulators)
            for row in sequence[starts[key] : starts[key + 1]]:
                if row >= stored and arrived.takes_back[row - stored]:
                    over.remove(row, identities, self._made, row - stored)
                else:
                    over.add(row, self._kind(arrived, row - stored), self._made, row - stored)
            left += over.rows
        return self._made.changes(update_before=self._update_before), np.array(left, np.int64)

    def _kind(self, arrived: Arrived, record: int) -> int:
        kinds = arrived.batch.kinds
        return 0 if kinds is None or record < 0 else int(kinds[record])

    def _emit(self, arrived: Arrived, found: Changes) -> None:
        if not len(found.rows):
            return
        (places,) = found.numbers
        values = [concat(list(parts)) for parts in zip(*self._made.values, strict=True)]
        columns = [gather(column, found.rows) for column in arrived.rows.columns]
        columns += [gather(column, places) for column in values]
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
        order = np.lexsort(codes[::-1])
        whole = np.stack([code[order] for code in codes])
        is_new = np.append(True, (whole[:, 1:] != whole[:, :-1]).any(axis=0))
        places, peers = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        places[order], peers[order] = np.arange(len(order)), np.cumsum(is_new)
        return _Positions(places, peers)


@dataclass
class _Made:
    """Rows to emit, with kinds, records, and the positions of their values among all results."""

    rows: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    values: list[list[pa.Array]] = field(default_factory=list)
    total: int = 0

    def keep(self, values: list[pa.Array]) -> int:
        """Adds results of the functions; returns the position of the first."""
        self.values.append(values)
        self.total += len(values[0])
        return self.total - len(values[0])

    def add(self, row: int, kind: int, record: int, place: int) -> None:
        """Adds a change."""
        self.rows.append(row)
        self.kinds.append(kind)
        self.records.append(record)
        self.places.append(place)

    def changes(self, *, update_before: bool) -> Changes:
        """All changes, ordered by record."""
        numbers = [np.array(each, np.int64) for each in (self.rows, self.records, self.places)]
        kinds = np.array(self.kinds, np.int8)
        order = np.argsort(numbers[1], kind="stable")
        if not update_before:
            order = order[kinds[order] != UPDATE_BEFORE]
        rows, records, places = (each[order] for each in numbers)
        return Changes(rows, kinds[order], records, (places,))


class _RowsOver:
    """The rows of one key in order, with the values of the functions."""

    def __init__(self, functions: OverFunctions, ranked: _Positions, accumulators: list[pa.Array]) -> None:
        self._functions, self._ranked, self._accumulators = functions, ranked, accumulators
        self.rows: list[int] = []
        self._values: tuple[int, list[pa.Array]] | None = None  # those that were emitted last, and their positions

    def add(self, row: int, kind: int, made: _Made, record: int) -> None:
        """Inserts a row."""
        before = self.rows
        places = self._ranked.places
        index = int(np.searchsorted(places[before], places[row])) if before else 0
        self.rows = [*before[:index], row, *before[index:]]
        if record < 0:
            return
        self._emit(before, made, record, came=(index, kind))

    def remove(self, row: int, identities: list[int], made: _Made, record: int) -> None:
        """Removes the first row that is equal; an unknown row is ignored."""
        before = self.rows
        index = next((at for at, each in enumerate(before) if identities[each] == identities[row]), None)
        if index is not None:
            self.rows = [*before[:index], *before[index + 1 :]]
            self._emit(before, made, record, went=index)

    def _emit(
        self, before: list[int], made: _Made, record: int, came: tuple[int, int] | None = None, went: int | None = None
    ) -> None:
        old = self._over(before, made) if self._values is None else self._values
        new = self._over(self.rows, made)
        self._values = new
        stays = [at for at in range(len(before)) if at != went]
        now = [at for at in range(len(self.rows)) if came is None or at != came[0]]
        changed = np.zeros(len(stays), np.bool_)
        for a, b in zip(old[1], new[1], strict=True):
            changed |= differ(gather(a, np.array(stays, np.int64)), gather(b, np.array(now, np.int64)))
        found = [(now[at] if went is None else stays[at], at) for at in np.flatnonzero(changed).tolist()]
        if came is not None:
            found.append((came[0], -1))
        if went is not None:
            found.append((went, -1))
        for _, at in sorted(found):
            if at >= 0:
                made.add(before[stays[at]], int(UPDATE_BEFORE), record, old[0] + stays[at])
                made.add(before[stays[at]], int(UPDATE_AFTER), record, new[0] + now[at])
            elif came is not None:
                made.add(self.rows[came[0]], came[1], record, new[0] + came[0])
            elif went is not None:
                made.add(before[went], int(DELETE), record, old[0] + went)

    def _over(self, rows: list[int], made: _Made) -> tuple[int, list[pa.Array]]:
        """The values of the functions over rows."""
        numbers, functions = np.array(rows, np.int64), self._functions
        if not rows:
            return made.total, [pa.nulls(0, call.type.arrow_type) for call in functions.calls]
        segments = Segments(np.zeros(1, np.int64), len(rows))
        running = functions.running([gather(column, numbers) for column in self._accumulators], segments)
        shown = np.arange(len(rows))
        if not functions.frame.is_rows:
            codes = self._ranked.codes[numbers]
            shown = np.searchsorted(codes, codes, side="right") - 1
        values = []
        for call in functions.calls:
            is_number = call.function == "ROW_NUMBER"
            column = row_numbers(segments, np.zeros(1, np.int64)) if is_number else gather(running[call], shown)
            values.append(column.cast(call.type.arrow_type))
        return made.keep(values), values
