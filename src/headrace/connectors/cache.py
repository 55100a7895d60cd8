"""Cached streams: files that a job fills for later jobs of the same program, and the source that reads them.

The records lie in temporary files of the driver, one for each epoch. What an epoch reads of them goes to the tasks with
the pieces of this epoch: so they need not see the files, and the driver holds no more than what is on its way.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from headrace.common.durable import Permissions, TemporaryFolder, write_file, writing
from headrace.common.errors import StateError
from headrace.connectors.driver_sink import EncodedRecords, Receiver
from headrace.connectors.ranges import cut_evenly
from headrace.connectors.source import (
    Boundedness,
    Pending,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, ReadBudget

_SPLIT: Final = "cache"


@dataclass(frozen=True, slots=True)
class _CachePlace:
    """The place of some records.

    Attributes:
        file: the number of the file.
        start: where they begin in it: the columns, then what they do in a changelog, then their event times.
        sizes: how many bytes each of these three takes.
        count: how many records there are.
    """

    file: int
    start: int
    sizes: tuple[int, int, int]
    count: int

    @property
    def size(self) -> int:
        """The number of bytes of all three."""
        return sum(self.sizes)


class CacheFiles(Receiver):
    """The records of a stream in temporary files of this process, which go with this object.

    Attributes:
        places: where the records are, in the order in which they came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[_CachePlace] = []
        self._written = 0
        with writing("cache()"):
            folder = TemporaryFolder("cache-")
        weakref.finalize(self, folder.remove)
        self._folder = folder.path

    def take(self, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        """Writes the records of an epoch; a file that was not written as a whole is written again."""
        places, start = [], 0
        for part in records:
            sizes = (len(part.columns), len(part.kinds), len(part.times))
            places.append(_CachePlace(self._written, start, sizes, part.count))
            start += part.size
        chunks = [chunk for part in records for chunk in (part.columns, part.kinds, part.times)]
        with writing("cache()"):
            write_file(self._path(self._written), chunks, Permissions.OWNER, durable=False)
        self.places += places
        self._written += 1

    def read(self, first: int, end: int) -> list[EncodedRecords]:
        """The records at some of the places.

        Raises:
            StateError: when a file is not there any more, or not whole; it names the file.
        """
        found: list[EncodedRecords] = []
        for number, places in groupby(self.places[first:end], attrgetter("file")):
            try:
                with self._path(number).open("rb") as file:
                    found += [_records_at(place, file) for place in places]
            except (OSError, EOFError) as error:
                raise StateError(
                    f"what cache() has kept in {self._path(number)} cannot be read: {error}. Did something clean up "
                    "the folder of temporary files? invalidate() of the cached stream has its records made anew"
                ) from error
        return found

    def _path(self, number: int) -> Path:
        return self._folder / str(number)


def _records_at(place: _CachePlace, file: BinaryIO) -> EncodedRecords:
    file.seek(place.start)
    columns, kinds, times = (file.read(size) for size in place.sizes)
    if len(columns) + len(kinds) + len(times) < place.size:
        raise EOFError("it is cut short")
    return EncodedRecords(columns, kinds, times, place.count)


class CachedSource(Source[Any]):
    """Reads a cache: the records with their timestamps, in the order in which they were put there.

    Args:
        files: hold the records; they stay in the driver while the source travels.
        type_info: their type.
    """

    boundedness = Boundedness.BOUNDED
    reads_in_pieces = True

    def __init__(self, files: CacheFiles, type_info: TypeInformation) -> None:
        self._files: CacheFiles | None = files
        self._type = type_info

    @property
    def produced_type(self) -> TypeInformation[Any]:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        assert self._files is not None, "enumerators are made in the driver"
        return _CacheEnumerator(self._files)

    def create_reader(self) -> SourceReader:
        return _CacheReader(self._type)

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": None, "_type": self._type}

    def __repr__(self) -> str:
        return f"CachedSource({self._type})"


class _CacheEnumerator(SplitEnumerator):
    """One split of all places; a position is the number of a place."""

    def __init__(self, files: CacheFiles) -> None:
        self._files = files

    def discover(self, now: int) -> Sequence[str]:
        return (_SPLIT,)

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        end, records, size = position, 0, 0
        for place in self._files.places[position:]:
            records, size = records + place.count, size + place.size
            if end > position and (records > budget.records or size > budget.bytes):
                records, size = records - place.count, size - place.size
                break
            end += 1
        if end == position:
            return None
        pieces = tuple(self._files.read(*piece) for piece in cut_evenly(position, end, budget.pieces))
        return SplitRead(split_id, position, end, pieces, records=records, bytes=size)

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        left = self._files.places[position:]
        return Pending(sum(place.count for place in left), sum(place.size for place in left))

    def is_finished(self, split_id: str, position: Json) -> bool:
        return bool(position >= len(self._files.places))


class _CacheReader(SourceReader):
    def __init__(self, type_: TypeInformation) -> None:
        self._type = type_

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for part in piece:
            if part.kinds or self._type.arrow_type is None:
                yield SourceRecords(rows=part.as_rows(self._type), timestamps=part.timestamps)
            else:
                yield SourceRecords(columns=part.as_columns(self._type), timestamps=part.timestamps)
