"""The hidden folder of a file sink, and the names of the files in it.

Below the sink's path there is a folder ``.headrace-<sink>`` for every sink that writes there, ``<sink>`` being a digest
of the job's and the operator's ids. In it there are

* ``chunks``, with one folder per bucket. A *chunk* is what one subtask wrote into the bucket in one epoch: ``….tmp``
  while it is being written, under a random name as several attempts of a task may write at the same time; ``….part``
  from then on, under a name that holds a digest of the content, so that attempts that wrote the same wrote the same
  file;
* ``publish-<generation>``, where the committer of a generation puts chunks together, and from where it shows them. Who
  takes the job over takes this folder away: a rename out of it then fails, whenever it comes.

Anything else that lies there is not ours, and is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.connectors.sink import Json

HIDDEN_FOLDER: Final = ".headrace-"
"""How the names begin of the folders in which sinks keep what is hidden."""

_CHUNK: Final = re.compile(r"([0-9]{10,})-([0-9]+)-([0-9]+)-(-?[0-9]+)-([0-9a-f]{16})\.part")
_UNFINISHED: Final = re.compile(r"[0-9]{10,}-([0-9]+)-[0-9]+\.[0-9a-f]{32}\.tmp")
_PUBLISHING: Final = re.compile(r"publish-([0-9]+)")
_PUT_TOGETHER: Final = re.compile(r"[0-9a-f]{32}")
_FENCED: Final = re.compile(r"fenced-[0-9a-f]{32}")


def sink_digest(job_id: str, operator_id: str) -> str:
    """A short name of a sink of a job, part of the names of its files."""
    return hashlib.blake2b(f"{job_id}\0{operator_id}".encode(), digest_size=4).hexdigest()


class ContentDigest:
    """What chunks' names know their content by: 64 bits of SHA-256, which processors compute themselves."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(usedforsecurity=False)

    def update(self, block: bytes) -> None:
        """The content goes on."""
        self._hash.update(block)

    def text(self) -> str:
        """The digest of the content so far."""
        return self._hash.hexdigest()[:16]


def is_put_together(file: str) -> bool:
    """Whether a file in a folder of a committer has a name that it gives to what it puts together."""
    return _PUT_TOGETHER.fullmatch(file) is not None


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
    """

    prefix: str
    suffix: str
    header: bytes

    def to_json(self) -> Json:
        """For the manifest."""
        return [self.prefix, self.suffix, base64.b64encode(self.header).decode()]

    @staticmethod
    def from_json(document: Json) -> PartForm:
        """What :meth:`to_json` gave."""
        prefix, suffix, header = document
        return PartForm(prefix, suffix, base64.b64decode(header))


@dataclass(frozen=True, slots=True)
class Part:
    """A file that becomes visible: chunks that one subtask wrote into one bucket, in the order of their epochs.

    Attributes:
        bucket: the bucket.
        chunks: the chunks.
        form: its name, and what comes before the chunks.
        is_complete: whether its one chunk waits for no others.
    """

    bucket: str
    chunks: tuple[Chunk, ...]
    form: PartForm
    is_complete: bool

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return len(self.form.header) + sum(chunk.size for chunk in self.chunks)

    def to_json(self) -> Json:
        """As a committable."""
        chunks = [chunk.to_json() for chunk in self.chunks]
        return {"bucket": self.bucket, "chunks": chunks, "form": self.form.to_json(), "complete": self.is_complete}

    @staticmethod
    def from_json(document: Json) -> Part:
        """What :meth:`to_json` gave."""
        chunks = tuple(map(Chunk.from_json, document["chunks"]))
        return Part(document["bucket"], chunks, PartForm.from_json(document["form"]), document["complete"])


@dataclass(frozen=True, slots=True)
class Shown:
    """A visible file of a sink.

    Attributes:
        path: the file.
        bucket: its bucket.
        subtask: the subtask that wrote it.
        first: the first epoch in it.
        last: the last epoch in it.
    """

    path: Path
    bucket: str
    subtask: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Staging:
    """Where a sink's files are.

    Attributes:
        base: the sink's path.
        sink: the sink's digest.
    """

    base: Path
    sink: str

    @property
    def root(self) -> Path:
        """The hidden folder."""
        return self.base / f"{HIDDEN_FOLDER}{self.sink}"

    @property
    def chunks(self) -> Path:
        """The folder of the chunks."""
        return self.root / "chunks"

    def hidden(self, bucket: str, chunk: ChunkName) -> Path:
        """The file of a chunk."""
        return self.chunks / bucket / chunk.file

    def temporary(self, bucket: str, epoch: int, generation: int, subtask: int) -> Path:
        """A new name for a chunk that is being written."""
        return self.chunks / bucket / f"{epoch:010}-{generation}-{subtask}.{uuid.uuid4().hex}.tmp"

    def visible(self, part: Part) -> Path:
        """The file that readers see: ``part-<sink>-<subtask>-<first epoch>-<last epoch>-<generation>``."""
        first, last = part.chunks[0].name, part.chunks[-1].name
        epochs = f"{first.epoch:06}-{last.epoch:06}"
        name = f"{part.form.prefix}-{self.sink}-{last.subtask}-{epochs}-{last.generation}{part.form.suffix}"
        return self.base / part.bucket / name

    def shown(self) -> Iterator[Shown]:
        """All visible files of the sink, whatever prefix and suffix they got."""
        name = re.compile(rf"-{self.sink}-([0-9]+)-([0-9]+)-([0-9]+)-[0-9]")
        for folder, folders, files in os.walk(self.base, onerror=_unless_forbidden):
            folders[:] = [inner for inner in folders if not inner.startswith(HIDDEN_FOLDER)]
            for file in files:
                found = name.search(file)
                if found is not None:
                    bucket = os.path.relpath(folder, self.base)
                    yield Shown(Path(folder, file), "" if bucket == "." else bucket, *map(int, found.groups()))

    def publishing(self, generation: int) -> Path:
        """The folder from which the committer of a generation shows files."""
        return self.root / f"publish-{generation}"

    def publishing_before(self, generation: int) -> Iterator[Path]:
        """Such folders of older generations."""
        for path in self.root.iterdir():
            found = _PUBLISHING.fullmatch(path.name)
            if found is not None and int(found[1]) < generation:
                yield path

    def fenced(self) -> Path:
        """A new name for such a folder that was taken away."""
        return self.root / f"fenced-{uuid.uuid4().hex}"

    def all_fenced(self) -> Sequence[Path]:
        """Folders that were taken away and not removed yet."""
        return [path for path in self.root.iterdir() if _FENCED.fullmatch(path.name)]

    def written_before(self, generation: int) -> Iterator[Path]:
        """The chunks that were written, or begun, by older generations."""
        for folder, _, files in os.walk(self.chunks):
            for file in files:
                chunk, unfinished = ChunkName.parse(file), _UNFINISHED.fullmatch(file)
                found = chunk.generation if chunk else int(unfinished[1]) if unfinished else generation
                if found < generation:
                    yield Path(folder, file)


def _unless_forbidden(error: OSError) -> None:
    """What is not there hides nothing, and what may not be looked into, ``lost+found`` say, is none of ours."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        raise error
