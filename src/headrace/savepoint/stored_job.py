"""``StoredJob``: a job as it lies in a savepoint or in a checkpoint directory, whether it runs meanwhile or not."""

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.manifest_folder import name_of
from headrace.common.durable import TemporaryFolder
from headrace.common.errors import CheckpointError, InvalidProgramError, SavepointError, StateCorruptedError
from headrace.common.typeinfo import DeclaredType, Types
from headrace.savepoint.metadata import (
    SavepointMetadata,
    SourceFile,
    TableFile,
    is_savepoint,
    read_metadata,
    what_is_there,
)
from headrace.savepoint.requests import place_and_number, read_checkpoint
from headrace.savepoint.tables import copy_state_file, named_files, read_file, read_table
from headrace.savepoint.tasks import owner_of
from headrace.state.backend import STATE_BACKENDS, StateOwner
from headrace.state.descriptors import StateDescriptor
from headrace.state.exported_tables import ExportedTable
from headrace.state.keys import KeyCodec
from headrace.state.keys.hashing import partitions_of_hashes
from headrace.state.protocols import STORE_PREFIX, OperatorStates
from headrace.state.state_file import VersionRef
from headrace.storage.folder import Folder, posix_folder, source_folder
from headrace.storage.locations import open_storage

T = TypeVar("T")

_ATTEMPTS: Final = 100
"""A job that runs deletes what its newest checkpoint does not need; so often the next one is looked at. Epochs may be
shorter than a read, and then most attempts come too late."""


TaskTable = tuple[int, int, ExportedTable]
"""The stage of a task, the task, and what it holds of one state, to be gone through before the next is taken."""

SourceContent = tuple[str, str, bytes]
"""The uid of a source, the name of a file that it keeps beside its position, and what is in it."""

StatePlace = tuple[str, str]
"""The uid of an operator, and the name of the store of one of its states."""


def _nothing(_: StatePlace | None = None) -> Iterator[Any]:
    return iter(())


@dataclass(frozen=True)
class StoredJob:
    """One job.

    Attributes:
        location: the savepoint or checkpoint directory, for messages.
        manifest: the job at the end of the epoch.
        task_tables: gives what its tasks hold, of one state alone where one is named.
        source_files: gives what its sources keep.
        state: where its state files are; None where it has none but tables.
        directory: of a savepoint, where it is.
        files: those that it has itself.
        later: looks at the job again: files of a checkpoint go when the job has come to do without them. None where
            they stay, and of an older checkpoint, for which no later one stands.
    """

    location: str
    manifest: Manifest
    task_tables: Callable[[StatePlace | None], Iterator[TaskTable]] = _nothing
    source_files: Callable[[], Iterator[SourceContent]] = _nothing
    state: Folder | None = None
    directory: Folder | None = None
    files: tuple[TableFile | SourceFile, ...] = ()
    later: "Callable[[], StoredJob] | None" = None

    def tables(self, place: StatePlace | None = None) -> Iterator[ExportedTable]:
        """All tables of all tasks, or of one state, each to be gone through before the next one is taken."""
        return (table for _, _, table in self.task_tables(place))

    def versions(self) -> list[VersionRef]:
        """The versions of the state of all tasks that hold some."""
        return list(self.manifest.versions())


def open_job(location: str | os.PathLike[str], options: Mapping[str, str]) -> StoredJob:
    """A job of which nothing was read yet but where everything is.

    Args:
        location: a savepoint; a checkpoint directory, of which the newest checkpoint counts; or the manifest of an
            older one that it retains.
        options: how object stores are reached.

    Raises:
        SavepointError: when it is neither, or a damaged one.
        CheckpointError: when the newest manifest is damaged.
    """
    import headrace.operators.run_mergers  # noqa: F401  # state of any job is read, without its program

    place, number = place_and_number(os.fspath(location))
    directory = open_storage(place, options=options)
    if is_savepoint(directory):
        return _of_savepoint(directory, read_metadata(directory), options)
    manifest = read_checkpoint(directory, number)
    if manifest is None:
        raise SavepointError(
            f"{directory} is neither a savepoint nor a checkpoint directory with a checkpoint in it: "
            f"{what_is_there(directory)}"
        )
    if number is not None:
        return _of_files(directory.folder("manifests").locate(name_of(number)), directory, manifest)
    job = _of_files(str(directory), directory, manifest)
    return replace(job, later=partial(open_job, job.location, options))


def read_with_retries(job: StoredJob, read: Callable[[StoredJob], T]) -> tuple[StoredJob, T]:
    """Read from a job; where files are gone meanwhile, from the checkpoint that has replaced its newest one.

    Returns:
        The job as it was read, and what was read.

    Raises:
        StateCorruptedError: when there is no later checkpoint, so that something is wrong with the files.
    """
    for _ in range(_ATTEMPTS):
        try:
            return job, read(job)
        except StateCorruptedError:
            later = None if job.later is None else job.later()
            if later is None or later.manifest.epoch == job.manifest.epoch:
                raise
            job = later
    return job, read(job)


def fixed(job: StoredJob) -> StoredJob:
    """The same job, or what has become of it meanwhile, with files that stay as long as the object.

    Those of a savepoint do. A checkpoint's, of an older one as well, are copied into a temporary folder.

    Raises:
        StateCorruptedError: when a file is missing.
    """
    if job.directory is not None:
        return job
    copies = TemporaryFolder("checkpoint-")
    try:
        _, copied = read_with_retries(job, partial(_copied, target=posix_folder(copies.path)))
    except BaseException:
        copies.remove()
        raise
    weakref.finalize(copied, copies.remove)
    return copied


def _copied(job: StoredJob, target: Folder) -> StoredJob:
    copies = target.folder("state")
    copies.make()
    if job.state is not None:
        for name in job.manifest.state_files():
            if copies.size(name) is None:
                copy_state_file(job.state, copies, name)
    files = list(job.source_files())
    copied = _of_files(job.location, target, job.manifest)
    return replace(copied, source_files=lambda: iter(files))


def _of_savepoint(directory: Folder, metadata: SavepointMetadata, options: Mapping[str, str]) -> StoredJob:
    location, manifest = str(directory), metadata.checkpoint
    if metadata.format == "native":
        job = _of_files(location, open_storage(metadata.directory, options=options), manifest)
    else:
        job = StoredJob(location, manifest, partial(_read_tables, directory, metadata))
    source_files = partial(_read_source_files, directory, metadata)
    return replace(job, source_files=source_files, directory=directory, files=metadata.own_files())


def _read_tables(directory: Folder, metadata: SavepointMetadata, place: StatePlace | None) -> Iterator[TaskTable]:
    for file in metadata.tables:
        if place in (None, (file.uid, file.state)):
            yield file.stage, file.partition, read_table(directory, file)


def _read_source_files(directory: Folder, metadata: SavepointMetadata) -> Iterator[SourceContent]:
    for file in metadata.files:
        yield file.uid, file.name, read_file(directory, file).to_pybytes()


def _of_files(location: str, directory: Folder, manifest: Manifest) -> StoredJob:
    backend = STATE_BACKENDS.load(manifest.state_backend)
    state = directory.folder("state")
    job = StoredJob(location, manifest, state=state)

    def task_tables(place: StatePlace | None) -> Iterator[TaskTable]:
        for version in job.versions():
            for table in backend.export_tables(state, version, manifest.processing_time):
                if place in (None, (table.uid, table.store)):
                    yield version.stage, version.partition, table

    def source_files() -> Iterator[SourceContent]:
        for uid, source in manifest.sources.items():
            for name, content in named_files(source, source_folder(directory, uid)):
                yield uid, name, content

    return replace(job, task_tables=task_tables, source_files=source_files)


def query(job: StoredJob, uid: str, descriptor: StateDescriptor, key: Any, key_type: DeclaredType | None = None) -> Any:
    """Return the state of a key: a value (None where there is none), a list, a dict.

    Args:
        job: the job, with state files.
        uid: the operator.
        descriptor: the state, as the program declares it.
        key: the key.
        key_type: the type of keys that the program gives to ``key_by``; any object when left out.

    Raises:
        InvalidProgramError: when it is no descriptor.
        StateMigrationError: when the state was stored with another type, or with other keys.
        SavepointError: when the job knows no such operator with state, nothing is stored under the name of the state,
            or there are none but tables.
        StateCorruptedError: when a file is missing.
    """
    if not isinstance(descriptor, StateDescriptor):
        raise InvalidProgramError(
            "expected the descriptor of a state, such as ValueStateDescriptor('total', Types.LONG()), got "
            f"{descriptor!r}"
        )
    descriptor = copy(descriptor)
    descriptor.advise("ask by the descriptor, and the type of keys, that the program has")
    place = _place_of(job, uid)
    codec = KeyCodec.for_type(Types.PICKLED_BYTE_ARRAY() if key_type is None else Types.of(key_type))
    keys = codec.encode([key])
    (subtask,) = partitions_of_hashes(keys.hashes, place.owner.parallelism, place.owner.max_parallelism).tolist()
    with place.opened(subtask, codec) as states:
        if STORE_PREFIX + descriptor.name not in states.stored():
            place.check_stored(codec, descriptor)
        found = states.keyed.state(descriptor)
        (states.keyed.current,) = states.keyed.bind(keys)
        return _CONTENT[descriptor.kind](found)


@dataclass(frozen=True, slots=True)
class _OperatorPlace:
    """The location of an operator's state.

    Attributes:
        job: the job.
        uid: the operator.
        stage: its stage.
        owner: into what its keys are divided.
        state: where state files are.
    """

    job: StoredJob
    uid: str
    stage: int
    owner: StateOwner
    state: Folder

    @contextmanager
    def opened(self, subtask: int, codec: KeyCodec) -> Iterator[OperatorStates]:
        """Open the states of a subtask; only indexes are read."""
        refs = [ref for ref in self.job.versions() if (ref.stage, ref.partition) == (self.stage, subtask)]
        backend = STATE_BACKENDS.load(self.job.manifest.state_backend)
        task = backend.open(self.state, refs, self.stage, subtask, {self.uid: self.owner})
        try:
            states = task.operator(self.uid)
            states.bind_key_codec(codec)
            states.begin_epoch(0, self.job.manifest.processing_time)
            yield states
        finally:
            task.close()

    def check_stored(self, codec: KeyCodec, descriptor: StateDescriptor) -> None:
        """Refuse a state of which no subtask holds anything, or not with such keys and types."""
        known: set[str] = set()
        for subtask in range(self.owner.parallelism):
            with self.opened(subtask, codec) as states:
                stored = states.stored()
                if STORE_PREFIX + descriptor.name in stored:
                    states.keyed.state(descriptor)
                    return
                known.update(name.removeprefix(STORE_PREFIX) for name in stored if name.startswith(STORE_PREFIX))
        raise SavepointError(
            f"{self.job.location} holds nothing under the name {descriptor.name!r} of the operator with uid "
            f"{self.uid!r}: its states of keys that hold something are {', '.join(sorted(known)) or 'none'}"
        )


def _place_of(job: StoredJob, uid: str) -> _OperatorPlace:
    if job.state is None:
        raise SavepointError(
            f"{job.location} is a canonical savepoint: it is read as a whole; use read_keyed_state(), or ask the "
            "checkpoint directory of a job"
        )
    stage = _stage_of(job, uid)
    return _OperatorPlace(job, uid, stage, owner_of(job.manifest.stages[stage].operators[uid]), job.state)


def _stage_of(job: StoredJob, uid: str) -> int:
    known = {
        each: stage
        for stage, snapshot in enumerate(job.manifest.stages)
        for each, operator in snapshot.operators.items()
        if operator.state_kinds
    }
    if uid not in known:
        raise SavepointError(
            f"{job.location} holds no state of an operator with uid {uid!r}: operators with state are "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    return known[uid]


_CONTENT: Final[dict[str, Callable[[Any], Any]]] = {
    "value": lambda state: state.value(),
    "list": lambda state: list(state.get()),
    "map": lambda state: dict(state.items()),
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
}


@dataclass(frozen=True, slots=True)
class Verified:
    """The job whose files were found to be undamaged.

    Attributes:
        job_name: the job's name.
        epoch: the epoch that it was at the end of.
        files: how many files there are, without metadata and manifest.
        size: how many bytes they have.
    """

    job_name: str
    epoch: int
    files: int
    size: int


def verify(job: StoredJob) -> Verified:
    """Read all files of a job, and compare them with the digests and checksums that were written with them.

    Not of what sources keep in a checkpoint directory: only they know what it has to be, and look at a start. In a
    savepoint it has a digest.

    Raises:
        StateCorruptedError: naming what is missing or damaged, of each file of a savepoint and of each task.
        OSError: when a file cannot be read.
    """
    damages = dict.fromkeys(damage for check in _checks(job) if (damage := _damage(check)))
    if damages:
        raise StateCorruptedError("\n  ".join([f"{job.location} is not whole:", *damages]))
    sizes = [file.size for file in job.files]
    if job.state is not None:
        sizes += [job.state.size(name) or 0 for name in sorted(set(job.manifest.state_files()))]
    return Verified(job.manifest.job_name, job.manifest.epoch, len(sizes), sum(sizes))


def _checks(job: StoredJob) -> Iterator[Callable[[], object]]:
    """The checks, each of which reads a part."""
    if job.directory is not None:
        yield from (partial(read_file, job.directory, file) for file in job.files)
    if job.state is not None:
        verify_version = partial(STATE_BACKENDS.load(job.manifest.state_backend).verify, job.state)
        yield from (partial(verify_version, version) for version in job.versions())


def _damage(check: Callable[[], object]) -> str:
    """The damage that a check finds, as text; empty for none."""
    try:
        check()
    except (CheckpointError, StateCorruptedError) as error:
        return str(error)
    return ""
