"""``MultiJoinOperator``: several joins on one key as one operator, which keeps the rows of the inputs alone.

A chain of regular joins keeps the result of each join as input of the next. Here a record finds the rows of all other
inputs anew: it is put together with the rows of the first input, these rows with those of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch, Kinds
from headrace.common.typeinfo.composite import schema_of
from headrace.common.types import RowKind
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.changelog.rows_of_keys import check_stores
from headrace.operators.join.find_pairs import portions
from headrace.operators.join.regular.definition import SideState, rows_at
from headrace.operators.join.regular.records import ChangelogJoinOperator, JoinRecords, in_order_of_state
from headrace.operators.join.regular.stored_rows import JoinEntries, RowsThere
from headrace.operators.join.results import NO_MATCH
from headrace.operators.stateless import computed, user_code_of
from headrace.operators.waiting import TakenBatches
from headrace.state.runs.layout import rows_of_ranges

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.expressions import Bound
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_INSERT, _DELETE = np.int8(RowKind.INSERT.value), np.int8(RowKind.DELETE.value)


@dataclass(frozen=True)
class JoinedInput:
    """An input of a multi-join.

    Attributes:
        type: the type of its records.
        state: how its rows are kept.
        is_optional: whether rows of the inputs before it are emitted without one of its rows, too (``LEFT JOIN``).
        condition: the condition of its join, over the columns of the inputs up to it, equality of keys included; None
            for the first input.
        joined_type: the type of a row with those columns.
    """

    type: TypeInformation
    state: SideState
    is_optional: bool
    condition: Bound | None
    joined_type: TypeInformation


@dataclass(frozen=True)
class _JoinedRows:
    """Rows that are put together of the first inputs, in the order in which they are emitted.

    Attributes:
        records: the record that each is made for.
        kinds: the kind of each; that of its record unless a row without a partner comes or goes.
        entries: for each input its entry; ``NO_MATCH`` where it has none.
    """

    records: Longs
    kinds: Kinds
    entries: tuple[Longs, ...]

    def at(self, places: Longs | slice) -> _JoinedRows:
        """The rows at some places."""
        entries = tuple(each[places] for each in self.entries)
        return _JoinedRows(self.records[places], self.kinds[places], entries)


class MultiJoinOperator(ChangelogJoinOperator):
    """Joins several keyed changelogs, each with those before it.

    Results are those of processing one record after the other, in the order of arrival.

    Args:
        inputs: the inputs, at least two.
        output_type: the type of rows with the columns of all inputs.
        codec: the codec of the keys.
    """

    def __init__(self, inputs: Sequence[JoinedInput], output_type: TypeInformation, codec: KeyCodec) -> None:
        super().__init__(codec)
        self._inputs, self._output_type = inputs, output_type
        self.user_code = user_code_of([each.condition for each in inputs])

    def restore_state(self, context: OperatorContext) -> None:
        names = [f"join-rows-{number}" for number in range(len(self._inputs))]
        check_stores(context, names)
        self._context, self._sides = context, []
        for name, given in zip(names, self._inputs, strict=True):
            self._add_side(context, name, given.state, schema_of(given.type), needs_own_rows=given.is_optional)

    def handle_taken(self, taken: TakenBatches[KeyedBatch]) -> None:
        records = JoinRecords.of(taken, len(self._inputs))
        sides = [side.rows(records, self._numbers) for side in self._sides]
        entries = [side.entries for side in sides]
        search = _PartnerSearch(self._inputs, records, records.entries(entries), entries, self._context)
        for joined in search.results():
            self._emit(records, joined, entries)
        for side, rows in zip(self._sides, sides, strict=True):
            side.stored.write(records.keys, *rows.written())

    def _emit(self, records: JoinRecords, joined: _JoinedRows, sides: Sequence[JoinEntries]) -> None:
        if not len(joined.records):
            return
        columns = [
            column
            for side, entries in zip(sides, joined.entries, strict=True)
            for column in rows_at(side.rows, entries)
        ]
        made = pa.RecordBatch.from_arrays(columns, schema=schema_of(self._output_type))
        times = records.timestamps[joined.records], records.watermarks[joined.records]
        kinds = joined.kinds if joined.kinds.any() else None
        self.output.emit(Batch(self._output_type, *times, columns=made, kinds=kinds))


class _PartnerSearch:
    """Finds what records are joined with.

    Args:
        inputs: the inputs.
        records: the records.
        own: the entry of each record in its input.
        sides: the entries of each input.
        context: the operator.
    """

    def __init__(
        self,
        inputs: Sequence[JoinedInput],
        records: JoinRecords,
        own: Longs,
        sides: Sequence[JoinEntries],
        context: OperatorContext,
    ) -> None:
        self._inputs, self._records, self._own, self._sides = inputs, records, own, sides
        self._context = context
        self._there = [RowsThere.of(entries) for entries in sides]

    def results(self) -> Iterator[_JoinedRows]:
        """The rows to emit, some records at a time."""
        everything = np.arange(len(self._records.sides))
        yield from self._with_rest(_JoinedRows(everything, self._records.kinds.astype(np.int8), ()))

    def _with_rest(self, joined: _JoinedRows) -> Iterator[_JoinedRows]:
        """The rows that begin with given ones, in portions of about equal memory."""
        side = len(joined.entries)
        if side == len(self._inputs):
            yield joined
            return
        starts, stops = self._there[side].found_by(self._records.of_keys[joined.records], joined.records)
        counts = stops - starts
        for first, stop in portions(counts + 1):
            part = slice(first, stop)
            yield from self._with_rest(self._with_next(joined.at(part), starts[part], counts[part]))

    def _with_next(self, joined: _JoinedRows, starts: Longs, counts: Longs) -> _JoinedRows:
        """Rows with an entry of one more input, given the ranges of its rows with their keys."""
        side = len(joined.entries)
        is_own = self._records.sides[joined.records] == side
        is_optional = self._inputs[side].is_optional
        searched = np.flatnonzero(counts > 0) if is_optional else np.flatnonzero(~is_own & (counts > 0))
        places, others = self._matches(joined, searched, starts, counts)
        found = np.bincount(places, minlength=len(is_own))
        is_match = ~is_own[places]
        parts = [(places[is_match], np.flatnonzero(is_match), others[is_match], joined.kinds[places[is_match]])]
        own = np.flatnonzero(is_own)
        entries = self._own[joined.records[own]]
        holds = self._holding(joined.at(own), entries)
        own, entries = own[holds], entries[holds]
        parts.append((own, np.ones(len(own), np.int64), entries, joined.kinds[own]))
        if is_optional:
            parts += self._alone(joined, is_own, found, own)
        return _put_together(joined, parts)

    def _alone(
        self, joined: _JoinedRows, is_own: Mask, found: Longs, own: Longs
    ) -> list[tuple[Longs, Longs, Longs, Kinds]]:
        """Rows without an entry of an optional input: all the time, or until a record comes, or once it has gone."""
        alone = np.flatnonzero(~is_own & (found == 0))
        flips = own[found[own] == 0]
        takes_back = self._records.takes_back[joined.records[flips]]
        turned = np.where(takes_back, _INSERT, _DELETE)
        return [
            (alone, np.zeros(len(alone), np.int64), np.full(len(alone), NO_MATCH), joined.kinds[alone]),
            (flips, np.where(takes_back, 2, 0), np.full(len(flips), NO_MATCH), turned),
        ]

    def _matches(self, joined: _JoinedRows, searched: Longs, starts: Longs, counts: Longs) -> tuple[Longs, Longs]:
        """The rows of the next input that match rows at some places, in the order in which state has them."""
        there = self._there[len(joined.entries)]
        places = np.repeat(searched, counts[searched])
        others = there.order[rows_of_ranges(starts[searched], counts[searched])]
        records = joined.records[places]
        # An insertion replaces a row with its unique key only after it was put together with others.
        replaces = (self._records.sides[records] == len(joined.entries)) & ~self._records.takes_back[records]
        is_there = there.entries.deaths[others] > records - replaces
        places, others = places[is_there], others[is_there]
        if (places[1:] == places[:-1]).any():
            order = in_order_of_state(there.entries, places, others)
            places, others = places[order], others[order]
        holds = self._holding(joined.at(places), others)
        return places[holds], others[holds]

    def _holding(self, joined: _JoinedRows, others: Longs) -> Mask:
        """True for each row that meets the condition with an entry of the next input."""
        side = len(joined.entries)
        given = self._inputs[side]
        if given.condition is None or not len(others):
            return np.ones(len(others), np.bool_)
        columns = [
            column
            for entries, places in zip(self._sides, (*joined.entries, others), strict=False)
            for column in rows_at(entries.rows, places)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=schema_of(given.joined_type))
        zeros = np.zeros(len(others), np.int64)
        batch = Batch(given.joined_type, zeros, zeros, columns=rows)
        found = computed((given.condition,), batch, self._context)[0]
        return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _put_together(joined: _JoinedRows, parts: Sequence[tuple[Longs, Longs, Longs, Kinds]]) -> _JoinedRows:
    """Rows with one more entry, in order.

    Args:
        joined: the rows.
        parts: of some of them, the rows by their places, the place among those of the same row, the entry and the kind.
    """
    places, ranks, entries, kinds = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((ranks, places))
    made = joined.at(places[order])
    return _JoinedRows(made.records, kinds[order].astype(np.int8), (*made.entries, entries[order]))
