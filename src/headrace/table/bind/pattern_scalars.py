"""Scalars of ``MATCH_RECOGNIZE``, whose columns belong to rows that are mapped to pattern variables."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.logical_types import LogicalType
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.scopes import NamedRelation, Scope
from headrace.table.functions.definitions import CallShape, FunctionDefinition
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import BIGINT, INTEGERS, STRING, is_in, timestamp, timestamp_ltz
from headrace.table.logical.match import ALL_ROWS, CLASSIFIER, PatternAggregate, PatternRef
from headrace.table.logical.scalars import Call, Cast, Literal, Scalar, Subquery
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree.node import SqlNode

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

_PHYSICAL: Final = ("PREV", "NEXT")
_NEVER_NULL: Final = ("COUNT", "APPROX_COUNT_DISTINCT")


def navigated(condition: Scalar, variable: str) -> Scalar:
    """The condition of a variable, in which columns without navigation are of the current row or of the last one."""
    if isinstance(condition, PatternAggregate):
        return condition
    if isinstance(condition, PatternRef) and not condition.function:
        return replace(condition, function="PREV" if condition.variable == variable else "LAST")
    return condition.with_parts(Scalar, [navigated(part, variable) for part in condition.children])


class PatternScalars(ExpressionBinder):
    """Binds the expressions of a clause.

    Args:
        queries: the binder of queries.
        schema: the columns of the rows.
        variables: the variables that may be named.
        required: those to which every match maps a row, as far as a result knows them.
        clause: the clause.
        around: the columns of relations around.
        all_rows: whether there is a result for each row of a match.
    """

    def __init__(
        self,
        queries: "QueryBinder",
        schema: Schema,
        variables: tuple[str, ...],
        required: frozenset[str],
        clause: str,
        around: Scope,
        *,
        all_rows: bool,
    ) -> None:
        scope = Scope((NamedRelation(None, schema),), schema, queries.context.correlation(), around.parent)
        super().__init__(queries, scope, clause)
        self._schema = schema
        self._variables = variables
        self._required = required
        self._all_rows = all_rows

    def _identifier(self, node: sql.Identifier) -> Scalar:
        """``A.price``: of the last row mapped to A; without a variable, of the last row of the match."""
        first = node.names[0].text
        is_qualified = len(node.names) > 1 and first in self._variables
        variable, rest = (first, node.names[1:]) if is_qualified else (ALL_ROWS, node.names)
        names = self._schema.names
        if rest[0].text not in names:
            if not is_qualified and len(node.names) > 1:
                known = list(self._variables)
                advice = misspelt(first, known) or (
                    f"Columns are of a variable, {known[0]}.{rest[-1]}, or of the last row as {rest[-1]} alone."
                )
                raise self.context.error(node, f"pattern variable '{first}' not found", advice)
            raise self.context.error(node, f"column '{rest[0]}' not found", misspelt(rest[0].text, names))
        column = self._schema[names.index(rest[0].text)]
        index = names.index(column.name)
        kind = column.type if variable in self._required else column.type.as_nullable()
        found: Scalar = PatternRef(variable, index, column.name, type=kind, time=column.time)
        for name in rest[1:]:
            found = self.field(found, name.text, name)
        return found

    def function_call(self, node: sql.SqlCall) -> Scalar:
        rule = _FUNCTIONS.get(node.name)
        return super().function_call(node) if rule is None else rule(self, node)

    def match_semantics(self, node: sql.MatchSemantics) -> Scalar:
        """``FINAL`` and ``RUNNING``, which are the same with one row per match."""
        if self.clause != "MEASURES":
            return super().match_semantics(node)
        found = self.bind(node.call)
        return found.transform(_final) if node.is_final and self._all_rows else found

    def without_queries(self, node: sql.SqlExpression) -> Scalar:
        """The scalar of an expression, in which there is no query."""
        found = self.bind(node)
        if any(isinstance(each, Subquery) for each in found.walk()):
            raise self.context.error(node, f"{self.clause} of MATCH_RECOGNIZE takes no query")
        return found

    # --- navigation --------------------------------------------------------------------------------------------------

    def navigation(self, node: sql.SqlCall) -> Scalar:
        """``FIRST`` and ``LAST`` of a variable's rows, with an offset."""
        if not 1 <= len(node.arguments) <= 2:
            raise self.context.error(node, f"{node.name} takes a column, and how many rows further on")
        operand = self.bind(node.arguments[0])
        if any(isinstance(each, PatternAggregate) for each in operand.walk()):
            raise self.context.error(node.arguments[0], f"{node.name} takes a column, and no aggregate")
        refs = [each for each in operand.walk() if isinstance(each, PatternRef)]
        nested = next((_outermost(ref) for ref in refs if ref.function), None)
        if nested is not None and (nested in _PHYSICAL or node.name not in _PHYSICAL):
            raise self.context.error(node.arguments[0], f"{nested} is not possible inside of {node.name}")
        self._one_variable(node, refs)
        return _moved(operand, node.name, self._offset(node))

    def _offset(self, node: sql.SqlCall) -> int:
        if len(node.arguments) < 2:
            return 1 if node.name in _PHYSICAL else 0
        given = node.arguments[1]
        offset = self.bind(given)
        if not isinstance(offset, Literal) or not is_in(offset.type, INTEGERS) or offset.value < 0:
            raise self.context.unplanned(given, "the number of rows is a constant that is not negative")
        return int(offset.value)

    def physical(self, node: sql.SqlCall) -> Scalar:
        """``PREV`` and ``NEXT``, which go on or back among all rows; beyond Flink, but for the row itself."""
        found = self.navigation(node)
        offset = self._offset(node)
        if self.clause == "MEASURES" and not offset:
            raise self.context.error(node, f"{node.name} of no rows is the row itself", f"Leave {node.name} out.")
        if node.name == "NEXT" and offset and self.clause == "DEFINE":
            reason = "NEXT looks at a row that has not been matched yet, which DEFINE cannot"
            self.context.defer(node, reason, "Move the condition to the next variable, with PREV or LAST.")
        return found

    # --- functions of the match --------------------------------------------------------------------------------------

    def classifier(self, node: sql.SqlCall) -> Scalar:
        """``CLASSIFIER()``, the variable that the row is mapped to; beyond Flink."""
        if self.clause != "MEASURES":
            raise self.context.unplanned(
                node, f"CLASSIFIER() is not possible in {self.clause}", "Name the variables whose rows are meant."
            )
        variable = ALL_ROWS
        if node.arguments:
            given = node.arguments[0]
            variable = given.names[0].text if isinstance(given, sql.Identifier) and len(given.names) == 1 else ""
            if len(node.arguments) > 1 or variable not in self._variables:
                advice = misspelt(variable, list(self._variables)) if variable else None
                raise self.context.error(given, "CLASSIFIER takes a variable or a name of SUBSET, or nothing", advice)
        kind = STRING.not_null() if variable in self._required else STRING
        return PatternRef(variable, CLASSIFIER, "CLASSIFIER", type=kind)

    def match_number(self, node: sql.SqlCall) -> Scalar:
        """``MATCH_NUMBER()``, the number of the match in its partition; beyond Flink."""
        if node.arguments:
            raise self.context.error(node, "MATCH_NUMBER takes no arguments")
        if self.clause != "MEASURES":
            reason = f"MATCH_NUMBER() is not possible in {self.clause}: which matches there are is not known yet"
            raise self.context.unplanned(node, reason)
        return Call(node.name, (), type=BIGINT.not_null())

    def match_rowtime(self, node: sql.SqlCall) -> Scalar:
        """``MATCH_ROWTIME()``, the time of the row that made the match complete; with a column in the column's type."""
        kind: LogicalType = timestamp(3).not_null()
        operands = self.bind_all(node.arguments)
        if len(operands) > 1:
            raise self.context.error(node, "MATCH_ROWTIME takes a single column, or none")
        for operand in operands:
            if not isinstance(operand, PatternRef) or operand.function or operand.time is not TimeAttribute.ROWTIME:
                raise self.context.error(node.arguments[0], "MATCH_ROWTIME takes a rowtime column, or nothing")
            kind = operand.type
        return Call(node.name, operands, type=kind, time=TimeAttribute.ROWTIME)

    def match_proctime(self, node: sql.SqlCall) -> Scalar:
        """``MATCH_PROCTIME()``, the time at which the match is found."""
        if node.arguments:
            raise self.context.error(node, "MATCH_PROCTIME takes no arguments")
        return Call(node.name, (), type=timestamp_ltz(3).not_null(), time=TimeAttribute.PROCTIME)

    # --- aggregates --------------------------------------------------------------------------------------------------

    def aggregate(self, node: sql.SqlCall, function: FunctionDefinition) -> Scalar:
        if node.quantifier is sql.SetQuantifier.DISTINCT:
            advice = "Write ALL ROWS PER MATCH with MATCH_NUMBER(), and GROUP BY outside."
            raise self.context.error(node, "aggregates of MATCH_RECOGNIZE take no DISTINCT", advice)
        if node.filter is not None:
            self.context.defer(node.filter, "aggregates of MATCH_RECOGNIZE take no FILTER", "Use CASE WHEN ... END.")
        if any(isinstance(argument, sql.Star) and argument.qualifier for argument in node.arguments):
            raise self.context.error(node, f"{node.name} takes columns, and COUNT(*)", "Write COUNT(A.x).")
        operands = self.over_operands(node)
        inner = [each for operand in operands for each in operand.walk()]
        if any(isinstance(each, PatternAggregate) for each in inner):
            raise self.context.error(node, "aggregates cannot be nested")
        refs = [each for each in inner if isinstance(each, PatternRef)]
        self._one_variable(node, refs)
        if operands and not refs:
            raise self.context.unplanned(node, f"{node.name} takes a column of a pattern variable")
        variable = refs[0].variable if refs else ALL_ROWS
        if function.name == "AVG":
            return self._average(node, function, operands, variable)
        return self._aggregate(node, function, operands, variable)

    def _aggregate(
        self, node: sql.SqlCall, function: FunctionDefinition, operands: tuple[Scalar, ...], variable: str
    ) -> PatternAggregate:
        signature = function.types(CallShape(operands))
        if signature is None:
            self._not_applicable(function, operands, node)
        cast = tuple(map(self.implicit, operands, signature.operands))
        kind = signature.result if function.name in _NEVER_NULL else signature.result.as_nullable()
        return PatternAggregate(function.name, variable, cast, function.options, type=kind)

    def _average(
        self, node: sql.SqlCall, function: FunctionDefinition, operands: tuple[Scalar, ...], variable: str
    ) -> Scalar:
        """An average as Flink computes it here: a sum by a count."""
        kind = self._aggregate(node, function, operands, variable).type
        total, count = (self._aggregate(node, FUNCTIONS[name], operands, variable) for name in ("SUM", "COUNT"))
        return _cast(self.call("/", (_cast(total, kind), count), node), kind)

    def _one_variable(self, node: SqlNode, refs: Sequence[PatternRef]) -> None:
        variables = list(dict.fromkeys(ref.variable for ref in refs))
        if len(variables) > 1:
            shown = " and ".join(variables)
            raise self.context.error(node, f"it takes columns of one pattern variable, not of {shown}")


def _outermost(ref: PatternRef) -> str:
    if ref.physical:
        return "PREV" if ref.physical < 0 else "NEXT"
    return ref.function


def _final(scalar: Scalar) -> Scalar:
    return replace(scalar, is_final=True) if isinstance(scalar, PatternRef | PatternAggregate) else scalar


def _moved(operand: Scalar, function: str, offset: int) -> Scalar:
    def moved(scalar: Scalar) -> Scalar:
        if not isinstance(scalar, PatternRef):
            return scalar
        if function in _PHYSICAL and offset:
            physical = -offset if function == "PREV" else offset
            inner = scalar.function or "LAST"
            return replace(scalar, function=inner, physical=physical, type=scalar.type.as_nullable())
        return replace(
            scalar, function=function, offset=offset, type=scalar.type.as_nullable() if offset else scalar.type
        )

    return operand.transform(moved)


def _cast(scalar: Scalar, kind: LogicalType) -> Scalar:
    return scalar if scalar.type.as_nullable() == kind.as_nullable() else Cast(scalar, type=kind)


_FUNCTIONS: Final[dict[str, Callable[[PatternScalars, sql.SqlCall], Scalar]]] = {
    "FIRST": PatternScalars.navigation,
    "LAST": PatternScalars.navigation,
    "PREV": PatternScalars.physical,
    "NEXT": PatternScalars.physical,
    "CLASSIFIER": PatternScalars.classifier,
    "MATCH_NUMBER": PatternScalars.match_number,
    "MATCH_ROWTIME": PatternScalars.match_rowtime,
    "MATCH_PROCTIME": PatternScalars.match_proctime,
}
