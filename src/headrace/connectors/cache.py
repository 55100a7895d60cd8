"""What a job leaves of a stream for later jobs of the same program: a sink that fills a cache, a source that reads it.

The records lie in a temporary file of the driver. What an epoch reads of them goes to the tasks with the pieces of this
epoch: so they need not see the file, and the driver holds no more than what is on its way.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.common.temporary import TemporaryFolder, writing
from headrace.connectors.driver_sink import DriverSink, EncodedRecords, Receiver
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

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import EnumeratorContext, Json, ReadBudget

_SPLIT: Final = "cache"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where some records are in the file.

    Attributes:
        start: where they begin: the columns, then what they do in a changelog, then their event times.
        sizes: how many bytes each of these three takes.
        count: how many records there are.
    """

    start: int
    sizes: tuple[int, int, int]
    count: int

    @property
    def size(self) -> int:
        """How many bytes all of it takes."""
        return sum(self.sizes)


class CacheFile(Receiver):
    """The records of a stream in a temporary file of this process, which goes with this object.

    Attributes:
        places: where the records are, in the order in which they came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[_Place] = []
        self._size = 0
        with writing("cache()"):
            folder = TemporaryFolder("cache-")
            weakref.finalize(self, folder.remove)
            self._path = folder.path / "records"
            self._path.touch(0o600)

    def take(self, records: Sequence[EncodedRecords], type_: TypeInformation) -> None:
        """Writes the records behind all others; where that fails half-way, they are written again from there."""
        places, start = [], self._size
        with writing("cache()"), self._path.open("r+b") as file:
            file.seek(start)
            for part in records:
                file.writelines((part.columns, part.kinds, part.times))
                places.append(_Place(start, (len(part.columns), len(part.kinds), len(part.times)), part.count))
                start += part.size
        self.places += places
        self._size = start

    def read(self, first: int, end: int) -> list[EncodedRecords]:
        """The records at some of the places."""
        with self._path.open("rb") as file:
            return [self._read(file, place) for place in self.places[first:end]]

    @staticmethod
    def _read(file: Any, place: _Place) -> EncodedRecords:
        file.seek(place.start)
        columns, kinds, times = (file.read(size) for size in place.sizes)
        return EncodedRecords(columns, kinds, times, place.count)


class CacheSink(DriverSink):
    """Has a :class:`CacheFile` take the records of every complete epoch, each epoch once."""


class CachedSource(Source[Any]):
    """Reads a cache: the records with their timestamps, in the order in which they were put there.

    Args:
        file: holds the records; it stays in the driver while the source travels.
        type_info: their type.
    """

    def __init__(self, file: CacheFile, type_info: TypeInformation) -> None:
        self._file: CacheFile | None = file
        self._type = type_info

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation[Any]:
        return self._type

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        assert self._file is not None, "enumerators are made in the driver"
        return _CacheEnumerator(self._file)

    def create_reader(self) -> SourceReader:
        return _CacheReader(self._type)

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": None, "_type": self._type}

    def __repr__(self) -> str:
        return f"CachedSource({self._type})"


class _CacheEnumerator(SplitEnumerator):
    """One split of all places; a position is the number of a place."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file

    def discover(self, now: int) -> Sequence[str]:
        return (_SPLIT,)

    def initial_position(self, split_id: str) -> Json:
        return 0

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        end, records, size = position, 0, 0
        for place in self._file.places[position:]:
            records, size = records + place.count, size + place.size
            if end > position and (records > budget.records or size > budget.bytes):
                records, size = records - place.count, size - place.size
                break
            end += 1
        if end == position:
            return None
        pieces = tuple(self._file.read(*piece) for piece in cut_evenly(position, end, budget.pieces))
        return SplitRead(split_id, position, end, pieces, records=records, bytes=size)

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        left = self._file.places[position:]
        return Pending(sum(place.count for place in left), sum(place.size for place in left))

    def is_finished(self, split_id: str, position: Json) -> bool:
        return bool(position >= len(self._file.places))


class _CacheReader(SourceReader):
    def __init__(self, type_: TypeInformation) -> None:
        self._type = type_

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for part in piece:
            if part.kinds or self._type.arrow_type is None:
                yield SourceRecords(rows=part.as_rows(self._type), timestamps=part.timestamps)
            else:
                yield SourceRecords(columns=part.as_columns(self._type), timestamps=part.timestamps)
