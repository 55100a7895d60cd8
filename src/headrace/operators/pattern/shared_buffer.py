"""The shared buffer of a key: partial matches as chains of steps that they share, as objects and as rows of state.

A step is an event that a state of the automaton has taken, and the step before. Partial matches that began alike share
these steps. A row of state is a step with a number that it keeps as long as it is there; it names the number of the row
of the step before. Where a partial match stands at a step, the row has its state; matches that are finished
and wait have a state of their own. A further match at a step has a row that names the step as the one before. An event
is stored once for a key, in one of its rows.

Matches that began with one event are in the order of the numbers of their rows, and a row has a higher number than the
one before it. So what is new is written behind what is there, and nothing else but the rows that change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Final, Optional

import numpy as np
import numpy.typing as npt

from headrace.common.constants import MIN_WATERMARK

EventId = tuple[int, int]
"""The timestamp of an event, and a number that grows with the events of a key that partial matches take."""

Step = tuple[int, EventId, Any, Optional["Step"]]
"""An event that was taken: the index of the state that took it, its id, the event, and the step before.

Partial matches that go on from the same events share them, so one costs what is new in it.
"""

PartialMatch = tuple[EventId, int, Step]
"""The id of its first event, the index of the state that it is in, and its last step."""

FinishedMatch = tuple[EventId, Step]
"""The id of its first event, and its last step."""


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The rows that a key has in state; where nothing of them changes, they have not been read.

    Attributes:
        next_row: the number that the next row gets.
        is_part: whether the key has others, which nothing changes.
        columns: the columns of the rows.
        steps: the step of each row.
        standing: the match that stands at each row; None for none.
    """

    next_row: int
    columns: Sequence[list[int]] = ()
    steps: Sequence[Step] = ()
    standing: Sequence[PartialMatch | FinishedMatch | None] = ()
    is_part: bool = False


@dataclass(slots=True)
class NfaState:
    """The partial matches of one key, and the counters that the automaton keeps of it.

    Attributes:
        partial: the partial matches, by their first events, those with one first event in the order of Flink's heap.
            The start state is not among them.
        finished: matches that wait for partial ones that began before them, as the array of Flink's heap.
        is_changed: whether it differs from what was last stored; the code that stores it sets this back.
        has_new_start: whether a match has begun, at a positive timestamp, since this was last set back.
        live: a bit for each state that partial matches are in; there may be more.
        next_number: what the id of the next event that is taken gets.
        known: the rows that the key has in state; None where it has none.
    """

    partial: list[PartialMatch] = field(default_factory=list)
    finished: list[FinishedMatch] = field(default_factory=list)
    is_changed: bool = False
    has_new_start: bool = False
    live: int = 0
    next_number: int = 0
    known: KnownRows | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to store."""
        return not (self.partial or self.finished)


@dataclass(slots=True)  # one that is frozen takes twice as long to make
class MatchedEvents:
    """The events of a match, or of one that timed out.

    Attributes:
        path: the stages and the events that they took, in the order in which the events were taken.
    """

    path: tuple[tuple[str, Any], ...]

    def by_stage(self, values: Mapping[Any, Any] | None = None) -> dict[str, list[Any]]:
        """The events of each stage, the stages in the order of their first events.

        Args:
            values: what stands for each event; by default it is the event itself.
        """
        stages: dict[str, list[Any]] = {}
        for stage, event in self.path:
            value = event if values is None else values[event]
            known = stages.get(stage)
            if known is None:
                stages[stage] = [value]
            else:
                known.append(value)
        return stages


@dataclass(slots=True)
class PreferredMatch(MatchedEvents):
    """The match that a pattern prefers among those that begin with a row; it may have no rows.

    Attributes:
        begins_with: the row with which it begins.
        before: the rows before that, as far as they are looked at.
        excluded: the places in ``path`` of rows that are not shown.
    """

    begins_with: Any
    before: tuple[Any, ...] = ()
    excluded: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TimedOutMatch:
    """A partial match that no event can complete any more.

    Attributes:
        match: what it had taken.
        timestamp: its deadline.
    """

    match: MatchedEvents
    timestamp: int


@dataclass(frozen=True, slots=True)
class TimeAdvance:
    """The result of an advance of time.

    Attributes:
        matches: matches that were complete but for the time, and those that waited for partial matches now gone.
        timed_out: partial matches that have timed out.
    """

    matches: list[MatchedEvents]
    timed_out: list[TimedOutMatch]


def steps_of(step: Step | None) -> Iterator[Step]:
    """The steps of a match, from its last one back."""
    while step is not None:
        yield step
        step = step[3]


Longs = npt.NDArray[np.int64]

NO_STATE: Final = -1
"""No match stands at the step of the row."""
FINISHED: Final = -2
"""A match stands there that is finished and waits."""
NOT_TAKEN: Final = -1
"""The row is no step, but another match at the step of the row that it names as the one before."""
FIRST: Final = -1
"""There is no step before."""

_FEW_ROWS: Final = 8
"""The number of rows up to which writing all is faster than finding those that have changed."""

_Row = tuple[int, int, bool, int, int, int, int, int, int, bool]
"""Its key and number, whether it is there, its taker, state, step before, time, event's number and place, and whether
it has the event's record."""

WIDTH: Final = 10
"""The number of parts of a row that is written."""


def shared(taker: int) -> int:
    """The taker of a row whose event is stored in another row; and of such a one that of a row with the event."""
    return -2 - taker


def state_of(columns: Sequence[list[int]], events: Sequence[int]) -> NfaState:
    """Return what a key has.

    Args:
        columns: its rows: takers, states, the numbers of the rows before, the times and numbers of events, and the
            numbers of the rows, which ascend.
        events: the place of the event of each row, where the row has it.
    """
    takers, _, _, _, numbers, rows = columns
    are_shared = min(takers) < NOT_TAKEN
    owners = zip(takers, numbers, events, strict=True)
    places = {number: event for taker, number, event in owners if taker >= 0} if are_shared else {}
    state = NfaState()
    steps: dict[int, tuple[EventId, Step]] = {}
    standing: list[PartialMatch | FinishedMatch | None] = []
    last = (MIN_WATERMARK, 0)
    is_in_order = True
    for taker, at, before, time, number, row, event in zip(*columns, events, strict=True):
        if taker == NOT_TAKEN:
            both = steps[before]
        else:
            event_id = (time, number)
            first, parent = (event_id, None) if before == FIRST else steps[before]
            if taker >= 0:
                both = first, (taker, event_id, event, parent)
            else:
                both = first, (shared(taker), event_id, places[number], parent)
        steps[row] = both
        if at >= 0:
            first, step = both
            match = (first, at, step)
            state.partial.append(match)
            standing.append(match)
            state.live |= 1 << at
            is_in_order &= first >= last
            last = first
        elif at == FINISHED:
            first, step = both
            finished = (first, step)  # one of its own, though others may stand at the same step
            state.finished.append(finished)
            standing.append(finished)
        else:
            standing.append(None)
    if not is_in_order:
        state.partial.sort(key=itemgetter(0))
    state.next_number = max(numbers) + 1
    state.known = KnownRows(rows[-1] + 1, columns, [step for _, step in steps.values()], standing)
    return state


class RowWriter:
    """Makes rows of the matches of keys."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []

    def add(self, position: int, state: NfaState) -> int:
        """Adds the rows of a key that change.

        Args:
            position: the key.
            state: what it has, which is not nothing.

        Returns:
            The number that its next row gets.
        """
        known = state.known
        if known is None or (len(known.standing) <= _FEW_ROWS and not known.is_part):
            return self._add_all(position, state)
        changes = _Changes(state, known)
        self._rows += changes.rows(position)
        return changes.next_row

    def _add_all(self, position: int, state: NfaState) -> int:
        """Adds all rows of what a key has, or of what is added to it, in the places of those that are known."""
        known = state.known
        old = () if known is None or not known.standing else known.columns[-1]
        row = 0 if known is None or known.standing else known.next_row
        added = self._rows
        rows: dict[int, int] = {}
        stored: set[EventId] = set()
        standing = [(at, step) for _, at, step in state.partial]
        standing += [(FINISHED, step) for _, step in state.finished]
        for at, step in standing:
            before = rows.get(id(step))
            if before is not None:
                added.append((position, row, True, NOT_TAKEN, at, before, *step[1], step[2], False))
                row += 1
                continue
            new: list[Step] = []
            parent: Step | None = step
            while parent is not None and id(parent) not in rows:
                new.append(parent)
                parent = parent[3]
            before = FIRST if parent is None else rows[id(parent)]
            for each in reversed(new):
                taker, event_id, event, _ = each
                has_record = event_id not in stored
                stored.add(event_id)
                stands = at if each is step else NO_STATE
                own = taker if has_record else shared(taker)
                added.append((position, row, True, own, stands, before, *event_id, event, has_record))
                before = rows[id(each)] = row
                row += 1
        added += [_gone(position, each) for each in old if each >= row]
        return row

    def columns(self) -> Longs:
        """All that was added, a column for each part of a row; the rows of a key are in any order."""
        flat = np.fromiter(chain.from_iterable(self._rows), np.int64, WIDTH * len(self._rows))
        return flat.reshape(-1, WIDTH).T


def _gone(position: int, row: int) -> _Row:
    return position, row, False, 0, NO_STATE, FIRST, 0, 0, 0, False


class _Changes:
    """Finds out which of many rows of a key change.

    A reference to a row is its number; or, of one that is new, ``-2`` for the first, ``-3`` for the second and so on.

    Attributes:
        next_row: the number that the next row gets.
    """

    def __init__(self, state: NfaState, known: KnownRows) -> None:
        self._known, self._state = known, state
        self.next_row = known.next_row
        self._takers, self._states, self._befores, self._times, self._numbers, self._rows = known.columns
        self._new: list[tuple[int, int, int, Step, int]] = []
        """New rows: the taker, the state, the row before, the step, and the row that has to come first."""
        self._now: dict[int, int] = {}
        """The states of rows that have another one now."""
        self._gone: set[int] = set()
        self._refs = {
            id(step): row
            for taker, step, row in zip(self._takers, known.steps, self._rows, strict=True)
            if taker != NOT_TAKEN
        }
        self._stood = {id(match): index for index, match in enumerate(known.standing) if match is not None}
        kept = {*map(id, state.partial), *map(id, state.finished)}
        for match_id, index in self._stood.items():
            if match_id not in kept:
                self._vacate(index)

    def rows(self, position: int) -> list[_Row]:
        """The rows that change, of a key, in any order."""
        first: EventId | None = None
        low = FIRST
        for match in self._state.partial:
            if match[0] != first:
                first, low = match[0], FIRST
            low = self._place(match, match[1], match[2], low)
        low = FIRST
        for finished in self._state.finished:
            low = self._place(finished, FINISHED, finished[1], low)
        self._remove()
        return [*self._changed(position), *self._added(position)]

    def _place(self, match: object, at: int, step: Step, low: int) -> int:
        """Give a match a row behind that of the one before it; return which."""
        index = self._stood.get(id(match))
        if index is not None:
            row = self._rows[index]
            if FIRST <= low < row:
                return row
            self._vacate(index)
            before = row if self._takers[index] != NOT_TAKEN else self._befores[index]
            return self._append(NOT_TAKEN, at, before, step, low)
        ref = self._refs.get(id(step))
        if ref is None:
            return self._take(step, at, low)
        if ref >= 0 and FIRST <= low < ref:
            index = bisect_left(self._rows, ref)
            if self._now.get(index, self._states[index]) == NO_STATE:
                self._now[index] = at
                return ref
        return self._append(NOT_TAKEN, at, ref, step, low)

    def _take(self, step: Step, at: int, low: int) -> int:
        """Give new steps rows, up to one at which a match stands."""
        new: list[Step] = []
        parent: Step | None = step
        while parent is not None and id(parent) not in self._refs:
            new.append(parent)
            parent = parent[3]
        ref = FIRST if parent is None else self._refs[id(parent)]
        for each in reversed(new):
            ref = self._append(each[0], at if each is step else NO_STATE, ref, each, low)
            self._refs[id(each)] = ref
        return ref

    def _append(self, taker: int, at: int, before: int, step: Step, low: int) -> int:
        self._new.append((taker, at, before, step, low))
        return -1 - len(self._new)

    def _vacate(self, index: int) -> None:
        if self._takers[index] == NOT_TAKEN:
            self._gone.add(index)
        else:
            self._now[index] = NO_STATE

    def _remove(self) -> None:
        """Remove rows at which no match stands and from which none goes on."""
        if not (self._gone or self._now):
            return
        after = Counter(self._befores)
        after.update(before for _, _, before, _, _ in self._new)
        after.subtract(self._befores[index] for index in self._gone)
        waiting = [index for index, at in self._now.items() if at == NO_STATE]
        waiting += [bisect_left(self._rows, self._befores[index]) for index in self._gone]
        while waiting:
            index = waiting.pop()
            stands = self._now.get(index, self._states[index]) != NO_STATE
            if stands or after[self._rows[index]] or index in self._gone:
                continue
            self._gone.add(index)
            before = self._befores[index]
            if before != FIRST:
                after[before] -= 1
                waiting.append(bisect_left(self._rows, before))

    def _changed(self, position: int) -> list[_Row]:
        """The rows that were there and are changed."""
        heirs = self._heirs()
        found: list[_Row] = []
        for index in {*self._now, *heirs} - self._gone:
            at = self._now.get(index, self._states[index])
            if at == self._states[index] and index not in heirs:
                continue
            taker = self._takers[index]
            taker = shared(taker) if index in heirs else taker
            event = self._known.steps[index][2]
            of_event = self._times[index], self._numbers[index], event
            found.append((position, self._rows[index], True, taker, at, self._befores[index], *of_event, taker >= 0))
        return found

    def _heirs(self) -> set[int]:
        """The rows that get the records of rows that are gone."""
        if min(self._takers) >= NOT_TAKEN:
            return set()
        lost = {self._numbers[index] for index in self._gone if self._takers[index] >= 0}
        sharing: dict[int, list[int]] = defaultdict(list)
        for index, taker in enumerate(self._takers):
            if taker < NOT_TAKEN and self._numbers[index] in lost and index not in self._gone:
                sharing[self._numbers[index]].append(index)
        return {own[0] for own in sharing.values()}

    def _added(self, position: int) -> list[_Row]:
        """New rows, as far as possible in the places of those that are gone, and the others of these."""
        freed = sorted(self._rows[index] for index in self._gone)
        used = 0
        rows: list[int] = []
        found: list[_Row] = []
        stored: set[EventId] = set()

        def row_of(ref: int) -> int:
            return ref if ref >= FIRST else rows[-2 - ref]

        for taker, at, ref, step, low in self._new:
            before = row_of(ref)
            if used < len(freed) and freed[used] > max(before, row_of(low)):
                row = freed[used]
                used += 1
            else:
                row = self.next_row
                self.next_row += 1
            rows.append(row)
            _, event_id, event, _ = step
            has_record = taker != NOT_TAKEN and event_id not in stored
            if has_record:
                stored.add(event_id)
            own = taker if has_record or taker == NOT_TAKEN else shared(taker)
            found.append((position, row, True, own, at, before, *event_id, event, has_record))
        return found + [_gone(position, row) for row in freed[used:]]
