"""``RecordAccumulator``: batches of records that wait for delivery, and the partitioner that chooses where they go."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.arrays import binary_parts
from headrace.common.errors import InvalidProgramError, UnknownTopicError
from headrace.common.messages import Headers, TopicPartition
from headrace.log.records import RecordMetadata, to_columns

RECORD_BYTES: Final = 256
"""The bytes that a record counts besides its key and value, so that a batch has 65,536 records at most."""

GROWTH_BYTES: Final = 1 << 20
"""With so many new bytes a batch is to be counted anew: not for each record, as that takes a lock."""

_BATCH_BYTES: Final = 16 << 20
"""The bytes from which on a batch does not linger."""

_FULL_BATCHES: Final = 4
"""The full batches that wait before ``send`` does."""


class RecordAccumulator:
    """The queue of batches that wait for delivery. Any number of threads add to it; one thread at a time drains it.

    Args:
        linger: how many seconds a record may wait for others.
    """

    def __init__(self, linger: float) -> None:
        self._linger = linger
        self._waits = threading.Condition(threading.RLock())
        self._queue: list[ProducerBatch] = []
        self._size = 0
        self._error: BaseException | None = None
        self._closed = False

    # --- adding ------------------------------------------------------------------------------------------------------

    def add(self, batches: Sequence[ProducerBatch], size: int = 0) -> None:
        """Add batches, which may still grow.

        Args:
            batches: in their order.
            size: of what is in them.

        Raises:
            InvalidProgramError: when it is closed.
            OSError: when what was added before could not be delivered; raised once.
        """
        with self._waits:
            error, self._error = self._error, None
            self._waits.notify_all()
            if error is not None:
                raise error
            if self._closed:
                raise InvalidProgramError("the producer is closed")
            self._queue += batches
            self._size += size
            if self._size >= _BATCH_BYTES:
                self._wait_for_room()

    def has_grown(self, batch: ProducerBatch) -> None:
        """Account for what the calling thread has added to its batch; waits while too much is queued."""
        with self._waits:
            size, batch.size = batch.size, 0
            if batch.is_sealed:
                return
            self._size += size
            if self._size >= _BATCH_BYTES:
                self._waits.notify_all()
            if self._is_crowded():
                batch.seal()  # a column of a batch has 2 GiB at most
            self._wait_for_room()

    def has_missed(self, batch: ProducerBatch, place: int) -> bool:
        """Tell whether a record was added to a batch after that was sealed."""
        with self._waits:
            return not batch.holds(place)

    def seal(self) -> None:
        """Seal the batches that wait, so that the next send has the producer check its state."""
        with self._waits:
            for batch in self._queue:
                batch.seal()
            self._waits.notify_all()

    # --- taking ------------------------------------------------------------------------------------------------------

    def wait_until_due(self) -> bool:
        """Wait until a batch has lingered for long enough, or much is queued.

        Returns:
            Whether there will ever be; not once it is closed.
        """
        with self._waits:
            self._waits.wait_for(lambda: (self._queue and self._error is None) or self._closed)
            self._waits.wait_for(lambda: self._closed or self._size >= _BATCH_BYTES, self._linger)
            return not self._closed

    def take(self) -> tuple[list[ProducerBatch], int]:
        """Drain the queue: all batches with records, and their size in bytes."""
        with self._waits:
            self.seal()
            taken, size = self._queue, self._size
            self._queue, self._size = [], 0
            return [batch for batch in taken if len(batch)], size

    def put_back(self, batches: list[ProducerBatch], size: int) -> None:
        """Put batches back at the head of the queue."""
        with self._waits:
            self._queue = batches + self._queue
            self._size += size
            self._waits.notify_all()

    def fail(self, error: BaseException | None) -> None:
        """Raise an error in the next call of :meth:`add`; None forgets an earlier one."""
        with self._waits:
            self._error = error
            if error is not None:
                self.seal()
            self._waits.notify_all()

    def close(self) -> None:
        """Refuse further batches."""
        with self._waits:
            self._closed = True
            self.seal()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _is_crowded(self) -> bool:
        return self._size >= _FULL_BATCHES * _BATCH_BYTES

    def _wait_for_room(self) -> None:
        self._waits.wait_for(lambda: not self._is_crowded() or self._error is not None or self._closed)


_JOINED_BYTES: Final = 1 << 30
"""The largest pieces that are joined: a column of a batch has 2 GiB at most."""


_FIELDS: Final = 4
"""The values of a record in :attr:`ProducerBatch.records`: timestamp, key, value and details."""


Details = tuple["Headers", int | None]
"""Headers of a record, and the partition that it is for whatever its key; few records have either."""


class ProducerBatch:
    """Records of one topic in the order in which they were sent, and their offsets once they are committed.

    Records that are sent one by one are added by one thread, without a lock, which would be a quarter of all that
    ``send`` takes. Another thread seals the batch; a thread that has added a record to a sealed batch looks whether it
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
            self.is_sealed = True  # first: a record that is added after the next line is to see it
            self._rows = self._rows or len(self.records) // _FIELDS

    def holds(self, place: int) -> bool:
        """Tell whether a sealed batch has a record; ``place`` is where in :attr:`records` it begins."""
        return place < self._rows * _FIELDS

    def __len__(self) -> int:
        return self._rows

    @property
    def is_committed(self) -> bool:
        """Tell whether its records have offsets."""
        return self._bases is not None

    def pieces(self, partitions: int, partitioner: DefaultPartitioner) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """The records of each partition.

        Args:
            partitions: how many the topic has.
            partitioner: decides where records go that are not sent to a certain partition.

        Raises:
            UnknownTopicError: when a record is for a partition that there is not.
        """
        if self._columns is None:
            headers = {row: each for row, (each, _) in self._details() if each}
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
        """Choose partitions anew, as the topic was deleted and made again."""
        self._ids = None

    def committed(self, bases: Mapping[int, int]) -> None:
        """Remember the offset of the batch's first record in each partition."""
        self._bases = bases

    def metadata(self, place: int) -> RecordMetadata:
        """The place of a record in the log; ``place`` is where in :attr:`records` it begins."""
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

    def _partitions(
        self, columns: pa.RecordBatch, partitions: int, partitioner: DefaultPartitioner
    ) -> NDArray[np.int32]:
        if self.partition is not None:
            ids = np.full(columns.num_rows, self.partition, np.int32)
        else:
            ids = partitioner.partition(columns.column("key"), partitions)
            for row, (_, partition) in self._details():
                if partition is not None:
                    ids[row] = partition
        if ids.max() >= partitions or ids.min() < 0:
            wrong = int(ids.max() if ids.max() >= partitions else ids.min())
            raise UnknownTopicError(f"topic {self.topic!r} has no partition {wrong}: it has {partitions}, from 0 on")
        return ids

    def _values(self, field: int) -> list[Any]:
        """One field of all records that were added one by one."""
        return self.records[field : self._rows * _FIELDS : _FIELDS]

    def _details(self) -> list[tuple[int, Details]]:
        details = self._values(3)
        if details.count(None) == len(details):
            return []
        return [(row, each) for row, each in enumerate(details) if each is not None]


def stable_order(ids: NDArray[np.int32]) -> NDArray[np.int64]:
    """Sort rows by partition, stably; there are at most 10,000 partitions."""
    return np.argsort(ids.astype(np.int16), kind="stable")  # by radix, which wider integers are not sorted by


def merged(
    pieces: Iterable[tuple[TopicPartition, pa.RecordBatch]],
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Join the records of each partition, in their order."""
    batches = dict[TopicPartition, list[pa.RecordBatch]]()
    for partition, batch in pieces:
        batches.setdefault(partition, []).append(batch)
    found = list[tuple[TopicPartition, pa.RecordBatch]]()
    for partition in sorted(batches):
        found += [(partition, batch) for batch in _joined(batches[partition])]
    return found


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join batches if they have one schema and fit into one batch."""
    alike = all(batch.schema == batches[0].schema for batch in batches)
    if len(batches) == 1 or not alike or sum(batch.nbytes for batch in batches) > _JOINED_BYTES:
        return batches
    return [pa.concat_batches(batches)]


def bases_of(
    batches: Sequence[tuple[ProducerBatch, list[tuple[TopicPartition, int]]]], firsts: Mapping[TopicPartition, int]
) -> None:
    """Assign offsets to batches that were committed.

    Args:
        batches: each with the number of its records in each partition.
        firsts: the offset of the first record of each partition in the commit.
    """
    ends = dict(firsts)
    for batch, counts in batches:
        batch.committed({partition.partition: ends[partition] for partition, _ in counts})
        for partition, rows in counts:
            ends[partition] += rows


_SEED: Final = 0x9747B28C
_FACTOR: Final = np.uint32(0x5BD1E995)

_STICKY_ROWS: Final = 16_384
"""The records without a key that go to one partition before the next has its turn."""


class DefaultPartitioner:
    """Chooses the partitions of records.

    Args:
        start: where records without a key begin.
    """

    def __init__(self, start: int) -> None:
        self._next = start

    def partition(self, keys: pa.Array, partitions: int) -> NDArray[np.int32]:
        """The partition of each record.

        Args:
            keys: binary; None has no say, and such records take turns in stretches.
            partitions: how many there are.
        """
        if keys.null_count == len(keys):
            return self._taking_turns(len(keys), partitions)
        found = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int32)
        if keys.null_count:
            missing = np.asarray(keys.is_null())
            found[missing] = self._taking_turns(int(missing.sum()), partitions)
        return found

    def _taking_turns(self, rows: int, partitions: int) -> NDArray[np.int32]:
        turns = -(-rows // _STICKY_ROWS)
        found = (self._next + np.arange(rows) // _STICKY_ROWS) % partitions
        self._next += turns
        return found.astype(np.int32)


def murmur2(values: pa.Array) -> NDArray[np.uint32]:
    """The hash of binary values that Kafka's clients use; that of a null means nothing."""
    bounds, data = binary_parts(values)
    content = np.frombuffer(data, np.uint8)
    starts, lengths = bounds[:-1], np.diff(bounds)
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    _mix_words(hashes, content, starts, lengths)
    _mix_rest(hashes, content, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _mix_words(
    hashes: NDArray[np.uint32], content: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Take in whole words of four bytes, the same word of all values at once."""
    if len(content) < 4:
        return
    words = np.ndarray((len(content) - 3,), np.dtype("<u4"), content, strides=(1,))
    rows = np.flatnonzero(lengths >= 4)
    at = 0
    while len(rows):
        word = words[starts[rows] + at] * _FACTOR
        word ^= word >> np.uint32(24)
        word *= _FACTOR
        hashes[rows] = hashes[rows] * _FACTOR ^ word
        at += 4
        rows = rows[lengths[rows] >= at + 4]


def _mix_rest(
    hashes: NDArray[np.uint32], content: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Take in up to three bytes at the end of each value."""
    rest = lengths & 3
    ends = starts + lengths - rest
    for number in (2, 1, 0):
        rows = np.flatnonzero(rest > number)
        hashes[rows] ^= content[ends[rows] + number].astype(np.uint32) << np.uint32(8 * number)
    rows = np.flatnonzero(rest)
    hashes[rows] *= _FACTOR
