"""The rows that are matched at once, key by key, and the answers of conditions over columns for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.found_matches import FoundMatches
from headrace.operators.pattern.keyed_events import KeyedEvents
from headrace.operators.pattern.lagged_conditions import LaggedCondition
from headrace.operators.pattern.matched_rows import Variables
from headrace.operators.pattern.matches import Step, steps_of
from headrace.operators.pattern.row_conditions import Answers, RowCondition, RowTable, Taken, is_worthwhile
from headrace.operators.pattern.scalar_tests import ScalarTest, scalar_test
from headrace.operators.pattern.taken_aggregates import NoPlainValueError

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class RowAnswers:
    """The rows of all keys that are visited, and what conditions say of them; made when somebody asks.

    Args:
        keyed: the events of the keys.
        found: the partial matches.
        stages: the stage of each state of the automaton.
        type_: the type of the events.
        events: the events.
        clock: the reading of the clock.
    """

    def __init__(
        self,
        keyed: KeyedEvents,
        found: FoundMatches,
        stages: Sequence[str],
        type_: TypeInformation,
        events: Events,
        clock: int,
    ) -> None:
        self._keyed, self._found, self._stages = keyed, found, stages
        self._type, self._events, self._clock = type_, events, clock
        self._answers: dict[RowCondition, Answers] = {}
        self._asked: Counter[RowCondition] = Counter()
        self._tests: dict[RowCondition, ScalarTest | None] = {}

    @cached_property
    def _places(self) -> tuple[Longs, Longs]:
        """The places of all rows, key by key in the order in which they are matched, and the first row of each key."""
        stored, of_stored = self._found.events()
        places, of_keys = self._keyed.rows()
        places, of_keys = np.concatenate([stored, places]), np.concatenate([of_stored, of_keys])
        order = np.argsort(of_keys, kind="stable")
        places, of_keys = places[order], of_keys[order]
        is_first = np.diff(of_keys, prepend=-1) != 0
        return places, np.flatnonzero(is_first)[np.cumsum(is_first) - 1]

    @cached_property
    def _table(self) -> RowTable:
        places, starts = self._places
        return RowTable(layout_of(self._type).array_to_columns(self._events.column(places)), starts, self._clock)

    @cached_property
    def _rows(self) -> dict[int, int]:
        places, _ = self._places
        return dict(zip(places.tolist(), range(len(places)), strict=True))

    def row_of(self, place: int) -> int:
        """The row of an event."""
        return self._rows[place]

    def holds(self, condition: RowCondition, row: int, taken: Taken) -> bool:
        """Evaluate a condition for a row, and those that have been taken."""
        answers = self._answers.get(condition)
        if answers is None:
            answers = self._answers[condition] = Answers(condition, self._table)
        return answers.holds(row, taken)

    @cached_property
    def _columns(self) -> pa.RecordBatch:
        """The columns of all events, by their places."""
        return layout_of(self._type).array_to_columns(self._events.all())

    def _test_of(self, condition: RowCondition) -> ScalarTest | None:
        """The test of a condition for single values; None while too few have been tested for it to pay."""
        self._asked[condition] += 1
        if not is_worthwhile(self._asked[condition], len(self._events.arrived)):
            return None
        made = self._tests[condition] = scalar_test(condition, self._stages, self._columns)
        return made

    def holds_of_match(self, condition: RowCondition, place: int, step: Step | None) -> bool:
        """Evaluate a condition for an event and a partial match, given its last step."""
        test = self._tests[condition] if condition in self._tests else self._test_of(condition)
        if test is not None:
            with suppress(NoPlainValueError):
                return test.holds(place, step)
        rows, stages, names = self._rows, self._stages, condition.names

        def taken(variables: Variables) -> Sequence[int]:
            wanted = {names[number] for number in variables} if variables else names
            found = [rows[event] for taker, _, event, _ in steps_of(step) if stages[taker] in wanted]
            found.reverse()
            return found

        return self.holds(condition, rows[place], taken)

    def lagged(self, condition: LaggedCondition) -> tuple[Longs, Mask]:
        """The places of the events that have arrived and those before them, and of which a condition is true.

        An event that has no other before it satisfies none that reads that one.

        Raises:
            EvaluationError: when there is no value for one of them.
        """
        places, starts = self._places
        rows = np.flatnonzero((places >= 0) & (np.arange(len(places)) > starts))
        return places[rows], condition.condition.holds_for(self._table, rows, condition.shape)

    def holds_before(self, condition: LaggedCondition, place: int) -> bool:
        """Evaluate it for one event, which has another before it."""
        row = np.array([self._rows[place]])
        return bool(condition.condition.holds_for(self._table, row, condition.shape)[0])
