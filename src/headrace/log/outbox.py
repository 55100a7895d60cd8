"""Records that a producer was given and that are not committed yet, in the order in which they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headrace.common.errors import UnknownTopicError
from headrace.log.records import RecordMetadata, TopicPartition, to_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from headrace.log.partitioner import Partitioner
    from headrace.log.records import Headers


_JOINED_BYTES: Final = 1 << 30
"""What is larger is not put together: a column of a batch has 2 GiB at most."""


class SentBatch:
    """Records of one topic that were sent one after another, and where they have come to be.

    Args:
        topic: the topic.
        columns: the records, in columns as the log stores them; when left out they are added one by one.
        partition: the partition of all of them; None when their keys decide.
        needs_keys: whether every record has to have a key.

    Attributes:
        timestamps: of records that were added one by one, in milliseconds.
        keys: of these.
        values: of these.
        headers: by their numbers, of those that have some.
        partitions: by their numbers, of those that are for a certain one.
        error: why its records are not written at all, if so.
    """

    __slots__ = (
        "_bases",
        "_columns",
        "_ids",
        "_offsets",
        "error",
        "headers",
        "keys",
        "needs_keys",
        "partition",
        "partitions",
        "timestamps",
        "topic",
        "values",
    )

    def __init__(
        self,
        topic: str,
        columns: pa.RecordBatch | None = None,
        partition: int | None = None,
        *,
        needs_keys: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.needs_keys = needs_keys
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: dict[int, Headers] = {}
        self.partitions: dict[int, int] = {}
        self.error: UnknownTopicError | None = None
        self._columns = columns
        self._ids: NDArray[np.int32] | None = None
        self._bases: Mapping[int, int] | None = None
        self._offsets: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.values) if self._columns is None else self._columns.num_rows

    @property
    def is_committed(self) -> bool:
        """Whether its records have offsets."""
        return self._bases is not None

    def pieces(self, partitions: int, partitioner: Partitioner) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """The records of each partition.

        Args:
            partitions: how many the topic has.
            partitioner: decides where records go that are not sent to a certain partition.

        Raises:
            UnknownTopicError: when a record is for a partition that there is not.
        """
        if self._columns is None:
            self._columns = to_columns(self.timestamps, self.keys, self.values, self.headers)
        if self._ids is None:
            self._ids = self._partitions(self._columns, partitions, partitioner)
        ids = self._ids
        first = int(ids[0])
        if (ids == first).all():
            return [(TopicPartition(self.topic, first), self._columns)]
        order = stable_order(ids)
        numbers, starts = np.unique(ids[order], return_index=True)
        taken = self._columns.take(pa.array(order))
        ends = [*starts[1:], len(order)]
        return [
            (TopicPartition(self.topic, int(number)), taken.slice(start, end - start))
            for number, start, end in zip(numbers, starts, ends, strict=True)
        ]

    def forget_partitions(self) -> None:
        """Choose partitions anew: the topic is another one."""
        self._ids = None

    def committed(self, bases: Mapping[int, int]) -> None:
        """Take the offset of the first record in each partition."""
        self._bases = bases

    def metadata(self, row: int) -> RecordMetadata:
        """Where a record has come to be."""
        assert self._ids is not None
        assert self._bases is not None
        assert self._columns is not None
        if self._offsets is None:
            order = stable_order(self._ids)
            numbers, starts, counts = np.unique(self._ids[order], return_index=True, return_counts=True)
            bases = np.array([self._bases[int(number)] for number in numbers]) - starts
            self._offsets = np.empty(len(order), np.int64)
            self._offsets[order] = np.arange(len(order)) + np.repeat(bases, counts)
        timestamp = self._columns.column("timestamp").cast(pa.int64())[row].as_py()
        return RecordMetadata(self.topic, int(self._ids[row]), int(self._offsets[row]), timestamp)

    def _partitions(self, columns: pa.RecordBatch, partitions: int, partitioner: Partitioner) -> NDArray[np.int32]:
        if self.partition is not None:
            ids = np.full(columns.num_rows, self.partition, np.int32)
        else:
            ids = partitioner.partition(columns.column("key"), partitions)
            for row, chosen in self.partitions.items():
                ids[row] = chosen
        if ids.max() >= partitions or ids.min() < 0:
            wrong = int(ids.max() if ids.max() >= partitions else ids.min())
            raise UnknownTopicError(f"topic {self.topic!r} has no partition {wrong}: it has {partitions}, from 0 on")
        return ids


def stable_order(ids: NDArray[np.int32]) -> NDArray[np.int64]:
    """The rows by their partitions, those of one in their order; there are at most 10,000 partitions."""
    return np.argsort(ids.astype(np.int16), kind="stable")  # by radix, which wider integers are not sorted by


def merged(
    pieces: Iterable[tuple[TopicPartition, pa.RecordBatch]],
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """The records of each partition together, in their order."""
    batches = dict[TopicPartition, list[pa.RecordBatch]]()
    for partition, batch in pieces:
        batches.setdefault(partition, []).append(batch)
    found = list[tuple[TopicPartition, pa.RecordBatch]]()
    for partition in sorted(batches):
        found += [(partition, batch) for batch in _joined(batches[partition])]
    return found


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches as one, if they are alike and not more than one can hold."""
    alike = all(batch.schema == batches[0].schema for batch in batches)
    if len(batches) == 1 or not alike or sum(batch.nbytes for batch in batches) > _JOINED_BYTES:
        return batches
    return [pa.concat_batches(batches)]


def bases_of(
    batches: Sequence[tuple[SentBatch, list[tuple[TopicPartition, int]]]], firsts: Mapping[TopicPartition, int]
) -> None:
    """Tell batches their offsets.

    Args:
        batches: each with the number of its records in each partition.
        firsts: the offset of the first record of each partition in the commit.
    """
    ends = dict(firsts)
    for batch, counts in batches:
        batch.committed({partition.partition: ends[partition] for partition, _ in counts})
        for partition, rows in counts:
            ends[partition] += rows
