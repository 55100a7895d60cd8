"""Savepoints of a running job: begun between two epochs, written beside those that follow.

What is in a savepoint is fixed when it begins: by a manifest, whose files are pinned. Output that sinks hold back is
published first, so that a savepoint needs nothing of what its job has written, and jobs that start from it never show
that again. It is complete, and only then is there a savepoint, when its files are written and all output of its epoch
has been published.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.pins import Pin
from headrace.common.errors import HeadraceError, JobCancelledError, JobExecutionError, SavepointError
from headrace.common.logs import get_logger
from headrace.savepoint.metadata import METADATA, SavepointMetadata
from headrace.savepoint.source_files import copy_out
from headrace.savepoint.tasks import Export, with_versions
from headrace.state.version import VersionRef
from headrace.storage.locations import open_storage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from headrace.checkpoint.manifest import Manifest
    from headrace.common.completable_future import CompletableFuture
    from headrace.jobmanager.execution import JobExecution, JobServices
    from headrace.savepoint.metadata import SavepointFormat, TableFile
    from headrace.storage.folder import Folder

logger = get_logger(__name__)

_LOOK_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """What somebody wants.

    Attributes:
        directory: where the directory of the savepoint is made.
        format: canonical or native.
    """

    directory: str
    format: SavepointFormat = "canonical"


@dataclass
class _Running:
    """A savepoint that is being taken."""

    name: str
    folder: Folder
    metadata: SavepointMetadata
    outcome: CompletableFuture[str]
    tables: Future[list[list[TableFile]]] | None = None
    started: float = field(default_factory=time.monotonic)


class SavepointCoordinator:
    """Takes the savepoints of one job; used by the job's thread alone."""

    def __init__(self) -> None:
        self._running: list[_Running] = []
        self._at_end: list[tuple[SavepointRequest, CompletableFuture[str]]] = []

    def begin(
        self, job: JobServices, execution: JobExecution, request: SavepointRequest, outcome: CompletableFuture[str]
    ) -> bool:
        """Begin to take a savepoint of the newest manifest; only between two epochs.

        Args:
            job: what all executions of the job share.
            execution: the present one.
            request: what is wanted.
            outcome: gets the place of the savepoint once it is complete, or what went wrong.

        Returns:
            Whether it has begun.
        """
        try:
            self._running.append(_begun(job, execution.publish_output(), request, outcome))
        except (HeadraceError, OSError) as error:
            outcome.set_exception(_told(request.directory, error))
            return False
        return True

    def begin_at_end(self, request: SavepointRequest, outcome: CompletableFuture[str]) -> None:
        """Take a savepoint when the job has come to its end."""
        self._at_end.append((request, outcome))

    def look(self, job: JobServices, execution: JobExecution) -> None:
        """Complete what can be completed; between two epochs."""
        for running in list(self._running):
            if running.tables is not None and not running.tables.done():
                continue
            if any(commit.epoch <= running.metadata.checkpoint.epoch for commit in execution.commits.pending()):
                continue
            self._running.remove(running)
            try:
                place = _completed(job, running)
            except (HeadraceError, OSError) as error:
                _let_go(job, running.name)
                running.outcome.set_exception(_told(str(running.folder), error))
            else:
                if running.metadata.format == "canonical":
                    _let_go(job, running.name)
                running.outcome.set_result(place)

    def finish(self, job: JobServices, execution: JobExecution) -> None:
        """The job ends: begin what was to be begun then, and wait for everything.

        Raises:
            JobCancelledError: when the job is cancelled meanwhile.
        """
        at_end, self._at_end = self._at_end, []
        for request, outcome in at_end:
            self.begin(job, execution, request, outcome)
        while self._running:
            execution.commits.check()
            self.look(job, execution)
            if job.cancelled.is_set():
                raise JobCancelledError("the job was cancelled before its savepoints were complete")
            time.sleep(_LOOK_SECONDS if self._running else 0)

    def close(self) -> None:
        """The job is over: what is not complete never will be."""
        left = [running.outcome for running in self._running] + [outcome for _, outcome in self._at_end]
        self._running, self._at_end = [], []
        for outcome in left:
            outcome.set_exception(JobExecutionError("the job has ended before its savepoint was complete"))


def _begun(
    job: JobServices, manifest: Manifest, request: SavepointRequest, outcome: CompletableFuture[str]
) -> _Running:
    name = f"savepoint-{manifest.job_id[:6]}-{uuid.uuid4().hex[:12]}"
    folder = open_storage(request.directory, options=job.storage_options).folder(name)
    folder.make()
    is_native = request.format == "native"
    job.store.pin(name, Pin(str(folder), tuple(manifest.state_files()), lasts=is_native))
    try:
        kept = chain.from_iterable(
            copy_out(uid, source, job.store.source_folder(uid), folder) for uid, source in manifest.sources.items()
        )
        metadata = SavepointMetadata(manifest, request.format, files=tuple(kept))
        if is_native:
            metadata = replace(metadata, directory=str(job.store.storage), pin=name)
            return _Running(name, folder, metadata, outcome)
        refs = [ref for stage in manifest.stages for part in stage.partitions if (ref := part.version) and _holds(ref)]
        export = Export(job.plan.settings.state_backend, job.store.state, folder, manifest.processing_time)
        tables = job.runtime.run_background(export, refs) if refs else None
        return _Running(name, folder, metadata, outcome, tables)
    except BaseException:
        _let_go(job, name)
        raise


def _completed(job: JobServices, running: _Running) -> str:
    tables = () if running.tables is None else tuple(chain.from_iterable(running.tables.result()))
    metadata = running.metadata
    if metadata.format == "canonical":
        metadata = replace(metadata, checkpoint=_with_tables(metadata.checkpoint, tables), tables=tables)
    job.checkpoints.check_owner()
    if not running.folder.create(METADATA, metadata.to_bytes()):
        raise SavepointError(f"{running.folder.locate(METADATA)} exists")
    logger.info(
        "savepoint of epoch %d, complete after %.2f s: %s",
        metadata.checkpoint.epoch,
        time.monotonic() - running.started,
        running.folder,
    )
    return str(running.folder)


def _let_go(job: JobServices, name: str) -> None:
    """Files that only a savepoint needed may go; when that fails, whoever takes the directory over does it."""
    try:
        job.store.unpin(name)
    except OSError as error:
        logger.warning("state files of the savepoint %s are left: %s", name, error)


def _holds(ref: VersionRef) -> bool:
    return bool(ref.name or ref.inline)


def _with_tables(manifest: Manifest, tables: Sequence[TableFile]) -> Manifest:
    """A manifest that says of each task, in place of its version, in which files of the savepoint its state is."""
    by_task: dict[tuple[int, int], list[str]] = {}
    for table in tables:
        by_task.setdefault((table.stage, table.partition), []).append(table.path)
    return with_versions(manifest, (VersionRef(*task, 0, files=tuple(paths)) for task, paths in by_task.items()))


def _told(where: str, error: Exception) -> SavepointError:
    failed = SavepointError(
        f"no savepoint was taken in {where}: {error}. The job goes on; what was written there may be removed"
    )
    failed.__cause__ = error
    return failed
