"""Events and timers by key, what events may do to partial matches in some states, and which keys are left unread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.common.constants import MIN_WATERMARK
from headrace.operators.base import KeyedBatch
from headrace.operators.pattern.event_conditions import EvaluatedEvents, Holds
from headrace.operators.pattern.match_summaries import MatchSummary, Summaries
from headrace.operators.pattern.nfa import Nfa
from headrace.state.key_sorted_table import key_sorted
from headrace.state.keys import KeyColumn
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
        """Those of events, in the order in which they came, and of the timers of each pattern, which share the keys."""
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
    """Return whether it can be told of a key with many partial matches that nothing of these changes."""
    return nfa.has_deadlines and len(nfa.automaton.states) <= _MOST_STATES


def beginning(nfa: Nfa, evaluated: EvaluatedEvents) -> Mask:
    """Return with which events matches may begin."""
    if evaluated.lazy & nfa.asked_at_start:
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
    moved[rows] = (_asked if evaluated.lazy else _known)(nfa, evaluated, of_events[rows], due.order[rows])
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


def _asked(nfa: Nfa, evaluated: EvaluatedEvents, live: Longs, places: Longs) -> Longs:
    """The same where some conditions have to be asked for."""
    found = []
    for states, place, holds in zip(live.tolist(), places.tolist(), evaluated.holds[places].tolist(), strict=True):
        known, unknown = evaluated.ask(place, nfa.asked_in(states) & evaluated.lazy & ~evaluated.looking_back)
        found.append(nfa.moved(states, holds | known, unknown | evaluated.looking_back))
    return np.array(found, np.int64)


def looked_up(holds: Holds, bits: int, means: Callable[[int], bool]) -> Mask:
    """What combinations of conditions mean, found once for each of them."""
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
    """Return the keys whose partial matches no event changes, and time only as their summaries can tell.

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
    """What is left of a key when what began until a time has ended; None where its rows have to be read for that."""
    if summary.passed > until:  # time has gone back, or windows are longer now
        return None
    if summary.first > until:
        return summary
    if not nfa.expires_silently or summary.first <= 0 or summary.last <= until:
        return None
    is_due = _LEFT * (until - summary.first) >= nfa.automaton.window
    return None if is_due else summary.passed_by(until)
