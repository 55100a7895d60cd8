"""The conditions of ``DEFINE`` as conditions of a pattern.

What looks at the row alone is computed for a batch of rows at once, before the rows meet partial matches. A part of
``AND`` or ``OR`` is a condition of its own, so that partial matches are only asked for where rows alone do not decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from headrace.common.configuration import Configuration
from headrace.operators.pattern.conditions import And, Condition, EventExpression, Or
from headrace.operators.pattern.row_conditions import RowCondition
from headrace.table.logical.match import ALL_ROWS, MatchClauses, PatternAggregate, PatternRef
from headrace.table.logical.scalars import Call, Scalar
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.physical.compilation import compiled_all
from headrace.table.physical.match_values import MatchValues, of_row, variables_of
from headrace.table.physical.times import UsedTimes


def conditions_of(clauses: MatchClauses, given: Schema, settings: Configuration) -> dict[str, Condition]:
    """The conditions of the variables of a pattern, by name; a variable without one takes any row.

    Args:
        clauses: the clauses.
        given: the columns of the rows.
        settings: the configuration of the session.

    Raises:
        PlanningError: when a condition cannot be computed.
    """
    known = set(variables_of(clauses.pattern))
    return {
        each.variable: _Conditions(each.variable, clauses, given, settings).of(each.condition)
        for each in clauses.definitions
        if each.variable in known
    }


@dataclass(frozen=True)
class _Conditions:
    """Makes conditions of one variable."""

    variable: str
    clauses: MatchClauses
    given: Schema
    settings: Configuration

    def of(self, scalar: Scalar) -> Condition:
        """The condition that holds where a scalar is true."""
        if self._is_of_row(scalar):
            (expression,) = compiled_all((of_row(scalar),), self.given, self.settings)
            return EventExpression(expression)
        if isinstance(scalar, Call) and scalar.function in ("AND", "OR"):
            combine = And if scalar.function == "AND" else Or
            alone = [each for each in scalar.operands if self._is_of_row(each)]
            others = [self.of(each) for each in scalar.operands if not self._is_of_row(each)]
            first = [self.of(_joined(scalar, alone))] if alone else []
            return reduce(combine, [*first, *others])
        values = MatchValues.of(self.clauses, self.given, self.settings)
        (variable,) = values.numbers[self.variable]
        return RowCondition(values.expressions((scalar,)), variable, values.variables)

    def _is_of_row(self, scalar: Scalar) -> bool:
        """Return whether a scalar looks at the row alone."""
        if UsedTimes.of((scalar,)).times:
            return False
        return all(self._is_of_row_itself(node) for node in scalar.walk())

    def _is_of_row_itself(self, node: Scalar) -> bool:
        if isinstance(node, PatternRef):
            is_current = node.variable in (self.variable, ALL_ROWS) and node.function != "FIRST" and not node.offset
            is_current = is_current and not node.physical
            return is_current and TimeAttribute.PROCTIME not in (node.time, node.attribute)
        return not isinstance(node, PatternAggregate) and not (
            isinstance(node, Call) and node.function in ("MATCH_ROWTIME", "MATCH_PROCTIME")
        )


def _joined(call: Call, operands: list[Scalar]) -> Scalar:
    return operands[0] if len(operands) == 1 else Call(call.function, tuple(operands), type=call.type)
