"""``PatternMatcher``: a pattern at work in one subtask, with its state, for whoever has the events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import KeyedBatch, OperatorContext
from headrace.operators.pattern import pattern_timers, stored_matches
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.event_conditions import EventConditions, Judged, KnownColumns
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.nfa import Nfa
from headrace.operators.pattern.pattern_timers import PatternTimers
from headrace.operators.pattern.preferred_matching import PreferredNfa
from headrace.operators.pattern.rules import RuleVersion
from headrace.operators.pattern.stored_matches import StoredMatches

STORES: Final = (stored_matches.STORE, pattern_timers.STORE)
"""The stores of a pattern; those of one of several have its number behind their names."""


def store_names(number: int) -> tuple[str, str]:
    """The names of the stores of a version of a rule."""
    matches, timers = (f"{name}-{number}" for name in STORES)
    return matches, timers


class PatternMatcher:
    """A pattern at work: its automaton and its conditions, the partial matches of keys, and their timers.

    Attributes:
        automaton: the compiled pattern.
        rule: the version of the rule whose pattern it is; None for the only pattern of an operator.
        nfa: the automaton at work.
        conditions: the conditions that look at events alone.

    Args:
        automaton: the compiled pattern.
        type_: the type of the events.
        clock: the clock that conditions see.
        rule: see above.
        tells: whether somebody is told of timeouts.
    """

    matches: StoredMatches
    timers: PatternTimers
    judged: Judged

    def __init__(
        self,
        automaton: Automaton,
        type_: TypeInformation,
        clock: Callable[[], int],
        rule: RuleVersion | None = None,
        *,
        tells: bool = True,
    ) -> None:
        self.automaton = automaton
        self.rule = rule
        is_preferred = automaton.preference is not None
        self.nfa = PreferredNfa(automaton) if is_preferred else Nfa(automaton, self._evaluate, clock, tells=tells)
        self.conditions = EventConditions(automaton.event_conditions, self.nfa.asked_at_start, type_)
        self._type = type_

    def restore_state(self, context: OperatorContext, domain: str) -> None:
        """Takes up the state.

        Args:
            context: the operator.
            domain: in which time timers are, as state says it.
        """
        matches, timers = STORES if self.rule is None else store_names(self.rule.number)
        # The states of a rule are those of its own definition, which is stored beside it.
        states = [state.name for state in self.automaton.states] if self.rule is None else None
        self.matches = StoredMatches(context, matches, states, self._type)
        self.timers = PatternTimers(context, timers, domain)

    def begin_epoch(self) -> None:
        """Takes up what the last epoch left."""
        self.matches.begin_epoch()
        self.timers.begin_epoch()

    def end_epoch(self) -> None:
        """Puts what has changed into state."""
        self.matches.end_epoch()
        self.timers.end_epoch()

    def judge(self, batch: KeyedBatch, events: Events, known: KnownColumns) -> Judged:
        """Return what is known of events before they meet partial matches.

        Args:
            batch: the events that have arrived.
            events: the same, and those that were taken before.
            known: the columns of conditions that have been computed for the batch; it is added to.
        """
        self.judged = self.conditions.judge(batch, events, known)
        return self.judged

    def _evaluate(self, place: int, index: int) -> bool:
        return self.judged.evaluate(place, index)
