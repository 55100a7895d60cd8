"""Sinks that hand the records of complete epochs to the driver: to an object of the program, printed, or into a cache.

A cache is what a job leaves of a stream for later jobs of the same program. Its records lie in temporary files of the
driver, one for each epoch. What an epoch reads of them goes to the tasks with the pieces of this epoch: so they need
not see the files, and the driver holds no more than what is on its way.
"""

import contextlib
import os
import sys
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, TextIO
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, boolean
from headrace.common.durable import Permissions, TemporaryFolder, write_file, writing
from headrace.common.errors import CommitRefusedError, OutputClosedError, StateError
from headrace.common.typeinfo import TypeInformation
from headrace.common.values import TypeHandler, stream_handler_of
from headrace.connectors.connector import Connector, ConnectorContext
from headrace.connectors.ranges import cut_evenly
from headrace.connectors.sink import Committer, CommitterContext, Json, Sink, SinkWriter, WriterContext
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    FunctionReader,
    Pending,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Encoded records, which take a fraction of the memory of Python objects.

    Attributes:
        columns: they, as an Arrow message.
        kinds: what they do in a changelog, where some are no insertions and the columns do not say it; else empty.
        times: their event times, as bytes of 64-bit integers; empty if they are not requested.
        count: how many there are.
    """

    columns: bytes
    kinds: bytes
    times: bytes
    count: int

    @classmethod
    def of(cls, batch: Batch, *, with_times: bool = True) -> "EncodedRecords":
        """The records of a batch."""
        if batch.is_columnar or batch.type.arrow_type is not None:
            # The batch knows which operator made a record that does not fit.
            columns, kinds = batch.columns, batch.kinds_beside_columns
        else:
            columns, kinds = layout_of(batch.type).rows_to_columns_and_kinds(batch.rows)
        times = np.ascontiguousarray(batch.timestamps).tobytes() if with_times else b""
        return cls(columns.serialize().to_pybytes(), b"" if kinds is None else kinds.tobytes(), times, len(batch))

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.columns) + len(self.kinds) + len(self.times)

    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """Their event times."""
        return np.frombuffer(self.times, np.int64)

    def as_columns(self, type_: TypeInformation) -> pa.RecordBatch:
        """The records as columns, without what they do in a changelog."""
        return pa.ipc.read_record_batch(pa.py_buffer(self.columns), layout_of(type_).schema)

    def as_rows(self, type_: TypeInformation) -> list[Any]:
        """The records as Python objects."""
        layout, columns = layout_of(type_), self.as_columns(type_)
        if self.kinds:
            return layout.columns_and_kinds_to_rows(columns, np.frombuffer(self.kinds, np.int8))
        return layout.columns_to_rows(columns)


class _DriverWriter(SinkWriter):
    """Keeps what batches become until their epoch is complete."""

    def __init__(self, encode: Callable[[Batch], Any]) -> None:
        self._encode = encode
        self._kept: list[Any] = []

    def write(self, batch: Batch) -> None:
        self._kept.append(self._encode(batch))

    def prepare_commit(self) -> Sequence[Json]:
        kept, self._kept = self._kept, []
        return kept


class _Committer(Committer):
    """Hands what an epoch of a job has become to a function, once, whichever committer has done so before.

    Args:
        take: takes it, in the committer's thread; it may block to slow the job down.
        job_id: the job.
        last_epochs: the last epoch of each job that was handed over.
    """

    def __init__(self, take: Callable[[Sequence[Any]], None], job_id: str, last_epochs: dict[str, int]) -> None:
        self._take = take
        self._job_id = job_id
        self._last_epochs = last_epochs

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        if epoch > self._last_epochs.get(self._job_id, -1):
            if committables:
                self._take(committables)
            self._last_epochs[self._job_id] = epoch


_sinks: WeakValueDictionary[str, "DriverSink"] = WeakValueDictionary()
"""The sinks that this process has made, which their pickled copies find again."""


class DriverSink(Sink):
    """Hands over the records of every complete epoch, in epoch order, each epoch once.

    Within an epoch the records of a subtask keep their order. The sink may be pickled; the function stays behind.

    Args:
        take: takes the records of an epoch, and their type, in the committer's thread; it may block to slow the job
            down.

    Class attributes:
        keeps_times: whether the function takes event times.
    """

    keeps_times: ClassVar[bool] = True

    is_durable = False

    def __init__(self, take: Callable[[Sequence[EncodedRecords], TypeInformation], None]) -> None:
        self._id = uuid.uuid4().hex
        self._take = take
        self._last_epochs: dict[str, int] = {}
        _sinks[self._id] = self

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _DriverWriter(partial(EncodedRecords.of, with_times=self.keeps_times))

    def create_committer(self, context: CommitterContext) -> Committer:
        made = _sinks.get(self._id)
        if made is None:
            raise CommitRefusedError(f"a {type(self).__name__} only works in the process that made it")
        return _Committer(lambda records: made._take(records, context.input_type), context.job_id, made._last_epochs)

    def __getstate__(self) -> dict[str, Any]:
        return {"_id": self._id}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class CollectSink(DriverSink):
    """Calls a function in the driver with the records of every complete epoch, in epoch order, each epoch once.

    Args:
        receiver: takes a list of records; it is called in the committer's thread, and may block to slow the job down.
    """

    keeps_times: ClassVar[bool] = False

    def __init__(self, receiver: Callable[[list[Any]], None]) -> None:
        super().__init__(partial(_give_rows, receiver))


def _give_rows(
    receiver: Callable[[list[Any]], None], records: Sequence[EncodedRecords], type_: TypeInformation
) -> None:
    rows = [row for part in records for row in part.as_rows(type_)]
    if rows:
        receiver(rows)


IDENTIFIER: Final = ConfigOption("print-identifier", str, "", "Distinguishes several print sinks.")
STANDARD_ERROR: Final = ConfigOption("standard-error", boolean, False, "Whether to print to the standard error.")


class Print(Connector):
    """Makes the sink by its name, with the options of Flink's ``print`` connector."""

    optional_options = (IDENTIFIER, STANDARD_ERROR)

    def create_sink(self, context: ConnectorContext) -> Sink:
        return PrintSink(context.options.get(IDENTIFIER), to_stderr=context.options.get(STANDARD_ERROR))


class PrintSink(Sink[object]):
    """Prints a line for each record, when the epoch is complete.

    As in Flink the line begins with ``identifier> ``, or ``identifier:subtask> `` when several tasks write; without an
    identifier with ``subtask> ``, or with nothing when there is one task. Subtasks count from 1. Lines are printed once
    while the job lives; after a restart those of an epoch may come again or be missing.

    Records of a type that the program has declared have to fit it, and are spelled as PyFlink spells them: ``(a,1)`` is
    a tuple, ``+I[a,1]`` a row, ``-D[a,1]`` one that deletes. All others are spelled as Python does.

    Args:
        identifier: distinguishes several print sinks.
        to_stderr: whether to print to the standard error.
        is_declared: whether the program has declared the type of the records, rather than leaving it to be found out.
    """

    is_durable = False

    def __init__(self, identifier: str | None = None, *, to_stderr: bool = False, is_declared: bool = True) -> None:
        self._identifier = identifier or ""
        self._is_declared = is_declared
        self._to_stderr = to_stderr

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> SinkWriter:
        prefix = _prefix(self._identifier, context.subtask, context.parallelism)
        return _DriverWriter(partial(_printed, prefix, self.lines_of(context.input_type)))

    def lines_of(self, input_type: TypeInformation) -> Callable[[Batch], Sequence[str]]:
        """The function that prints the records of a batch as lines."""
        return partial(_spelled, stream_handler_of(input_type) if self._is_declared else None)

    def create_committer(self, context: CommitterContext) -> Committer:
        return _Committer(partial(_print, to_stderr=self._to_stderr), context.job_id, {})

    def __repr__(self) -> str:
        return f"PrintSink({self._identifier!r})"


def _prefix(identifier: str, subtask: int, parallelism: int) -> str:
    parts = [identifier] if identifier else []
    if parallelism > 1:
        parts.append(str(subtask + 1))
    return f"{':'.join(parts)}> " if parts else ""


def _spelled(handler: TypeHandler | None, batch: Batch) -> Sequence[str]:
    if handler is not None:
        handler.check(batch.rows)
    return list(map(str if handler is None else handler.printed, batch.rows))


def _printed(prefix: str, lines_of: Callable[[Batch], Sequence[str]], batch: Batch) -> str:
    """The lines of a batch, which tasks make: the driver need not know the records' classes."""
    return "".join([f"{prefix}{line}\n" for line in lines_of(batch)])


def _print(texts: Sequence[str], *, to_stderr: bool) -> None:
    # Looked up each time: tests and notebooks exchange the streams.
    stream = sys.stderr if to_stderr else sys.stdout
    try:
        if stream is not None:  # as ``print`` does it, also in what streams of programs need to have
            print(*texts, sep="", end="", file=stream, flush=True)
    except BrokenPipeError as error:
        _detach(stream)
        raise OutputClosedError("the reader of what is printed has gone") from error


def _detach(stream: TextIO) -> None:
    """Python writes what is left of a stream when it ends, and would complain; a program's own may have no file."""
    with contextlib.suppress(AttributeError, OSError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


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


class CacheFiles:
    """The records of a stream in temporary files of this process, which go with this object.

    Attributes:
        places: where the records are, in the order in which they came.
    """

    def __init__(self) -> None:
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
    def produced_type(self) -> TypeInformation:
        return self._type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        assert self._files is not None, "enumerators are made in the driver"
        return _CacheEnumerator(self._files)

    def create_reader(self) -> SourceReader:
        return FunctionReader(partial(_cached, self._type))

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": None, "_type": self._type}

    def __repr__(self) -> str:
        return f"CachedSource({self._type})"


class _CacheEnumerator(SplitEnumerator):
    """Plans one split of all places; a position is the number of a place."""

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


def _cached(kind: TypeInformation, piece: Json) -> Iterator[SourceRecords]:
    for part in piece:
        if part.kinds or kind.arrow_type is None:
            yield SourceRecords(rows=part.as_rows(kind), timestamps=part.timestamps)
        else:
            yield SourceRecords(columns=part.as_columns(kind), timestamps=part.timestamps)
