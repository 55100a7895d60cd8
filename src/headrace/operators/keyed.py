"""``KeyedBatch``: records together with their keys, so that each key is found and hashed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.batch import Batch, concat
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.common.batch import Stamps

_AnyBatch = TypeVar("_AnyBatch", bound=Batch)


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


def concat_keyed(batches: Sequence[_AnyBatch]) -> _AnyBatch:
    """The records of several batches of one stream, with their keys if they have any, one after the other."""
    if len(batches) == 1:
        return batches[0]
    joined: Any = concat(batches)
    keys = [batch.keys for batch in batches if isinstance(batch, KeyedBatch)]
    return KeyedBatch.of(joined, KeyColumn.concat(keys)) if keys else joined  # type: ignore[return-value]
