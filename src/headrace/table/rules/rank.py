"""Top-N: a filter on a ranking function becomes a relation of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from headrace.table.logical.errors import PlanningError
from headrace.table.logical.relations import Filter, LogicalOverAggregate, Project, Relation
from headrace.table.logical.scalars import (
    Call,
    Cast,
    InputRef,
    Literal,
    Scalar,
    SortKey,
    all_of,
    conjuncts,
    input_refs,
    substituted,
)
from headrace.table.logical.schema import Field, Schema
from headrace.table.rules.purpose import PlanPurpose
from headrace.table.rules.searches import Search, simplified

RANKS = frozenset(("ROW_NUMBER", "RANK", "DENSE_RANK"))


@dataclass(frozen=True)
class LogicalRank(Relation):
    """The rows of each group whose rank lies in a range; with ``shows_rank`` the rank is the last column.

    Attributes:
        function: ``ROW_NUMBER``, ``RANK`` or ``DENSE_RANK``.
        start: the first rank, from 1.
        end: the last one; None where a column holds it.
        end_column: that column.
    """

    input: Relation
    function: str
    partition_by: tuple[int, ...]
    order_by: tuple[SortKey, ...]
    start: int
    end: int | None
    rank: Field
    end_column: int | None = None
    shows_rank: bool = True

    @cached_property
    def schema(self) -> Schema:
        given = self.input.schema
        return Schema((*given, self.rank)) if self.shows_rank else given


def with_ranks(relation: Relation, purpose: PlanPurpose) -> Relation:
    """The relation with Top-N recognised. In batch mode ``ROW_NUMBER`` stays a function, as in Flink."""
    found = relation.transform(lambda node: _recognised(node, purpose)).transform(_named)
    return found.transform(_with_names_of_calls) if purpose.is_shown else found


def _with_names_of_calls(relation: Relation) -> Relation:
    """Give the results of ``OVER`` calls their node's column names wherever they are forwarded, as in Flink."""
    if not isinstance(relation, Project) or isinstance(relation.input, LogicalOverAggregate):
        return relation
    rank = _below(relation.input)
    if rank is not None and (rank.start, rank.end) == (1, 1):
        return relation
    given, known = relation.input.schema.names, _constants_below(relation.input) | _sums(relation.input)
    pairs = zip(relation.expressions, relation.names, strict=True)
    names = (
        given[each.index]
        if isinstance(each, InputRef) and each.index not in known and _OF_CALL.fullmatch(given[each.index])
        else name
        for each, name in pairs
    )
    return replace(relation, names=tuple(names))


def _sums(relation: Relation) -> set[int]:
    """The results of ``OVER`` calls that plans show as expressions."""
    while isinstance(relation, Filter):
        relation = relation.input
    if not isinstance(relation, LogicalOverAggregate):
        return set()
    width = len(relation.input.schema)
    return {width + at for at, call in enumerate(relation.calls) if call.function in ("SUM", "AVG")}


def _constants_below(relation: Relation) -> set[int]:
    """The columns that are constants by a filter, which projections may forward."""
    if not isinstance(relation, Project):
        return compared_constants(relation)
    below = _constants_below(relation.input)
    pairs = enumerate(relation.expressions)
    return {at for at, each in pairs if isinstance(each, InputRef) and each.index in below}


def compared_constants(relation: Relation) -> set[int]:
    """The columns that a filter compares with a constant for equality, and that are this constant above it."""
    parts = conjuncts(relation.condition) if isinstance(relation, Filter) else []
    return {
        each.operands[0].index
        for each in parts
        if isinstance(each, Call) and each.function == "=" and isinstance(each.operands[0], InputRef)
    }


_OF_CALL: Final = re.compile(r"w\d+\$o\d+")


def _named(relation: Relation) -> Relation:
    """Give the rank its node's column name wherever it is forwarded, as in Flink, unless it is always 1."""
    if not isinstance(relation, Project) or (rank := _below(relation.input)) is None:
        return relation
    if (rank.start, rank.end) == (1, 1):
        return relation
    given = relation.input.schema.names
    pairs = zip(relation.expressions, relation.names, strict=True)
    names = (
        rank.rank.name if isinstance(each, InputRef) and given[each.index] == rank.rank.name else name
        for each, name in pairs
    )
    return replace(relation, names=tuple(names))


def _below(relation: Relation) -> LogicalRank | None:
    while isinstance(relation, Project | Filter):
        relation = relation.input
    return relation if isinstance(relation, LogicalRank) else None


def _recognised(relation: Relation, purpose: PlanPurpose) -> Relation:
    if not isinstance(relation, Filter) or relation.correlation is not None:
        return relation
    project = relation.input if isinstance(relation.input, Project) else None
    over = relation.input if project is None else project.input
    if not isinstance(over, LogicalOverAggregate) or len(over.calls) != 1 or over.calls[0].function not in RANKS:
        return relation
    if purpose.is_batch and purpose.is_shown and over.calls[0].function != "RANK":
        return relation
    condition = relation.condition if project is None else substituted(relation.condition, project.expressions)
    column = len(over.input.schema)
    conditions = _needed(_with_one_range(conjuncts(condition), column), column)
    bounds = [_RankBound.of(each, column) for each in conditions]
    ranged = [bound for bound in bounds if bound is not None]
    rest = [each for each, bound in zip(conditions, bounds, strict=True) if bound is None]
    found = _ranked(over, ranged)
    if found is None and ranged and not purpose.is_batch:
        raise PlanningError(
            "Rank end is not specified. Currently rank only support TopN, which means the rank end must be specified: "
            "add a condition such as rn <= 10"
        )
    if found is None:
        return relation
    if any(isinstance(node, InputRef) and node.index == column for each in rest for node in each.walk()):
        return relation
    node: Relation = found if not rest else Filter(found, all_of(rest))
    return node if project is None else replace(project, input=node)


def _with_one_range(conditions: list[Scalar], column: int) -> list[Scalar]:
    """The conditions with those on a rank alone as one, where they are one range together."""
    own = [each for each in conditions if set(input_refs(each)) == {column}]
    whole = simplified(all_of(own)) if len(own) > 1 else None
    if whole is None or any(isinstance(each, Search) for each in whole.walk()):
        return conditions
    return [*(each for each in conditions if each not in own), *conjuncts(whole)]


def _needed(conditions: list[Scalar], column: int) -> list[Scalar]:
    """The conditions without those that always hold: that a rank is not null, and what another condition implies."""
    return [
        each
        for each in conditions
        if not (isinstance(each, Call) and each.function == "IS NOT NULL" and _is_column(each.operands[0], column))
        and not (isinstance(each, Call) and each.function == "OR" and any(one in conditions for one in each.operands))
    ]


def _is_column(scalar: Scalar, column: int) -> bool:
    return isinstance(scalar, InputRef) and scalar.index == column


def _ranked(over: LogicalOverAggregate, bounds: list[_RankBound]) -> LogicalRank | None:
    """The Top-N of a filter; None without an upper bound of the rank, or with several of which one is a column."""
    if len(bounds) > 1 and any(bound.column is not None for bound in bounds):
        return None
    start, end, end_column = 1, None, None
    for bound in bounds:
        if bound.column is not None:
            end_column = bound.column
        start = max(start, bound.low)
        if bound.high is not None:
            end = bound.high if end is None else min(end, bound.high)
    if end is None and end_column is None:
        return None
    call, field = over.calls[0], over.schema[len(over.input.schema)]
    column = None if end is not None else end_column
    return LogicalRank(over.input, call.function, over.partition_by, over.order_by, start, end, field, column)


@dataclass(frozen=True)
class _RankBound:
    """The bound that a condition sets on a rank: a range, or the column that holds its end."""

    low: int = 1
    high: int | None = None
    column: int | None = None

    @staticmethod
    def of(condition: Scalar, column: int) -> _RankBound | None:
        """The bound that a condition sets; None when it sets none."""
        if not isinstance(condition, Call):
            return None
        if condition.function == "OR":
            return _RankBound.of_any([_RankBound.of(each, column) for each in condition.operands])
        compared = _compared(condition, column)
        if compared is None:
            return None
        function, other = compared
        if isinstance(other, Literal) and isinstance(other.value, int):
            return _of_number(function, other.value)
        is_end = isinstance(other, InputRef) and other.index < column and function == "<="
        return _RankBound(column=other.index) if isinstance(other, InputRef) and is_end else None

    @staticmethod
    def of_any(bounds: list[_RankBound | None]) -> _RankBound | None:
        """The range of ranks that are in one of several ranges; None where these do not overlap."""
        known = sorted((each for each in bounds if each is not None and each.column is None), key=lambda each: each.low)
        if len(known) < len(bounds):
            return None
        whole = known[0]
        for bound in known[1:]:
            if whole.high is not None and bound.low > whole.high:
                return None
            high = None if whole.high is None or bound.high is None else max(whole.high, bound.high)
            whole = _RankBound(whole.low, high)
        return whole


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _compared(condition: Call, column: int) -> tuple[str, Scalar] | None:
    """The comparison of a rank, and what it is compared with; None for other conditions."""
    negated = condition.operands[0] if condition.function == "NOT" else None
    if isinstance(negated, Call):
        found = _compared(negated, column)
        return None if found is None else (_OPPOSITE.get(found[0], ""), found[1])
    if len(condition.operands) != 2:
        return None
    left, right = map(_without_cast, condition.operands)
    if _is_column(right, column):
        return _MIRRORED.get(condition.function, ""), left
    return (condition.function, right) if _is_column(left, column) else None


def _of_number(function: str, number: int) -> _RankBound | None:
    return {
        "=": _RankBound(number, number),
        "<": _RankBound(high=number - 1),
        "<=": _RankBound(high=number),
        ">": _RankBound(number + 1),
        ">=": _RankBound(number),
    }.get(function)


def _without_cast(scalar: Scalar) -> Scalar:
    return _without_cast(scalar.operand) if isinstance(scalar, Cast) else scalar
