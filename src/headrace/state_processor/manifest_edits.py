"""A manifest with operators that are added, changed and renamed: what a savepoint that is written says of its job."""

from dataclasses import dataclass, replace

from headrace.checkpoint.manifest import Manifest, OperatorSnapshot, PartitionSnapshot, StageSnapshot
from headrace.common.constants import MAX_WATERMARK
from headrace.common.job_id import JobID
from headrace.savepoint.uid_mapping import UidMapping
from headrace.state.protocols import NO_STATE, StateKinds
from headrace.state.state_file import VersionRef


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """Where the state of an operator is in a savepoint.

    Attributes:
        uid: the operator.
        stage: the stage of its tasks.
        parallelism: how many tasks it has.
        max_parallelism: into how many key groups its keys are divided.
    """

    uid: str
    stage: int
    parallelism: int
    max_parallelism: int


def empty_manifest(max_parallelism: int) -> Manifest:
    """A job that has read nothing, and has no operators yet."""
    return Manifest(1, 0, str(JobID()), "bootstrap", max_parallelism, 0, stages=(StageSnapshot(),))


def place_of(manifest: Manifest, uid: str) -> OperatorPlace | None:
    """Where the operator with a uid is; None when the manifest does not know it."""
    for index, stage in enumerate(manifest.stages):
        if uid in stage.operators:
            operator = stage.operators[uid]
            return OperatorPlace(uid, index, operator.parallelism, operator.max_parallelism)
    return None


def known_uids(manifest: Manifest) -> list[str]:
    """The uids of all sources, and of all operators that are told of."""
    return sorted({*manifest.sources, *(uid for stage in manifest.stages for uid in stage.operators)})


def with_operator(manifest: Manifest, uid: str, parallelism: int) -> Manifest:
    """A manifest with an operator that it does not know, in a stage of its own: it has reached no event time yet."""
    operator = OperatorSnapshot(parallelism, manifest.max_parallelism)
    partitions = tuple(PartitionSnapshot(None) for _ in range(parallelism))
    return replace(manifest, stages=(*manifest.stages, StageSnapshot({uid: operator}, partitions)))


def with_kinds(manifest: Manifest, uid: str, kinds: StateKinds) -> Manifest:
    """A manifest that says which kinds of state an operator has; where it has come in event time stays."""
    stages = tuple(
        _with_kinds(index, stage, uid, kinds) if uid in stage.operators else stage
        for index, stage in enumerate(manifest.stages)
    )
    return replace(manifest, stages=stages)


def _with_kinds(index: int, stage: StageSnapshot, uid: str, kinds: StateKinds) -> StageSnapshot:
    operators = {**stage.operators, uid: replace(stage.operators[uid], state_kinds=kinds)}
    held = [operator.parallelism for operator in operators.values() if operator.state_kinds]
    partitions = (
        replace(part, version=(part.version or VersionRef(index, number, 0)) if held else None)
        for number, part in enumerate(stage.partitions)
    )
    return StageSnapshot(operators, tuple(partitions))


def without(manifest: Manifest, uid: str) -> Manifest:
    """A manifest without the state, the position and the output of an operator.

    Where it has come in event time stays, for one that gets state of its own under the uid.
    """
    edited = with_kinds(manifest, uid, NO_STATE)
    if manifest.finished and uid in manifest.sources:
        edited = _not_finished(edited)
    return replace(
        edited,
        sources={known: source for known, source in edited.sources.items() if known != uid},
        pending=tuple(commit for commit in edited.pending if commit.sink != uid),
        in_progress={known: output for known, output in edited.in_progress.items() if known != uid},
    )


def _not_finished(manifest: Manifest) -> Manifest:
    """A manifest of a job that has something to read again: event time, which had come to its end, begins anew."""

    def begun_anew(partition: PartitionSnapshot) -> PartitionSnapshot:
        known = {uid: reached for uid, reached in partition.progress.items() if reached.watermark != MAX_WATERMARK}
        return replace(partition, progress=known)

    stages = tuple(replace(stage, partitions=tuple(map(begun_anew, stage.partitions))) for stage in manifest.stages)
    return replace(manifest, stages=stages, finished=False)


def renamed(manifest: Manifest, old: str, new: str) -> Manifest:
    """A manifest in which an operator, a source or a sink has another uid."""
    uids = UidMapping({old: new})
    return replace(
        uids.manifest(manifest),
        pending=tuple(replace(commit, sink=uids.of(commit.sink)) for commit in manifest.pending),
        in_progress={uids.of(uid): output for uid, output in manifest.in_progress.items()},
    )
