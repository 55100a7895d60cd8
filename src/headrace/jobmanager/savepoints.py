"""Savepoints of a running job: begun between two epochs, written beside those that follow.

What is in a savepoint is fixed when it begins: by a manifest, whose files are pinned. Output that sinks hold back is
published first, so that a savepoint needs nothing of what its job has written, and jobs that start from it never show
that again. It is complete, and only then is there a savepoint, when its files are written and all output of its epoch
has been published.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from typing import Final

from headrace.checkpoint.directory import NAMES, PINS, Pin, read_pin
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import CheckpointStore
from headrace.common import options
from headrace.common.completable_future import CompletableFuture
from headrace.common.errors import (
    HeadraceError,
    JobCancelledError,
    JobSupersededError,
    SavepointError,
    SavepointMissingError,
)
from headrace.common.logs import get_logger, with_fields
from headrace.jobmanager.epoch_plan import JobServices
from headrace.jobmanager.epochs import JobExecution
from headrace.jobmanager.events import JobEvent, SavepointStatus
from headrace.savepoint.disposal import end_progress, give_up, remove_uncompleted
from headrace.savepoint.metadata import (
    IN_PROGRESS,
    METADATA,
    SavepointFormat,
    SavepointMetadata,
    TableFile,
    read_metadata,
)
from headrace.savepoint.tables import copy_out
from headrace.savepoint.tasks import export_version, with_tables
from headrace.storage.folder import Folder, source_folder
from headrace.storage.locations import open_storage

logger = get_logger(__name__)

LOOK_SECONDS: Final = 0.01
"""The pause between two looks of a job that only waits for its savepoints to be complete."""

NO_PLACE: Final = f"where is the savepoint to be made? Give a directory, or set {options.SAVEPOINT_DIR.key}"

EMPTY_PLACE: Final = "the place of the savepoint is empty (was it to come from a variable that is not set?)"

_GOES_ON: Final = "The job goes on"

_ENDED: Final = "The job has ended; its checkpoint directory, if it has one, holds what the savepoint would have held"
"""The end of errors of a run that has ended, for whatever reason."""

_NOT_DRAINED: Final = (
    "the job was stopped before its sources had ended, so its windows and timers have not fired. Its checkpoint "
    "directory, if it has one, holds what it can go on from"
)


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """The request of a savepoint.

    Attributes:
        directory: where the directory of the savepoint is made.
        format: canonical or native.
    """

    directory: str
    format: SavepointFormat = "canonical"


@dataclass
class _RunningSavepoint:
    """A savepoint that is being taken."""

    name: str
    folder: Folder
    metadata: SavepointMetadata
    outcome: CompletableFuture[str]
    status: SavepointStatus
    tables: Future[list[list[TableFile]]] | None = None
    completed: Callable[[str], None] | None = None
    started: float = field(default_factory=time.monotonic)


class SavepointCoordinator:
    """Takes the savepoints of one job; used by the job's thread alone.

    Args:
        publish: is called with each of them.
    """

    def __init__(self, publish: Callable[[JobEvent], None]) -> None:
        self._publish = publish
        self._numbers = count(1)
        self._running: list[_RunningSavepoint] = []
        self._at_end: list[tuple[SavepointRequest, CompletableFuture[str]]] = []

    def begin(
        self,
        execution: JobExecution,
        request: SavepointRequest,
        outcome: CompletableFuture[str],
        completed: Callable[[str], None] | None = None,
        then: str = _GOES_ON,
    ) -> None:
        """Begin to take a savepoint of the newest manifest; only between two epochs.

        Args:
            execution: the present one.
            request: what is wanted.
            outcome: gets the place of the savepoint once it is complete, or what went wrong.
            completed: ends the job, which does nothing that the savepoint does not hold; called with its place.
            then: what the job does when that fails, for the error.
        """
        epoch = execution.job.checkpoints.known().epoch
        status = SavepointStatus(next(self._numbers), request.directory, epoch, format=request.format)
        try:
            running = _begun(execution.job, execution.publish_output(), request, outcome, status, completed)
        except (HeadraceError, OSError) as error:
            self._fail(status, outcome, _failure(request.directory, error, then))
        else:
            self._running.append(running)
            self._publish(status)

    @property
    def holds_epochs(self) -> bool:
        """Return whether the job ends with a savepoint that is being taken, unless that fails."""
        return any(running.completed is not None for running in self._running)

    def begin_at_end(self, request: SavepointRequest, outcome: CompletableFuture[str]) -> None:
        """Take a savepoint when the job has come to its end; none when it is stopped before."""
        self._at_end.append((request, outcome))

    def _fail(self, status: SavepointStatus, outcome: CompletableFuture[str], error: SavepointError) -> None:
        self._publish(replace(status, error=str(error)))
        outcome.set_exception(error)

    def look(self, execution: JobExecution, then: str = _GOES_ON) -> None:
        """Complete what can be completed; between two epochs."""
        for running in list(self._running):
            if running.tables is not None and not running.tables.done():
                continue
            if any(commit.epoch <= running.metadata.checkpoint.epoch for commit in execution.commits.pending()):
                continue
            try:
                place = _completed(execution.job, running)
            except Exception as error:
                self._running.remove(running)
                _given_up(execution.job, running.name, running.folder)
                self._fail(running.status, running.outcome, _failure(str(running.folder), error, then))
            else:
                self._running.remove(running)
                self._publish(replace(running.status, place=place))
                running.outcome.set_result(place)
                if running.completed is not None:
                    running.completed(place)

    def finish(self, execution: JobExecution) -> None:
        """The job ends: begin what was to be begun then, and wait for everything.

        Raises:
            JobCancelledError: when the job is cancelled meanwhile.
        """
        at_end, self._at_end = self._at_end, []
        for request, outcome in at_end:
            if execution.job.checkpoints.known().finished:
                self.begin(execution, request, outcome, then=_ENDED)
            else:
                outcome.set_exception(SavepointError(f"no savepoint was taken in {request.directory}: {_NOT_DRAINED}"))
        while self._running:
            execution.commits.check()
            self.look(execution, then=_ENDED)
            if execution.job.cancelled.is_set():
                raise JobCancelledError("the job was cancelled before its savepoints were complete")
            time.sleep(LOOK_SECONDS if self._running else 0)

    def close(self, *, is_superseded: bool) -> None:
        """The job is over: what is not complete never will be.

        Args:
            is_superseded: whether another job manager has taken over. It has looked before what earlier ones were
                taking, and looks no more, so what was written since goes now; else the next start does that.
        """
        for running in self._running if is_superseded else ():
            give_up(running.folder)
        for running in self._running:
            self._publish(replace(running.status, error="it was not complete when the job ended"))
        left = [(str(running.folder), running.outcome) for running in self._running]
        left += [(request.directory, outcome) for request, outcome in self._at_end]
        self._running, self._at_end = [], []
        for where, outcome in left:
            if not outcome.done():  # else whoever waited for it was told
                error = f"no savepoint was taken in {where}: it was not complete. {_ENDED}"
                outcome.set_exception(SavepointError(error))


def too_late(request: SavepointRequest) -> SavepointError:
    """Return what becomes of a request that the job does not come to."""
    return SavepointError(f"no savepoint was taken in {request.directory}: the job did not come to it. {_ENDED}")


def recover(job: JobServices, store: CheckpointStore) -> None:
    """Find out what has become of savepoints that earlier runs of the job were taking when they ended.

    What was written of those that were not completed is removed. Where that cannot be done just now, the next start
    of the job does it; until then the state files stay.
    """
    for name, pin in store.left_pins().items():
        try:
            folder = open_storage(pin.savepoint, options=job.planned.blob.storage_options)
            if _is_native(folder, name):
                store.pin(name, replace(pin, lasts=True))
                continue
            if not _is_taken_elsewhere(job, folder, name):
                try:
                    remove_uncompleted(folder)
                except SavepointError:  # it is a canonical one, and complete
                    end_progress(folder)
            store.unpin(name)
        except (HeadraceError, OSError) as error:
            logger.warning("what became of the savepoint %s cannot be told for now: %s", pin.savepoint, error)
    pins = store.lasting_pins()
    if pins:  # their storages may be slow to answer, or may not, and the job does not depend on it
        asking = with_fields(partial(_tell_gone, job, pins))
        threading.Thread(target=asking, name="headrace-native-savepoints", daemon=True).start()


def _is_taken_elsewhere(job: JobServices, folder: Folder, pin: str) -> bool:
    """Return whether another job takes a savepoint: that of the directory of which this one is a copy."""
    try:
        directory = folder.read(IN_PROGRESS).decode()
    except FileNotFoundError:
        return False
    if directory in ("", str(job.store.storage)):  # at first it was empty
        return False
    pins = open_storage(directory, options=job.planned.blob.storage_options).folder(PINS)
    if read_pin(pins, pin) is None:
        return False
    job.store.unpin(pin)  # where that was the same directory under another name, it is not there any more
    return read_pin(pins, pin) is not None


def _tell_gone(job: JobServices, pins: Mapping[str, Pin]) -> None:
    """Tell of native savepoints that are not where they were: what they need stays, for they may have been moved."""
    for name, pin in pins.items():
        try:
            is_gone = not _is_native(open_storage(pin.savepoint, options=job.planned.blob.storage_options), name)
        except (HeadraceError, OSError) as error:
            logger.info("whether the savepoint %s is still there cannot be told for now: %s", pin.savepoint, error)
            continue
        if is_gone:
            logger.warning(
                "the native savepoint %s is not there, and the %d files that it needs stay: if it was removed, and not "
                "moved, remove %s too, as headrace savepoint --dispose would have done",
                pin.savepoint,
                len(pin.files),
                job.store.storage.folder(PINS).locate(name),
            )


def _is_native(folder: Folder, pin: str) -> bool:
    """Return whether a savepoint was completed, and needs its pin from then on."""
    try:
        return read_metadata(folder).pin == pin
    except SavepointMissingError:
        return False


def _begun(
    job: JobServices,
    manifest: Manifest,
    request: SavepointRequest,
    outcome: CompletableFuture[str],
    status: SavepointStatus,
    completed: Callable[[str], None] | None,
) -> _RunningSavepoint:
    if request.format == "native" and not job.store.outlasts_job:
        raise SavepointError(
            "a native savepoint refers to files of the checkpoint directory, and without "
            f"{options.CHECKPOINT_DIR.key} they go when the job ends: set it, or take a canonical savepoint"
        )
    name = f"{NAMES}{manifest.job_id[:6]}-{uuid.uuid4().hex[:12]}"
    folder = open_storage(request.directory, options=job.planned.blob.storage_options).folder(name)
    is_native = request.format == "native"
    job.store.pin(name, Pin(str(folder), tuple(manifest.state_files()), lasts=False))
    try:
        folder.make()
        kept = chain.from_iterable(
            copy_out(uid, source, source_folder(job.store.storage, uid), folder)
            for uid, source in manifest.sources.items()
        )
        metadata = SavepointMetadata(manifest, request.format, files=tuple(kept))
        if is_native:
            metadata = replace(metadata, directory=str(job.store.storage), pin=name)
            return _RunningSavepoint(name, folder, metadata, outcome, status, completed=completed)
        refs = list(manifest.versions())
        backend = job.planned.plan.settings.state_backend
        export = partial(export_version, backend, job.store.state, folder, manifest.processing_time)
        folder.create(IN_PROGRESS, str(job.store.storage).encode())
        tables = job.runtime.run_background(export, refs, gives_way=True) if refs else None
        return _RunningSavepoint(name, folder, metadata, outcome, status, tables, completed)
    except BaseException:
        _given_up(job, name, folder)
        raise


def _completed(job: JobServices, running: _RunningSavepoint) -> str:
    tables = () if running.tables is None else tuple(chain.from_iterable(running.tables.result()))
    metadata = running.metadata
    if metadata.format == "canonical":
        metadata = replace(metadata, checkpoint=with_tables(metadata.checkpoint, tables), tables=tables)
    job.checkpoints.check_owner()
    try:  # from here on it may be there, also where that fails: nobody is told of it then, so it must not stay
        if not running.folder.create(METADATA, metadata.to_bytes()):
            raise SavepointError(f"{running.folder.locate(METADATA)} exists")
        job.checkpoints.check_owner()  # whoever has taken over meanwhile may have let go of the files
        if metadata.pin:
            job.store.pin(running.name, Pin(str(running.folder), tuple(metadata.checkpoint.state_files()), lasts=True))
    except BaseException:
        running.folder.remove(METADATA)
        raise
    if not metadata.pin:
        end_progress(running.folder)
        _end_waiting(job, running.name)
    logger.info(
        "savepoint of epoch %d, complete after %.2f s: %s",
        metadata.checkpoint.epoch,
        time.monotonic() - running.started,
        running.folder,
    )
    return str(running.folder)


def _given_up(job: JobServices, name: str, folder: Folder) -> None:
    """A savepoint is not completed: what was written of it goes; when that fails, the next start does it."""
    if give_up(folder):
        _end_waiting(job, name)


def _end_waiting(job: JobServices, name: str) -> None:
    """Remove files that only a savepoint needed; when that fails, the next job manager of the directory does it."""
    try:
        job.store.unpin(name)
    except OSError as error:
        logger.warning("state files of the savepoint %s are left: %s", name, error)


def _failure(where: str, error: Exception, then: str) -> SavepointError:
    if isinstance(error, JobCancelledError | JobSupersededError):  # then this run of the job has come to its end
        then = _ENDED
    failed = SavepointError(f"no savepoint was taken in {where}: {error}. {then}")
    failed.__cause__ = error
    return failed
