"""``filesystem``: tables in files, optionally in directories by partition."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, BinaryIO, Final

from headrace.common.batch import Batch
from headrace.common.config_options import ConfigOption, boolean, choice, memory_size, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot, bigint, string
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import Encoder
from headrace.common.typeinfo import CompositeTypeInfo, RowTypeInfo, TypeInformation
from headrace.connectors.file_system.buckets import NO_VALUE, BucketAssigner
from headrace.connectors.file_system.paths import IGNORE_CORRUPT, IGNORE_MISSING, InputPaths, resolved
from headrace.connectors.file_system.rolling import (
    DEFAULT_INTERVAL,
    ROLLING_OPTIONS,
    ROLLING_SIZE,
    FileCompactor,
    FileCompactStrategy,
    RollingPolicy,
)
from headrace.connectors.file_system.sink import BulkFormatBuilder, FileSink, RowFormatBuilder
from headrace.connectors.file_system.source import MONITOR_INTERVAL, FileSourceBuilder
from headrace.connectors.sink import Sink
from headrace.connectors.source import Source
from headrace.formats.file_format import BatchEncoder, BulkWriter, BulkWriterFactory, FileFormat, FileKind
from headrace.formats.statistics import ColumnStatistics, Statistics
from headrace.operators.lookup.readers import SourceTable
from headrace.storage.files import InputFile
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import ALL_TASKS, TableConnector, TableContext, naming_table
from headrace.table.connectors.formats import BoundFormat, formats_in
from headrace.table.connectors.partitions import COMMIT_OPTIONS, PathFilter, partition_commit, partitions_below, pattern
from headrace.table.connectors.picked_columns import PartitionOfPath, Pick, PickedColumns
from headrace.table.connectors.table_lookup import CACHE, FULL_OPTIONS, TableLookup, refuse_partial, reload_trigger
from headrace.table.connectors.table_sink import PARALLELISM, Staging, TableSink
from headrace.table.connectors.table_source import Partition, TableSource

_MOST_FILES: Final = 64
"""The number of files that are looked into; of more, some stand for all."""


def statistics_of_files(paths: InputPaths, reader: FileFormat) -> Statistics | None:
    """The statistics of the records in files.

    Args:
        paths: the files.
        reader: their format.

    Returns:
        What is known; None where the files say nothing, or cannot be read, which the job will tell.
    """
    try:
        files = [InputFile(paths.store_of(each.path), each.path, each.size) for each in paths.find()]
        chosen = files[:: -(-len(files) // _MOST_FILES) or 1]
        found = [reader.statistics(file) for file in chosen]
    except (HeadraceError, OSError):
        return None
    known = [each for each in found if each is not None]
    if not files or len(known) < len(found):
        return None
    size = sum(file.size for file in chosen)
    share = sum(file.size for file in files) / size if size else 1.0
    return _of_all(known, share, is_exact=len(chosen) == len(files) and all(each.is_exact for each in known))


def _of_all(parts: Sequence[Statistics], share: float, *, is_exact: bool) -> Statistics:
    """The statistics of all rows, a share of which has been looked at."""

    @cache
    def column(name: str) -> ColumnStatistics:
        return ColumnStatistics.of_all(part.column(name) for part in parts)

    return Statistics(round(sum(part.rows for part in parts) * share), column, is_exact)


PATH: Final = ConfigOption("path", str, "", "The folder, or for reading a file or a pattern as well.")
FORMAT: Final = ConfigOption("format", str, "", "The format of the files.")
PATH_PATTERN: Final = ConfigOption[re.Pattern[str] | None](
    "source.path.regex-pattern", pattern, None, "Only files are read whose whole path this regular expression matches."
)
REPORT_STATISTICS: Final = ConfigOption(
    "source.report-statistics", choice("ALL", "NONE"), "ALL", "Whether plans of batch mode take statistics from files."
)
SKIP_MISSING: Final = ConfigOption(
    IGNORE_MISSING, boolean, False, "Whether files that are deleted before they are read are left out."
)
SKIP_CORRUPT: Final = ConfigOption(
    IGNORE_CORRUPT, boolean, False, "Whether what cannot be read of damaged files is left out."
)
NO_PARTITION: Final = ConfigOption("partition.default-name", str, NO_VALUE, "The folder of rows without a value.")
CHECK_INTERVAL: Final = ConfigOption(
    "sink.rolling-policy.check-interval", positive_duration, DEFAULT_INTERVAL, "Not needed: every epoch looks."
)
AUTO_COMPACTION: Final = ConfigOption(
    "auto-compaction", boolean, False, "Whether files of an epoch are put together before they are shown."
)
COMPACTION_SIZE: Final = ConfigOption[int | None](
    "compaction.file-size", memory_size, None, "From which size on files are not put together any more."
)

_METADATA: Final[Mapping[str, LogicalType]] = {
    "file.path": string().not_null(),
    "file.name": string().not_null(),
    "file.size": bigint().not_null(),
    "file.modification-time": AtomicType(TypeRoot.TIMESTAMP_LTZ, 3, nullable=False),
}


_NO_CODE: Final = "the commit of a partition runs no code of a program; a file '_SUCCESS' says that it is complete"
_OTHER_OPTIONS: Final = {
    "scan.parallelism": ALL_TASKS,
    "sink.shuffle-by-partition.enable": "'auto-compaction' makes one file of those of all tasks",
    "sink.partition-commit.policy.class": _NO_CODE,
    "sink.partition-commit.policy.class.parameters": _NO_CODE,
    "partition.time-extractor.class": "use 'partition.time-extractor.timestamp-pattern'",
    "compaction.parallelism": "the tasks of the sink compact files; leave it out",
}


class FileSystemTables(TableConnector):
    """The connector ``filesystem``."""

    required_options = (PATH, FORMAT)
    optional_options = (
        *(MONITOR_INTERVAL, PATH_PATTERN, NO_PARTITION, AUTO_COMPACTION, COMPACTION_SIZE, PARALLELISM),
        *(REPORT_STATISTICS, SKIP_MISSING, SKIP_CORRUPT),
        *(*ROLLING_OPTIONS, CHECK_INTERVAL),
        *(CACHE, *FULL_OPTIONS, *COMMIT_OPTIONS),
    )
    other_options = _OTHER_OPTIONS

    def create_source(self, context: TableContext) -> TableSource:
        return FileTableSource(context, *self._read(context))

    def create_sink(self, context: TableContext) -> TableSink:
        return FileTableSink(context, *self._read(context))

    def _read(self, context: TableContext) -> tuple[BoundFormat, Configuration]:
        with naming_table(context):
            formats, rest = formats_in(context.options, (FORMAT.key,))
            options = self.options_of(context, rest)
            if not options.get(PATH).strip():
                raise ConfigurationError("the option 'path' is empty: say where the files are")
            fmt = formats[FORMAT.key]
            if not fmt.changelog_mode.is_insert_only:
                raise ConfigurationError(f"{fmt.plugin} is one of messages, and not of files")
        return fmt, options


@dataclass(frozen=True)
class FileTableSource(TableSource):
    """Rows of files."""

    context: TableContext
    format: BoundFormat = field(compare=False)
    options: Configuration = field(compare=False)

    @property
    def is_bounded(self) -> bool:
        return self.options.get(MONITOR_INTERVAL) is None

    @property
    def can_be_read_whole(self) -> bool:
        return self.is_bounded

    @property
    def can_project(self) -> bool:
        return self.format.plugin.can_project

    @property
    def can_filter(self) -> bool:
        return True

    @property
    def can_limit(self) -> bool:
        return True

    @cached_property
    def _statistics(self) -> Statistics | None:
        stored = self.context.type_of(self._stored)
        reader = self.format.file_reader(stored, stored)
        path, storage = resolved(self.options.get(PATH)), self.context.settings.storage_options()
        return statistics_of_files(InputPaths([path], storage, self._path_filter()), reader)

    @property
    def statistics(self) -> Statistics | None:
        reports = self.context.takes_statistics and self.options.get(REPORT_STATISTICS) == "ALL"
        return self._statistics if reports and self.is_bounded else None

    @property
    def _stored(self) -> list[str]:
        """The columns that are in the files."""
        return [name for name in self.context.columns.names if name not in self.context.partition_keys]

    @property
    def partitions(self) -> Sequence[Partition] | None:
        if not self.context.partition_keys or not self.is_bounded:
            return None
        return partitions_below(self.options.get(PATH), self.context.partition_keys, self.options.get(NO_PARTITION))

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        return _METADATA

    @property
    def summary(self) -> str:
        return f"filesystem({self.options.get(PATH)})"

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        partitions = self.context.partition_keys
        stored = self._stored
        with naming_table(self.context):
            inner = self._files(stored, dict.fromkeys((*metadata, *(["file.path"] if partitions else []))))
        places: dict[str, int] = {name: place for place, name in enumerate((*stored, *dict.fromkeys(metadata)))}
        path = len(stored) + list(dict.fromkeys((*metadata, "file.path"))).index("file.path")
        picks: list[Pick] = [
            PartitionOfPath(path, name, self.options.get(NO_PARTITION)) if name in partitions else places[name]
            for name in self.context.columns.names
        ]
        picks.extend(places[name] for name in metadata)
        known = self.context.record_type
        given = inner.produced_type
        assert isinstance(known, RowTypeInfo)
        limit = self.context.limit
        if not metadata:
            is_same = not partitions and limit is None and given == known
            return inner if is_same else PickedColumns(inner, known, picks, limit)
        assert isinstance(given, CompositeTypeInfo)
        kinds = tuple(known.types) + tuple(given.field_types[places[name]] for name in metadata)
        names = known.field_names + tuple(f"metadata {number}" for number in range(len(metadata)))
        return PickedColumns(inner, RowTypeInfo(kinds, names), picks, limit)

    can_look_up = True

    def create_lookup(self, keys: Sequence[str]) -> TableLookup:
        with naming_table(self.context):
            refuse_partial(self.options, "a table of files")
            options = Configuration(self.options)
            options.remove_config(MONITOR_INTERVAL.key)
            source = replace(self, options=options).create_source(())
            storage = tuple(self.context.settings.storage_options().items())
            return TableLookup(SourceTable(source, storage), tuple(keys), reload=reload_trigger(options))

    def _files(self, stored: Sequence[str], metadata: Mapping[str, None]) -> Source[Any]:
        declared, partitions = self.context.declared or self.context.columns, self.context.partition_keys
        in_files = self.context.type_of([name for name in declared.names if name not in partitions])
        reader = self.format.file_reader(self.context.type_of(stored), in_files)
        for condition in self.context.filters:
            reader = reader.filtered(condition.as_arrow())
        builder = FileSourceBuilder(reader, self.options.get(PATH))
        if (accepts := self._path_filter()) is not None:
            builder.set_path_filter(accepts)
        if self.context.limit is not None:
            builder.set_limit(self.context.limit)
        if metadata:
            builder.set_metadata({f"metadata {name}": name for name in metadata})
        interval = self.options.get(MONITOR_INTERVAL)
        if interval is not None:
            builder.monitor_continuously(interval)
        if self.options.get(SKIP_MISSING):
            builder.ignore_missing_files()
        if self.options.get(SKIP_CORRUPT):
            builder.ignore_corrupt_files()
        if self.format.ignores_errors:
            builder.set_dead_letter(OutputTag(f"bad records of {self.context.name}"))
        return builder.build()

    def _path_filter(self) -> PathFilter | None:
        keys, wanted = self.context.partition_keys, self.context.partitions
        pattern = self.options.get(PATH_PATTERN)
        if wanted is None and pattern is None:
            return None
        return PathFilter(pattern, keys, None if wanted is None else frozenset(wanted), self.options.get(NO_PARTITION))


@dataclass(frozen=True)
class FileTableSink(TableSink):
    """Writes rows into files, exactly once."""

    context: TableContext
    format: BoundFormat = field(compare=False)
    options: Configuration = field(compare=False)
    is_overwrite: bool = False
    staging: Staging | None = None

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return ChangelogMode.INSERT

    @property
    def parallelism(self) -> int | None:
        return self.options.get(PARALLELISM)

    def overwriting(self) -> TableSink:
        return replace(self, is_overwrite=True)

    def staged(self, staging: Staging) -> TableSink:
        return replace(self, staging=staging)

    @property
    def summary(self) -> str:
        return f"filesystem({self.options.get(PATH)})"

    def create_sink(self, metadata: Sequence[str]) -> Sink[Any]:
        partitions = self.context.partition_keys
        stored = [name for name in self.context.columns.names if name not in partitions]
        with naming_table(self.context):
            kind = self.context.type_of(stored)
            writer = self.format.file_writer(kind)
            if partitions:
                places = [self.context.columns.names.index(name) for name in stored]
                writer = _without_partitions(writer, kind, places)
            assigner = (
                BucketAssigner.field_bucket_assigner(*partitions, no_value=self.options.get(NO_PARTITION))
                if partitions
                else BucketAssigner.base_path_bucket_assigner()
            )
            return self._sink(writer, assigner)

    def _sink(self, writer: Encoder | BulkWriterFactory, assigner: BucketAssigner) -> Sink[Any]:
        path = self.options.get(PATH)
        if isinstance(writer, BulkWriterFactory):
            bulk = FileSink.for_bulk_format(path, writer).with_bucket_assigner(assigner)
            if self.options.get(AUTO_COMPACTION):
                bulk.enable_compact(self._strategy(), FileCompactor.record_wise_file_compactor())
            return self._finished(bulk)
        policy = RollingPolicy.default_rolling_policy(*(self.options.get(option) for option in ROLLING_OPTIONS))
        rows = FileSink.for_row_format(path, writer).with_bucket_assigner(assigner).with_rolling_policy(policy)
        if self.options.get(AUTO_COMPACTION):
            rows.enable_compact(self._strategy(), FileCompactor.concat_file_compactor())
        return self._finished(rows)

    def _finished(self, builder: BulkFormatBuilder | RowFormatBuilder[Any]) -> Sink[Any]:
        """The sink, which replaces the whole table or the partitions that rows come for, if it is to overwrite them."""
        if self.staging is Staging.REPLACE:
            builder.with_overwrite("")
        elif self.staging is Staging.CREATE:
            builder.with_whole_output()
        elif self.is_overwrite:
            builder.with_overwrite(*([] if self.context.partition_keys else [""]))
        commit = partition_commit(self.context, self.options)
        return (builder if commit is None else builder.with_partition_commit(commit)).build()

    def _strategy(self) -> FileCompactStrategy:
        size = self.options.get(COMPACTION_SIZE) or self.options.get(ROLLING_SIZE)
        return FileCompactStrategy.builder().set_size_threshold(size).enable_compaction_on_checkpoint(1).build()


def _without_partitions(
    writer: Encoder | BulkWriterFactory, kind: TypeInformation, places: Sequence[int]
) -> Encoder | BulkWriterFactory:
    """The writer without the partition columns, whose values are in the name of the directory."""
    if isinstance(writer, BulkWriterFactory):
        return _StoredColumns(writer, _Stored(kind, tuple(places)))
    assert isinstance(writer, BatchEncoder)
    return _StoredEncoder(writer, _Stored(kind, tuple(places)))


@dataclass(frozen=True)
class _Stored:
    """The columns that are in the files.

    Attributes:
        type: the type of the rows in the files.
        places: the positions of their columns in the rows of the table.
    """

    type: TypeInformation
    places: tuple[int, ...]

    def of(self, batch: Batch) -> Batch:
        columns = batch.columns
        return batch.replaced(self.type, columns=columns.select([columns.schema.names[each] for each in self.places]))


class _StoredEncoder(BatchEncoder):
    def __init__(self, inner: BatchEncoder, stored: _Stored) -> None:
        super().__init__()
        self._inner = inner
        self._stored = stored

    def encode_batch(self, batch: Batch) -> bytes:
        return self._inner.encode_batch(self._stored.of(batch))

    def header(self, input_type: TypeInformation) -> bytes:
        return self._inner.header(self._stored.type)

    def validate(self, input_type: TypeInformation) -> None:
        self._inner.validate(self._stored.type)


class _StoredColumns(BulkWriterFactory):
    def __init__(self, inner: BulkWriterFactory, stored: _Stored) -> None:
        self._inner = inner
        self._stored = stored

    @property
    def suffix(self) -> str:
        return self._inner.suffix

    def file_kind(self, input_type: TypeInformation) -> FileKind | None:
        return self._inner.file_kind(self._stored.type)

    def create(self, out: BinaryIO, input_type: TypeInformation) -> BulkWriter:
        return _StoredWriter(self._inner.create(out, self._stored.type), self._stored)

    def validate(self, input_type: TypeInformation) -> None:
        self._inner.validate(self._stored.type)


class _StoredWriter(BulkWriter):
    def __init__(self, inner: BulkWriter, stored: _Stored) -> None:
        self._inner = inner
        self._stored = stored

    def add_batch(self, batch: Batch) -> None:
        self._inner.add_batch(self._stored.of(batch))

    def finish(self) -> None:
        self._inner.finish()

    @property
    def can_be_joined(self) -> bool:
        return self._inner.can_be_joined
