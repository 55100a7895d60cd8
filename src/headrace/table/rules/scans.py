"""Projection push-down into tables: connectors that can leave columns out read those alone that are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from headrace.table.logical.relations import Relation, Scan, WatermarkAssigner
from headrace.table.logical.schema import Schema
from headrace.table.rules.columns import Needed, Pruned, Pruner


def with_projected_scans(relations: Sequence[Relation], can_project: Callable[[Scan], bool]) -> list[Relation]:
    """The relations with scans of fewer columns.

    A table that they read several times is read with the same columns everywhere, so that it is read once.

    Args:
        relations: those of the statements of a job.
        can_project: whether the connector of a table can leave columns out.
    """
    scans = {scan for relation in relations for scan in relation.walk() if isinstance(scan, Scan) and can_project(scan)}
    if not scans:
        return list(relations)
    reads: dict[Scan, set[int]] = {scan: set() for scan in scans}
    for relation in relations:
        _Reads(False, reads).whole(relation)
    narrow = _Projection(False, {scan: _kept(scan, read) for scan, read in reads.items()})
    return [narrow.whole(relation) for relation in relations]


def _kept(scan: Scan, read: set[int]) -> tuple[int, ...]:
    """The columns to read, one of which has to be in the files."""
    stored = [index for index, name in enumerate(scan.columns.names) if name not in scan.partition_keys]
    return tuple(sorted(read if read.intersection(stored) else {*read, *stored[:1]}))


@dataclass(frozen=True)
class _Scans(Pruner):
    """Goes down to the scans of some tables, through a watermark right above them.

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
        """One of the scans, of which these columns are needed."""
        raise NotImplementedError

    _RULES: ClassVar[dict[type[Relation], Callable[[Any, Any, Needed], Pruned]]] = {
        **Pruner._RULES,
        WatermarkAssigner: _watermark,
        Scan: _scan,
    }


class _Reads(_Scans):
    """Collects the columns that are read."""

    def scanned(self, scan: Scan, needed: Needed) -> Pruned:
        self.scans[scan].update(needed)
        return self.opaque(scan)


class _Projection(_Scans):
    """Leaves the other columns out."""

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
        )
        return Pruned(made, kept)
