"""The chain of a job's manifests: how each is made, what is held back, and what is left at the end."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.checkpoint.manifest import Manifest, OperatorSnapshot, PendingCommit, SourceSnapshot, StageSnapshot
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common import options
from headrace.common.errors import CheckpointError, ConfigurationError, JobExecutionError, JobSupersededError
from headrace.common.job_status import JobStatus
from headrace.common.logs import get_logger
from headrace.jobmanager.epoch_reports import EpochReports
from headrace.jobmanager.events import EpochHeld, EpochReleased, JobEnd, JobEvent
from headrace.jobmanager.recovery import (
    check_compatible,
    check_declared,
    copy_source_files,
    heads_of_manifest,
    with_renamed_state,
    without_unclaimed,
)
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.settings import PlannedJob, Retention
from headrace.jobmanager.sinks import JobSinks
from headrace.runtime.task.messages import EpochContext

logger = get_logger(__name__)


class CheckpointCoordinator:
    """Writes manifests, and finds the newest one again after a failure.

    Args:
        job: the job.
        sinks: its sinks.
        store: where manifests are kept.

    Attributes:
        newest: the newest manifest that is known to exist, or what a fresh directory began with; None before
            :meth:`restore`.
        epoch_before: the last epoch of earlier runs, as far as :meth:`restore` has come to know; 0 while there is none.
        in_doubt: a manifest whose writing has failed, so that it may exist, and its new commits; None for none.
    """

    def __init__(self, job: PlannedJob, sinks: JobSinks, store: CheckpointStore | TemporaryStore) -> None:
        self.newest: Manifest | None = None
        self.epoch_before = 0
        self._store = store
        self.replan(job, sinks)
        self._start = job.settings.start
        self._uids = job.settings.uids
        self._taken_over: Manifest | None = None
        self.in_doubt: tuple[Manifest, Sequence[PendingCommit]] | None = None

    def replan(self, job: PlannedJob, sinks: JobSinks) -> None:
        """Go on with another plan of the job from where this has come to; :meth:`restart` is next."""
        self._job, self._plan, self._sinks = job, job.plan, sinks
        self._operators = [
            {
                operator.uid: OperatorSnapshot(operator.parallelism, operator.max_parallelism, operator.state_kinds)
                for operator in stage.operators
                if stage.index or operator.state_kinds
            }
            for stage in job.plan.stages
        ]
        """By stage and uid, what manifests say of operators that have a state, or an event time of their own."""

    def restore(self) -> Manifest | None:
        """Become the owner of the directory.

        Returns:
            The manifest that was found, if any.

        Raises:
            StateMigrationError: when the program cannot go on from there.
            CheckpointError: when it is damaged, or an old copy.
            ConfigurationError: when there is nothing whose uids could be mapped.
        """
        found = self._found()
        if found is None:
            if self._uids.new_by_old:
                raise ConfigurationError(_NOTHING_TO_MAP)
            self.newest = self._store.begin(self._first())
            if self.newest is not None:
                self._sinks.check_output(self.newest)
                return None
            found = self._found()
            assert found is not None, "begin() has seen it"
        self._uids = self._uids.left(found, [planned.uid for planned in self._plan.operators()])
        self._check_compatible(self._uids.manifest(found))
        heads = heads_of_manifest(found, self._plan.settings.state_backend, self._store.state)
        check_declared(self._plan, self._job.blob, self._uids.heads(heads))
        self._taken_over = self._store.take_over(found)
        self.newest = without_unclaimed(self._uids.manifest(self._taken_over), self._plan)
        return found

    def _check_compatible(self, manifest: Manifest) -> None:
        check_compatible(manifest, self._plan, ignore_unclaimed=self._job.settings.ignore_unclaimed_state)

    def _first(self) -> Manifest:
        """The manifest of a job that has never run before."""
        settings = self._plan.settings
        first = Manifest(
            epoch=0,
            generation=0,
            job_id=self._job.settings.job_id or uuid.uuid4().hex,
            job_name=settings.name,
            max_parallelism=settings.max_parallelism,
            state_backend=settings.state_backend.name,
            processing_time=0,
        )
        if self._start is None:
            return first
        first = self._start.first_manifest(first, self._plan)
        self._check_compatible(first)
        check_declared(self._plan, self._job.blob, self._start.heads(settings.state_backend))
        return without_unclaimed(first, self._plan)

    def take_in(self, runtime: Runtime, found: Manifest | None) -> None:
        """Bring in what a job begins with that is to start from a savepoint; ``found`` is what it goes on from else.

        Raises:
            SavepointError: naming the file, when one is missing or damaged.
        """
        if found is not None and self._uids.new_by_old:
            self._map_uids(runtime)
        if self._start is None:
            return
        if found is not None:
            logger.info("job %r goes on from its own checkpoint, not from %s", self._plan.name, self._start)
            if found.restored_from == str(self._start):  # it has not come further since
                self._start.release()
            return
        self.write(self._start.take_in(self.known(), self._plan, runtime, self._store), ())
        self._start.release()

    def _map_uids(self, runtime: Runtime) -> None:
        """Have the newest manifest say the program's uids, and what it refers to as well."""
        before = self._taken_over
        assert before is not None, "restore() comes first"
        copy_source_files(before, self._uids, self._store)
        manifest = replace(self.known(), epoch=before.epoch + 1)
        self.write(with_renamed_state(before, manifest, self._uids, self._plan, runtime, self._store), ())
        renamed = ", ".join(f"{old} is {new}" for old, new in self._uids.new_by_old.items())
        logger.info("job %r goes on under other uids: %s", self._plan.name, renamed)

    def _found(self) -> Manifest | None:
        """The newest manifest, if any, that no sink has output of later epochs than.

        Taking over raises the number of the newest manifest, so this comes first: an old copy stays one.
        """
        while True:
            found = self._store.latest()
            self.epoch_before = 0 if found is None else found.epoch
            try:
                if found is not None:
                    self._sinks.check_output(found)
                return found
            except CheckpointError:
                newer = self._store.latest()
                if newer is None or newer == found:
                    raise
                # An older job manager is alive, and has gone on and published while this looked.

    def known(self) -> Manifest:
        """The newest manifest, after :meth:`restore`."""
        assert self.newest is not None, "restore() comes first"
        return self.newest

    def next_manifest(
        self,
        context: EpochContext,
        reports: EpochReports,
        *,
        sources: Mapping[str, SourceSnapshot],
        pending: tuple[PendingCommit, ...],
        in_progress: Mapping[str, object],
    ) -> Manifest:
        """The manifest of an epoch that has succeeded; ``pending`` is of earlier epochs too."""
        known, settings = self.known(), self._plan.settings
        counters = Counter(known.counters)
        counters.update(reports.job_counters, numRecordsRead=sum(map(reports.records_read, sources)), numEpochs=1)
        stages: list[StageSnapshot] = []
        for stage, operators in zip(self._plan.stages, self._operators, strict=True):
            tasks = range(stage.parallelism if operators else 0)
            stages.append(StageSnapshot(operators, tuple(reports.snapshots[stage.index, task] for task in tasks)))
        return Manifest(
            epoch=context.epoch,
            generation=context.generation,
            job_id=known.job_id,
            job_name=settings.name,
            max_parallelism=settings.max_parallelism,
            state_backend=settings.state_backend.name,
            processing_time=context.processing_time,
            sources=sources,
            stages=tuple(stages),
            pending=pending,
            in_progress=in_progress,
            finished=context.is_last,
            counters=dict(counters),
            operator_counters=reports.counters_after(known.operator_counters),
            state_bytes=reports.state_bytes,
        )

    def write(self, manifest: Manifest, commits: Sequence[PendingCommit]) -> None:
        """Write a manifest, and with it promise the commits that are new in it.

        Raises:
            OSError: when writing failed; the manifest may exist all the same. :meth:`restart` finds out.
            JobSupersededError: when another job manager has taken over.
        """
        self.in_doubt = (manifest, commits)
        self._store.write(manifest)
        self.newest, self.in_doubt = manifest, None

    def restart(self) -> Sequence[PendingCommit]:
        """Go back to the newest manifest there is, after a failure.

        Returns:
            The new commits of a manifest that exists although writing it had failed.

        Raises:
            OSError: when the directory cannot be read or written; it can be tried again.
            JobSupersededError: when another job manager has taken over.
        """
        manifest = without_unclaimed(self._store.restart(self.known()), self._plan)
        in_doubt, self.in_doubt = self.in_doubt, None
        self.newest = manifest
        return in_doubt[1] if in_doubt is not None and _epochs(manifest) == _epochs(in_doubt[0]) else ()

    def discard(self) -> None:
        """Delete the job's checkpoints, if they still are its own; the next start begins afresh, as another job."""
        if self.newest is not None:
            uids = [planned.uid for planned in self._plan.operators()]
            self._store.discard(self.newest, {*self.newest.sources, *self.newest.in_progress, *uids})

    def check_owner(self) -> None:
        """Stop when another job manager has taken over; one that is idle writes no manifest that would tell it.

        Raises:
            JobSupersededError: when there is one.
        """
        if self.newest is not None and not self._store.is_owned_by(self.newest.generation):
            raise JobSupersededError(
                f"job {self._plan.name!r}: another job manager has taken over its checkpoint directory; this one stops"
            )


_NOTHING_TO_MAP: Final = (
    f"{options.UID_MAPPING.key} is of what a job goes on from, and it has no checkpoint yet: set "
    f"{options.CHECKPOINT_DIR.key} to the directory of the job, or {options.RECOVERY_PATH.key} (-s) to a "
    "savepoint, or to the checkpoint directory of a stopped job"
)


def _epochs(manifest: Manifest) -> int:
    """Return how many epochs a job has completed; manifests of job managers that took over do not count."""
    return manifest.counters.get("numEpochs", 0)


_LOOK_SECONDS: Final = 0.2
"""The interval at which a job whose epoch is held looks whether it is cancelled, or taken over."""


class EpochGate:
    """Holds back an epoch with records that violate expectations, until it is released or the job ends.

    The epoch has run, and its state is written, but no manifest names it: nothing of it is visible, and if the process
    dies, the epoch is run again and held again. Its input waits where it is; further input is not read.

    Args:
        publish: is called with held epochs.
        stop: set when the job is to stop; then the epoch is dropped.
        meanwhile: is called again and again while an epoch is held; raises what ends the wait.
    """

    def __init__(
        self, publish: Callable[[JobEvent], None], stop: threading.Event, meanwhile: Callable[[], None]
    ) -> None:
        self._publish = publish
        self._stop = stop
        self._meanwhile = meanwhile
        self._lock = threading.Lock()
        self._held: EpochHeld | None = None
        self._released = threading.Event()

    def release(self) -> int:
        """Let the epoch that is held be published; from any thread.

        Returns:
            Its number.

        Raises:
            JobExecutionError: when none is held.
        """
        with self._lock:
            if self._held is None or self._released.is_set():
                raise JobExecutionError("no epoch of the job is held")
            self._released.set()
            return self._held.epoch

    def lets_pass(self, held: EpochHeld) -> bool:
        """Wait until an epoch is released.

        Returns:
            False when the job stops, so that it is not to be published.
        """
        with self._lock:
            self._held = held
            self._released.clear()
        try:
            self._publish(held)
            while not (self._released.wait(_LOOK_SECONDS) or self._stop.is_set()):
                self._meanwhile()
            passes = self._released.is_set()
        finally:
            with self._lock:
                self._held = None
        self._publish(EpochReleased(held.epoch, passes))
        return passes


def discard_checkpoints(
    checkpoints: CheckpointCoordinator, retention: Retention, name: str, error: BaseException | None, *, has_run: bool
) -> None:
    """Delete the checkpoints of a job, when the configuration wants that after such an end.

    Args:
        checkpoints: the chain of its manifests.
        retention: after which ends they are deleted.
        name: the job's name.
        error: why the run has ended; None where nothing failed.
        has_run: whether it has completed an epoch.
    """
    finished = error is None and checkpoints.known().finished
    status = JobEnd(None, finished, error).status  # without the savepoint of a stop, which may refer to them
    # A job that fails before its first epoch may have failed because they are another's.
    if retention.deletes(status) and (has_run or status is not JobStatus.FAILED):
        try:
            checkpoints.discard()
        except Exception:
            logger.warning("job %r: deleting its checkpoints failed", name, exc_info=True)
