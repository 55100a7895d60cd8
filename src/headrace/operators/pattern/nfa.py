"""The automaton at work on the events of one key: Flink's NFA, with its order.

**How it is called.** A key has a :class:`NfaState`, in which its partial matches are, and finished ones that a skip
strategy holds back. Before an event is matched, ``advance_time(state, timestamp)`` lets partial matches time out; then
``process(state, event, timestamp, holds)`` returns the matches that the event completes. An event is anything: it is
kept in the state as it was given, and comes back in matches, in their order.

**Conditions.** ``holds`` is a whole number with a bit for each of ``automaton.event_conditions``, computed for a batch
of events at once. A bit of ``unknown`` means that a condition has not been evaluated, or that it raised an error: the
automaton then calls ``evaluate(event, index)`` when, and only when, a partial match depends on it. Only iterative
conditions are called by the automaton itself.

**What need not be visited.** An event changes nothing where ``is_idle(state, holds)``, and time changes nothing before
``deadline(state)``. Of a key without partial matches an event matters only where ``begins(holds)``. So a caller may
leave out an event that is idle and earlier than the deadline, and nothing but the time that this takes differs.

**Order.** Partial matches are visited by their first events, and what they become stays in that order; matches that are
found pass through a heap like Java's. So all is emitted as Flink emits it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

from headrace.common.constants import MAX_WATERMARK
from headrace.operators.pattern.automaton import Automaton, StateType
from headrace.operators.pattern.decisions import EACH_MATCH, Decisions, Evaluate, EvaluateOfRows, Plan, Program
from headrace.operators.pattern.shared_buffer import (
    EventId,
    FinishedMatch,
    MatchedEvents,
    NfaState,
    PartialMatch,
    Step,
    TimeAdvance,
    TimedOutMatch,
)

T = TypeVar("T", bound=tuple[Any, ...])

_NOTHING: Final = TimeAdvance([], [])
_AFTER_ALL: Final = 1 << 62
_LIVE: Final = (StateType.NORMAL, StateType.PENDING)
"""The kinds of states that partial matches stay in."""


class Nfa:
    """Runs an automaton.

    Attributes:
        plans: what events do that are known so far, by the arguments of :meth:`plan`.

    Args:
        automaton: the compiled pattern.
        evaluate: evaluates an event condition that was unknown; by default functions and classes can be.
        current_processing_time: the clock of iterative conditions.
        tells: whether timeouts are reported.
    """

    def __init__(
        self,
        automaton: Automaton,
        evaluate: Evaluate | None = None,
        current_processing_time: Callable[[], int] = lambda: 0,
        *,
        tells: bool = True,
    ) -> None:
        self.automaton = automaton
        self._tells = tells
        self._decisions = Decisions(automaton, evaluate, current_processing_time)
        self.plans = self._decisions.plans
        self._stages = tuple(state.stage for state in automaton.states)
        self._gaps = tuple(state.gap for state in automaton.states)
        self._has_gaps = automaton.has_gaps
        self._pending = tuple(state.kind is StateType.PENDING for state in automaton.states)
        self._live = sum(1 << at for at, state in enumerate(automaton.states) if state.kind in _LIVE)
        self._window = automaton.window
        self._skip = automaton.skip

    # --- what need not be visited ------------------------------------------------------------------------------------

    def read_by(self, value_of: Callable[[Any], Any], evaluate_of_rows: EvaluateOfRows) -> None:
        """Sets how iterative conditions read events.

        Args:
            value_of: turns an event into the argument of functions; by default that is the event itself.
            evaluate_of_rows: evaluates conditions over columns.
        """
        self._decisions.value_of, self._decisions.evaluate_of_rows = value_of, evaluate_of_rows

    @property
    def conditions_at_start(self) -> int:
        """The event conditions that decide whether an event begins a match, as bits."""
        return self._decisions.conditions_at(1 << self.automaton.start)

    def conditions_of(self, state: NfaState) -> int:
        """The event conditions that decide what an event changes of a key, as bits."""
        return self.conditions_in(state.live)

    def conditions_in(self, live: int) -> int:
        """The event conditions that decide what an event changes of a key with partial matches in some states."""
        return self._decisions.conditions_at(live | 1 << self.automaton.start)

    @property
    def expires_silently(self) -> bool:
        """True if a timeout removes partial matches and does nothing else."""
        return not (self._tells or self._has_gaps or self._skip.skips or any(self._pending))

    @property
    def has_deadlines(self) -> bool:
        """True if the deadline of a partial match follows from the time at which it began."""
        return not self._has_gaps

    def moved(self, live: int, holds: int, unknown: int = 0) -> int:
        """Return in which of some states an event may change partial matches; all are bits."""
        return sum(1 << at for at in self._decisions.plan(live, holds, unknown)[1])

    def moves_any(self, holds: int) -> bool:
        """Return whether an event may change a partial match, whatever state that is in."""
        return bool(self._decisions.plan(self._live, holds, 0)[1])

    def begins(self, holds: int) -> bool:
        """Return whether an event that satisfies these event conditions may begin a match."""
        return bool(self._decisions.plan(0, holds, 0)[0])

    def is_idle(self, state: NfaState, holds: int, unknown: int = 0) -> bool:
        """Return whether an event changes nothing of a key, whatever its timestamp."""
        begun, moves = self._decisions.plan(state.live, holds, unknown)
        return not begun and not moves

    def deadline(self, state: NfaState) -> int:
        """The timestamp from which on time changes something of a key; the greatest where it never does."""
        partial = state.partial
        first = MAX_WATERMARK
        if partial and self._window:
            first = partial[0][0][0] + self._window
        if partial and self._has_gaps:
            gaps = self._gaps
            first = min([first, *(match[2][1][0] + gaps[match[1]] for match in partial if gaps[match[1]])])
        return first

    # --- events ------------------------------------------------------------------------------------------------------

    def process(self, state: NfaState, event: Any, timestamp: int, holds: int, unknown: int = 0) -> list[MatchedEvents]:
        """Judge an event; return the matches that it completes.

        Args:
            state: what is known of the key; it is changed.
            event: the event.
            timestamp: its timestamp.
            holds: the event conditions that it satisfies, as bits.
            unknown: those of which it is not known, as bits.

        Raises:
            JobExecutionError: when the skip strategy is to fail where a match lacks its stage.
        """
        return self.follow(state, self.plan(state.live, holds, unknown), event, timestamp, holds, unknown)

    def plan(self, live: int, holds: int, unknown: int = 0) -> Plan:
        """Return what an event does to a key with partial matches in some states, given as bits; all are bits."""
        return self.plans.get((live, holds, unknown)) or self._decisions.plan(live, holds, unknown)

    def follow(
        self, state: NfaState, plan: Plan, event: Any, timestamp: int, holds: int, unknown: int = 0
    ) -> list[MatchedEvents]:
        """Judge an event, given what it does to a key in this state; return the matches that it completes."""
        begun, moves = plan
        if begun is EACH_MATCH:
            begun = self._decisions.of_start(event, timestamp, holds, unknown)
        event_id = (timestamp, state.next_number)
        found: list[FinishedMatch] = []
        changed = False
        if moves:
            kept: list[PartialMatch] = []
            live = 0
            for match in state.partial:
                program = moves.get(match[1])
                if program is EACH_MATCH:
                    program = self._decisions.of_match(match, event, timestamp, holds, unknown)
                if program is None:
                    kept.append(match)
                    continue
                changed = True
                first, _, before = match
                for taker, target, bit, is_final in program:
                    step = before if taker < 0 else (taker, event_id, event, before)
                    if is_final:
                        found.append((first, step))
                    if bit:
                        live |= bit
                        kept.append((first, target, step))
            _keep(state, kept, live, changed=changed)
        if begun:
            changed = True
            _begin(state, begun, event, event_id, found)
        state.next_number += changed
        state.is_changed |= changed
        return self._settle(state, found) if found or (changed and state.finished) else []

    # --- time --------------------------------------------------------------------------------------------------------

    def advance_time(self, state: NfaState, timestamp: int) -> TimeAdvance:
        """Let partial matches time out that no event at ``timestamp`` or later can complete."""
        partial = state.partial
        if not partial:
            return _NOTHING
        if self._has_gaps:
            expired, state.partial = self._split_by_gaps(partial, timestamp)
        else:
            if not self._window or partial[0][0][0] > timestamp - self._window:
                return _NOTHING
            since = bisect_left(partial, (timestamp - MAX_WATERMARK, 0), key=_first)
            until = bisect_right(partial, (timestamp - self._window, _AFTER_ALL), key=_first)
            expired = partial[since:until]
            del partial[since:until]
        if not expired:
            return _NOTHING
        if not state.partial:
            state.live = 0
        state.is_changed = True
        complete: list[FinishedMatch] = [(first, step) for first, at, step in expired if self._pending[at]]
        if not (self._tells or complete or state.finished):
            return _NOTHING
        timed_out = [
            TimedOutMatch(self._match(match[2]), self._deadline_of(match, timestamp))
            for match in (expired if self._tells else ())
            if not self._pending[match[1]]
        ]
        return TimeAdvance(self._settle(state, complete), timed_out)

    def _split_by_gaps(
        self, partial: Sequence[PartialMatch], timestamp: int
    ) -> tuple[list[PartialMatch], list[PartialMatch]]:
        expired: list[PartialMatch] = []
        kept: list[PartialMatch] = []
        window, gaps = self._window, self._gaps
        for match in partial:
            first, at, step = match
            is_late = _has_passed(gaps[at], timestamp - step[1][0]) or _has_passed(window, timestamp - first[0])
            (expired if is_late else kept).append(match)
        return expired, kept

    def _deadline_of(self, match: PartialMatch, timestamp: int) -> int:
        (begun, _), at, step = match
        gap = self._gaps[at]
        if _has_passed(gap, timestamp - step[1][0]):
            return step[1][0] + gap
        return begun + self._window

    # --- matches -----------------------------------------------------------------------------------------------------

    def _settle(self, state: NfaState, found: list[FinishedMatch]) -> list[MatchedEvents]:
        """Add matches that were found to those that wait; return those that wait for nothing any more."""
        skip = self._skip
        if not skip.skips and len(found) == 1:
            return [self._match(found[0][1])]
        if not skip.skips and all(before[0] < after[0] for before, after in pairwise(found)):
            return [self._match(step) for _, step in found]
        finished = state.finished
        if len(found) == 1 and not (finished or (state.partial and found[0][0] > state.partial[0][0])):
            return [self._taken(state, found[0][1])]
        for match in found:
            offer(finished, match)
        matches = []
        while finished and not (skip.skips and state.partial and finished[0][0] > state.partial[0][0]):
            state.is_changed = True
            matches.append(self._taken(state, poll(finished)[1]))
        return matches

    def _taken(self, state: NfaState, step: Step) -> MatchedEvents:
        """A match that waits for nothing, when others are dropped that it skips."""
        until = self._skip.find(step, self._stages)
        if until is not None:
            self._drop(state, until)
        return self._match(step)

    def _drop(self, state: NfaState, until: EventId) -> None:
        """Drop the matches that began before an event, or at it."""
        partial = state.partial
        if partial and partial[-1][0] <= until:
            partial.clear()
        else:
            del partial[: bisect_right(partial, until, key=_first)]
        if not partial:
            state.live = 0
        if state.finished:
            remove(state.finished, lambda match: match[0] <= until)

    def _match(self, step: Step) -> MatchedEvents:
        stages = self._stages
        path: list[tuple[str, Any]] = []
        before: Step | None = step
        while before is not None:
            taker, _, event, before = before
            path.append((stages[taker], event))
        path.reverse()
        return MatchedEvents(tuple(path))


def _begin(state: NfaState, program: Program, event: Any, event_id: EventId, found: list[FinishedMatch]) -> None:
    """Begin matches with an event."""
    if event_id[0] > 0:
        state.has_new_start = True
    partial = state.partial
    for taker, target, bit, is_final in program:
        step: Step = (taker, event_id, event, None)
        if is_final:
            found.append((event_id, step))
        if bit:
            state.live |= bit
            if not partial or partial[-1][0] <= event_id:
                partial.append((event_id, target, step))
            else:  # time has gone back
                insort_right(partial, (event_id, target, step), key=_first)


def _keep(state: NfaState, kept: list[PartialMatch], live: int, *, changed: bool) -> None:
    """Note the partial matches that there are behind an event, and the states that some of them have come to."""
    if changed:
        state.partial = kept
        state.live = state.live | live if kept else 0
    else:  # none was in the states that would have moved
        state.live = live_states(kept)


def _has_passed(span: int, elapsed: int) -> bool:
    """Return whether a window or gap has passed; one from before 1970 does not at the end of the input, as in Flink."""
    return 0 < span <= elapsed <= MAX_WATERMARK


def _first(match: PartialMatch) -> EventId:
    return match[0]


def live_states(partial: Sequence[PartialMatch]) -> int:
    """The states that partial matches are in, as bits."""
    live = 0
    for at in {match[1] for match in partial}:
        live |= 1 << at
    return live


def offer(heap: list[T], element: T) -> None:
    """Add an element to a heap that orders equal elements as ``java.util.PriorityQueue`` does.

    Python's ``heapq`` moves elements differently when one is taken, and so returns others first among equal ones. Which
    of several matches with one start is found first decides what a skip strategy leaves, so the order has to be this
    one. Elements are compared by their first item.
    """
    at = len(heap)
    heap.append(element)
    key = element[0]
    while at:
        above = (at - 1) >> 1
        if key >= heap[above][0]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = element


def poll(heap: list[T]) -> T:
    """Take the least element."""
    least = heap[0]
    last = heap.pop()
    if heap:
        _sift_down(heap, 0, last)
    return least


def remove(heap: list[T], is_gone: Callable[[T], bool]) -> bool:
    """Remove elements; return whether there were any."""
    kept = [element for element in heap if not is_gone(element)]
    if len(kept) == len(heap):
        return False
    heap[:] = kept
    for at in range((len(heap) >> 1) - 1, -1, -1):
        _sift_down(heap, at, heap[at])
    return True


def _sift_down(heap: list[T], at: int, element: T) -> None:
    size = len(heap)
    key = element[0]
    while (below := 2 * at + 1) < size:
        right = below + 1
        if right < size and heap[below][0] > heap[right][0]:
            below = right
        if key <= heap[below][0]:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = element
