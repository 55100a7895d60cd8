"""Starting from a savepoint: a fresh checkpoint directory gets its first manifest from one, or from a checkpoint."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from headrace.checkpoint.directory import source_folder
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common.errors import (
    CheckpointError,
    InfrastructureError,
    SavepointError,
    SavepointMissingError,
    StateCorruptedError,
)
from headrace.common.logs import get_logger
from headrace.jobmanager.recovery import heads_of_manifest, heads_of_tables
from headrace.jobmanager.runtime import Runtime
from headrace.plan.job_plan import JobPlan
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import METADATA, SavepointMetadata, read_metadata
from headrace.savepoint.requests import CheckpointPlace, read_checkpoint
from headrace.savepoint.tables import copy_in, copy_state_file, named_files, put
from headrace.savepoint.tasks import Import, Rename, tasks_of, versions_of, with_versions
from headrace.savepoint.uid_mapping import UidMapping
from headrace.state.backend import StateBackendPlugin
from headrace.state.state_file import RunHead, VersionRef
from headrace.storage.folder import Folder
from headrace.storage.locations import open_storage

Store = CheckpointStore | TemporaryStore


T = TypeVar("T")

logger = get_logger(__name__)

_SAME_UIDS: Final[Mapping[str, str]] = MappingProxyType({})

_COPIES_AT_ONCE: Final = 8


class SavepointStart:
    """A savepoint, or a checkpoint directory, that a job is to start from.

    Args:
        location: where it is.
        options: how to reach it on an object store.
        claims: whether it belongs to the job from then on, which removes it once it is not needed any more.
        uids: the program's uids where they are others there, by those.
    """

    def __init__(
        self, location: str, options: Mapping[str, str], *, claims: bool = False, uids: Mapping[str, str] = _SAME_UIDS
    ) -> None:
        self._location = location.removesuffix(f"/{METADATA}")
        self._options = options
        self._claims = claims
        self._uids = UidMapping(uids)
        self._place = CheckpointPlace.of(self._location)
        self._directory = open_storage(self._place.directory, options=options)
        self._metadata: SavepointMetadata | None = None

    def __str__(self) -> str:
        return self._location

    def first_manifest(self, fresh: Manifest, program: Collection[str]) -> Manifest:
        """What the job begins with; its state is not there before :meth:`take_in`.

        Args:
            fresh: what the job would begin with otherwise.
            program: the uids of all operators.

        Raises:
            SavepointError: when there is no savepoint, or it is damaged, or cannot be started from.
            StateMigrationError: when uids cannot be mapped as it was said.
        """
        metadata = self._metadata = self._read()
        known = metadata.checkpoint
        if known.pending or known.in_progress:
            raise SavepointError(
                f"{self} is the checkpoint of a job that has yet to publish output: go on in that directory "
                "(execution.checkpointing.dir), or take a savepoint of the job and start from that"
            )
        self._uids.check(known, program)
        return replace(
            self._uids.manifest(known),
            epoch=0,
            generation=fresh.generation,
            job_id=fresh.job_id,
            job_name=fresh.job_name,
            max_parallelism=fresh.max_parallelism,
            state_backend=fresh.state_backend if metadata.format == "canonical" else known.state_backend,
            restored_from=self._location,
        )

    def heads(self, backend: StateBackendPlugin) -> Iterator[RunHead]:
        """What the job begins with says of itself, under the program's uids; after :meth:`first_manifest`.

        Args:
            backend: that of the job.
        """
        metadata = self._metadata
        assert metadata is not None, "first_manifest() comes first"
        if metadata.format == "canonical":
            found = heads_of_tables(metadata.tables)
        else:
            state = open_storage(metadata.directory, options=self._options).folder("state")
            found = heads_of_manifest(metadata.checkpoint, backend, state)
        return self._uids.heads(found)

    def take_in(
        self, manifest: Manifest, plan: JobPlan, runtime: Runtime, store: CheckpointStore | TemporaryStore
    ) -> Manifest:
        """Bring state, and what sources keep, into the job's own directory.

        Args:
            manifest: what :meth:`first_manifest` gave, with the job's id and generation.
            plan: the job.
            runtime: its tasks write the state.
            store: the job's directory.

        Returns:
            The first manifest, which is to be written.

        Raises:
            SavepointError: naming the file, when one is missing or damaged.
        """
        metadata = self._metadata
        assert metadata is not None, "first_manifest() comes first"
        # Numbers of records rise with those of epochs, and open windows hold some: the first and the last one are told
        # by them. So epochs are counted on from there.
        manifest = replace(manifest, epoch=max(1, metadata.checkpoint.epoch))
        for file in metadata.files:
            uid = self._uids.of(file.uid)
            if uid in manifest.sources:
                copy_in(file, self._directory, store.source_folder(uid))
        if metadata.format == "canonical":
            return self._import(self._uids.metadata(metadata), manifest, plan, runtime, store)
        self._copy(metadata, manifest, store)
        if not self._uids:
            return manifest
        return with_renamed_state(metadata.checkpoint, manifest, self._uids, plan, runtime, store)

    def release(self) -> None:
        """The job has a manifest of its own: what it has claimed goes. The checkpoint directory of a job stays."""
        if not self._claims:
            return
        try:
            kept = dispose(self._directory, partial(open_storage, options=self._options))
        except SavepointMissingError:  # a start that was killed had come so far
            return
        except (CheckpointError, OSError) as error:
            logger.warning("the savepoint %s was claimed by the job, and is left there: %s", self, error)
        else:
            logger.info("the savepoint %s was claimed by the job, and is not needed any more: it is removed", self)
            if kept:
                logger.warning("of the savepoint %s, %s", self, kept)

    def _read(self) -> SavepointMetadata:
        try:
            return read_metadata(self._directory)
        except SavepointError:
            checkpoint = read_checkpoint(self._directory, self._place.number)
            if checkpoint is None:
                raise
            return SavepointMetadata(checkpoint, "native", directory=self._place.directory)

    def _import(
        self,
        metadata: SavepointMetadata,
        manifest: Manifest,
        plan: JobPlan,
        runtime: Runtime,
        store: CheckpointStore | TemporaryStore,
    ) -> Manifest:
        uids = {operator.uid for operator in plan.operators()}
        tasks = list(tasks_of(metadata.tables, manifest, uids, plan.settings.inline_threshold))
        work = Import(plan.settings.state_backend, store.state, self._directory)
        return with_versions(manifest, written_by_tasks(work, tasks, runtime))

    def _copy(self, metadata: SavepointMetadata, manifest: Manifest, store: CheckpointStore | TemporaryStore) -> None:
        """Copy state files from the checkpoint directory that is named, and what sources keep where that is all."""
        directory = open_storage(metadata.directory, options=self._options)
        state = directory.folder("state")
        if not metadata.pin:
            for old, source in metadata.checkpoint.sources.items():
                uid = self._uids.of(old)
                for name, content in named_files(source, source_folder(directory, old)):
                    if uid in manifest.sources:
                        put(name, content, store.source_folder(uid))
        told = "which the savepoint refers to; put it back" if metadata.pin else self._told_of_checkpoint()
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
            list(copies.map(partial(_copy_file, state, store.state, told), set(metadata.checkpoint.state_files())))

    def _told_of_checkpoint(self) -> str:
        return (
            f"which the checkpoint {self} refers to. A job that runs there deletes what newer checkpoints do not need: "
            "stop it before (headrace stop), or start from a savepoint of it (headrace savepoint); if none runs there, "
            "put the file back"
        )


def _copy_file(source: Folder, target: Folder, told: str, name: str) -> None:
    try:
        copy_state_file(source, target, name)
    except StateCorruptedError as error:
        raise SavepointError(f"{source.locate(name)} is missing, {told}") from error


def with_renamed_state(
    known: Manifest, manifest: Manifest, uids: UidMapping, plan: JobPlan, runtime: Runtime, store: Store
) -> Manifest:
    """A manifest with state under the program's uids; of the files that hold it all but the indexes stay.

    Args:
        known: the job with the uids that state has.
        manifest: the same with the program's; what is written has its epoch and generation.
        uids: which are which.
        plan: the job.
        runtime: its tasks write.
        store: the job's directory, which has the state files.

    Raises:
        SavepointError: when something cannot be written, or a file is missing.
    """
    threshold = plan.settings.inline_threshold
    tasks = list(versions_of(known, manifest.epoch, manifest.generation, threshold))
    work = Rename(plan.settings.state_backend, store.state, uids.new_by_old)
    return with_versions(manifest, written_by_tasks(work, tasks, runtime))


def copy_source_files(known: Manifest, uids: UidMapping, store: Store) -> None:
    """Give sources with other uids what they keep beside their positions; it stays where it was for older manifests.

    Args:
        known: the job with the uids that there were.
        uids: which are which.
        store: the job's directory.
    """
    for old, source in known.sources.items():
        if uids.of(old) != old:
            for name, content in named_files(source, store.source_folder(old)):
                put(name, content, store.source_folder(uids.of(old)))


def written_by_tasks(work: Callable[[T], VersionRef], tasks: Sequence[T], runtime: Runtime) -> list[VersionRef]:
    """The versions that tasks of a runtime write.

    Raises:
        SavepointError: when one cannot be written.
    """
    try:
        return runtime.run_background(work, tasks).result() if tasks else []
    except InfrastructureError as error:
        raise SavepointError(f"state could not be brought in: {error}") from error
