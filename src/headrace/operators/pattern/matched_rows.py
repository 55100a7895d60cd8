"""Columns computed of the rows of matches: ``LAST(B.price, 1)``, ``AVG(B.price)``, and expressions over such values.

Measures are computed for all matches of a batch at once: the rows are gathered, one column for each of these values,
and the expressions are evaluated over these columns. Conditions that look at rows matched before are the same
expressions, over the rows of partial matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.expressions.evaluation import Bound, BoundColumn, evaluate, user_code_in
from headrace.operators.aggregates.aggregator import (
    AggregatorList,
    BoundAggregate,
    DerivedColumn,
    GroupedRows,
    Input,
)
from headrace.operators.aggregates.calls import AggregateOperation
from headrace.operators.aggregates.calls.nothing import accumulators_of_nothing
from headrace.operators.arrays import gather
from headrace.operators.base import UserCode
from headrace.state.runs.grouping import Groups, Segments

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation

Longs = npt.NDArray[np.int64]

_MICROS: Final = 1000

Variables = tuple[int, ...]
"""Variables by number; none stands for all of them."""


@dataclass(frozen=True)
class RowLists:
    """A list of rows for each match.

    Attributes:
        rows: the rows of all matches, match after match in order.
        starts: the place in ``rows`` at which each list starts.
        counts: the length of each list.
    """

    rows: Longs
    starts: Longs
    counts: Longs

    @staticmethod
    def of(rows: Longs, counts: Longs) -> RowLists:
        """The lists of some lengths that follow one another in ``rows``."""
        return RowLists(rows, np.cumsum(counts) - counts, counts)


class MatchedRows:
    """The rows of some matches, in the order in which they were matched.

    Args:
        events: the columns of the rows; there may be others among them.
        rows: the rows of all matches, match after match.
        variables: the variable that each of these is mapped to.
        counts: the number of rows of each match.
        times: the timestamp of each match, in milliseconds.
        clock: the reading of the clock.
    """

    def __init__(
        self, events: pa.RecordBatch, rows: Longs, variables: Longs, counts: Longs, times: Longs, clock: int
    ) -> None:
        self.events, self.times, self.clock = events, times, clock
        self._variables = variables
        self._lists: dict[Variables, RowLists] = {(): RowLists.of(rows, counts)}

    def __len__(self) -> int:
        return len(self._lists[()].counts)

    def of(self, variables: Variables) -> RowLists:
        """The rows that are mapped to some variables."""
        if variables not in self._lists:
            whole = self._lists[()]
            is_chosen = np.isin(self._variables, variables)
            owners = np.repeat(np.arange(len(self)), whole.counts)
            counts = np.bincount(owners[is_chosen], minlength=len(self))
            self._lists[variables] = RowLists.of(whole.rows[is_chosen], counts)
        return self._lists[variables]


@dataclass(frozen=True, slots=True)
class RowOfMatch:
    """A column of one of the rows that are mapped to some variables: NULL when there is no such row.

    Attributes:
        variables: the variables.
        column: the column.
        is_first: whether rows are counted from the first one on, or from the last one back.
        offset: the number of rows to go.
    """

    variables: Variables
    column: int
    is_first: bool = False
    offset: int = 0

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each match."""
        lists, column = matched.of(self.variables), matched.events.column(self.column)
        places = lists.starts + (self.offset if self.is_first else lists.counts - 1 - self.offset)
        is_there = lists.counts > self.offset
        if is_there.all():
            return gather(column, lists.rows[places])
        rows = np.zeros(len(places), np.int64)
        rows[is_there] = lists.rows[places[is_there]]
        return column.take(pa.array(rows, mask=~is_there)) if is_there.any() else pa.nulls(len(rows), column.type)


@dataclass(frozen=True, slots=True)
class TimeOfMatch:
    """The timestamp of the match, or the time of the clock when it was found.

    Attributes:
        is_clock: whether it is the time of the clock.
        is_instant: whether it is a point in time, or one of the day and the hour without a time zone.
    """

    is_clock: bool
    is_instant: bool = True

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each match."""
        return self.of_times(np.full(len(matched), matched.clock) if self.is_clock else matched.times)

    def of_times(self, times: Longs) -> pa.Array:
        """The values of times in milliseconds."""
        return pa.array(times * _MICROS, pa.int64()).cast(pa.timestamp("us", "UTC" if self.is_instant else None))


@dataclass(frozen=True)
class AggregateOfMatch:
    """An aggregate over the rows that are mapped to some variables.

    Attributes:
        variables: the variables.
        operands: the operands, over the columns of a row.
        call: the aggregate, over the columns of the operands.
        operand_type: the type of the rows of these columns.
    """

    variables: Variables
    operands: tuple[Bound, ...]
    call: AggregateOperation
    operand_type: TypeInformation

    @cached_property
    def _bound(self) -> BoundAggregate:
        return self.call.bind(self.operand_type)

    @cached_property
    def _aggregators(self) -> AggregatorList:
        return AggregatorList(tuple(dict.fromkeys(self._bound.aggregators)))

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions."""
        called = tuple(each for operand in self.operands for each in user_code_in(operand))
        return (*called, *self._aggregators.user_code)

    def compute(self, matched: MatchedRows) -> pa.Array:
        """The value of each match."""
        return self.of_lists(matched.events, matched.of(self.variables))

    def of_lists(self, events: pa.RecordBatch, lists: RowLists) -> pa.Array:
        """The value of each list of rows."""
        is_there = lists.counts > 0
        values = self._values(self._accumulated(events, lists.rows, lists.starts[is_there]))
        if is_there.all():
            return values
        of_nothing = self._values(accumulators_of_nothing(self._aggregators, self.operand_type, 1))
        return gather(pa.concat_arrays([values, of_nothing]), np.where(is_there, np.cumsum(is_there) - 1, len(values)))

    def _values(self, accumulators: list[pa.Array]) -> pa.Array:
        results = self._aggregators.results(accumulators)
        made = self._bound.emit([results[one] for one in self._bound.aggregators])
        storage = self.call.type.arrow_type
        return made if made.type == storage else made.cast(storage)

    def _accumulated(self, events: pa.RecordBatch, rows: Longs, starts: Longs) -> list[pa.Array]:
        columns = [_of_rows(operand, events, rows) for operand in self.operands]
        table = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
        inputs: dict[Input, pa.Array] = {}
        for source in self._aggregators.inputs:
            if isinstance(source, DerivedColumn):
                inputs[source] = source.of(table)
            elif isinstance(source, int):
                inputs[source] = columns[source]
        groups = Groups(np.arange(len(rows)), Segments(starts, len(rows)))
        return self._aggregators.accumulate(GroupedRows(inputs, np.arange(len(rows)), groups))


def _of_rows(expression: Bound, events: pa.RecordBatch, rows: Longs) -> pa.Array:
    """The values of an expression in some rows, computed once for each."""
    if isinstance(expression, BoundColumn):
        return gather(events.column(expression.index), rows)
    distinct, places = np.unique(rows, return_inverse=True)
    return gather(expression.column(events.take(pa.array(distinct))), places)


ValueOfMatch = RowOfMatch | TimeOfMatch | AggregateOfMatch


@dataclass(frozen=True)
class MatchExpressions:
    """Expressions over values of matches.

    Attributes:
        values: the values.
        expressions: the expressions, over a column for each of the values.
    """

    values: tuple[ValueOfMatch, ...]
    expressions: tuple[Bound, ...]

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The callers of user functions."""
        aggregates = (value for value in self.values if isinstance(value, AggregateOfMatch))
        called = (each for expression in self.expressions for each in user_code_in(expression))
        return (*called, *(each for aggregate in aggregates for each in aggregate.user_code))

    def evaluate(self, matched: MatchedRows) -> list[pa.Array]:
        """A column for each expression, with a value for each match.

        Raises:
            EvaluationError: when a match has no value.
        """
        return self.of_values([value.compute(matched) for value in self.values], len(matched))

    def of_values(self, columns: list[pa.Array], count: int) -> list[pa.Array]:
        """A column for each expression, given those of the values."""
        columns = columns or [pa.nulls(count)]
        names = [str(number) for number in range(len(columns))]
        return evaluate(self.expressions, pa.RecordBatch.from_arrays(columns, names=names))
