"""The task's half of the file sink."""

from __future__ import annotations

import hashlib
import io
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from headrace.connectors.file_system.buckets import check_bucket
from headrace.connectors.file_system.durable import make_folder, sync_folders
from headrace.connectors.file_system.staging import ChunkName
from headrace.connectors.sink import SinkWriter
from headrace.formats.encoders import BatchEncoder, encode_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.common.batch import Batch
    from headrace.common.serialization import Encoder
    from headrace.common.typeinfo import TypeInformation
    from headrace.connectors.file_system.buckets import BucketAssigner
    from headrace.connectors.file_system.staging import Staging
    from headrace.connectors.sink import Json, WriterContext
    from headrace.formats.encoders import BulkWriterFactory

_BUFFER_BYTES = 1 << 20


class _HashedFile(io.RawIOBase):
    """Appends to a file and keeps a digest of what was written.

    The file is open only while something is written to it, so that a sink with very many buckets does not need as
    many open files.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.blake2b(digest_size=8)
        self._buffer = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        view = memoryview(cast("bytes", data))
        self._digest.update(view)
        self._buffer += view
        self.size += view.nbytes
        if len(self._buffer) >= _BUFFER_BYTES:
            self._spill()
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def _spill(self, *, durable: bool = False) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(self._buffer)
            if durable:
                os.fsync(file.fileno())
        self._buffer = bytearray()

    def finish(self) -> str:
        """Make the file durable; gives the digest of its content."""
        self._spill(durable=True)
        return self._digest.hexdigest()


class _Part(ABC):
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self.file = _HashedFile(path)

    @abstractmethod
    def write(self, batch: Batch) -> None: ...

    def finish(self) -> str:
        """Make the file complete and durable; gives the digest of its content."""
        return self.file.finish()


class _RowPart(_Part):
    def __init__(self, path: Path, encoder: Encoder, header: bytes) -> None:
        super().__init__(path)
        self._encoder = encoder
        self.file.write(header)

    def write(self, batch: Batch) -> None:
        self.file.write(encode_records(self._encoder, batch))


class _BulkPart(_Part):
    def __init__(self, path: Path, factory: BulkWriterFactory, input_type: TypeInformation) -> None:
        super().__init__(path)
        self._writer = factory.create(cast("BinaryIO", self.file), input_type)

    def write(self, batch: Batch) -> None:
        self._writer.add_batch(batch)

    def finish(self) -> str:
        self._writer.finish()
        return super().finish()


@dataclass(frozen=True, slots=True)
class FileParts:
    """How the files of a sink are written.

    Attributes:
        encoder: for row formats; None for bulk formats.
        bulk: for bulk formats; None for row formats.
        with_header: whether every chunk becomes a file of its own, and so begins as one.
    """

    encoder: Encoder | None
    bulk: BulkWriterFactory | None
    with_header: bool

    def open(self, path: Path, input_type: TypeInformation) -> _Part:
        """A new file."""
        if self.bulk is not None:
            return _BulkPart(path, self.bulk, input_type)
        assert self.encoder is not None
        return _RowPart(path, self.encoder, self.header(input_type) if self.with_header else b"")

    def header(self, input_type: TypeInformation) -> bytes:
        """What a file begins with."""
        return self.encoder.header(input_type) if isinstance(self.encoder, BatchEncoder) else b""


class FileSinkWriter(SinkWriter):
    """Writes one hidden file per bucket.

    Args:
        context: which epoch and subtask this is.
        staging: where files are.
        assigner: which bucket a record goes to.
        parts: how files are written.
    """

    def __init__(self, context: WriterContext, staging: Staging, assigner: BucketAssigner, parts: FileParts) -> None:
        self._context = context
        self._staging = staging
        self._assigner = assigner
        self._files = parts
        self._open: dict[str, _Part] = {}

    def write(self, batch: Batch) -> None:
        if not len(batch):
            return
        buckets = self._assigner.bucket_ids(batch, self._context.processing_time)
        if isinstance(buckets, str):
            self._part(buckets).write(batch)
            return
        names, which = np.unique(np.array(buckets, dtype=object), return_inverse=True)
        for index, bucket in enumerate(names.tolist()):
            self._part(bucket).write(batch.filter(which == index))

    def _part(self, bucket: str) -> _Part:
        part = self._open.get(bucket)
        if part is None:
            stem = f"{self._context.epoch:010}-{self._context.generation}-{self._context.subtask}"
            path = self._staging.temporary(check_bucket(bucket), stem)
            make_folder(path.parent)
            part = self._open[bucket] = self._files.open(path, self._context.input_type)
        return part

    def prepare_commit(self) -> Sequence[Json]:
        committables = [self._finish(bucket, part) for bucket, part in sorted(self._open.items())]
        sync_folders(part.file.path.parent for part in self._open.values())
        self._open.clear()
        return committables

    def _finish(self, bucket: str, part: _Part) -> Json:
        context = self._context
        digest = part.finish()
        chunk = ChunkName(context.epoch, context.generation, context.subtask, context.processing_time, digest)
        part.file.path.rename(self._staging.hidden(bucket, chunk.stem, "part"))
        return {"bucket": bucket, "chunk": chunk.stem, "size": part.file.size}

    def abort(self) -> None:
        for part in self._open.values():
            part.file.path.unlink(missing_ok=True)
        self._open.clear()
