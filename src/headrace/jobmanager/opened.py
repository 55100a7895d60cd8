"""What a job manager makes of a manifest to go on from there, at its start and again after every failure."""

from __future__ import annotations

import itertools
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.sink import CommitterContext
from headrace.graph.specs import SinkSpec
from headrace.jobmanager.commits import CommitCoordinator
from headrace.jobmanager.epoch import EpochPlanner
from headrace.jobmanager.outcome import first_manifest
from headrace.jobmanager.pre_commits import PreCommits
from headrace.jobmanager.recovery import check_compatible, without_unclaimed
from headrace.jobmanager.sources import SourceCoordinator

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from headrace.checkpoint.manifest import Manifest
    from headrace.checkpoint.store import CheckpointStore
    from headrace.checkpoint.unstored import TemporaryStore
    from headrace.jobmanager.compaction import CompactionCoordinator
    from headrace.jobmanager.epoch_size import EpochSizer
    from headrace.plan.job_plan import JobPlan

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
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


def own(
    store: CheckpointStore | TemporaryStore, plan: JobPlan, *, ignore_unclaimed: bool
) -> tuple[Manifest, Manifest | None]:
    """Become the owner of a directory.

    Args:
        store: the directory.
        plan: the job.
        ignore_unclaimed: whether what no operator of the program takes over may be left behind.

    Returns:
        The manifest to begin with, and the one that was found, if any.

    Raises:
        StateMigrationError: when the program cannot go on from there.
    """
    found = store.latest()
    if found is None and (fresh := store.begin(first_manifest(plan))) is not None:
        return fresh, None
    found = found or store.latest()
    assert found is not None, "begin() has seen it"
    check_compatible(found, plan, ignore_unclaimed=ignore_unclaimed)
    return without_unclaimed(store.take_over(found), plan), found


class Opener:
    """Makes the parts.

    Args:
        plan: the job.
        store: where sources keep what is theirs.
        sizer: says how much an epoch may read.
        compaction: has runs merged in the background.
        check_owner: raises when the job is another job manager's now.
        cancelled: set when the job is cancelled.
    """

    def __init__(
        self,
        plan: JobPlan,
        store: CheckpointStore | TemporaryStore,
        sizer: EpochSizer,
        compaction: CompactionCoordinator,
        check_owner: Callable[[], None],
        cancelled: threading.Event,
    ) -> None:
        self._plan = plan
        self._store = store
        self._sizer = sizer
        self._compaction = compaction
        self._check_owner = check_owner
        self._cancelled = cancelled

    def open(self, manifest: Manifest, now: int) -> Opened:
        """Everything as of a manifest; ``now`` is the reading of the job's clock in milliseconds."""
        with ExitStack() as failed:
            sources = []
            for source in self._sources(manifest, now):
                sources.append(source)
                failed.callback(source.close)
            pre_commits = PreCommits(self._plan)
            planner = EpochPlanner(self._plan, sources, self._sizer, self._compaction, pre_commits)
            opened = Opened(tuple(sources), planner, pre_commits, self._commits(manifest))
            failed.pop_all()
            return opened

    def _sources(self, manifest: Manifest, now: int) -> Iterator[SourceCoordinator]:
        taken = [split.channel for source in manifest.sources.values() for split in source.splits]
        channels = itertools.count(max(taken, default=-1) + 1)
        for planned in self._plan.operators():
            if not planned.node.inputs:
                directory = self._store.source_directory(planned.uid)
                snapshot = manifest.sources.get(planned.uid)
                yield SourceCoordinator(
                    planned, self._plan, directory, snapshot, channels, now, self._store.permissions
                )

    def _commits(self, manifest: Manifest) -> CommitCoordinator:
        restored_epoch = max(0, manifest.epoch - 1)  # taking over takes a number of its own
        committers, durable, names = {}, set(), {}
        for planned in self._plan.operators():
            spec = planned.node.spec
            if isinstance(spec, SinkSpec):
                context = CommitterContext(
                    manifest.job_id,
                    planned.uid,
                    planned.inputs[0].record_type,
                    manifest.generation,
                    restored_epoch,
                )
                committers[planned.uid] = spec.sink.create_committer(context)
                names[planned.uid] = planned.node.name
                if spec.sink.is_durable:
                    durable.add(planned.uid)
        return CommitCoordinator(
            committers, frozenset(durable), names, check_owner=self._check_owner, cancelled=self._cancelled
        )
