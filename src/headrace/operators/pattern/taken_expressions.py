"""Iterative expressions of patterns, ``col("price") < last("fall").price``, bound to the type of the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import alike
from headrace.common.typeinfo import TypeInformation, Types
from headrace.expressions import Bound, BoundColumn, Column, Expression, bind, coalesce, lit
from headrace.expressions.binding import Given
from headrace.expressions.stages import StageAggregate, StageField, replaced
from headrace.operators.aggregates.aggregate import Aggregate
from headrace.operators.aggregates.simple import count, max, min
from headrace.operators.aggregates.sums import avg, sum
from headrace.operators.pattern.matched_rows import AggregateOfMatch, MatchExpressions, RowOfMatch, ValueOfMatch
from headrace.operators.pattern.row_conditions import RowCondition

_AGGREGATES: Final[Mapping[str, Callable[[int], Aggregate]]] = {"sum": sum, "avg": avg, "min": min, "max": max}
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
            counted = AggregateOfMatch(variables, (), count(), Types.ROW_NAMED(["0"], [Types.INT()]))
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
