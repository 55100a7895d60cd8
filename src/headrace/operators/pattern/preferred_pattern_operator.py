"""``PreferredPatternOperator``: the operator of ``MATCH_RECOGNIZE`` for what goes beyond Flink's patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.constants import MAX_WATERMARK
from headrace.operators.changelog.order import SortField
from headrace.operators.pattern.automaton import Automaton
from headrace.operators.pattern.event_conditions import Judged
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.key_matching import KeyMatching, OrderedEvents
from headrace.operators.pattern.match_columns import MatchColumns
from headrace.operators.pattern.match_results import MatchResults
from headrace.operators.pattern.pattern_matcher import PatternMatcher
from headrace.operators.pattern.preferred_matching import PreferredMatching, Ways
from headrace.operators.pattern.row_conditions import RowCondition, Taken
from headrace.operators.pattern.row_pattern_operator import RowPatternOperator
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation
    from headrace.state.keys import KeyCodec

Longs = npt.NDArray[np.int64]


class PreferredPatternOperator(RowPatternOperator):
    """Finds the match that is preferred among those that begin with a row, as SQL:2016 says, and emits its rows.

    Args:
        automaton: the compiled pattern.
        columns: makes the rows.
        type_: the type of the rows.
        time_field: the position of the column of event times; None where the time is that of the clock.
        order: the sort fields of rows with equal times.
        is_batch: whether the clock stands still until the input has ended.
        codec: the codec of the keys.
    """

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
        super().__init__(automaton, columns, type_, time_field, order, is_batch=is_batch, codec=codec)
        self._ends_with_input = True
        self._ways = Ways(automaton)

    def _due_timers(self, matcher: PatternMatcher, up_to: int) -> tuple[Longs, KeyColumn] | None:
        """The timers that are due; at the end of the input, one for each key, since that decides all."""
        due = super()._due_timers(matcher, up_to)
        if up_to != MAX_WATERMARK:
            return due
        keys = matcher.matches.keys()
        times = np.full(len(keys), MAX_WATERMARK)
        if due is None:
            return (times, keys) if len(keys) else None
        return np.concatenate([due[0], times]), KeyColumn.concat([due[1], keys])

    def matching(
        self,
        judged: Judged,
        events: OrderedEvents,
        watermarks: list[int],
        results: MatchResults,
        stamps: Callable[[int], int],
    ) -> KeyMatching | PreferredMatching:
        return PreferredMatching(
            self._matcher.automaton,
            self._ways,
            judged,
            self._judge_stored,
            events,
            watermarks,
            results,
            int(self._in_processing_time),
            stamps(len(watermarks) - 1) + 1 if watermarks else 0,
            self._holds_of_way,
            lambda place: self._rows_matched().row_of(place),
            self._variables,
        )

    def _judge_stored(self) -> Judged:
        """What is known of the rows that ways had taken before."""
        records = self._found.records
        times = np.zeros(len(records), np.int64)
        batch = Batch(self._type, times, times, columns=layout_of(self._type).array_to_columns(records))
        return self._matcher.conditions.judge(batch, Events(batch, records[:0]), {})

    def _holds_of_way(self, condition: RowCondition, row: int, taken: Taken) -> bool:
        return self._rows_matched().holds(condition, row, taken)
