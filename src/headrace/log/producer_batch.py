"""Batches of records that a producer was given, and where these have come to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.common.errors import UnknownTopicError
from headrace.common.topic_partition import TopicPartition
from headrace.log.records import RecordMetadata, to_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from headrace.common.message_headers import Headers
    from headrace.log.partitioner import Partitioner


_JOINED_BYTES: Final = 1 << 30
"""What is larger is not put together: a column of a batch has 2 GiB at most."""


_FIELDS: Final = 4
"""How many values a record has in :attr:`ProducerBatch.records`: timestamp, key, value and details."""


class Details(NamedTuple):
    """What few records have.

    Attributes:
        headers: names and values.
        partition: the one that the record is for, whatever its key; None where that decides.
    """

    headers: Headers
    partition: int | None


class ProducerBatch:
    """Records of one topic that were sent one after another, and where they have come to be.

    Records that are sent one by one are added by one thread, without a lock, which would be a quarter of all that
    ``send`` takes. Another thread seals the batch; who has added a record and finds the batch sealed asks whether it
    was in time (:meth:`holds`).

    Args:
        topic: the topic.
        columns: the records, in columns as the log stores them; when left out they are added one by one.
        partition: the partition of all of them, or of each one; None when their keys decide.
        needs_keys: whether every record has to have a key.

    Attributes:
        records: those that were added one by one: of each its timestamp in milliseconds, key, value, and details or
            None. One list, so that a record is added in one step.
        size: how many bytes were added that the accumulator does not know of.
        is_sealed: whether what is added has come too late, or may have.
        error: why its records are not written at all, if so.
    """

    __slots__ = (
        "_bases",
        "_columns",
        "_ids",
        "_offsets",
        "_rows",
        "error",
        "is_sealed",
        "needs_keys",
        "partition",
        "records",
        "size",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        columns: pa.RecordBatch | None = None,
        partition: int | NDArray[np.int32] | None = None,
        *,
        needs_keys: bool = False,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.needs_keys = needs_keys
        self.records: list[Any] = []
        self.size = 0
        self.is_sealed = False
        self.error: UnknownTopicError | None = None
        self._rows = 0 if columns is None else columns.num_rows
        self._columns = columns
        self._ids: NDArray[np.int32] | None = None
        self._bases: Mapping[int, int] | None = None
        self._offsets: NDArray[np.int64] | None = None

    def seal(self) -> None:
        """Take no more records; only one thread at a time may do so."""
        if not self.is_sealed:
            self.is_sealed = True  # first: who adds a record after the next line is to see it
            self._rows = self._rows or len(self.records) // _FIELDS

    def holds(self, place: int) -> bool:
        """Whether a sealed batch has a record; ``place`` is where in :attr:`records` it begins."""
        return place < self._rows * _FIELDS

    def __len__(self) -> int:
        return self._rows

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
            headers = {row: each.headers for row, each in self._details() if each.headers}
            self._columns = to_columns(self._values(0), self._values(1), self._values(2), headers)
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

    def metadata(self, place: int) -> RecordMetadata:
        """Where a record has come to be; ``place`` is where in :attr:`records` it begins."""
        row = place // _FIELDS
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
            for row, each in self._details():
                if each.partition is not None:
                    ids[row] = each.partition
        if ids.max() >= partitions or ids.min() < 0:
            wrong = int(ids.max() if ids.max() >= partitions else ids.min())
            raise UnknownTopicError(f"topic {self.topic!r} has no partition {wrong}: it has {partitions}, from 0 on")
        return ids

    def _values(self, field: int) -> list[Any]:
        """One field of all records that were added one by one."""
        return self.records[field : self._rows * _FIELDS : _FIELDS]

    def _details(self) -> list[tuple[int, Details]]:
        """The rows with details."""
        details = self._values(3)
        if details.count(None) == len(details):
            return []
        return [(row, each) for row, each in enumerate(details) if each is not None]


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
    batches: Sequence[tuple[ProducerBatch, list[tuple[TopicPartition, int]]]], firsts: Mapping[TopicPartition, int]
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
