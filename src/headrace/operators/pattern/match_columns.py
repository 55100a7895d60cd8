"""Matches as rows of columns: the measures of ``MATCH_RECOGNIZE``, computed for all matches of a batch at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from headrace.operators.pattern.matched_rows import MatchedRows, MatchExpressions
from headrace.operators.user_code import user_error

Longs = npt.NDArray[np.int64]


class MatchColumns:
    """Makes a row of each match; takes the place of a function of the user.

    Attributes:
        user_code: the callers of user functions.
        variables: the variables of the pattern, by number.

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
        self.variables = variables
        self._numbers = {name: number for number, name in enumerate(variables)}
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
        try:
            columns = self._expressions.evaluate(self._matched(found, events))
        except EvaluationError as error:
            shown = {stage: [events.value(place) for place in places] for stage, places in _places(found[error.row])}
            raise user_error(error, context, shown) from error
        times = np.array([timestamp for _, timestamp, *_ in found], np.int64)
        if not self._has_timestamps:
            times = np.full(len(found), NO_TIMESTAMP)
        watermarks = np.array([stamps(emitted_at) for emitted_at, *_ in found], np.int64)
        schema = schema_of(self._output_type)
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        rows = pa.RecordBatch.from_arrays(cast, schema=schema)
        output.emit(Batch(self._output_type, times, watermarks, columns=rows))

    def _matched(self, found: Sequence[Found], events: Events) -> MatchedRows:
        numbers = self._numbers
        steps = [(numbers[stage], place) for *_, match in found for stage, place in match.path]
        variables, places = np.array(steps, np.int64).T
        distinct, rows = np.unique(places, return_inverse=True)
        columns = layout_of(self._type).array_to_columns(events.column(distinct))
        counts = np.array([len(match.path) for *_, match in found], np.int64)
        times = np.array([timestamp for _, timestamp, *_ in found], np.int64)
        return MatchedRows(columns, rows, variables, counts, times, self.context.current_processing_time())


def _places(found: Found) -> Sequence[tuple[str, list[Any]]]:
    return list(found[-1].by_stage().items())
