"""Binding of expressions to scalars."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from headrace.common.logical_types import (
    ArrayType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    StructuredType,
    TypeRoot,
)
from headrace.table.bind import forms
from headrace.table.bind.calls import CallBinder
from headrace.table.bind.expansion import place
from headrace.table.bind.scopes import Scope, resolve
from headrace.table.bind.types import UNITS, BadLiteralError, integer, interval_type, literal
from headrace.table.functions.table import FUNCTIONS
from headrace.table.functions.types import (
    BIGINT,
    BOOLEAN,
    INTEGERS,
    NULL,
    is_in,
    least_restrictive,
    root_of,
    with_nullability,
)
from headrace.table.logical.relations import Project, Relation
from headrace.table.logical.scalars import (
    Branch,
    Call,
    Case,
    Cast,
    FieldAccess,
    InputRef,
    Literal,
    Scalar,
    Subquery,
    SubqueryKind,
)
from headrace.table.parse.tree import expressions as sql
from headrace.table.parse.tree import json
from headrace.table.parse.tree.node import QueryExpression, SqlNode

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder

_COMPARISONS: Final = {
    sql.BinaryOperator.EQUALS: "=",
    sql.BinaryOperator.NOT_EQUALS: "<>",
    sql.BinaryOperator.LESS: "<",
    sql.BinaryOperator.LESS_OR_EQUAL: "<=",
    sql.BinaryOperator.GREATER: ">",
    sql.BinaryOperator.GREATER_OR_EQUAL: ">=",
}
_OPERATORS: Final = {operator: operator.value for operator in sql.BinaryOperator} | {sql.BinaryOperator.MODULO: "MOD"}
_CONSTANTS: Final = frozenset({"PI"})
"""Functions that are called without parentheses, and are not reserved words."""

_TESTS: Final = {
    sql.OperandTest.NULL: ("IS NULL", "IS NOT NULL"),
    sql.OperandTest.TRUE: ("IS TRUE", "IS NOT TRUE"),
    sql.OperandTest.FALSE: ("IS FALSE", "IS NOT FALSE"),
    sql.OperandTest.UNKNOWN: ("IS UNKNOWN", "IS NOT UNKNOWN"),
}


class ExpressionBinder(CallBinder):
    """Binds the expressions of one clause.

    Args:
        queries: the binder of subqueries.
        scope: resolves names.
        clause: the name of the clause in errors.
        windows: the windows of the WINDOW clause.
    """

    def __init__(
        self,
        queries: "QueryBinder",
        scope: Scope,
        clause: str,
        windows: dict[str, sql.OverWindow] | None = None,
    ) -> None:
        super().__init__(queries.context, clause)
        self.queries = queries
        self.scope = scope
        self.windows = windows or {}
        self.aliases: dict[str, Scalar] = {}

    def bind(self, node: sql.SqlExpression) -> Scalar:
        """The scalar that an expression is.

        Raises:
            SqlValidationError: when a name is unknown, or a function does not accept its arguments.
        """
        rule = _RULES.get(type(node))
        if rule is None:
            raise self.context.error(node, f"{type(node).__name__} cannot be used here")
        return rule(self, node)

    def bind_all(self, nodes: Sequence[sql.SqlExpression]) -> tuple[Scalar, ...]:
        return tuple(map(self.bind, nodes))

    def condition(self, node: sql.SqlExpression) -> Scalar:
        """The scalar of a condition.

        Raises:
            SqlValidationError: when it is not a BOOLEAN.
        """
        found = self.bind(node)
        if root_of(found.type) is TypeRoot.NULL:
            return Cast(found, type=BOOLEAN, is_implicit=True)
        if root_of(found.type) is not TypeRoot.BOOLEAN:
            raise self.context.error(node, f"{self.clause} must be a condition, and not {found.type}")
        return found

    # --- names and literals ------------------------------------------------------------------------------------------

    def either(self, column: InputRef, node: SqlNode) -> Scalar:
        """The column, or for a column that is shared by inputs of joins the first value that is not NULL."""
        merged = self.scope.merged_with(column.index)
        return self.call("COALESCE", (column, *map(self.scope.column, merged)), node) if merged else column

    def _identifier(self, node: sql.Identifier) -> Scalar:
        alias = self.aliases.get(node.names[0].text) if len(node.names) == 1 else None
        if alias is not None:
            return alias
        if len(node.names) == 1 and str(node.names[0].text).upper() in _CONSTANTS:
            text = node.names[0].text
            if text not in self.scope.all_names():
                return self.call(text.upper(), (), node)
        found = resolve(self.scope, self.context.source, node, node.names)
        scalar = found.scalar
        if len(node.names) == 1 and isinstance(scalar, InputRef):
            scalar = self.either(scalar, node)
        if (qualifier := found.source.qualifier) is not None:
            rest = (name.text for name in node.names[found.taken :])
            self.context.expansions.columns[place(node)] = (qualifier, *found.path, *rest)
        for field in found.path[1:]:
            scalar = self.field(scalar, field, node)
        for name in node.names[found.taken :]:
            scalar = self.field(scalar, name.text, name)
        return scalar

    def field(self, operand: Scalar, name: str, node: SqlNode) -> Scalar:
        """The field of a row."""
        kind = operand.type
        if not isinstance(kind, RowType | StructuredType):
            raise self.context.error(node, f"there is no field '{name}' in a value of type {kind}")
        if name not in kind.names:
            raise self.context.error(node, f"there is no field '{name}'", f"The fields are {', '.join(kind.names)}.")
        index = kind.names.index(name)
        part = kind.types[index]
        return FieldAccess(operand, index, name, type=with_nullability(part, kind.nullable or part.nullable))

    def _literal(self, node: sql.SqlExpression) -> Scalar:
        try:
            return literal(node, self.context.text(node))
        except BadLiteralError as error:
            raise self.context.error(node, str(error)) from None

    def _interval(self, node: sql.IntervalExpression) -> Scalar:
        """``INTERVAL n DAY`` with a computed number, and ``(t2 - t1) SECOND``, the time between."""
        kind = interval_type(node.qualifier)
        inner = node.operand
        if isinstance(inner, sql.Binary) and inner.operator is sql.BinaryOperator.MINUS:
            operands = self.bind_all((inner.left, inner.right))
            return self.call("MINUS_DATE", operands, node, (("unit", kind.unit),))
        operand = self.bind(inner)
        one = Literal(UNITS[node.qualifier.first], type=kind.not_null())
        found = self.call("*", (operand, one), node)
        return self.call("-", (found,), node) if node.is_negative else found

    # --- operators ---------------------------------------------------------------------------------------------------

    def _unary(self, node: sql.Unary) -> Scalar:
        if node.operator is sql.UnaryOperator.NOT:
            return self.call("NOT", (self.bind(node.operand),), node)
        if node.operator is sql.UnaryOperator.PLUS:
            found = self.bind(node.operand)
            self.call("-", (found,), node)
            return found
        number = node.operand
        if isinstance(number, sql.IntegerLiteral | sql.DecimalLiteral | sql.DoubleLiteral):
            return self._negative(number)
        return self.call("-", (self.bind(number),), node)

    def _negative(self, node: sql.SqlExpression) -> Scalar:
        if isinstance(node, sql.IntegerLiteral):
            try:
                return integer(-node.value)
            except BadLiteralError as error:
                raise self.context.error(node, str(error)) from None
        found = self._literal(node)
        assert isinstance(found, Literal)
        return Literal(-found.value if found.value else found.value, type=found.type)

    def _binary(self, node: sql.Binary) -> Scalar:
        first, rest = node.chain()
        found = self.bind(first)
        for operator, right in rest:
            if operator is sql.BinaryOperator.OVERLAPS:
                return self._overlaps(node, first, right)
            if _OPERATORS[operator] not in FUNCTIONS:
                raise self.context.error(node, f"the operator {operator.value} is not supported")
            name, other = _OPERATORS[operator], self.bind(right)
            found = self._equal(name, found, other, node) if name == "=" else self.call(name, (found, other), node)
        return found

    def chained(self, first: Scalar, nodes: Sequence[sql.Binary]) -> Scalar:
        """Bind a chain of operators from the inside out, over a bound first operand."""
        found = first
        for node in nodes:
            found = self.call(_OPERATORS[node.operator], (found, self.bind(node.right)), node)
        return found

    def _overlaps(self, node: SqlNode, *periods: sql.SqlExpression) -> Scalar:
        """``(start, end) OVERLAPS (start, end)``: a call of the four."""
        ends = [end for period in periods for end in self._row(period)]
        if len(ends) != 4:
            raise self.context.error(node, "OVERLAPS takes two periods", "Write (start, end) OVERLAPS (start, end).")
        return self.call("OVERLAPS", tuple(ends), node)

    def _logical(self, node: sql.Logical) -> Scalar:
        name = "AND" if node.is_and else "OR"
        operands: list[Scalar] = []
        for operand in node.operands:
            found = self.bind(operand)
            operands.extend(found.operands if isinstance(found, Call) and found.function == name else (found,))
        return self.call(name, tuple(operands), node)

    def _test(self, node: sql.IsTest) -> Scalar:
        if node.test in _TESTS:
            return self.call(_TESTS[node.test][node.negated], (self.bind(node.operand),), node)
        test = "JSON VALUE" if node.test is sql.OperandTest.JSON else node.test.value
        name = f"IS {'NOT ' if node.negated else ''}{test}"
        if name not in FUNCTIONS:
            raise self.context.error(node, f"there is no operator {name}")
        return self.call(name, (self.bind(node.operand),), node)

    def _between(self, node: sql.Between) -> Scalar:
        operand, low, high = self.bind_all((node.operand, node.low, node.high))
        inside = self._inside(operand, low, high, node)
        if node.symmetric:
            inside = self.call("OR", (inside, self._inside(operand, high, low, node)), node)
        return self.call("NOT", (inside,), node) if node.negated else inside

    def _inside(self, operand: Scalar, low: Scalar, high: Scalar, node: SqlNode) -> Scalar:
        sides = (self.call(">=", (operand, low), node), self.call("<=", (operand, high), node))
        return self.call("AND", sides, node)

    def _like(self, node: sql.Like) -> Scalar:
        if node.kind in (sql.LikeKind.RLIKE, sql.LikeKind.ILIKE):
            word = node.kind.value
            advice = "Use REGEXP(text, pattern)." if word == "RLIKE" else "Use UPPER(text) LIKE UPPER(pattern)."
            raise self.context.error(node, f"there is no operator {word}", advice)
        parts = [node.operand, node.pattern, *([node.escape] if node.escape is not None else [])]
        operands = self.bind_all(parts)
        if node.kind is sql.LikeKind.LIKE and node.escape is not None:
            self._check_escape(operands[1], operands[2], node)
        found = self.call(node.kind.value, operands, node)
        return self.call("NOT", (found,), node) if node.negated else found

    def _check_escape(self, pattern: Scalar, escape: Scalar, node: sql.Like) -> None:
        if not (isinstance(pattern, Literal) and isinstance(escape, Literal)) or None in (pattern.value, escape.value):
            return
        text, letter = str(pattern.value), str(escape.value)
        if len(letter) != 1:
            self.context.defer(node, f"the escape character of LIKE is one character, not {letter!r}")
        elif letter in re.sub(f"{re.escape(letter)}[%_{re.escape(letter)}]", "", text):
            raise self.context.error(node, "the escape character stands before none of %, _ and itself")

    def _in_list(self, node: sql.InList) -> Scalar:
        """Calcite's form: the operand is equal to one item or another."""
        operand = self.bind(node.operand)
        items = self.bind_all(node.items)
        if least_restrictive([item.type for item in items]) is None:
            shown = ", ".join(dict.fromkeys(str(item.type) for item in items))
            raise self.context.error(node, f"the values of IN have no common type: {shown}")
        if not isinstance(node.operand, sql.RowConstructor):
            items = tuple(self.as_operand(item, operand) for item in items)
        if len(items) == 1:
            return self._equal("<>" if node.negated else "=", operand, items[0], node)
        terms = tuple(dict.fromkeys(self._equal("=", operand, item, node) for item in items))
        found = terms[0] if len(terms) == 1 else self.call("OR", terms, node)
        return self.call("NOT", (found,), node) if node.negated else found

    def _equal(self, name: str, left: Scalar, right: Scalar, node: SqlNode) -> Scalar:
        """A comparison; rows whose fields are written are equal if these are, so that NULL equals nothing."""
        if _is_row(left) and _is_row(right):
            if len(left.operands) != len(right.operands):
                counts = f"{len(left.operands)} and {len(right.operands)}"
                raise self.context.error(node, f"rows of {counts} values cannot be compared")
            pairs = zip(left.operands, right.operands, strict=True)
            terms = tuple(self._equal("=", *pair, node) for pair in pairs)
            equal = terms[0] if len(terms) == 1 else self.call("AND", terms, node)
            return self.call("NOT", (equal,), node) if name == "<>" else equal
        return self.call(name, (left, right), node)

    def subquery(self, node: QueryExpression) -> Relation:
        """The relation of a subquery, which may refer to the row of this scope."""
        return self.queries.subquery(node, self.scope)

    def _in_query(self, node: sql.InQuery) -> Scalar:
        operands = self._row(node.operand)
        relation = self.subquery(node.query)
        types = relation.schema.types
        if len(types) != len(operands):
            raise self.context.error(node, f"IN compares {len(operands)} values with {len(types)} columns of the query")
        for operand, column in zip(operands, relation.schema, strict=True):
            self.call("=", (operand, column_of(column.type)), node)
        nullable = any(each.nullable for each in (*types, *(operand.type for operand in operands)))
        kind = with_nullability(BOOLEAN, nullable)
        found = Subquery(SubqueryKind.IN, relation, operands, type=kind)
        return self.call("NOT", (found,), node) if node.negated else found

    def _row(self, node: sql.SqlExpression) -> tuple[Scalar, ...]:
        if isinstance(node, sql.RowConstructor):
            return self.bind_all(node.items)
        return (self.bind(node),)

    def _quantified(self, node: sql.Quantified) -> Scalar:
        operand = self.bind(node.operand)
        name = _COMPARISONS[node.operator]
        if node.query is None:
            found = tuple(self.call(name, (operand, self.bind(item)), node) for item in node.items)
            return found[0] if len(found) == 1 else self.call("AND" if node.is_all else "OR", found, node)
        relation = self.subquery(node.query)
        self._one_column(node.query, len(relation.schema))
        self.call(name, (operand, column_of(relation.schema.types[0])), node)
        kind = SubqueryKind.ALL if node.is_all else SubqueryKind.SOME
        nullable = operand.type.nullable or relation.schema.types[0].nullable
        return Subquery(kind, relation, (operand,), name, type=with_nullability(BOOLEAN, nullable))

    def _one_column(self, query: QueryExpression, count: int) -> None:
        if count != 1:
            raise self.context.error(query, f"the query gives {count} columns where one value is expected")

    def _exists(self, node: sql.Exists) -> Scalar:
        if node.is_unique:
            raise self.context.error(node, "there is no predicate UNIQUE")
        relation = self.subquery(node.query)
        if isinstance(relation, Project):
            relation = relation.input  # EXISTS does not depend on the selected columns
        return Subquery(SubqueryKind.EXISTS, relation, type=BOOLEAN.not_null())

    def _scalar_query(self, node: sql.ScalarQuery) -> Scalar:
        relation = self.subquery(node.query)
        self._one_column(node.query, len(relation.schema))
        column = relation.schema[0]
        return Subquery(SubqueryKind.SCALAR, relation, type=column.type.as_nullable(), time=column.time)

    def _item(self, node: sql.ItemAccess) -> Scalar:
        operand = self.bind(node.operand)
        if isinstance(operand.type, RowType):
            return self._row_item(operand, node.index)
        return self.call("ITEM", (operand, self.bind(node.index)), node)

    def _row_item(self, operand: Scalar, index: sql.SqlExpression) -> Scalar:
        kind = operand.type
        assert isinstance(kind, RowType)
        if isinstance(index, sql.StringLiteral):
            return self.field(operand, index.value, index)
        if isinstance(index, sql.IntegerLiteral) and 1 <= index.value <= len(kind.names):
            return self.field(operand, kind.names[index.value - 1], index)
        raise self.context.error(index, f"a row has fields by name, or by number from 1 to {len(kind.names)}")

    def _field(self, node: sql.SqlFieldAccess) -> Scalar:
        return self.field(self.bind(node.operand), node.name.text, node.name)

    def json_object(self, node: json.JsonObject) -> Scalar:
        """``JSON_OBJECT``; the aggregate needs groups."""
        if node.is_aggregate:
            raise self.context.error(node, f"JSON_OBJECTAGG is an aggregate, which {self.clause} cannot have")
        return forms.json_object(self, node)

    def json_array(self, node: json.JsonArray) -> Scalar:
        """``JSON_ARRAY``; the aggregate needs groups."""
        if node.is_aggregate:
            raise self.context.error(node, f"JSON_ARRAYAGG is an aggregate, which {self.clause} cannot have")
        return forms.json_array(self, node)

    def _semantics(self, node: sql.MatchSemantics) -> Scalar:
        return self.match_semantics(node)

    def match_semantics(self, node: sql.MatchSemantics) -> Scalar:
        """``FINAL`` and ``RUNNING``, which measures have."""
        word = "FINAL" if node.is_final else "RUNNING"
        raise self.context.error(node, f"{word} is not possible in {self.clause}", f"Leave {word} out.")

    # --- special forms -----------------------------------------------------------------------------------------------

    def _case(self, node: sql.CaseExpression) -> Scalar:
        operand = None if node.operand is None else self.bind(node.operand)
        conditions = [self._case_condition(operand, branch) for branch in node.branches]
        results = [self.bind(branch.result) for branch in node.branches]
        otherwise = Literal(None, type=NULL) if node.otherwise is None else self.bind(node.otherwise)
        return self.case(conditions, [*results, otherwise], node)

    def case(self, conditions: Sequence[Scalar], results: Sequence[Scalar], node: SqlNode) -> Scalar:
        """``CASE``; the last result is that of ``ELSE``."""
        kind = least_restrictive([result.type for result in results])
        if kind is None:
            shown = ", ".join(dict.fromkeys(str(result.type) for result in results))
            raise self.context.error(node, f"the results of CASE have no common type: {shown}")
        if root_of(kind) is TypeRoot.NULL:
            raise self.context.error(node, "ELSE clause or at least one THEN clause must be non-NULL")
        cast = [self.implicit(result, with_nullability(kind, result.type.nullable)) for result in results]
        times = {result.time for result in results if root_of(result.type) is not TypeRoot.NULL}
        branches = tuple(Branch(condition, result) for condition, result in zip(conditions, cast, strict=False))
        return Case(branches, cast[-1], type=kind, time=times.pop() if len(times) == 1 else None)

    def _case_condition(self, operand: Scalar | None, branch: sql.CaseBranch) -> Scalar:
        if operand is None:
            (node,) = branch.conditions
            found = self.bind(node)
            if root_of(found.type) is TypeRoot.NULL:
                return Cast(found, type=BOOLEAN, is_implicit=True)
            if root_of(found.type) is not TypeRoot.BOOLEAN:
                raise self.context.error(node, f"WHEN expects a condition, and not {found.type}")
            return found
        found_all = tuple(self.call("=", (operand, self.bind(each)), each) for each in branch.conditions)
        return found_all[0] if len(found_all) == 1 else self.call("OR", found_all, branch)

    def _cast(self, node: sql.CastExpression) -> Scalar:
        operand, kind = self.bind(node.operand), self.context.types.bind(node.type)
        if isinstance(kind, IntervalType) and isinstance(operand, Literal) and is_in(operand.type, INTEGERS):
            operand = _counted(operand, kind)
        return self.cast(operand, kind, node, is_try=node.is_try)

    def _constructor(self, node: sql.CollectionConstructor) -> Scalar:
        if not node.items and node.kind is not sql.ConstructorKind.MAP:
            raise self.context.error(node, "an array needs elements, or CAST(... AS ARRAY<type>)")
        operands = self.bind_all(node.items)
        if node.kind is sql.ConstructorKind.MAP:
            if len(operands) % 2:
                raise self.context.error(node, "MAP takes pairs of a key and a value", "Write MAP[key, value, ...].")
            key = self._common(operands[::2], node, "keys of MAP")
            value = self._common(operands[1::2], node, "values of MAP")
            kinds = [key, value] * (len(operands) // 2)
            kind: LogicalType = MapType(key, value, nullable=False)
        else:
            element = self._common(operands, node, f"elements of {node.kind.value}")
            kinds = [element] * len(operands)
            is_array = node.kind is sql.ConstructorKind.ARRAY
            kind = ArrayType(element, nullable=False) if is_array else MultisetType(element, nullable=False)
        cast = tuple(
            self.implicit(operand, with_nullability(each, operand.type.nullable))
            for operand, each in zip(operands, kinds, strict=True)
        )
        return Call(node.kind.value, cast, type=kind)

    def _common(self, operands: Sequence[Scalar], node: SqlNode, what: str) -> LogicalType:
        kind = least_restrictive([operand.type for operand in operands])
        if kind is None or root_of(kind) is TypeRoot.NULL:
            shown = ", ".join(dict.fromkeys(str(operand.type) for operand in operands))
            raise self.context.error(node, f"the {what} have no common type: {shown}")
        return kind

    def _row_constructor(self, node: sql.RowConstructor) -> Scalar:
        operands = self.bind_all(node.items)
        for operand, item in zip(operands, node.items, strict=True):
            if root_of(operand.type) is TypeRoot.NULL:
                raise self.context.error(item, "illegal use of NULL", "Write CAST(NULL AS type).")
        names = tuple(f"EXPR${index}" for index in range(len(operands)))
        kind = RowType(names, tuple(operand.type for operand in operands), nullable=False)
        return Call("ROW", operands, type=kind)

    def _collection_query(self, node: sql.CollectionQuery) -> Scalar:
        relation = self.subquery(node.query)
        columns = relation.schema
        element = columns.types[0] if len(columns) == 1 else columns.row_type()
        if node.kind is sql.ConstructorKind.MAP:
            kind: LogicalType = MapType(columns.types[0], columns.types[1], nullable=False)
        elif node.kind is sql.ConstructorKind.ARRAY:
            kind = ArrayType(element, nullable=False)
        else:
            kind = MultisetType(element, nullable=False)
        return Subquery(SubqueryKind(f"${node.kind.value}_QUERY"), relation, type=kind)


def _is_row(scalar: Scalar) -> TypeGuard[Call]:
    """Return whether a scalar is a row whose fields are written."""
    return isinstance(scalar, Call) and scalar.function == "ROW"


def column_of(kind: LogicalType) -> Scalar:
    """A stand-in of a type, to check whether operators accept it."""
    return InputRef(0, type=kind)


_Rule = Callable[[Any, Any], Scalar]


def _counted(operand: Literal, kind: IntervalType) -> Literal:
    """A whole number of the last unit of an interval, where it is a literal: of a column it is of milliseconds."""
    unit = kind.unit.value.split()[-1].partition("(")[0]
    value = None if operand.value is None else operand.value * _UNIT_SIZES.get(unit, 1)
    return Literal(value, type=operand.type if kind.unit.is_of_months else with_nullability(BIGINT, value is None))


_UNIT_SIZES: Final = {"YEAR": 12, "DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
"""The months or milliseconds of units."""


_RULES: Final[dict[type, _Rule]] = {
    sql.Identifier: lambda binder, node: binder._identifier(node),
    sql.MatchSemantics: ExpressionBinder._semantics,
    sql.IntervalExpression: ExpressionBinder._interval,
    sql.Unary: ExpressionBinder._unary,
    sql.Binary: lambda binder, node: binder._binary(node),
    sql.Logical: ExpressionBinder._logical,
    sql.IsTest: ExpressionBinder._test,
    sql.Between: ExpressionBinder._between,
    sql.Like: ExpressionBinder._like,
    sql.InList: ExpressionBinder._in_list,
    sql.InQuery: ExpressionBinder._in_query,
    sql.Quantified: ExpressionBinder._quantified,
    sql.Exists: ExpressionBinder._exists,
    sql.ScalarQuery: ExpressionBinder._scalar_query,
    sql.ItemAccess: ExpressionBinder._item,
    sql.SqlFieldAccess: ExpressionBinder._field,
    sql.CaseExpression: ExpressionBinder._case,
    sql.CastExpression: ExpressionBinder._cast,
    sql.CollectionConstructor: ExpressionBinder._constructor,
    sql.RowConstructor: ExpressionBinder._row_constructor,
    sql.CollectionQuery: ExpressionBinder._collection_query,
    sql.SqlCall: lambda binder, node: binder.function_call(node),
    sql.Trim: forms.trim,
    json.JsonPathCall: forms.json_path_call,
    json.JsonObject: lambda binder, node: binder.json_object(node),
    json.JsonArray: lambda binder, node: binder.json_array(node),
    sql.Over: ExpressionBinder.over_call,
    **dict.fromkeys(
        (
            sql.IntegerLiteral,
            sql.DecimalLiteral,
            sql.DoubleLiteral,
            sql.StringLiteral,
            sql.BinaryLiteral,
            sql.BooleanLiteral,
            sql.NullLiteral,
            sql.TemporalLiteral,
            sql.IntervalLiteral,
        ),
        ExpressionBinder._literal,
    ),
}
