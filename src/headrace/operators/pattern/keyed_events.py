"""The events of a stretch of input by key, and which keys have to be looked at because of them or of timers.

A key is left unread where none of its events can begin a match or change one of its partial matches, and none of these
times out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, cmp_to_key
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import KeyedBatch
from headrace.operators.pattern import found_matches
from headrace.operators.pattern.event_conditions import EvaluatedEvents, Events, Holds
from headrace.operators.pattern.found_matches import ALL_STATES, FoundMatches, MatchSummary, Summaries
from headrace.operators.pattern.nfa import Nfa
from headrace.state.key_sorted_table import key_sorted
from headrace.state.keys import KeyColumn
from headrace.state.runs.layout import rows_of_ranges
from headrace.state.runs.run import order_by_key

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MOST_TABLED: Final = 1 << 16
"""The largest number of combinations of conditions of which each has an entry in a table."""

_MOST_STATES: Final = 62
"""The largest number of states that are bits of one of NumPy's integers."""


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
    def of(cls, batch: KeyedBatch, timers: Sequence[tuple[Longs, KeyColumn] | None]) -> list[DueKeys]:
        """The keys of events, in the order in which they came, and of each pattern's timers, which share the keys."""
        order, numbers = key_sorted(batch.keys.hashes, batch.keys.values, batch.timestamps)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        counts = np.diff(starts, append=len(order))
        own = batch.keys.take(order[starts])
        all_keys = KeyColumn.concat([own, *(keys for _, keys in filter(None, timers))])
        if len(all_keys) == len(own):
            found, distinct = np.arange(len(own)), own
        else:
            by_key, firsts = order_by_key(all_keys.hashes, all_keys.values)
            found = np.empty(len(all_keys), np.int64)
            found[by_key] = np.cumsum(firsts) - 1
            distinct = all_keys.take(by_key[firsts])
        positions, first, due = found[: len(own)], len(own), []
        for times, _ in (each or (np.empty(0, np.int64), None) for each in timers):
            of_timers = found[first : first + len(times)]
            first += len(times)
            by_time = np.lexsort((times, of_timers))
            due.append(cls(distinct, order, positions, starts, counts, of_timers[by_time], times[by_time]))
        return due


def has_summaries(nfa: Nfa) -> bool:
    """Return whether the summary of a key with many partial matches can show that none of these changes."""
    return nfa.has_deadlines and len(nfa.automaton.states) <= _MOST_STATES


def beginning(nfa: Nfa, evaluated: EvaluatedEvents) -> Mask:
    """Return with which events matches may begin."""
    if evaluated.lazy & nfa.conditions_at_start:
        return np.ones(len(evaluated.holds), np.bool_)
    return looked_up(evaluated.holds, len(nfa.automaton.event_conditions), nfa.begins)


def moved_states(nfa: Nfa, evaluated: EvaluatedEvents, due: DueKeys, live: Longs) -> Longs:
    """Return for each key the states in which one of its events may change partial matches, as bits.

    Args:
        nfa: the automaton.
        evaluated: what is known of the events.
        due: the events by key.
        live: for each key the states that are looked at, as bits; 0 for a key that is not.
    """
    of_events = np.repeat(live[due.positions], due.counts)
    rows = np.flatnonzero(of_events)
    of_keys = np.zeros(len(due.keys), np.int64)
    if not len(rows):
        return of_keys
    moved = np.zeros(len(of_events), np.int64)
    moved[rows] = (_evaluated if evaluated.lazy else _known)(nfa, evaluated, of_events[rows], due.order[rows])
    of_keys[due.positions] = np.bitwise_or.reduceat(moved, due.starts)
    return of_keys


def _known(nfa: Nfa, evaluated: EvaluatedEvents, live: Longs, places: Longs) -> Longs:
    """The states in which each of some events moves matches, where its conditions are known."""
    lives, numbers = np.unique(live, return_inverse=True)
    different, holds = np.unique(evaluated.holds[places], return_inverse=True)
    unknown = evaluated.looking_back
    moved = [[nfa.moved(one, other, unknown) for other in different.tolist()] for one in lives.tolist()]
    found: Longs = np.array(moved, np.int64)[numbers, holds]
    return found


def _evaluated(nfa: Nfa, evaluated: EvaluatedEvents, live: Longs, places: Longs) -> Longs:
    """Advance the states of each row by one event, and evaluate the conditions that this needs."""
    found = []
    for states, place, holds in zip(live.tolist(), places.tolist(), evaluated.holds[places].tolist(), strict=True):
        known, unknown = evaluated.ask(place, nfa.conditions_in(states) & evaluated.lazy & ~evaluated.looking_back)
        found.append(nfa.moved(states, holds | known, unknown | evaluated.looking_back))
    return np.array(found, np.int64)


def looked_up(holds: Holds, bits: int, means: Callable[[int], bool]) -> Mask:
    """The meanings of combinations of conditions, found once for each of them."""
    if holds.dtype != np.object_ and 1 << bits <= _MOST_TABLED:
        table = np.zeros(1 << bits, np.bool_)
        for combination in np.flatnonzero(np.bincount(holds, minlength=1 << bits)).tolist():
            table[combination] = means(combination)
        found: Mask = table[holds]
        return found
    different, numbers = np.unique(holds, return_inverse=True)
    return np.array([means(combination) for combination in different.tolist()], np.bool_)[numbers]


_LEFT: Final = 4
"""Rows whose matches are gone are left where they are for the fourth part of a window."""


def left_unread(
    nfa: Nfa, evaluated: EvaluatedEvents, due: DueKeys, summaries: Summaries, up_to: int
) -> dict[int, MatchSummary]:
    """Return the keys whose partial matches no event changes, and time only as their summaries can show.

    Args:
        nfa: the automaton.
        evaluated: what is known of the events.
        due: the events and timers by key.
        summaries: what is known of keys with many partial matches.
        up_to: the time to which all keys are brought.

    Returns:
        What is known of each of them then, by position.
    """
    if not (summaries and has_summaries(nfa)):
        return {}
    live = np.zeros(len(due.keys), np.int64)
    for position, summary in summaries.items():
        live[position] = summary.live
    is_read = moved_states(nfa, evaluated, due, live) != 0
    if nfa.automaton.skip.skips and len(due.positions):
        is_read[due.positions] |= np.logical_or.reduceat(beginning(nfa, evaluated)[due.order], due.starts)
    window = nfa.automaton.window
    until = up_to - window if window else MIN_WATERMARK
    found: dict[int, MatchSummary] = {}
    for position, summary in summaries.items():
        left = None if is_read[position] else _left(nfa, summary, until)
        if left is not None:
            found[position] = left
    return found


def _left(nfa: Nfa, summary: MatchSummary, until: int) -> MatchSummary | None:
    """The summary of a key without the partial matches that began until a time; None where only its rows show it."""
    if summary.passed > until:  # time has gone back, or windows are longer now
        return None
    if summary.first > until:
        return summary
    if not nfa.expires_silently or summary.first <= 0 or summary.last <= until:
        return None
    is_due = _LEFT * (until - summary.first) >= nfa.automaton.window
    return None if is_due else summary.passed_by(until)


class AllEvents:
    """All events by key, for patterns that are looked for together: what they have in common is computed once.

    Attributes:
        starts: where the events of each key begin.

    Args:
        batch: the events.
        due: the same, by key.
        watermarks: the watermarks that let them be matched.
    """

    def __init__(self, batch: KeyedBatch, due: DueKeys, watermarks: Sequence[int]) -> None:
        self._batch, self._due, self._watermarks = batch, due, watermarks
        self.starts = np.zeros(len(due.keys), np.int64)
        self.starts[due.positions] = due.starts

    @cached_property
    def rows(self) -> tuple[list[int], list[int], list[int]]:
        """The places, times and steps of the events; see :class:`OrderedEvents`."""
        places = self._due.order
        times = self._batch.timestamps[places]
        steps = np.searchsorted(np.array(self._watermarks, np.int64), times)
        return places.tolist(), times.tolist(), steps.tolist()


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Events by key, those of a key in the order in which they are matched.

    Attributes:
        places: the place of each among all events.
        times: their times.
        steps: the watermark that lets each be matched, as its place among those of :class:`KeyMatching`.
        holds: the conditions that each satisfies, as bits; of those that matter.
        matters: the rows that may change something, whatever partial matches there are.
        begins: the rows with which matches may begin.
        emitted_at: where the results of each come among those of other keys.
    """

    places: list[int]
    times: list[int]
    steps: list[int]
    holds: Mapping[int, int] | Sequence[int]
    matters: list[int]
    begins: list[int]
    emitted_at: list[int]


class KeyedEvents:
    """The events of keys that have to be looked at.

    A key without partial matches has to be where one of its events begins a match; a key with some where one of its
    events may change something of it, or the time to which it is brought.

    Attributes:
        only_adds: whether matches may begin of each key that has partial matches, and none of its own changes.
        decoded: whether those of each of these keys have to be looked at.
        moved: the states in which events may change them, as bits.
        until: the time until which partial matches that began have timed out.
        unread_visited: the positions of the keys that are left unread, and of which matches may begin.
        expired: the positions of keys of which all partial matches have timed out, without anything to emit.
        passed: the rows that are gone or have changed by that, of keys that are not decoded.

    Args:
        nfa: the automaton.
        evaluated: what is known of the events.
        batch: the events.
        due: the same and timers, by key.
        found: the partial matches, but those of keys that are left unread.
        up_to: the time to which all keys are brought.
        every: all events, where there are other patterns; None where those of keys that are visited are enough.
    """

    def __init__(
        self,
        nfa: Nfa,
        evaluated: EvaluatedEvents,
        batch: KeyedBatch,
        due: DueKeys,
        found: FoundMatches,
        up_to: int,
        every: AllEvents | None = None,
    ) -> None:
        self._nfa, self._evaluated, self._batch, self._due = nfa, evaluated, batch, due
        self._every = every
        self._begins = beginning(nfa, evaluated)
        is_visited = np.zeros(len(due.keys), np.bool_)
        if len(batch):
            is_visited[due.positions] = np.logical_or.reduceat(self._begins[due.order], due.starts)
        self.expired = self._expired(found, up_to) if nfa.expires_silently else found.positions[:0]
        are_passed = self._are_passed(found, up_to)
        self.until = up_to - nfa.automaton.window if nfa.automaton.window else MIN_WATERMARK
        moved, ends = self._changes(found, are_passed)
        may_change = (moved != 0) | ends
        is_visited[found.positions] |= may_change
        is_visited[self.expired] = False
        self.passed = found.begun_until(are_passed & ~may_change, self.until)
        is_stored_visited = is_visited[found.positions]
        self.only_adds = is_stored_visited & ~may_change & self._may_add(found)
        self.decoded = is_stored_visited & ~self.only_adds
        self.moved = moved if not nfa.automaton.skip.skips else np.full_like(moved, ALL_STATES)
        self.unread_visited = found.unread[is_visited[found.unread]]
        self._positions = np.flatnonzero(is_visited)
        own = np.flatnonzero(is_visited[due.positions])
        counts = np.zeros(len(due.keys), np.int64)
        counts[due.positions[own]] = due.counts[own]
        self._counts = counts[self._positions]
        if every is None:
            self._starts = np.cumsum(self._counts) - self._counts
            self._places = due.order[rows_of_ranges(due.starts[own], due.counts[own])]
        else:
            self._starts, self._places = every.starts[self._positions], due.order

    def _expired(self, found: FoundMatches, up_to: int) -> Longs:
        """The keys without events of which all partial matches time out."""
        window = self._nfa.automaton.window
        if not window or not len(found.positions):
            return found.positions[:0]
        has_events = np.zeros(len(self._due.keys), np.bool_)
        has_events[self._due.positions] = True
        is_over = (found.last_begun <= up_to - window) & (found.first_begun > 0)
        return found.positions[is_over & ~has_events[found.positions]]

    def _are_passed(self, found: FoundMatches, up_to: int) -> Mask:
        """The keys with many rows of which partial matches time out, but not all, without anything to emit."""
        window = self._nfa.automaton.window
        if not (window and self._nfa.expires_silently):
            return np.zeros(len(found.positions), np.bool_)
        begun = found.first_begun
        are_passed: Mask = (found.counts >= found_matches.MANY) & (begun <= up_to - window) & (begun > 0)
        are_passed[np.searchsorted(found.positions, self.expired)] = False
        return are_passed

    def _may_add(self, found: FoundMatches) -> Mask:
        """The keys with many rows, behind which what begins may be stored since no match drops others."""
        may_add: Mask = found.counts >= found_matches.MANY
        return may_add if not self._nfa.automaton.skip.skips else np.zeros(len(may_add), np.bool_)

    def _changes(self, found: FoundMatches, are_passed: Mask) -> tuple[Longs, Mask]:
        """In which states partial matches of each key may be changed by events, and whether time changes some.

        What has passed of a key with many rows is no such change.
        """
        nfa = self._nfa
        anywhere = np.full(len(found.positions), ALL_STATES)
        if not has_summaries(nfa):
            return anywhere, np.ones(len(anywhere), np.bool_)
        is_outdated = found.outdated(self.until)
        ends = is_outdated
        if nfa.automaton.window:
            ends = ends | ((found.first_begun <= self.until) & ~are_passed)
        live = np.zeros(len(self._due.keys), np.int64)
        # What has to be evaluated is, where many matches may be left as they are.
        is_known = found.counts >= (found_matches.MANY if self._evaluated.lazy else 0)
        live[found.positions] = np.where(is_known, found.live, 0)
        moved = moved_states(nfa, self._evaluated, self._due, live)[found.positions]
        return np.where(is_known & ~is_outdated, moved, anywhere), ends

    @property
    def are_nearly_all(self) -> bool:
        """True if most events are those of keys that have to be looked at."""
        return bool(2 * self._counts.sum() >= len(self._batch))

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

    def rows(self) -> tuple[Longs, Longs]:
        """The places of the events of these keys, in the order in which they are matched, and the keys' positions."""
        return self._places[rows_of_ranges(self._starts, self._counts)], np.repeat(self._positions, self._counts)

    def sort_by(self, codes: Sequence[Longs]) -> None:
        """Brings the events of a key with one time into the order of numbers of all events, then as they came."""
        places = self._places
        columns = [code[places] for code in reversed(codes)]
        of_keys = np.repeat(self._positions, self._counts)
        self._places = places[np.lexsort((*columns, self._batch.timestamps[places], of_keys))]

    def ordered(self, watermarks: Sequence[int], *, are_emitted_in_place: bool) -> OrderedEvents:
        """The events, for watermarks that let them be matched."""
        holds, begins = self._evaluated.holds[self._places], self._begins[self._places]
        matters = np.flatnonzero(begins | self._may_change(holds))
        places, times, steps = self._rows(watermarks) if self._every is None else self._every.rows
        of_matters = holds[matters].tolist()
        are_all = len(of_matters) == len(places)
        rows = matters.tolist()
        return OrderedEvents(
            places=places,
            times=times,
            steps=steps,
            holds=of_matters if are_all else dict(zip(rows, of_matters, strict=True)),
            matters=rows,
            begins=np.flatnonzero(begins).tolist(),
            emitted_at=places if are_emitted_in_place else steps,
        )

    def _rows(self, watermarks: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        times = self._batch.timestamps[self._places]
        steps = np.searchsorted(np.array(watermarks, np.int64), times)
        return self._places.tolist(), times.tolist(), steps.tolist()

    def _may_change(self, holds: Holds) -> Mask:
        """The events that may change a partial match in any state."""
        if self._evaluated.lazy:
            return np.ones(len(holds), np.bool_)
        return looked_up(holds, len(self._nfa.automaton.event_conditions), self._nfa.moves_any)

    def visits(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """The position of each key that has to be looked at, from where to where its events are, and its timers."""
        bounds = [np.searchsorted(self._due.timers, self._positions, side) for side in ("left", "right")]
        times = self._due.times.tolist()
        columns = [self._positions, self._starts, self._starts + self._counts, *bounds]
        for position, start, stop, first, last in zip(*(column.tolist() for column in columns), strict=True):
            yield position, start, stop, times[first:last]
