"""``KeyedBatch``: records together with their keys, so that each key is found and hashed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.batch import Batch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.common.batch import Stamps
    from headrace.state.keys import KeyColumn


class KeyedBatch(Batch):
    """A batch of a keyed stream.

    Attributes:
        keys: the key of each record, in canonical form, with its hash.
    """

    __slots__ = ("keys",)

    keys: KeyColumn

    @classmethod
    def of(cls, batch: Batch, keys: KeyColumn) -> KeyedBatch:
        """The records of ``batch`` with their keys."""
        keyed = cls(
            batch.type,
            batch.timestamps,
            batch._watermarks,
            rows=batch._rows,
            columns=batch._columns,
            kinds=batch._kinds,
            ordinals=batch.ordinals,
        ).made_as(batch)
        keyed.keys = keys
        return keyed

    def take(self, indices: npt.NDArray[np.integer[Any]]) -> KeyedBatch:
        return KeyedBatch.of(super().take(indices), self.keys.take(indices))

    def slice(self, start: int, stop: int) -> KeyedBatch:
        return KeyedBatch.of(super().slice(start, stop), self.keys.slice(start, stop))

    def with_times(self, timestamps: npt.NDArray[np.int64], watermarks: npt.NDArray[np.int64] | Stamps) -> KeyedBatch:
        return KeyedBatch.of(super().with_times(timestamps, watermarks), self.keys)
