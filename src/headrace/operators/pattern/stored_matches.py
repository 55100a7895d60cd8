"""The partial matches of the keys of a subtask in state: rows by key and number, and the timers that end them.

What an epoch changes of a key is read with all that this key has, and written by itself. Of keys with many partial
matches there are summaries (:class:`headrace.operators.pattern.found_matches.MatchSummary`), by which they are left
unread where nothing of these changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.arrays import fixed_width
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import OperatorContext
from headrace.operators.pattern import found_matches
from headrace.operators.pattern.event_conditions import Events
from headrace.operators.pattern.found_matches import (
    FIRST_COLUMN,
    FoundMatches,
    MatchSummary,
    StoredSummaries,
    Summaries,
)
from headrace.operators.pattern.shared_buffer import NfaState, RowWriter
from headrace.state.key_sorted_table import KeySortedTable, register_key_sorted_merger
from headrace.state.keys import KeyColumn
from headrace.state.runs.grouping import group_rows, in_order
from headrace.state.runs.layout import HASH, KEY, LIVE, TYPES, fields_of_rows
from headrace.state.runs.merge_input import NO_TIME, newest
from headrace.state.runs.merging import register_ordered_merger
from headrace.state.runs.run import order_by_key
from headrace.state.sorted_table import TableLayout, TimeSortedTable

Longs = npt.NDArray[np.int64]

STORE: Final = "pattern-matches"

_KIND: Final = "pattern-matches"
_ROW: Final = "row"
_RECORD: Final = "record"
_TIME: Final = 7
"""The place of the column of the times of events."""
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
            matches that began before it have ended, as the skip strategy of the pattern requires, and for the way that
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
        summaries: the name of the store of summaries.
        states: the names of the states of the pattern, which have to be those that are stored; None where the
            caller ensures that.
        type_: the type of the events.
        summarizes: whether keys with many partial matches get summaries.
    """

    def __init__(
        self,
        context: OperatorContext,
        name: str,
        summaries: str,
        states: Sequence[str] | None,
        type_: TypeInformation,
        *,
        summarizes: bool,
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
        self._summaries = StoredSummaries(context, summaries)
        self._summarizes = summarizes

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()
        self._summaries.begin_epoch()

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self._table.end_epoch()
        self._summaries.end_epoch()

    def summaries(self, keys: KeyColumn) -> Summaries:
        """Return what is known of those of different keys that have many partial matches, by position.

        Args:
            keys: the keys, in the order of hash and key.
        """
        return self._summaries.find(keys)

    def find(self, keys: KeyColumn, summaries: Summaries, unread: Summaries, first: int = 0) -> FoundMatches:
        """Return what different keys have, which are in the order of hash and key.

        Args:
            keys: the keys.
            summaries: what is known of some of them.
            unread: those of them that are left unread, and what is known of these afterwards.
            first: the place of the first event among those that have been taken, of this pattern and others.
        """
        if not unread:
            return FoundMatches(*self._table.find(keys), summaries, unread, first)
        is_read = np.ones(len(keys), np.bool_)
        is_read[[*unread]] = False
        read = np.flatnonzero(is_read)
        of_keys, rows = self._table.find(keys.take(read))
        return FoundMatches(read[of_keys], rows, summaries, unread, first)

    def taken(self, most: int) -> tuple[Hashes, Longs] | None:
        """The hashes of the keys of all events that have been taken, and their times; None where there are many.

        Args:
            most: the largest number of them.
        """
        sections = self._table.sections()
        if sum(section.rows for section in sections) > most:
            return None
        hashes, times = ([section.column(name) for section in sections] for name in (HASH, self._schema.names[_TIME]))
        return (
            np.concatenate([np.empty(0, np.uint64), *map(fixed_width, hashes)]),
            np.concatenate([np.empty(0, np.int64), *map(fixed_width, times)]),
        )

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
        next_rows: dict[int, int] = {}
        for position, state in changed.items():
            state.is_changed = False
            if not state.is_empty or (state.known is not None and state.known.is_part):
                next_rows[position] = writer.add(position, state)
            elif state.known is not None and state.known.standing:
                ended.append(position)
        pieces = [writer.columns(), found.gone(np.array(ended, np.int64)), passed]
        written = _in_order(np.concatenate(pieces, axis=1))
        if written.shape[1]:
            self._table.append(self._batch(keys, written, events))
        self._summarize(keys, {position: (changed[position], row) for position, row in next_rows.items()}, ended, found)

    def _summarize(
        self,
        keys: KeyColumn,
        changed: Mapping[int, tuple[NfaState, int]],
        ended: Sequence[int],
        found: FoundMatches,
    ) -> None:
        """Writes what is known now of the keys that have changed, and have many partial matches or had."""
        left = found.left([*changed]) if self._summarizes else {}
        for position, (state, row) in changed.items():
            if position in left:  # of matches that were not decoded
                left[position] = left[position].with_more(state, row)
            elif self._summarizes and len(state.partial) >= found_matches.MANY:
                left[position] = MatchSummary.of(state, row)
        known = found.summaries
        gone = known.keys() & {*changed, *ended, *found.undecoded} - left.keys()
        self._summaries.write(keys, {at: new for at, new in left.items() if new != known.get(at)}, gone)

    def _batch(self, keys: KeyColumn, written: Longs, events: Events) -> pa.RecordBatch:
        of_keys, rows, is_live, *columns, places, has_record = written
        own = keys.take(of_keys)
        with_record = has_record != 0
        records = events.column(places[with_record])
        if not with_record.all():
            records = records.take(pa.array(np.cumsum(with_record) - 1, mask=~with_record))
        types = self._schema.types[FIRST_COLUMN:-1]
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
        own = keys.take(order[firsts])
        return own, FoundMatches(np.cumsum(firsts) - 1, rows.take(pa.array(order)), self._summaries.find(own))


def _in_order(written: Longs) -> Longs:
    """Rows by key and number."""
    of_keys, rows = written[:2]
    is_behind = (of_keys[1:] > of_keys[:-1]) | ((of_keys[1:] == of_keys[:-1]) & (rows[1:] > rows[:-1]))
    return written if is_behind.all() else written[:, in_order(of_keys, rows)]


TIMERS_STORE: Final = "pattern-timers"

_TIMERS_KIND: Final = "pattern-timers"


class PatternTimers:
    """The timers of the keys of one subtask. As in Flink, one stays when its partial match has ended.

    Args:
        context: the operator.
        name: the name of the store.
        domain: their time domain, as state names it.
    """

    def __init__(self, context: OperatorContext, name: str, domain: str) -> None:
        codec = context.state.keyed.codec
        self._schema = pa.schema({"time": pa.int64(), HASH: pa.uint64(), KEY: codec.arrow_type})
        about = {"keys": codec.to_json(), "domain": domain}
        words = {"keys": "key type", "domain": "kind of time"}
        layout = TableLayout("the timers of a pattern", _TIMERS_KIND, self._schema, 3, about, words)
        self._table = TimeSortedTable(context.state.store(name), layout, newest)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self._table.begin_epoch()

    def end_epoch(self) -> None:
        """Puts what is new into state."""
        self._table.end_epoch()

    @property
    def first(self) -> int | None:
        """The time of the first timer; None when there is none."""
        first = self._table.first
        return None if first == NO_TIME else first

    def take_due(self, up_to: int) -> tuple[Longs, KeyColumn] | None:
        """The times and keys of the timers that are due; None where there are none."""
        if self._table.first > up_to:
            return None
        batches = self._table.up_to(up_to)
        self._table.forget(up_to)
        if not batches:
            return None
        times = np.concatenate([batch.column(0).to_numpy() for batch in batches])
        return times, KeyColumn.concat([KeyColumn(batch.column(2), batch.column(1).to_numpy()) for batch in batches])

    def register(self, times: Longs, keys: KeyColumn) -> None:
        """Registers timers."""
        if not len(times):
            return
        groups = group_rows(times, keys.hashes, keys.values)
        rows = groups.first_rows
        own = keys.take(rows)
        columns = [pa.array(times[rows]), pa.array(own.hashes), own.values]
        self._table.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))


register_ordered_merger(_TIMERS_KIND, newest)


Hashes = npt.NDArray[np.uint64]
