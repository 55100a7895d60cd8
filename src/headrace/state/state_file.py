"""State files: sections one after the other, then an index of the whole version.

::

    magic   8 bytes
    section … each at a multiple of 64 bytes
    index   JSON, UTF-8
    trailer length of the index (u64), its CRC-32 (u32), length of the file before the trailer (u64), magic

All numbers are little-endian. A version that is small has no file of its own: the same bytes then travel inside the
version's reference.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Container, Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import partial
from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple, Self
from zlib import crc32

import pyarrow as pa

from headrace.common.errors import CheckpointError, StateCorruptedError
from headrace.state.protocols import kind_of_store
from headrace.state.runs import ALL_HASHES, HashRange, Run
from headrace.state.runs.sections import ALIGNMENT, Section, reading
from headrace.storage.file_system import MappedFile
from headrace.storage.folder import Folder

Entry = dict[str, Any]
StoreKey = tuple[str, str]
"""The uid of an operator and the name of one of its stores."""
SectionOf = Callable[[Entry, str, Callable[[], "MappedFile"]], "Section"]
"""Opens the section that an index describes: its entry, the name of its file, and what maps that."""


class RunHead(NamedTuple):
    """The description of a run without its rows.

    Attributes:
        uid: the operator.
        store: the store that it is in.
        meta: what its writer said about it.
        schema: its columns.
    """

    uid: str
    store: str
    meta: dict[str, Any]
    schema: pa.Schema


def entry_of_run(run: Run) -> Entry:
    """A run that is in a file as an index describes it, with the name of the file."""
    return {**entry_of_rows(run), **run.section.describe(run.section.offset), "file": run.section.file}


def entry_of_rows(run: Run) -> Entry:
    """The entry of a run in an index, wherever its section is stored."""
    entry = {"hashes": list(run.hashes), "whole": run.whole, "origin": run.origin, "meta": run.meta}
    return entry if run.span == run.hashes else {**entry, "span": list(run.span)}


def run_of_entry(entry: Entry, section: Section) -> Run:
    """The run that :func:`entry_of_run` described."""
    low, high = entry["hashes"]
    return Run(section, entry["meta"], (low, high), whole=entry["whole"], origin=entry["origin"], span=_span(entry))


def _span(entry: Entry) -> HashRange:
    first, end = entry["span"] if "span" in entry else entry["hashes"]
    return first, end


FORMAT: Final = 1
"""Raised when a headrace of an older version could not read the index of a state file."""

MAGIC: Final = b"HRSTATE1"
SUFFIX: Final = ".state"
_PARTS: Final = {"int": "([0-9]+)", "str": "([0-9a-f]+)"}
_TRAILER: Final = Struct("<QIQ8s")


@dataclass(frozen=True, slots=True)
class _FileName:
    """The name of a state file: a prefix, then the fields in their order."""

    _prefix: ClassVar[str] = ""

    def __str__(self) -> str:
        return f"{self._prefix}{'-'.join(map(str, astuple(self)))}{SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The parts of a name; None when it is none of these."""
        types = [str(part.type) for part in fields(cls)]
        found = re.fullmatch(cls._prefix + "-".join(map(_PARTS.__getitem__, types)) + re.escape(SUFFIX), name)
        if found is None:
            return None
        return cls(*(int(text) if type_ == "int" else text for text, type_ in zip(found.groups(), types, strict=True)))


@dataclass(frozen=True, slots=True)
class VersionName(_FileName):
    """The name of the file that holds a version.

    Attributes:
        epoch: the epoch in which it was written.
        generation: that of the job manager.
        stage: the stage of the task that wrote it.
        partition: the partition of the task.
        digest: that of the index, which holds the checksums of all that is new in the file.
    """

    epoch: int
    generation: int
    stage: int
    partition: int
    digest: str


@dataclass(frozen=True, slots=True)
class CompactedName(_FileName):
    """The name of the file that holds one run: the outcome of a compaction, or a part of what a savepoint brings.

    Attributes as in :class:`VersionName`.
    """

    _prefix = "compacted-"
    generation: int
    stage: int
    partition: int
    digest: str


@dataclass(frozen=True, slots=True)
class SharedName(_FileName):
    """The name of a file with what all subtasks of an operator have alike; attributes as in :class:`VersionName`.

    Attributes:
        owner: a digest of the operator's uid.
    """

    _prefix = "shared-"
    epoch: int
    generation: int
    stage: int
    owner: str
    digest: str

    @staticmethod
    def owner_of(uid: str) -> str:
        """The digest of an operator's uid."""
        return _digest(uid.encode())


@dataclass(eq=False, slots=True)
class ImageWriter:
    """Collects what a state file consists of. The same sections and index always make the same bytes.

    Attributes:
        size: bytes so far.
        digest: that of the index, once it is finished.
    """

    size: int = len(MAGIC)
    digest: str = ""
    _chunks: list[bytes | pa.Buffer] = field(default_factory=[MAGIC].copy)

    def add(self, section: Section) -> int:
        """Appends a section; returns where it begins."""
        padding = -self.size % ALIGNMENT
        self._append(b"\0" * padding)
        start = self.size
        for piece in section.encoded():
            self._append(piece)
        return start

    def finish(self, index: dict[str, Any]) -> Sequence[bytes | pa.Buffer]:
        """Appends index and trailer; returns all pieces of the file."""
        data = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
        self._append(data)
        self._append(_TRAILER.pack(len(data), crc32(data), self.size, MAGIC))
        self.digest = _digest(data)
        return self._chunks

    def _append(self, chunk: bytes | pa.Buffer) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk) if isinstance(chunk, bytes) else chunk.size


def read_index(file: MappedFile, ref: VersionRef) -> dict[str, Any]:
    """The index of a version; nothing else of it is read.

    Args:
        file: the version's bytes.
        ref: what the manifest says of it.

    Raises:
        StateCorruptedError: when the file is truncated, damaged, none of ours or that of another version; the message
            names it.
        CheckpointError: when it is of a newer version of headrace.
    """
    try:
        return _checked_index(file, ref)
    except StateCorruptedError:
        file.is_damaged = True
        raise


def _checked_index(file: MappedFile, ref: VersionRef) -> dict[str, Any]:
    name = ref.name or "(inline)"
    image = file.buffer
    if image.size < len(MAGIC) + _TRAILER.size:
        raise StateCorruptedError(f"the state file {name} is truncated: {image.size} bytes")
    file.fetch(0, len(MAGIC))
    file.fetch(image.size - _TRAILER.size, image.size)
    view = memoryview(image).cast("B")
    length, check, size, magic = _TRAILER.unpack(view[-_TRAILER.size :])
    if magic != MAGIC or bytes(view[: len(MAGIC)]) != MAGIC or size != image.size - _TRAILER.size or length > size:
        raise StateCorruptedError(f"the state file {name} is truncated or damaged, or is no state file")
    file.fetch(size - length, size)
    data = bytes(view[size - length : size])
    if crc32(data) != check:
        raise StateCorruptedError(f"the index of the state file {name} is damaged")
    index: dict[str, Any] = json.loads(data)
    if index.get("format", FORMAT) != FORMAT:  # files of other kinds have none
        raise CheckpointError(
            f"the state file {name} has format {index['format']}, this headrace reads format {FORMAT}: go on with the "
            "version that wrote it, or a newer one"
        )
    if not _is_of(ref, index, _digest(data)):
        raise StateCorruptedError(
            f"the state file {name} has the content of another one: files were swapped, or one was put back under this "
            "name"
        )
    return index


def _is_of(ref: VersionRef, index: dict[str, Any], digest: str) -> bool:
    if (index.get("stage"), index.get("partition")) != (ref.stage, ref.partition):  # a compacted file has neither
        return False
    if not ref.name:
        return True
    name = VersionName.parse(ref.name)
    wanted = (ref.epoch, ref.stage, ref.partition, digest)
    return name is not None and (name.epoch, name.stage, name.partition, name.digest) == wanted


def _digest(index: bytes) -> str:
    """A digest: that of a file is that of its index, which holds the checksums of everything that is new in it."""
    return hashlib.blake2b(index, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """The index of a version.

    Attributes:
        owned: by operator, the hashes of the keys that the partition owned.
        runs: the runs, oldest first, each with its store, for keys that the partition owned.
    """

    owned: dict[str, HashRange]
    runs: list[tuple[StoreKey, Run]]

    def by_store(self) -> dict[StoreKey, list[Run]]:
        """The runs of each store, oldest first."""
        stores: dict[StoreKey, list[Run]] = {}
        for key, run in self.runs:
            stores.setdefault(key, []).append(run)
        return stores


def read_version(files: StateFiles, ref: VersionRef, section_of: SectionOf) -> StoredVersion:
    """The contents of a version; only its index is read.

    Args:
        files: where its files are.
        ref: the version, which is not empty.
        section_of: opens the sections that the index describes.

    Raises:
        StateCorruptedError: when a file is missing or damaged.
        CheckpointError: when it is of a newer version of headrace.
    """
    own = inline_loader(ref.inline) if ref.inline else files.loader(ref.name)
    index = read_index(own(), ref)
    owned = {uid: (low, end) for uid, (low, end) in index["owned"].items()}
    runs = []
    for entry in index["runs"]:
        key = (entry["uid"], entry["store"])
        is_own = entry["file"] < 0
        name = ref.name if is_own else index["files"][entry["file"]]
        run = run_of_entry(entry, section_of(entry, name, own if is_own else files.loader(name)))
        counting = run.restricted(owned[key[0]] if kind_of_store(key[1]) is None else ALL_HASHES)
        if counting is not None:
            runs.append((key, counting))
    return StoredVersion(owned, runs)


class StateFiles:
    """The state files of a checkpoint directory that a task has mapped, each once."""

    def __init__(self, storage: Folder) -> None:
        self._storage = storage
        self._maps: dict[str, MappedFile] = {}

    def loader(self, name: str) -> Callable[[], MappedFile]:
        """A function that opens a file when its bytes are needed.

        It raises a ``StateCorruptedError`` when the file is missing, and an ``InfrastructureError`` when it cannot be
        read: a function of the user may have read state, and is not what failed.
        """
        return partial(self._map, name)

    def keep(self, names: Container[str]) -> None:
        """Lets go of all files but these."""
        self._maps = {name: file for name, file in self._maps.items() if name in names}

    def drop_surplus(self) -> set[str]:
        """Lets go of the files whose bytes take room that others need; returns their names."""
        surplus: set[str] = set()
        for name, file in tuple(self._maps.items()):
            if file.is_surplus:
                surplus.add(name)
                del self._maps[name]
        return surplus

    def close(self) -> None:
        """Lets go of all files."""
        self._maps.clear()

    def _map(self, name: str) -> MappedFile:
        file = self._maps.get(name)
        if file is None:
            with reading(name):
                file = self._maps[name] = self._storage.map(name)
        return file


def inline_loader(data: bytes) -> Callable[[], MappedFile]:
    """A function that returns the bytes of a version held in its reference."""
    whole = MappedFile(pa.py_buffer(data))
    return lambda: whole


def write_run(storage: Folder, run: Run, generation: int, stage: int, about: dict[str, Any]) -> Entry:
    """Writes a run to a file of its own; the same run always gives the same bytes under the same name.

    Args:
        storage: where state files are.
        run: the run; its ``origin`` is the partition that writes it.
        generation: that of the job manager, so that an older one which is still alive cannot delete the file.
        stage: the stage of the task.
        about: what the index of the file says of where the run comes from: JSON.

    Returns:
        The run as an index describes it, with the name of its file.

    Raises:
        OSError: when it cannot be written.
    """
    writer = ImageWriter()
    place = run.section.describe(writer.add(run.section))
    entry = {**entry_of_rows(run), **place}
    chunks = writer.finish({**about, "runs": [entry]})
    name = str(CompactedName(generation, stage, run.origin, writer.digest))
    storage.write(name, chunks)
    return {**entry, "file": name}


@dataclass(frozen=True, slots=True)
class VersionRef:
    """Names one version of the state of one partition of one stage.

    Attributes:
        stage: the stage that the task belongs to.
        partition: the partition of the stage.
        epoch: the epoch in which the version was written; later epochs that changed nothing keep it.
        name: the state file with the version's index; empty when the version is small and held in ``inline``.
        inline: the bytes that such a file would have; empty when there is one, or when there is no state at all.
        files: every file that the version needs, sorted; what no version needs may be deleted.
        shared: by uid, a digest of the broadcast state that the operator has in common with its other subtasks.
    """

    stage: int
    partition: int
    epoch: int
    name: str = ""
    inline: bytes = b""
    files: tuple[str, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is no state at all."""
        return not self.name and not self.inline

    def to_json(self) -> dict[str, Any]:
        """The reference as JSON."""
        return {
            "stage": self.stage,
            "partition": self.partition,
            "epoch": self.epoch,
            "name": self.name,
            "packed": packed(self.inline),
            "files": list(self.files),
            **({"shared": dict(self.shared)} if self.shared else {}),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> VersionRef:
        """The reference that :meth:`to_json` described."""
        return VersionRef(
            stage=data["stage"],
            partition=data["partition"],
            epoch=data["epoch"],
            name=data["name"],
            inline=_unpacked(data["packed"]),
            files=tuple(data["files"]),
            shared=tuple(sorted(data.get("shared", {}).items())),
        )


def packed(inline: bytes) -> str:
    """Compressed: half of a small version describes its layout, in the same words for all partitions."""
    return base64.b64encode(zlib.compress(inline, 1)).decode() if inline else ""


def _unpacked(packed: str) -> bytes:
    if not packed:
        return b""
    try:
        return zlib.decompress(base64.b64decode(packed))
    except zlib.error as error:
        raise ValueError(f"state inside cannot be unpacked: {error}") from error


@dataclass(frozen=True, slots=True)
class NewVersion:
    """The version of a task's state that is to be written; attributes as in :class:`VersionRef` and ``snapshot``."""

    stage: int
    partition: int
    epoch: int
    generation: int
    inline_threshold: int
