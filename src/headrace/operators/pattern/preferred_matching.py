"""The rows of many keys, in each of which the match is found that the pattern prefers, by SQL:2016.

One row after the other begins a match or none does; the search goes on by the skip strategy. From a row on,
ways are tried in the order of preference, and given up where no further row fits: the first that leads to the end is
the match. All that has to be known of a key is the way that is being tried, which has taken every row since it began;
where it is given up, others are tried with the same rows. So state is one chain of rows for a key, and what is found
does not depend on when rows come.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK
from headrace.operators.pattern.automaton import (
    Action,
    Automaton,
    Preference,
    SkipPastLastEvent,
    SkipStrategy,
    SkipToStage,
)
from headrace.operators.pattern.conditions import Always, And, Condition, EventBit, Facts, Or
from headrace.operators.pattern.event_conditions import EvaluatedEvents
from headrace.operators.pattern.iterative_conditions import RowCondition, Taken
from headrace.operators.pattern.keyed_events import OrderedEvents
from headrace.operators.pattern.match_results import MatchResults
from headrace.operators.pattern.match_values import Variables
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.shared_buffer import NfaState, PreferredMatch, Step, steps_of

Holds = Callable[[RowCondition, int, Taken], bool]
"""Evaluates a condition for a row of the table of rows, and those that the way has taken."""

_DEAD_END: Final = -1


class PreferredNfa(Nfa):
    """The rows and keys that a search for the preferred match reads: any row may end a path."""

    def __init__(self, automaton: Automaton) -> None:
        super().__init__(automaton)
        assert automaton.preference is not None, "the automaton is one that finds the preferred match"
        self._begins_anywhere = automaton.can_match_nothing or automaton.preference.rows_before > 0
        self._first = [way.condition for way in automaton.states[automaton.start].transitions]

    @property
    def expires_silently(self) -> bool:
        return False

    @property
    def has_deadlines(self) -> bool:
        return False

    def moves_any(self, holds: int) -> bool:
        return True

    def begins(self, holds: int) -> bool:
        return self._begins_anywhere or any(_may_hold(condition, holds) for condition in self._first)


def _may_hold(condition: Condition, holds: int) -> bool:
    """Return whether a condition may hold of the first row of a match, given those that hold of the row alone."""
    match condition:
        case EventBit(index):
            return bool(holds >> index & 1)
        case And(first, second):
            return _may_hold(first, holds) and _may_hold(second, holds)
        case Or(first, second):
            return _may_hold(first, holds) or _may_hold(second, holds)
    return True


class Ways:
    """The ways out of each state, in the order of preference.

    Attributes:
        targets: the states that take the next row.
        conditions: what the row has to satisfy for each of them; None for any row.
        ends: whether the match may end, when none of them is possible.
        forget: whether it makes no difference, from the state on, which rows have been matched before.
        variables: the variable of each state, by name.
    """

    def __init__(self, automaton: Automaton) -> None:
        self.targets: list[list[int]] = []
        self.conditions: list[list[Condition | None]] = []
        self.ends: list[bool] = []
        for state in automaton.states:
            taken = [way for way in state.transitions if way.action is Action.TAKE]
            self.targets.append([way.target for way in taken])
            self.conditions.append([None if isinstance(way.condition, Always) else way.condition for way in taken])
            self.ends.append(len(taken) < len(state.transitions))
        self.variables = [state.stage for state in automaton.states]
        self.are_of_rows = [
            [each is not None and not each.looks_at_event_alone for each in conditions]
            for conditions in self.conditions
        ]
        self.forget = self._forgetting()

    def _forgetting(self) -> list[bool]:
        sources: list[list[int]] = [[] for _ in self.targets]
        for at, targets in enumerate(self.targets):
            for target in targets:
                sources[target].append(at)
        remembers = {at for at, are in enumerate(self.are_of_rows) if any(are)}
        waiting = [*remembers]
        while waiting:
            for source in sources[waiting.pop()]:
                if source not in remembers:
                    remembers.add(source)
                    waiting.append(source)
        return [at not in remembers for at in range(len(self.targets))]


@dataclass(eq=False)
class PreferredMatching:
    """Finds the matches of one key after the other.

    Attributes:
        automaton: the compiled pattern.
        ways: its ways.
        evaluated: what is known of the rows that have arrived.
        evaluate_stored: returns what is known of those that ways had taken before.
        events: the rows that have arrived.
        watermarks: the watermarks that have come, ascending; in processing time the time to which the clock has come,
            or none where it stands still.
        results: takes what is found.
        delay: how long after the deadline of a way timers are set, in milliseconds.
        ended_at: the time of what the end of the input decides, where it has come.
        holds: evaluates conditions on rows before.
        row_of: the row of an event in the table of rows.
        variables: the variables of conditions, by number.
        place: the row that is being evaluated.
        timers: the keys and times of timers that were set.
        known: the first way that is possible: by state, the first that is tried, and what holds of the row.
    """

    automaton: Automaton
    ways: Ways
    evaluated: EvaluatedEvents
    evaluate_stored: Callable[[], EvaluatedEvents]
    events: OrderedEvents
    watermarks: Sequence[int]
    results: MatchResults
    delay: int
    ended_at: int
    holds: Holds
    row_of: Callable[[int], int]
    variables: Sequence[str]
    place: int | None = None
    timers: list[tuple[int, int]] = field(default_factory=list)
    known: dict[tuple[int, int, int], int] = field(default_factory=dict)

    @cached_property
    def preference(self) -> Preference:
        """The search of an automaton for the preferred match."""
        assert self.automaton.preference is not None, "the automaton is one that finds the preferred match"
        return self.automaton.preference

    @cached_property
    def stored(self) -> EvaluatedEvents:
        """The facts about the rows that paths had taken before."""
        return self.evaluate_stored()

    @cached_property
    def held_of_stored(self) -> list[int]:
        """The conditions that hold for these rows, as bits."""
        held: list[int] = self.stored.holds.tolist()
        return held

    def run(self, position: int, state: NfaState, start: int, stop: int, due: list[int]) -> None:
        """Looks for matches among the rows of a key.

        Args:
            position: the key.
            state: what is known of it; it is changed.
            start: the first of its rows that have arrived.
            stop: the row behind the last one.
            due: the timers of the key that have become due, ascending.
        """
        self.results.position = position
        search = _Search(self, state, start, stop)
        search.run()
        search.write(state)
        deadline = search.new_deadline()
        if deadline is not None:
            self.timers.append((position, deadline + self.delay))


class _Search(Facts):
    """The search among the rows of one key; gives conditions the values of a row.

    Rows are numbered from the first one that is still of interest.
    """

    __slots__ = (
        "_answers",
        "_begin",
        "_begun_before",
        "_clock",
        "_count",
        "_emitted_at",
        "_failed",
        "_has_ended",
        "_holds",
        "_matching",
        "_now",
        "_numbers",
        "_path",
        "_places",
        "_row",
        "_start",
        "_steps",
        "_stop",
        "_stored",
        "_taken",
        "_times",
        "_top",
        "_ways",
        "_window",
    )

    def __init__(self, matching: PreferredMatching, state: NfaState, start: int, stop: int) -> None:
        events = matching.events
        steps = [*steps_of(state.partial[0][2])][::-1] if state.partial else []
        self._matching, self._ways, self._window = matching, matching.ways, matching.automaton.window
        self._places: list[int] = [step[2] for step in steps] + events.places[start:stop]
        self._times = [step[1][0] for step in steps] + events.times[start:stop]
        first = state.next_number
        self._numbers = [step[1][1] for step in steps] + [*range(first, first + stop - start)]
        self._holds: list[int] | None = None
        self._steps, self._stored = steps, len(steps)
        self._start, self._stop = start, stop
        passed = matching.preference.passed
        self._path = [step[0] for step in steps if step[0] != passed]
        self._begin = self._stored - len(self._path)
        self._begun_before = self._begin if self._path else -1
        self._count = self._stored
        self._failed: set[tuple[int, int]] = set()
        self._answers: dict[tuple[int, int], bool] = {}
        self._now = self._clock = self._times[self._stored - 1] if steps else MIN_WATERMARK
        self._emitted_at = 0
        self._has_ended = False
        self._row = 0
        self._top: int | None = None
        self._taken: dict[str, list[int]] | None = None

    # --- rows and time -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let all rows come, and then the time."""
        events, watermarks = self._matching.events, self._matching.watermarks
        for row in range(self._start, self._stop):
            time = events.times[row]
            if not watermarks:
                self._emitted_at = events.emitted_at[row]
            if self._window:
                self._advance(time)
            self._count += 1
            self._now = max(self._now, time)
            self._emitted_at = events.emitted_at[row]
            self._search()
        if watermarks and self._window:
            self._advance(watermarks[-1])
        if watermarks and watermarks[-1] == MAX_WATERMARK:
            self._end()

    def _advance(self, time: int) -> None:
        """Let time come, at which ways may be given up that have no more of it."""
        self._clock = max(self._clock, time)
        while self._begin < self._count and (deadline := self._times[self._begin] + self._window) <= time:
            self._now = max(self._now, deadline)
            if self._matching.watermarks:
                self._emitted_at = bisect_left(self._matching.watermarks, deadline)
            self._decide()
        self._search()

    def _end(self) -> None:
        """Decide all, since no row comes anymore."""
        self._has_ended = True
        if self._begin < self._count:
            self._now = max(self._now, self._matching.ended_at)
            self._emitted_at = len(self._matching.watermarks) - 1
            self._search()

    def write(self, state: NfaState) -> None:
        """Say what has to be known of the key."""
        preference = self._matching.preference
        low = max(0, self._begin - preference.rows_before)
        step: Step | None = None
        first = at = 0
        for row in range(low, self._count):
            at = preference.passed if row < self._begin else self._path[row - self._begin]
            known = self._steps[row] if row < self._stored else None
            if known is not None and known[0] == at and known[3] is step:
                step = known  # as it is stored
            else:
                step = (at, (self._times[row], self._numbers[row]), self._places[row], step)
        first_id = (self._times[low], self._numbers[low]) if step is not None else (0, first)
        state.partial = [] if step is None else [(first_id, at, step)]
        state.next_number += self._stop - self._start
        state.is_changed = True

    def new_deadline(self) -> int | None:
        """The time at which the current way is given up, where it is another than before."""
        if not self._window or self._begin >= self._count or self._begin == self._begun_before:
            return None
        return self._times[self._begin] + self._window

    # --- ways --------------------------------------------------------------------------------------------------------

    def _search(self) -> None:
        while self._begin < self._count and self._decide():
            pass

    def _decide(self) -> bool:
        """Find the match that begins with the first row, or that there is none; return whether it is known by now."""
        path, ways = self._path, self._ways
        at = path[-1] if path else self._matching.automaton.start
        row = self._begin + len(path)
        way = 0
        while True:
            if row < self._count and self._is_in_time(row):
                way = self._first_way(at, way, row)
                if way != _DEAD_END:
                    at = ways.targets[at][way]
                    self._push(at, row)
                    row += 1
                    way = 0
                    if ways.targets[at]:
                        continue
            elif row == self._count and not self._is_over() and (ways.targets[at][way:]):
                return False
            if ways.ends[at]:
                self._found()
                return True
            if not path:
                self._go_on_with(self._begin + 1)
                return True
            left = self._pop()
            row -= 1
            if ways.forget[left]:
                self._failed.add((left, row))
            at = path[-1] if path else self._matching.automaton.start
            way = ways.targets[at].index(left) + 1

    def _is_in_time(self, row: int) -> bool:
        return not self._window or self._times[row] - self._times[self._begin] < self._window

    def _is_over(self) -> bool:
        """Return whether no row can come anymore for the first row's match."""
        return self._has_ended or (bool(self._window) and self._times[self._begin] + self._window <= self._clock)

    def _push(self, at: int, row: int) -> None:
        self._path.append(at)
        if self._taken is not None:
            self._taken.setdefault(self._ways.variables[at], []).append(row)

    def _pop(self) -> int:
        left = self._path.pop()
        if self._taken is not None:
            self._taken[self._ways.variables[left]].pop()
        return left

    def _found(self) -> None:
        matching, path, begin = self._matching, self._path, self._begin
        stages, places = self._ways.variables, self._places
        low = max(0, begin - matching.preference.rows_before)
        taken = tuple((stages[at], places[begin + number]) for number, at in enumerate(path))
        excluded = tuple(number for number, at in enumerate(path) if at in matching.preference.excluded)
        match = PreferredMatch(taken, places[begin], tuple(places[low:begin]), excluded)
        matching.results.add_match(self._emitted_at, self._now, match)
        self._go_on_with(begin + _skipped(matching.automaton.skip, [stages[at] for at in path]))

    def _go_on_with(self, row: int) -> None:
        self._begin = row
        self._path.clear()
        self._taken = None
        if self._window:
            self._failed.clear()

    # --- conditions --------------------------------------------------------------------------------------------------

    def _first_way(self, at: int, way: int, row: int) -> int:
        """Return the first way, from one on, on which a row can be taken."""
        ways, failed = self._ways, self._failed
        targets, conditions = ways.targets[at], ways.conditions[at]
        while way < len(targets):
            way = self._first_fitting(at, way, row, conditions)
            if way == _DEAD_END or not failed or (targets[way], row) not in failed:
                return way
            way += 1
        return _DEAD_END

    def _first_fitting(self, at: int, way: int, row: int, conditions: Sequence[Condition | None]) -> int:
        holds = self._holds_of(row)
        if holds >= 0 and not any(self._ways.are_of_rows[at]):
            key = at, way, holds
            known = self._matching.known.get(key)
            if known is None:
                known = self._matching.known[key] = self._evaluated(way, row, conditions)
            return known
        return self._evaluated(way, row, conditions)

    def _evaluated(self, way: int, row: int, conditions: Sequence[Condition | None]) -> int:
        self._row = row
        for number in range(way, len(conditions)):
            condition = conditions[number]
            if condition is None or condition.holds(self):
                return number
        return _DEAD_END

    def _holds_of(self, row: int) -> int:
        """The conditions that hold for a row, as bits; negative where some are still to be evaluated."""
        matching = self._matching
        if row >= self._stored:
            return -1 if matching.evaluated.lazy else matching.events.holds[self._start + row - self._stored]
        return -1 if matching.stored.lazy else matching.held_of_stored[-1 - self._places[row]]

    def bit(self, index: int) -> bool:
        row, matching = self._row, self._matching
        place = self._places[row]
        is_stored = row < self._stored
        evaluated = matching.stored if is_stored else matching.evaluated
        place = -1 - place if is_stored else place
        if not evaluated.lazy >> index & 1:
            return bool(int(evaluated.holds[place]) >> index & 1)
        answer = self._answers.get((row, index))
        if answer is None:
            matching.place = self._places[row]
            answer = self._answers[row, index] = bool(evaluated.evaluate(place, index))
        return answer

    def of_rows(self, condition: Condition) -> bool:
        assert isinstance(condition, RowCondition), "no others ask for the rows"
        matching = self._matching
        if self._top is None:
            self._top = matching.row_of(self._places[0])
        matching.place = self._places[self._row]
        return matching.holds(condition, self._top + self._row, self._rows_of)

    def _rows_of(self, variables: Variables) -> Sequence[int]:
        """The rows that the way has taken for some variables, in the table of rows."""
        assert self._top is not None, "the rows have been looked for"
        top = self._top
        if not variables:
            return range(top + self._begin, top + self._begin + len(self._path))
        if self._taken is None:
            self._taken = {}
            for number, at in enumerate(self._path):
                self._taken.setdefault(self._ways.variables[at], []).append(self._begin + number)
        names = self._matching.variables
        found = [self._taken.get(names[number], []) for number in variables]
        rows = found[0] if len(found) == 1 else sorted(row for each in found for row in each)
        return [top + row for row in rows]


def _skipped(skip: SkipStrategy, taken: Sequence[str]) -> int:
    """The number of rows from the first of a match to the one with which the search goes on."""
    if not taken:
        return 1
    if isinstance(skip, SkipPastLastEvent):
        return len(taken)
    if not isinstance(skip, SkipToStage):
        return 1
    places = [place for place, stage in enumerate(taken) if stage in skip.stages]
    if not places:
        raise skip.missing(taken)
    found = places[-1 if skip.is_last else 0]
    if not found:
        raise skip.endless()
    return found
