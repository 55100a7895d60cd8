"""The partial matches of the keys of a subtask in state, as rows (:mod:`headrace.operators.pattern.match_rows`).

The table has them by key and number. What an epoch changes of a key is read with all that this key has, and written by
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import OperatorContext
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.match_rows import FIRST, NOT_TAKEN, WIDTH, RowWriter, state_of
from headrace.operators.pattern.matches import KnownRows, NfaState
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import in_order
from headrace.state.runs.layout import HASH, KEY, LIVE, TYPES, fields_of_rows, rows_of_ranges
from headrace.state.runs.run import order_by_key
from headrace.state.table_layout import TableLayout

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

STORE: Final = "pattern-matches"

_KIND: Final = "pattern-matches"
_ROW: Final = "row"
_RECORD: Final = "record"
_ROW_COLUMN: Final = 2
_FIRST_COLUMN: Final = 4
"""Behind hash, key, the number of the row and whether it is there."""
_WORDS: Final = {"keys": "key type", "states": "list of states of the pattern", TYPES: "type of records"}

register_key_sorted_merger(_KIND, replaces_rows=True)


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """A partial match of a pattern, or a match that waits for others.

    Attributes:
        key: the key.
        start: the timestamp of its first event.
        events: the events that it has taken, by the names of their stages.
        waits_for: the stage whose event it waits for, or that of the stages behind it where this one may be left out or
            has taken enough; None for a match that is finished, and waits until partial
            matches that began before it have ended, as the skip strategy of the pattern wants it, and for the way that
            is tried for the preferred match of ``MATCH_RECOGNIZE``.
        rule: the id of the rule whose pattern it is of; None where there is one pattern.

    Examples:
        >>> from headrace.cep import CEP, Pattern
        >>> from headrace.testing import JobHarness
        >>> pattern = Pattern.begin("low").where(lambda n: n < 5).followed_by("high").where(lambda n: n > 7)
        >>> def job(harness):
        ...     numbers = harness.add_source("numbers", int).key_by(lambda n: n % 2, key_type=int)
        ...     found = CEP.pattern(numbers, pattern).select(lambda match: match["high"][0], int)
        ...     harness.add_sink("found", found.uid("pattern"))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("numbers", [2, 9, 4], [1, 2, 3])
        ...     harness.advance_watermark("numbers", 3)
        ...     harness.run_epoch()
        ...     for held in harness.partial_matches("pattern"):
        ...         print(held.key, held.start, held.events, held.waits_for)
        0 1 {'low': [2]} high
        0 3 {'low': [4]} high
    """

    key: Any
    start: int
    events: dict[str, list[Any]]
    waits_for: str | None
    rule: str | None = None


class StoredMatches:
    """The partial matches of the keys of one subtask.

    Args:
        context: the operator.
        name: the name of the store.
        states: the names of the states of the pattern, which have to be those that are stored; None where whoever keeps
            the pattern sees to that.
        type_: the type of the events.
    """

    def __init__(
        self, context: OperatorContext, name: str, states: Sequence[str] | None, type_: TypeInformation
    ) -> None:
        codec = context.state.keyed.codec
        own = {
            "stage": pa.int16(),
            "state": pa.int16(),
            "previous": pa.int64(),
            "time": pa.int64(),
            "number": pa.int64(),
            _RECORD: type_.storage_type,
        }
        fields = [pa.field(HASH, pa.uint64()), pa.field(KEY, codec.arrow_type), pa.field(_ROW, pa.int64())]
        fields += [pa.field(LIVE, pa.bool_()), *fields_of_rows(pa.schema(own))]
        self._schema = pa.schema(fields)
        about: dict[str, Any] = {"keys": codec.to_json()}
        if states is not None:
            about["states"] = list(states)
        layout = TableLayout(
            "the partial matches of a pattern",
            _KIND,
            self._schema,
            3,
            about,
            _WORDS,
            type_,
            column=fields[-1].name,
            renamed=context.renamed_fields,
        )
        self._table = KeySortedTable(context.state.store(name), layout, replaces_rows=True)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._table.end_epoch()

    def find(self, keys: KeyColumn, first: int = 0) -> FoundMatches:
        """Return what different keys have, which are in the order of hash and key.

        Args:
            keys: the keys.
            first: the place of the first event among those that have been taken, of this pattern and others.
        """
        return FoundMatches(*self._table.find(keys), first)

    def write(
        self,
        keys: KeyColumn,
        changed: Mapping[int, NfaState],
        events: Events,
        found: FoundMatches,
        expired: Longs,
        passed: Longs,
    ) -> None:
        """Writes what has changed of keys.

        Args:
            keys: different keys, in the order of hash and key.
            changed: what some of them have now, by their positions.
            events: the events.
            found: what they have had until now.
            expired: the positions of other keys, which have nothing any more.
            passed: rows of others, or of those behind whose rows something is added, that are gone or have changed.
        """
        writer = RowWriter()
        ended = expired.tolist()
        for position, state in changed.items():
            state.is_changed = False
            if not state.is_empty:
                writer.add(position, state)
            elif state.known is not None and state.known.standing:
                ended.append(position)
        pieces = [writer.columns(), found.gone(np.array(ended, np.int64)), passed]
        written = _in_order(np.concatenate(pieces, axis=1))
        if written.shape[1]:
            self._table.append(self._batch(keys, written, events))

    def _batch(self, keys: KeyColumn, written: Longs, events: Events) -> pa.RecordBatch:
        of_keys, rows, is_live, *columns, places, has_record = written
        own = keys.take(of_keys)
        with_record = has_record != 0
        records = events.column(places[with_record])
        if not with_record.all():
            records = records.take(pa.array(np.cumsum(with_record) - 1, mask=~with_record))
        types = self._schema.types[_FIRST_COLUMN:-1]
        numbers = [
            pa.array(column.astype(type_.to_pandas_dtype())) for column, type_ in zip(columns, types, strict=True)
        ]
        arrays = [pa.array(own.hashes), own.values, pa.array(rows), pa.array(is_live != 0), *numbers, records]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def keys(self) -> KeyColumn:
        """Return all keys that have anything, each once."""
        self._table.end_epoch()
        return self.all()[0]

    def all(self) -> tuple[KeyColumn, FoundMatches]:
        """Return all keys, and what they had when the epoch began."""
        rows = self._table.stored()
        keys = KeyColumn(rows.column(KEY), fixed_width(rows.column(HASH)))
        order, firsts = order_by_key(keys.hashes, keys.values)
        return keys.take(order[firsts]), FoundMatches(np.cumsum(firsts) - 1, rows.take(pa.array(order)))


class FoundMatches:
    """What was found of some keys.

    Attributes:
        positions: the positions of the keys that have something, ascending.
        counts: the number of rows of each.
        records: the events, as one column.

    Args:
        of_keys: the position of each row's key, ascending.
        found: the rows, those of a key by their numbers.
        first: the place of the first event among those that have been taken.
    """

    def __init__(self, of_keys: Longs, found: pa.RecordBatch, first: int = 0) -> None:
        self._first, self._of_keys = first, of_keys
        self.records = found.column(found.num_columns - 1)
        self._columns = [fixed_width(column) for column in found.columns[_FIRST_COLUMN:-1]]
        self._rows: Longs = fixed_width(found.column(_ROW_COLUMN))
        self.positions, self._starts = np.unique(of_keys, return_index=True)
        self.counts = np.diff(self._starts, append=len(of_keys))

    def events(self) -> tuple[Longs, Longs]:
        """The places of all events, by key and in the order in which they were matched, and the positions of keys."""
        takers, _, _, _, numbers = self._columns
        rows = np.flatnonzero(takers >= 0)
        rows = rows[np.lexsort((numbers[rows], self._of_keys[rows]))]
        return -1 - self._first - rows, self._of_keys[rows]

    @cached_property
    def live(self) -> Longs:
        """For each key the states that its partial matches are in, as bits; of up to 62 states."""
        states = self._columns[1].astype(np.int64)
        return self._reduced(np.bitwise_or, np.where(states >= 0, 1 << np.maximum(states, 0), 0))

    @cached_property
    def first_begun(self) -> Longs:
        """The time of the first event of the first match of each key."""
        return self._reduced(np.minimum, np.where(self._are_first, self._columns[3], MAX_WATERMARK))

    @cached_property
    def last_begun(self) -> Longs:
        """The time of the first event of the last match of each key."""
        return self._reduced(np.maximum, np.where(self._are_first, self._columns[3], MIN_WATERMARK))

    @property
    def _are_first(self) -> Mask:
        taken, _, previous, *_ = self._columns
        are_first: Mask = (previous == FIRST) & (taken != NOT_TAKEN)
        return are_first

    def _reduced(self, ufunc: np.ufunc, values: Longs) -> Longs:
        return np.asarray(ufunc.reduceat(values, self._starts)) if len(values) else values

    def gone(self, positions: Longs) -> Longs:
        """Say of all rows of some keys, which have some, that they are gone."""
        places = np.searchsorted(self.positions, positions)
        return self._gone(rows_of_ranges(self._starts[places], self.counts[places]))

    def _gone(self, rows: Longs) -> Longs:
        written = np.zeros((WIDTH, len(rows)), np.int64)
        written[0], written[1] = self._of_keys[rows], self._rows[rows]
        return written

    def begun_until(self, is_wanted: Mask, time: int) -> Longs:
        """Say of the matches of some of the keys that began until a time that they are gone.

        An event of them that others share is stored in another row from now on.
        """
        rows = rows_of_ranges(self._starts[is_wanted], self.counts[is_wanted])
        if not len(rows):
            return self._gone(rows)
        takers, states, previous, times, numbers = (column[rows] for column in self._columns)
        of_keys, own = self._of_keys[rows], self._rows[rows]
        is_over = times[_roots(of_keys, own, previous)] <= time
        stored = np.flatnonzero(is_over & (takers >= 0))
        sharing = np.flatnonzero(~is_over & (takers < NOT_TAKEN))
        gone = self._gone(rows[is_over])
        if not len(sharing):
            return gone
        _, firsts = np.unique(np.stack([of_keys[sharing], numbers[sharing]]), axis=1, return_index=True)
        sharing = sharing[np.sort(firsts)]
        holders = _places(of_keys[stored], numbers[stored], of_keys[sharing], numbers[sharing])
        heirs, holders = sharing[holders >= 0], stored[holders[holders >= 0]]
        kept = np.ones((WIDTH, len(heirs)), np.int64)
        columns = [of_keys, own, None, -2 - takers, states, previous, times, numbers]
        for part, column in enumerate(columns):
            if column is not None:
                kept[part] = column[heirs]
        kept[-2] = -1 - (self._first + rows[holders])
        return np.concatenate([gone, kept], axis=1)

    def additions(self, is_wanted: Mask) -> dict[int, NfaState]:
        """Return states for what begins of some of the keys, which is stored behind what they have."""
        numbers = self._reduced(np.maximum, self._columns[4])[is_wanted] + 1
        rows = self._rows[(self._starts + self.counts - 1)[is_wanted]] + 1
        positions = self.positions[is_wanted].tolist()
        return {
            position: NfaState(next_number=number, known=KnownRows(row))
            for position, number, row in zip(positions, numbers.tolist(), rows.tolist(), strict=True)
        }

    def states(self, is_wanted: Mask) -> dict[int, NfaState]:
        """Return what some of the keys have, by their positions; events have negative places."""
        starts, counts = self._starts[is_wanted], self.counts[is_wanted]
        rows = rows_of_ranges(starts, counts)
        columns = [column[rows].tolist() for column in (*self._columns, self._rows)]
        stops = np.cumsum(counts)
        bounds = [self.positions[is_wanted], self._first + starts, stops - counts, stops]
        return {
            position: state_of([column[start:stop] for column in columns], place)
            for position, place, start, stop in zip(*(bound.tolist() for bound in bounds), strict=True)
        }


def _roots(of_keys: Longs, rows: Longs, previous: Longs) -> Longs:
    """For each row the first step of its match, as its place among rows of keys, by key and number."""
    is_first = previous == FIRST
    roots = _places(of_keys, rows, of_keys, np.where(is_first, rows, previous))
    while not is_first[roots].all():
        roots = roots[roots]
    return roots


def _places(of_keys: Longs, numbers: Longs, wanted_of: Longs, wanted: Longs) -> Longs:
    """Find the places of pairs of a key and a number among distinct pairs; -1 for those that are missing."""
    all_keys, all_numbers = np.concatenate([of_keys, wanted_of]), np.concatenate([numbers, wanted])
    order = in_order(all_keys, all_numbers)
    all_keys, all_numbers, is_wanted = all_keys[order], all_numbers[order], order >= len(of_keys)
    before = np.maximum.accumulate(np.where(is_wanted, -1, np.arange(len(order))))
    is_found = (before >= 0) & (all_keys[before] == all_keys) & (all_numbers[before] == all_numbers)
    places = np.empty(len(wanted), np.int64)
    places[order[is_wanted] - len(of_keys)] = np.where(is_found, order[before], -1)[is_wanted]
    return places


def _in_order(written: Longs) -> Longs:
    """Rows by key and number."""
    of_keys, rows = written[:2]
    is_behind = (of_keys[1:] > of_keys[:-1]) | ((of_keys[1:] == of_keys[:-1]) & (rows[1:] > rows[:-1]))
    return written if is_behind.all() else written[:, in_order(of_keys, rows)]
