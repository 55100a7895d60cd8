"""GROUP BY: expressions over grouping columns and aggregates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Final

from headrace.common.logical_types import LogicalType
from headrace.table.bind.context import BindContext
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.forms import on_null
from headrace.table.bind.scopes import Scope, correlation_of
from headrace.table.functions.definitions import CallShape, FunctionDefinition
from headrace.table.functions.kinds import FunctionKind
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import BIGINT, INT, timestamp
from headrace.table.logical.node import LogicalNode, transform
from headrace.table.logical.relations import Hint, LogicalAggregate, Project, Relation
from headrace.table.logical.scalars import (
    AggregateCall,
    Call,
    CorrelatedRef,
    InputRef,
    Literal,
    Options,
    Scalar,
    SortKey,
)
from headrace.table.logical.schema import TimeAttribute, unique_names
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import json
from headrace.table.parse.tree import queries as grouping
from headrace.table.parse.tree.node import Name, Path, QueryExpression, SqlNode, children, walk

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

_MOST_SETS: Final = 4096
GROUP_WINDOWS: Final = ("TUMBLE", "HOP", "SESSION")
GROUP_WINDOW_PARTS: Final = ("START", "END", "ROWTIME", "PROCTIME")
_NEVER_NULL: Final = frozenset({"COUNT", "APPROX_COUNT_DISTINCT", "COLLECT", "ARRAY_AGG", "LISTAGG"})
"""Aggregates that are not NULL with FILTER either."""


def has_aggregate(node: SqlNode, context: BindContext) -> bool:
    """Return whether an expression has an aggregate, outside of OVER calls and subqueries."""
    if isinstance(node, QueryExpression):
        return False
    if isinstance(node, sql.Over):
        window = node.window
        inner: list[SqlNode] = [*node.call.arguments, *([window] if isinstance(window, sql.OverWindow) else [])]
        return any(has_aggregate(each, context) for each in inner)
    return is_aggregate(node, context) or any(has_aggregate(each, context) for each in children(node))


def is_aggregate(node: SqlNode, context: BindContext) -> bool:
    """Return whether a node is a call of an aggregate."""
    if isinstance(node, sql.SqlCall):
        function = context.function(node.function)
        return function is not None and function.kind is FunctionKind.AGGREGATE
    return isinstance(node, json.JsonObject | json.JsonArray) and node.is_aggregate


def _is_window_part(node: SqlNode) -> bool:
    """Return whether a node is an auxiliary group window function: ``TUMBLE_START(...)``."""
    if not isinstance(node, sql.SqlCall):
        return False
    window, _, part = node.name.partition("_")
    return part in GROUP_WINDOW_PARTS and window in GROUP_WINDOWS


def _has_window_part(node: SqlNode) -> bool:
    return _is_window_part(node) or (
        not isinstance(node, QueryExpression) and any(map(_has_window_part, children(node)))
    )


class GroupBinder(ExpressionBinder):
    """Binds expressions over the rows of an aggregation.

    An expression equal to a grouped one becomes that grouping column, and an aggregate a column after these. Any other
    reference to a column is refused. The input columns of the aggregation are collected as calls are bound: first the
    grouping columns, then the arguments, each once.

    Attributes:
        correlation: how subqueries refer to the rows of the aggregation.

    Args:
        queries: the binder of subqueries.
        scope: the columns of FROM.
        group_by: the items of GROUP BY.
        items: the items of SELECT; an item that is an aggregate names its column.
        windows: the windows of the WINDOW clause.
    """

    def __init__(
        self,
        queries: "QueryBinder",
        scope: Scope,
        group_by: "grouping.GroupBy | None",
        windows: dict[str, sql.OverWindow],
    ) -> None:
        super().__init__(queries, scope, "SELECT", windows)
        self.inner = ExpressionBinder(queries, scope, "an aggregate")
        self.correlation = self.context.correlation()
        self.names_of: dict[str, str] = {}
        self.inputs: list[Scalar] = []
        self.input_names: list[str] = []
        self.calls: list[AggregateCall] = []
        self.keys: list[tuple[sql.SqlExpression, Scalar]] = []
        self.sets = self._grouping_sets(group_by)
        self.group = len(self.inputs)

    # --- grouping keys ------------------------------------------------------------------------------------------------

    def _grouping_sets(self, group_by: "grouping.GroupBy | None") -> tuple[tuple[int, ...], ...]:
        if group_by is None:
            return ((),)
        choices = [list(self._element(element)) for element in group_by.elements]
        found = [tuple(sorted({each for part in parts for each in part})) for parts in product(*choices)]
        if len(found) > _MOST_SETS:
            raise self.context.error(group_by, f"there are {len(found)} grouping sets, and {_MOST_SETS} at most")
        everything = tuple(range(len(self.inputs)))
        found = list(dict.fromkeys(found))
        return (everything,) if len(found) == 1 else tuple(found)

    def _element(self, element: "grouping.GroupingElement") -> Iterator[tuple[int, ...]]:
        if isinstance(element, grouping.EmptyGrouping):
            yield ()
        elif isinstance(element, grouping.GroupingElements):
            yield from self._elements(element)
        else:
            yield self._columns(element)

    def _elements(self, node: "grouping.GroupingElements") -> Iterator[tuple[int, ...]]:
        if node.kind is grouping.GroupingKind.SETS:
            for element in node.elements:
                yield from self._element(element)
            return
        parts = [next(self._element(element)) for element in node.elements]
        if node.kind is grouping.GroupingKind.ROLLUP:
            for length in range(len(parts), -1, -1):
                yield tuple(each for part in parts[:length] for each in part)
            return
        for length in range(len(parts), -1, -1):
            for chosen in combinations(parts, length):
                yield tuple(each for part in chosen for each in part)

    def _columns(self, node: sql.SqlExpression) -> tuple[int, ...]:
        nodes = node.items if isinstance(node, sql.RowConstructor) and not node.has_word else (node,)
        return tuple(map(self._key, nodes))

    def _key(self, node: sql.SqlExpression) -> int:
        self.inner.clause = "GROUP BY"
        scalar = self.inner.bind(node)
        self.inner.clause = "an aggregate"
        self.keys.append((node, scalar))
        return self._input(scalar, node.names[-1].text if isinstance(node, sql.Identifier) else None)

    def _input(self, scalar: Scalar, name: str | None = None) -> int:
        """The column of the aggregation's input that holds a scalar."""
        if scalar in self.inputs:
            return self.inputs.index(scalar)
        self.inputs.append(scalar)
        if name is None and isinstance(scalar, InputRef):
            name = unique_names([field.name for field in self.scope.row])[scalar.index]
        self.input_names.append(name or f"$f{len(self.inputs) - 1}")
        return len(self.inputs) - 1

    # --- expressions over groups -------------------------------------------------------------------------------------

    def bind(self, node: sql.SqlExpression) -> Scalar:
        for key, scalar in self.keys:
            if type(key) is type(node) and not is_aggregate(node, self.context) and self._is_same(node, key, scalar):
                return self._group_column(scalar)
        if isinstance(node, sql.Identifier):
            if len(node.names) == 1 and node.names[0].text in self.aliases:
                return self.aliases[node.names[0].text]
            found = self.inner.bind(node)
            if any(isinstance(each, InputRef) for each in found.walk()):
                raise self.context.error(
                    node, f"expression '{node}' is not being grouped", f"Add it to GROUP BY, or write MAX({node})."
                )
            return found
        return super().bind(node)

    def subquery(self, node: QueryExpression) -> Relation:
        """The relation of a subquery, which refers to grouping columns of the aggregation's row."""
        found = self.queries.subquery(node, replace(self.scope, correlation=self.correlation))
        if not self.correlation.is_used:
            return found

        def over_group(each: LogicalNode) -> LogicalNode:
            if not isinstance(each, CorrelatedRef) or each.correlation != self.correlation.name:
                return each
            column = InputRef(each.index, type=each.type, time=each.time)
            if column not in self.inputs[: self.group]:
                raise self.context.error(
                    node, f"expression '{each.name}' is not being grouped", "Add it to GROUP BY, or write an aggregate."
                )
            group = self._group_column(column)
            return replace(each, index=self.inputs.index(column), type=group.type)

        made = transform(found, LogicalNode, over_group)
        assert isinstance(made, Relation)
        return made

    def _binary(self, node: sql.Binary) -> Scalar:
        """A chain of operators, which may begin with a grouped expression: ``a + 1 + 1`` of ``GROUP BY a + 1``."""
        rest: list[sql.Binary] = [node]
        while isinstance(rest[-1].left, sql.Binary):
            rest.append(rest[-1].left)
            for key, scalar in self.keys:
                if isinstance(key, sql.Binary) and self._is_same(rest[-1], key, scalar):
                    return self.chained(self._group_column(scalar), rest[-2::-1])
        return super()._binary(node)

    def function_call(self, node: sql.SqlCall) -> Scalar:
        if _is_window_part(node):
            window, _, part = node.name.partition("_")
            return self._window_part(node, window, part)
        return super().function_call(node)

    def _window_part(self, node: sql.SqlCall, window: str, part: str) -> Scalar:
        """``TUMBLE_START(time, size)`` of a window in GROUP BY."""
        operands = self.inner.bind_all(node.arguments)
        for _, scalar in self.keys:
            if isinstance(scalar, Call) and scalar.function == f"${window}" and scalar.operands == operands:
                column = self._group_column(scalar)
                kind, time = window_part_type(part, scalar)
                return Call(node.name, (column,), type=kind, time=time)
        raise self.context.error(
            node,
            f"{node.name} needs the same window in GROUP BY",
            f"Write GROUP BY {window}(...) with the same arguments.",
        )

    def _is_same(self, node: sql.SqlExpression, key: sql.SqlExpression, scalar: Scalar) -> bool:
        if node == key:
            for each in walk(node):
                if isinstance(each, sql.Identifier):
                    self.inner.bind(each)  # so that the text of a view has its qualified name
            return True
        return not has_aggregate(node, self.context) and not _has_window_part(node) and self.inner.bind(node) == scalar

    def _group_column(self, scalar: Scalar) -> Scalar:
        index = self.inputs.index(scalar)
        nullable = scalar.type.nullable or not all(index in each for each in self.sets)
        kind = scalar.type.as_nullable() if nullable else scalar.type
        return InputRef(index, type=kind, time=scalar.time)

    def aggregate(self, node: sql.SqlCall, function: FunctionDefinition) -> Scalar:
        if function.name in ("GROUPING", "GROUPING_ID"):
            self._check_grouping(node)
        if function.name == "GROUP_ID" and not self.keys:
            raise self.context.error(node, "GROUP_ID() needs GROUP BY")
        if function.name == "GROUP_ID" and len({frozenset(each) for each in self.sets}) == len(self.sets):
            return Literal(0, type=BIGINT.not_null())
        return self.aggregate_of(node, function, self.inner.over_operands(node))

    def _check_grouping(self, node: sql.SqlCall) -> None:
        for argument in node.arguments:
            if self.inner.bind(argument) not in self.inputs[: self.group]:
                raise self.context.error(argument, f"{node.name} takes expressions of GROUP BY")

    def aggregate_of(
        self, node: sql.SqlCall, function: FunctionDefinition, operands: tuple[Scalar, ...], options: Options = ()
    ) -> Scalar:
        """The column of an aggregate; equal aggregates share one."""
        signature = function.types(CallShape(operands, options, self._has_groups()))
        if signature is None:
            self._not_applicable(function, operands, node)
        if node.null_treatment is not None and function.name != "ARRAY_AGG":
            raise self.context.error(node, f"{node.null_treatment.value} needs OVER (...)")
        if node.null_treatment is sql.NullTreatment.IGNORE:
            options = (*options, ("ignores_nulls", True))
        if any(isinstance(operand, Literal) and operand.value is None for operand in operands):
            raise self.context.error(node, "illegal use of NULL", "Write CAST(NULL AS type).")
        if function.name == "LISTAGG" and not all(isinstance(each, Literal) for each in operands[1:]):
            raise self.context.error(
                node.arguments[1], "the separator of LISTAGG is a constant", "Write LISTAGG(x, '-')."
            )
        cast = tuple(map(self.implicit, operands, signature.operands))
        nullable = signature.result.nullable or (node.filter is not None and function.name not in _NEVER_NULL)
        time = cast[0].time if cast and signature.result.as_nullable() == cast[0].type.as_nullable() else None
        is_distinct = node.quantifier is sql.SetQuantifier.DISTINCT and function.name not in ("MAX", "MIN")
        counts_all = function.name == "COUNT" and not is_distinct and not any(each.type.nullable for each in cast)
        columns = () if counts_all else tuple(map(self._input, cast))
        call = AggregateCall(
            function.name,
            columns,
            signature.result.as_nullable() if nullable else signature.result,
            time,
            is_distinct,
            None if node.filter is None else self._filter(node.filter),
            self._order(node.order_by),
            (*options, *function.options),
        )
        return self._call_column(call, node)

    def json_object(self, node: json.JsonObject) -> Scalar:
        if not node.is_aggregate:
            return super().json_object(node)
        (entry,) = node.entries
        options = on_null(absent=node.absent_on_null or False)
        return self._json_aggregate("JSON_OBJECTAGG", (entry.key, entry.value), options, node)

    def json_array(self, node: json.JsonArray) -> Scalar:
        if not node.is_aggregate:
            return super().json_array(node)
        options = on_null(absent=True if node.absent_on_null is None else node.absent_on_null)
        return self._json_aggregate("JSON_ARRAYAGG", node.items, options, node)

    def _json_aggregate(
        self,
        name: str,
        arguments: tuple[sql.SqlExpression, ...],
        options: Options,
        node: json.JsonObject | json.JsonArray,
    ) -> Scalar:
        path = Path((Name(name, start=node.start, end=node.end),), start=node.start, end=node.end)
        order_by = node.order_by if isinstance(node, json.JsonArray) else ()
        call = sql.SqlCall(path, arguments, order_by=order_by, start=node.start, end=node.end)
        return self.aggregate_of(call, FUNCTIONS[name], self.inner.bind_all(arguments), options)

    def _has_groups(self) -> bool:
        return self.group > 0

    def _filter(self, node: sql.SqlExpression) -> int:
        self.inner.clause = "FILTER"
        condition = self.inner.condition(node)
        self.inner.clause = "an aggregate"
        if condition.type.nullable:
            condition = Call("IS TRUE", (condition,), type=condition.type.not_null())
        return self._input(condition)

    def _order(self, items: Sequence[sql.OrderItem]) -> tuple[SortKey, ...]:
        keys = []
        for item in items:
            key = self.inner.order_key(item)
            keys.append(SortKey(self._input(key.operand), key.descending, key.nulls_first))
        return tuple(keys)

    def _call_column(self, call: AggregateCall, node: sql.SqlCall) -> Scalar:
        if call not in self.calls:
            self.calls.append(call)
        index = self.group + self.calls.index(call)
        self.names_of.setdefault(self.context.text(node), "")
        return InputRef(index, type=call.type, time=call.time)

    # --- the relation ------------------------------------------------------------------------------------------------

    def relation(self, source: Relation, names: dict[int, str], hints: tuple[Hint, ...] = ()) -> Relation:
        """The aggregation of a relation's rows.

        Args:
            source: the rows.
            names: the aliases in SELECT of columns of the aggregation.
            hints: the hints of SELECT.
        """
        for index in range(self.group):
            self.input_names[index] = names.get(index, self.input_names[index])
        source = self._input_of(source)
        group = tuple(range(self.group))
        group_names = [self.input_names[index] for index in group]
        call_names = [names.get(self.group + at, f"$f{self.group + at}") for at in range(len(self.calls))]
        calls = tuple(replace(call, name=names.get(self.group + at)) for at, call in enumerate(self.calls))
        return LogicalAggregate(source, group, calls, (*group_names, *call_names), self.sets, hints)

    def _input_of(self, source: Relation) -> Relation:
        """The projection to the columns that are read; a constant for ``COUNT(*)`` alone, as in Calcite."""
        if not self.inputs:
            return Project(source, (Literal(0, type=INT.not_null()),), ("$f0",))
        names = unique_names(self.input_names)
        columns = [each.index for each in self.inputs if isinstance(each, InputRef)]
        if columns == list(range(len(source.schema))) and names == source.schema.names:
            return source
        return Project(
            source, tuple(self.inputs), names, correlation=correlation_of(self.inputs, self.scope.correlation)
        )


def window_part_type(part: str, window: Scalar) -> tuple[LogicalType, TimeAttribute | None]:
    """The type of the start, the end or the time of a group window."""
    if part in ("START", "END"):
        return timestamp(3).not_null(), None
    return window.type, window.time
