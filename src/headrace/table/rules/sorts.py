"""``LIMIT`` and ``ORDER BY`` are pushed below projections, which then compute fewer rows."""

from dataclasses import replace

from headrace.table.logical.relations import Project, Relation, Sort
from headrace.table.logical.scalars import InputRef, OverCall, SortKey, Subquery
from headrace.table.rules.conditions import is_deterministic


def with_sorts_below(relation: Relation) -> Relation:
    """The relation with its sorts pushed below projections."""
    return relation.transform(_moved)


def _moved(relation: Relation) -> Relation:
    if not isinstance(relation, Sort) or not isinstance(relation.input, Project):
        return relation
    project = relation.input
    nodes = [node for each in project.expressions for node in each.walk()]
    if any(isinstance(node, OverCall | Subquery) for node in nodes) or project.is_of_table:
        return relation
    if not all(map(is_deterministic, project.expressions)):
        return relation
    keys: list[SortKey] = []
    for key in relation.keys:
        column = project.expressions[key.index]
        if not isinstance(column, InputRef):
            return relation
        keys.append(replace(key, index=column.index))
    return replace(project, input=replace(relation, input=project.input, keys=tuple(keys)))
