"""What columnar windows emit when they fire: which results, when, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.common.batch import Batch, joined_kinds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace.operators.window.columnar.accumulators import Accumulators
    from headrace.operators.window.columnar.layout import ColumnarWindowLayout
    from headrace.windowing.intervals import RegularWindows

    Kinds = npt.NDArray[np.int8]
    Longs = npt.NDArray[np.int64]

FIRED_ROWS: Final = 1 << 16
"""So many results leave as one batch."""


@dataclass(frozen=True)
class Emission:
    """Results of firings.

    Attributes:
        accumulators: the contents of the windows, in the order of their emission.
        watermarks: the output watermark that each result is made under.
        positions: when each result is made: twice the position of the record that the watermark rose before, or one
            more when it is the record itself that makes the window fire again.
        kinds: what the results do in a changelog, as values of ``RowKind``; None where all are insertions.
    """

    accumulators: Accumulators
    watermarks: Longs
    positions: Longs
    kinds: Kinds | None = None

    @staticmethod
    def of_due(due: Accumulators, current: int, watermarks: Longs) -> Emission:
        """The results of windows that fire because the watermark rises.

        Args:
            due: the contents, by window.
            current: the watermark before.
            watermarks: the watermarks it rises to, the last of which every window of ``due`` has seen.
        """
        ends, bounds = due.windows
        rows = np.diff(bounds)
        positions = 2 * np.searchsorted(watermarks, ends - 1)
        return Emission(due, np.repeat(stamps_of(ends, current, watermarks), rows), np.repeat(positions, rows))

    @staticmethod
    def of_late(contents: Accumulators, records: Longs, watermarks: Longs, kinds: Kinds | None = None) -> Emission:
        """The results of windows that fire again for late records, given by their positions."""
        return Emission(contents, watermarks[records], 2 * records + 1, kinds)


def stamps_of(ends: Longs, current: int, watermarks: Longs) -> Longs:
    """The watermark in force before the advance that makes each of some windows fire, which are given by their ends.

    Args:
        ends: the ends.
        current: the watermark before.
        watermarks: the watermarks it rises to, the last of which every window has seen.
    """
    records = np.searchsorted(watermarks, ends - 1)
    return np.where(records > 0, watermarks[records - 1], current)


def result_batch(layout: ColumnarWindowLayout, windows: RegularWindows, emissions: Sequence[Emission]) -> Batch:
    """The results of all emissions as one batch, in the order in which they are made."""
    batches = [_rows(layout, windows, emission.accumulators) for emission in emissions]
    kinds = joined_kinds([(len(emission.accumulators), emission.kinds) for emission in emissions])
    if len(emissions) == 1:
        ends, watermarks = emissions[0].accumulators.ends, emissions[0].watermarks
        return Batch(layout.output_type, ends - 1, watermarks, columns=batches[0], kinds=kinds)
    timestamps = np.concatenate([emission.accumulators.ends for emission in emissions]) - 1
    watermarks = np.concatenate([emission.watermarks for emission in emissions])
    order = np.argsort(np.concatenate([emission.positions for emission in emissions]), kind="stable")
    table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return Batch(layout.output_type, timestamps, watermarks, columns=table, kinds=kinds).take(order)


def _rows(layout: ColumnarWindowLayout, windows: RegularWindows, accumulators: Accumulators) -> pa.RecordBatch:
    ends = accumulators.ends
    bounds = (pa.array(windows.starts_of(ends)), pa.array(ends))
    return layout.finish(accumulators.keys, bounds, accumulators.columns)
