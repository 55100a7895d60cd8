"""Projection push-down: connectors that can read a subset of columns read only those that are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from headrace.table.logical.relations import Relation, Scan, WatermarkAssigner
from headrace.table.logical.scalars import moved
from headrace.table.logical.schema import Schema
from headrace.table.rules.columns import Needed, Pruned, Pruner, refs
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

    def _watermark(self, assigner: WatermarkAssigner, needed: Needed) -> Pruned:
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
        WatermarkAssigner: _watermark,
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
