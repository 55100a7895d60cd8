"""From a manifest to what tasks start from: the same job, perhaps at another parallelism or in another shape."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.common import options
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.graph.specs import SinkSpec
from headrace.runtime.task.messages import PartitionContext
from headrace.state.key_groups import hash_bounds_of_partition
from headrace.state.kinds import StateKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.checkpoint.manifest import (
        Manifest,
        OperatorSnapshot,
        PartitionSnapshot,
        SourceSnapshot,
        StageSnapshot,
    )
    from headrace.plan.job_plan import JobPlan, PlannedOperator, Stage
    from headrace.state.compaction import CompactionResult
    from headrace.state.version import VersionRef

    Adoptions = Mapping[tuple[int, int], tuple[CompactionResult, ...]]

logger = logging.getLogger(__name__)


def check_compatible(manifest: Manifest, plan: JobPlan, *, ignore_unclaimed: bool = False) -> None:
    """Refuse a program that cannot go on from a manifest.

    Args:
        manifest: where the job had come to.
        plan: the job.
        ignore_unclaimed: whether what nobody takes may be left behind; a warning then names it.

    Raises:
        StateMigrationError: naming what does not fit, and what to do.
    """
    if manifest.max_parallelism != plan.max_parallelism:
        raise StateMigrationError(
            f"the checkpoint has {manifest.max_parallelism} key groups, the program asks for {plan.max_parallelism}: "
            "max parallelism is fixed for the life of the state; set it back, or start with a fresh directory"
        )
    _check_key_groups(manifest, plan)
    unclaimed = list(_unclaimed(manifest, plan))
    if unclaimed and not ignore_unclaimed:
        raise StateMigrationError(
            f"the checkpoint holds {'; '.join(unclaimed)}, which the program does not have; give the operators the "
            "uids they had, or start with a fresh checkpoint directory; to leave it behind for good, set "
            f"{options.IGNORE_UNCLAIMED_STATE.key}=true (headrace run --allow-non-restored-state)"
        )
    for what in unclaimed:
        logger.warning("%s is set, so the job leaves behind %s", options.IGNORE_UNCLAIMED_STATE.key, what)


def without_unclaimed(manifest: Manifest, plan: JobPlan) -> Manifest:
    """A manifest without the committables of sinks that the program does not have; nobody could commit them.

    State, positions and what sinks hold back need no such care: the next manifest has those of the program's own
    operators. :func:`check_compatible` has asked whether anything may be left behind.
    """
    known = {operator.uid for operator in plan.operators()}
    return replace(manifest, pending=tuple(commit for commit in manifest.pending if commit.sink in known))


def partition_contexts(
    manifest: Manifest, plan: JobPlan, adoptions: Adoptions | None = None
) -> dict[tuple[int, int], PartitionContext]:
    """What every task of the later stages, and of stage 0 if that holds state, starts from.

    Args:
        manifest: where the job has come to.
        plan: the job.
        adoptions: runs that were merged in the background, by stage and partition.
    """
    adopted = adoptions or {}
    return {
        (stage.index, partition): replace(
            _context(manifest, plan, stage, partition), adoptions=adopted.get((stage.index, partition), ())
        )
        for stage in plan.stages
        if stage.index or stage.holds_state
        for partition in range(stage.parallelism)
    }


def _context(manifest: Manifest, plan: JobPlan, stage: Stage, partition: int) -> PartitionContext:
    uids = {operator.uid: operator.node.id for operator in stage.operators}
    versions: dict[tuple[int, int], VersionRef] = {}
    watermarks: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for index, old in enumerate(manifest.stages):
        for uid, held in ((uid, held) for uid, held in old.operators.items() if uid in uids):
            operator = plan.operator(uids[uid])
            for number in _overlapping(operator, partition, held):
                snapshot = old.partitions[number]
                if snapshot.version is not None and held.state_kinds:
                    versions[index, number] = snapshot.version
                _lower(snapshot, uid, operator.node.id, watermarks, outputs)
    return PartitionContext(tuple(versions.values()), watermarks, outputs)


def _lower(
    snapshot: PartitionSnapshot, uid: str, node: int, watermarks: dict[int, int], outputs: dict[int, int]
) -> None:
    """Where several old subtasks become one, the slowest counts."""
    reached = snapshot.progress.get(uid)
    if reached is not None:
        watermarks[node] = min(watermarks.get(node, reached.watermark), reached.watermark)
        outputs[node] = min(outputs.get(node, reached.output), reached.output)


def _overlapping(operator: PlannedOperator, partition: int, held: OperatorSnapshot) -> Iterator[int]:
    """The old partitions that hold keys of the new one.

    Args:
        operator: the operator, as it is now.
        partition: the new one.
        held: the operator, as it was; with the same number of key groups if it has keyed state.
    """
    if partition >= operator.parallelism:
        return
    before, key_groups = held.parallelism, held.max_parallelism
    if (before, key_groups) == (operator.parallelism, operator.max_parallelism):
        yield partition
        return
    start, stop = hash_bounds_of_partition(partition, operator.parallelism, operator.max_parallelism)
    for number in range(before):
        their_start, their_stop = hash_bounds_of_partition(number, before, key_groups)
        if their_start < stop and start < their_stop:
            yield number


def _holding(stage: StageSnapshot) -> Iterator[tuple[str, OperatorSnapshot]]:
    """The operators of a stage that may have come to hold state."""
    versions = (partition.version for partition in stage.partitions)
    if any(version is not None and (version.files or version.inline) for version in versions):
        yield from ((uid, operator) for uid, operator in stage.operators.items() if operator.state_kinds)


def _is_begun(source: SourceSnapshot) -> bool:
    """Whether there is anything to go on from."""
    return bool(source.splits or source.finished) or source.enumerator is not None


def _check_key_groups(manifest: Manifest, plan: JobPlan) -> None:
    """Which task has the state of a key follows from the key groups, so state keeps the number that it began with."""
    asked = {operator.uid: operator for operator in plan.operators()}
    for uid, held in (found for stage in manifest.stages for found in _holding(stage)):
        is_keyed = StateKind.KEYED in held.state_kinds
        if is_keyed and uid in asked and asked[uid].max_parallelism != held.max_parallelism:
            raise StateMigrationError(
                f"operator {asked[uid].label}: its state has {held.max_parallelism} key groups, the program asks for "
                f"{asked[uid].max_parallelism}: max parallelism is fixed for the life of the state; call "
                f"set_max_parallelism({held.max_parallelism}) on it, or start with a fresh directory"
            )


def _unclaimed(manifest: Manifest, plan: JobPlan) -> Iterator[str]:
    """What the program has no operators for, in words."""
    known = {operator.uid: operator.state_kinds for operator in plan.operators()}
    held = {uid: operator.state_kinds for stage in manifest.stages for uid, operator in _holding(stage)}
    lost = held.keys() - known.keys()
    if lost:
        yield f"state of operators with uid {', '.join(sorted(lost))}"
    for kind in StateKind:
        lost = {uid for uid in held.keys() & known.keys() if kind in held[uid] - known[uid]}
        if lost:
            yield f"{kind.value} state of operators with uid {', '.join(sorted(lost))}"
    lost = {uid for uid, source in manifest.sources.items() if _is_begun(source)} - known.keys()
    if lost:
        yield f"the position of sources with uid {', '.join(sorted(lost))}"
    for sink in sorted({commit.sink for commit in manifest.pending} - known.keys()):
        epochs = sorted({commit.epoch for commit in manifest.pending if commit.sink == sink})
        yield f"what the sink with uid {sink} has yet to publish of epochs {', '.join(map(str, epochs))}"
    specs = {operator.uid: operator.node.spec for operator in plan.operators()}
    holding = {uid for uid, spec in specs.items() if isinstance(spec, SinkSpec) and spec.sink.pre_commit is not None}
    lost = set(manifest.held) - holding  # a sink of another kind under the same uid would forget it
    if lost:
        yield f"output that sinks with uid {', '.join(sorted(lost))} hold back until there is more of it"


def operator_watermark(manifest: Manifest, uid: str) -> int:
    """The event time that all subtasks of an operator have reached."""
    reached = [
        partition.progress[uid].watermark
        for stage in manifest.stages
        for partition in stage.partitions
        if uid in partition.progress
    ]
    return min(reached, default=MIN_WATERMARK)
