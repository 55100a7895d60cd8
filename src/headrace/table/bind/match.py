"""``MATCH_RECOGNIZE``: patterns over ordered rows, and measures of each match."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.common.logical_types import LogicalType
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.scopes import NamedRelation, Scope
from headrace.table.functions.definitions import CallShape, FunctionDefinition
from headrace.table.functions.types import INTEGERS, is_in, timestamp_ltz
from headrace.table.logical.match import (
    Match,
    PatternAggregate,
    PatternDefinition,
    PatternGroup,
    PatternMeasure,
    PatternQuantity,
    PatternRef,
)
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import Call, Literal, Scalar, SortKey
from headrace.table.logical.schema import TimeAttribute
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import queries

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

ALL_ROWS: Final = "*"
"""The variable that stands for all rows of a match."""

Pattern = str | PatternGroup | PatternQuantity


class MatchBinder:
    """Binds a ``MATCH_RECOGNIZE``. Errors that Flink reports at planning are deferred until then."""

    def __init__(self, binder: "QueryBinder", node: queries.MatchRecognize, source: Relation, scope: Scope) -> None:
        self.queries = binder
        self.context = binder.context
        self.node = node
        self.source = source
        self.scope = scope
        self.variables = list(dict.fromkeys(_variables(node.pattern)))
        self.subsets = {subset.name.text: tuple(name.text for name in subset.variables) for subset in node.subsets}

    def bind(self) -> Match:
        """The relation."""
        node = self.node
        self._check_names()
        partition_by = tuple(self._column(each) for each in node.partition_by)
        order_by = self._order()
        _PatternCheck(self).check(node.pattern)
        if node.all_rows:
            self.context.defer(node, "ALL ROWS PER MATCH is not supported", "Write ONE ROW PER MATCH.")
        measures = tuple(
            PatternMeasure(each.alias.text, self._expression(each.expression, "MEASURES")) for each in node.measures
        )
        definitions = tuple(self._definition(each) for each in node.definitions)
        return Match(
            self.source,
            partition_by,
            order_by,
            _pattern(node.pattern),
            definitions,
            measures,
            (node.after_match or queries.AfterMatch.NEXT_ROW).value,
            node.after_variable.text if node.after_variable is not None else None,
            None if node.within is None else self._expression(node.within, "WITHIN"),
            tuple(self.subsets.items()),
            (node.at_begin, node.at_end),
        )

    def _check_names(self) -> None:
        known = [*self.variables, *self.subsets]
        after = self.node.after_variable
        if after is not None and after.text not in known:
            raise self.context.error(after, f"unknown pattern variable '{after}'", misspelt(after.text, known))
        for subset in self.node.subsets:
            for name in subset.variables:
                if name.text not in self.variables:
                    advice = misspelt(name.text, self.variables)
                    raise self.context.error(name, f"unknown pattern variable '{name}'", advice)

    def _column(self, node: sql.SqlExpression) -> int:
        names = self.source.schema.names
        if not isinstance(node, sql.Identifier) or len(node.names) != 1:
            raise self.context.error(node, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE take columns")
        name = node.names[0].text
        if name not in names:
            raise self.context.error(node, f"column '{name}' not found", misspelt(name, names))
        return names.index(name)

    def _order(self) -> tuple[SortKey, ...]:
        items = self.node.order_by
        keys = [
            SortKey(
                self._column(item.expression),
                item.descending,
                not item.descending if item.nulls_first is None else item.nulls_first,
            )
            for item in items
        ]
        first = self.source.schema[keys[0].index] if keys else None
        if self.context.is_streaming and (first is None or first.time is None or keys[0].descending):
            self.context.defer(
                items[0] if items else self.node,
                "rows are matched in the order of their time",
                "Write ORDER BY with a row time or PROCTIME() first, ascending.",
            )
        return tuple(keys)

    def _definition(self, node: queries.MatchDefinition) -> PatternDefinition:
        binder = _PatternExpressions(self, "DEFINE", node.variable.text)
        return PatternDefinition(node.variable.text, binder.condition(node.condition))

    def _expression(self, node: sql.SqlExpression, clause: str) -> Scalar:
        return _PatternExpressions(self, clause).bind(node)


class _PatternExpressions(ExpressionBinder):
    """Binds the expressions of a clause, whose columns belong to rows of pattern variables."""

    def __init__(self, match: MatchBinder, clause: str, defined: str | None = None) -> None:
        schema = match.source.schema
        scope = Scope((NamedRelation(None, schema),), schema, match.context.correlation(), match.scope.parent)
        super().__init__(match.queries, scope, clause)
        self.match = match
        self.defined = defined

    def _identifier(self, node: sql.Identifier) -> Scalar:
        """``A.price``: of the last row mapped to A; without a variable, of the last row of the match."""
        known = {*self.match.variables, *self.match.subsets}
        first = node.names[0].text
        rest = node.names[1:] if len(node.names) > 1 and first in known else node.names
        variable = first if rest is not node.names else ALL_ROWS
        names = self.match.source.schema.names
        if rest[0].text not in names:
            if rest is node.names and len(node.names) > 1:
                raise self.context.error(node, f"pattern variable '{first}' not found", misspelt(first, known))
            raise self.context.error(node, f"column '{rest[0]}' not found", misspelt(rest[0].text, names))
        index = names.index(rest[0].text)
        column = self.match.source.schema[index]
        is_current = variable == self.defined
        found: Scalar = PatternRef(
            variable, index, "PREV" if is_current else "LAST", type=column.type, time=column.time
        )
        for name in rest[1:]:
            found = self.field(found, name.text, name)
        return found

    def function_call(self, node: sql.Call) -> Scalar:
        rule = _FUNCTIONS.get(node.name)
        return super().function_call(node) if rule is None else rule(self, node)

    def navigation(self, node: sql.Call) -> Scalar:
        """``FIRST`` and ``LAST`` of a variable's rows, with an offset."""
        if not 1 <= len(node.arguments) <= 2:
            raise self.context.error(node, f"{node.name} takes a column, and how many rows further on")
        operand = self.bind(node.arguments[0])
        offset = self._offset(node.arguments[1]) if len(node.arguments) == 2 else 0
        name = node.name

        def moved(scalar: Scalar) -> Scalar:
            if not isinstance(scalar, PatternRef):
                return scalar
            return replace(scalar, function=name, offset=offset, type=scalar.type.as_nullable())

        return operand.transform(moved)

    def _offset(self, node: sql.SqlExpression) -> int:
        offset = self.bind(node)
        if not isinstance(offset, Literal) or not is_in(offset.type, INTEGERS):
            raise self.context.error(node, "the number of rows is a constant")
        return int(offset.value)

    def physical(self, node: sql.Call) -> Scalar:
        """``PREV`` and ``NEXT``, which Flink does not support."""
        if self.clause == "MEASURES":
            raise self.context.error(node, f"{node.name} is not possible in MEASURES", "Use LAST(A.column, 1).")
        self.context.defer(node, f"{node.name} is not supported", "Use LAST(A.column, 1).")
        return self.navigation(node)

    def classifier(self, node: sql.Call) -> Scalar:
        """``CLASSIFIER()``, which Flink does not support."""
        raise self.context.unplanned(node, "CLASSIFIER() is not supported")

    def match_time(self, node: sql.Call) -> Scalar:
        """``MATCH_ROWTIME()`` and ``MATCH_PROCTIME()``: the time of the last row, which is the time of the match."""
        time = TimeAttribute.ROWTIME if node.name == "MATCH_ROWTIME" else TimeAttribute.PROCTIME
        operands = self.bind_all(node.arguments)
        kind: LogicalType = timestamp_ltz(3).not_null()
        columns = [column for column in self.match.source.schema if column.time is time]
        if time is TimeAttribute.ROWTIME and (operands or columns):
            kind = (operands[0].type if operands else columns[0].type).not_null()
        return Call(node.name, operands, type=kind, time=time)

    def aggregate(self, node: sql.Call, function: FunctionDefinition) -> Scalar:
        if node.quantifier is sql.Quantifier.DISTINCT:
            self.context.defer(node, "aggregates of MATCH_RECOGNIZE take no DISTINCT")
        operands = self.over_operands(node)
        refs = [each for operand in operands for each in operand.walk() if isinstance(each, PatternRef)]
        variables = list(dict.fromkeys(ref.variable for ref in refs)) or [ALL_ROWS]
        if len(variables) > 1:
            shown = " and ".join(variables)
            raise self.context.error(node, f"an aggregate takes columns of one pattern variable, not of {shown}")
        signature = function.types(CallShape(operands))
        if signature is None:
            self._not_applicable(function, operands, node)
        cast = tuple(map(self.implicit, operands, signature.operands))
        return PatternAggregate(function.name, variables[0], cast, type=signature.result)


_FUNCTIONS: Final = {
    "FIRST": _PatternExpressions.navigation,
    "LAST": _PatternExpressions.navigation,
    "PREV": _PatternExpressions.physical,
    "NEXT": _PatternExpressions.physical,
    "CLASSIFIER": _PatternExpressions.classifier,
    "MATCH_ROWTIME": _PatternExpressions.match_time,
    "MATCH_PROCTIME": _PatternExpressions.match_time,
}


# --- patterns --------------------------------------------------------------------------------------------------------


def _variables(pattern: queries.RowPattern) -> Iterator[str]:
    """The variables of a pattern, in its order."""
    if isinstance(pattern, queries.PatternVariable):
        yield pattern.name.text
    elif isinstance(pattern, queries.PatternRepetition | queries.PatternExclusion):
        yield from _variables(pattern.part)
    elif isinstance(pattern, queries.PatternSequence | queries.PatternAlternatives | queries.PatternPermutation):
        for part in pattern.parts:
            yield from _variables(part)


def _pattern(pattern: queries.RowPattern) -> Pattern:
    if isinstance(pattern, queries.PatternVariable):
        return pattern.name.text
    if isinstance(pattern, queries.PatternRepetition):
        return PatternQuantity(_pattern(pattern.part), pattern.least, pattern.most, pattern.is_reluctant)
    if isinstance(pattern, queries.PatternExclusion):
        return _pattern(pattern.part)
    assert isinstance(pattern, queries.PatternSequence | queries.PatternAlternatives | queries.PatternPermutation)
    is_alternatives = isinstance(pattern, queries.PatternAlternatives)
    return PatternGroup(tuple(map(_pattern, pattern.parts)), is_alternatives)


class _PatternCheck:
    """Finds parts of a pattern that cannot be executed; a sequence of quantified variables can."""

    def __init__(self, match: MatchBinder) -> None:
        self.context = match.context

    def check(self, pattern: queries.RowPattern) -> None:
        """See a whole pattern."""
        parts = list(_flat(pattern))
        for part in parts:
            self._part(part)
        if all(_least(part) == 0 for part in parts):
            self.context.defer(pattern, "the pattern matches no rows at all", "One variable at least has to be there.")
        for part, following in itertools.pairwise(parts):
            if _is_greedy(part) and _least(following) == 0:
                self.context.defer(following, "an optional variable cannot follow a greedy one", "Write +? or *?.")
        last = parts[-1]
        is_optional = isinstance(last, queries.PatternRepetition) and (last.least, last.most) == (0, 1)
        if _is_greedy(last) and not is_optional:
            self.context.defer(
                last, "the last variable of a pattern cannot be greedy", "Write +? or *?, or a variable behind it."
            )

    def _part(self, part: queries.RowPattern) -> None:
        kinds = {
            queries.PatternAlternatives: "alternatives",
            queries.PatternExclusion: "{- -}",
            queries.PatternPermutation: "PERMUTE",
        }
        inner = part.part if isinstance(part, queries.PatternRepetition) else part
        if type(inner) in kinds:
            self.context.defer(part, f"{kinds[type(inner)]} are not supported in patterns")
        elif isinstance(inner, queries.PatternSequence):
            self.context.defer(part, "groups are not supported in patterns", "Repeat variables one by one.")
        if isinstance(part, queries.PatternRepetition) and (part.least, part.most) == (0, 1) and part.is_reluctant:
            self.context.defer(part, "?? is not supported in patterns", "Write ?.")


def _flat(pattern: queries.RowPattern) -> Iterator[queries.RowPattern]:
    if isinstance(pattern, queries.PatternSequence):
        for part in pattern.parts:
            yield from _flat(part)
    else:
        yield pattern


def _least(part: queries.RowPattern) -> int:
    return part.least if isinstance(part, queries.PatternRepetition) else 1


def _is_greedy(part: queries.RowPattern) -> bool:
    """Return whether it is a greedy quantifier with a variable number of rows."""
    return isinstance(part, queries.PatternRepetition) and part.least != part.most and not part.is_reluctant
