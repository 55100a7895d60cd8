"""The task's half of the file source: files that can be skipped, and fields that say which file a record is from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.columns import layout_of
from headrace.common.errors import CorruptFileError, SourceChangedError
from headrace.common.logs import get_logger
from headrace.common.messages import row_type
from headrace.common.typeinfo import Types
from headrace.common.typeinfo.composite import declares_changes
from headrace.connectors.file_system.paths import InputPaths, unreadable
from headrace.connectors.incoming_messages import columns_of, fields_of
from headrace.connectors.source import SourceReader, SourceRecords
from headrace.formats.file_format import Decoded, FileRange
from headrace.metrics.own_names import FILES_CORRUPT, FILES_MISSING
from headrace.storage.files import FileStatus, InputFile, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.source import Json, ReaderContext
    from headrace.formats.file_format import FileFormat
    from headrace.storage.files import FileStore


GONE: Final = (FileNotFoundError, NotADirectoryError)
"""What is raised for a file that is not there."""

logger = get_logger(__name__)

_WHERE: Final = "on the builder of the FileSource"


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """A file, or the rest of one, that the source goes on without.

    Attributes:
        path: the file.
        counter: what counts it.
        reason: what is wrong with it.
    """

    path: str
    counter: str
    reason: str

    def to_json(self) -> Json:
        """For the reader, when it was the enumerator that met it."""
        return [self.counter, self.reason]

    def records(self, *, reject: bool) -> SourceRecords:
        """What the job hears of it; a record too when ``reject`` says that there is a dead-letter output."""
        rejected = [(shown(self.path), "", self.reason)] if reject else []
        return SourceRecords(rows=[], rejected=rejected, counters={self.counter: 1})


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What the source can do without.

    Attributes:
        missing: files that were deleted before they were read.
        corrupt: what cannot be read of damaged files.
    """

    missing: bool = False
    corrupt: bool = False

    def loss(self, path: str, error: Exception) -> SkippedRange:
        """What is lost when the source goes on after ``error``; that it does is logged.

        Args:
            path: the file.
            error: why it cannot be read (any further): a ``CorruptFileError``, or one of :data:`GONE`.

        Raises:
            CorruptFileError: when the source must not go on.
            SourceChangedError: likewise.
        """
        found = self._corrupt(path, error) if isinstance(error, CorruptFileError) else self._missing(path, error)
        logger.warning("what cannot be read of %s is skipped: %s", shown(path), found.reason)
        return found

    def _corrupt(self, path: str, error: CorruptFileError) -> SkippedRange:
        if not self.corrupt:
            raise CorruptFileError(
                f"{error}. To go on without what cannot be read of such files, call ignore_corrupt_files() {_WHERE}"
            ) from error
        return SkippedRange(path, FILES_CORRUPT, str(error))

    def _missing(self, path: str, error: Exception) -> SkippedRange:
        if not self.missing:
            raise SourceChangedError(
                f"{shown(path)} was deleted before it was read to its end. Put it back as it was, or, to go on without "
                f"such files, call ignore_missing_files() {_WHERE}"
            ) from error
        return SkippedRange(path, FILES_MISSING, "the file was deleted before it was read to its end")


STRICT: Final = Tolerance()
"""Every file has to be read to its end."""


class FileReader(SourceReader):
    """Reads parts of files and sees to it that they are the files that were planned.

    Args:
        fmt: the format of the files.
        tolerance: what the source can do without.
        reject: whether to hand over bad records instead of failing.
        metadata: the fields that tell of which file a record is, if there are any.
    """

    def __init__(
        self, fmt: FileFormat, tolerance: Tolerance, *, reject: bool, metadata: FileMetadata | None = None
    ) -> None:
        self._metadata = metadata
        self._format = fmt
        self._tolerance = tolerance
        self._reject = reject
        self._paths = InputPaths((), {})

    def open(self, context: ReaderContext) -> None:
        self._paths = InputPaths((), context.storage_options)

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for path, size, mtime_ns, start, end, *lost in piece:
            if lost:
                yield SkippedRange(path, *lost[0]).records(reject=self._reject)
            else:
                file = InputFile(self._paths.store_of(path), path, size)
                yield from self._read_file(FileStatus(path, size, mtime_ns), FileRange(file, start, end))

    def _read_file(self, planned: FileStatus, part: FileRange) -> Iterator[SourceRecords]:
        for decoded in self._decoded(planned, part):
            if isinstance(decoded, Exception):
                yield self._tolerance.loss(planned.path, decoded).records(reject=self._reject)
                continue
            columns, rows = decoded.columns, decoded.rows
            if columns is None and rows is None:
                rows = []
            elif self._metadata is not None:
                columns, rows = self._metadata.added(columns, rows, planned), None
            yield SourceRecords(columns=columns, rows=rows, rejected=decoded.rejected)

    def _decoded(self, planned: FileStatus, part: FileRange) -> Iterator[Decoded | Exception]:
        """The records of a file that is as it was planned; in their place, what is wrong with it where it is not."""
        store = part.file.store
        try:
            check_unchanged(store, planned)
            for decoded in self._format.read(part, reject=self._reject):
                if decoded.damage is None:
                    yield decoded
                else:
                    check_unchanged(store, planned)
                    yield decoded.damage
            self._check_after(store, planned)
        except GONE as error:
            yield error
        except (CorruptFileError, OSError) as error:
            check_unchanged(store, planned)  # that it was changed meanwhile says more
            if not isinstance(error, CorruptFileError):
                raise unreadable(planned.path, error) from error
            yield error

    def _check_after(self, store: FileStore, planned: FileStatus) -> None:
        try:
            check_unchanged(store, planned)
        except FileNotFoundError:
            if not self._tolerance.missing:
                raise  # were the epoch to run again, it would be lost


def check_unchanged(store: FileStore, planned: FileStatus) -> None:
    """Refuse a file that is not the one that was planned.

    Raises:
        FileNotFoundError: when it is gone.
        SourceChangedError: naming the file and what changed.
    """
    now = store.status(planned.path)
    if now is None:
        raise FileNotFoundError(planned.path)
    path = shown(planned.path)
    if now.size != planned.size:
        raise SourceChangedError(f"{path} had {planned.size} bytes when it was seen and has {now.size} now")
    if now.mtime_ns != planned.mtime_ns:
        raise SourceChangedError(f"{path} was written to after it was seen")


METADATA: Final[Mapping[str, TypeInformation]] = {
    "file.path": Types.STRING(),
    "file.name": Types.STRING(),
    "file.size": Types.LONG(),
    "file.modification-time": Types.TIMESTAMP_LTZ(),
}
"""What is known about a file, by the names that Flink's SQL has for it, and the types of such fields."""

_VALUES: Final[Mapping[str, Callable[[FileStatus], str | int]]] = {
    "file.path": lambda status: shown(status.path),
    "file.name": lambda status: status.path.rsplit("/", 1)[-1],
    "file.size": lambda status: status.size,
    "file.modification-time": lambda status: status.mtime_ns // 1000,
}
"""The same in the form that Arrow stores."""


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """Fields that tell of which file a record is.

    Attributes:
        record_type: the type of the records without them.
        fields: the metadata that each holds, by name of the field.
        produced_type: the type of the records with them.
    """

    record_type: TypeInformation
    fields: Mapping[str, str]
    produced_type: TypeInformation

    @staticmethod
    def of(record_type: TypeInformation, fields: Mapping[str, str]) -> FileMetadata:
        """Records of a type, and behind their fields those of metadata.

        Raises:
            InvalidProgramError: when two fields have one name.
        """
        every = fields_of(record_type) + [(field, METADATA[name]) for field, name in fields.items()]
        changelog = declares_changes(record_type)
        kind = row_type(every, "give set_metadata({'another name': ...})", changelog=changelog)
        return FileMetadata(record_type, dict(fields), kind)

    def added(self, columns: pa.RecordBatch | None, rows: list[Any] | None, status: FileStatus) -> pa.RecordBatch:
        """Records of a file, which are columns or rows, with the fields that tell of it."""
        arrays = columns_of(columns, rows, self.record_type)
        told = [_repeated(name, status, len(arrays[0])) for name in self.fields.values()]
        count = len(fields_of(self.record_type))
        schema = layout_of(self.produced_type).schema
        return pa.RecordBatch.from_arrays([*arrays[:count], *told, *arrays[count:]], schema=schema)


def _repeated(name: str, status: FileStatus, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(_VALUES[name](status), METADATA[name].storage_type), count)
