"""``UpsertMaterializeOperator``: Flink's ``SinkUpsertMaterializer``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.arrays import codes_of
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    Arrived,
    Changes,
    KeyedChangesOperator,
)

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]


class UpsertMaterializeOperator(KeyedChangesOperator):
    """Keeps all rows of each key in the order of arrival, and emits the last of them.

    A table's key can differ from that of the query, so changes of different rows may arrive for one key of the table,
    in any order. When the last row is retracted, the one before it is emitted again; when none is left, the key is
    deleted. A retraction of an unknown row is dropped.

    Args:
        type_: the type of the records.
        codec: the codec of the keys.
        unique_key: the positions of the columns that identify a row; all columns when there is no such key.
        ttl: the time to live of state in milliseconds; 0 for ever.
    """

    store, what = "materialized-rows", "the rows of keys"

    def __init__(
        self, type_: TypeInformation, codec: KeyCodec, *, unique_key: Sequence[int] = (), ttl: int = 0
    ) -> None:
        super().__init__(type_, type_, codec, ttl=ttl)
        self._unique_key = unique_key

    def changes(self, arrived: Arrived) -> tuple[Changes, Longs]:
        identities = row_identities(arrived.rows, self._unique_key or range(arrived.rows.num_columns))
        takes_back, stored = arrived.takes_back.tolist(), len(arrived.stored)
        emitted: list[tuple[int, np.int8, int]] = []
        left: list[int] = []
        starts = arrived.segments.starts.tolist()
        for start, stop in zip(starts, [*starts[1:], arrived.segments.total], strict=True):
            rows: list[int] = []
            for row in arrived.sequence[start:stop].tolist():
                if row < stored:
                    rows.append(row)
                elif takes_back[row - stored]:
                    emitted += self._without(rows, row, row - stored, identities)
                else:
                    emitted.append((row, UPDATE_AFTER if rows else INSERT, row - stored))
                    self._add(rows, row, identities)
            left += rows
        return _changes(emitted), np.array(left, np.int64)

    def _add(self, rows: list[int], row: int, identities: Sequence[int]) -> None:
        if self._unique_key:
            for place, other in enumerate(rows):
                if identities[other] == identities[row]:
                    rows[place] = row
                    return
        rows.append(row)

    def _without(
        self, rows: list[int], row: int, record: int, identities: Sequence[int]
    ) -> list[tuple[int, np.int8, int]]:
        """Removes a row, and returns the changes to emit for it."""
        place = next((place for place, other in enumerate(rows) if identities[other] == identities[row]), None)
        if place is None:
            self.count("numUnknownRowsDropped", 1)
            return []
        del rows[place]
        if not rows:
            return [(row, DELETE, record)]
        return [(rows[-1], UPDATE_AFTER, record)] if place == len(rows) else []


def _changes(emitted: list[tuple[int, np.int8, int]]) -> Changes:
    rows, kinds, records = zip(*emitted, strict=True) if emitted else ((), (), ())
    found = Changes(np.array(rows, np.int64), np.array(kinds, np.int8), np.array(records, np.int64))
    return found.take(np.argsort(found.records, kind="stable"))


def row_identities(rows: pa.RecordBatch, fields: Sequence[int]) -> list[int]:
    """A number for each row that is the same for equal rows."""
    columns = [rows.column(field) for field in fields]
    found: list[int] = codes_of(pa.StructArray.from_arrays(columns, [str(field) for field in fields])).tolist()
    return found
