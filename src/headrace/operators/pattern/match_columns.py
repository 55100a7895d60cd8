"""Matches as rows of columns: the measures of ``MATCH_RECOGNIZE``, computed for all matches of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of, schema_of
from headrace.common.constants import NO_TIMESTAMP
from headrace.common.errors import EvaluationError
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import OperatorContext, Output
from headrace.operators.pattern.events import Events
from headrace.operators.pattern.match_results import Found, PatternContext
from headrace.operators.pattern.matched_rows import Extents, MatchedRows, MatchExpressions
from headrace.operators.pattern.matches import PreferredMatch
from headrace.operators.user_code import user_error

Longs = npt.NDArray[np.int64]


class MatchColumns:
    """Makes a row of each match, or of each of its rows; takes the place of a function of the user.

    Attributes:
        user_code: the callers of user functions.
        variables: the variables of the pattern, by number.
        are_counted: whether matches have to be counted.
        match_numbers: the numbers of the matches of the next call, where they are counted.

    Args:
        expressions: an expression for each column.
        variables: the variables of the pattern, by number.
        type_: the type of the events.
        output_type: the type of the rows.
        has_timestamps: whether a row has the time of its match as its timestamp.
    """

    handles_timeout = False
    maker: Callable[..., Any] | None = None

    def __init__(
        self,
        expressions: MatchExpressions,
        variables: tuple[str, ...],
        type_: TypeInformation,
        output_type: TypeInformation,
        *,
        has_timestamps: bool,
    ) -> None:
        self.context = PatternContext()
        self.user_code = expressions.user_code
        self._expressions = expressions
        self.match_numbers: Longs | None = None
        self.variables = variables
        self._numbers = {name: number for number, name in enumerate(variables)}
        self.are_counted = expressions.are_counted
        self._type, self._output_type = type_, output_type
        self._has_timestamps = has_timestamps

    def call(
        self,
        found: Sequence[Found],
        events: Events,
        stamps: Callable[[int], int],
        context: OperatorContext,
        output: Output,
    ) -> None:
        """Emits the rows of all matches that were found.

        Args:
            found: of each where it is emitted, its time, the method of a function and the match, in order.
            events: the events.
            stamps: gives the watermark that is in force where something is emitted.
            context: the operator.
            output: takes the rows.
        """
        if not found:
            return
        results = _Results(found, self._expressions, self._numbers)
        try:
            columns = self._expressions.evaluate(self._matched(results, found, events))
        except EvaluationError as error:
            shown = {stage: [events.value(place) for place in places] for stage, places in results.shown_at(error.row)}
            raise user_error(error, context, shown) from error
        owners = results.owners
        if not len(owners):
            return
        times = results.times(found) if self._has_timestamps else np.full(len(owners), NO_TIMESTAMP)
        watermarks = np.array([stamps(emitted_at) for emitted_at, *_ in found], np.int64)[owners]
        schema = schema_of(self._output_type)
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(cast, schema=schema)
        output.emit(Batch(self._output_type, times, watermarks, columns=rows))

    def _matched(self, results: _Results, found: Sequence[Found], events: Events) -> MatchedRows:
        distinct, rows = np.unique(results.places, return_inverse=True)
        columns = layout_of(self._type).array_to_columns(events.column(distinct))
        return MatchedRows(
            columns,
            rows,
            results.variables,
            results.extents(),
            rows[results.shown],
            results.times(found),
            self.context.current_processing_time(),
            None if self.match_numbers is None else self.match_numbers[results.owners],
            self.variables,
        )


class _Results:
    """The rows of matches, and which results are made of them.

    Attributes:
        places: the places of the rows of all matches, with those before them that are looked at.
        variables: the variables of these; -1 for one that is not part of the match.
        owners: the number of the match of each result.
        shown: the row of each result among those of all matches.
    """

    def __init__(self, found: Sequence[Found], expressions: MatchExpressions, numbers: Mapping[str, int]) -> None:
        self._found = found
        places: list[int] = []
        variables: list[int] = []
        owners: list[int] = []
        shown: list[int] = []
        bounds: list[tuple[int, int, int]] = []
        for owner, (*_, match) in enumerate(found):
            low = len(places)
            if isinstance(match, PreferredMatch):
                places += match.before
                variables += [-1] * len(match.before)
            start = len(places)
            for stage, place in match.path:
                places.append(place)
                variables.append(numbers[stage])
            end = len(places)
            bounds.append((low, start, end))
            if start == end:
                assert isinstance(match, PreferredMatch), "only a preferred match may have no rows"
                places.append(match.begins_with)
                variables.append(-1)
                rows = [start] if expressions.with_empty else []
            elif expressions.all_rows:
                excluded = match.excluded if isinstance(match, PreferredMatch) else ()
                rows = [start + row for row in range(end - start) if row not in excluded]
            else:
                rows = [end - 1]
            owners += [owner] * len(rows)
            shown += rows
        self.places, self.variables = np.array(places, np.int64), np.array(variables, np.int64)
        self.owners, self.shown = np.array(owners, np.int64), np.array(shown, np.int64)
        self._bounds = np.array(bounds, np.int64)

    def extents(self) -> Extents:
        """The rows of each result."""
        lows, starts, ends = self._bounds[self.owners].T
        return Extents(lows, starts, np.minimum(self.shown + 1, ends), ends)

    def times(self, found: Sequence[Found]) -> Longs:
        """The time of each result."""
        return np.array([timestamp for _, timestamp, *_ in found], np.int64)[self.owners]

    def shown_at(self, result: int) -> Sequence[tuple[str, list[Any]]]:
        """The places of the rows of each stage of a result's match."""
        return list(self._found[self.owners[result]][-1].by_stage().items())
