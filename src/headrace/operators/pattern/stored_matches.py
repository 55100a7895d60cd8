"""The partial matches of keys in state, as rows that are read and written together.

A row is a step: the event that a state of the automaton has taken, and the row of the step before, which partial
matches share. Where a partial match stands at a step, the row says in which state it is; matches that are finished and
wait have a state of their own. An event is stored once for a key, in the first of its rows.
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
from headrace.operators.changelog.rows_of_keys import RowsAbout, RowsOfKeys, StoredRows
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.matches import EventId, NfaState, Step
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import in_order
from headrace.state.runs.layout import rows_of_ranges
from headrace.state.runs.run import order_by_key

Longs = npt.NDArray[np.int64]

STORE: Final = "pattern-matches"

_NO_STATE: Final = -1
"""No match stands at the step of the row."""
_FINISHED: Final = -2
"""A match stands there that is finished and waits."""
_NOT_TAKEN: Final = -1
"""The row is no step, but another match at the step of an earlier row, which it names as the one before."""
_FIRST: Final = -1
"""There is no step before."""

_RECORD: Final = "record"


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
        self._schema = pa.schema(
            {
                "stage": pa.int16(),
                "state": pa.int16(),
                "previous": pa.int32(),
                "time": pa.int64(),
                "number": pa.int64(),
                _RECORD: type_.storage_type,
            }
        )
        self._rows = RowsOfKeys(
            context,
            name,
            "the partial matches of a pattern",
            context.state.keyed.codec,
            self._schema,
            about=RowsAbout(
                type_, {} if states is None else {"states": ("list of states of the pattern", list(states))}
            ),
        )

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._rows.begin_epoch(0)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._rows.end_epoch()

    def find(self, keys: KeyColumn, first: int = 0) -> FoundMatches:
        """Return what different keys have, which are in the order of hash and key.

        Args:
            keys: the keys.
            first: the place of the first event among those that have been taken, of this pattern and others.
        """
        return FoundMatches(self._rows.find(keys), first)

    def write(
        self, keys: KeyColumn, changed: Mapping[int, NfaState], events: Events, found: FoundMatches, expired: Longs
    ) -> None:
        """Replaces what keys have.

        Args:
            keys: different keys, in the order of hash and key.
            changed: what some of them have now, by their positions, which ascend.
            events: the events.
            found: what they have had until now.
            expired: the positions of those that have nothing any more.
        """
        writer = _Writer()
        gone = expired.tolist()
        for position, state in changed.items():
            state.is_changed = False
            if not state.is_empty:
                added_to = found.count_of(position) if state.is_addition else 0
                writer.add(position, state, added_to)
            elif not state.is_addition:
                gone.append(position)
        gone_keys = np.intersect1d(np.array(gone, np.int64), found.positions, assume_unique=True)
        if len(writer.of_keys) or len(gone_keys):
            rows = found.with_rows(writer.added_to, writer.rows(self._schema, events))
            self._rows.write(keys, rows, gone_keys)

    def keys(self) -> KeyColumn:
        """Return all keys that have anything, each once."""
        keys, _ = self._rows.stored()
        order, firsts = order_by_key(keys.hashes, keys.values)
        return keys.take(order[firsts])

    def all(self) -> tuple[KeyColumn, FoundMatches]:
        """Return all keys, and what they had when the epoch began."""
        keys, rows = self._rows.before()
        order, firsts = order_by_key(keys.hashes, keys.values)
        rows = rows.take(pa.array(order))
        return keys.take(order[firsts]), FoundMatches(StoredRows(np.cumsum(firsts) - 1, rows))


class FoundMatches:
    """What was found of some keys.

    Attributes:
        positions: the positions of the keys that have something, ascending.
        counts: the number of rows of each.
        records: the events, as one column.

    Args:
        found: the rows.
        first: the place of the first event among those that have been taken.
    """

    def __init__(self, found: StoredRows, first: int = 0) -> None:
        self._first, self._rows = first, found.rows
        self.records = found.rows.column(_RECORD)
        self._columns = [fixed_width(column) for column in found.rows.columns[:-1]]
        self.positions, self._starts = np.unique(found.of_keys, return_index=True)
        self.counts = np.diff(self._starts, append=len(found))
        self._of_keys = found.of_keys

    def events(self) -> tuple[Longs, Longs]:
        """The places of all events, by key and in the order in which they were matched, and the positions of keys."""
        takers, _, _, _, numbers = self._columns
        rows = np.flatnonzero(takers != _NOT_TAKEN)
        rows = rows[np.lexsort((numbers[rows], self._of_keys[rows]))]
        of_keys, numbers = self._of_keys[rows], numbers[rows]
        is_first = (np.diff(of_keys, prepend=-1) != 0) | (np.diff(numbers, prepend=-1) != 0)
        return -1 - self._first - rows[is_first], of_keys[is_first]

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
    def _are_first(self) -> npt.NDArray[np.bool_]:
        taken, _, previous, *_ = self._columns
        are_first: npt.NDArray[np.bool_] = (previous == _FIRST) & (taken != _NOT_TAKEN)
        return are_first

    def _reduced(self, ufunc: np.ufunc, values: Longs) -> Longs:
        return np.asarray(ufunc.reduceat(values, self._starts)) if len(values) else values

    def count_of(self, position: int) -> int:
        """The number of rows of a key that has some."""
        return int(self.counts[np.searchsorted(self.positions, position)])

    def additions(self, is_wanted: npt.NDArray[np.bool_]) -> dict[int, NfaState]:
        """Return states for what begins of some of the keys, which is stored behind what they have."""
        numbers = self._reduced(np.maximum, self._columns[4])[is_wanted] + 1
        positions = self.positions[is_wanted].tolist()
        return {
            position: NfaState(next_number=number, is_addition=True)
            for position, number in zip(positions, numbers.tolist(), strict=True)
        }

    def with_rows(self, added_to: Sequence[int], added: StoredRows) -> StoredRows:
        """Rows, with those that some keys have had in front of what is added to them.

        Args:
            added_to: the positions of these keys, ascending.
            added: the rows.
        """
        if not added_to:
            return added
        places = np.searchsorted(self.positions, np.array(added_to, np.int64))
        kept = self._rows.take(pa.array(rows_of_ranges(self._starts[places], self.counts[places])))
        of_keys = np.concatenate([np.repeat(self.positions[places], self.counts[places]), added.of_keys])
        both = pa.concat_batches([kept, added.rows])
        order = in_order(of_keys)
        return StoredRows(of_keys[order], both.take(pa.array(order)))

    def states(self, is_wanted: npt.NDArray[np.bool_]) -> dict[int, NfaState]:
        """Return what some of the keys have, by their positions; events have negative places."""
        starts, counts = self._starts[is_wanted], self.counts[is_wanted]
        rows = rows_of_ranges(starts, counts)
        columns = [column[rows].tolist() for column in self._columns]
        stops = np.cumsum(counts)
        bounds = [self.positions[is_wanted], self._first + starts, stops - counts, stops]
        return {
            position: _state([column[start:stop] for column in columns], place)
            for position, place, start, stop in zip(*(bound.tolist() for bound in bounds), strict=True)
        }


def _state(columns: Sequence[list[int]], place: int) -> NfaState:
    """Return what a key has.

    Args:
        columns: its rows.
        place: the first of them among all rows.
    """
    state = NfaState()
    steps: list[Step] = []
    firsts: list[EventId] = []
    places: dict[EventId, int] = {}
    for row, (taker, at, before, time, number) in enumerate(zip(*columns, strict=True)):
        if taker == _NOT_TAKEN:
            step, first = steps[before], firsts[before]
        else:
            event_id = (time, number)
            event = places.setdefault(event_id, -1 - (place + row))
            parent, first = (None, event_id) if before == _FIRST else (steps[before], firsts[before])
            step = (taker, event_id, event, parent)
        steps.append(step)
        firsts.append(first)
        if at >= 0:
            state.partial.append((first, at, step))
            state.live |= 1 << at
        elif at == _FINISHED:
            state.finished.append((first, step))
    state.next_number = max(columns[-1]) + 1
    return state


class _Writer:
    """Makes rows of the matches of keys."""

    def __init__(self) -> None:
        self.of_keys: list[int] = []
        self.added_to: list[int] = []
        self._columns: tuple[list[int], ...] = ([], [], [], [], [])
        self._events: list[int] = []
        self._with_record: list[bool] = []

    def add(self, position: int, state: NfaState, added_to: int = 0) -> None:
        """Adds what a key has.

        Args:
            position: the key.
            state: what it has, or what is added.
            added_to: the number of rows that it is added to.
        """
        if added_to:
            self.added_to.append(position)
        first = len(self._events)
        before = first - added_to
        rows: dict[int, int] = {}
        stored: set[EventId] = set()
        standing = [(at, step) for _, at, step in state.partial]
        standing += [(_FINISHED, step) for _, step in state.finished]
        for at, step in standing:
            known = rows.get(id(step))
            if known is not None:
                self._append(_NOT_TAKEN, at, known, step, has_record=False)
                continue
            new: list[Step] = []
            parent: Step | None = step
            while parent is not None and id(parent) not in rows:
                new.append(parent)
                parent = parent[3]
            previous = _FIRST if parent is None else rows[id(parent)]
            for each in reversed(new):
                rows[id(each)] = len(self._events) - before
                stands = at if each is step else _NO_STATE
                self._append(each[0], stands, previous, each, has_record=each[1] not in stored)
                stored.add(each[1])
                previous = rows[id(each)]
        self.of_keys += [position] * (len(self._events) - first)

    def _append(self, taker: int, at: int, previous: int, step: Step, *, has_record: bool) -> None:
        _, (time, number), event, _ = step
        for column, value in zip(self._columns, (taker, at, previous, time, number), strict=True):
            column.append(value)
        self._events.append(event)
        self._with_record.append(has_record)

    def rows(self, schema: pa.Schema, events: Events) -> StoredRows:
        """All that was added."""
        with_record = np.array(self._with_record, np.bool_)
        places = np.array(self._events, np.int64)
        records = events.column(places[with_record])
        if not with_record.all():
            indices = np.cumsum(with_record) - 1
            records = records.take(pa.array(indices, mask=~with_record))
        numbers: Sequence[Any] = [
            pa.array(np.array(column, np.int64).astype(field.type.to_pandas_dtype()))
            for column, field in zip(self._columns, schema, strict=False)
        ]
        rows = pa.RecordBatch.from_arrays([*numbers, records], schema=schema)
        return StoredRows(np.array(self.of_keys, np.int64), rows)
