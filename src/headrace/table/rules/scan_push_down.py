"""Push-down of columns, conditions and limits into tables whose connectors can use them (Flink's abilities of sources).

A condition on partition columns disappears from the plan, since it holds for all rows of the partitions that are left.
Other conditions stay above the scan: a connector may read rows that do not meet them. So does a limit.

A table that is scanned several times in a job is read once, with the columns and the partitions that any of the scans
needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from headrace.common.errors import HeadraceError
from headrace.common.logical_types import string
from headrace.table.connectors.table_source import Partition, TableSource
from headrace.table.evaluation import ExpressionCompiler
from headrace.table.functions.table import is_deterministic
from headrace.table.logical.relations import Filter, LogicalSort, LogicalWatermarkAssigner, Relation, Scan, Values
from headrace.table.logical.scalars import Cast, InputRef, Scalar, all_of, conjuncts, input_refs, moved
from headrace.table.logical.schema import Schema
from headrace.table.rules.columns import Needed, Pruned, Pruner, refs
from headrace.table.rules.empty import of_no_rows
from headrace.table.rules.purpose import EXECUTED


def with_projected_scans(relations: Sequence[Relation], can_project: Callable[[Scan], bool]) -> list[Relation]:
    """The relations with scans of fewer columns.

    A table that is scanned several times is scanned with the same columns everywhere, so that it is read once.

    Args:
        relations: the relations of a job's statements.
        can_project: whether a table's connector can read a subset of the columns.
    """
    scans = {scan for relation in relations for scan in relation.walk() if isinstance(scan, Scan) and can_project(scan)}
    if not scans:
        return list(relations)
    reads: dict[Scan, set[int]] = {scan: set() for scan in scans}
    for relation in relations:
        _Reads(False, EXECUTED, reads).whole(relation)
    narrow = _Projection(False, EXECUTED, {scan: _kept(scan, read) for scan, read in reads.items()})
    return [narrow.whole(relation) for relation in relations]


def _kept(scan: Scan, read: set[int]) -> tuple[int, ...]:
    """The columns to read, at least one of which is stored in the files."""
    stored = [index for index, name in enumerate(scan.columns.names) if name not in scan.partition_keys]
    return tuple(sorted(read if read.intersection(stored) else {*read, *stored[:1]}))


@dataclass(frozen=True)
class _Scans(Pruner):
    """Visits the scans of some tables, through a watermark right above them.

    Attributes:
        scans: the scans, with columns.
    """

    scans: Mapping[Scan, Any]

    def _watermark(self, assigner: LogicalWatermarkAssigner, needed: Needed) -> Pruned:
        if assigner.input in self.scans:
            return self.below_watermark(assigner, needed)
        return self.opaque(assigner)

    def _scan(self, scan: Scan, needed: Needed) -> Pruned:
        return self.scanned(scan, needed) if scan in self.scans else self.opaque(scan)

    def scanned(self, scan: Scan, needed: Needed) -> Pruned:
        """Replaces a scan, given the columns that are used."""
        raise NotImplementedError

    _RULES: ClassVar[dict[type[Relation], Callable[[Any, Any, Needed], Pruned]]] = {
        **Pruner._RULES,
        LogicalWatermarkAssigner: _watermark,
        Scan: _scan,
    }


class _Reads(_Scans):
    """Collects the columns that are read."""

    def scanned(self, scan: Scan, needed: Needed) -> Pruned:
        self.scans[scan].update(needed, refs(*(each.condition for each in scan.expectations)))
        return self.opaque(scan)


class _Projection(_Scans):
    """Replaces scans by scans of the columns that are read."""

    def scanned(self, scan: Scan, needed: Needed) -> Pruned:
        kept: tuple[int, ...] = self.scans[scan]
        if len(kept) == len(scan.columns):
            return self.opaque(scan)
        places = {before: now for now, before in enumerate(kept)}
        has_key = all(index in places for index in scan.primary_key)
        made = replace(
            scan,
            columns=Schema(tuple(scan.columns[index] for index in kept)),
            primary_key=tuple(places[index] for index in scan.primary_key) if has_key else (),
            is_projected=True,
            declared=scan.columns,
            filters=tuple(moved(each, places) for each in scan.filters),
            expectations=tuple(replace(each, condition=moved(each.condition, places)) for each in scan.expectations),
        )
        return Pruned(made, kept)


def with_pushed_down(
    relations: Sequence[Relation],
    source_of: Callable[[Scan], TableSource],
    time_zone: str,
    *,
    pushes_filters: bool = True,
) -> list[Relation]:
    """The relations with conditions and limits in their scans.

    Args:
        relations: the relations of a job's statements.
        source_of: the source of a scan.
        time_zone: the session time zone.
        pushes_filters: whether conditions are pushed down that are not on partition columns alone.
    """
    compiler = ExpressionCompiler(lambda _: "a condition", time_zone)
    conditions = _PushedConditions(relations, source_of, compiler, pushes_filters=pushes_filters)
    made = [conditions.pushed(relation) for relation in relations]
    scans = [node for relation in made for node in relation.walk() if isinstance(node, Scan)]

    def limited(node: Relation) -> Relation:
        if not isinstance(node, LogicalSort) or node.keys or node.limit is None or not isinstance(node.input, Scan):
            return node
        source, is_shared = source_of(node.input), scans.count(node.input) > 1
        if is_shared or node.input.filters or node.input.expectations or not source.is_bounded or not source.can_limit:
            return node
        return replace(node, input=replace(node.input, limit=node.offset + node.limit))

    return [relation.transform(limited) for relation in made]


class _PushedConditions:
    """The conditions above scans.

    Args:
        relations: the relations of a job's statements.
        source_of: the source of a scan.
        compiler: compiles conditions on partitions.
        pushes_filters: whether other conditions are pushed down, too.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        source_of: Callable[[Scan], TableSource],
        compiler: ExpressionCompiler,
        *,
        pushes_filters: bool,
    ) -> None:
        self._pushes_filters = pushes_filters
        self._source_of = source_of
        self._compiler = compiler
        self._uses: dict[Scan, list[Scalar | None]] = defaultdict(list)
        self._scans: dict[Scan, Scan] = {}
        for node in (node for relation in relations for node in relation.walk()):
            for scan in (each for each in node.inputs if isinstance(each, Scan)):
                self._uses[scan].append(node.condition if isinstance(node, Filter) else None)

    def pushed(self, relation: Relation) -> Relation:
        """A relation with its conditions in the scans."""
        if isinstance(relation, Filter) and isinstance(relation.input, Scan):
            return self._filtered(relation.condition, relation.input)
        if isinstance(relation, Scan):
            return self._scan(relation)
        return of_no_rows(relation.with_parts(Relation, [self.pushed(each) for each in relation.inputs]))

    def _filtered(self, condition: Scalar, scan: Scan) -> Relation:
        of_partitions, others = self._split(scan, condition)
        made = self._scan(scan)
        if made.partitions is not None and of_partitions:
            wanted = self._partitions(scan, of_partitions)
            if not wanted:
                return Values((), scan.schema)
            if set(made.partitions) == set(wanted):
                return Filter(made, all_of(others)) if others else made
        return Filter(made, condition)

    def _scan(self, scan: Scan) -> Scan:
        if scan not in self._uses:
            return scan
        if scan not in self._scans:
            uses = [self._split(scan, use) for use in self._uses[scan]]
            first = uses[0][1]
            is_filtered = self._pushes_filters and self._source_of(scan).can_filter and not scan.expectations
            is_same = is_filtered and all(others == first for _, others in uses)
            partitions = None
            if all(of_partitions for of_partitions, _ in uses):
                wanted = (self._partitions(scan, of_partitions) for of_partitions, _ in uses)
                partitions = tuple(sorted({each for found in wanted for each in found}, key=str))
            self._scans[scan] = replace(scan, partitions=partitions, filters=tuple(first) if is_same else ())
        return self._scans[scan]

    def _split(self, scan: Scan, condition: Scalar | None) -> tuple[list[Scalar], list[Scalar]]:
        """The conditions that partitions meet or do not, and the others."""
        parts = [] if condition is None else conjuncts(condition)
        of_partitions = [each for each in parts if self._is_of_partitions(scan, each)]
        return of_partitions, [each for each in parts if each not in of_partitions]

    def _is_of_partitions(self, scan: Scan, condition: Scalar) -> bool:
        read = {scan.columns.names[index] for index in input_refs(condition)}
        if not read or not read <= set(scan.partition_keys) or not is_deterministic(condition):
            return False
        try:
            return self._meets(scan, condition) is not None
        except (HeadraceError, pa.ArrowException):  # a text that is no value of the column
            return False

    def _partitions(self, scan: Scan, conditions: Sequence[Scalar]) -> list[Partition]:
        """The partitions that meet conditions."""
        partitions, mask = self._source_of(scan).partitions or (), self._meets(scan, all_of(conditions))
        return [each for each, meets in zip(partitions, mask or (), strict=True) if meets]

    def _meets(self, scan: Scan, condition: Scalar) -> list[bool | None] | None:
        """Return whether each partition meets a condition; None where the partitions are not known."""
        partitions = self._source_of(scan).partitions
        if not partitions:
            return None
        columns = [pa.array(values, pa.string()) for values in zip(*partitions, strict=True)]

        def cast(node: Scalar) -> Scalar:
            if not isinstance(node, InputRef):
                return node
            place = scan.partition_keys.index(scan.columns.names[node.index])
            return Cast(InputRef(place, type=string()), type=node.type.as_nullable())

        batch = pa.RecordBatch.from_arrays(columns, names=list(scan.partition_keys))
        found: list[bool | None] = self._compiler.compile(condition.transform(cast)).column(batch).to_pylist()
        return found
