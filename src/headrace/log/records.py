"""Records of the log: as objects, and as columns."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arguments import with_article
from headrace.common.errors import InvalidTypeError
from headrace.common.message_headers import HEADERS, headers_to_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.common.message_headers import Headers
    from headrace.common.topic_partition import TopicPartition

TIMESTAMP: Final = pa.timestamp("ms")
"""Milliseconds since the epoch, in UTC."""

STORED: Final = pa.schema(
    [
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
"""The columns that every piece of a partition has."""

OFFSET: Final = pa.field("offset", pa.int64(), nullable=False)
HEADERS_FIELD: Final = pa.field("headers", HEADERS)

FETCHED: Final = pa.schema([OFFSET, *STORED, HEADERS_FIELD])
"""What is read of a partition."""

POLLED: Final = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *FETCHED,
    ]
)
"""What a consumer is given: records of several partitions."""


class RecordMetadata(NamedTuple):
    """Where a record has come to be.

    Attributes:
        topic: the topic.
        partition: the number of its partition.
        offset: its place there.
        timestamp: in milliseconds.

    Examples:
        >>> from headrace.log import Log, Producer
        >>> log = Log.open("payments.log", create=True)
        >>> log.create_topic("payments")
        >>> with Producer(log) as producer:
        ...     producer.send("payments", b"9.50", timestamp=1_000).result()
        RecordMetadata(topic='payments', partition=0, offset=0, timestamp=1000)
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class ConsumerRecord(NamedTuple):
    """A record with all that is known of it.

    Attributes:
        topic: the topic.
        partition: the number of its partition.
        offset: its place there.
        timestamp: in milliseconds.
        key: None where there is none.
        value: None says that what the key stood for is deleted.
        headers: names and values, in the order of the sender.

    Examples:
        >>> from headrace.log import ConsumerRecord
        >>> record = ConsumerRecord("payments", 0, 17, 1_000, b"card 1", b"9.50", (("trace", b"4f"),))
        >>> record.offset, record.value
        (17, b'9.50')
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def to_columns(
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Mapping[int, Headers],
) -> pa.RecordBatch:
    """The columns of records.

    Args:
        timestamps: in milliseconds.
        keys: of as many records.
        values: of as many records.
        headers: by the numbers of the records that have some.
    """
    times = np.fromiter(timestamps, np.int64, len(timestamps))
    columns = [pa.array(times).cast(TIMESTAMP), pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    if not headers:
        return pa.record_batch(columns, schema=STORED)
    rows = (headers.get(row) for row in range(len(timestamps)))
    return pa.record_batch([*columns, headers_to_array(list(rows))], schema=STORED.append(HEADERS_FIELD))


def batches_of(data: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    """Columns as batches: one, unless that would have more bytes in a column than one can have.

    Raises:
        InvalidTypeError: when it is nothing with columns.
    """
    if isinstance(data, pa.RecordBatch):
        return [data]
    if not isinstance(data, pa.Table):
        raise InvalidTypeError(
            f"append() takes records in columns, a pyarrow Table or RecordBatch, not {with_article(type(data))}: "
            "make one, or send() records one by one"
        )
    return data.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=data.schema)]


def normalised(data: pa.RecordBatch, now: int) -> pa.RecordBatch:
    """Columns of a user as the log stores them.

    Args:
        data: ``value``, and where there are such ``key``, ``timestamp`` and ``headers``. Text is stored as UTF-8.
        now: the timestamp in milliseconds of records that have none.

    Raises:
        InvalidTypeError: when a column is missing, unknown or of another type.
    """
    unknown = set(data.schema.names) - {"key", "value", "timestamp", "headers"}
    if unknown or "value" not in data.schema.names:
        raise InvalidTypeError(
            "records of a log have the columns value, key, timestamp and headers, of which only value has to be "
            f"there; these have {', '.join(data.schema.names)}"
        )
    columns = [
        _timestamps(data, now),
        _as_binary(data, "key"),
        _as_binary(data, "value"),
    ]
    if "headers" not in data.schema.names or data.column("headers").null_count == data.num_rows:
        return pa.record_batch(columns, schema=STORED)
    headers = _cast(data.column("headers"), "headers", HEADERS)
    return pa.record_batch([*columns, headers], schema=STORED.append(HEADERS_FIELD))


def to_records(partition: TopicPartition, batch: pa.RecordBatch) -> list[ConsumerRecord]:
    """The records in columns of :data:`FETCHED`."""
    headers = batch.column("headers")
    columns = (
        repeat(partition.topic, batch.num_rows),
        repeat(partition.partition, batch.num_rows),
        batch.column("offset").to_numpy().tolist(),
        batch.column("timestamp").view(pa.int64()).to_numpy().tolist(),
        _bytes(batch.column("key")),
        _bytes(batch.column("value")),
        repeat((), batch.num_rows) if headers.null_count == len(headers) else map(_header_pairs, headers.to_pylist()),
    )
    make = partial(tuple.__new__, ConsumerRecord)  # what its _make does, without a frame for each
    with _without_collector():
        return list(map(make, zip(*columns, strict=True)))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Have no garbage looked for: to look through records that have just come is as much work as all else."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _bytes(column: pa.Array) -> Iterable[bytes | None]:
    """The values of a binary column."""
    if column.null_count == len(column):
        return repeat(None, len(column))
    found: list[bytes | None] = column.to_numpy(zero_copy_only=False).tolist()  # all versions of Arrow do it in C++
    return found


def _header_pairs(row: list[dict[str, Any]] | None) -> Headers:
    return tuple((each["key"], each["value"]) for each in row or ())


def with_partition(partition: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of :data:`FETCHED` as those of :data:`POLLED`."""
    zeros = pa.array(np.zeros(batch.num_rows, np.int32))
    topic = pa.DictionaryArray.from_arrays(zeros, pa.array([partition.topic]))
    number = zeros if not partition.partition else pa.array(np.full(batch.num_rows, partition.partition, np.int32))
    return pa.record_batch([topic, number, *batch.columns], schema=POLLED)


def _timestamps(data: pa.RecordBatch, now: int) -> pa.Array:
    if "timestamp" not in data.schema.names:
        return pa.array(np.full(data.num_rows, now, np.int64)).cast(TIMESTAMP)
    column = data.column("timestamp")
    if pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, unit="millisecond") if column.type.unit in ("us", "ns") else column
        column = column.cast(pa.timestamp(column.type.unit))  # without a time zone: it is in UTC as it is
    column = _cast(column, "timestamp", TIMESTAMP)
    return column if not column.null_count else column.fill_null(pa.scalar(now, TIMESTAMP))


def _as_binary(data: pa.RecordBatch, name: str) -> pa.Array:
    if name not in data.schema.names:
        return pa.nulls(data.num_rows, pa.binary())
    return _cast(data.column(name), name, pa.binary())


def _cast(column: pa.Array, name: str, to: pa.DataType) -> pa.Array:
    try:
        return column.cast(to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidTypeError(
            f"column {name} of records of a log is {column.type}, which is no {to}: {error}"
        ) from error
