"""The rows of a state over the tasks of an operator: those of a key where the job looks for them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.state.exported import ExportedTable
from headrace.state.keys import KeyColumn
from headrace.state.keys.groups import partitions_of_hashes
from headrace.state.kinds import StateKind
from headrace.state.runs.layout import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace.state_processor.manifest_edits import OperatorPlace
    from headrace.state_processor.state_columns import StateColumns


def table_of_rows(place: OperatorPlace, columns: StateColumns, rows: pa.RecordBatch) -> ExportedTable:
    """What a task has of a state."""
    return ExportedTable(place.uid, columns.store, columns.about, rows.schema, [rows])


def divided(place: OperatorPlace, columns: StateColumns, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each task, by partition, in their order."""
    if columns.is_broadcast:
        yield from ((partition, rows) for partition in range(place.parallelism))
    elif columns.state_kind is StateKind.UNION:  # after a start each task has all of it
        yield 0, rows
    else:
        partitions = _partitions(place, columns, rows)
        order = np.argsort(partitions, kind="stable")
        bounds = np.searchsorted(partitions[order], np.arange(place.parallelism + 1))
        for partition, (start, stop) in enumerate(pairwise(bounds.tolist())):
            yield partition, rows.take(pa.array(order[start:stop]))


def _partitions(place: OperatorPlace, columns: StateColumns, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    if columns.state_kind is StateKind.LIST or KEY not in rows.schema.names:  # an equal share for each
        shares: npt.NDArray[np.int64] = np.arange(rows.num_rows) * place.parallelism // max(1, rows.num_rows)
        return shares
    hashes = KeyColumn.of(rows.column(KEY)).hashes
    return partitions_of_hashes(hashes, place.parallelism, place.max_parallelism)
