"""The chain of a job's manifests as its job manager knows it: which is the newest, and whose the job is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import CheckpointError, JobSupersededError
from headrace.common.logs import get_logger
from headrace.jobmanager.checkpoints.declared_state import check_declared, heads_of_manifest
from headrace.jobmanager.checkpoints.manifests import first_manifest
from headrace.jobmanager.checkpoints.recovery import check_compatible, without_unclaimed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.checkpoint.manifest import Manifest, PendingCommit
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.temporary_store import TemporaryStore
    from headrace.jobmanager.checkpoints.savepoint_start import SavepointStart
    from headrace.jobmanager.runtime import Runtime
    from headrace.jobmanager.sinks.job_sinks import JobSinks
    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.messages import JobBlob


logger = get_logger(__name__)


class CheckpointCoordinator:
    """Writes manifests, and finds the newest one again after a failure.

    Args:
        store: where they are kept.
        plan: the job.
        blob: the same as it travels to tasks.
        sinks: its sinks.
        ignore_unclaimed: whether what no operator of the program takes over may be left behind.
        start: what a job begins with that finds no manifest; nothing when left out.

    Attributes:
        newest: the newest manifest that is known to exist, or what a fresh directory began with; None before
            :meth:`restore`.
        epoch_before: the last epoch of earlier runs, as far as :meth:`restore` has come to know; 0 while there is none.
    """

    def __init__(
        self,
        store: CheckpointStore | TemporaryStore,
        plan: JobPlan,
        blob: JobBlob,
        sinks: JobSinks,
        *,
        ignore_unclaimed: bool,
        start: SavepointStart | None = None,
    ) -> None:
        self.newest: Manifest | None = None
        self.epoch_before = 0
        self._store = store
        self._plan = plan
        self._blob = blob
        self._sinks = sinks
        self._ignore_unclaimed = ignore_unclaimed
        self._start = start
        self._in_doubt: tuple[Manifest, Sequence[PendingCommit]] | None = None

    def replanned(self, plan: JobPlan, blob: JobBlob, sinks: JobSinks) -> CheckpointCoordinator:
        """The same for another plan of the job, which goes on from where this has come to; :meth:`restart` is next."""
        other = CheckpointCoordinator(self._store, plan, blob, sinks, ignore_unclaimed=self._ignore_unclaimed)
        other.newest, other.epoch_before, other._in_doubt = self.newest, self.epoch_before, self._in_doubt
        return other

    def restore(self) -> Manifest | None:
        """Become the owner of the directory.

        Returns:
            The manifest that was found, if any.

        Raises:
            StateMigrationError: when the program cannot go on from there.
            CheckpointError: when it is damaged, or an old copy.
        """
        found = self._found()
        if found is None:
            self.newest = self._store.begin(self._first())
            if self.newest is not None:
                self._sinks.check_output(self.newest)
                return None
            found = self._found()
            assert found is not None, "begin() has seen it"
        check_compatible(found, self._plan, ignore_unclaimed=self._ignore_unclaimed)
        heads = heads_of_manifest(found, self._plan.settings.state_backend, self._store.state)
        check_declared(self._plan, self._blob, heads)
        self.newest = without_unclaimed(self._store.take_over(found), self._plan)
        return found

    def _first(self) -> Manifest:
        first = first_manifest(self._plan)
        if self._start is None:
            return first
        first = self._start.first_manifest(first, [planned.uid for planned in self._plan.operators()])
        check_compatible(first, self._plan, ignore_unclaimed=self._ignore_unclaimed)
        check_declared(self._plan, self._blob, self._start.heads(self._plan.settings.state_backend))
        return without_unclaimed(first, self._plan)

    def take_in(self, runtime: Runtime, found: Manifest | None) -> None:
        """Bring in what a job begins with that is to start from a savepoint; ``found`` is what it goes on from else.

        Raises:
            SavepointError: naming the file, when one is missing or damaged.
        """
        if self._start is None:
            return
        if found is not None:
            logger.info("job %r goes on from its own checkpoint, not from %s", self._plan.name, self._start)
            if found.restored_from == str(self._start):  # it has not come further since
                self._start.release()
            return
        self.write(self._start.take_in(self.known(), self._plan, runtime, self._store), ())
        self._start.release()

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

    def write(self, manifest: Manifest, commits: Sequence[PendingCommit]) -> None:
        """Write a manifest, and with it promise the commits that are new in it.

        Raises:
            OSError: when writing failed; the manifest may exist all the same. :meth:`restart` finds out.
            JobSupersededError: when another job manager has taken over.
        """
        self._in_doubt = (manifest, commits)
        self._store.write(manifest)
        self.newest, self._in_doubt = manifest, None

    @property
    def is_in_doubt(self) -> bool:
        """Whether there may be a newer manifest than is known."""
        return self._in_doubt is not None

    def restart(self) -> Sequence[PendingCommit]:
        """Go back to the newest manifest there is, after a failure.

        Returns:
            The new commits of a manifest that exists although writing it had failed.

        Raises:
            OSError: when the directory cannot be read or written; it can be tried again.
            JobSupersededError: when another job manager has taken over.
        """
        manifest = without_unclaimed(self._store.restart(self.known()), self._plan)
        in_doubt, self._in_doubt = self._in_doubt, None
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


def _epochs(manifest: Manifest) -> int:
    """How many epochs a job has completed; manifests of job managers that took over do not count."""
    return manifest.counters.get("numEpochs", 0)
