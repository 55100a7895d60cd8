"""The hidden folder of a file sink, and the names of the files in it.

Below the sink's path there is a folder ``.headrace-<sink>`` for every sink that writes there, ``<sink>`` being a digest
of the job's and the operator's ids, and in it one folder per bucket. A file in it goes through these states:

* ``….tmp``: it is being written. The name has a random part, as several attempts of a task may write at the same time.
* ``….part``: a task has written it; the epoch's manifest may refer to it. The name holds a digest of the content, so
  that attempts that wrote the same thing wrote the same file.
* ``….held``: its epoch is committed; it waits for more, to become visible as one file with later ones.
* ``….roll``: the complete content of several held files, which are to be removed before it becomes visible.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = ".headrace-"


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
    def stem(self) -> str:
        """The name without its state."""
        return f"{self.epoch:010}-{self.generation}-{self.subtask}-{self.written}-{self.digest}"

    @staticmethod
    def parse(stem: str) -> ChunkName:
        """The name that ``stem`` is.

        Raises:
            ValueError: when it is none.
        """
        epoch, generation, subtask, written, digest = stem.split("-")
        return ChunkName(int(epoch), int(generation), int(subtask), int(written), digest)


@dataclass(frozen=True, slots=True)
class RollName:
    """The name of what a subtask wrote in several epochs.

    Attributes:
        first: the first epoch.
        last: the last epoch.
        generation: the generation of the job that wrote it.
        subtask: the subtask that wrote it.
    """

    first: int
    last: int
    generation: int
    subtask: int

    @property
    def stem(self) -> str:
        """The name without its state."""
        return f"{self.first:010}-{self.last:010}-{self.generation}-{self.subtask}"

    @staticmethod
    def parse(stem: str) -> RollName:
        """The name that ``stem`` is.

        Raises:
            ValueError: when it is none.
        """
        first, last, generation, subtask = map(int, stem.split("-"))
        return RollName(first, last, generation, subtask)

    def covers(self, chunk: ChunkName) -> bool:
        """Whether a chunk is part of it. Other generations may have written the same epochs, which does not count."""
        same = (self.subtask, self.generation) == (chunk.subtask, chunk.generation)
        return same and self.first <= chunk.epoch <= self.last


@dataclass(frozen=True, slots=True)
class Staging:
    """Where a sink's files are.

    Attributes:
        base: the sink's path.
        sink: the sink's digest.
        prefix: the beginning of the names of visible files.
        suffix: their end.
    """

    base: Path
    sink: str
    prefix: str
    suffix: str

    @property
    def root(self) -> Path:
        """The hidden folder."""
        return self.base / f"{_FOLDER}{self.sink}"

    def hidden(self, bucket: str, stem: str, state: str) -> Path:
        """A hidden file."""
        return self.root / bucket / f"{stem}.{state}"

    def temporary(self, bucket: str, stem: str) -> Path:
        """A new name for a file that is being written."""
        return self.hidden(bucket, f"{stem}.{uuid.uuid4().hex}", "tmp")

    def visible(self, bucket: str, roll: RollName) -> Path:
        """The file that readers see: ``part-<sink>-<subtask>-<first epoch>-<last epoch>-<generation>``."""
        epochs = f"{roll.first:06}-{roll.last:06}"
        name = f"{self.prefix}-{self.sink}-{roll.subtask}-{epochs}-{roll.generation}{self.suffix}"
        return self.base / bucket / name

    def visible_rolls(self, bucket: str) -> Iterator[RollName]:
        """What the visible files of a bucket hold, by their names."""
        start = f"{self.prefix}-{self.sink}-"
        for path in (self.base / bucket).glob(f"{start}*{self.suffix}"):
            parts = path.name.removeprefix(start).removesuffix(self.suffix).split("-")
            if len(parts) == 4 and all(map(str.isdecimal, parts)):
                subtask, first, last, generation = map(int, parts)
                yield RollName(first, last, generation, subtask)

    def files(self, state: str) -> Iterator[tuple[str, Path]]:
        """All hidden files in a state, with their buckets."""
        for path in sorted(self.root.rglob(f"*.{state}")):
            bucket = path.parent.relative_to(self.root)
            yield ("" if bucket == Path() else bucket.as_posix()), path


def single_roll(chunk: ChunkName) -> RollName:
    """The name of a part that is one chunk."""
    return RollName(chunk.epoch, chunk.epoch, chunk.generation, chunk.subtask)
