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

Anything else that lies there is somebody else's, and is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

import numpy as np

from headrace.connectors.file_system.buckets import HIDDEN_FOLDER, check_bucket
from headrace.connectors.sink import SinkWriter, encode_or_reject
from headrace.formats.file_format import BYTES, FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.common.batch import Batch
    from headrace.connectors.file_system.buckets import BucketAssigner
    from headrace.connectors.sink import Json, WriterContext, WriterEpoch
    from headrace.formats.file_format import BulkWriter, BulkWriterFactory
    from headrace.storage.file_system import StagedFile
    from headrace.storage.folder import OutputTree


_CHUNK: Final = re.compile(r"([0-9]{10,})-([0-9]+)-([0-9]+)-(-?[0-9]+)-([0-9a-f]{16})\.part")
_OF_GENERATION: Final = re.compile(r"[0-9]{10,}-([0-9]+)-[0-9]+(?:--?[0-9]+-[0-9a-f]{16}\.part|\.[0-9a-f]{32}\.tmp)")
_PUBLISHING: Final = re.compile(r"publish-([0-9]+)")
_FENCED: Final = re.compile(r"fenced-[0-9a-f]{32}")


def sink_digest(job_id: str, operator_id: str) -> str:
    """A short name of a sink of a job, part of the names of its files."""
    return hashlib.blake2b(f"{job_id}\0{operator_id}".encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class PartChunk:
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

    def to_json(self) -> Json:
        """For the manifest."""
        return [self.file, self.size]

    @staticmethod
    def from_json(document: Json) -> PartChunk:
        """Read what :meth:`to_json` gave."""
        file, size = document
        found = _CHUNK.fullmatch(file)
        assert found is not None, f"{file!r} is no chunk"
        epoch, generation, subtask, written = map(int, found.groups()[:4])
        return PartChunk(epoch, generation, subtask, written, found[5], size)


@dataclass(frozen=True, slots=True)
class PartForm:
    """The names and headers of visible files, as they were when the chunks were written; part of the manifest.

    Attributes:
        prefix: the beginning of their names.
        suffix: the end of their names.
        header: what comes before their chunks; empty where a chunk is a file as it stands.
        kind: by what files are joined; None where they cannot be, or nobody has asked for it.
    """

    prefix: str
    suffix: str
    header: bytes
    kind: FileKind | None = None

    @property
    def joins_bytes(self) -> bool:
        """Tell whether one file may just follow the other."""
        return self.kind is not None and self.kind.format == BYTES

    def to_json(self) -> Json:
        """For the manifest."""
        kind = [] if self.kind is None else [self.kind.to_json()]
        return [self.prefix, self.suffix, base64.b64encode(self.header).decode(), *kind]

    @staticmethod
    def from_json(document: Json) -> PartForm:
        """Read what :meth:`to_json` gave."""
        prefix, suffix, header, *kind = document
        return PartForm(prefix, suffix, base64.b64decode(header), *map(FileKind.from_json, kind))


@dataclass(frozen=True, slots=True)
class Part:
    """A file that becomes visible: chunks of one bucket, in the order of their epochs.

    The chunks are those of one subtask, unless the file is compacted.

    Attributes:
        bucket: the bucket.
        chunks: the chunks, at least one.
        form: its name, and what comes before the chunks.
        is_complete: whether it waits for no further chunks.
        boundaries: of a compacted file, the numbers of the chunks with which a former file begins, but for the first;
            None for one that is not compacted.
        delimiter: what comes between two former files.
    """

    bucket: str
    chunks: tuple[PartChunk, ...]
    form: PartForm
    is_complete: bool
    boundaries: tuple[int, ...] | None = None
    delimiter: bytes = b""

    @property
    def is_rewritten(self) -> bool:
        """Tell whether the format makes one file of several, rather than one following the other."""
        return self.boundaries is not None and len(self.chunks) > 1 and not self.form.joins_bytes

    @property
    def size(self) -> int:
        """The bytes of the file, or of the files of which it is made where it :attr:`is_rewritten`."""
        between = len(self.boundaries or ()) * len(self.delimiter)
        return len(self.form.header) + sum(chunk.size for chunk in self.chunks) + between

    def to_json(self) -> Json:
        """For the manifest, as a committable."""
        chunks = [chunk.to_json() for chunk in self.chunks]
        found = {"bucket": self.bucket, "chunks": chunks, "form": self.form.to_json(), "complete": self.is_complete}
        if self.boundaries is not None:
            found |= {"boundaries": self.boundaries, "delimiter": base64.b64encode(self.delimiter).decode()}
        return found

    @staticmethod
    def from_json(document: Json) -> Part:
        """Read what :meth:`to_json` gave."""
        chunks, form = tuple(map(PartChunk.from_json, document["chunks"])), PartForm.from_json(document["form"])
        part = Part(document["bucket"], chunks, form, document["complete"])
        if "boundaries" not in document:
            return part
        boundaries, delimiter = tuple(document["boundaries"]), base64.b64decode(document["delimiter"])
        return replace(part, boundaries=boundaries, delimiter=delimiter)


class VisiblePart(NamedTuple):
    """A published file of a sink.

    Attributes:
        path: the file.
        bucket: its bucket.
        subtask: the subtask that wrote its last chunk.
        first: the first epoch in it.
        last: the last epoch in it.
    """

    path: str
    bucket: str
    subtask: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Staging:
    """The paths of a sink's files, relative to its tree.

    Attributes:
        tree: what is below the sink's path.
        sink: the sink's digest.
    """

    tree: OutputTree
    sink: str

    @property
    def root(self) -> str:
        """The hidden folder."""
        return f"{HIDDEN_FOLDER}{self.sink}"

    @property
    def chunks(self) -> str:
        """The folder of the chunks."""
        return f"{self.root}/chunks"

    def hidden(self, bucket: str, chunk: PartChunk) -> str:
        """The file of a chunk."""
        return _joined(self.chunks, bucket, chunk.file)

    def begin_chunk(self, bucket: str, epoch: int, generation: int, subtask: int) -> StagedFile:
        """Begin a file for what becomes a chunk."""
        name = f"{epoch:010}-{generation}-{subtask}.{uuid.uuid4().hex}.tmp"
        return self.tree.stage(_joined(self.chunks, bucket), name)

    def visible(self, part: Part) -> str:
        """The file that readers see: ``part-<sink>-<subtask>-<first epoch>-<last epoch>-<generation>``.

        Of a compacted one, the subtask is that of the last chunk, which is in no other file.
        """
        chunks = sorted(part.chunks, key=lambda chunk: (chunk.epoch, chunk.subtask))
        first, last = chunks[0], chunks[-1]
        epochs = f"{first.epoch:06}-{last.epoch:06}"
        prefix = part.form.prefix if part.boundaries is None else f"compacted-{part.form.prefix}"
        name = f"{prefix}-{self.sink}-{last.subtask}-{epochs}-{last.generation}{part.form.suffix}"
        return _joined(part.bucket, name)

    def visible_parts(self) -> Iterator[VisiblePart]:
        """List all visible files of the sink, whatever prefix and suffix they got."""
        name = re.compile(rf"-{self.sink}-([0-9]+)-([0-9]+)-([0-9]+)-[0-9]")
        for path in self.tree.files("", without=HIDDEN_FOLDER):
            bucket, _, file = path.rpartition("/")
            found = name.search(file)
            if found is not None:
                yield VisiblePart(path, bucket, *map(int, found.groups()))

    def publishing(self, generation: int) -> str:
        """The area out of which the committer of a generation publishes files."""
        return f"{self.root}/publish-{generation}"

    def fence(self, generation: int) -> None:
        """Keep what older generations have assembled from ever becoming visible."""
        for name in self.tree.folder_names(self.root):
            found = _PUBLISHING.fullmatch(name)
            if found is not None and int(found[1]) < generation:
                self.tree.fence(f"{self.root}/{name}", f"{self.root}/fenced-{uuid.uuid4().hex}")
        for name in self.tree.folder_names(self.root):  # of which a committer before this one may have left some
            if _FENCED.fullmatch(name):
                self.tree.clear_publishing_folder(f"{self.root}/{name}")

    def written_before(self, generation: int) -> list[str]:
        """The chunks that were written, or begun, by older generations."""
        found = ((path, _OF_GENERATION.fullmatch(path.rpartition("/")[2])) for path in self.tree.files(self.chunks))
        return [path for path, chunk in found if chunk is not None and int(chunk[1]) < generation]


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))


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
