"""Column pruning: unused columns are neither computed nor stored.

Projections are pushed down as far as in Flink, so that plans are Flink's. A filter or a watermark directly above a
table reads all columns of the table, unless its connector can leave some out
(:mod:`headrace.table.rules.scan_push_down`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from headrace.operators.join.results import JoinType
from headrace.table.logical import relations as logical
from headrace.table.logical.relations import (
    LogicalAggregate,
    LogicalJoin,
    LogicalOverAggregate,
    LogicalSort,
    LogicalWatermarkAssigner,
    LogicalWindowTableFunction,
    Relation,
)
from headrace.table.logical.scalars import InputRef, OverCall, Scalar, Subquery, input_refs, moved
from headrace.table.logical.schema import Schema, TimeAttribute, unique_names
from headrace.table.rules.normalize import Normalize
from headrace.table.rules.over import shows_all
from headrace.table.rules.purpose import EXECUTED, PlanPurpose
from headrace.table.rules.rank import LogicalRank, compared_constants
from headrace.table.rules.shown_names import read_through, reads_filtered, with_key_names
from headrace.table.rules.temporal import LogicalLookupJoin, LogicalTemporalJoin

Needed = tuple[int, ...]
"""Columns that are needed, each once, in order."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """A relation with fewer columns.

    Attributes:
        relation: the relation.
        kept: the columns of the former one that it has, in their order; they include those that are needed.
    """

    relation: Relation
    kept: tuple[int, ...]

    @property
    def places(self) -> Mapping[int, int]:
        """New positions of the kept columns, by the position before."""
        return {before: now for now, before in enumerate(self.kept)}


def pruned(relation: Relation, *, through_watermarks: bool = True, purpose: PlanPurpose = EXECUTED) -> Relation:
    """The relation without unused columns.

    Args:
        relation: the relation.
        through_watermarks: whether computed columns below a table's watermark may be pruned, too.
        purpose: what the plan is for.
    """
    return Pruner(through_watermarks, purpose).whole(relation)


def projected(relation: Relation, indices: Sequence[int]) -> logical.Project:
    """Some columns of a relation."""
    names = tuple(relation.schema.names[index] for index in indices)
    return logical.Project(relation, tuple(relation.column(index) for index in indices), names)


def refs(*scalars: Scalar) -> Needed:
    """The columns that scalars read."""
    return distinct(index for scalar in scalars for index in input_refs(scalar))


def distinct(*indices: Iterable[int]) -> Needed:
    """The indices, each once."""
    return tuple(dict.fromkeys(index for each in indices for index in each))


def _all(relation: Relation) -> Pruned:
    return Pruned(relation, tuple(range(len(relation.schema))))


def _without_identity(project: logical.Project, *, keeps_names: bool) -> Relation:
    """The input of a projection that changes nothing, but for names that are not kept; else the projection."""
    below = project.input.schema
    if project.names != below.names and (keeps_names or _has_names(project.input)):
        return project
    is_identity = all(
        isinstance(each, InputRef) and each.index == index for index, each in enumerate(project.expressions)
    )
    return project.input if is_identity and len(below) == len(project.expressions) else project


def _in_order(relation: Relation, wanted: Needed) -> Needed:
    """The columns in the order of a table, where all columns of the table are read, and no others."""
    if not isinstance(relation, logical.Project):
        return wanted
    read = [relation.expressions[index] for index in wanted]
    columns = sorted(each.index for each in read if isinstance(each, InputRef))
    is_whole = columns == list(range(len(relation.input.schema))) and len(read) == len(columns)
    return tuple(sorted(wanted)) if is_whole else wanted


def _below_projections(relation: Relation) -> Relation:
    """The relation whose rows projections compute, where only their number matters."""
    while isinstance(relation, logical.Project) and not _has_subquery(relation):
        relation = relation.input
    return relation


def _has_subquery(project: logical.Project) -> bool:
    return any(isinstance(node, Subquery) for each in project.expressions for node in each.walk())


def _over_permuted(aggregate: LogicalAggregate) -> LogicalAggregate:
    """An aggregate over the table or the filter itself where projections between them only put all columns in order."""
    below, places = read_through(range(len(aggregate.input.schema)), aggregate.input)
    if below is aggregate.input or len(set(places)) < len(places):
        return aggregate
    if reads_filtered(places, below):
        kept, keys = sorted(places), [places[index] for index in aggregate.group]
        if kept == places or keys != sorted(keys):
            return aggregate
        below, places = projected(below, kept), [kept.index(index) for index in places]
    elif not isinstance(below, logical.Scan | Normalize) or sorted(places) != list(range(len(below.schema))):
        return aggregate
    moves = dict(enumerate(places))
    return replace(
        aggregate,
        input=below,
        names=with_key_names(aggregate, {index: below.schema.names[place] for index, place in moves.items()}),
        group=tuple(moves[index] for index in aggregate.group),
        grouping_sets=tuple(tuple(moves[index] for index in keys) for keys in aggregate.grouping_sets),
        calls=tuple(call.moved(moves) for call in aggregate.calls),
    )


def _has_names(relation: Relation) -> bool:
    """Return whether plans show the names of a projection of a relation: with another one, and of constants."""
    if isinstance(relation, logical.Filter) and isinstance(relation.condition, InputRef):
        return True
    is_first = isinstance(relation, LogicalRank) and (relation.start, relation.end) == (1, 1)
    return is_first or isinstance(relation, logical.Project | Normalize) or bool(compared_constants(relation))


@dataclass(frozen=True)
class Pruner:
    """Prunes one tree, from the top down.

    Attributes:
        through_watermarks: whether columns below watermarks may be pruned.
        purpose: what the plan is for.
    """

    through_watermarks: bool
    purpose: PlanPurpose

    def prune(self, relation: Relation, needed: Needed) -> Pruned:
        """A relation pruned to at least the needed columns."""
        rule = self._RULES.get(type(relation))
        return self.opaque(relation) if rule is None else rule(self, relation, needed)

    def whole(self, relation: Relation) -> Relation:
        """A relation with all of its columns."""
        return self.prune(relation, tuple(range(len(relation.schema)))).relation

    def opaque(self, relation: Relation) -> Pruned:
        """A relation that reads all columns of its inputs."""
        return _all(relation.with_parts(Relation, [self.whole(each) for each in relation.inputs]))

    def exactly(self, relation: Relation, wanted: Sequence[int]) -> Relation:
        """A relation with exactly some columns, in order."""
        found = self.prune(relation, tuple(wanted))
        if found.kept == tuple(wanted):
            return found.relation
        made = projected(found.relation, [found.places[index] for index in wanted])
        if not self.purpose.is_shown or not isinstance(relation, LogicalJoin):
            return made
        names = unique_names(relation.schema.names)  # Flink names columns of joins before it prunes them
        return replace(made, names=tuple(names[index] for index in wanted))

    def _project(self, project: logical.Project, needed: Needed) -> Pruned:
        nodes = [node for each in project.expressions for node in each.walk()]
        if _has_subquery(project):
            return self.opaque(project)
        kept = needed or tuple(range(len(project.expressions)))[:1]
        read = refs(*(project.expressions[index] for index in kept))
        if any(isinstance(node, OverCall) for node in nodes):
            if self.purpose.is_shown and shows_all(project, self.purpose):
                return self.opaque(project)
            kept, read = tuple(range(len(project.expressions))), tuple(sorted(refs(*project.expressions)))
        expressions = [project.expressions[index] for index in kept]
        below = self.prune(project.input if read else _below_projections(project.input), read)
        moves = tuple(moved(each, below.places) for each in expressions)
        names = tuple(project.names[index] for index in kept)
        made = replace(project, input=below.relation, expressions=moves, names=names)
        return Pruned(_without_identity(made, keeps_names=not self.purpose.is_shown), kept)

    def _filter(self, relation: logical.Filter, needed: Needed) -> Pruned:
        if relation.correlation is not None or any(isinstance(node, Subquery) for node in relation.condition.walk()):
            return self.opaque(relation)
        below = self.prune(relation.input, tuple(sorted({*needed, *refs(relation.condition)})))
        return Pruned(
            replace(relation, input=below.relation, condition=moved(relation.condition, below.places)), below.kept
        )

    def _watermark(self, assigner: LogicalWatermarkAssigner, needed: Needed) -> Pruned:
        if not (self.through_watermarks and isinstance(assigner.input, logical.Project)):
            return self.opaque(assigner)
        if any(assigner.input.schema[index].time is TimeAttribute.PROCTIME for index in needed):
            return self.opaque(assigner)
        return self.below_watermark(assigner, needed)

    def below_watermark(self, assigner: LogicalWatermarkAssigner, needed: Needed) -> Pruned:
        """A watermark whose input is pruned."""
        wanted = distinct(needed, [assigner.rowtime], refs(assigner.watermark))
        below = self.prune(assigner.input, _in_order(assigner.input, wanted) if set(wanted) == set(needed) else wanted)
        places = below.places
        made = replace(
            assigner,
            input=below.relation,
            rowtime=places[assigner.rowtime],
            watermark=moved(assigner.watermark, places),
        )
        return Pruned(made, below.kept)

    def _sort(self, sort: LogicalSort, needed: Needed) -> Pruned:
        below = self.prune(sort.input, distinct(needed, (key.index for key in sort.keys)))
        keys = tuple(key.moved(below.places) for key in sort.keys)
        return Pruned(replace(sort, input=below.relation, keys=keys), below.kept)

    def _aggregate(self, aggregate: LogicalAggregate, needed: Needed) -> Pruned:
        if self.purpose.is_shown and not self.through_watermarks:
            return self.opaque(aggregate)  # Flink prunes aggregates before it makes ranks of what is above them
        if self.purpose.is_shown:
            aggregate = _over_permuted(aggregate)
        width = len(aggregate.group)
        kept = sorted({*range(width), *needed}) or [0]
        pruned_one = aggregate
        if len(kept) < len(aggregate.schema):
            names = tuple(aggregate.names[index] for index in kept)
            calls = tuple(aggregate.calls[index - width] for index in kept[width:])
            pruned_one = replace(aggregate, calls=calls, names=names)
        return Pruned(self._read_by(pruned_one, aggregate if self.purpose.is_shown else pruned_one), tuple(kept))

    def _read_by(self, aggregate: LogicalAggregate, like: LogicalAggregate) -> Relation:
        """An aggregate over the columns that another one reads."""
        read = {*like.group, *(index for call in like.calls for index in call.columns)}
        below = self.prune(aggregate.input, tuple(sorted(read)))
        places = below.places
        names = aggregate.names
        if self.purpose.is_shown:
            now = below.relation.schema.names
            names = with_key_names(aggregate, {index: now[place] for index, place in places.items()})
        if len(places) == len(aggregate.input.schema):
            return replace(aggregate, input=below.relation, names=names)
        return replace(
            aggregate,
            input=below.relation,
            names=names,
            group=tuple(places[index] for index in aggregate.group),
            grouping_sets=tuple(tuple(places[index] for index in keys) for keys in aggregate.grouping_sets),
            calls=tuple(call.moved(places) for call in aggregate.calls),
        )

    def _set_operation(self, operation: logical.SetOperation, needed: Needed) -> Pruned:
        if not operation.is_all or operation.operator is not logical.SetOperator.UNION:
            return self.opaque(operation)
        kept = needed or (0,)
        arms = tuple(self.exactly(arm, kept) for arm in operation.arms)
        columns = Schema(tuple(operation.columns[index] for index in kept))
        return Pruned(replace(operation, arms=arms, columns=columns), kept)

    def _window(self, window: LogicalWindowTableFunction, needed: Needed) -> Pruned:
        if self.purpose.is_shown and not self.through_watermarks:
            return self.opaque(window)  # Flink prunes projections above windows before it makes ranks of them
        width = len(window.input.schema)
        read = {*(index for index in needed if index < width), window.time_column, *window.partition_by}
        wanted = tuple(sorted(read))
        places = {before: now for now, before in enumerate(wanted)}
        made = replace(
            window,
            input=self.exactly(window.input, wanted),
            time_column=places[window.time_column],
            partition_by=tuple(places[index] for index in window.partition_by),
        )
        return Pruned(made, (*wanted, *range(width, len(window.schema))))

    def _temporal(self, join: LogicalTemporalJoin, needed: Needed) -> Pruned:
        times = join.time, len(join.left.schema) + join.version_time
        found = self._join(join, distinct(needed, times))
        assert isinstance(found.relation, LogicalTemporalJoin)
        return Pruned(replace(found.relation, time=found.places[join.time]), found.kept)

    def _join(self, join: LogicalJoin | LogicalTemporalJoin, needed: Needed) -> Pruned:
        width = len(join.left.schema)
        read = distinct(needed, refs(join.condition))
        lefts = sorted(index for index in read if index < width) or [0]
        rights = sorted(index for index in read if index >= width)
        is_counted = self.purpose.is_shown and join.kind in (JoinType.SEMI, JoinType.ANTI)
        rights = rights if rights or is_counted else [width]
        kept = (*lefts, *rights)
        places = {before: now for now, before in enumerate(kept)}
        made = replace(
            join,
            left=self.exactly(join.left, lefts),
            right=self.exactly(join.right, [index - width for index in rights]),
            condition=moved(join.condition, places),
        )
        return Pruned(made, tuple(index for index in kept if index < len(join.schema)))

    def _normalize(self, node: Normalize, needed: Needed) -> Pruned:
        read = set(needed) | {*node.key} | set(() if node.condition is None else refs(node.condition))
        wanted = tuple(sorted(read))
        places = {before: now for now, before in enumerate(wanted)}
        made = replace(
            node,
            input=self.exactly(node.input, wanted),
            key=tuple(places[index] for index in node.key),
            condition=None if node.condition is None else moved(node.condition, places),
        )
        return Pruned(made, wanted)

    def _rank(self, rank: LogicalRank, needed: Needed) -> Pruned:
        width = len(rank.input.schema)
        read = {index for index in needed if index < width} | {*rank.partition_by}
        read |= {key.index for key in rank.order_by} | ({rank.end_column} if rank.end_column is not None else set())
        wanted = sorted(read) or [0]
        places = {before: now for now, before in enumerate(wanted)}
        made = replace(
            rank,
            input=self.exactly(rank.input, wanted),
            partition_by=tuple(places[index] for index in rank.partition_by),
            order_by=tuple(key.moved(places) for key in rank.order_by),
            end_column=None if rank.end_column is None else places[rank.end_column],
            shows_rank=rank.shows_rank and width in needed,
        )
        return Pruned(made, (*wanted, *([width] if made.shows_rank else [])))

    def _over(self, over: LogicalOverAggregate, needed: Needed) -> Pruned:
        width = len(over.input.schema)
        if over.shows_all:
            needed = distinct(needed, range(width))
        read = {index for index in needed if index < width} | {*over.partition_by}
        read |= {key.index for key in over.order_by} | {index for call in over.calls for index in call.operands}
        wanted = sorted(read) or [0]
        places = {before: now for now, before in enumerate(wanted)}
        made = replace(
            over,
            input=self.exactly(over.input, wanted),
            partition_by=tuple(places[index] for index in over.partition_by),
            order_by=tuple(key.moved(places) for key in over.order_by),
            calls=tuple(replace(call, operands=tuple(places[i] for i in call.operands)) for call in over.calls),
        )
        return Pruned(made, (*wanted, *range(width, len(over.schema))))

    _RULES: ClassVar[dict[type[Relation], Callable[[Any, Any, Needed], Pruned]]] = {
        logical.Project: _project,
        logical.Filter: _filter,
        LogicalWatermarkAssigner: _watermark,
        LogicalSort: _sort,
        LogicalAggregate: _aggregate,
        logical.SetOperation: _set_operation,
        LogicalWindowTableFunction: _window,
        LogicalJoin: _join,
        LogicalLookupJoin: _join,
        LogicalTemporalJoin: _temporal,
        LogicalOverAggregate: _over,
        Normalize: _normalize,
        LogicalRank: _rank,
    }
