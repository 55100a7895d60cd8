"""``PatternMatcher``: a pattern at work in one subtask, with its state; an operator gives it the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MAX_WATERMARK
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import KeyedBatch, OperatorContext, UserCode
from headrace.operators.pattern import found_matches, pattern_filter, stored_matches
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.condition_evaluator import ConditionEvaluator
from headrace.operators.pattern.event_conditions import EvaluatedEvents, EventConditions, Events, KnownColumns
from headrace.operators.pattern.found_matches import FoundMatches
from headrace.operators.pattern.iterative_conditions import RowCondition, with_lags
from headrace.operators.pattern.key_matching import KeyMatching
from headrace.operators.pattern.keyed_events import (
    DueKeys,
    KeyedEvents,
    Longs,
    OrderedEvents,
    beginning,
    has_summaries,
    left_unread,
)
from headrace.operators.pattern.match_results import MatchResults
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.preferred_matching import PreferredMatching, PreferredNfa, Ways
from headrace.operators.pattern.rules import RuleVersion
from headrace.operators.pattern.stored_matches import PatternTimers, StoredMatches
from headrace.state.keys import KeyColumn

STORES: Final = (stored_matches.STORE, found_matches.SUMMARIES_STORE, stored_matches.TIMERS_STORE)
"""The stores of a pattern; those of one of several have its number behind their names."""


def store_names(number: int) -> tuple[str, str, str]:
    """The names of the stores of a version of a rule."""
    matches, summaries, timers = (f"{name}-{number}" for name in STORES)
    return matches, summaries, timers


class PatternMatcher:
    """A pattern at work: its automaton and its conditions, the partial matches of keys, and their timers.

    Attributes:
        automaton: the compiled pattern.
        rule: the version of the rule whose pattern it is; None for the only pattern of an operator.
        nfa: the automaton at work.
        conditions: the conditions that look at events alone.
        user_code: the callers of functions of the user in expressions.
        rows: the events that are matched, as conditions over columns read them.

    Args:
        automaton: the compiled pattern.
        type_: the type of the events.
        clock: the clock of conditions.
        rule: see above.
        tells: whether timeouts are reported.
    """

    matches: StoredMatches
    timers: PatternTimers
    evaluated: EvaluatedEvents
    rows: ConditionEvaluator

    def __init__(
        self,
        automaton: Automaton,
        type_: TypeInformation,
        clock: Callable[[], int],
        rule: RuleVersion | None = None,
        *,
        tells: bool = True,
    ) -> None:
        row_conditions = [leaf for leaf in automaton.leaves() if isinstance(leaf, RowCondition)]
        self.automaton = automaton = with_lags(automaton)
        self.rule = rule
        self._ways = None if automaton.preference is None else Ways(automaton)
        is_preferred = self._ways is not None
        self.nfa = PreferredNfa(automaton) if is_preferred else Nfa(automaton, self._evaluate, clock, tells=tells)
        self.conditions = EventConditions(automaton.event_conditions, self.nfa.conditions_at_start, type_, clock)
        called = (each for condition in row_conditions for each in condition.expressions.user_code)
        self.user_code: tuple[UserCode, ...] = (*self.conditions.user_code, *called)
        # Of other patterns events matter that change nothing, or time does.
        self._leaves_out = not is_preferred and self.nfa.expires_silently and not row_conditions
        self._has_calls = bool(automaton.iterative_calls())
        self._stages = [state.stage for state in automaton.states]
        self._variables = row_conditions[0].names if row_conditions else ()
        self._type, self._clock = type_, clock

    @property
    def decides_at_end(self) -> bool:
        """True if the end of the input decides what is a match."""
        return self._ways is not None

    def restore_state(self, context: OperatorContext, domain: str) -> None:
        """Takes up the state.

        Args:
            context: the operator.
            domain: the time domain of timers, as state names it.
        """
        matches, summaries, timers = STORES if self.rule is None else store_names(self.rule.number)
        # The states of a rule are those of its own definition, which is stored beside it.
        states = [state.name for state in self.automaton.states] if self.rule is None else None
        summarizes = has_summaries(self.nfa)
        self.matches = StoredMatches(context, matches, summaries, states, self._type, summarizes=summarizes)
        self.timers = PatternTimers(context, timers, domain)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self.matches.begin_epoch()
        self.timers.begin_epoch()

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self.matches.end_epoch()
        self.timers.end_epoch()

    def due_timers(self, up_to: int) -> tuple[Longs, KeyColumn] | None:
        """The times and keys of the timers that are due; None where there are none.

        Where the end of the input decides, it is one for each key.
        """
        due = self.timers.take_due(up_to)
        if up_to != MAX_WATERMARK or not self.decides_at_end:
            return due
        keys = self.matches.keys()
        times = np.full(len(keys), MAX_WATERMARK)
        if due is None:
            return (times, keys) if len(keys) else None
        return np.concatenate([due[0], times]), KeyColumn.concat([due[1], keys])

    def set_timers(self, timers: Sequence[tuple[int, int]], keys: KeyColumn) -> None:
        """Set timers.

        Args:
            timers: the position of the key, and the time, of each.
            keys: the keys.
        """
        if timers:
            positions, times = np.array(timers, np.int64).T
            self.timers.register(times, keys.take(positions))

    def evaluate(self, batch: KeyedBatch, events: Events, known: KnownColumns) -> EvaluatedEvents:
        """Return what is known of events before they meet partial matches.

        Args:
            batch: the events that have arrived.
            events: the same, and those that were taken before.
            known: the columns of conditions that have been computed for the batch; it is added to.
        """
        self.evaluated = self.conditions.evaluate(batch, events, known)
        return self.evaluated

    def kept_events(self, batch: KeyedBatch) -> Longs | None:
        """The places of events, all but some that meet no partial match; None for all.

        Args:
            batch: the events that were evaluated.
        """
        evaluated = self.evaluated
        if not self._leaves_out or evaluated.lazy or len(batch) < pattern_filter.FEWEST:
            return None
        begins = beginning(self.nfa, evaluated)
        stored = self.matches.taken(len(batch) // pattern_filter.RARE - int(np.count_nonzero(begins)))
        if stored is None or stored[1].min(initial=MAX_WATERMARK) <= 0:
            return None  # matches that began before 1970 have no timers
        return pattern_filter.kept_events(batch, begins, self.automaton.window, *stored)

    def narrow(self, kept: Longs, batch: KeyedBatch, events: Events) -> None:
        """Forget of the events that were evaluated all but some.

        Args:
            kept: the places of these.
            batch: these.
            events: the same, by their places from now on.
        """
        self.evaluated = self.evaluated.narrowed(kept, batch, events)

    def find(self, due: DueKeys, up_to: int, first: int) -> FoundMatches:
        """Return the partial matches of keys, now that events are evaluated; some keys are left unread.

        Args:
            due: the events and timers by key.
            up_to: the time to which all keys are brought.
            first: the place of the first event among those that have been taken, of this pattern and others.
        """
        summaries = self.matches.summaries(due.keys)
        unread = left_unread(self.nfa, self.evaluated, due, summaries, up_to)
        return self.matches.find(due.keys, summaries, unread, first)

    def look_back(self, keyed: KeyedEvents, found: FoundMatches, events: Events) -> None:
        """Judge events by others, now that those of each key are in order.

        Args:
            keyed: the events of the keys that are visited.
            found: the partial matches.
            events: the events.
        """
        self._found = found
        self.rows = ConditionEvaluator(keyed, found, self._stages, self._type, events, self._clock())
        if self.evaluated.looking_back:
            self.evaluated.look_back(self.rows)
        value_of = events.reader(is_for_all=keyed.are_nearly_all) if self._has_calls else _same
        self.nfa.read_by(value_of, self.rows.holds_of_match)

    def matching(
        self, events: OrderedEvents, watermarks: list[int], results: MatchResults, delay: int, stamp: int
    ) -> KeyMatching | PreferredMatching:
        """The matcher of the events of a key.

        Args:
            events: the events.
            watermarks: as of :class:`KeyMatching`.
            results: takes what is found.
            delay: as of :class:`KeyMatching`.
            stamp: the watermark that is in force before the last of the watermarks.
        """
        if self._ways is None:
            return KeyMatching(self.nfa, self.evaluated, events, watermarks, results, delay)
        return PreferredMatching(
            self.automaton,
            self._ways,
            self.evaluated,
            self._evaluate_stored,
            events,
            watermarks,
            results,
            delay,
            stamp + 1 if watermarks else 0,
            self.rows.holds,
            self.rows.row_of,
            self._variables,
        )

    def _evaluate_stored(self) -> EvaluatedEvents:
        """The facts about the rows that paths had taken before."""
        records = self._found.records
        times = np.zeros(len(records), np.int64)
        batch = Batch(self._type, times, times, columns=layout_of(self._type).array_to_columns(records))
        return self.conditions.evaluate(batch, Events(batch, records[:0]), {})

    def _evaluate(self, place: int, index: int) -> bool:
        return self.evaluated.evaluate(place, index)


def _same(event: object) -> object:
    return event
