"""The task's half of the file sink, and what its files are called."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from headrace.common.arguments import expect
from headrace.common.errors import InvalidProgramError
from headrace.connectors.file_system.buckets import check_bucket
from headrace.connectors.file_system.staging import Part, PartChunk
from headrace.connectors.sink import SinkWriter, encode_or_reject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.connectors.file_system.buckets import BucketAssigner
    from headrace.connectors.file_system.staging import PartForm, Staging
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch
    from headrace.formats.encoders import BulkWriter, BulkWriterFactory
    from headrace.storage.file_system import StagedFile


class FileSinkWriter(SinkWriter):
    """Writes one hidden file per bucket and epoch.

    Args:
        context: which subtask this is.
        staging: where files are.
        assigner: which bucket a record goes to.
        factory: writes records into files.
        form: what becomes of the files.
        are_complete: whether each file is a part of its own, rather than a chunk of one.
    """

    def __init__(
        self,
        context: WriterContext,
        staging: Staging,
        assigner: BucketAssigner,
        factory: BulkWriterFactory,
        form: PartForm,
        *,
        are_complete: bool,
    ) -> None:
        self._context = context
        self._staging = staging
        self._assigner = assigner
        self._factory = factory
        self._form = form
        self._are_complete = are_complete
        self._open: dict[str, tuple[StagedFile, BulkWriter]] = {}

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._epoch = epoch

    def write(self, batch: Batch) -> None:
        if not len(batch):
            return
        buckets = self._assigner.bucket_ids(batch, self._epoch.processing_time)
        if isinstance(buckets, str):
            self._write(buckets, batch)
            return
        names, which = np.unique(np.array(buckets, dtype=object), return_inverse=True)
        for index, bucket in enumerate(names.tolist()):
            self._write(bucket, batch.filter(which == index))

    def _write(self, bucket: str, batch: Batch) -> None:
        context = self._context
        if bucket not in self._open:
            staging, epoch = self._staging, self._epoch.number
            file = staging.begin_chunk(check_bucket(bucket), epoch, context.generation, context.subtask)
            self._open[bucket] = file, self._factory.create(cast("BinaryIO", file), context.input_type)
        _, writer = self._open[bucket]
        encode_or_reject(writer.add_batch, batch, context.reject)

    def prepare_commit(self) -> Sequence[Json]:
        parts = [self._finish(bucket, *opened) for bucket, opened in sorted(self._open.items())]
        self._staging.tree.make_durable(self._staging.hidden(part.bucket, part.chunks[0]) for part in parts)
        self._open.clear()
        return [part.to_json() for part in parts]

    def _finish(self, bucket: str, file: StagedFile, writer: BulkWriter) -> Part:
        context, epoch = self._context, self._epoch
        writer.finish()
        size, digest = file.finish()
        chunk = PartChunk(epoch.number, context.generation, context.subtask, epoch.processing_time, digest, size)
        self._staging.tree.keep(file, self._staging.hidden(bucket, chunk))
        form = self._form if writer.can_be_joined else replace(self._form, kind=None)
        return Part(bucket, (chunk,), form, self._are_complete)

    def abort(self) -> None:
        for file, _ in self._open.values():
            file.discard()
        self._open.clear()


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """The beginning and the end of the names of part files.

    Attributes:
        part_prefix: the beginning, ``part`` unless told otherwise.
        part_suffix: the end, ``.csv`` say; None for that of the format: ``.parquet`` for Parquet, else nothing.

    Examples:
        >>> from headrace.datastream.connectors import OutputFileConfig
        >>> names = OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".csv").build()
    """

    class OutputFileConfigBuilder:
        """Puts an :class:`OutputFileConfig` together."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix: str | None = None

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Prefix of the names."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Suffix of the names."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """The configuration.

            Raises:
                InvalidProgramError: when files would be hidden or in another folder.
            """
            return OutputFileConfig(self._prefix, self._suffix)

    part_prefix: str = "part"
    part_suffix: str | None = None

    def __post_init__(self) -> None:
        expect(self.part_prefix, str, "part_prefix")
        expect(self.get_part_suffix(), str, "part_suffix")
        if not self.part_prefix or self.part_prefix[0] in "._":
            raise InvalidProgramError(f"the prefix {self.part_prefix!r} would make part files hidden")
        if "/" in self.part_prefix + self.get_part_suffix():
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

    def with_default_suffix(self, suffix: str) -> OutputFileConfig:
        """The same, with this suffix where none was chosen."""
        return replace(self, part_suffix=suffix) if self.part_suffix is None else self
