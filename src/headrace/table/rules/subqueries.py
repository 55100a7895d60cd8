"""Subqueries become joins, as in Flink: ``EXISTS`` and ``IN`` semi or anti joins, scalar subqueries left joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard

from headrace.common.logical_types import bigint
from headrace.operators.join.results import JoinType
from headrace.table.logical.errors import PlanningError
from headrace.table.logical.join_keys import condition_of
from headrace.table.logical.node import LogicalNode, transform, walk
from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalCorrelate,
    LogicalJoin,
    LogicalSort,
    Project,
    Relation,
    Snapshot,
    TableFunctionScan,
    Unnest,
    Values,
)
from headrace.table.logical.scalars import (
    BOOLEAN,
    AggregateCall,
    Branch,
    Call,
    Case,
    CorrelatedRef,
    InputRef,
    Literal,
    Scalar,
    Subquery,
    SubqueryKind,
    all_of,
    conjuncts,
    input_refs,
    moved,
)
from headrace.table.logical.vector_search import VectorSearch
from headrace.table.rules.conditions import call, either
from headrace.table.rules.decorrelation import (
    Decorrelated,
    OuterQuery,
    decorrelated,
    over_both,
    refers_to,
    with_equalities,
    without_order,
)

_COUNT: Final = bigint().not_null()
_ZERO: Final = Literal(0, type=_COUNT)
_UNKNOWN: Final = Literal(None, type=BOOLEAN)


def with_joins_for_subqueries(relation: Relation) -> Relation:
    """The relation with joins in place of subqueries, lateral ones included.

    Raises:
        PlanningError: when a subquery cannot become a join.
    """
    return relation.transform(_rewritten)


def _rewritten(relation: Relation) -> Relation:
    if isinstance(relation, Filter) and _has_subquery(relation.condition):
        return _filtered(relation)
    if isinstance(relation, Project) and any(map(_has_subquery, relation.expressions)):
        return _projected(relation)
    if isinstance(relation, LogicalJoin) and _has_subquery(relation.condition):
        return _joined(relation) if relation.kind is JoinType.INNER else _outer_joined(relation)
    return _lateral(relation) if isinstance(relation, LogicalCorrelate) else relation


def _has_subquery(scalar: Scalar) -> bool:
    return any(isinstance(node, Subquery) for node in scalar.walk())


def _filtered(relation: Filter) -> Relation:
    made, width = _Rewriting(relation.input, relation.correlation), len(relation.schema)
    kept: list[Scalar] = []
    for each in map(_as_in, conjuncts(relation.condition)):
        if not _has_subquery(each):
            kept.append(each)
        elif not made.match(each):
            kept.append(made.value(each, is_filter=True))
    found = Filter(made.relation, all_of(kept)) if kept else made.relation
    if len(found.schema) == width:
        return found
    return Project(found, tuple(found.column(index) for index in range(width)), relation.schema.names)


def _as_in(scalar: Scalar) -> Scalar:
    """A condition with ``IN`` and ``NOT IN`` in place of ``= SOME`` and ``<> ALL``."""
    if not isinstance(scalar, Subquery):
        return scalar.with_parts(Scalar, list(map(_as_in, scalar.children)))
    if (scalar.kind, scalar.comparison) == (SubqueryKind.SOME, "="):
        return replace(scalar, kind=SubqueryKind.IN, comparison=None)
    if (scalar.kind, scalar.comparison) == (SubqueryKind.ALL, "<>"):
        return call("NOT", replace(scalar, kind=SubqueryKind.IN, comparison=None))
    return scalar


def _projected(project: Project) -> Relation:
    made = _Rewriting(project.input, project.correlation)
    expressions = tuple(made.value(_as_in(each), is_filter=False) for each in project.expressions)
    return replace(project, input=made.relation, expressions=expressions, correlation=None)


def _joined(join: LogicalJoin) -> Relation:
    """An inner join whose condition has subqueries, as a filter of the pairs."""
    parts = conjuncts(join.condition)
    nested = [each for each in parts if _has_subquery(each)]
    made = replace(join, condition=condition_of([each for each in parts if each not in nested]), correlation=None)
    return _filtered(Filter(made, all_of(nested), join.correlation))


def _outer_joined(join: LogicalJoin) -> Relation:
    """An outer join whose condition has subqueries, the values of which become columns of the inputs."""
    width, count = len(join.left.schema), len(join.left.schema) + len(join.right.schema)
    sides = [_Rewriting(each, join.correlation) for each in (join.left, join.right)]
    values: list[tuple[int, Scalar]] = []
    parts = conjuncts(join.condition)
    for each in filter(_has_subquery, parts):
        around = (node.index for node in walk(each, LogicalNode) if _is_around(node, join.correlation))
        reads = {index >= width for index in (*input_refs(each), *around)}
        if len(reads) > 1:
            raise PlanningError(
                "a subquery in ON of an outer join can refer to columns of one side only: join with it, or use WHERE"
            )
        side = int(reads == {True})
        values.append((side, sides[side].value(_of_side(each, join.correlation, width * side), is_filter=False)))
    left, right = (side.relation for side in sides)
    places = {index: index + (len(left.schema) - width) * (index >= width) for index in range(count)}
    conditions = [moved(each, places) for each in parts if not _has_subquery(each)]
    of_right = {index: index + len(left.schema) for index in range(len(right.schema))}
    conditions += [moved(value, of_right) if side else value for side, value in values]
    made = replace(join, left=left, right=right, condition=condition_of(conditions), correlation=None)
    return Project(made, tuple(made.column(places[index]) for index in range(count)), join.schema.names)


def _is_around(node: LogicalNode, correlation: str | None) -> TypeGuard[CorrelatedRef]:
    """Return whether a node refers to a column of the row that a correlation names."""
    return isinstance(node, CorrelatedRef) and node.correlation == correlation


def _of_side(condition: Scalar, correlation: str | None, start: int) -> Scalar:
    """A condition on one input of a pair, and its subqueries, over the columns of that input, which start there."""
    own: LogicalNode = moved(condition, {index: index - start for index in input_refs(condition)})
    found = transform(
        own,
        LogicalNode,
        lambda node: replace(node, index=node.index - start) if _is_around(node, correlation) else node,
    )
    assert isinstance(found, Scalar)
    return found


def _lateral(correlate: LogicalCorrelate) -> Relation:
    """A lateral join as a plain join with the decorrelated subquery."""
    node = correlate.right
    while isinstance(node, Project | Filter):
        node = node.input
    if isinstance(node, Unnest | Snapshot | TableFunctionScan | VectorSearch):
        return correlate
    whole = correlate.right
    while isinstance(whole, Project):
        whole = whole.input
    is_aggregate = isinstance(whole, LogicalAggregate) and not whole.group and refers_to(whole, correlate.correlation)
    if is_aggregate and correlate.kind is JoinType.LEFT:
        return _lateral_aggregate(correlate, correlate.right)
    return _lateral_rows(correlate)  # as in Flink, inner joins have no rows with aggregates of no rows


def _lateral_aggregate(correlate: LogicalCorrelate, right: Relation) -> Relation:
    """A lateral join with an aggregate of all rows, which has a row for every row of the left, with counts of 0."""
    width = len(correlate.left.schema)
    if isinstance(right, Project):
        below = _lateral_aggregate(correlate, right.input)
        columns = [over_both(each, correlate.correlation, width) for each in right.expressions]
    else:
        below = _lateral_rows(replace(correlate, right=right, kind=JoinType.LEFT))
        assert isinstance(right, LogicalAggregate)
        columns = [_over_no_rows(each, below.column(width + at)) for at, each in enumerate(right.calls)]
    names = (*correlate.left.schema.names, *right.schema.names)
    return Project(below, (*map(below.column, range(width)), *columns), names)


def _over_no_rows(aggregate: AggregateCall, column: Scalar) -> Scalar:
    """The value of an aggregate; that of a count is 0 where there is no row of it."""
    return _zero_if_null(column) if aggregate.function == "COUNT" else column


def _zero_if_null(column: Scalar) -> Scalar:
    zero = Literal(0, type=column.type.not_null())
    return Case((Branch(call("IS NULL", column), zero),), column, type=column.type)


def _lateral_rows(correlate: LogicalCorrelate) -> Relation:
    found, first = without_order(decorrelated(correlate.right, OuterQuery(correlate.left, correlate.correlation)))
    width = len(correlate.left.schema)
    conditions = [over_both(_outer_first(each), correlate.correlation, width) for each in found.conditions]
    made = LogicalJoin(correlate.left, found.relation, correlate.kind, condition_of(conditions), correlate.hints)
    if len(made.schema) == len(correlate.schema):
        return made
    columns = [*range(width), *(width + first + place for place in range(len(correlate.schema) - width))]
    return Project(made, tuple(made.column(index) for index in columns), correlate.schema.names)


@dataclass
class _Rewriting:
    """Joins subqueries to a relation.

    Attributes:
        relation: the relation with the joins so far.
        correlation: the name by which subqueries refer to its row.
    """

    relation: Relation
    correlation: str | None
    known: list[tuple[Subquery, Scalar]] = field(default_factory=list)

    def match(self, condition: Scalar) -> bool:
        """Joins a condition that is ``[NOT] EXISTS`` or ``[NOT] IN``; returns whether it is one."""
        is_negated = isinstance(condition, Call) and condition.function == "NOT"
        subquery = condition.children[0] if is_negated else condition
        if not isinstance(subquery, Subquery) or any(map(_has_subquery, subquery.operands)):
            return False
        equal: list[Scalar] = []
        if subquery.kind is SubqueryKind.EXISTS:
            found, equal = self._exists(subquery, is_negated=is_negated)
        elif subquery.kind is SubqueryKind.IN:
            found, equal = self._in(subquery, is_negated=is_negated)
        else:
            return False
        self._join(found, JoinType.ANTI if is_negated else JoinType.SEMI, equal)
        return True

    def value(self, scalar: Scalar, *, is_filter: bool) -> Scalar:
        """An expression with columns in place of its subqueries."""
        if is_filter and isinstance(scalar, Call) and scalar.function in ("AND", "OR"):
            return replace(scalar, operands=tuple(self.value(each, is_filter=True) for each in scalar.operands))
        if isinstance(scalar, Subquery):
            return self._value(scalar, is_filter=is_filter)
        if is_filter and isinstance(scalar, Call) and scalar.function == "NOT":
            subquery = scalar.operands[0]
            if isinstance(subquery, Subquery) and subquery.kind is SubqueryKind.IN:
                return self.is_in(subquery, is_filter, is_negated=True)
        return scalar.with_parts(Scalar, [self.value(each, is_filter=False) for each in scalar.children])

    def _value(self, subquery: Subquery, *, is_filter: bool) -> Scalar:
        found = next((value for known, value in self.known if known == subquery), None)
        if found is None:
            rule = _VALUES.get(subquery.kind)
            if rule is None:
                raise PlanningError(f"a subquery in an expression ({subquery.kind.name}) cannot be executed yet")
            found = rule(self, subquery, is_filter)
            self.known.append((subquery, found))
        return found

    def _inner(self, subquery: Subquery) -> Decorrelated:
        relation = subquery.relation
        if subquery.kind is SubqueryKind.EXISTS and self._is_around(relation):
            relation = _any_rows(relation)
        return decorrelated(with_joins_for_subqueries(relation), self._outer)

    def _is_around(self, relation: Relation) -> bool:
        """Return whether a subquery refers to the row of this relation."""
        return self.correlation is not None and refers_to(relation, self.correlation)

    @property
    def _outer(self) -> OuterQuery | None:
        return None if self.correlation is None else OuterQuery(self.relation, self.correlation)

    def _join(
        self, found: Decorrelated, kind: JoinType, first: Sequence[Scalar] = (), last: Sequence[Scalar] = ()
    ) -> int:
        """Joins a relation by its conditions, between others, and returns the index of its first column."""
        width = len(self.relation.schema)
        given = [over_both(each, self.correlation or "", width) for each in found.conditions]
        self.relation = LogicalJoin(self.relation, found.relation, kind, condition_of([*first, *given, *last]))
        return width

    # --- semi and anti joins -----------------------------------------------------------------------------------------

    def _exists(self, subquery: Subquery, *, is_negated: bool) -> tuple[Decorrelated, list[Scalar]]:
        found = self._inner(subquery)
        if found.conditions:
            return found, []
        true = Literal(True, type=BOOLEAN.not_null())
        rows = Project(found.relation, (true,), ("i",))
        least = _aggregated(rows, (), [AggregateCall("MIN", (0,), BOOLEAN)], ("m",))
        is_there = call("IS NOT NULL", least.column(0))
        if not is_negated:
            return Decorrelated(Filter(least, is_there)), []
        marked = Project(least, (is_there,), ("$f0",))
        return Decorrelated(marked), [_shifted(marked, 0, len(self.relation.schema))]

    def _in(self, subquery: Subquery, *, is_negated: bool) -> tuple[Decorrelated, list[Scalar]]:
        found, width = self._inner(subquery), len(self.relation.schema)
        pairs = enumerate(subquery.operands)
        equal = [_equal(each, _shifted(found.relation, at, width), is_null_aware=is_negated) for at, each in pairs]
        return found, equal

    # --- values ------------------------------------------------------------------------------------------------------

    def scalar(self, subquery: Subquery, _: bool) -> Scalar:
        """The value of a scalar subquery."""
        relation = subquery.relation
        if not _has_one_row(relation) and not (self._is_around(relation) and _is_first(relation)):
            kind = relation.schema[0].type.as_nullable()
            relation = _aggregated(relation, (), [AggregateCall("SINGLE_VALUE", (0,), kind)], ("$f0",))
        found, place = without_order(self._inner(replace(subquery, relation=relation)))
        outer_first = replace(found, conditions=tuple(map(_outer_first, found.conditions)))
        column = self.relation_column(self._join(outer_first, JoinType.LEFT) + place)
        if found.conditions and _counts(relation):
            return _zero_if_null(column)
        return column

    def relation_column(self, index: int) -> Scalar:
        """A column of the relation with the joins so far."""
        return self.relation.column(index)

    def exists(self, subquery: Subquery, _: bool) -> Scalar:
        """``EXISTS`` as a value."""
        found = self._inner(subquery)
        if not found.conditions:
            return self._exists_any(found.relation)
        if self._outer is not None:
            found = with_equalities(found, self._outer)
        keys = tuple(dict.fromkeys(index for each in found.conditions for index in _refs(each)))
        true, source = Literal(True, type=BOOLEAN.not_null()), found.relation
        strict = {index for each in found.conditions if _is_equal(each) for index in _refs(each)}
        known = [source.column(key) for key in keys if key in strict and source.schema[key].type.nullable]
        if known:
            source = Filter(source, all_of([call("IS NOT NULL", each) for each in known]))
        names, group = tuple(source.schema.names[index] for index in keys), tuple(range(len(keys)))
        distinct = _aggregated(Project(source, tuple(map(source.column, keys)), names), group, [], names)
        marked = Project(distinct, (*map(distinct.column, group), true), (*names, f"$f{len(keys)}"))
        places = {key: place for place, key in enumerate(keys)}
        conditions = tuple(_outer_first(moved(each, places)) for each in found.conditions)
        first = self._join(Decorrelated(marked, conditions), JoinType.LEFT)
        return call("IS NOT NULL", self.relation_column(first + len(keys)))

    def _exists_any(self, source: Relation) -> Scalar:
        """Return whether a relation has rows, as a value."""
        rows = Project(source, (Literal(True, type=BOOLEAN.not_null()),), ("i",))
        first = self._join(Decorrelated(_aggregated(rows, (0,), [], rows.names)), JoinType.LEFT)
        return call("IS NOT NULL", self.relation_column(first))

    def is_in(self, subquery: Subquery, is_filter: bool, *, is_negated: bool = False) -> Scalar:
        """``IN`` as a value of three-valued logic; in a filter also ``NOT IN``."""
        relation, outer = with_joins_for_subqueries(subquery.relation), self._outer
        operands = [self.value(each, is_filter=False) for each in subquery.operands]
        columns = [relation.column(index) for index in range(len(operands))]
        is_known = not any(each.type.nullable for each in (*operands, *columns))
        group, rows = tuple(range(len(columns))), _Rows()
        if not is_known:
            calls = [AggregateCall("COUNT", (), _COUNT), AggregateCall("COUNT", group, _COUNT)]
            first, is_correlated = self._join_aggregate(_aggregated(relation, (), calls, ("c", "ck")), outer)
            rows = _Rows(self.relation_column(first), self.relation_column(first + 1), is_correlated)
        nullable = [call("IS NOT NULL", each) for each in columns if each.type.nullable]
        if nullable and rows.is_outer:
            relation = Filter(relation, all_of(nullable))
        distinct = _aggregated(relation, group, [], relation.schema.names[: len(columns)])
        mark = self._mark(decorrelated(distinct, outer), operands)
        if is_negated:
            return call("IS NULL", mark) if is_known else _is_not_in(mark, operands, rows)
        is_there = call("IS NOT NULL", mark)
        return is_there if is_known else _is_in(is_there, operands, rows, is_filter)

    def _mark(self, found: Decorrelated, operands: Sequence[Scalar]) -> Scalar:
        """A column that is not NULL where a relation of different rows has one that is equal to the operands."""
        distinct, width = found.relation, len(self.relation.schema)
        count = len(distinct.schema)
        true, name = Literal(True, type=BOOLEAN.not_null()), f"$f{count}" if found.conditions else "i"
        columns = (*map(distinct.column, range(count)), true)
        marked = Project(distinct, columns, (*distinct.schema.names, name))
        equal = [_equal(each, _shifted(marked, place, width)) for place, each in enumerate(operands)]
        around = tuple(map(_outer_first, found.conditions))
        first = self._join(Decorrelated(marked, around), JoinType.LEFT, last=equal)
        return self.relation_column(first + count)

    def _join_aggregate(self, aggregate: LogicalAggregate, outer: OuterQuery | None) -> tuple[int, bool]:
        """Joins an aggregate of a subquery, which has one row, or one at most for each outer row if it is correlated.

        Returns:
            The index of its first column, and whether it is correlated.
        """
        found, place = without_order(decorrelated(aggregate, outer))
        outer_first = replace(found, conditions=tuple(map(_outer_first, found.conditions)))
        kind = JoinType.LEFT if found.conditions else JoinType.INNER
        return self._join(outer_first, kind) + place, bool(found.conditions)

    def some(self, subquery: Subquery, is_filter: bool) -> Scalar:
        """A quantified comparison (``SOME``, ``ALL``) as a value of three-valued logic."""
        relation, outer = with_joins_for_subqueries(subquery.relation), self._outer
        operator, is_all = subquery.comparison or "=", subquery.kind is SubqueryKind.ALL
        operand = self.value(subquery.operands[0], is_filter=False)
        kind = relation.schema[0].type.as_nullable()
        extremes = _extremes(operator, is_all=is_all)
        calls = [
            *(AggregateCall(each, (0,), kind) for each in extremes),
            AggregateCall("COUNT", (), _COUNT),
            AggregateCall("COUNT", (0,), _COUNT),
        ]
        names = ("m", "c", "d") if len(extremes) == 1 else ("m", "n", "c", "d")
        first, is_correlated = self._join_aggregate(_aggregated(relation, (), calls, names), outer)
        *values, count, known = (self.relation_column(first + place) for place in range(len(calls)))
        if is_correlated and (is_all or not is_filter or len(extremes) > 1):
            count, known = _zero_if_null(count), _zero_if_null(known)
        compared = [call(operator, operand, each) for each in values]
        opposed = either([call(_INVERSE[operator], operand, each) for each in values])
        rows = _Rows(count, known)
        if is_all:
            return _is_all(all_of(compared), opposed, rows, is_filter)
        return _is_some(either(compared), rows, is_filter)


@dataclass(frozen=True)
class _Rows:
    """The numbers of rows of a subquery.

    Attributes:
        count: the number of rows.
        known: the number of those without NULL.
        is_outer: whether both are NULL where there is no row.
    """

    count: Scalar = _ZERO
    known: Scalar = _ZERO
    is_outer: bool = False

    @property
    def are_none(self) -> Scalar:
        """Return whether there is none."""
        return call("=", self.count, Literal(0, type=self.count.type))

    @property
    def are_some(self) -> Scalar:
        """Return whether there are some; as in Flink, also where the counts are NULL."""
        return call("IS NOT TRUE", self.are_none) if self.is_outer else call("<>", self.count, _ZERO)

    @property
    def are_unknown(self) -> Scalar:
        """Return whether there are some with NULL."""
        fewer = call("<", self.known, self.count)
        return call("IS TRUE", fewer) if self.is_outer else fewer


_INVERSE: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "=": "<>", "<>": "="}


def _extremes(operator: str, *, is_all: bool) -> tuple[str, ...]:
    """The aggregates with which a value is compared in place of all rows."""
    if operator in ("=", "<>"):
        return ("MIN", "MAX")
    return ("MAX" if (operator in (">", ">=")) is is_all else "MIN",)


_VALUES: Final[dict[SubqueryKind, Callable[[_Rewriting, Subquery, bool], Scalar]]] = {
    SubqueryKind.SCALAR: _Rewriting.scalar,
    SubqueryKind.EXISTS: _Rewriting.exists,
    SubqueryKind.IN: _Rewriting.is_in,
    SubqueryKind.SOME: _Rewriting.some,
    SubqueryKind.ALL: _Rewriting.some,
}


def _is_in(is_there: Scalar, operands: Sequence[Scalar], rows: _Rows, is_filter: bool) -> Scalar:
    """``IN`` in three-valued logic, from whether there is an equal row and the counts of rows."""
    is_some = rows.are_some
    nullable = [each for each in operands if each.type.nullable]
    given = [call("IS NOT NULL", each) for each in nullable]
    if is_filter:
        return all_of([is_some, is_there, *given])
    missing = [call("AND", call("IS NULL", each), _UNKNOWN, is_some) for each in nullable]
    is_missing = call("IS NULL", is_there.children[0])
    unknown = call("AND", rows.are_unknown, _UNKNOWN, is_some, *given, is_missing)
    return either([*missing, call("AND", is_there, is_some, *given), unknown])


def _is_not_in(mark: Scalar, operands: Sequence[Scalar], rows: _Rows) -> Scalar:
    """Return whether ``NOT IN`` is true: of no rows, or of known ones of which none is equal."""
    nullable = [each for each in operands if each.type.nullable]
    if rows.is_outer:
        missing = [call("IS NULL", each) for each in nullable]
        doubts = either([*missing, call("IS NOT NULL", mark), call("<", rows.known, rows.count)])
        return either([rows.are_none, call("IS NOT TRUE", doubts)])
    given = [call("IS NOT NULL", each) for each in nullable]
    none_equal = call("AND", call("IS NULL", mark), call(">=", rows.known, rows.count), *given)
    return either([rows.are_none, none_equal])


def _is_some(compared: Scalar, rows: _Rows, is_filter: bool) -> Scalar:
    """Return whether a comparison with some row is true, which it is with an extreme one."""
    if is_filter:
        return all_of([compared, rows.are_some])
    is_open, less = call("IS NOT TRUE", compared), call(">", rows.count, rows.known)
    unknown = call("AND", less, _UNKNOWN, rows.are_some, is_open)
    otherwise = call("AND", compared, rows.are_some, is_open, call("<=", rows.count, rows.known))
    return either([call("AND", call("IS TRUE", compared), rows.are_some), unknown, otherwise])


def _is_all(compared: Scalar, opposed: Scalar, rows: _Rows, is_filter: bool) -> Scalar:
    """Return whether a comparison with all rows is true, as its opposite is with none."""
    less = call(">", rows.count, rows.known)
    if is_filter:
        no_doubt = call("IS NOT TRUE", call("OR", opposed, less))
        return either([rows.are_none, all_of([compared, no_doubt])])
    is_open = call("IS NOT TRUE", opposed)
    unknown = call("AND", less, _UNKNOWN, is_open)
    otherwise = call("AND", compared, is_open, call("<=", rows.count, rows.known))
    return either([rows.are_none, unknown, otherwise])


def _is_equal(condition: Scalar) -> bool:
    return isinstance(condition, Call) and condition.function == "="


def _outer_first(condition: Scalar) -> Scalar:
    """An equality with the outer row's value on the left."""
    if isinstance(condition, Call) and condition.function == "=" and isinstance(condition.operands[0], InputRef):
        return replace(condition, operands=condition.operands[::-1])
    return condition


def _aggregated(
    relation: Relation, group: tuple[int, ...], calls: Sequence[AggregateCall], names: Sequence[str]
) -> LogicalAggregate:
    return LogicalAggregate(relation, group, tuple(calls), tuple(names), (group,))


def _equal(operand: Scalar, column: Scalar, *, is_null_aware: bool = False) -> Scalar:
    equal = call("=", operand, column)
    if not is_null_aware:
        return equal
    nullable = [call("IS NULL", each) for each in (operand, column) if each.type.nullable]
    return either([*nullable, equal])


def _shifted(relation: Relation, index: int, width: int) -> Scalar:
    return replace(relation.column(index), index=index + width)


def _refs(scalar: Scalar) -> list[int]:
    return [node.index for node in scalar.walk() if isinstance(node, InputRef)]


def _has_one_row(relation: Relation) -> bool:
    """Return whether a relation has one row at most."""
    if isinstance(relation, Project | Filter):
        return _has_one_row(relation.input)
    if isinstance(relation, LogicalAggregate):
        return relation.is_simple and not relation.group
    if isinstance(relation, LogicalSort):
        return _has_one_row(relation.input)
    return isinstance(relation, Values) and len(relation.rows) <= 1


def _is_first(relation: Relation) -> bool:
    """Return whether a relation is the first row of another one."""
    while isinstance(relation, Project):
        relation = relation.input
    return isinstance(relation, LogicalSort) and relation.limit == 1


def _any_rows(relation: Relation) -> Relation:
    """A relation that has rows where the given one does, without their order, and that there are some alone."""
    if isinstance(relation, Project):
        return replace(relation, input=_any_rows(relation.input))
    is_some = isinstance(relation, LogicalSort) and not relation.offset and relation.limit != 0
    return _any_rows(relation.input) if is_some and isinstance(relation, LogicalSort) else relation


def _counts(relation: Relation) -> bool:
    """Return whether a scalar subquery is a count, which is 0 over no rows, not NULL."""
    while isinstance(relation, Project) and isinstance(relation.expressions[0], InputRef):
        index = relation.expressions[0].index
        relation = relation.input
        if isinstance(relation, LogicalAggregate):
            return index >= len(relation.group) and relation.calls[index - len(relation.group)].function == "COUNT"
    return isinstance(relation, LogicalAggregate) and relation.calls[0].function == "COUNT"
