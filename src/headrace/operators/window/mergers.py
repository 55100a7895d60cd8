"""How runs of windows are merged when they pile up; importing this module makes it known to compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.operators.window.kernels import group_rows
from headrace.operators.window.part_list import PartList
from headrace.operators.window.partials import Partials
from headrace.operators.window.window_tables import description
from headrace.state.mergers import register_merger

if TYPE_CHECKING:
    from headrace.state.merge_input import MergeInput

PARTIALS_KIND: Final = "window-partials"
"""The kind of runs that hold partial results: those of a key and window are merged."""
VALUES_KIND: Final = "window-values"
"""The kind of runs that hold folded values: the newest of a key and window counts."""
ELEMENTS_KIND: Final = "window-elements"
"""The kind of runs that hold all elements."""


def newest(rows: Partials) -> Partials:
    """The newest row of each key and window, of rows in order of age."""
    groups = group_rows(rows.ends, rows.hashes, rows.keys)
    return rows.take(groups.order[groups.segments.starts + groups.segments.counts - 1])


def sorted_rows(rows: Partials) -> Partials:
    """All rows, by window and key; those of a key and window stay in order."""
    return rows.take(group_rows(rows.ends, rows.hashes, rows.keys).order)


def _merge_partials(given: MergeInput) -> pa.Table:
    parts = PartList.for_merging(given.meta["parts"])
    return Partials.regrouped(parts, _pieces(given)).to_table(given.runs[-1].section.schema)


def _merge_values(given: MergeInput) -> pa.Table:
    return newest(Partials.concat(_pieces(given))).to_table(given.runs[-1].section.schema)


def _merge_elements(given: MergeInput) -> pa.Table:
    return sorted_rows(Partials.concat(_pieces(given))).to_table(given.runs[-1].section.schema)


def _pieces(given: MergeInput) -> list[Partials]:
    """The rows of all runs. Those of windows that are over leave with the whole run: it is not known here which."""
    return [Partials.of_table(run.table) for run in given.runs]


def _described(meta: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """The windows of the merged run, in place of those of the newest one."""
    return {**meta, **description(meta["kind"], Partials.of_table(pa.Table.from_batches([batch])))}


register_merger(PARTIALS_KIND, _merge_partials, _described)
register_merger(VALUES_KIND, _merge_values, _described)
register_merger(ELEMENTS_KIND, _merge_elements, _described)
