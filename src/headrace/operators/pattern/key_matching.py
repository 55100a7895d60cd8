"""The events of many keys, matched key by key in the order of time; keys come in the order of Flink's timers.

An operator of Flink's is called for each watermark. Here events of many watermarks are matched at once: for each key it
is worked out at which of them it would have been looked at, and only what changes something is done.

- A key without partial matches is looked at where one of its events begins a match.
- A key with partial matches is looked at where an event may change one of them, and where time makes one of them time
  out: at the first of its own events, or the first watermark at which Flink looks at it, that has come to its deadline.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext
from headrace.operators.pattern.decisions import Plan
from headrace.operators.pattern.event_conditions import EvaluatedEvents
from headrace.operators.pattern.keyed_events import OrderedEvents
from headrace.operators.pattern.match_results import MatchResults, Ranks
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import NfaState
from headrace.operators.window.table.firing_order import TIMERS_OF_RECORDS, Fed, TimerFiringOrder
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    from headrace.state.keys import KeyCodec


SetTimer = tuple[int, int, int]
"""A timer: the place of the watermark at which it was set among those that have come, the position of the key, its
time."""


class KeyOrder:
    """Follows the timers that a pattern operator has in Flink: one for each event, and one where a window ends.

    Args:
        codec: the codec of the keys.
    """

    def __init__(self, codec: KeyCodec) -> None:
        self._firing = TimerFiringOrder(TIMERS_OF_RECORDS, codec)
        self._fed: list[Fed] = []

    def open(self, context: OperatorContext) -> None:
        """Restores the state."""
        self._firing.open(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        """Takes up what the last epoch left."""
        self._firing.begin_epoch(scope)

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self.ranks([], None, [])
        self._firing.end_epoch()

    def add(self, batch: KeyedBatch) -> None:
        """Takes events that are not late."""
        self._fed.append(Fed(batch.keys, batch.timestamps, batch.watermarks))

    def ranks(self, watermarks: Sequence[int], keys: KeyColumn | None, timers: Sequence[SetTimer]) -> Ranks | None:
        """The order of keys at each watermark; None where it is that of hash and key.

        Args:
            watermarks: those that have come since, ascending.
            keys: the keys that may be looked at; None for none.
            timers: the timers that were set when these were.
        """
        fed, self._fed = self._fed, []
        set_at: dict[int, dict[object, list[int]]] = {}
        if timers and keys is not None:
            names = keys.values.to_pylist()
            for step, position, time in timers:
                set_at.setdefault(watermarks[step], {}).setdefault(names[position], []).append(time)
        places = self._firing.looked_at(fed, watermarks, set_at)
        if not places or keys is None:
            return None
        steps = {watermark: step for step, watermark in enumerate(watermarks)}
        positions = {name: position for position, name in enumerate(keys.values.to_pylist())}
        return {
            (steps[watermark], positions[key]): place for (watermark, key), place in places.items() if key in positions
        }


Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NEVER: Final = 1 << 62


class KeyMatching:
    """Matches the events of one key after the other.

    Args:
        nfa: the automaton.
        evaluated: what is known of the events.
        events: the events.
        watermarks: the watermarks that have come, ascending; in processing time the time to which the clock has come,
            or none where it stands still.
        results: takes what is found.
        delay: how long after the deadline of partial matches timers are set, in milliseconds.
    """

    def __init__(
        self,
        nfa: Nfa,
        evaluated: EvaluatedEvents,
        events: OrderedEvents,
        watermarks: Sequence[int],
        results: MatchResults,
        delay: int,
    ) -> None:
        self._nfa = nfa
        self._evaluated = evaluated
        self._events = events
        self._watermarks = watermarks
        self._results = results
        self._window = nfa.automaton.window
        self._delay = delay
        self.place: int | None = None
        """The event that is being evaluated."""
        self.timers: list[tuple[int, int]] = []
        """The keys and times of timers that were set, and are not due yet."""
        self.all_set: list[SetTimer] | None = None
        """All timers that were set for windows, with when they were, where they are needed."""

    def run(self, position: int, state: NfaState, start: int, stop: int, due: list[int]) -> None:
        """Matches the events of a key.

        Args:
            position: the key.
            state: what is known of it; it is changed.
            start: the first row of its events.
            stop: the row behind the last one.
            due: the timers of the key that have become due, ascending.
        """
        self._results.position = position
        key = _Key(self, state, start, stop, due)
        events, last = self._events, self._watermarks[-1] if self._watermarks else MIN_WATERMARK
        matters, begins, times, held = events.matters, events.begins, events.times, events.holds
        plan_of, plans, lazy = self._nfa.plan, self._nfa.plans, self._evaluated.lazy
        is_timeless = not self._window and self._nfa.has_deadlines
        number = bisect_left(matters, start)
        row = start
        while True:
            if not state.partial:
                at = bisect_left(begins, row)
                row = begins[at] if at < len(begins) else stop
                number = bisect_left(matters, row)
            else:
                row = matters[number] if number < len(matters) else stop
            if row >= stop:
                break
            if lazy:
                if key.deadline <= times[row]:
                    key.advance_before(row)
                key.ask(row)
            else:
                holds = held[row]
                begun, moves = plan = plans.get((state.live, holds, 0)) or plan_of(state.live, holds)
                if is_timeless:
                    self._follow(row, state, plan, holds)
                elif begun or moves or not state.partial:
                    if key.deadline <= times[row]:
                        key.advance_before(row)
                        plan = plan_of(state.live, holds)
                    key.follow(row, plan, holds)
            row += 1
            number += 1
        reached = last if self._watermarks or start == stop else events.times[stop - 1]
        while key.deadline <= reached and key.advance_once():
            pass
        self.timers += [(position, time) for time in key.timers[bisect_right(key.timers, last) :]]

    def _follow(self, row: int, state: NfaState, plan: Plan, holds: int) -> None:
        """Have the automaton process an event, given what it does to the key, where time changes nothing."""
        events = self._events
        time = events.times[row]
        self.place = place = events.places[row]
        for match in self._nfa.follow(state, plan, place, time, holds):
            self._results.add_match(events.emitted_at[row], time, match)


class _Key:
    """One key while its events are matched.

    Attributes:
        deadline: the time that changes something.
        timers: the times at which the key is looked at, though no event comes.
    """

    __slots__ = (
        "_done",
        "_events",
        "_has_own_deadlines",
        "_matching",
        "_nfa",
        "_row",
        "_start",
        "_state",
        "_stop",
        "deadline",
        "timers",
    )

    def __init__(self, matching: KeyMatching, state: NfaState, start: int, stop: int, timers: list[int]) -> None:
        self._matching, self._nfa, self._events = matching, matching._nfa, matching._events
        self._state = state
        self._start = self._row = start
        self._stop = stop
        self._done = -1
        self.timers = timers
        self._has_own_deadlines = not self._nfa.has_deadlines
        self.deadline = matching._nfa.deadline(state)

    def ask(self, row: int) -> None:
        """Have the automaton process an event of which not all conditions are known."""
        matching, state = self._matching, self._state
        nfa, events = matching._nfa, matching._events
        place = events.places[row]
        matching.place = place
        known, unknown = matching._evaluated.ask(place, nfa.conditions_of(state) & matching._evaluated.lazy)
        holds = events.holds[row] | known
        self.follow(row, nfa.plan(state.live, holds, unknown), holds, unknown)

    def follow(self, row: int, plan: Plan, holds: int, unknown: int = 0) -> None:
        """Have the automaton process an event, given what it does to the key."""
        matching, state, events = self._matching, self._state, self._events
        time = events.times[row]
        matching.place = place = events.places[row]
        found = self._nfa.follow(state, plan, place, time, holds, unknown)
        for match in found:
            matching._results.add_match(events.emitted_at[row], time, match)
        if state.has_new_start:
            state.has_new_start = False
            if matching._window:
                deadline = time + matching._window + matching._delay
                self.timers.append(deadline)
                if matching.all_set is not None:
                    matching.all_set.append((events.steps[row], matching._results.position, deadline))
        self._row = row + 1
        if self._has_own_deadlines:
            self.deadline = self._nfa.deadline(state)
        else:
            partial, window = state.partial, matching._window
            self.deadline = partial[0][0][0] + window if partial and window else MAX_WATERMARK

    def advance_before(self, row: int) -> None:
        """Let time come to that of an event, at all that comes before it at which Flink looks at the key."""
        time = self._matching._events.times[row]
        while self.deadline <= time and self._row <= row:
            if not self.advance_once(row):
                return

    def advance_once(self, until: int | None = None) -> bool:
        """Let time come to the next event or watermark that changes something; return whether there is one.

        Args:
            until: the event before which all this happens; None for the end of what there is.
        """
        events, watermarks = self._matching._events, self._matching._watermarks
        step = self._next_step(max(bisect_left(watermarks, self.deadline), self._done + 1))
        row = bisect_left(events.times, self.deadline, self._row, self._stop)
        if watermarks and self._start < row < self._stop and events.times[row] == events.times[row - 1]:
            # Time comes to that of events once: to that of others with the same time it has come already.
            row = bisect_right(events.times, events.times[row], row, self._stop)
        if row < self._stop and (step is None or events.steps[row] <= step):
            if until is not None and row > until:
                return False
            self._advance(events.times[row], events.emitted_at[row])
            self._row = row + 1
            return True
        if step is None or (until is not None and step >= events.steps[until]):
            return False
        self._advance(watermarks[step], step)
        self._done = step
        self._row = bisect_right(events.steps, step, self._row, self._stop)
        return True

    def _next_step(self, step: int) -> int | None:
        """The first watermark, from one on, at which Flink looks at the key.

        That is one that lets an event of the key be matched, or makes a timer of it due.
        """
        events, watermarks = self._matching._events, self._matching._watermarks
        if step >= len(watermarks):
            return None
        row = bisect_left(events.steps, step, self._start, self._stop)
        found = events.steps[row] if row < self._stop else _NEVER
        timer = bisect_right(self.timers, watermarks[step - 1]) if step else 0
        if timer < len(self.timers):
            found = min(found, bisect_left(watermarks, self.timers[timer]))
        return found if found < len(watermarks) else None

    def _advance(self, time: int, emitted_at: int) -> None:
        matching = self._matching
        matching.place = None
        advance = matching._nfa.advance_time(self._state, time)
        for match in advance.matches:
            matching._results.add_match(emitted_at, time, match)
        for timed_out in advance.timed_out:
            matching._results.add_timed_out(emitted_at, timed_out.timestamp, timed_out.match)
        self.deadline = matching._nfa.deadline(self._state)
