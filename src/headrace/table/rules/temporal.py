"""Temporal joins, with versions of a table, and lookup joins (``FOR SYSTEM_TIME AS OF``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headrace.operators.join.results import JoinType
from headrace.table.logical.errors import PlanningError, TableDefinitionError
from headrace.table.logical.join_keys import condition_of
from headrace.table.logical.relations import (
    Filter,
    LogicalCorrelate,
    LogicalJoin,
    LogicalWatermarkAssigner,
    Project,
    Relation,
    Scan,
    Snapshot,
    joined_schema,
)
from headrace.table.logical.scalars import CorrelatedRef, Scalar, conjuncts
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.rules.decorrelation import over_both, refers_to


@dataclass(frozen=True)
class LogicalTemporalJoin(Relation):
    """A join of each row with the version of another relation's row that is valid at its time.

    Attributes:
        kind: inner, or left.
        condition: the condition over the columns of both.
        time: the time column of the left relation.
    """

    left: Relation
    right: Relation
    kind: JoinType
    condition: Scalar
    time: int

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.left.schema, self.right.schema, self.kind)

    @property
    def version_time(self) -> int:
        """The rowtime column of the right relation.

        Raises:
            PlanningError: when it has none.
        """
        for index, column in enumerate(self.right.schema):
            if column.time is TimeAttribute.ROWTIME:
                return index
        raise PlanningError(
            "FOR SYSTEM_TIME AS OF a rowtime needs streaming mode, and a table with WATERMARK FOR a column: the time "
            "from which its rows are valid"
        )


@dataclass(frozen=True)
class LogicalLookupJoin(LogicalJoin):
    """A join of each row with the rows of a table at that moment, which are looked up by a key."""


def _check_table(relation: Relation) -> None:
    """Refuse views and queries, whose rows cannot be looked up.

    Raises:
        TableDefinitionError: when it is one.
    """
    while isinstance(relation, LogicalWatermarkAssigner) or (isinstance(relation, Project) and relation.is_of_table):
        relation = relation.input
    if not isinstance(relation, Scan):
        raise TableDefinitionError(
            "FOR SYSTEM_TIME AS OF a processing time looks rows up in a table, and not in a view or a query: name the "
            "table, and write conditions and calculations into the query"
        )


def with_temporal_joins(relation: Relation) -> Relation:
    """The relation with temporal joins and lookup joins in place of correlated snapshots."""
    return relation.transform(lambda node: _temporal(node) if isinstance(node, LogicalCorrelate) else node)


def _temporal(correlate: LogicalCorrelate) -> Relation:
    conditions: list[Scalar] = []
    node, columns = correlate.right, None
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            if columns is not None or conditions:
                return correlate
            columns = node
        else:
            conditions += conjuncts(node.condition)
        node = node.input
    if not isinstance(node, Snapshot) or not isinstance(node.period, CorrelatedRef):
        return correlate
    right = node.input
    if columns is not None:
        if any(refers_to(each, correlate.correlation) for each in columns.expressions):
            return correlate
        right = Project(right, columns.expressions, columns.names)
    width = len(correlate.left.schema)
    found = condition_of([over_both(each, correlate.correlation, width) for each in conditions])
    if node.period.time is TimeAttribute.PROCTIME:
        _check_table(node.input)
        return LogicalLookupJoin(correlate.left, right, correlate.kind, found, correlate.hints)
    return LogicalTemporalJoin(correlate.left, right, correlate.kind, found, node.period.index)
