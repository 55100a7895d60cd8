"""``FileSource``: records from files, once or as they appear."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Self

import pyarrow as pa

from headrace.common.builder import Builder
from headrace.common.call_site import warn_caller
from headrace.common.columns import layout_of
from headrace.common.config_options import ConfigOption, positive_duration
from headrace.common.errors import CorruptFileError, InvalidProgramError, InvalidTypeError, expect, refused, uncalled
from headrace.common.messages import chosen_metadata, columns_of, fields_of, row_type
from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration, to_millis
from headrace.common.type_variables import T, T_co
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.typeinfo.composite import declares_changes
from headrace.connectors.datasets import LineageDataset, file_dataset
from headrace.connectors.file_system.enumerator import FileEnumerator
from headrace.connectors.file_system.paths import (
    GONE,
    READ_ALL,
    FileSelection,
    InputPaths,
    SkipPolicy,
    check_unchanged,
    resolved,
    skipped_records,
    unreadable,
)
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    Json,
    ReaderContext,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
)
from headrace.formats.file_format import BulkFormat, Decoded, FileFormat, FileRange
from headrace.storage.files import FileStatus, InputFile, shown
from headrace.storage.locations import usual_spelling


class FileReader(SourceReader):
    """Reads parts of files and sees to it that they are the files that were planned.

    Args:
        fmt: the format of the files.
        skip_policy: what the source goes on without.
        reject: whether to hand over bad records instead of failing.
        metadata: the fields that tell of which file a record is, if there are any.
    """

    def __init__(
        self, fmt: FileFormat, skip_policy: SkipPolicy, *, reject: bool, metadata: FileMetadata | None = None
    ) -> None:
        self._metadata = metadata
        self._format = fmt
        self._skip_policy = skip_policy
        self._reject = reject
        self._paths = InputPaths((), {})

    def open(self, context: ReaderContext) -> None:
        self._paths = InputPaths((), context.storage_options)

    def read(self, piece: Json) -> Iterator[SourceRecords]:
        for path, size, mtime_ns, start, end, *skipped in piece:
            if skipped:
                yield skipped_records(path, skipped[0], reject=self._reject)
                continue
            planned, file = FileStatus(path, size, mtime_ns), InputFile(self._paths.store_of(path), path, size)
            for decoded in self._decoded(planned, FileRange(file, start, end)):
                if isinstance(decoded, Exception):
                    yield skipped_records(path, self._skip_policy.skip(path, decoded), reject=self._reject)
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
            try:
                check_unchanged(store, planned)
            except FileNotFoundError:
                if not self._skip_policy.missing:
                    raise  # were the epoch to run again, it would be lost
        except GONE as error:
            yield error
        except (CorruptFileError, OSError) as error:
            check_unchanged(store, planned)  # that it was changed meanwhile says more
            if not isinstance(error, CorruptFileError):
                raise unreadable(planned.path, error) from error
            yield error


METADATA: Final[Mapping[str, TypeInformation]] = {
    "file.path": Types.STRING(),
    "file.name": Types.STRING(),
    "file.size": Types.LONG(),
    "file.modification-time": Types.TIMESTAMP_LTZ(),
}
"""The metadata of a file, by the names of Flink's SQL, and their types."""

_VALUES: Final[Mapping[str, Callable[[FileStatus], str | int]]] = {
    "file.path": lambda status: shown(status.path),
    "file.name": lambda status: status.path.rsplit("/", 1)[-1],
    "file.size": lambda status: status.size,
    "file.modification-time": lambda status: status.mtime_ns // 1000,
}
"""The values of the metadata as Arrow stores them."""


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
        metadata = [_repeated(name, status, len(arrays[0])) for name in self.fields.values()]
        count = len(fields_of(self.record_type))
        schema = layout_of(self.produced_type).schema
        return pa.RecordBatch.from_arrays([*arrays[:count], *metadata, *arrays[count:]], schema=schema)


def _repeated(name: str, status: FileStatus, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(_VALUES[name](status), METADATA[name].storage_type), count)


_DEFAULT_HORIZON = Duration.of_days(7)


@dataclass(frozen=True, slots=True)
class FileEnumeratorProvider:
    """Tells whether files are cut, under PyFlink's name.

    Attributes:
        splittable: whether the files of a format that can be cut are.

    Examples:
        >>> from headrace.datastream.connectors import FileEnumeratorProvider, FileSource, StreamFormat
        >>> lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in")
        >>> _ = lines.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
    """

    splittable: bool = True

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Cut files where their format allows it; the default."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Leave every file whole: it is read by one task in one epoch."""
        return FileEnumeratorProvider(False)


@dataclass(frozen=True, slots=True)
class FileSplitAssignerProvider:
    """PyFlink's name for what assigns parts of files to tasks; here the planner does it.

    Examples:
        >>> from headrace.datastream.connectors.file_system import FileSplitAssignerProvider
        >>> FileSplitAssignerProvider.locality_aware_split_assigner()
        FileSplitAssignerProvider()
    """

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Flink's default: parts of a file are read where they are stored."""
        return FileSplitAssignerProvider()


class FileSource(Source[T_co]):
    r"""Reads files, all of them as one split: in a fixed order, which gives event time an order as well.

    A path is a file, a folder (with the folders in it) or a pattern such as ``/data/*/part-*.csv``; the URI of an
    object store (``s3://bucket/data/*.csv``) is one, too. Hidden files, whose
    names start with ``.`` or ``_``, are left out. Files ending in ``.gz``, ``.bz2``, ``.zst``, ``.lz4`` or ``.xz``
    are decompressed; such a file is read by one task in one epoch.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource, StreamFormat
        >>> _ = Path("orders.txt").write_text("tea\ncake\n")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "orders.txt").build()
        >>> lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        >>> lines.execute_and_collect(limit=10)
        ['tea', 'cake']
    """

    gives_timestamps = False
    reads_in_pieces = True
    dead_letter: OutputTag | None = None

    def __init__(
        self,
        fmt: FileFormat[T_co],
        selection: FileSelection,
        watch: tuple[int, int] | None = None,
        dead_letter: OutputTag | None = None,
        skip_policy: SkipPolicy = READ_ALL,
        *,
        splittable: bool = True,
        metadata: FileMetadata | None = None,
    ) -> None:
        self._metadata = metadata
        self._format = fmt
        self._selection = selection
        self._watch = watch
        self.dead_letter = dead_letter
        self._skip_policy = skip_policy
        self._splittable = splittable

    @staticmethod
    def for_record_stream_format(stream_format: FileFormat[T], *paths: str | os.PathLike[str]) -> FileSourceBuilder[T]:
        """Begin a source of files that are read as streams: text, CSV, lines of JSON."""
        return FileSourceBuilder(stream_format, *paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat[T], *paths: str | os.PathLike[str]) -> FileSourceBuilder[T]:
        """Begin a source of files that are read in batches of columns: Parquet."""
        return FileSourceBuilder(bulk_format, *paths)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._watch is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def produced_type(self) -> TypeInformation[T_co]:
        return self._format.produced_type if self._metadata is None else self._metadata.produced_type

    @property
    def locations(self) -> tuple[str, ...]:
        return tuple(map(shown, self._selection.paths))

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return tuple(map(file_dataset, self.locations))

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return FileEnumerator(
            self._selection, self._format, self._watch, context, self._skip_policy, splittable=self._splittable
        )

    def create_reader(self) -> SourceReader:
        return FileReader(self._format, self._skip_policy, reject=self.dead_letter is not None, metadata=self._metadata)

    def __repr__(self) -> str:
        return f"FileSource({', '.join(self._selection.paths)})"


MONITOR_INTERVAL: Final = ConfigOption[int | None](
    "source.monitor-interval",
    positive_duration,
    None,
    "How often to look for new files; without it those are read that are there when the job first starts.",
)


class FileSourceBuilder(Builder, Generic[T_co]):
    """Puts a :class:`FileSource` together.

    Raises:
        InvalidProgramError: when no path is given.
        InvalidTypeError: when the first argument is no format.
        UnsupportedOperationError: when a path is on a file system of another kind than those that are supported.

    Examples:
        >>> from headrace.common import Duration
        >>> from headrace.datastream import OutputTag
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.json import JsonLinesFormat
        >>> builder = FileSource.for_record_stream_format(JsonLinesFormat({"id": int, "name": str}), "/data/users")
        >>> _ = builder.monitor_continuously(Duration.of_seconds(10)).set_dead_letter(OutputTag("bad"))
        >>> source = builder.build()
    """

    def __init__(self, fmt: FileFormat[T_co], *paths: str | os.PathLike[str]) -> None:
        if not isinstance(fmt, FileFormat):
            text = f"a FileSource takes a format, and then the paths, not {fmt!r} first{uncalled(fmt, FileFormat)}"
            raise refused(text, InvalidTypeError)
        if not paths:
            raise InvalidProgramError("a FileSource needs at least one path")
        super().__init__()
        self._format = fmt
        self._paths = tuple(map(usual_spelling, map(resolved, paths)))
        self._metadata: dict[str, str] = {}
        self._accepts: Callable[[str], bool] | None = None
        self._limit: int | None = None

    def monitor_continuously(
        self,
        discovery_interval: Duration | datetime.timedelta | int,
        horizon: Duration | datetime.timedelta | int = _DEFAULT_HORIZON,
    ) -> Self:
        """Keep looking for new files; the source never ends.

        Files must be complete when they become visible: write under a name that starts with a dot, then rename.

        Args:
            discovery_interval: how often to look (milliseconds when an ``int``).
            horizon: how much older than the newest file seen a file may be (by modification time) when it appears.
                Files that were read are remembered that long. What is there at the very start is read whatever its age.

        Raises:
            InvalidProgramError: when one of the two is not above 0.
        """
        watch = to_millis(discovery_interval), to_millis(horizon)
        if min(watch) <= 0:
            raise InvalidProgramError("monitor_continuously needs an interval and a horizon above 0")
        return self._set(watch=watch)

    def process_static_file_set(self) -> Self:
        """Read the files that are there when the job first starts, then end. This is the default."""
        return self._set(watch=None)

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> Self:
        """Choose whether files may be cut."""
        return self._set(splittable=file_enumerator.splittable)

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> Self:
        """Accepted for PyFlink's sake, with a warning: the planner assigns the parts of files to tasks."""
        expect(split_assigner, FileSplitAssignerProvider, "set_split_assigner")
        warn_caller("set_split_assigner has no effect: the planner assigns the parts of files to tasks")
        return self

    def set_dead_letter(self, output_tag: OutputTag) -> Self:
        """Send what cannot be read to a side output, as ``(where, raw, reason)``, and go on; else it fails the job.

        That is for records. What is lost of whole files appears there too, when the source may go on without it:
        :meth:`ignore_missing_files`, :meth:`ignore_corrupt_files`.
        """
        return self._set_a(OutputTag, "set_dead_letter", dead_letter=output_tag)

    def ignore_missing_files(self) -> Self:
        """Go on without files that were deleted before they were read; else one fails the job.

        Each is logged, counted in ``numFilesMissing``, and a record of the dead-letter output if there is one. Which
        part of a file is lost that is deleted while it is read depends on timing.
        """
        return self._skip(missing=True)

    def ignore_corrupt_files(self) -> Self:
        """Go on without what cannot be read of damaged files; else one fails the job.

        Those are compressed files that are damaged or cut short, Parquet files likewise (or of another kind, or without
        the columns), and CSV files with another header. The records before the damage are kept, and in a Parquet file
        those of later row groups. What is lost is logged, counted in ``numFilesCorrupt``, and a record of the
        dead-letter output if there is one; each task that meets the damage of a shared file reports it.
        """
        return self._skip(corrupt=True)

    def _skip(self, **faults: bool) -> Self:
        return self._set(skip_policy=replace(self._given.get("skip_policy", READ_ALL), **faults))

    def set_metadata(self, metadata: Mapping[str, str] | Sequence[str]) -> FileSourceBuilder:
        """Have records tell which file they are of.

        They are rows then: the fields of the record (one called ``value`` where it has none), and behind them those
        of the metadata, which are ``file.path``, ``file.name``, ``file.size`` (bytes) and ``file.modification-time``.

        Args:
            metadata: names of metadata, or fields by name and the metadata that each holds.

        Raises:
            InvalidProgramError: when there is no such metadata; from :meth:`build`, when two fields have one name.
        """
        self._metadata = chosen_metadata(metadata, METADATA, "files")
        return self

    def set_limit(self, limit: int) -> Self:
        """End when at least so many records were read, as soon as that is known."""
        self._limit = limit
        return self

    def set_path_filter(self, accepts: Callable[[str], bool]) -> Self:
        """Read only those of the files whose absolute path, or URI, a function accepts."""
        self._accepts = accepts
        return self

    def build(self) -> FileSource[T_co]:
        """The source.

        A format that takes its type from a file looks at one now; where that is on an object store, credentials come
        from the environment, as the job and its options are not known yet.

        Raises:
            InvalidTypeError: when the files have to tell the type of the records but do not.
            InvalidProgramError: when two fields have one name.
        """
        try:
            fmt = self._format.resolve(self._find)
        except InvalidTypeError as error:
            raise InvalidTypeError(f"{', '.join(map(shown, self._paths))}: {error}") from None
        metadata = FileMetadata.of(fmt.produced_type, self._metadata) if self._metadata else None
        return FileSource(fmt, FileSelection(self._paths, self._accepts, self._limit), metadata=metadata, **self._given)

    def _find(self) -> list[InputFile]:
        paths = InputPaths(self._paths, {}, self._accepts)
        return [InputFile(paths.store_of(found.path), found.path, found.size) for found in paths.find()]
