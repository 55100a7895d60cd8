"""``OrderedRecords``: records of several inputs in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.state.keys.entries import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.operators.event_time_order.waiting_records import Due
    from headrace.state.protocols import KeyedStates

    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OrderedRecords:
    """Records of several inputs in one order, as they are handed to functions.

    Attributes:
        inputs: the input of each.
        rows: the records.
        timestamps: their timestamps.
        watermarks: the event time that each of them meets.
        entries: their keys; ``NO_KEY`` for those of an input without any.
    """

    inputs: list[int]
    rows: list[Any]
    timestamps: list[int]
    watermarks: list[int]
    entries: list[Any]

    @staticmethod
    def of_nothing(watermarks: list[int]) -> OrderedRecords:
        """Places for as many records as there are watermarks."""
        size = len(watermarks)
        return OrderedRecords([0] * size, [None] * size, [0] * size, watermarks, [NO_KEY] * size)

    def put(self, places: Sequence[int], number: int, part: Due, indices: Longs, keyed: KeyedStates | None) -> None:
        """Puts some records of an input into their places; ``keyed`` knows the keys of those that have any."""
        if not places:
            return
        timestamps = part.timestamps[indices].tolist()
        for place, row, timestamp in zip(places, part.rows_at(indices), timestamps, strict=True):
            self.inputs[place], self.rows[place], self.timestamps[place] = number, row, timestamp
        if part.keys is not None and keyed is not None:
            for place, entry in zip(places, keyed.bind(part.keys.take(indices)), strict=True):
                self.entries[place] = entry
