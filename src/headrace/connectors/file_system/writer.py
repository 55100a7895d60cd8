"""The task's half of the file sink."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from headrace.common.durable import append, make_folder, move, sync_folders
from headrace.connectors.file_system.buckets import check_bucket
from headrace.connectors.file_system.staging import Chunk, ChunkName, ContentDigest, Part, PartForm
from headrace.connectors.sink import SinkWriter
from headrace.formats.encoders import BatchEncoder, encode_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.serialization import Encoder
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.file_system.buckets import BucketAssigner
    from headrace.connectors.file_system.output_config import OutputFileConfig
    from headrace.connectors.file_system.staging import Staging
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch
    from headrace.formats.encoders import BulkWriterFactory

_BUFFER_BYTES = 1 << 20


class _ReopenedFile(io.RawIOBase):
    """Appends to a file.

    The file is open only while something is written to it, so that a sink with very many buckets does not need as
    many open files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written = 0
        self._buffer = bytearray()
        self._is_discarded = False

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data))
        if not self._is_discarded:
            self._buffer += view
        if len(self._buffer) >= _BUFFER_BYTES:
            self._spill()
        return view.nbytes

    def tell(self) -> int:
        return self._written + len(self._buffer)

    def _spill(self, *, durable: bool = False) -> None:
        append(self.path, self._buffer, self._written, durable=durable)
        self._written += len(self._buffer)
        self._buffer = bytearray()

    def discard(self) -> None:
        """Remove the file. Writers of formats may still want to end it when they are collected; it stays away then."""
        self._is_discarded = True
        self._buffer = bytearray()
        self.path.unlink(missing_ok=True)

    def finish(self) -> tuple[int, str]:
        """Make the file durable; gives its size and the digest of its content, both as they are on the disk."""
        self._spill(durable=True)
        digest, size = ContentDigest(), 0
        with self.path.open("rb") as file:
            while block := file.read(_BUFFER_BYTES):
                digest.update(block)
                size += len(block)
        return size, digest.text()


class _OpenPart(ABC):
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self.file = _ReopenedFile(path)

    @abstractmethod
    def write(self, batch: Batch) -> None: ...

    def finish(self) -> tuple[int, str]:
        """Make the file complete and durable; gives its size and the digest of its content."""
        return self.file.finish()


class _RowPart(_OpenPart):
    def __init__(self, path: Path, encoder: Encoder, header: bytes) -> None:
        super().__init__(path)
        self._encoder = encoder
        self.file.write(header)

    def write(self, batch: Batch) -> None:
        self.file.write(encode_records(self._encoder, batch))


class _BulkPart(_OpenPart):
    def __init__(self, path: Path, factory: BulkWriterFactory, input_type: TypeInformation) -> None:
        super().__init__(path)
        self._writer = factory.create(cast("BinaryIO", self.file), input_type)

    def write(self, batch: Batch) -> None:
        self._writer.add_batch(batch)

    def finish(self) -> tuple[int, str]:
        self._writer.finish()
        return super().finish()


@dataclass(frozen=True, slots=True)
class FileParts:
    """How the files of a sink are written.

    Attributes:
        encoder: for row formats; None for bulk formats.
        bulk: for bulk formats; None for row formats.
        config: what they are called.
        is_complete: whether every chunk is a file of its own, and so begins as one.
    """

    encoder: Encoder | None
    bulk: BulkWriterFactory | None
    config: OutputFileConfig
    is_complete: bool

    def open(self, path: Path, input_type: TypeInformation) -> _OpenPart:
        """A new file."""
        if self.bulk is not None:
            return _BulkPart(path, self.bulk, input_type)
        assert self.encoder is not None
        return _RowPart(path, self.encoder, self._header(input_type) if self.is_complete else b"")

    def form(self, input_type: TypeInformation) -> PartForm:
        """What the manifest has to know of them."""
        header = b"" if self.is_complete else self._header(input_type)
        return PartForm(self.config.part_prefix, self.config.part_suffix, header)

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
            path = self._staging.temporary(
                check_bucket(bucket), self._epoch.number, context.generation, context.subtask
            )
            make_folder(path.parent)
            part = self._open[bucket] = self._files.open(path, context.input_type)
        return part

    def prepare_commit(self) -> Sequence[Json]:
        committables = [self._finish(bucket, part) for bucket, part in sorted(self._open.items())]
        sync_folders(part.file.path.parent for part in self._open.values())
        self._open.clear()
        return committables

    def _finish(self, bucket: str, part: _OpenPart) -> Json:
        context, epoch = self._context, self._epoch
        size, digest = part.finish()
        name = ChunkName(epoch.number, context.generation, context.subtask, epoch.processing_time, digest)
        move(part.file.path, self._staging.hidden(bucket, name))
        form = self._files.form(context.input_type)
        return Part(bucket, (Chunk(name, size),), form, self._files.is_complete).to_json()

    def abort(self) -> None:
        for part in self._open.values():
            part.file.discard()
        self._open.clear()
