"""The events of a stretch of input by key, and which keys have to be looked at because of them or of timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.operators.base import KeyedBatch
from headrace.operators.pattern.event_conditions import Holds, Judged
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.key_matching import OrderedEvents
from headrace.operators.pattern.nfa import Nfa
from headrace.state.key_sorted_table import key_sorted
from headrace.state.keys import KeyColumn
from headrace.state.runs.layout import rows_of_ranges
from headrace.state.runs.run import order_by_key

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MOST_TABLED: Final = 1 << 16
"""Where the conditions have so many combinations at most, what each of them means is looked up in a table."""


@dataclass(frozen=True, slots=True)
class DueKeys:
    """Events and timers by key.

    Attributes:
        keys: the different keys of both, in the order of hash and key.
        order: the places of the events, by key and time, those with one time as they came.
        positions: the positions of the keys that have events, ascending.
        starts: where the events of each of them begin in ``order``.
        counts: how many each of them has.
        timers: the positions of the keys that have timers, ascending, one for each timer.
        times: the times of the timers; those of a key ascend.
    """

    keys: KeyColumn
    order: Longs
    positions: Longs
    starts: Longs
    counts: Longs
    timers: Longs
    times: Longs

    @classmethod
    def of(cls, batch: KeyedBatch, timers: tuple[Longs, KeyColumn] | None) -> DueKeys:
        """Those of events, in the order in which they came, and of timers."""
        order, numbers = key_sorted(batch.keys.hashes, batch.keys.values, batch.timestamps)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        counts = np.diff(starts, append=len(order))
        own = batch.keys.take(order[starts])
        positions = np.arange(len(own))
        if timers is None:
            nothing = np.empty(0, np.int64)
            return cls(own, order, positions, starts, counts, nothing, nothing)
        times, keys = timers
        both = KeyColumn.concat([own, keys])
        by_key, firsts = order_by_key(both.hashes, both.values)
        found = np.empty(len(both), np.int64)
        found[by_key] = np.cumsum(firsts) - 1
        of_timers = found[len(own) :]
        by_time = np.lexsort((times, of_timers))
        distinct = both.take(by_key[firsts])
        return cls(distinct, order, found[: len(own)], starts, counts, of_timers[by_time], times[by_time])


class KeyedEvents:
    """The events of keys that have to be looked at.

    Args:
        nfa: the automaton.
        judged: what is known of the events.
        batch: the events.
        due: the same and timers, by key.
        stored: the positions of the keys that have partial matches, ascending.
    """

    def __init__(self, nfa: Nfa, judged: Judged, batch: KeyedBatch, due: DueKeys, stored: Longs) -> None:
        self._nfa, self._judged, self._batch, self._due = nfa, judged, batch, due
        bits = len(nfa.automaton.event_conditions)
        if judged.lazy & nfa.asked_at_start:
            self._begins = np.ones(len(batch), np.bool_)
        else:
            self._begins = _looked_up(judged.holds, bits, nfa.begins)
        is_visited = np.zeros(len(due.keys), np.bool_)
        is_visited[stored] = True
        if len(batch):
            is_visited[due.positions] |= np.logical_or.reduceat(self._begins[due.order], due.starts)
        self._positions = np.flatnonzero(is_visited)
        own = np.flatnonzero(is_visited[due.positions])
        counts = np.zeros(len(due.keys), np.int64)
        counts[due.positions[own]] = due.counts[own]
        self._counts = counts[self._positions]
        self._places = due.order[rows_of_ranges(due.starts[own], due.counts[own])]

    @property
    def are_nearly_all(self) -> bool:
        """Whether most events are those of keys that have to be looked at."""
        return 2 * len(self._places) >= len(self._batch)

    def sort(self, compare: Callable[[Any, Any], int], events: Events) -> None:
        """Brings the events of a key with one time into the order of a function of two events."""
        times = self._batch.timestamps[self._places]
        is_other = np.ones(len(times) + 1, np.bool_)
        is_other[1:-1] = times[1:] != times[:-1]
        is_other[np.cumsum(self._counts)] = True
        starts = np.flatnonzero(is_other)
        several = np.flatnonzero(np.diff(starts) > 1)
        for start, stop in zip(starts[several].tolist(), starts[several + 1].tolist(), strict=True):
            places = self._places[start:stop].tolist()
            values = events.values(places)
            key = cmp_to_key(compare)
            self._places[start:stop] = sorted(places, key=lambda place: key(values[place]))

    @property
    def places(self) -> Longs:
        """The places of the events, key by key, those of a key in the order in which they are matched."""
        return self._places

    @property
    def of_keys(self) -> Longs:
        """The position of each event's key."""
        return np.repeat(self._positions, self._counts)

    def sort_by(self, codes: Sequence[Longs]) -> None:
        """Brings the events of a key with one time into the order of numbers of all events, then as they came."""
        places = self._places
        columns = [code[places] for code in reversed(codes)]
        self._places = places[np.lexsort((*columns, self._batch.timestamps[places], self.of_keys))]

    def ordered(self, watermarks: Sequence[int], *, are_emitted_in_place: bool) -> OrderedEvents:
        """The events, for watermarks that let them be matched."""
        places = self._places
        times, holds = self._batch.timestamps[places], self._judged.holds[places]
        steps = np.searchsorted(np.array(watermarks, np.int64), times)
        begins = self._begins[places]
        matters = begins | self._may_change(holds)
        rows = places.tolist()
        at = steps.tolist()
        return OrderedEvents(
            places=rows,
            times=times.tolist(),
            steps=at,
            holds=holds.tolist(),
            matters=np.flatnonzero(matters).tolist(),
            begins=np.flatnonzero(begins).tolist(),
            emitted_at=rows if are_emitted_in_place else at,
        )

    def _may_change(self, holds: Holds) -> Mask:
        """The events that may change a partial match in any state."""
        if self._judged.lazy:
            return np.ones(len(holds), np.bool_)
        return _looked_up(holds, len(self._nfa.automaton.event_conditions), self._nfa.moves_any)

    def visits(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """The position of each key that has to be looked at, from where to where its events are, and its timers."""
        stops = np.cumsum(self._counts)
        bounds = [np.searchsorted(self._due.timers, self._positions, side) for side in ("left", "right")]
        times = self._due.times.tolist()
        columns = [self._positions, stops - self._counts, stops, *bounds]
        for position, start, stop, first, last in zip(*(column.tolist() for column in columns), strict=True):
            yield position, start, stop, times[first:last]


def _looked_up(holds: Holds, bits: int, means: Callable[[int], bool]) -> Mask:
    """What combinations of conditions mean, found once for each of them."""
    if holds.dtype != np.object_ and 1 << bits <= _MOST_TABLED:
        table = np.zeros(1 << bits, np.bool_)
        for combination in np.flatnonzero(np.bincount(holds, minlength=1 << bits)).tolist():
            table[combination] = means(combination)
        found: Mask = table[holds]
        return found
    different, numbers = np.unique(holds, return_inverse=True)
    return np.array([means(combination) for combination in different.tolist()], np.bool_)[numbers]
