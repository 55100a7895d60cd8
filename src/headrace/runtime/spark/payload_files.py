"""Large payloads of envelopes in files of this machine, where all tasks run on it; Spark moves references to them.

Through Spark a payload goes by two sockets, four formats and a growing buffer, and is checksummed twice. That took Java
and the sockets as much processor time as it takes Python to group and sum up the records. A file is written once, and
mapped by the task that reads it.

What holds for Spark's own shuffle files holds for these. A file has its name only when it is complete, which is before
the task is, and no later stage begins before that. A reference tells the content and nothing of the attempt, so Spark's
checksums still notice a task that gives something else when it is run again. A file that is gone is an ``OSError``,
which has the epoch run again. The folder is one that Spark removes when it ends; files last no longer than their epoch.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from headrace.common.errors import InfrastructureError
from headrace.exchange.envelope import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from headrace.exchange.envelope import Envelope

LEAST_BYTES: Final = 32 * 1024
"""Smaller payloads go by Spark: a file costs some 100 microseconds, and a task whose payloads are small needs none."""

_REFERENCE: Final = struct.Struct("<qqqqI")
"""Stage and partition that wrote the file, where the payload begins, its size, and the checksum of its content."""

_ALIGNMENT: Final = 64
"""Of payloads, as Arrow wants its buffers."""


def make_folder(parent: str) -> str:
    """A new folder for the files of one job, which nobody but this user may read."""
    return tempfile.mkdtemp(prefix="headrace-payloads-", dir=parent)


def files_in(folder: str) -> list[Path]:
    """The files that are there: between two epochs those of epochs that are over."""
    return list(Path(folder).glob("*"))


def remove(files: Iterable[Path]) -> None:
    """Remove files."""
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # of a task that was called off, and removes its own
            path.unlink()


class PayloadWriter:
    """Writes the payloads of one task, as a context: the file has its name when that ends well, else it is removed.

    Args:
        folder: where; None where all payloads are left to Spark.
        stage: Spark's number of the stage, which no other query of the session has.
        partition: the task of the stage.
    """

    def __init__(self, folder: str | None, stage: int, partition: int) -> None:
        self._folder = folder
        self._task = (stage, partition)
        self._file = -1
        self._offset = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._unfinished.unlink(missing_ok=True)

    def stored(self, envelope: Envelope) -> Envelope:
        """The envelope with a reference, where its payload is worth a file; else as it is.

        Raises:
            OSError: when the disk is full, say.
        """
        if self._folder is None or envelope.kind != Kind.DATA or len(envelope.payload) < LEAST_BYTES:
            return envelope
        return envelope._replace(kind=Kind.STORED, payload=self.write(envelope.payload))

    def write(self, payload: bytes | pa.Buffer) -> bytes:
        """Write a payload; the reference to it."""
        if self._file < 0:
            self._file = os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        start, view = self._offset, memoryview(payload)
        while view:
            written = os.pwrite(self._file, view, self._offset)
            self._offset += written
            view = view[written:]
        self._offset += -self._offset % _ALIGNMENT
        return _REFERENCE.pack(*self._task, start, len(payload), zlib.crc32(payload))

    def complete(self) -> None:
        """All is written: the file gets its name."""
        if self._file >= 0:
            assert self._folder is not None
            self._unfinished.rename(_path(self._folder, *self._task))

    @property
    def _unfinished(self) -> Path:
        """The file while it is written: several attempts may do that at the same time, each in its own process."""
        assert self._folder is not None
        return _path(self._folder, *self._task).with_suffix(f".{os.getpid()}")


class PayloadReader:
    """Finds payloads by their references; a file stays mapped as long as one of its payloads is in use.

    Args:
        folder: where they were written; None where there are no references.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._maps: dict[Path, pa.MemoryMappedFile] = {}

    def loaded(self, envelope: Envelope) -> Envelope:
        """The envelope as it was before :meth:`PayloadWriter.stored`; errors as of :meth:`read`."""
        if envelope.kind != Kind.STORED:
            return envelope
        return envelope._replace(kind=Kind.DATA, payload=self.read(envelope.payload))

    def read(self, reference: bytes | pa.Buffer) -> pa.Buffer:
        """The payload, which is not copied.

        Raises:
            OSError: when its file is gone.
            InfrastructureError: when the file is shorter than it was.
        """
        assert self._folder is not None, "a reference without a folder"
        stage, partition, start, size, _ = _REFERENCE.unpack(reference)
        path = _path(self._folder, stage, partition)
        if path not in self._maps:
            self._maps[path] = pa.memory_map(str(path))
        file = self._maps[path]
        file.seek(start)
        payload = file.read_buffer(size)
        if payload.size != size:
            raise InfrastructureError(f"{path} was cut: the payload of {size} bytes at {start} is not there")
        return payload


def _path(folder: str, stage: int, partition: int) -> Path:
    return Path(folder) / f"{stage}-{partition}.payloads"
