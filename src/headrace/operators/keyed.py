"""Records together with their keys, and operators that take them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.batch import Batch, concat
from headrace.operators.base import Operator
from headrace.state.keys import KeyColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.common.batch import Stamps
    from headrace.operators.base import OperatorContext, Output

_AnyBatch = TypeVar("_AnyBatch", bound=Batch)


class KeyedBatch(Batch):
    """A batch of a keyed stream. Each key is found and hashed once, before the first operator that needs it.

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


def keys_of(batch: Batch) -> KeyColumn:
    """The keys of the records of a keyed input."""
    assert isinstance(batch, KeyedBatch), "the graph takes keyed records only"
    return batch.keys


class KeyedOperator(Operator):
    """An operator of which each input is keyed, as its spec declares.

    Its state is taken up before it is open, so that functions of the user find it in ``open``. Operators of which only
    some inputs are keyed override :meth:`process`.
    """

    def open(self, context: OperatorContext, output: Output) -> None:
        self.restore_state(context)
        super().open(context, output)

    def process(self, input_index: int, batch: Batch) -> None:
        if len(batch):
            assert isinstance(batch, KeyedBatch), "the graph takes keyed records only"
            self.process_keyed(input_index, batch)

    @abstractmethod
    def process_keyed(self, input_index: int, batch: KeyedBatch) -> None:
        """Handle records of one input, in order; there is at least one."""


def concat_keyed(batches: Sequence[_AnyBatch]) -> _AnyBatch:
    """The records of several batches of one stream, with their keys if they have any, one after the other."""
    if len(batches) == 1:
        return batches[0]
    joined: Any = concat(batches)
    keys = [batch.keys for batch in batches if isinstance(batch, KeyedBatch)]
    return KeyedBatch.of(joined, KeyColumn.concat(keys)) if keys else joined  # type: ignore[return-value]
