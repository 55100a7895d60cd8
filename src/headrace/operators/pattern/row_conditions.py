"""Conditions over columns of the current row and of rows matched before: ``B.price > LAST(B.price, 1)``.

They are the iterative expressions of patterns of streams as well, whose stages are the variables and which are bound to
the type of the events: ``col("price") < last("fall").price``. Such a condition is asked for one row and one partial
match at a time. But all that it depends on is how far the rows that it reads are from the current one, and it is asked
with the same few distances again and again. So when it has been asked often enough with some, it is computed with them
for all rows at once, as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import gather
from headrace.common.errors import EvaluationError, InvalidTypeError
from headrace.common.other_names import alike
from headrace.common.typeinfo import TypeInformation, Types
from headrace.expressions import Bound, BoundColumn, Column, Expression, bind, coalesce, lit
from headrace.expressions.binding import Given
from headrace.expressions.stages import StageAggregate, StageField, replaced
from headrace.operators.aggregates import simple, sums
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.pattern.conditions import Condition, Facts
from headrace.operators.pattern.matched_rows import (
    AggregateOfMatch,
    MatchExpressions,
    NumberOfMatch,
    RowLists,
    RowOfMatch,
    ShownRow,
    ValueOfMatch,
    Variables,
)

Longs = npt.NDArray[np.int64]

Reach = range | tuple[int, ...]
"""Rows that a value reads, as their distances from the current row, the farthest one first."""

Shape = tuple[Reach, ...]
"""The rows that each value of a condition reads."""

Taken = Callable[[Variables], Sequence[int]]
"""Gives the rows that a partial match has taken for some variables, in order."""

_ONE: Final = 4096
"""To compute a condition for a single row takes about as long as to read so many more rows when there are others."""

_MOST_SHAPES: Final = 256
"""For so many shapes the answers of all rows are kept."""


@dataclass(frozen=True)
class RowTable:
    """Rows of several keys, those of a key one after the other, in the order in which they are matched.

    Attributes:
        columns: the columns of the rows.
        starts: the first row of each row's key.
        clock: the reading of the clock.
    """

    columns: pa.RecordBatch
    starts: Longs
    clock: int = 0


@dataclass(frozen=True, eq=False)
class RowCondition(Condition):
    """A condition over the current row and the rows that a partial match has taken.

    Attributes:
        expressions: the condition, as the only expression.
        variable: the variable to which the current row would be mapped, and whose last row it is then; a negative
            number where it is not looked at as such.
        names: the names of the variables, by number.
    """

    expressions: MatchExpressions
    variable: int
    names: tuple[str, ...] = ()

    @property
    def looks_at_event_alone(self) -> bool:
        return False

    def holds(self, facts: Facts) -> bool:
        return facts.of_rows(self)

    def __str__(self) -> str:
        return str(self.expressions.expressions[0])

    def shape(self, row: int, taken: Taken, low: int) -> Shape:
        """The rows that the condition reads.

        Args:
            row: the current row.
            taken: the rows that the partial match has taken.
            low: the first row of the key.
        """
        return tuple(self._reach(value, row, taken, low) for value in self.expressions.values)

    def _reach(self, value: ValueOfMatch, row: int, taken: Taken, low: int) -> Reach:
        if not isinstance(value, RowOfMatch | AggregateOfMatch):
            return range(0)
        has_current = self.has_current(value)
        if isinstance(value, RowOfMatch) and has_current and not (value.is_first or value.offset or value.physical):
            return range(1)
        rows = taken(value.variables)
        if isinstance(value, AggregateOfMatch):
            return _distances(row, [*rows, row] if has_current else rows)
        count = len(rows) + has_current
        if value.offset >= count:
            return range(0)
        place = value.offset if value.is_first else count - 1 - value.offset
        distance = (row - rows[place] if place < len(rows) else 0) - value.physical
        return range(distance, distance + 1) if distance <= row - low else range(0)

    def has_current(self, value: RowOfMatch | AggregateOfMatch) -> bool:
        """Return whether the current row is the last of those that a value is of."""
        return not value.variables or self.variable in value.variables

    def names_of(self, value: RowOfMatch | AggregateOfMatch) -> Sequence[str]:
        """The names of the variables whose rows a value is of."""
        return [self.names[number] for number in value.variables] if value.variables else self.names

    def holds_for(self, table: RowTable, rows: Longs, shape: Shape) -> npt.NDArray[np.bool_]:
        """Where it is true, when the rows that are read have some distances from each of the rows.

        Raises:
            EvaluationError: when it has no value for one of them.
        """
        pairs = zip(self.expressions.values, shape, strict=True)
        columns = [_column(value, reach, table, rows) for value, reach in pairs]
        (condition,) = self.expressions.of_values(columns, len(rows))
        return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), np.bool_)


def _column(value: ValueOfMatch, reach: Reach, table: RowTable, rows: Longs) -> pa.Array:
    """A value for each row, whose reach is the same for all of them."""
    if isinstance(value, RowOfMatch):
        column = table.columns.column(value.column)
        return gather(column, rows - reach[0]) if reach else pa.nulls(len(rows), column.type)
    assert not isinstance(value, ShownRow | NumberOfMatch), "conditions have no results"
    if isinstance(value, AggregateOfMatch):
        reached = (rows[:, np.newaxis] - np.array(reach, np.int64)).ravel()
        return value.of_lists(table.columns, RowLists.of(reached, np.full(len(rows), len(reach))))
    return value.of_times(np.full(len(rows), table.clock))


def _distances(row: int, rows: Sequence[int]) -> Reach:
    if not rows:
        return range(0)
    first, last = row - rows[0], row - rows[-1]
    if first - last + 1 == len(rows):
        return range(first, last - 1, -1)
    return tuple(row - each for each in rows)


def is_worthwhile(asked: int, rows: int) -> bool:
    """Return whether a condition has been asked for so often that it is computed for many rows."""
    return asked * _ONE > rows


class Answers:
    """The answers of a condition for the rows of a table.

    Args:
        condition: the condition.
        table: the rows.
    """

    def __init__(self, condition: RowCondition, table: RowTable) -> None:
        self._condition, self._table = condition, table
        self._starts: list[int] = table.starts.tolist()
        self._asked: dict[Shape, int] = {}
        self._whole: dict[Shape, bytes] = {}

    def holds(self, row: int, taken: Taken) -> bool:
        """Return whether the condition is true for a row and a partial match.

        Args:
            row: the row.
            taken: the rows that the partial match has taken.

        Raises:
            EvaluationError: when it has no value.
        """
        shape = self._condition.shape(row, taken, self._starts[row])
        known = self._whole.get(shape)
        if known is None and self._is_worthwhile(shape):
            known = self._of_all_rows(shape)
        if known is not None and (answer := known[row]) != _UNKNOWN:
            return bool(answer)
        return bool(self._condition.holds_for(self._table, np.array([row]), shape)[0])

    def _is_worthwhile(self, shape: Shape) -> bool:
        asked = self._asked[shape] = self._asked.get(shape, 0) + 1
        cost = len(self._table.starts) * (1 + sum(map(len, shape)))
        return is_worthwhile(asked, cost) and len(self._whole) < _MOST_SHAPES

    def _of_all_rows(self, shape: Shape) -> bytes:
        """The answer for each row that has rows of its key at such distances before it."""
        starts = self._table.starts
        farthest = max((distance for reach in shape for distance in reach[:1]), default=0)
        rows = np.flatnonzero(np.arange(len(starts)) - farthest >= starts)
        answers = np.full(len(starts), _UNKNOWN, np.uint8)
        with suppress(EvaluationError):  # of a row that nobody has asked for
            answers[rows] = self._condition.holds_for(self._table, rows, shape)
        found = self._whole[shape] = answers.tobytes()
        return found


_UNKNOWN: Final = 2


_AGGREGATES: Final[Mapping[str, Callable[[int], Aggregate]]] = {
    "sum": sums.sum,
    "avg": sums.avg,
    "min": simple.min,
    "max": simple.max,
}
_NO_VARIABLE: Final = -1


def row_condition(expression: Expression, record_type: TypeInformation, stages: tuple[str, ...]) -> RowCondition:
    """A condition over the columns of an event and of those that the partial match has taken.

    Args:
        expression: the expression.
        record_type: the type of the events.
        stages: the names of the stages of the pattern.

    Raises:
        InvalidTypeError: when it does not fit the events, names no stage of the pattern, or is no condition.
    """
    return _Binder(record_type, stages).condition(expression)


class _Binder:
    def __init__(self, record_type: TypeInformation, stages: tuple[str, ...]) -> None:
        self._type, self._stages = record_type, stages
        self._values: dict[ValueOfMatch, int] = {}

    def condition(self, expression: Expression) -> RowCondition:
        """The condition that an expression says."""
        bound = bind(replaced(expression, self._value), self._type)
        if bound.type != Types.BOOLEAN():
            raise InvalidTypeError(
                f"where takes a condition, but {expression!r} is of type {bound.type}: compare it with something"
            )
        return RowCondition(MatchExpressions((*self._values,), (bound,)), _NO_VARIABLE, self._stages)

    def _value(self, part: Expression) -> Expression | None:
        """What stands for a part of the expression that is a value of rows."""
        if isinstance(part, StageField):
            column = self._column(part, Column(part.key))
            value = RowOfMatch(self._numbers(part, part.stages), column.index, part.is_first, part.offset)
            return self._given(part, value, column.type)
        if isinstance(part, StageAggregate):
            return self._aggregate(part)
        if isinstance(part, Column):
            column = self._column(part, part)
            return self._given(part, RowOfMatch((), column.index), column.type)
        return None

    def _column(self, part: Expression, column: Column) -> BoundColumn:
        try:
            bound = bind(column, self._type)
        except InvalidTypeError as error:
            raise InvalidTypeError(str(error).replace(repr(column), repr(part), 1)) from None
        assert isinstance(bound, BoundColumn), "a column is bound to one"
        return bound

    def _aggregate(self, part: StageAggregate) -> Expression:
        variables = self._numbers(part, part.stages)
        if part.argument is None:
            counted = AggregateOfMatch(variables, (), simple.count(), Types.ROW_NAMED(["0"], [Types.INT()]))
            return self._given(part, counted, Types.LONG())
        operand = bind(part.argument, self._type)
        operand_type = Types.ROW_NAMED(["0"], [operand.type])
        call = _AGGREGATES[part.function](0)
        try:
            found = call.bind(operand_type)
        except InvalidTypeError as error:
            raise InvalidTypeError(f"{part!r}: {error}") from None
        given = self._given(part, AggregateOfMatch(variables, (operand,), call, operand_type), found.type)
        return coalesce(given, lit(0).cast(found.type)) if part.function == "sum" else given

    def _given(self, part: Expression, value: ValueOfMatch, type_: TypeInformation) -> Given:
        index = self._values.setdefault(value, len(self._values))
        bound: Bound = BoundColumn(repr(part), type_, index)
        return Given(bound)

    def _numbers(self, part: Expression, stages: tuple[str, ...]) -> tuple[int, ...]:
        """The numbers of stages; of all of them where none is named."""
        for stage in stages:
            if stage not in self._stages:
                hint = alike(stage, list(self._stages))
                raise InvalidTypeError(f"{part!r}: the pattern has no stage {stage!r}{hint}")
        return tuple(self._stages.index(stage) for stage in stages or self._stages)
