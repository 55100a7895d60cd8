"""What a columnar window emits, and in which order, when many firings were computed at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.window.layout import WindowLayout
    from headrace.operators.window.partials import Partials

    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Emission:
    """Results of firings.

    Attributes:
        partials: the contents of the windows, in the order of their emission.
        watermarks: the output watermark that each result is made under.
        moments: when each result is made: twice the position of the record that the watermark rose before, or one
            more when it is the record itself that makes the window fire again.
    """

    partials: Partials
    watermarks: Longs
    moments: Longs

    @staticmethod
    def of_due(due: Partials, current: int, watermarks: Longs) -> Emission:
        """The results of windows that fire because the watermark rises.

        Args:
            due: the contents, by window.
            current: the watermark before.
            watermarks: the watermarks it rises to, the last of which every window of ``due`` has seen.
        """
        records = np.searchsorted(watermarks, due.ends - 1)
        before = np.concatenate((np.array([current], np.int64), watermarks))
        return Emission(due, before[records], 2 * records)

    @staticmethod
    def of_late(contents: Partials, records: Longs, watermarks: Longs) -> Emission:
        """The results of windows that fire again for late records, given by their positions."""
        return Emission(contents, watermarks[records], 2 * records + 1)


def result_batch(layout: WindowLayout, size: int, emissions: Sequence[Emission]) -> Batch:
    """The results of all emissions as one batch, in the order in which they are made."""
    batches = [_rows(layout, size, emission.partials) for emission in emissions]
    timestamps = np.concatenate([emission.partials.ends for emission in emissions]) - 1
    watermarks = np.concatenate([emission.watermarks for emission in emissions])
    if len(batches) == 1:
        return Batch(layout.output_type, timestamps, watermarks, columns=batches[0])
    order = np.argsort(np.concatenate([emission.moments for emission in emissions]), kind="stable")
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return Batch(layout.output_type, timestamps, watermarks, columns=table).take(order)


def _rows(layout: WindowLayout, size: int, partials: Partials) -> pa.RecordBatch:
    ends = partials.ends
    return layout.finish(partials.keys, pa.array(ends - size), pa.array(ends), partials.columns)
