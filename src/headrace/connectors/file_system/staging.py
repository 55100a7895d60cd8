"""The hidden folder of a file sink, and the names of the files in it.

Below the sink's path there is a folder ``.headrace-<sink>`` for every sink that writes there, ``<sink>`` being a digest
of the job's and the operator's ids. In it there are

* ``chunks``, with one folder per bucket. A *chunk* is what one subtask wrote into the bucket in one epoch: ``….tmp``
  while it is being written (on a POSIX file system), under a random name as several attempts of a task may write at the
  same time; ``….part`` from then on, under a name that holds a digest of the content, so that attempts that wrote the
  same wrote the same file;
* ``publish-<generation>``, where the committer of a generation puts chunks together, and from where it shows them. Who
  takes the job over takes this area away: showing something out of it then fails, whenever it comes.

Anything else that lies there is not ours, and is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.formats.encoders import BYTES, FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.connectors.sink import Json
    from headrace.storage.file_system import StagedFile
    from headrace.storage.folder import OutputTree

HIDDEN_FOLDER: Final = ".headrace-"
"""How the names begin of the folders in which sinks keep what is hidden."""

_CHUNK: Final = re.compile(r"([0-9]{10,})-([0-9]+)-([0-9]+)-(-?[0-9]+)-([0-9a-f]{16})\.part")
_UNFINISHED: Final = re.compile(r"[0-9]{10,}-([0-9]+)-[0-9]+\.[0-9a-f]{32}\.tmp")
_PUBLISHING: Final = re.compile(r"publish-([0-9]+)")
_FENCED: Final = re.compile(r"fenced-[0-9a-f]{32}")


def sink_digest(job_id: str, operator_id: str) -> str:
    """A short name of a sink of a job, part of the names of its files."""
    return hashlib.blake2b(f"{job_id}\0{operator_id}".encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class ChunkName:
    """The name of what one subtask wrote in one epoch into one bucket.

    Attributes:
        epoch: the epoch.
        generation: the generation of the job that wrote it.
        subtask: the subtask that wrote it.
        written: the clock when it was written, in milliseconds.
        digest: a digest of the content.
    """

    epoch: int
    generation: int
    subtask: int
    written: int
    digest: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.epoch:010}-{self.generation}-{self.subtask}-{self.written}-{self.digest}.part"

    @staticmethod
    def parse(file: str) -> ChunkName | None:
        """The name that ``file`` is; None when it is none."""
        found = _CHUNK.fullmatch(file)
        if found is None:
            return None
        epoch, generation, subtask, written = map(int, found.groups()[:4])
        return ChunkName(epoch, generation, subtask, written, found[5])


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as the manifest knows it.

    Attributes:
        name: its name.
        size: its bytes.
    """

    name: ChunkName
    size: int

    def to_json(self) -> Json:
        """For the manifest."""
        return [self.name.file, self.size]

    @staticmethod
    def from_json(document: Json) -> Chunk:
        """What :meth:`to_json` gave."""
        file, size = document
        name = ChunkName.parse(file)
        assert name is not None, f"{file!r} is no chunk"
        return Chunk(name, size)


@dataclass(frozen=True, slots=True)
class PartForm:
    """What visible files are called and begin with; as it was when their chunks were written, in the manifest.

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
        """Whether one file may just follow the other."""
        return self.kind is not None and self.kind.format == BYTES

    def to_json(self) -> Json:
        """For the manifest."""
        kind = [] if self.kind is None else [self.kind.to_json()]
        return [self.prefix, self.suffix, base64.b64encode(self.header).decode(), *kind]

    @staticmethod
    def from_json(document: Json) -> PartForm:
        """What :meth:`to_json` gave."""
        prefix, suffix, header, *kind = document
        return PartForm(prefix, suffix, base64.b64decode(header), *map(FileKind.from_json, kind))


@dataclass(frozen=True, slots=True)
class PartBoundaries:
    """Where a file was put together of several.

    Attributes:
        places: the numbers of the chunks with which a file begins, but for the first one.
        delimiter: what comes between two files.
    """

    places: tuple[int, ...]
    delimiter: bytes

    @property
    def size(self) -> int:
        """The bytes of all delimiters."""
        return len(self.places) * len(self.delimiter)

    def to_json(self) -> Json:
        """For the manifest."""
        return [list(self.places), base64.b64encode(self.delimiter).decode()]

    @staticmethod
    def from_json(document: Json) -> PartBoundaries:
        """What :meth:`to_json` gave."""
        places, delimiter = document
        return PartBoundaries(tuple(places), base64.b64decode(delimiter))


@dataclass(frozen=True, slots=True)
class Part:
    """A file that becomes visible: chunks that one subtask wrote into one bucket, in the order of their epochs.

    Attributes:
        bucket: the bucket.
        chunks: the chunks.
        form: its name, and what comes before the chunks.
        is_complete: whether its one chunk waits for no others.
        seams: where it was put together of such files, of all subtasks; None for one that was not.
    """

    bucket: str
    chunks: tuple[Chunk, ...]
    form: PartForm
    is_complete: bool
    seams: PartBoundaries | None = None

    @property
    def is_rewritten(self) -> bool:
        """Whether the format makes one file of several, rather than one following the other."""
        return self.seams is not None and len(self.chunks) > 1 and not self.form.joins_bytes

    @property
    def size(self) -> int:
        """The bytes of the file, or of the files of which it is made where it :attr:`is_rewritten`."""
        seams = 0 if self.seams is None else self.seams.size
        return len(self.form.header) + sum(chunk.size for chunk in self.chunks) + seams

    def to_json(self) -> Json:
        """As a committable."""
        chunks = [chunk.to_json() for chunk in self.chunks]
        seams = {} if self.seams is None else {"seams": self.seams.to_json()}
        form = self.form.to_json()
        return {"bucket": self.bucket, "chunks": chunks, "form": form, "complete": self.is_complete, **seams}

    @staticmethod
    def from_json(document: Json) -> Part:
        """What :meth:`to_json` gave."""
        chunks = tuple(map(Chunk.from_json, document["chunks"]))
        seams = PartBoundaries.from_json(document["seams"]) if "seams" in document else None
        return Part(document["bucket"], chunks, PartForm.from_json(document["form"]), document["complete"], seams)


@dataclass(frozen=True, slots=True)
class Shown:
    """A visible file of a sink.

    Attributes:
        path: the file.
        bucket: its bucket.
        subtask: the subtask that wrote it, or what is of the last epoch in it.
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
    """Where a sink's files are; paths are those of the tree.

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

    def hidden(self, bucket: str, chunk: ChunkName) -> str:
        """The file of a chunk."""
        return _joined(self.chunks, bucket, chunk.file)

    def begin_chunk(self, bucket: str, epoch: int, generation: int, subtask: int) -> StagedFile:
        """A new file for what becomes a chunk."""
        name = f"{epoch:010}-{generation}-{subtask}.{uuid.uuid4().hex}.tmp"
        return self.tree.stage(_joined(self.chunks, bucket), name)

    def visible(self, part: Part) -> str:
        """The file that readers see: ``part-<sink>-<subtask>-<first epoch>-<last epoch>-<generation>``.

        Of one that was put together, the subtask is that of the last chunk, which is in no other file.
        """
        names = sorted((chunk.name for chunk in part.chunks), key=lambda name: (name.epoch, name.subtask))
        first, last = names[0], names[-1]
        epochs = f"{first.epoch:06}-{last.epoch:06}"
        prefix = part.form.prefix if part.seams is None else f"compacted-{part.form.prefix}"
        name = f"{prefix}-{self.sink}-{last.subtask}-{epochs}-{last.generation}{part.form.suffix}"
        return _joined(part.bucket, name)

    def shown(self) -> Iterator[Shown]:
        """All visible files of the sink, whatever prefix and suffix they got."""
        name = re.compile(rf"-{self.sink}-([0-9]+)-([0-9]+)-([0-9]+)-[0-9]")
        for path in self.tree.files("", without=HIDDEN_FOLDER):
            bucket, _, file = path.rpartition("/")
            found = name.search(file)
            if found is not None:
                yield Shown(path, bucket, *map(int, found.groups()))

    def publishing(self, generation: int) -> str:
        """The area from which the committer of a generation shows files."""
        return f"{self.root}/publish-{generation}"

    def generations(self) -> list[int]:
        """The generations that have such an area."""
        found = map(_PUBLISHING.fullmatch, self.tree.folder_names(self.root))
        return [int(generation[1]) for generation in found if generation is not None]

    def fenced(self) -> str:
        """A new name for such an area that was taken away."""
        return f"{self.root}/fenced-{uuid.uuid4().hex}"

    def all_fenced(self) -> list[str]:
        """Areas that were taken away and not removed yet."""
        return [f"{self.root}/{name}" for name in self.tree.folder_names(self.root) if _FENCED.fullmatch(name)]

    def written_before(self, generation: int) -> Iterator[str]:
        """The chunks that were written, or begun, by older generations."""
        for path in self.tree.files(self.chunks):
            file = path.rpartition("/")[2]
            chunk, unfinished = ChunkName.parse(file), _UNFINISHED.fullmatch(file)
            found = chunk.generation if chunk else int(unfinished[1]) if unfinished else generation
            if found < generation:
                yield path


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))
