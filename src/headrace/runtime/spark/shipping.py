"""Ships a job, and the start of each epoch, to the tasks: with Spark while they are small, else by files.

Spark sends a query's settings along with every task, and a literal of the plan in every row. What differs from task to
task, and grows with their number, would then reach each of them whole. So when it is not small it lies in a file beside
the state, which driver and executors share anyway, and a task reads its own part.

Another user who can write there could have a task unpickle anything. So nothing is unpickled before its digest was
found to be the one that Spark has delivered: in the closure for a job, in the query's settings for parts.
"""

import base64
import contextlib
import hashlib
import os
import re
import secrets
import struct
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from headrace.common.errors import InfrastructureError, JobExecutionError
from headrace.common.logs import get_logger
from headrace.exchange.envelope import Envelope, EnvelopeKind
from headrace.operators.join import divided_work
from headrace.storage.folder import Folder

logger = get_logger(__name__)

_ENTRY: Final = struct.Struct("<QQ16s")
"""The start of a part, its length, and its digest; the file begins with one of these for each part."""

_HERE: Final = "here"
_FILE: Final = "file"

_OURS: Final = re.compile(r"job-[0-9a-f]{64}\.pickle|parts-[0-9a-f]{32}\.bin")
"""The names of shipped files."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Something that every task has its own part of.

    Attributes:
        here: the same for all, where that is small enough; then there is no file.
        name: the file.
        key: of the digests in it; without it no part can be changed unnoticed.
    """

    here: bytes = b""
    name: str = ""
    key: bytes = b""

    def to_text(self) -> str:
        """The parts as the value of a setting."""
        fields = (_FILE, self.key.hex(), self.name) if self.name else (_HERE, base64.b64encode(self.here).decode())
        return " ".join(fields)

    @staticmethod
    def from_text(text: str) -> "Parts":
        """Read what :meth:`to_text` wrote."""
        kind, _, rest = text.partition(" ")
        if kind == _HERE:
            return Parts(here=base64.b64decode(rest))
        key, _, name = rest.partition(" ")
        return Parts(name=name, key=bytes.fromhex(key))

    def part(self, number: int, folder: Folder) -> bytes:
        """The part of one task; of the file nothing else is read.

        Args:
            number: which task.
            folder: that of shipped files.

        Raises:
            OSError: when the file cannot be read.
            InfrastructureError: when it is damaged.
        """
        if not self.name:
            return self.here
        entry = folder.read_range(self.name, number * _ENTRY.size, _ENTRY.size)
        start, length, digest = _ENTRY.unpack(entry) if len(entry) == _ENTRY.size else (0, 0, b"")
        content = folder.read_range(self.name, start, length)
        if not secrets.compare_digest(digest, _digest(self.key, number, content)):
            where = folder.locate(self.name)
            raise InfrastructureError(f"part {number} of {where} is damaged, or another file has its name")
        return content


class ShippedFiles:
    """The files of one job that tasks read.

    Args:
        folder: their place, which is made when it is missing.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        folder.make()

    def write_job(self, content: bytes) -> str:
        """Write a job, under a name that is a digest of its content."""
        name = _name_of_job(content)
        self.folder.write(name, (content,))
        return name

    def write_parts(self, parts: Sequence[bytes]) -> Parts:
        """Write the parts of all tasks, in their order."""
        key = secrets.token_bytes(32)
        start = len(parts) * _ENTRY.size
        entries = []
        for number, part in enumerate(parts):
            entries.append(_ENTRY.pack(start, len(part), _digest(key, number, part)))
            start += len(part)
        name = f"parts-{secrets.token_hex(16)}.bin"
        self.folder.write(name, (b"".join(entries), *parts), durable=False)
        return Parts(name=name, key=key)

    def forget(self, parts: Parts) -> None:
        """Delete them: they are not read any more."""
        if parts.name:
            try:
                self.folder.remove(parts.name)
            except OSError as error:
                where = self.folder.locate(parts.name)
                logger.warning("%s is of no use any more, but cannot be removed: %s", where, error)

    def remove_leftovers(self) -> list[str]:
        """Delete what runs have left that were killed; nothing that is not a shipped file by its name.

        Returns:
            The names of the deleted files.
        """
        unfinished = self.folder.remove_unfinished(lambda name: _OURS.fullmatch(name) is not None)
        found = [name for name in self.folder.names() if _OURS.fullmatch(name)]
        return sorted([*unfinished, *(name for name in found if self.folder.remove(name))])


def read_job(folder: Folder, name: str) -> bytes:
    """The content of a job's file.

    Raises:
        JobExecutionError: when its content differs from the digest in its name.
    """
    content = folder.read(name)
    if name != _name_of_job(content):
        raise JobExecutionError(
            f"the job's file {folder.locate(name)} has been changed since the driver wrote it: its content does not "
            "have the digest in its name. Nothing of it was used. See who can write to the checkpoint directory, and "
            "run the program again, which writes it anew"
        )
    return content


def _name_of_job(content: bytes) -> str:
    return f"job-{hashlib.sha256(content).hexdigest()}.pickle"


def _digest(key: bytes, number: int, content: bytes) -> bytes:
    return hashlib.blake2b(b"%d:%b" % (number, content), key=key, digest_size=16).digest()


LEAST_BYTES: Final = 32 * 1024
"""Smaller payloads go by Spark: a file costs some 100 microseconds, and a task whose payloads are small needs none."""

_REFERENCE: Final = struct.Struct("<qqqqI")
"""Stage and partition that wrote the file, where the payload begins, its size, and the checksum of its content."""

_ALIGNMENT: Final = 64
"""The alignment of payloads, which Arrow needs for its buffers."""


def make_folder(parent: str) -> str:
    """A new folder for the files of one job, which only this user may read."""
    return tempfile.mkdtemp(prefix="headrace-payloads-", dir=parent)


def files_in(folder: str) -> list[Path]:
    """The files of payloads and of divided work, finished or not: between two epochs those of epochs that are over."""
    return [*Path(folder).glob("[0-9]*-*.*"), *divided_work.files_in(folder)]


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
        if self._folder is None or envelope.kind != EnvelopeKind.DATA or len(envelope.payload) < LEAST_BYTES:
            return envelope
        return envelope._replace(kind=EnvelopeKind.STORED, payload=self.write(envelope.payload))

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
        if envelope.kind != EnvelopeKind.STORED:
            return envelope
        return envelope._replace(kind=EnvelopeKind.DATA, payload=self.read(envelope.payload))

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
