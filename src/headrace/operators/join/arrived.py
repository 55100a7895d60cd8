"""Records of two inputs that wait to be joined: as many at once cost less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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

    Longs = npt.NDArray[np.int64]

_MOST_ROWS: Final = 1 << 18
"""So many records wait at most; the more there are, the less often what is kept is searched."""

_MOST_BYTES: Final = 128 << 20
"""Records that take so much memory are many, however few they are."""


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


class WaitingInputs:
    """The records of one subtask that wait.

    Args:
        interval: which times match.
        schemas: of each input the columns of its log.
    """

    def __init__(self, interval: JoinInterval, schemas: Sequence[pa.Schema]) -> None:
        self._interval = interval
        self._schemas = schemas
        self.forget()

    def forget(self) -> None:
        """None waits any more."""
        self._batches: list[tuple[int, KeyedBatch]] = []
        self._rows = self._bytes = 0

    def add(self, input_index: int, batch: KeyedBatch) -> bool:
        """Has records of one input wait; tells whether there are many now."""
        self._batches.append((input_index, batch))
        self._rows += len(batch)
        self._bytes += batch.as_array().nbytes if batch.is_columnar else 0
        return self._rows >= _MOST_ROWS or self._bytes >= _MOST_BYTES

    def take(self) -> ArrivedRecords:
        """All that wait, which do so no longer."""
        batches = self._batches
        self.forget()
        watermarks = np.concatenate([np.empty(0, np.int64), *(batch.watermarks for _, batch in batches)])
        return ArrivedRecords((self._side(LEFT, batches), self._side(RIGHT, batches)), watermarks)

    def _side(self, side: int, batches: Sequence[tuple[int, KeyedBatch]]) -> ArrivedSide:
        schema = self._schemas[side]
        stops = np.cumsum([len(batch) for _, batch in batches]).tolist()
        own = [(batch, stop) for (index, batch), stop in zip(batches, stops, strict=True) if index == side]
        if not own:
            nothing = pa.RecordBatch.from_pylist([], schema)
            none = np.empty(0, np.int64)
            return ArrivedSide(Section(nothing), KeyColumn(nothing.column(1), none.view(np.uint64)), none, none)
        keys = KeyColumn.concat([batch.keys for batch, _ in own])
        times = np.concatenate([batch.timestamps for batch, _ in own])
        watermarks = np.concatenate([batch.watermarks for batch, _ in own])
        lingers = watermarks == times + self._interval.kept(side)
        ordinals = np.concatenate([np.arange(stop - len(batch), stop) for batch, stop in own])
        records = pa.concat_arrays([batch.as_array() for batch, _ in own])
        met = [pa.array(watermarks == times)] if MET in schema.names else []
        columns = [pa.array(keys.hashes), keys.values, pa.array(times), pa.array(lingers), *met, records]
        order, of_keys = key_time_order(keys.hashes, keys.values, times)
        section = Section(pa.RecordBatch.from_arrays(columns, schema=schema).take(pa.array(order)))
        firsts = order[np.flatnonzero(np.diff(of_keys, prepend=-1))]
        return ArrivedSide(section, keys.take(firsts), of_keys, ordinals[order])
