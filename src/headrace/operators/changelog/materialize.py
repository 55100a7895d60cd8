"""``UpsertMaterializeOperator``: Flink's ``SinkUpsertMaterializer``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import codes_of
from headrace.operators.changelog.keyed_changes import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    Arrived,
    Changes,
    KeyedChangesOperator,
)
from headrace.operators.changelog.lifetimes import EqualRows, Lifetimes
from headrace.state.runs.grouping import in_order

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
_Part = tuple[Longs, npt.NDArray[np.int8], Longs]
"""Rows to emit, their kinds, and the positions of the records that cause them."""
_Latest = Callable[[Longs, Longs], Longs]


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
        latest: _Latest = _themselves
        if self._unique_key:
            rows = _UniqueRows.of(arrived, self._unique_key)
            lifetimes, latest = rows.lifetimes, rows.latest
        else:
            lifetimes = Lifetimes.of(arrived, range(arrived.rows.num_columns))
        records = arrived.sequence - len(arrived.stored)
        self._count_unknown(arrived, lifetimes)
        parts = [self._added(arrived, lifetimes), *self._retracted(arrived.sequence, lifetimes, latest)]
        rows_of, kinds, positions = (np.concatenate(each) for each in zip(*parts, strict=True))
        left = arrived.sequence[latest(lifetimes.left, np.full(len(lifetimes.left), len(records)))]
        found = Changes(rows_of, kinds, records[positions])
        return found.take(in_order(found.records)), left

    def _count_unknown(self, arrived: Arrived, lifetimes: Lifetimes) -> None:
        unknown = int(arrived.takes_back.sum()) - len(lifetimes.retracts)
        if unknown:
            self.count("numUnknownRowsDropped", unknown)

    def _added(self, arrived: Arrived, lifetimes: Lifetimes) -> _Part:
        """The rows that come."""
        sequence = arrived.sequence
        is_added = sequence >= len(arrived.stored)
        is_added[is_added] = ~arrived.takes_back[sequence[is_added] - len(arrived.stored)]
        positions = np.flatnonzero(is_added)
        before = (lifetimes.counts - lifetimes.steps)[positions]
        return sequence[positions], np.where(before > 0, UPDATE_AFTER, INSERT), positions

    def _retracted(self, sequence: Longs, lifetimes: Lifetimes, latest: _Latest) -> Iterator[_Part]:
        """The keys that are without rows, and the last row of those of which the last one is retracted."""
        retracts = lifetimes.retracts
        is_gone = lifetimes.counts[retracts] == 0
        gone, others = retracts[is_gone], retracts[~is_gone]
        yield sequence[gone], np.full(len(gone), DELETE), gone
        last = lifetimes.last_there(others)
        was_last = last < lifetimes.taken[others]
        others, last = others[was_last], last[was_last]
        yield sequence[latest(last, others)], np.full(len(others), UPDATE_AFTER), others


def _themselves(begins: Longs, _: Longs) -> Longs:
    return begins


@dataclass(frozen=True)
class _UniqueRows:
    """Rows with a unique key: one that comes takes the place of the one before, if there is one.

    Attributes:
        rows: all rows and records.
        lifetimes: the lifetime of each place, from the first row that has it.
    """

    rows: EqualRows
    lifetimes: Lifetimes

    @staticmethod
    def of(arrived: Arrived, unique_key: Sequence[int]) -> _UniqueRows:
        """The rows by the columns of a unique key."""
        rows = EqualRows.of(arrived, unique_key)
        order, takes_back = rows.order, rows.takes_back
        is_first = np.zeros(len(order), np.bool_)
        is_first[rows.segments.starts] = True
        is_there = ~is_first & ~np.append(True, takes_back[:-1])
        begins, taken = np.zeros(len(order), np.bool_), np.full(len(order), -1)
        begins[order] = ~is_there & ~takes_back
        retracts = np.flatnonzero(takes_back & is_there)
        first = np.maximum.accumulate(np.where(is_there, 0, np.arange(len(order))))
        taken[order[retracts]] = order[first[retracts]]
        return _UniqueRows(rows, Lifetimes(arrived.segments, begins, taken))

    @cached_property
    def _packed(self) -> Longs:
        return self.rows.segments.ids * (len(self.rows.order) + 1) + self.rows.order

    def latest(self, begins: Longs, positions: Longs) -> Longs:
        """The positions of the rows that have places before some positions, given where the places began."""
        inverse = np.empty(len(self.rows.order), np.int64)
        inverse[self.rows.order] = self.rows.segments.ids
        wanted = inverse[begins] * (len(inverse) + 1) + positions
        found: Longs = self.rows.order[np.searchsorted(self._packed, wanted) - 1]
        return found


def row_identities(rows: pa.RecordBatch, fields: Sequence[int]) -> list[int]:
    """A number for each row that is the same for equal rows."""
    columns = [rows.column(field) for field in fields]
    found: list[int] = codes_of(pa.StructArray.from_arrays(columns, [str(field) for field in fields])).tolist()
    return found
