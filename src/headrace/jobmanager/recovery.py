"""Recovery from a manifest, perhaps at another parallelism, under other uids or in another shape."""

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final, TypeVar

import pyarrow as pa

from headrace.checkpoint.manifest import Manifest, OperatorProgress, OperatorSnapshot, StageSnapshot
from headrace.checkpoint.store import CheckpointStore, TemporaryStore
from headrace.common import options
from headrace.common.errors import InfrastructureError, SavepointError, StateCorruptedError, StateMigrationError
from headrace.common.logs import get_logger
from headrace.connectors.source import KeptClients
from headrace.graph.specs import SinkSpec, SourceSpec
from headrace.jobmanager.runtime import Runtime
from headrace.jobmanager.sources import misplaced_positions, warn_of_moved_sources
from headrace.operators.base import cannot_go_on
from headrace.plan.job_plan import JobPlan, PlannedOperator, Stage
from headrace.runtime.task.messages import PartitionContext, SerializedJob
from headrace.runtime.task.operator_chain import operator_context, task_parameters
from headrace.savepoint.metadata import TableFile
from headrace.savepoint.tables import named_files, put
from headrace.savepoint.tasks import rename_version, versions_of, with_versions
from headrace.savepoint.uid_mapping import UidMapping
from headrace.state.backend import CompactionOutcome, StateBackendPlugin, StateOwner
from headrace.state.exported_tables import ExportedTable, imported_schema
from headrace.state.hashmap_backend import HashMapTaskStates
from headrace.state.keyed.table import check_keys
from headrace.state.keys.hashing import hash_bounds_of_partition
from headrace.state.operator_state import Redistribution
from headrace.state.protocols import KEYED, STORE_PREFIX, StateKind
from headrace.state.runs.layout import KIND
from headrace.state.state_file import RunHead, VersionRef
from headrace.storage.folder import Folder, source_folder

Adoptions = Mapping[tuple[int, int], tuple[CompactionOutcome, ...]]
Store = CheckpointStore | TemporaryStore


logger = get_logger(__name__)


def check_compatible(manifest: Manifest, plan: JobPlan, *, ignore_unclaimed: bool = False) -> None:
    """Refuse a program that cannot go on from a manifest.

    Args:
        manifest: where the job had come to.
        plan: the job.
        ignore_unclaimed: whether what no operator claims may be left behind; a warning then names it.

    Raises:
        StateMigrationError: naming what does not fit, and what to do.
    """
    backend, max_parallelism = plan.settings.state_backend.name, plan.settings.max_parallelism
    if manifest.state_backend != backend:
        raise StateMigrationError(
            f"the checkpoint was written by the state backend {manifest.state_backend!r}, the job is to run with "
            f"{backend!r}: none can read what another one has written; set "
            f"{options.STATE_BACKEND.key}={manifest.state_backend}. To change it, have the job take a canonical "
            "savepoint under that backend and start from it (headrace run -s), with a fresh checkpoint directory"
        )
    if manifest.max_parallelism != max_parallelism and not manifest.restored_from:
        raise StateMigrationError(
            f"the checkpoint has {manifest.max_parallelism} key groups, the program asks for {max_parallelism}: "
            "max parallelism is fixed for the life of the job; set it back, or start another job from this directory "
            "or a savepoint (headrace run -s), with a fresh checkpoint directory"
        )
    if not manifest.restored_from:  # of a savepoint all is opened anew, by the hashes of keys
        _check_key_groups(manifest, plan)
    unclaimed = list(_unclaimed(manifest, plan))
    if unclaimed and not ignore_unclaimed:
        raise StateMigrationError(
            f"the checkpoint holds {'; '.join(unclaimed)}, which no operator of the program takes over; give the "
            "operators the uids they had, and new ones their own (a start may map old ones, --map-uid "
            "old=new), or start with a fresh checkpoint directory; to leave it behind for good, set "
            f"{options.IGNORE_UNCLAIMED_STATE.key}=true (headrace run --allow-non-restored-state)"
        )
    for what in unclaimed:
        logger.warning("%s is set, so the job leaves behind %s", options.IGNORE_UNCLAIMED_STATE.key, what)
    warn_of_moved_sources(without_unclaimed(manifest, plan), plan)


def holds_state(manifest: Manifest) -> bool:
    """Return whether any task has come to hold state of operators."""
    return any(True for stage in manifest.stages for _ in _holding(stage))


def without_unclaimed(manifest: Manifest, plan: JobPlan) -> Manifest:
    """A manifest without the committables of sinks that the program does not have, and without misplaced positions.

    Nothing could commit the ones, and a wrong source would go on from the others. What else is of operators that the
    program does not have needs no such care: the next manifest has that of the program's own operators.
    :func:`check_compatible` has checked whether anything may be left behind.
    """
    known = {operator.uid for operator in plan.operators()}
    misplaced = misplaced_positions(manifest, plan)
    return replace(
        manifest,
        pending=tuple(commit for commit in manifest.pending if commit.sink in known),
        sources={uid: source for uid, source in manifest.sources.items() if uid not in misplaced},
    )


def contexts_after_epoch(manifest: Manifest, adoptions: Adoptions) -> dict[tuple[int, int], PartitionContext]:
    """The context of every task behind an epoch of the same plan: each goes on from what itself has written.

    Args:
        manifest: that of the epoch.
        adoptions: runs that were merged in the background, by stage and partition.
    """
    found: dict[tuple[int, int], PartitionContext] = {}
    for index, stage in enumerate(manifest.stages):
        for number, own in enumerate(stage.partitions):
            versions = () if own.version is None else (own.version,)
            found[index, number] = PartitionContext(versions, own.progress, adoptions.get((index, number), ()))
    return found


def partition_contexts(
    manifest: Manifest, plan: JobPlan, *, is_start: bool = False
) -> dict[tuple[int, int], PartitionContext]:
    """The context from which every task of the later stages starts, and of stage 0 if that holds state.

    Args:
        manifest: where the job has come to.
        plan: the job.
        is_start: whether the job has run no epoch since it started, so that state without keys is dealt out.
    """
    return {
        (stage.index, partition): _context(manifest, stage, partition, is_start=is_start)
        for stage in plan.stages
        for partition in range(stage.parallelism if stage.index or stage.holds_state else 0)
    }


@dataclass(frozen=True, slots=True)
class _Succession:
    """One subtask of an operator, and the operator as the manifest knows it."""

    operator: PlannedOperator
    subtask: int
    previous: OperatorSnapshot
    is_start: bool

    @property
    def is_dealt(self) -> bool:
        """Return whether state without keys is dealt out to the subtask."""
        return self.is_start and bool(self.previous.state_kinds - KEYED)

    def predecessors(self) -> Iterator[int]:
        """The old subtasks that had keys of this one; of the same number where nothing has changed."""
        before, now = self.previous, self.operator
        if (before.parallelism, before.max_parallelism) == (now.parallelism, now.max_parallelism):
            yield self.subtask
            return
        start, stop = hash_bounds_of_partition(self.subtask, now.parallelism, now.max_parallelism)
        for number in range(before.parallelism):
            their_start, their_stop = hash_bounds_of_partition(number, before.parallelism, before.max_parallelism)
            if their_start < stop and start < their_stop:
                yield number

    def state_sources(self) -> Iterator[int]:
        """The old subtasks that had state of which this one may get some."""
        if self.previous.state_kinds and (StateKind.KEYED in self.previous.state_kinds or not self.is_dealt):
            yield from self.predecessors()
        if self.is_dealt:
            before, now = self.previous.parallelism, self.operator.parallelism
            redistribution = Redistribution(before, now, self.subtask, self.operator.shares_broadcast_state)
            for kind in self.previous.state_kinds - KEYED:
                yield from redistribution.subtasks_of(kind)


def _context(manifest: Manifest, stage: Stage, partition: int, *, is_start: bool) -> PartitionContext:
    operators = {operator.uid: operator for operator in stage.operators if partition < operator.parallelism}
    versions: dict[tuple[int, int], VersionRef] = {}
    progress: dict[str, OperatorProgress] = {}
    dealt: dict[str, int] = {}
    for index, old in enumerate(manifest.stages):
        for uid, previous in old.operators.items():
            if uid not in operators:
                continue
            succession = _Succession(operators[uid], partition, previous, is_start)
            progress |= _progress(old, succession)
            for number in succession.state_sources():
                version = old.partitions[number].version
                if version is not None:
                    versions[index, number] = version
            if succession.is_dealt:
                dealt[uid] = previous.parallelism
    refs = tuple(version for _, version in sorted(versions.items(), key=itemgetter(0)))
    return PartitionContext(refs, progress, dealt=dealt)


def _progress(stage: StageSnapshot, succession: _Succession) -> dict[str, OperatorProgress]:
    """Return how far an operator has come; where several old subtasks become one, the slowest counts.

    The state of a watermark generator is not restored from subtasks that were divided otherwise.
    """
    uid = succession.operator.uid
    known = (stage.partitions[number].progress.get(uid) for number in succession.predecessors())
    found = [reached for reached in known if reached is not None]
    if not found:
        return {}
    own = None
    if succession.previous.parallelism == succession.operator.parallelism:
        own = stage.partitions[succession.subtask].progress.get(uid)
    generator = None if own is None else own.generator
    slowest = min(reached.watermark for reached in found), min(reached.output for reached in found)
    return {uid: OperatorProgress(*slowest, generator)}


def _holding(stage: StageSnapshot) -> Iterator[tuple[str, OperatorSnapshot]]:
    """The operators of a stage that may have come to hold state."""
    versions = (partition.version for partition in stage.partitions)
    if any(version is not None and (version.files or version.inline) for version in versions):
        yield from ((uid, operator) for uid, operator in stage.operators.items() if operator.state_kinds)


def _check_key_groups(manifest: Manifest, plan: JobPlan) -> None:
    """Refuse another number of key groups: which task has the state of a key follows from it."""
    operators = {operator.uid: operator for operator in plan.operators()}
    for uid, snapshot in (found for stage in manifest.stages for found in _holding(stage)):
        is_keyed = StateKind.KEYED in snapshot.state_kinds
        if is_keyed and uid in operators and operators[uid].max_parallelism != snapshot.max_parallelism:
            raise StateMigrationError(
                f"operator {operators[uid].label}: its state has {snapshot.max_parallelism} key groups, the program "
                f"asks for {operators[uid].max_parallelism}: max parallelism is fixed for the life of the state; call "
                f"set_max_parallelism({snapshot.max_parallelism}) on it, or start with a fresh directory"
            )


def _unclaimed(manifest: Manifest, plan: JobPlan) -> Iterator[str]:
    """Descriptions of what the program has no operators for."""
    known = {operator.uid: operator.state_kinds for operator in plan.operators()}
    stored = {uid: operator.state_kinds for stage in manifest.stages for uid, operator in _holding(stage)}
    lost = stored.keys() - known.keys()
    if lost:
        yield f"state of operators with uid {', '.join(sorted(lost))}"
    for kind in StateKind:
        lost = {uid for uid in stored.keys() & known.keys() if kind in stored[uid] - known[uid]}
        if lost:
            yield f"{kind.value} state of operators with uid {', '.join(sorted(lost))}"
    specs = {operator.uid: operator.node.spec for operator in plan.operators()}
    sources = {uid for uid, spec in specs.items() if isinstance(spec, SourceSpec)}
    lost = {uid for uid, source in manifest.sources.items() if source.is_begun} - sources
    if lost:
        yield f"the position of sources with uid {', '.join(sorted(lost))}"
    yield from misplaced_positions(manifest, plan).values()
    for sink in sorted({commit.sink for commit in manifest.pending} - known.keys()):
        epochs = sorted({commit.epoch for commit in manifest.pending if commit.sink == sink})
        yield f"what the sink with uid {sink} has yet to publish of epochs {', '.join(map(str, epochs))}"
    rolling = {uid for uid, spec in specs.items() if isinstance(spec, SinkSpec) and spec.sink.pre_commit is not None}
    lost = set(manifest.in_progress) - rolling  # a sink of another kind under the same uid would forget it
    if lost:
        yield f"output in progress of sinks with uid {', '.join(sorted(lost))}"


_TASKS_SAMPLED: Final = 4
"""The tasks of each stage that are read: all have stored the same types, as the same program has run in them."""


def heads_of_manifest(manifest: Manifest, backend: StateBackendPlugin, storage: Folder) -> Iterator[RunHead]:
    """The headers of the runs that some tasks of each stage have stored.

    Args:
        manifest: the job.
        backend: what has written it.
        storage: where its state files are.
    """
    versions = list(manifest.versions())
    for stage in sorted({version.stage for version in versions}):
        for version in islice((each for each in versions if each.stage == stage), _TASKS_SAMPLED):
            yield from backend.heads(storage, version)


def heads_of_tables(tables: Iterable[TableFile]) -> Iterator[RunHead]:
    """The headers of the tables of a canonical savepoint, as these will be stored."""
    known: set[tuple[str, str, str, str]] = set()
    for file in tables:
        about = json.dumps(file.about, sort_keys=True)
        if (file.uid, file.state, about, file.schema) in known:
            continue
        known.add((file.uid, file.state, about, file.schema))
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(file.schema)))
        table = ExportedTable(file.uid, file.state, file.about, schema, ())
        yield RunHead(file.uid, file.state, file.about, imported_schema(table))


def check_declared(plan: JobPlan, blob: SerializedJob, heads: Iterator[RunHead]) -> None:
    """Refuse a program whose operators keep something else than what is stored.

    Args:
        plan: the job.
        blob: the same as it travels to tasks.
        heads: what is stored; what cannot be read is left to the tasks that need it, which tell of it.

    Raises:
        StateMigrationError: naming the operator, its line, and what is different.
    """
    stored: dict[str, list[RunHead]] = defaultdict(list)
    try:
        for head in heads:
            stored[head.uid].append(head)
    except (StateCorruptedError, InfrastructureError, OSError) as error:
        logger.info("what is stored is not compared with the program before it runs: %s", error)
        return
    for planned in plan.operators():
        is_changed = planned.uid in plan.settings.changed_windows
        if planned.uid in stored and planned.state_kinds and not is_changed:
            _check(plan, blob, planned, stored[planned.uid])


def _check(plan: JobPlan, blob: SerializedJob, planned: PlannedOperator, heads: Iterable[RunHead]) -> None:
    owner = StateOwner(planned.parallelism, planned.max_parallelism, planned.state_kinds)
    task = HashMapTaskStates(blob.state, planned.stage, 0, {planned.uid: owner})
    task.pretend(heads)
    context = operator_context(plan, planned, 0, task)
    operator = planned.create_operator(task_parameters(plan, blob, 0, KeptClients()))
    try:
        operator.restore_state(context)
        for head in heads:
            _check_keys(planned, head)
    except StateMigrationError as error:
        raise cannot_go_on(context, error) from error


def _check_keys(planned: PlannedOperator, head: RunHead) -> None:
    """Of what functions declare only the keys are known."""
    if StateKind.KEYED in planned.state_kinds and head.store.startswith(STORE_PREFIX):
        label = f"{head.meta.get(KIND)} state {head.store.removeprefix(STORE_PREFIX)!r}"
        check_keys(head.meta, planned.key.codec.to_json(), label)


T = TypeVar("T")


def with_renamed_state(
    known: Manifest, manifest: Manifest, uids: UidMapping, plan: JobPlan, runtime: Runtime, store: Store
) -> Manifest:
    """A manifest with state under the program's uids; of the files that hold it all but the indexes stay.

    Args:
        known: the job with the uids that state has.
        manifest: the same with the program's; what is written has its epoch and generation.
        uids: which are which.
        plan: the job.
        runtime: its tasks write.
        store: the job's directory, which has the state files.

    Raises:
        SavepointError: when something cannot be written, or a file is missing.
    """
    threshold = plan.settings.inline_threshold
    tasks = list(versions_of(known, manifest.epoch, manifest.generation, threshold))
    work = partial(rename_version, plan.settings.state_backend, store.state, uids.new_by_old)
    return with_versions(manifest, written_by_tasks(work, tasks, runtime))


def copy_source_files(known: Manifest, uids: UidMapping, store: Store) -> None:
    """Give sources with other uids what they keep beside their positions; it stays where it was for older manifests.

    Args:
        known: the job with the uids that there were.
        uids: which are which.
        store: the job's directory.
    """
    for old, source in known.sources.items():
        if uids.of(old) != old:
            for name, content in named_files(source, source_folder(store.storage, old)):
                put(name, content, source_folder(store.storage, uids.of(old)))


def written_by_tasks(work: Callable[[T], VersionRef], tasks: Sequence[T], runtime: Runtime) -> list[VersionRef]:
    """The versions that tasks of a runtime write.

    Raises:
        SavepointError: when one cannot be written.
    """
    try:
        return runtime.run_background(work, tasks).result() if tasks else []
    except InfrastructureError as error:
        raise SavepointError(f"state could not be brought in: {error}") from error
