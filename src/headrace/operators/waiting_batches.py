"""Records of two inputs that wait: as many at once cost less, and the inputs take turns every few records.

Whoever has them takes them when they are many, and whenever event time goes on at the end of a stretch of input, so
that none waits when an epoch ends.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from headrace.common.batch import Batch
from headrace.operators.base import concat_keyed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

_Of = TypeVar("_Of")
_AnyBatch = TypeVar("_AnyBatch", bound=Batch)

MOST_CALLED: Final = 1 << 12
"""So many records wait at most for a function that is called for each of them."""

_MOST_BYTES: Final = 128 << 20
"""Records that take so much memory are many, however few they are."""

_WEIGHED_ROWS: Final = 64
"""After so many records a batch is weighed for all of them: of a few records that takes longer than all else."""


class TakenBatches(Generic[_AnyBatch]):
    """Records of both inputs in the order in which they came.

    Args:
        batches: the input and the records of each batch.
    """

    def __init__(self, batches: Sequence[tuple[int, _AnyBatch]]) -> None:
        self.batches = [batch for _, batch in batches]
        self._indices = [index for index, _ in batches]

    @cached_property
    def sides(self) -> Longs:
        """The input of each record."""
        return np.repeat(np.array(self._indices, np.int64), [len(batch) for batch in self.batches])

    def in_turn(self, of_inputs: Mapping[int, Iterator[_Of]]) -> Iterator[_Of]:
        """What there is of each record, taken from that of its input, in the order in which the records came."""
        turns = zip(self._indices, self.batches, strict=True)
        return chain.from_iterable(islice(of_inputs[index], len(batch)) for index, batch in turns)

    @property
    def timestamps(self) -> Longs:
        """The timestamp of each record."""
        return np.concatenate([batch.timestamps for batch in self.batches])

    @property
    def watermarks(self) -> Longs:
        """The watermark that each record meets."""
        return np.concatenate([np.empty(0, np.int64), *(batch.watermarks for batch in self.batches)])

    def of(self, side: int) -> _AnyBatch | None:
        """The records of one input; None if there are none."""
        own = [batch for index, batch in zip(self._indices, self.batches, strict=True) if index == side]
        return concat_keyed(own) if own else None


class WaitingBatches(Generic[_AnyBatch]):
    """The records of one subtask that wait.

    Args:
        most_rows: so many records are many.
        are_stored: whether all are put into state, so that Python objects can be weighed as what they are there.
    """

    def __init__(self, most_rows: int, *, are_stored: bool = False) -> None:
        self._most_rows = most_rows
        self._are_stored = are_stored
        self.forget()

    def forget(self) -> None:
        """None waits any more."""
        self._batches: list[tuple[int, _AnyBatch]] = []
        self._rows = self._bytes = self._unweighed = 0

    def add(self, input_index: int, batch: _AnyBatch) -> bool:
        """Has records of one input wait; tells whether there are many now."""
        self._batches.append((input_index, batch))
        self._rows += len(batch)
        self._unweighed += len(batch)
        if self._unweighed >= _WEIGHED_ROWS and (batch.is_columnar or self._are_stored):
            some = batch if batch.is_columnar else batch.slice(0, 1)
            self._bytes += some.as_array().nbytes * self._unweighed // len(some)
            self._unweighed = 0
        return self._rows >= self._most_rows or self._bytes >= _MOST_BYTES

    def take(self) -> TakenBatches[_AnyBatch]:
        """All that wait, which do so no longer."""
        taken = TakenBatches(self._batches)
        self.forget()
        return taken
