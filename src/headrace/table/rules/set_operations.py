"""Set operations on distinct rows, by aggregates over ``UNION ALL``."""

from __future__ import annotations

from dataclasses import replace

from headrace.table.logical.relations import Aggregate, Relation, SetOperation, SetOperator


def with_distinct_unions(relation: Relation) -> Relation:
    """The relation in which ``UNION`` is ``DISTINCT`` of ``UNION ALL``."""
    return relation.transform(_distinct)


def _distinct(relation: Relation) -> Relation:
    if not isinstance(relation, SetOperation) or relation.operator is not SetOperator.UNION or relation.is_all:
        return relation
    columns = tuple(range(len(relation.schema)))
    return Aggregate(replace(relation, is_all=True), columns, (), relation.schema.names, (columns,))
