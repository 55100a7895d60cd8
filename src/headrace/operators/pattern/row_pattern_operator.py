"""``RowPatternOperator``: the pattern operator of ``MATCH_RECOGNIZE``, whose events are rows of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.common.columns import layout_of
from headrace.operators.base import EpochScope, KeyedBatch, OperatorContext, keys_of
from headrace.operators.changelog.order import SortField, millis_of, order_codes
from headrace.operators.pattern import match_numbers
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.conditions import Condition, ConditionContext, IterativeCall
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.key_matching import KeyMatching, OrderedEvents
from headrace.operators.pattern.keyed_events import KeyedEvents
from headrace.operators.pattern.match_columns import MatchColumns
from headrace.operators.pattern.match_numbers import MatchNumbers
from headrace.operators.pattern.match_results import MatchResults, Ranks
from headrace.operators.pattern.matched_rows import Variables
from headrace.operators.pattern.matches import NfaState
from headrace.operators.pattern.pattern_operator import PatternOperator, PatternSettings
from headrace.operators.pattern.patterns_at_work import FixedPattern
from headrace.operators.pattern.preferred_matching import PreferredMatching
from headrace.operators.pattern.row_conditions import Answers, RowCondition, RowTable, Taken
from headrace.operators.pattern.stored_matches import FoundMatches
from headrace.operators.window.table import firing_order
from headrace.operators.window.table.firing_order import TIMERS_OF_RECORDS, Fed, Pane, TimerFiringOrder

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec, KeyColumn

Longs = npt.NDArray[np.int64]


class RowPatternOperator(PatternOperator):
    """Looks for a pattern among the rows of each key, and emits a row for each match.

    Conditions on rows matched before are asked by the places of rows, and answered from columns.

    Args:
        automaton: the compiled pattern.
        columns: makes the rows.
        type_: the type of the rows.
        time_field: the position of the column of event times; None where the time is that of the clock.
        order: the sort fields of rows with equal times.
        is_batch: whether the clock stands still until the input has ended.
        codec: the codec of the keys.
    """

    more_stores = (match_numbers.STORE, firing_order.STORE)

    def __init__(
        self,
        automaton: Automaton,
        columns: MatchColumns,
        type_: TypeInformation,
        time_field: int | None,
        order: tuple[SortField, ...],
        *,
        is_batch: bool,
        codec: KeyCodec,
    ) -> None:
        settings = PatternSettings(in_processing_time=time_field is None, is_batch=is_batch)
        self._columns, self._variables = columns, columns.variables
        asking = automaton if automaton.preference is not None else _with_calls(automaton, self._holds)
        super().__init__(FixedPattern(asking, type_), columns, (), type_, settings)
        self._time_field = time_field
        self._order = order
        # Windows set timers of their own, which are not followed.
        is_of_flink = automaton.preference is None and not automaton.window
        has_order = time_field is not None and not is_batch and is_of_flink
        self._firing = TimerFiringOrder(TIMERS_OF_RECORDS, codec) if has_order else None
        self._fed: list[Fed] = []
        self._firing_places: dict[Pane, int] = {}
        asked = (leaf for state in automaton.states for way in state.transitions for leaf in way.condition.leaves())
        conditions = dict.fromkeys(leaf for leaf in asked if isinstance(leaf, RowCondition))
        called = (each for condition in conditions for each in condition.expressions.user_code)
        self.user_code = (*self.user_code, *columns.user_code, *called)

    def restore_state(self, context: OperatorContext) -> None:
        super().restore_state(context)
        self._numbers = MatchNumbers(context) if self._columns.are_counted else None
        if self._firing is not None:
            self._firing.open(context)

    def begin_epoch(self, scope: EpochScope) -> None:
        if self._firing is not None:
            self._firing.begin_epoch(scope)
        if self._numbers is not None:
            self._numbers.begin_epoch()
        super().begin_epoch(scope)

    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        if self._time_field is not None:
            name = self._type.field_names[self._time_field]
            batch = batch.with_timestamps(millis_of(batch.columns.column(self._time_field), name))
        if self._firing is not None:
            on_time = np.flatnonzero(batch.timestamps > batch.watermarks)
            self._fed.append(Fed(batch.keys.take(on_time), batch.timestamps[on_time], batch.watermarks[on_time]))
        super().process_keyed(input_index, batch)

    def end_epoch(self) -> None:
        if self._firing is not None:
            self._follow(self._watermark)
            self._firing.end_epoch()
        if self._numbers is not None:
            self._numbers.end_epoch()
        super().end_epoch()

    def _match_due(self) -> None:
        if self._watermarks:
            self._follow(self._watermarks[-1])
        super()._match_due()

    def _follow(self, watermark: int) -> None:
        """Follows the timers that rows have in Flink, which decide in which order keys are looked at."""
        if self._firing is not None:
            self._firing_places, self._fed = self._firing.followed(self._fed, watermark), []

    def ranks(self, events: OrderedEvents) -> Ranks | None:
        places, keys = self._firing_places, keys_of(self._events.arrived)
        if not places:
            return None
        ranks: dict[tuple[int, int], int] = {}
        values = keys.take(np.array(events.places, np.int64)).values.to_pylist()
        of_keys = self._keyed.of_keys.tolist()
        for step, time, key, position in zip(events.steps, events.times, values, of_keys, strict=True):
            place = places.get((time + 1, key))
            if place is None:
                return None
            ranks[step, position] = min(ranks.get((step, position), place), place)
        return ranks

    def prepare(self, keyed: KeyedEvents) -> None:
        if self._order:
            keyed.sort_by(order_codes(self._events.arrived.columns, self._order))

    def emit(self, results: MatchResults, ranks: Ranks | None, keys: KeyColumn, stamps: Callable[[int], int]) -> None:
        found = results.in_order(ranks)
        if self._numbers is not None:
            positions = np.array(results.positions_in_order(ranks), np.int64)
            self._columns.match_numbers = self._numbers.count(keys, positions)
        self._columns.call(found, self._events, stamps, self.context, self.output)

    def matched(
        self, matching: KeyMatching | PreferredMatching, keyed: KeyedEvents, found: FoundMatches
    ) -> dict[int, NfaState]:
        self._keyed, self._found = keyed, found
        self._matched_rows: _Rows | None = None
        return super().matched(matching, keyed, found)

    def _holds(self, condition: RowCondition, event: int, context: ConditionContext) -> bool:
        rows, variables = self._rows_matched(), self._variables

        def taken(numbers: Variables) -> Sequence[int]:
            names = [variables[number] for number in numbers] if numbers else variables
            found = [rows.row_of(place) for name in names for place in context.events(name)]
            return found if len(names) == 1 else sorted(found)

        return rows.holds(condition, rows.row_of(event), taken)

    def _rows_matched(self) -> _Rows:
        """The rows that are matched, which conditions look at."""
        if self._matched_rows is None:
            clock = self._columns.context.current_processing_time()
            self._matched_rows = _Rows(self._keyed, self._found, self._type, self._events, clock)
        return self._matched_rows


def _with_calls(automaton: Automaton, holds: Callable[[RowCondition, int, ConditionContext], bool]) -> Automaton:
    """An automaton in which a function stands for each condition on rows before."""
    calls: dict[Condition, Condition] = {}

    def called(condition: Condition) -> Condition:
        if condition not in calls:
            if isinstance(condition, RowCondition):
                calls[condition] = IterativeCall(partial(holds, condition), None)
            else:
                parts = condition.parts()
                calls[condition] = type(condition)(*map(called, parts)) if parts else condition
        return calls[condition]

    states = [
        replace(state, transitions=tuple(replace(way, condition=called(way.condition)) for way in state.transitions))
        for state in automaton.states
    ]
    return replace(automaton, states=tuple(states))


class _Rows:
    """The rows of all keys that are visited, and the answers of conditions for them."""

    def __init__(
        self, keyed: KeyedEvents, found: FoundMatches, type_: TypeInformation, events: Events, clock: int
    ) -> None:
        stored, of_stored = found.events()
        places, of_keys = np.concatenate([stored, keyed.places]), np.concatenate([of_stored, keyed.of_keys])
        order = np.argsort(of_keys, kind="stable")
        places, of_keys = places[order], of_keys[order]
        is_first = np.diff(of_keys, prepend=-1) != 0
        starts = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        self._rows: dict[int, int] = dict(zip(places.tolist(), range(len(places)), strict=True))
        self._table = RowTable(layout_of(type_).array_to_columns(events.column(places)), starts, clock)
        self._answers: dict[RowCondition, Answers] = {}

    def row_of(self, place: int) -> int:
        """The row of an event."""
        return self._rows[place]

    def holds(self, condition: RowCondition, row: int, taken: Taken) -> bool:
        """Evaluate a condition for a row, and those that have been taken."""
        answers = self._answers.get(condition)
        if answers is None:
            answers = self._answers[condition] = Answers(condition, self._table)
        return answers.holds(row, taken)
