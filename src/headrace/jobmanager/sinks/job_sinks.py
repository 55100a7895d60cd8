"""The sinks of a job as the driver sees them: what they commit with an epoch, and what stays in progress."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.directory import sink_folder
from headrace.checkpoint.manifest import PendingCommit
from headrace.common.errors import CheckpointError, HeadraceError, InvalidProgramError
from headrace.connectors.sink import (
    CommitterContext,
    DeliveryGuarantee,
    checked_committer,
    checked_pre_committed,
    checked_time,
    without_committer,
)
from headrace.graph.specs import SinkSpec
from headrace.jobmanager.sinks.commits import label_of, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.checkpoint.manifest import Manifest
    from headrace.connectors.sink import Committer, RunInTasks, Sink
    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """What the sinks of a job do with an epoch.

    Attributes:
        commits: what is committed once the manifest exists.
        in_progress: by uid of the sink, what is written, but waits for more.
    """

    commits: tuple[PendingCommit, ...]
    in_progress: Mapping[str, Any]


class JobSinks:
    """All sinks of a job; what is known of their output is in the manifest.

    Args:
        plan: the job.
        storage_options: how they reach object stores.
        run_in_tasks: for commits that are too much for the driver.
        storage: the checkpoint directory, in which each has a folder.

    Attributes:
        names: their names, by uid, for errors.
        durable: the uids of those whose committables belong into the manifest.
    """

    def __init__(
        self, plan: JobPlan, storage_options: Mapping[str, str], run_in_tasks: RunInTasks, storage: Folder
    ) -> None:
        self._sinks: dict[str, tuple[PlannedOperator, Sink]] = {
            planned.uid: (planned, planned.node.spec.sink)
            for planned in plan.operators()
            if isinstance(planned.node.spec, SinkSpec)
        }
        self._storage_options = storage_options
        self._run_in_tasks = run_in_tasks
        self._storage = storage
        self.names = {uid: planned.node.name for uid, (planned, _) in self._sinks.items()}
        self.durable = frozenset(uid for uid, (_, sink) in self._sinks.items() if sink.is_durable)
        self._committed: set[str] = set()
        self._pre_commits = {uid: sink.pre_commit for uid, (_, sink) in self._sinks.items()}

    def check_output(self, manifest: Manifest) -> None:
        """See whether there is output of later epochs than a manifest that was found.

        Raises:
            CheckpointError: when there is, so that the checkpoint is an old copy.
        """
        for planned, sink in self._sinks.values():
            with _calling(planned, "looking at the output"):
                sink.check_output(self._context(planned, manifest, manifest.epoch))

    def committers(self, manifest: Manifest) -> Iterator[tuple[str, Committer]]:
        """A new committer for each sink that has one, with its uid, to go on from a manifest that was taken over.

        Raises:
            InvalidProgramError: when a sink promises more than it can keep without one.
            CheckpointError: when a sink has none any more, and there is output that one has to show.
        """
        unshown = {*manifest.in_progress, *(commit.sink for commit in manifest.pending)}
        for uid, (planned, sink) in self._sinks.items():
            # Taking over takes a number of its own.
            with _calling(planned, "making the committer"):
                made = sink.create_committer(self._context(planned, manifest, max(0, manifest.epoch - 1)))
                committer = checked_committer(sink, made)
            if committer is not None:
                self._committed.add(uid)
                yield uid, committer
            elif sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
                site = planned.node.call_site
                raise InvalidProgramError(f"sink {self.names[uid]!r}: {without_committer(sink)}\n  at {site}")
            elif uid in unshown:
                raise CheckpointError(
                    f"the checkpoint has output of sink {self.names[uid]!r} (uid {uid}) that is not shown yet, and the "
                    f"sink has no committer now, as it is {sink.delivery_guarantee.name}: run the job once with the "
                    "guarantee that it had, stop it, and then change the guarantee"
                )

    def pre_commit(
        self, manifest: Manifest, epoch: int, now: int, written: Mapping[str, Sequence[Any]], *, is_last: bool
    ) -> SinkOutput:
        """Decide what is committed with an epoch.

        Args:
            manifest: that of the epoch before.
            epoch: the epoch.
            now: its clock reading in milliseconds.
            written: what the writers gave, by uid of the sink.
            is_last: whether the job ends with it.
        """
        commits, in_progress = [], {}
        for uid, pre_commit in self._pre_commits.items():
            ready: Sequence[Any] = written.get(uid, ())
            if pre_commit is not None:
                with _calling(self._sinks[uid][0], "the pre-commit"):
                    found = pre_commit.prepare(manifest.in_progress.get(uid), ready, now, is_last=is_last)
                    prepared = checked_pre_committed(pre_commit, found, is_last=is_last)
                ready = prepared.ready
                if prepared.in_progress is not None:
                    in_progress[uid] = prepared.in_progress
            if ready and uid not in self._committed:
                raise InvalidProgramError(
                    f"the writer of sink {self.names[uid]!r} gave something to be committed, {ready[0]!r:.200}, and "
                    "the sink has no committer: give it a create_committer(), or have the writer show its records "
                    f"itself and give []\n  at {self._sinks[uid][0].node.call_site}"
                )
            if ready:
                commits.append(PendingCommit(epoch, uid, now, tuple(ready)))
        return SinkOutput(tuple(commits), in_progress)

    def next_due(self, manifest: Manifest) -> int | None:
        """When something in progress becomes ready by itself, in milliseconds; None for never."""
        times = []
        for uid, pre_commit in self._pre_commits.items():
            if pre_commit is not None and uid in manifest.in_progress:
                with _calling(self._sinks[uid][0], "the pre-commit"):
                    due = pre_commit.due(manifest.in_progress[uid])
                    times.append(checked_time(pre_commit, "due", due))
        return min((time for time in times if time is not None), default=None)

    def _context(self, planned: PlannedOperator, manifest: Manifest, restored_epoch: int) -> CommitterContext:
        return CommitterContext(
            job_id=manifest.job_id,
            operator_id=planned.uid,
            input_type=planned.inputs[0].record_type,
            generation=manifest.generation,
            restored_epoch=restored_epoch,
            run_in_tasks=self._run_in_tasks,
            storage_options=self._storage_options,
            parallelism=planned.parallelism,
            folder=sink_folder(self._storage, planned.uid),
            waiting=tuple(commit.epoch for commit in manifest.pending if commit.sink == planned.uid),
        )


@contextmanager
def _calling(planned: PlannedOperator, what: str) -> Iterator[None]:
    """Around calls of the driver's half of a sink: it is told which one failed, and where it was asked for."""
    try:
        yield
    except Exception as error:
        found = told(f"{what} of {label_of(planned.node.name, planned.uid)}", error)
        if found is error:
            raise
        raise found from (error.__cause__ if isinstance(error, HeadraceError) else error)
