"""Names of columns in plans that are shown: as in Flink, projections that only rename columns are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.table.logical.relations import (
    Filter,
    LogicalAggregate,
    LogicalWatermarkAssigner,
    Project,
    Relation,
    Scan,
    SetOperation,
)
from headrace.table.logical.scalars import InputRef, all_of, input_refs
from headrace.table.rules.normalize import Normalize
from headrace.table.rules.rank import compared_constants


def with_shown_names(relation: Relation) -> Relation:
    """The relation without projections that forward all columns, or all that a filter below them needs, in order."""
    inputs = [with_shown_names(each) for each in relation.inputs]
    made = relation.with_parts(Relation, inputs)
    if isinstance(relation, LogicalAggregate) and isinstance(made, LogicalAggregate):
        return replace(made, names=with_key_names(relation, dict(enumerate(inputs[0].schema.names))))
    if isinstance(relation, SetOperation) and isinstance(made, SetOperation):
        has_names = relation.columns.names == relation.arms[0].schema.names
        return replace(made, columns=made.columns.renamed(inputs[0].schema.names)) if has_names else made
    return _renamed(made) if isinstance(made, Project) and not made.is_of_table else made


def with_key_names(aggregate: LogicalAggregate, now: Mapping[int, str]) -> tuple[str, ...]:
    """The names of an aggregate over an input with other names: keys have those of the columns that they are."""
    given = aggregate.input.schema.names
    pairs = zip(aggregate.group, aggregate.names, strict=False)
    keys = (now[index] if given[index] == name else name for index, name in pairs)
    return (*keys, *aggregate.names[len(aggregate.group) :])


def _renamed(relation: Project) -> Relation:
    places, below = forwarded(relation), relation.input
    if places is None:
        return relation
    if places == list(range(len(below.schema))):
        if isinstance(below, Project) and not below.is_of_table:
            return _renamed(replace(below, names=relation.names))
        if isinstance(below, Scan | LogicalWatermarkAssigner | Normalize):
            return below
    found, read = read_through(places, below)
    if read == sorted(read) and reads_filtered(read, found):
        return replace(relation, names=tuple(found.schema.names[index] for index in read))
    return relation


def forwarded(project: Project) -> list[int] | None:
    """The columns that a projection forwards, each once; None where it does anything else."""
    places = [each.index for each in project.expressions if isinstance(each, InputRef)]
    is_plain = len(places) == len(project.expressions) == len(set(places))
    return places if is_plain and project.correlation is None else None


def read_through(places: Sequence[int], relation: Relation) -> tuple[Relation, list[int]]:
    """The relation of which projections forward some columns, and its columns."""
    if isinstance(relation, Project) and relation.correlation is None:
        read = [each.index for each in (relation.expressions[index] for index in places) if isinstance(each, InputRef)]
        if len(read) == len(places):
            return read_through(read, relation.input)
    return relation, list(places)


def reads_filtered(places: list[int], relation: Relation) -> bool:
    """Return whether a projection has all columns that a filter below it reads, none of which is a constant by it."""
    found = _filter(relation)
    if found is None or isinstance(found.condition, InputRef) or compared_constants(found):
        return False
    return found.correlation is None and {*input_refs(found.condition)} <= {*places}


def _filter(relation: Relation) -> Filter | None:
    """The filter that a relation is, or that was pushed into the normalization of a table and below it."""
    if not isinstance(relation, Normalize):
        return relation if isinstance(relation, Filter) else None
    below = relation.input
    parts = [relation.condition, below.condition if isinstance(below, Filter) else None]
    conditions = [each for each in parts if each is not None]
    return Filter(below, all_of(conditions)) if conditions else None
