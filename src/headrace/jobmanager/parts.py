"""What a job manager makes of a manifest to go on from there, at its start and again after every failure."""

from __future__ import annotations

import itertools
import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.connectors.sink import CommitterContext
from headrace.connectors.source import EnumeratorContext
from headrace.graph.specs import SinkSpec
from headrace.jobmanager.commits import CommitCoordinator
from headrace.jobmanager.epoch import EpochPlanner
from headrace.jobmanager.pre_commits import PreCommits
from headrace.jobmanager.sources import SourceCoordinator

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.checkpoint.manifest import Manifest, PendingCommit
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.temporary_store import TemporaryStore
    from headrace.connectors.sink import Committer, RunInTasks, Sink
    from headrace.jobmanager.compaction import CompactionCoordinator
    from headrace.jobmanager.epoch_size import EpochSizer
    from headrace.plan.job_plan import JobPlan, PlannedOperator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobParts:
    """The parts of a job whose memory follows from a manifest, and may be ahead of it after a failure.

    Attributes:
        sources: positions and enumerators.
        planner: plans epochs of them.
        pre_commits: decide what of an epoch is committed.
        commits: the second phase.
    """

    sources: tuple[SourceCoordinator, ...]
    planner: EpochPlanner
    pre_commits: PreCommits
    commits: CommitCoordinator

    def close(self) -> None:
        """Let go of everything; a commit that hangs is left behind."""
        self.close_sources()
        self.commits.close()

    def close_sources(self) -> None:
        """Let go of the enumerators; nobody minds any more what they fail with."""
        for source in self.sources:
            try:
                source.close()
            except Exception:
                logger.warning("closing source %r failed", source.planned.node.name, exc_info=True)


@dataclass(frozen=True, slots=True)
class ConnectorServices:
    """What sources and sinks are given by the job manager.

    Attributes:
        run_in_tasks: for commits that want to.
        storage_options: how object stores are reached.
    """

    run_in_tasks: RunInTasks
    storage_options: Mapping[str, str] = field(repr=False)


class PartsMaker:
    """Makes the parts.

    Args:
        plan: the job.
        store: where sources keep what is theirs.
        sizer: says how much an epoch may read.
        compaction: has runs merged in the background.
        check_owner: raises when the job is another job manager's now.
        cancelled: set when the job is cancelled.
        services: what sources and sinks are given.
    """

    def __init__(
        self,
        plan: JobPlan,
        store: CheckpointStore | TemporaryStore,
        sizer: EpochSizer,
        compaction: CompactionCoordinator,
        check_owner: Callable[[], None],
        cancelled: threading.Event,
        services: ConnectorServices,
    ) -> None:
        self._plan = plan
        self._store = store
        self._sizer = sizer
        self._compaction = compaction
        self._check_owner = check_owner
        self._cancelled = cancelled
        self._services = services

    def make(self, manifest: Manifest, now: int, only_here: Sequence[PendingCommit]) -> JobParts:
        """Everything as of a manifest.

        Args:
            manifest: the manifest.
            now: the reading of the job's clock in milliseconds.
            only_here: what has yet to be committed; of sinks whose committables are in manifests, those there count.
        """
        with ExitStack() as failed:
            sources = []
            for source in self._sources(manifest, now):
                sources.append(source)
                failed.callback(source.close)
            pre_commits = PreCommits(self._plan)
            planner = EpochPlanner(self._plan, sources, self._sizer, self._compaction, pre_commits)
            committers: dict[str, Committer] = {}
            for uid, committer in self._committers(manifest):
                committers[uid] = committer
                failed.callback(committer.close)
            commits = self._commits(committers, manifest.pending, only_here)
            parts = JobParts(tuple(sources), planner, pre_commits, commits)
            failed.pop_all()
            return parts

    def _sources(self, manifest: Manifest, now: int) -> Iterator[SourceCoordinator]:
        taken = [split.channel for source in manifest.sources.values() for split in source.splits]
        channels = itertools.count(max(taken, default=-1) + 1)
        for planned in self._plan.operators():
            if not planned.node.inputs:
                folder = self._store.source_folder(planned.uid)
                snapshot = manifest.sources.get(planned.uid)
                known = None if snapshot is None else snapshot.enumerator
                context = EnumeratorContext(planned.parallelism, folder, known, self._services.storage_options)
                yield SourceCoordinator(planned, self._plan, context, snapshot, channels, now)

    def _committers(self, manifest: Manifest) -> Iterator[tuple[str, Committer]]:
        restored_epoch = max(0, manifest.epoch - 1)  # taking over takes a number of its own
        for planned, sink in self._sinks():
            context = CommitterContext(
                job_id=manifest.job_id,
                operator_id=planned.uid,
                input_type=planned.inputs[0].record_type,
                generation=manifest.generation,
                restored_epoch=restored_epoch,
                run_in_tasks=self._services.run_in_tasks,
                storage_options=self._services.storage_options,
            )
            yield planned.uid, sink.create_committer(context)

    def _commits(
        self,
        committers: Mapping[str, Committer],
        pending: Sequence[PendingCommit],
        only_here: Sequence[PendingCommit],
    ) -> CommitCoordinator:
        durable = frozenset(planned.uid for planned, sink in self._sinks() if sink.is_durable)
        return CommitCoordinator(
            committers,
            durable,
            {planned.uid: planned.node.name for planned, _ in self._sinks()},
            restored=[*pending, *(commit for commit in only_here if commit.sink not in durable)],
            check_owner=self._check_owner,
            cancelled=self._cancelled,
        )

    def _sinks(self) -> Iterator[tuple[PlannedOperator, Sink]]:
        for planned in self._plan.operators():
            if isinstance(planned.node.spec, SinkSpec):
                yield planned, planned.node.spec.sink
