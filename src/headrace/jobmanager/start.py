"""The start of a job from a savepoint or a checkpoint of another job: with its state, or only where sources had come.

A fresh checkpoint directory gets its first manifest from it.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Final

from headrace.checkpoint.manifest import Manifest, SourceSnapshot
from headrace.common.errors import CheckpointError, SavepointError, SavepointMissingError, StateCorruptedError
from headrace.common.logs import get_logger
from headrace.jobmanager.recovery import Store, heads_of_manifest, heads_of_tables, with_renamed_state, written_by_tasks
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.sources import same_sources
from headrace.plan.job_plan import JobPlan
from headrace.savepoint.disposal import dispose
from headrace.savepoint.metadata import METADATA, SavepointMetadata, read_metadata
from headrace.savepoint.requests import place_and_number, read_checkpoint
from headrace.savepoint.tables import copy_in, copy_state_file, named_files, put
from headrace.savepoint.tasks import import_version, tasks_of, with_versions
from headrace.savepoint.uid_mapping import UidMapping
from headrace.state.backend import StateBackendPlugin
from headrace.state.state_file import RunHead
from headrace.storage.folder import Folder, source_folder
from headrace.storage.locations import open_storage

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
        self._place, self._number = place_and_number(self._location)
        self._directory = open_storage(self._place, options=options)
        self._metadata: SavepointMetadata | None = None

    def __str__(self) -> str:
        return self._location

    def first_manifest(self, fresh: Manifest, plan: JobPlan) -> Manifest:
        """The manifest that the job begins with; its state is not there before :meth:`take_in`.

        Args:
            fresh: what the job would begin with otherwise.
            plan: the job.

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
        return self._of_known(known, metadata, fresh, plan)

    def _of_known(self, known: Manifest, metadata: SavepointMetadata, fresh: Manifest, plan: JobPlan) -> Manifest:
        self._uids.check(known, [planned.uid for planned in plan.operators()])
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
        """The headers of the state that the job begins with, under the program's uids; after :meth:`first_manifest`.

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

    def take_in(self, manifest: Manifest, plan: JobPlan, runtime: Runtime, store: Store) -> Manifest:
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
        return self._taken_in(metadata, manifest, plan, runtime, store)

    def _taken_in(
        self, metadata: SavepointMetadata, manifest: Manifest, plan: JobPlan, runtime: Runtime, store: Store
    ) -> Manifest:
        for file in metadata.files:
            uid = self._uids.of(file.uid)
            if uid in manifest.sources:
                copy_in(file, self._directory, source_folder(store.storage, uid))
        if metadata.format == "canonical":
            return self._import(self._uids.metadata(metadata), manifest, plan, runtime, store)
        self._copy(metadata, manifest, store)
        if not self._uids.new_by_old:
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
            checkpoint = read_checkpoint(self._directory, self._number)
            if checkpoint is None:
                raise
            return SavepointMetadata(checkpoint, "native", directory=self._place)

    def _import(
        self,
        metadata: SavepointMetadata,
        manifest: Manifest,
        plan: JobPlan,
        runtime: Runtime,
        store: Store,
    ) -> Manifest:
        uids = {operator.uid for operator in plan.operators()}
        tasks = list(tasks_of(metadata.tables, manifest, uids, plan.settings.inline_threshold))
        work = partial(import_version, plan.settings.state_backend, store.state, self._directory)
        return with_versions(manifest, written_by_tasks(work, tasks, runtime))

    def _copy(self, metadata: SavepointMetadata, manifest: Manifest, store: Store) -> None:
        """Copy state files from the checkpoint directory that is named, and what sources keep where that is all."""
        directory = open_storage(metadata.directory, options=self._options)
        state = directory.folder("state")
        if not metadata.pin:
            for old, source in metadata.checkpoint.sources.items():
                uid = self._uids.of(old)
                for name, content in named_files(source, source_folder(directory, old)):
                    if uid in manifest.sources:
                        put(name, content, source_folder(store.storage, uid))
        advice = "which the savepoint refers to; put it back" if metadata.pin else self._advice_on_checkpoint()
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
            list(copies.map(partial(_copy_file, state, store.state, advice), set(metadata.checkpoint.state_files())))

    def _advice_on_checkpoint(self) -> str:
        return (
            f"which the checkpoint {self} refers to. A job that runs there deletes what newer checkpoints do not need: "
            "stop it before (headrace stop), or start from a savepoint of it (headrace savepoint); if none runs there, "
            "put the file back"
        )


def _copy_file(source: Folder, target: Folder, advice: str, name: str) -> None:
    try:
        copy_state_file(source, target, name)
    except StateCorruptedError as error:
        raise SavepointError(f"{source.locate(name)} is missing, {advice}") from error


class PositionsStart(SavepointStart):
    """A savepoint of which a job takes only how far sources have been read; its operators begin without state."""

    def _of_known(self, known: Manifest, metadata: SavepointMetadata, fresh: Manifest, plan: JobPlan) -> Manifest:
        self._old_by_new = same_sources(known, plan)
        channels = count()
        return replace(
            fresh,
            processing_time=known.processing_time,
            restored_from=self._location,
            sources={new: _without_times(known.sources[old], channels) for new, old in self._old_by_new.items()},
        )

    def heads(self, backend: StateBackendPlugin) -> Iterator[RunHead]:
        return iter(())

    def _taken_in(
        self, metadata: SavepointMetadata, manifest: Manifest, plan: JobPlan, runtime: Runtime, store: Store
    ) -> Manifest:
        directory = open_storage(metadata.directory, options=self._options) if metadata.directory else None
        for new, old in self._old_by_new.items():
            folder = source_folder(store.storage, new)
            for file in metadata.files:
                if file.uid == old:
                    copy_in(file, self._directory, folder)
            if directory is not None and not metadata.pin:
                for name, content in named_files(metadata.checkpoint.sources[old], source_folder(directory, old)):
                    put(name, content, folder)
        return manifest


def _without_times(source: SourceSnapshot, channels: Iterator[int]) -> SourceSnapshot:
    """The position of a source whose operators make watermarks anew."""
    splits = (replace(each, channel=next(channels), watermarks={}, generators={}) for each in source.splits)
    return replace(source, splits=tuple(splits))
