"""The hidden folder of a file sink, and the names of the files in it.

Below the sink's path there is a folder ``.headrace-<sink>`` for every sink that writes there, ``<sink>`` being a digest
of the job's and the operator's ids. In it there are

* ``chunks``, with one folder per bucket. A *chunk* is what one subtask wrote into the bucket in one epoch: ``….tmp``
  while it is being written (on a POSIX file system), under a random name as several attempts of a task may write at the
  same time; ``….part`` from then on, under a name that holds a digest of the content, so that attempts that wrote the
  same wrote the same file;
* ``publish-<generation>``, where the committer of a generation puts chunks together, and out of which it publishes
  them. The job manager that takes the job over takes this area away: publishing out of it then fails, whenever that
  comes.

Any other file there belongs to another writer, and is left alone.
"""

import contextlib
import errno
import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import BinaryIO, Final, NamedTuple, cast

import numpy as np

from headrace.common.batch import Batch
from headrace.common.durable import target_of_temporary
from headrace.connectors.file_system.buckets import HIDDEN_FOLDER, BucketAssigner, check_bucket
from headrace.connectors.sink import CommitterContext, Json, SinkWriter, WriterContext, WriterEpoch, encode_or_reject
from headrace.formats.file_format import BYTES, BulkWriter, BulkWriterFactory, FileKind
from headrace.storage.file_system import EntryKind, FileSystem, StagedFile
from headrace.storage.locations import open_path

_OF_GENERATION: Final = re.compile(r"[0-9]{10,}-([0-9]+)-[0-9]+(?:--?[0-9]+-[0-9a-f]{16}\.part|\.[0-9a-f]{32}\.tmp)")
_PUBLISHING: Final = re.compile(r"publish-([0-9]+)")
_FENCED: Final = re.compile(r"fenced-[0-9a-f]{32}")
_ASSEMBLED: Final = re.compile(r"[0-9a-f]{32}")
_MARK: Final = "owner"
"""The file that says that a publishing folder is not fenced, where folders cannot be renamed."""


class PartChunk(NamedTuple):
    """A durable hidden file: what one subtask wrote in one epoch into one bucket.

    Attributes:
        epoch: the epoch.
        generation: the generation of the job that wrote it.
        subtask: the subtask that wrote it.
        written: the clock when it was written, in milliseconds.
        digest: a digest of the content.
        size: in bytes.
    """

    epoch: int
    generation: int
    subtask: int
    written: int
    digest: str
    size: int

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.epoch:010}-{self.generation}-{self.subtask}-{self.written}-{self.digest}.part"


class PartForm(NamedTuple):
    """The names and headers of visible files, as they were when the chunks were written; part of the manifest.

    Attributes:
        prefix: the beginning of their names.
        suffix: the end of their names.
        header: what comes before their chunks, a character for each byte; empty where a chunk is a file as it stands.
        kind: by what files are joined; None if they cannot be, or that was not requested.
    """

    prefix: str
    suffix: str
    header: str
    kind: FileKind | None = None

    @property
    def joins_bytes(self) -> bool:
        """Tell whether one file may just follow the other."""
        return self.kind is not None and self.kind.format == BYTES


class PartFile(NamedTuple):
    """A file that becomes visible: chunks of one bucket, in the order of their epochs.

    The chunks are those of one subtask, unless the file is compacted. It is a committable as it stands, as all of it is
    text, numbers and tuples.

    Attributes:
        bucket: the bucket.
        chunks: the chunks, at least one.
        form: its name, and what comes before the chunks.
        is_complete: whether it waits for no further chunks.
        boundaries: of a compacted file, the numbers of the chunks with which a former file begins, but for the first;
            None for one that is not compacted.
        delimiter: what comes between two former files, a character for each byte.
    """

    bucket: str
    chunks: tuple[PartChunk, ...]
    form: PartForm
    is_complete: bool
    boundaries: tuple[int, ...] | None = None
    delimiter: str = ""

    @property
    def is_rewritten(self) -> bool:
        """Tell whether the format makes one file of several, rather than one following the other."""
        return self.boundaries is not None and len(self.chunks) > 1 and not self.form.joins_bytes

    @property
    def size(self) -> int:
        """The bytes of the file, or of the files of which it is made where it :attr:`is_rewritten`."""
        between = len(self.boundaries or ()) * len(self.delimiter)
        return len(self.form.header) + sum(chunk.size for chunk in self.chunks) + between


@dataclass(frozen=True, slots=True)
class StagingArea:
    """The files of a sink, hidden and visible; picklable.

    A *publishing folder* belongs to one committer. Once it is fenced, that committer can publish nothing from it,
    whatever it was doing. Where folders are real, a rename fences it. On a flat storage the folder holds a mark. The
    process that fences it removes the mark first, then all that is in it. A committer that has written a file there
    looks for the mark before it publishes the file. If the mark was still there, its successor sees the file; if not,
    nothing is published. And a publication fails when what it publishes is gone.

    Attributes:
        file_system: the storage.
        base: the sink's path there. ``str()`` gives what users call it.
        sink: a short name of the sink, part of the names of its files.
    """

    file_system: FileSystem
    base: str
    sink: str

    @staticmethod
    def of_sink(path: str, context: WriterContext | CommitterContext) -> "StagingArea":
        """The files of a sink that writes below a path."""
        file_system, base = open_path(path, context.storage_options)
        uid = f"{context.job_id}\0{context.operator_id}"
        return StagingArea(file_system, base, hashlib.blake2b(uid.encode(), digest_size=4).hexdigest())

    def __str__(self) -> str:
        return self.locate(self.base)

    def locate(self, path: str) -> str:
        """The path or URI by which users know a file."""
        return self.file_system.locate(path)

    @property
    def root(self) -> str:
        """The hidden folder."""
        return f"{self.base}/{HIDDEN_FOLDER}{self.sink}"

    def for_committing(self) -> "StagingArea":
        """The files as a committer uses them.

        Raises:
            CheckpointStorageError: when files cannot be published exclusively here.
        """
        return replace(self, file_system=self.file_system.for_publishing(self.root))

    # --- chunks ------------------------------------------------------------------------------------------------------

    def chunk_folder(self, bucket: str = "") -> str:
        """The folder of the chunks of a bucket."""
        return f"{self.root}/chunks/{bucket}".rstrip("/")

    def hidden(self, bucket: str, chunk: PartChunk) -> str:
        """The file of a chunk."""
        return f"{self.chunk_folder(bucket)}/{chunk.file}"

    def begin_chunk(self, bucket: str, epoch: int, generation: int, subtask: int) -> StagedFile:
        """Begin a file for what becomes a chunk."""
        folder = self.chunk_folder(bucket)
        self.file_system.make_folder(folder)
        return self.file_system.stage(f"{folder}/{epoch:010}-{generation}-{subtask}.{uuid.uuid4().hex}.tmp")

    def written_before(self, generation: int) -> list[str]:
        """The chunks that were written, or begun, by older generations."""
        found = []
        for path, entry in self.file_system.walk(self.chunk_folder()):
            chunk = _OF_GENERATION.fullmatch(entry.name)
            if chunk is not None and int(chunk[1]) < generation:
                found.append(path)
        return found

    # --- visible files -----------------------------------------------------------------------------------------------

    def visible(self, part: PartFile) -> str:
        """The file that readers see: ``part-<sink>-<subtask>-<first epoch>-<last epoch>-<generation>``.

        Of a compacted one, the subtask is that of the last chunk, which is in no other file.
        """
        chunks = sorted(part.chunks, key=attrgetter("epoch", "subtask"))
        first, last = chunks[0], chunks[-1]
        epochs = f"{first.epoch:06}-{last.epoch:06}"
        prefix = part.form.prefix if part.boundaries is None else f"compacted-{part.form.prefix}"
        name = f"{prefix}-{self.sink}-{last.subtask}-{epochs}-{last.generation}{part.form.suffix}"
        return f"{self.base}/{part.bucket}/{name}" if part.bucket else f"{self.base}/{name}"

    def visible_parts(self) -> Iterator[tuple[str, str, int, int, int]]:
        """List all visible files of the sink, whatever prefix and suffix they got.

        Of each the path, the bucket, the subtask that wrote its last chunk, and the first and the last epoch in it.
        """
        numbers = re.compile(rf"-{self.sink}-([0-9]+)-([0-9]+)-([0-9]+)-[0-9]")
        for path, entry in self.file_system.walk(self.base, lambda name: not name.startswith(HIDDEN_FOLDER)):
            found = numbers.search(entry.name)
            if found is not None:
                bucket = path[len(self.base) + 1 :].rpartition("/")[0]
                yield path, bucket, int(found[1]), int(found[2]), int(found[3])

    def publish(self, source: str, target: str) -> bool:
        """Give a file another path, once; it loses the one that it had.

        Returns:
            False when something has that name already, as far as is known: another process, or an earlier attempt, may
            have been faster. The file keeps its name then.

        Raises:
            FileNotFoundError: when it is not there (any more); ``filename`` says where.
        """
        self.file_system.make_folder(target.rpartition("/")[0])
        return self.file_system.publish(source, target)

    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        found = self.file_system.stat(path)
        return None if found is None else found.size

    def confirm(self, found: Sequence[str]) -> None:
        """Return when files that have their names will keep them, although no call has answered that it gave these.

        Args:
            found: the files, at least one; ``make_durable`` was called for them.

        Raises:
            OSError: when that is not known, or one is gone.
        """
        self.file_system.settle(found[0].rpartition("/")[0])
        for path in found:  # the server that has answered may be another one than that which published them
            if self.size(path) is None:
                raise OSError(errno.EIO, "it was there, and is gone before that was certain", self.locate(path))

    # --- publishing folders ------------------------------------------------------------------------------------------

    def publishing(self, generation: int) -> str:
        """The folder out of which the committer of a generation publishes files."""
        return f"{self.root}/publish-{generation}"

    def make_publishing_folder(self, folder: str) -> None:
        """Make a publishing folder; one that exists is left alone."""
        if self.file_system.is_flat:
            self.file_system.put(f"{folder}/{_MARK}", [])
        else:
            self.file_system.make_folder(folder)

    def has_publishing_folder(self, folder: str) -> bool:
        """Tell whether a publishing folder is there, and not fenced."""
        return self.file_system.stat(f"{folder}/{_MARK}" if self.file_system.is_flat else folder) is not None

    def write_for_publishing(self, folder: str, name: str, blocks: Iterable[bytes]) -> None:
        """Write a durable new file in a publishing folder.

        Raises:
            FileNotFoundError: when the folder is fenced.
        """
        self.file_system.write_new(f"{folder}/{name}", blocks)
        if self.file_system.is_flat and not self.has_publishing_folder(folder):
            self.file_system.remove(f"{folder}/{name}")
            raise FileNotFoundError(errno.ENOENT, "it has been taken away", self.locate(folder))

    def fence(self, generation: int) -> None:
        """Keep what older generations have assembled from ever becoming visible."""
        for name in self._hidden_folders():
            found = _PUBLISHING.fullmatch(name)
            if found is not None and int(found[1]) < generation:
                self._fence(f"{self.root}/{name}")
        for name in self._hidden_folders():  # of which a committer before this one may have left some
            if _FENCED.fullmatch(name):
                self.clear_publishing_folder(f"{self.root}/{name}")

    def _fence(self, folder: str) -> None:
        if self.file_system.is_flat:
            self.file_system.remove(f"{folder}/{_MARK}")
            self.clear_publishing_folder(folder)
        else:
            with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
                self.file_system.publish(folder, f"{self.root}/fenced-{uuid.uuid4().hex}")

    def _hidden_folders(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            entries = self.file_system.list_folder(self.root)
            return sorted(entry.name for entry in entries if entry.kind is EntryKind.FOLDER)
        return []

    def clear_publishing_folder(self, folder: str) -> None:
        """Remove what was written for publishing, and the folder unless there is something else in it."""
        with contextlib.suppress(FileNotFoundError):  # another one that starts has just done it
            for entry in self.file_system.list_folder(folder):
                name = target_of_temporary(entry.name) or entry.name  # what a killed writer has left
                if _ASSEMBLED.fullmatch(name) or (self.file_system.is_flat and entry.name == _MARK):
                    self.file_system.remove(f"{folder}/{entry.name}")
            self.file_system.remove_folder(folder)

    def remove_empty_folders(self) -> None:
        """Remove the hidden folders that are empty, but for those in the place of buckets that no visible file has.

        The latter may belong to another writer.
        """
        if self.file_system.is_flat:
            return
        chunks = self.chunk_folder()
        for path in self.file_system.folders(chunks):
            bucket = self.file_system.stat(f"{self.base}{path[len(chunks) :]}")
            if bucket is not None and bucket.kind is EntryKind.FOLDER:
                self.file_system.remove_folder(path)
        for path in (chunks, self.root):
            self.file_system.remove_folder(path)


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
        staging: StagingArea,
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
            epoch = self._epoch.number
            file = self._staging.begin_chunk(check_bucket(bucket), epoch, context.generation, context.subtask)
            self._open[bucket] = file, self._factory.create(cast("BinaryIO", file), context.input_type)
        _, writer = self._open[bucket]
        encode_or_reject(writer.add_batch, batch, context.reject)

    def prepare_commit(self) -> Sequence[Json]:
        context, epoch, parts, hidden = self._context, self._epoch, list[PartFile](), list[str]()
        for bucket, (file, writer) in sorted(self._open.items()):
            writer.finish()
            size, digest = file.finish()
            chunk = PartChunk(epoch.number, context.generation, context.subtask, epoch.processing_time, digest, size)
            hidden.append(self._staging.hidden(bucket, chunk))
            file.keep(hidden[-1])
            form = self._form if writer.can_be_joined else self._form._replace(kind=None)
            parts.append(PartFile(bucket, (chunk,), form, self._are_complete))
        self._staging.file_system.make_durable(hidden)
        self._open.clear()
        return parts

    def abort(self) -> None:
        for file, _ in self._open.values():
            file.discard()
        self._open.clear()
