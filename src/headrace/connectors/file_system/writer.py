"""The task's half of the file sink, and what its files are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from headrace.common.arguments import expect
from headrace.common.errors import InvalidProgramError
from headrace.connectors.file_system.buckets import check_bucket
from headrace.connectors.file_system.staging import Chunk, ChunkName, Part, PartForm
from headrace.connectors.sink import SinkWriter, encode_or_reject
from headrace.formats.encoders import BYTES, BatchEncoder, FileKind, encode_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.serialization import Encoder
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.file_system.buckets import BucketAssigner
    from headrace.connectors.file_system.staging import Staging
    from headrace.connectors.sink import Json, Reject, WriterContext, WriterEpoch
    from headrace.formats.encoders import BulkWriterFactory
    from headrace.storage.file_system import StagedFile


class _OpenPart(ABC):
    """A file that is being written."""

    def __init__(self, file: StagedFile) -> None:
        self.file = file

    @property
    def can_be_joined(self) -> bool:
        """Whether the file may become part of a larger one."""
        return True

    @abstractmethod
    def write(self, batch: Batch) -> None: ...

    def finish(self) -> tuple[int, str]:
        """Make the file complete and durable; gives its size and the digest of its content."""
        return self.file.finish()


class _RowPart(_OpenPart):
    def __init__(self, file: StagedFile, encoder: Encoder, header: bytes, reject: Reject | None) -> None:
        super().__init__(file)
        self._encode = partial(encode_records, encoder)
        self._reject = reject
        self.file.write(header)

    def write(self, batch: Batch) -> None:
        self.file.write(b"".join(encode_or_reject(self._encode, batch, self._reject)))


class _BulkPart(_OpenPart):
    def __init__(self, file: StagedFile, factory: BulkWriterFactory, input_type: TypeInformation) -> None:
        super().__init__(file)
        self._writer = factory.create(cast("BinaryIO", self.file), input_type)

    @property
    def can_be_joined(self) -> bool:
        return self._writer.can_be_joined

    def write(self, batch: Batch) -> None:
        self._writer.add_batch(batch)

    def finish(self) -> tuple[int, str]:
        self._writer.finish()
        return super().finish()


@dataclass(frozen=True, slots=True)
class FileParts:
    """How the files of a sink are written.

    Attributes:
        encoder: writes records, of row formats, and of bulk formats whose files may be joined; None for others.
        bulk: for bulk formats; None for row formats.
        config: what they are called.
        is_complete: whether every chunk is a file of its own, and so begins as one.
        are_joined: whether files are made of several chunks.
    """

    encoder: Encoder | None
    bulk: BulkWriterFactory | None
    config: OutputFileConfig
    is_complete: bool
    are_joined: bool

    def takes_changes(self, input_type: TypeInformation) -> bool:
        """Whether what is written shows what rows do in a changelog."""
        if self.bulk is not None:
            return self.bulk.takes_changes(input_type)
        return self.encoder.takes_changes if isinstance(self.encoder, BatchEncoder) else True

    def open(self, file: StagedFile, input_type: TypeInformation, reject: Reject | None) -> _OpenPart:
        """Begin a file; ``reject`` is told of records that the encoder fails on, if there is somebody to be told."""
        if self.encoder is None:
            assert self.bulk is not None, "there is one of both"
            return _BulkPart(file, self.bulk, input_type)
        return _RowPart(file, self.encoder, self._header(input_type) if self.is_complete else b"", reject)

    def form(self, input_type: TypeInformation) -> PartForm:
        """What the manifest has to know of them."""
        header = b"" if self.is_complete else self._header(input_type)
        kind = self._kind(input_type) if self.are_joined else None
        return PartForm(self.config.part_prefix, self.config.get_part_suffix(), header, kind)

    def _kind(self, input_type: TypeInformation) -> FileKind | None:
        if self.encoder is None:
            assert self.bulk is not None, "there is one of both"
            return self.bulk.file_kind(input_type)
        return FileKind.of(BYTES, f"{type(self.encoder).__module__}.{type(self.encoder).__qualname__}")

    def _header(self, input_type: TypeInformation) -> bytes:
        return self.encoder.header(input_type) if isinstance(self.encoder, BatchEncoder) else b""


class FileSinkWriter(SinkWriter):
    """Writes one hidden file per bucket.

    Args:
        context: which subtask this is.
        staging: where files are.
        assigner: which bucket a record goes to.
        parts: how files are written.
    """

    def __init__(self, context: WriterContext, staging: Staging, assigner: BucketAssigner, parts: FileParts) -> None:
        self._context = context
        self._staging = staging
        self._assigner = assigner
        self._files = parts
        self._form = parts.form(context.input_type)
        self._open: dict[str, _OpenPart] = {}

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._epoch = epoch

    def write(self, batch: Batch) -> None:
        if not len(batch):
            return
        buckets = self._assigner.bucket_ids(batch, self._epoch.processing_time)
        if isinstance(buckets, str):
            self._part(buckets).write(batch)
            return
        names, which = np.unique(np.array(buckets, dtype=object), return_inverse=True)
        for index, bucket in enumerate(names.tolist()):
            self._part(bucket).write(batch.filter(which == index))

    def _part(self, bucket: str) -> _OpenPart:
        part = self._open.get(bucket)
        if part is None:
            context = self._context
            file = self._staging.begin_chunk(
                check_bucket(bucket), self._epoch.number, context.generation, context.subtask
            )
            part = self._open[bucket] = self._files.open(file, context.input_type, context.reject)
        return part

    def prepare_commit(self) -> Sequence[Json]:
        parts = [self._finish(bucket, part) for bucket, part in sorted(self._open.items())]
        self._staging.tree.make_durable(self._staging.hidden(part.bucket, part.chunks[0].name) for part in parts)
        self._open.clear()
        return [part.to_json() for part in parts]

    def _finish(self, bucket: str, part: _OpenPart) -> Part:
        context, epoch = self._context, self._epoch
        size, digest = part.finish()
        name = ChunkName(epoch.number, context.generation, context.subtask, epoch.processing_time, digest)
        self._staging.tree.keep(part.file, self._staging.hidden(bucket, name))
        form = self._form if part.can_be_joined else replace(self._form, kind=None)
        return Part(bucket, (Chunk(name, size),), form, self._files.is_complete)

    def abort(self) -> None:
        for part in self._open.values():
            part.file.discard()
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
