"""``FileSink``: records into files, each exactly once."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Self

from headrace.common.builder import Builder
from headrace.common.config_options import ConfigOption
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidProgramError, expect
from headrace.common.output_tag import OutputTag
from headrace.common.serialization import Encoder
from headrace.common.type_variables import T, T_contra
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.connector import FORMAT, Connector, ConnectorContext
from headrace.connectors.datasets import LineageDataset, file_dataset
from headrace.connectors.file_system.buckets import BY_HOUR, BucketAssigner
from headrace.connectors.file_system.committer import FileCommitter, refuse_future
from headrace.connectors.file_system.overwriting import OverwritingCommitter, OverwritingPreCommit
from headrace.connectors.file_system.partition_commit import PartitionCommit
from headrace.connectors.file_system.partition_committer import (
    PartitionCommitter,
    PartitionPreCommit,
    PartitionWriter,
)
from headrace.connectors.file_system.paths import resolved
from headrace.connectors.file_system.rolling import (
    ROLLING_OPTIONS,
    Compaction,
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    FilePreCommit,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from headrace.connectors.file_system.source import MONITOR_INTERVAL, FileSourceBuilder
from headrace.connectors.file_system.staging import FileSinkWriter, PartForm, StagingArea
from headrace.connectors.sink import Committer, CommitterContext, PreCommit, Sink, SinkWriter, WriterContext
from headrace.connectors.source import Source
from headrace.formats.file_format import BulkWriterFactory, EncodedFiles
from headrace.storage.locations import HDFS


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """The beginning and the end of the names of part files.

    Attributes:
        part_prefix: the beginning, ``part`` by default.
        part_suffix: the end, ``.csv`` say; None for that of the format: ``.parquet`` for Parquet, else nothing.

    Examples:
        >>> from headrace.datastream.connectors import OutputFileConfig
        >>> names = OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".csv").build()
    """

    class OutputFileConfigBuilder(Builder):
        """Puts an :class:`OutputFileConfig` together."""

        def with_part_prefix(self, prefix: str) -> Self:
            """Prefix of the names."""
            return self._set(part_prefix=prefix)

        def with_part_suffix(self, suffix: str) -> Self:
            """Suffix of the names."""
            return self._set(part_suffix=suffix)

        def build(self) -> OutputFileConfig:
            """The configuration.

            Raises:
                InvalidProgramError: when files would be hidden or in another folder.
            """
            return OutputFileConfig(**self._given)

    part_prefix: str = "part"
    part_suffix: str | None = None

    def __post_init__(self) -> None:
        suffix = self.part_suffix or ""
        expect(self.part_prefix, str, "part_prefix")
        expect(suffix, str, "part_suffix")
        if not self.part_prefix or self.part_prefix[0] in "._":
            raise InvalidProgramError(f"the prefix {self.part_prefix!r} would make part files hidden")
        if "/" in self.part_prefix + suffix:
            raise InvalidProgramError("the prefix and the suffix of part files cannot contain '/'")

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin a configuration."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """The beginning of the names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """The end of the names; empty where it is left to the format."""
        return self.part_suffix or ""


@dataclass(frozen=True)
class Publishing:
    """The publishing of the files of a sink: when they become visible, and what they replace.

    Attributes:
        policy: decides when a file is complete.
        compaction: when and how files are compacted.
        is_whole: whether no file becomes visible before the input has ended, and then all do in one step.
        overwrites: None where files are only added. Else they replace those of the same buckets, and of these buckets,
            which is done as a whole.
        partitions: when and how buckets are committed as partitions; None where they are not.
    """

    policy: RollingPolicy
    compaction: Compaction | None = None
    is_whole: bool = False
    overwrites: tuple[str, ...] | None = None
    partitions: PartitionCommit | None = None


class FileSink(Sink[T_contra]):
    r"""Writes records into part files, in folders that a bucket assigner chooses, by default one for every hour.

    A file becomes visible under its name when all epochs in it are complete; until then what was written lies in a
    hidden folder ``.headrace-...`` below the path. A visible file is never changed again. Readers that leave out names
    with a leading dot, as Spark and headrace do, see every record exactly once. The path may be the URI of an object
    store or of HDFS.

    Raises:
        InvalidProgramError: when part files would get names that HDFS does not take.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import Encoder
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import BucketAssigner, FileSink, OutputFileConfig
        >>> sink = (
        ...     FileSink.for_row_format("out", Encoder.simple_string_encoder())
        ...     .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        ...     .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        ...     .build()
        ... )
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> _ = env.from_collection(["tea", "cake"]).sink_to(sink)
        >>> _ = env.execute("orders")
        >>> [path.read_text() for path in Path("out").glob("*.txt")]
        ['tea\ncake\n']
    """

    dead_letter: OutputTag | None = None

    def __init__(
        self,
        base: str,
        factory: BulkWriterFactory,
        publishing: Publishing,
        assigner: BucketAssigner | None = None,
        config: OutputFileConfig = OutputFileConfig(),
        dead_letter: OutputTag | None = None,
    ) -> None:
        if base.startswith(f"{HDFS}://") and ":" in config.part_prefix + config.get_part_suffix():
            raise InvalidProgramError("the prefix and the suffix of part files on HDFS cannot contain ':'")
        self._base = base
        self._assigner = assigner or BY_HOUR
        self._joins_chunks = publishing.policy.merges or publishing.compaction is not None
        if self._joins_chunks and isinstance(factory, EncodedFiles):
            factory = factory.without_header()
        self._factory = factory
        self._config = replace(config, part_suffix=factory.suffix) if config.part_suffix is None else config
        self._publishing = publishing
        self.dead_letter = dead_letter

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return (file_dataset(self._base),)

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Encoder[T]) -> RowFormatBuilder[T]:
        """Begin a sink that writes one record after the other."""
        return RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str | os.PathLike[str], writer_factory: BulkWriterFactory) -> BulkFormatBuilder:
        """Begin a sink of a format that can only be written as a whole, such as Parquet; rolls at every epoch."""
        return BulkFormatBuilder(base_path, writer_factory)

    def validate(self, input_type: TypeInformation) -> None:
        self._assigner.validate(input_type)
        self._factory.validate(input_type)

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return self._factory.takes_changes(input_type)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        kind = self._factory.file_kind(context.input_type) if self._joins_chunks else None
        header = None
        if isinstance(self._factory, EncodedFiles) and not self._factory.begins_with_header:
            header = self._factory.encoder.header(context.input_type)
        config = self._config
        form = PartForm(config.part_prefix, config.get_part_suffix(), (header or b"").decode("latin-1"), kind)
        staging = StagingArea.of_sink(self._base, context)
        writer = PartitionWriter if self.takes_watermarks else FileSinkWriter
        return writer(context, staging, self._assigner, self._factory, form, are_complete=header is None)

    def create_committer(self, context: CommitterContext) -> Committer:
        staging = StagingArea.of_sink(self._base, context)
        compaction, partitions = self._publishing.compaction, self._publishing.partitions
        tasks = 1 if compaction is None else compaction[0].num_compact_threads
        policies = () if partitions is None else partitions.policies
        kind = FileCommitter if partitions is None else PartitionCommitter
        kind = OverwritingCommitter if self._publishing.is_whole else kind
        return kind(staging, context.generation, context.run_in_tasks, tasks=tasks, policies=policies)

    def check_output(self, context: CommitterContext) -> None:
        refuse_future(StagingArea.of_sink(self._base, context), context.restored_epoch)

    @property
    def pre_commit(self) -> PreCommit | None:
        pre_commit = FilePreCommit(self._publishing.policy, self._publishing.compaction)
        overwrites, partitions = self._publishing.overwrites, self._publishing.partitions
        if self._publishing.is_whole:
            return OverwritingPreCommit(pre_commit, overwrites)
        return pre_commit if partitions is None else PartitionPreCommit(pre_commit, partitions.trigger)

    @property
    def takes_watermarks(self) -> bool:
        partitions = self._publishing.partitions
        return partitions is not None and not self._publishing.is_whole and partitions.trigger.takes_watermarks

    def __repr__(self) -> str:
        return f"FileSink({self._base!r})"


class _FileSinkBuilder(Builder, Generic[T]):
    """Puts a :class:`FileSink` together.

    Raises:
        UnsupportedOperationError: when the path is on a file system of another kind than those that are supported.
    """

    def __init__(self, base_path: str | os.PathLike[str], factory: BulkWriterFactory, policy: RollingPolicy) -> None:
        super().__init__()
        self._publishing = Publishing(policy)
        self._set(base=resolved(base_path), factory=factory)

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Choose the folder of every record."""
        return self._set_a(BucketAssigner, "with_bucket_assigner", assigner=bucket_assigner)

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepted for PyFlink's sake: whether files are complete is looked at in every epoch."""
        if interval <= 0:
            raise InvalidProgramError(f"the bucket check interval is above 0, not {interval}")
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Choose the names of files."""
        return self._set_a(OutputFileConfig, "with_output_file_config", config=output_file_config)

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
        """Put files of a bucket together, those of all subtasks, before they become visible."""
        expect(strategy, FileCompactStrategy, "enable_compact")
        expect(compactor, FileCompactor, "enable_compact")
        return self._publish(compaction=(strategy, compactor))

    def disable_compact(self) -> Self:
        """Show files as they are; those that still wait to be put together become visible with the next epoch."""
        return self._publish(compaction=None)

    def with_overwrite(self, *buckets: str) -> Self:
        """Replace the files that are there, all in one step, when the input has ended; else they stay.

        Those of the buckets that are written are replaced, and those of further ``buckets``: the empty text stands for
        the path itself.
        """
        return self._publish(is_whole=True, overwrites=buckets)

    def with_whole_output(self) -> Self:
        """Show all files in one step, when the input has ended; those that are there stay."""
        return self._publish(is_whole=True)

    def with_partition_commit(self, partition_commit: PartitionCommit) -> Self:
        """Tell readers of buckets that are complete."""
        expect(partition_commit, PartitionCommit, "with_partition_commit")
        return self._publish(partitions=partition_commit)

    def _publish(self, **changes: Any) -> Self:
        self._publishing = replace(self._publishing, **changes)
        return self

    def build(self) -> FileSink[T]:
        """The sink."""
        return FileSink(publishing=self._publishing, **self._given)


class RowFormatBuilder(_FileSinkBuilder[T]):
    """Puts a sink of a row format together; rolls by size and time by default."""

    def __init__(self, base_path: str | os.PathLike[str], encoder: Encoder[T]) -> None:
        expect(encoder, Encoder, "FileSink.for_row_format")
        super().__init__(base_path, EncodedFiles(encoder), DefaultRollingPolicy())

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Choose when a file is complete."""
        expect(rolling_policy, RollingPolicy, "with_rolling_policy")
        return self._publish(policy=rolling_policy)

    def set_dead_letter(self, output_tag: OutputTag) -> Self:
        """Send what the encoder fails on to a side output of the sink, as ``(where, raw, reason)``, and go on.

        Else such a record fails the job. The stream of them is ``stream.sink_to(sink).get_side_output(output_tag)``.
        """
        return self._set_a(OutputTag, "set_dead_letter", dead_letter=output_tag)


class BulkFormatBuilder(_FileSinkBuilder[Any]):
    """Puts a sink of a bulk format together."""

    def __init__(self, base_path: str | os.PathLike[str], writer_factory: BulkWriterFactory) -> None:
        expect(writer_factory, BulkWriterFactory, "FileSink.for_bulk_format")
        super().__init__(base_path, writer_factory, OnCheckpointRollingPolicy())

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Only rolling at every epoch is possible.

        Raises:
            InvalidProgramError: for any other policy.
        """
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            raise InvalidProgramError("files of a bulk format roll at every epoch: use on_checkpoint_rolling_policy()")
        return self

    def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
        """Compact files as for row formats, if the compactor can join files of the format.

        Raises:
            InvalidProgramError: when it cannot.
        """
        super().enable_compact(strategy, compactor)
        factory = self._given["factory"]
        if not isinstance(factory, EncodedFiles):
            _check_joins(factory, compactor)
        return self


def _check_joins(factory: BulkWriterFactory, compactor: FileCompactor) -> None:
    """Refuse what would not give files of the format."""
    is_joined = type(factory).file_kind is not BulkWriterFactory.file_kind
    what = f"files of {factory.suffix or type(factory).__name__}"
    if compactor.method == "concat":
        better = "record_wise" if is_joined else "identical"
        raise InvalidProgramError(f"{what} cannot be joined byte by byte: use FileCompactor.{better}_file_compactor()")
    if compactor.method == "record_wise" and not is_joined:
        raise InvalidProgramError(
            f"{what} cannot be joined, as their writers have no file_kind(): use "
            "FileCompactor.identical_file_compactor(), or longer epochs (headrace.epoch.target-duration) for "
            "larger files"
        )


PATH: Final = ConfigOption("path", str, "", "The folder, or for a source a file or a pattern as well.")


class FileSystemConnector(Connector):
    """Reads the files of a path; writes part files into a folder, in no folders below it."""

    required_options = (PATH, FORMAT)
    optional_options = (MONITOR_INTERVAL, *ROLLING_OPTIONS)

    def create_source(self, context: ConnectorContext) -> Source:
        self._refuse("source", context.options, ROLLING_OPTIONS)
        builder = FileSourceBuilder(context.decoding_format(), context.options.get(PATH))
        interval = context.options.get(MONITOR_INTERVAL)
        return (builder if interval is None else builder.monitor_continuously(interval)).build()

    def create_sink(self, context: ConnectorContext) -> Sink:
        options = context.options
        self._refuse("sink", options, (MONITOR_INTERVAL,))
        path, encoding = options.get(PATH), context.encoding_format()
        if isinstance(encoding, BulkWriterFactory):
            self._refuse("sink of a format that rolls at every checkpoint", options, ROLLING_OPTIONS)
            bulk = FileSink.for_bulk_format(path, encoding)
            return bulk.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
        rows = FileSink.for_row_format(path, encoding)
        policy = RollingPolicy.default_rolling_policy(*(options.get(option) for option in ROLLING_OPTIONS))
        assigner = BucketAssigner.base_path_bucket_assigner()
        return rows.with_bucket_assigner(assigner).with_rolling_policy(policy).build()

    def _refuse(self, where: str, options: Configuration, others: tuple[ConfigOption, ...]) -> None:
        """Refuse options that would have no effect."""
        given = [option.key for option in others if options.contains_key(option.key)]
        if given:
            raise ConfigurationError(f"{self}: {given[0]!r} means nothing for a {where}; leave it out")
