"""The order of inner joins: each condition is met by one join, and counts once."""

from __future__ import annotations

from functools import reduce

import pytest

from headrace.common.logical_types import bigint
from headrace.formats.statistics import Statistics
from headrace.operators.join.results import JoinType
from headrace.table.logical.relations import LogicalJoin, Relation, Scan
from headrace.table.logical.scalars import InputRef, conjuncts
from headrace.table.logical.schema import Field, Schema
from headrace.table.rules.conditions import call
from headrace.table.rules.estimates import Estimates
from headrace.table.rules.join_order import with_join_order


def scan(name: str) -> Scan:
    return Scan(("c", "d", name), Schema.of([Field(f"{name}{at}", bigint()) for at in range(2)]))


def joined(left: Relation, right: Relation) -> LogicalJoin:
    """A join of the last column of the left relation with the first one of the right relation."""
    width, columns = len(left.schema), Schema((*left.schema, *right.schema))
    condition = call("=", InputRef.of(columns, width - 1), InputRef.of(columns, width))
    return LogicalJoin(left, right, JoinType.INNER, condition)


@pytest.mark.parametrize("count", [3, 4, 11])
def test_conditions_are_of_one_join_each(count: int) -> None:
    sizes = {f"t{number}": 100 * (number + 1) for number in range(count)}
    estimates = Estimates(lambda table: Statistics(sizes[table.path[2]]))
    ordered = with_join_order(reduce(joined, map(scan, sizes)), estimates)
    joins = [node for node in ordered.walk() if isinstance(node, LogicalJoin)]
    assert [len(conjuncts(each.condition)) for each in joins] == [1] * (count - 1)
