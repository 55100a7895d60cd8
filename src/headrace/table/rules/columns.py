"""Column pruning: nobody computes or keeps a column that nobody reads.

Projections reach as far down as Flink's do. So plans are Flink's, and a filter or a watermark that stands right on a
table sees the rows as the table gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.table.logical import relations as logical
from headrace.table.logical.relations import Relation
from headrace.table.logical.scalars import InputRef, OverCall, Scalar, SortKey, Subquery, input_refs
from headrace.table.logical.schema import Schema

Needed = frozenset[int]


@dataclass(frozen=True, slots=True)
class Pruned:
    """A relation with fewer columns.

    Attributes:
        relation: the relation.
        kept: which columns of the former one it has, ascending; those that are needed are among them.
    """

    relation: Relation
    kept: tuple[int, ...]

    @property
    def places(self) -> Mapping[int, int]:
        """By index of a column before, its index now."""
        return {before: now for now, before in enumerate(self.kept)}


def pruned(relation: Relation) -> Relation:
    """The relation, in which columns are left out that nobody reads."""
    return _prune(relation, frozenset(range(len(relation.schema)))).relation


def _prune(relation: Relation, needed: Needed) -> Pruned:
    rule = _RULES.get(type(relation), _whole)
    return rule(relation, needed)


def _whole(relation: Relation, _: Needed) -> Pruned:
    """All columns of the relation and of its inputs stay."""
    inputs = [pruned(each) for each in relation.inputs]
    return _all(relation.with_parts(Relation, inputs))


def _all(relation: Relation) -> Pruned:
    return Pruned(relation, tuple(range(len(relation.schema))))


def exactly(relation: Relation, needed: Iterable[int]) -> Relation:
    """The relation with some columns, in order, and no others."""
    wanted = sorted(set(needed))
    found = _prune(relation, frozenset(wanted))
    if found.kept == tuple(wanted):
        return found.relation
    return projected(found.relation, [found.places[index] for index in wanted])


def projected(relation: Relation, indices: Sequence[int]) -> Relation:
    """Some columns of a relation."""
    names = tuple(relation.schema.names[index] for index in indices)
    return logical.Project(relation, tuple(relation.column(index) for index in indices), names)


def moved(scalar: Scalar, places: Mapping[int, int]) -> Scalar:
    """A scalar over columns that are elsewhere now."""

    def move(node: Scalar) -> Scalar:
        return replace(node, index=places[node.index]) if isinstance(node, InputRef) else node

    return scalar.transform(move)


def refs(*scalars: Scalar) -> set[int]:
    """The columns that scalars read."""
    return {index for scalar in scalars for index in input_refs(scalar)}


def _project(project: logical.Project, needed: Needed) -> Pruned:
    kept = tuple(sorted(needed)) or (0,)
    if any(isinstance(node, OverCall | Subquery) for each in project.expressions for node in each.walk()):
        kept = tuple(range(len(project.expressions)))
    expressions = [project.expressions[index] for index in kept]
    below = _prune(project.input, frozenset(refs(*expressions)))
    moves = tuple(moved(each, below.places) for each in expressions)
    made = replace(project, input=below.relation, expressions=moves, names=tuple(project.names[i] for i in kept))
    return Pruned(_without_identity(made), kept)


def _without_identity(project: logical.Project) -> Relation:
    """What a projection reads, where it changes nothing."""
    below = project.input.schema
    is_identity = project.names == below.names and all(
        isinstance(each, InputRef) and each.index == index for index, each in enumerate(project.expressions)
    )
    return project.input if is_identity and len(below) == len(project.expressions) else project


def _filter(relation: logical.Filter, needed: Needed) -> Pruned:
    if relation.correlation is not None or any(isinstance(node, Subquery) for node in relation.condition.walk()):
        return _whole(relation, needed)
    below = _prune(relation.input, needed | refs(relation.condition))
    return Pruned(
        replace(relation, input=below.relation, condition=moved(relation.condition, below.places)), below.kept
    )


def _watermark(assigner: logical.WatermarkAssigner, needed: Needed) -> Pruned:
    if not isinstance(assigner.input, logical.Project):
        return _whole(assigner, needed)
    below = _prune(assigner.input, needed | {assigner.rowtime} | refs(assigner.watermark))
    places = below.places
    made = replace(
        assigner,
        input=below.relation,
        rowtime=places[assigner.rowtime],
        watermark=moved(assigner.watermark, places),
    )
    return Pruned(made, below.kept)


def _keys(keys: Sequence[SortKey], places: Mapping[int, int]) -> tuple[SortKey, ...]:
    return tuple(replace(key, index=places[key.index]) for key in keys)


def _sort(sort: logical.Sort, needed: Needed) -> Pruned:
    below = _prune(sort.input, needed | {key.index for key in sort.keys})
    return Pruned(replace(sort, input=below.relation, keys=_keys(sort.keys, below.places)), below.kept)


def _aggregate(aggregate: logical.Aggregate, _: Needed) -> Pruned:
    calls = aggregate.calls
    read = {*aggregate.group, *(index for call in calls for index in call.operands)}
    read |= {call.filter for call in calls if call.filter is not None}
    read |= {key.index for call in calls for key in call.order_by}
    below = _prune(aggregate.input, frozenset(read))
    places = below.places
    if len(places) == len(aggregate.input.schema):
        return _all(replace(aggregate, input=below.relation))
    made = replace(
        aggregate,
        input=below.relation,
        group=tuple(places[index] for index in aggregate.group),
        grouping_sets=tuple(tuple(places[index] for index in keys) for keys in aggregate.grouping_sets),
        calls=tuple(
            replace(
                call,
                operands=tuple(places[index] for index in call.operands),
                filter=None if call.filter is None else places[call.filter],
                order_by=_keys(call.order_by, places),
            )
            for call in calls
        ),
    )
    return _all(made)


def _set_operation(operation: logical.SetOperation, needed: Needed) -> Pruned:
    if not operation.is_all or operation.operator is not logical.SetOperator.UNION:
        return _whole(operation, needed)
    kept = tuple(sorted(needed)) or (0,)
    arms = tuple(exactly(arm, kept) for arm in operation.arms)
    columns = Schema(tuple(operation.columns[index] for index in kept))
    return Pruned(replace(operation, arms=arms, columns=columns), kept)


def _window(window: logical.WindowTableFunction, needed: Needed) -> Pruned:
    width = len(window.input.schema)
    wanted = sorted({index for index in needed if index < width} | {window.time_column} | set(window.partition_by))
    places = {before: now for now, before in enumerate(wanted)}
    made = replace(
        window,
        input=exactly(window.input, wanted),
        time_column=places[window.time_column],
        partition_by=tuple(places[index] for index in window.partition_by),
    )
    return Pruned(made, (*wanted, *range(width, len(window.schema))))


def _join(join: logical.Join, needed: Needed) -> Pruned:
    width = len(join.left.schema)
    read = needed | refs(join.condition)
    lefts = sorted(index for index in read if index < width) or [0]
    rights = sorted(index for index in read if index >= width) or [width]
    kept = (*lefts, *rights)
    places = {before: now for now, before in enumerate(kept)}
    made = replace(
        join,
        left=exactly(join.left, lefts),
        right=exactly(join.right, [index - width for index in rights]),
        condition=moved(join.condition, places),
    )
    return Pruned(made, tuple(index for index in kept if index < len(join.schema)))


_RULES: Final[dict[type[Relation], Callable[[Any, Needed], Pruned]]] = {
    logical.Project: _project,
    logical.Filter: _filter,
    logical.WatermarkAssigner: _watermark,
    logical.Sort: _sort,
    logical.Aggregate: _aggregate,
    logical.SetOperation: _set_operation,
    logical.WindowTableFunction: _window,
    logical.Join: _join,
}
