"""``SegmentReader``: the records of segments, from the files of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from headrace.common.errors import LogCorruptedError
from headrace.common.message_headers import HEADERS
from headrace.log.records import FETCHED
from headrace.log.segments import HAS_HEADERS, HAS_OFFSETS, Segment, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.storage.folder import Folder

_SMALL_BYTES: Final = 64 << 10
"""Segments with no more are read together: to read one takes much longer than to copy what is in it."""

_TOGETHER_BYTES: Final = 4 << 20
"""How much is read together."""

_REMEMBERED_BYTES: Final = 1 << 20
"""How much of the newest commit records is kept, as who reads a commit record reads the records in it next."""


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
        for together in _together(segments):
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


def _together(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Small segments that are alike together, any other by itself."""
    together = list[Segment]()
    size = 0
    for segment in segments:
        if together and not (_are_alike(together[-1], segment) and size + segment.raw_bytes <= _TOGETHER_BYTES):
            yield together
            together, size = [], 0
        together.append(segment)
        size += segment.raw_bytes
    if together:
        yield together


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
    """What Arrow messages say, as one batch."""
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
