"""Constants among the keys of aggregates come above them (Calcite's ``AggregateProjectPullUpConstantsRule``)."""

from __future__ import annotations

from dataclasses import replace

from headrace.table.logical.relations import LogicalAggregate, Project, Relation
from headrace.table.logical.scalars import Literal, Scalar
from headrace.table.rules.group_windows import has_group_window


def with_constants_above_groups(relation: Relation) -> Relation:
    """The relation whose aggregates group by no constants; by the first one where there are only constants."""
    return relation.transform(lambda each: _above(each) if isinstance(each, LogicalAggregate) else each)


def _above(aggregate: LogicalAggregate) -> Relation:
    below = aggregate.input
    if not isinstance(below, Project) or not aggregate.is_simple or has_group_window(aggregate):
        return aggregate
    places = range(len(aggregate.group))
    kept = [at for at in places if not isinstance(below.expressions[aggregate.group[at]], Literal)] or [*places[:1]]
    if len(kept) == len(places):
        return aggregate
    group = tuple(aggregate.group[at] for at in kept)
    names = (*(aggregate.names[at] for at in kept), *aggregate.names[len(places) :])
    made = replace(aggregate, group=group, grouping_sets=(group,), names=names)
    keys: list[Scalar] = [
        made.column(kept.index(at)) if at in kept else below.expressions[aggregate.group[at]] for at in places
    ]
    calls = map(made.column, range(len(kept), len(names)))
    return Project(made, (*keys, *calls), aggregate.names)
