"""What sinks commit with an epoch and what stays in progress: decided before the manifest, and kept in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.manifest import PendingCommit
from headrace.connectors.sink import as_in_a_checkpoint, as_json
from headrace.graph.specs import SinkSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.checkpoint.manifest import Manifest
    from headrace.connectors.sink import PreCommit
    from headrace.plan.job_plan import JobPlan


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """What the sinks of a job do with an epoch.

    Attributes:
        commits: what is committed once the manifest exists.
        in_progress: by uid of the sink, what is written, but waits for more.
    """

    commits: tuple[PendingCommit, ...]
    in_progress: Mapping[str, Any]


class PreCommits:
    """The pre-commits of all sinks of a job; all that they know is in the manifest.

    Args:
        plan: the job.
    """

    def __init__(self, plan: JobPlan) -> None:
        self._sinks: dict[str, PreCommit | None] = {
            operator.uid: operator.node.spec.sink.pre_commit
            for operator in plan.operators()
            if isinstance(operator.node.spec, SinkSpec)
        }

    def prepare(
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
        for uid, pre_commit in self._sinks.items():
            ready: Sequence[Any] = written.get(uid, ())
            if pre_commit is not None:
                prepared = pre_commit.prepare(manifest.in_progress.get(uid), ready, now, is_last=is_last)
                ready = as_in_a_checkpoint(prepared.ready)
                if prepared.in_progress is not None:
                    in_progress[uid] = as_json(prepared.in_progress)
            if ready:
                commits.append(PendingCommit(epoch, uid, now, tuple(ready)))
        return SinkOutput(tuple(commits), in_progress)

    def next_due(self, manifest: Manifest) -> int | None:
        """When something in progress becomes ready by itself, in milliseconds; None for never."""
        times = (
            pre_commit.due(manifest.in_progress[uid])
            for uid, pre_commit in self._sinks.items()
            if pre_commit is not None and uid in manifest.in_progress
        )
        return min((time for time in times if time is not None), default=None)
