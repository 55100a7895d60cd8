"""Records of the log: as objects, as columns, and as segments of files with checksums."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import repeat
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import InvalidTypeError, LogCorruptedError, with_article
from headrace.common.messages import HEADERS, Headers, TopicPartition, headers_to_array
from headrace.storage.folder import Folder

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
"""The columns that are read of a partition."""

POLLED: Final = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *FETCHED,
    ]
)
"""The columns that a consumer gets: records of several partitions."""


class RecordMetadata(NamedTuple):
    """The place of a record in the log.

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


MAX_BYTES: Final = 16 << 20
MAX_ROWS: Final = 1 << 17
"""The most rows of a segment, which is read as a whole; more become several segments."""

_COMPRESSED_BYTES: Final = 8 << 10
"""Smaller segments are not compressed: to unpack one takes thirty times as long as to read it as it is."""

_MAGIC_BYTES: Final = 8
"""The bytes in front of the schema of an Arrow file."""


class Segment(NamedTuple):
    """Records of a partition that lie together.

    Attributes:
        base_offset: the offset of its first record, or a lower one that nothing has any more.
        end_offset: the offset behind it.
        rows: how many records; fewer than offsets where some were superseded.
        min_timestamp: the lowest in milliseconds.
        max_timestamp: the highest.
        file: the name of its file; one of the folder of chunks, or of that of commits.
        start: where it begins there.
        length: how many bytes it has.
        checksum: the CRC-32 of these.
        columns: which further columns it has: 1 for headers, 2 for offsets, which follow each other otherwise.
        raw_bytes: how many bytes keys and values have.
        compacted: up to which time it was compacted, in milliseconds; -1 if it never was.
    """

    base_offset: int
    end_offset: int
    rows: int
    min_timestamp: int
    max_timestamp: int
    file: str
    start: int
    length: int
    checksum: int
    columns: int
    raw_bytes: int
    compacted: int = -1

    def moved(self, base_offset: int) -> "Segment":
        """The same with another first offset."""
        return self._replace(base_offset=base_offset, end_offset=base_offset + self.end_offset - self.base_offset)


HAS_HEADERS: Final = 1
HAS_OFFSETS: Final = 2

Placed = tuple[TopicPartition, Segment]
"""A segment and the partition that it is of. Before a commit has given it offsets it begins at 0."""


def encode(
    pieces: Iterable[tuple[TopicPartition, pa.RecordBatch]], file: str, compression: str | None, compacted: int = -1
) -> tuple[pa.Buffer, list[Placed]]:
    """An Arrow file of records, one message for each segment.

    Args:
        pieces: the records of partitions, in the order of their offsets: columns of ``STORED``, with headers or not,
            and with offsets or not.
        file: the name of the file.
        compression: ``lz4``, ``zstd`` or None; of segments that are worth it.
        compacted: as :attr:`Segment.compacted`.

    Returns:
        The file, and its segments.
    """
    cut = [(partition, part) for partition, batch in pieces for part in _cut(batch)]
    columns = _columns_of(batch for _, batch in cut)
    schema = schema_of(columns)
    if sum(batch.nbytes for _, batch in cut) < _COMPRESSED_BYTES * len(cut):
        compression = None
    sink = pa.BufferOutputStream()
    ends = list[int]()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for _, batch in cut:
            writer.write_batch(_with_columns(batch, schema))
            ends.append(sink.tell())
    content = sink.getvalue()
    starts = [_first_message(content), *ends[:-1]]
    return content, [
        (partition, _segment(batch, content, file, (start, end), columns, compacted))
        for (partition, batch), start, end in zip(cut, starts, ends, strict=True)
    ]


def inlined(content: bytes, segments: Iterable[Placed], file: str, at: int) -> tuple[bytes, list[Placed]]:
    """The messages of an Arrow file without what is around them, and where they are in another file from ``at`` on."""
    messages, moved = list[bytes](), list[Placed]()
    for partition, segment in segments:
        messages.append(content[segment.start : segment.start + segment.length])
        moved.append((partition, segment._replace(file=file, start=at)))
        at += segment.length
    return b"".join(messages), moved


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if not rows:
        return
    per_row = max(batch.nbytes // rows, 1)
    step = max(min(MAX_ROWS, MAX_BYTES // per_row), 1)
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def _columns_of(batches: Iterable[pa.RecordBatch]) -> int:
    columns = 0
    for batch in batches:
        columns |= HAS_HEADERS * (HEADERS_FIELD.name in batch.schema.names)
        columns |= HAS_OFFSETS * (OFFSET.name in batch.schema.names)
    return columns


@cache
def schema_of(columns: int) -> pa.Schema:
    """The schema of the messages of segments that have these :attr:`Segment.columns`."""
    fields = [OFFSET] if columns & HAS_OFFSETS else []
    return pa.schema([*fields, *STORED, *([HEADERS_FIELD] if columns & HAS_HEADERS else [])])


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    columns = [
        batch.column(field.name) if field.name in names else pa.nulls(batch.num_rows, field.type) for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _first_message(content: pa.Buffer) -> int:
    reader = pa.BufferReader(content)
    reader.seek(_MAGIC_BYTES)
    pa.ipc.read_message(reader)  # the schema
    return int(reader.tell())


def _segment(
    batch: pa.RecordBatch, content: pa.Buffer, file: str, place: tuple[int, int], columns: int, compacted: int
) -> Segment:
    start, end = place
    if end - start > (1 << 31) - 1:
        raise InvalidTypeError(f"a record of {end - start} bytes is too large for a log, which takes 2 GiB at most")
    times = pc.min_max(batch.column("timestamp").cast(pa.int64()))
    base, behind = 0, batch.num_rows
    if columns & HAS_OFFSETS:
        offsets = batch.column(OFFSET.name)
        base, behind = offsets[0].as_py(), offsets[-1].as_py() + 1
    return Segment(
        base_offset=base,
        end_offset=behind,
        rows=batch.num_rows,
        min_timestamp=times["min"].as_py(),
        max_timestamp=times["max"].as_py(),
        file=file,
        start=start,
        length=end - start,
        checksum=crc32(content.slice(start, end - start)),
        columns=columns,
        raw_bytes=batch.nbytes,
        compacted=compacted,
    )


_SMALL_BYTES: Final = 64 << 10
"""Segments with no more are read together: to read one takes much longer than to copy what is in it."""

_TOGETHER_BYTES: Final = 4 << 20
"""The bytes that are read together."""

_REMEMBERED_BYTES: Final = 1 << 20
"""The bytes of the newest commit records that are kept: a reader of one reads the records in it next."""


class SegmentReader:
    """Reads segments from the files of a log.

    Args:
        folders: by the ends of their files' names, the folders that these are in.
    """

    def __init__(self, folders: Mapping[str, Folder]) -> None:
        self._folders = folders
        self._remembered = dict[str, bytes]()
        self._size = 0

    def remember(self, file: str, content: bytes) -> None:
        """Keep a file that was just read, for a while; the journal's lock is held."""
        self._size += len(content) - len(self._remembered.pop(file, b""))
        self._remembered[file] = content
        while self._size > _REMEMBERED_BYTES:
            self._size -= len(self._remembered.pop(next(iter(self._remembered))))

    def forget(self) -> None:
        """Read all files anew: others may have taken their places; the journal's lock is held."""
        self._remembered = {}
        self._size = 0

    def read(self, segments: Iterable[Segment]) -> Iterator[pa.RecordBatch]:
        """The records of segments in the order of their offsets, in the columns of ``FETCHED``; small ones together.

        Raises:
            FileNotFoundError: when a file is not there: it has been merged with others since, or was deleted.
            LogCorruptedError: when a file is damaged.
            OSError: when one cannot be read.
        """
        for together in runs_of(segments, _TOGETHER_BYTES, _are_alike):
            yield _decoded(together, [self._data(segment) for segment in together])

    def _data(self, segment: Segment) -> bytes | memoryview | pa.Buffer:
        """The bytes of a segment, if they are those that were written."""
        start, end = segment.start, segment.start + segment.length
        known = memoryview(self._remembered.get(segment.file, b""))[start:end]
        if known and crc32(known) == segment.checksum:
            return known
        folder = self._folder_of(segment)
        data = (
            folder.read_range(segment.file, start, segment.length) if _is_small(segment) else _mapped(folder, segment)
        )
        if len(data) < segment.length:
            raise LogCorruptedError(
                f"{folder.locate(segment.file)} is cut short: bytes {start} to {end} are needed, and {len(data)} of "
                "them are there"
            )
        if crc32(data) != segment.checksum:
            raise LogCorruptedError(
                f"{folder.locate(segment.file)} is damaged: bytes {start} to {end} do not have the checksum that they "
                f"were committed with (offsets {segment.base_offset} to {segment.end_offset - 1} of the partition); "
                "put the file back from a copy, or go on reading behind it"
            )
        return data

    def _folder_of(self, segment: Segment) -> Folder:
        return self._folders[segment.file.rpartition(".")[2]]


def _is_small(segment: Segment) -> bool:
    return segment.raw_bytes <= _SMALL_BYTES


def _mapped(folder: Folder, segment: Segment) -> pa.Buffer:
    """The bytes of a segment, in memory as far as they are touched; fewer where the file is cut short."""
    mapped = folder.map(segment.file)
    data = mapped.buffer.slice(segment.start, segment.length)
    mapped.fetch(segment.start, segment.start + len(data))
    return data


def runs_of(
    segments: Iterable[Segment], most_bytes: int, alike: Callable[[Segment, Segment], bool] = lambda _, __: True
) -> Iterator[list[Segment]]:
    """Segments beside each other that are alike, in runs of so many bytes at most; a larger one is a run by itself."""
    run = list[Segment]()
    size = 0
    for segment in segments:
        if run and (size + segment.raw_bytes > most_bytes or not alike(run[-1], segment)):
            yield run
            run, size = [], 0
        run.append(segment)
        size += segment.raw_bytes
    if run:
        yield run


def _are_alike(one: Segment, other: Segment) -> bool:
    return _is_small(one) and _is_small(other) and one.columns == other.columns


def _decoded(segments: Sequence[Segment], data: Sequence[bytes | memoryview | pa.Buffer]) -> pa.RecordBatch:
    """The records of segments that have the same columns."""
    columns = segments[0].columns
    batch = _messages(columns, data)
    found = list(batch.columns)
    offsets = found.pop(0) if columns & HAS_OFFSETS else pa.array(_offsets(segments, batch.num_rows))
    if not columns & HAS_HEADERS:
        found.append(pa.nulls(batch.num_rows, HEADERS))
    return pa.record_batch([offsets, *found], schema=FETCHED)


def _messages(columns: int, data: Sequence[bytes | memoryview | pa.Buffer]) -> pa.RecordBatch:
    """Read Arrow messages as one batch."""
    schema = schema_of(columns)
    if len(data) == 1:
        return pa.ipc.read_record_batch(pa.ipc.read_message(data[0]), schema)
    stream = pa.py_buffer(b"".join([schema.serialize(), *data]))
    return pa.ipc.open_stream(stream).read_all().combine_chunks().to_batches()[0]


def _offsets(segments: Sequence[Segment], rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The offsets of records that have none in their columns: those of a segment follow each other."""
    start, end = segments[0].base_offset, segments[-1].end_offset
    if end - start == rows:
        return np.arange(start, end)
    return np.concatenate([np.arange(segment.base_offset, segment.end_offset) for segment in segments])
