"""Records of two inputs that are to be joined, in the order of the logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.operators.join.find_pairs import ArrivedSide
from headrace.operators.join.interval import LEFT, RIGHT
from headrace.operators.join.join_log import MET, key_time_order
from headrace.state.keys import KeyColumn
from headrace.state.runs.sections import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.join.interval import JoinInterval
    from headrace.operators.keyed import KeyedBatch
    from headrace.operators.waiting_batches import TakenBatches

    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ArrivedRecords:
    """Records of both inputs; there may be none.

    Attributes:
        sides: the records of each input.
        watermarks: the watermark that each has met, in the order in which they came.
    """

    sides: tuple[ArrivedSide, ArrivedSide]
    watermarks: Longs

    def __len__(self) -> int:
        return len(self.watermarks)


def arrived_records(
    interval: JoinInterval, schemas: Sequence[pa.Schema], taken: TakenBatches[KeyedBatch]
) -> ArrivedRecords:
    """The records of both inputs that have waited.

    Args:
        interval: which times match.
        schemas: of each input the columns of its log.
        taken: the records.
    """
    watermarks = np.concatenate([np.empty(0, np.int64), *(batch.watermarks for batch in taken.batches)])
    left, right = (
        _side(taken.of(side), np.flatnonzero(taken.sides == side), interval.kept(side), schemas[side])
        for side in (LEFT, RIGHT)
    )
    return ArrivedRecords((left, right), watermarks)


def _side(batch: KeyedBatch | None, ordinals: Longs, kept: int, schema: pa.Schema) -> ArrivedSide:
    if batch is None:
        nothing = pa.RecordBatch.from_pylist([], schema)
        none = np.empty(0, np.int64)
        return ArrivedSide(Section(nothing), KeyColumn(nothing.column(1), none.view(np.uint64)), none, none)
    keys, times, watermarks = batch.keys, batch.timestamps, batch.watermarks
    lingers = watermarks == times + kept
    met = [pa.array(watermarks == times)] if MET in schema.names else []
    columns = [pa.array(keys.hashes), keys.values, pa.array(times), pa.array(lingers), *met, batch.as_array()]
    order, of_keys = key_time_order(keys.hashes, keys.values, times)
    section = Section(pa.RecordBatch.from_arrays(columns, schema=schema).take(pa.array(order)))
    firsts = order[np.flatnonzero(np.diff(of_keys, prepend=-1))]
    return ArrivedSide(section, keys.take(firsts), of_keys, ordinals[order])
