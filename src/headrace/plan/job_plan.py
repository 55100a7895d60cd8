"""The plan of a job: stages of operators, the edges between them, and where the streams of a stage fork and merge."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import combinations, starmap
from operator import attrgetter
from typing import Final

from headrace.common.options import CHECKPOINT_INLINE_THRESHOLD
from headrace.common.typeinfo import TypeInformation
from headrace.graph.partitioning import KeySelection, Partitioning, Receivers
from headrace.graph.process_specs import BroadcastProcessSpec
from headrace.graph.specs import InputSchema, OperatorParameters, SinkSpec, TaskParameters, TimestampsSpec
from headrace.graph.stream_graph import Node
from headrace.operators.base import Operator
from headrace.operators.broadcast import BROADCAST
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.operators.user_code import OperatorPlace
from headrace.operators.window.stored_windows import BootstrapWindowOperator
from headrace.state.backend import StateBackendPlugin
from headrace.state.evolution import RenamedFields
from headrace.state.hashmap_backend import HASHMAP
from headrace.state.protocols import StateKinds
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.definition import ChangedWindows

INLINE_BYTES_OF_ALL_TASKS: Final = 256 * 1024
"""The most bytes that the states of all tasks may take inside a manifest, which is written as a whole in every
epoch."""


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """Records of one operator on their way to another, chained or through a shuffle.

    Attributes:
        id: unique within the plan.
        source: node id of the producer.
        target: node id of the consumer.
        input_index: which input of the consumer it is.
        side_output: the side output it carries; None for the main output.
        record_type: the type of its records.
        key: how its records are keyed; None when they are not.
        is_exchange: whether it crosses a shuffle.
        partitioning: how they are spread over the consumer's subtasks.
        target_stage: the stage of the consumer.
        receivers: the consumer's subtasks.
    """

    id: int
    source: int
    target: int
    input_index: int
    side_output: str | None
    record_type: TypeInformation
    key: KeySelection | None
    is_exchange: bool
    partitioning: Partitioning
    target_stage: int
    receivers: Receivers


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """One operator in its stage.

    Attributes:
        node: the operator in the graph.
        uid: the identity of its state: the user's, or one derived from the topology.
        has_explicit_uid: whether the user gave it.
        stage: index of its stage.
        parallelism: how many subtasks.
        max_parallelism: how many key groups its state has; the job's number unless the user gave it its own.
        inputs: the edges that it reads.
        outputs: the edges that read from it.
        schemas: what reaches each of its inputs.
        objects: the user's own objects among its functions.
        checkpointed: those of them that keep state of the subtask.
        state_kinds: the kinds of state that it may hold: its own, and those of its functions.
        renamed_fields: which fields of the records that it keeps have other names than in what is stored, and where.
        shares_broadcast_state: whether its subtasks all get what their broadcast state is made of, so that they have it
            in common.
        side_types: the types of those of its side outputs that are read, by tag id.
    """

    node: Node
    uid: str
    has_explicit_uid: bool
    stage: int
    parallelism: int
    max_parallelism: int
    inputs: tuple[PlannedEdge, ...]
    outputs: tuple[PlannedEdge, ...]
    schemas: tuple[InputSchema, ...]
    objects: tuple[object, ...]
    checkpointed: tuple[CheckpointedFunction, ...]
    state_kinds: StateKinds
    renamed_fields: RenamedFields
    shares_broadcast_state: bool
    side_types: Mapping[str, TypeInformation]

    @property
    def label(self) -> str:
        """Name and uid, as errors show them."""
        return f"{self.node.name!r} (uid {self.uid})"

    @property
    def key(self) -> KeySelection:
        """Return how its records are keyed; some of them are."""
        return next(edge.key for edge in self.inputs if edge.key is not None)

    def create_operator(self, task: TaskParameters) -> Operator:
        """Creates the operator of one of its subtasks, which is not open."""
        node = self.node
        # Windows that are filled for another job do not fire by the clock either.
        of_task = replace(task, is_batch=True) if node.keeps_windows_open else task
        place = OperatorPlace(node.name, self.uid, task.subtask, node.call_site)
        output_type = node.outputs.output_type or self.schemas[0].record_type
        parameters = OperatorParameters(
            of_task, place, self.parallelism, self.schemas, output_type, self.side_types, self.renamed_fields
        )
        operator = node.spec.create_operator(parameters)
        if node.keeps_windows_open:
            operator = BootstrapWindowOperator(operator)
        operator.why_insertions_only = node.spec.why_insertions_only(self.schemas)
        return operator


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything between two shuffles: its operators run chained in one task.

    Attributes:
        index: position in the chain, from 0.
        parallelism: how many tasks.
        operators: in an order in which producers come before consumers.
        forks: the outputs whose records may reach one operator by several branches.
        holds_state: whether any of its operators may hold state.
    """

    index: int
    parallelism: int
    operators: tuple[PlannedOperator, ...]
    forks: "tuple[PlannedFork, ...]"
    holds_state: bool


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Settings of a job that its plan depends on.

    Attributes:
        name: the job's name.
        parallelism: how many subtasks an operator has that does not say otherwise.
        max_parallelism: how many key groups an operator has that does not say otherwise.
        is_batch: whether the job runs in batch mode.
        mode_reason: why the mode is the one it is, where the program left it open; else empty.
        parameters: the job's configuration as the user gave it.
        fresh_instances: whether user functions are made anew for each epoch (a test mode that finds out fields that are
            used as state).
        inline_threshold: up to how many bytes a state travels inside the manifest, unless there are so many tasks that
            all together would be too much.
        state_backend: keeps the state of the job's tasks.
        changed_windows: by uid, what becomes of what windows hold that are declared otherwise now.
    """

    name: str
    parallelism: int
    max_parallelism: int
    is_batch: bool = False
    mode_reason: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    fresh_instances: bool = False
    inline_threshold: int = CHECKPOINT_INLINE_THRESHOLD.default
    state_backend: StateBackendPlugin = HASHMAP
    changed_windows: Mapping[str, ChangedWindows] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A whole job, ready to run; it travels to every task as one pickle.

    Attributes:
        settings: the input of the planner besides the graph.
        stages: the chain of stages.
        inline_bytes: up to how many bytes the state of one task travels inside the manifest.
    """

    settings: PlanSettings
    stages: tuple[Stage, ...]
    inline_bytes: int

    @property
    def name(self) -> str:
        """The job's name."""
        return self.settings.name

    def operators(self) -> Iterator[PlannedOperator]:
        """All operators, stage by stage."""
        for stage in self.stages:
            yield from stage.operators

    def shown_names(self) -> dict[str, str]:
        """By uid, what displays and metrics call operators: by their names; equal ones have the uid as well."""
        shared = Counter(map(attrgetter("node.name"), self.operators()))
        return {
            each.uid: each.node.name if shared[each.node.name] == 1 else f"{each.node.name} ({each.uid})"
            for each in self.operators()
        }

    def operator(self, node_id: int) -> PlannedOperator:
        """The operator of a node of the graph."""
        return next(op for op in self.operators() if op.node.id == node_id)


def operator_id(uid: str) -> str:
    """The id of the operator of a uid for tools of Flink: 32 hexadecimal digits, the same in every run."""
    return hashlib.blake2b(uid.encode(), digest_size=16).hexdigest()


FORK: Final = -1
"""Stands for the fork itself among the operators that watermarks come from."""


@dataclass(frozen=True, slots=True)
class PlannedFork:
    """An output whose records reach one operator by several branches.

    Only an output of a source, or of an operator behind a shuffle, is a fork: each record that another operator of the
    stage emits is made of one of theirs.

    Attributes:
        node: node id of the operator.
        side_output: which of its outputs; None for the main output.
        watermarks_from: by edge, the node ids of the nearest operators that make watermarks, or ``FORK``.
        merges: the edges of each merge, in topological order: several that lead into one operator.
    """

    node: int
    side_output: str | None
    watermarks_from: Mapping[int, frozenset[int]]
    merges: tuple[tuple[PlannedEdge, ...], ...]

    @property
    def watermark_operators(self) -> frozenset[int]:
        """The node ids of all operators behind the fork that make watermarks."""
        return frozenset().union(*self.watermarks_from.values()) - {FORK}

    @property
    def has_several_watermarks(self) -> bool:
        """Return whether branches merge whose watermarks are made by different operators."""
        return any(len({self.watermarks_from[edge.id] for edge in edges}) > 1 for edges in self.merges)


def forks_of(operators: Sequence[PlannedOperator]) -> Iterator[PlannedFork]:
    """The forks of the operators of a stage."""
    for planned in operators:
        if _may_fork(planned):
            for side_output in sorted({edge.side_output for edge in planned.outputs}, key=str):
                fork = _fork(operators, planned, side_output)
                if fork.merges:
                    yield fork


def _may_fork(planned: PlannedOperator) -> bool:
    return not planned.inputs or any(map(attrgetter("is_exchange"), planned.inputs))


def _fork(operators: Sequence[PlannedOperator], root: PlannedOperator, side_output: str | None) -> PlannedFork:
    found = {edge.id: frozenset({FORK}) for edge in root.outputs if edge.side_output == side_output}
    for planned in operators:
        reached = [found[edge.id] for edge in planned.inputs if edge.id in found]
        if reached and not _may_fork(planned):
            makes_watermarks = isinstance(planned.node.spec, TimestampsSpec)
            made_by = frozenset({planned.node.id}) if makes_watermarks else frozenset().union(*reached)
            found |= {edge.id: made_by for edge in planned.outputs}
    return PlannedFork(root.node.id, side_output, found, tuple(_merges(operators, found)))


def _merges(
    operators: Sequence[PlannedOperator], reached: Mapping[int, frozenset[int]]
) -> Iterator[tuple[PlannedEdge, ...]]:
    """The edges that lead into one operator: within the chain, and in front of a shuffle.

    Behind a shuffle edges are merged by watermark. So records have to wait in front of it only where edges are as one,
    or where their watermarks are made by different operators.
    """
    leaving: dict[int, list[PlannedEdge]] = {}
    for planned in operators:
        chained = tuple(edge for edge in planned.inputs if edge.id in reached and not edge.is_exchange)
        if len(chained) > 1:
            yield chained
        for edge in planned.outputs:
            if edge.is_exchange and edge.id in reached:
                leaving.setdefault(edge.target, []).append(edge)
    for edges in leaving.values():
        have_one_watermark = len({reached[edge.id] for edge in edges}) == 1
        if not have_one_watermark or any(starmap(send_alike, combinations(edges, 2))):
            yield tuple(edges)


def send_alike(one: PlannedEdge, other: PlannedEdge) -> bool:
    """Return whether it makes no difference by which of two edges into one operator a record goes."""
    if one.id == other.id:
        return True
    if (one.input_index, one.record_type) != (other.input_index, other.record_type):
        return False
    if one.key is None or other.key is None:
        return one.key is other.key
    if one.key.is_attached or other.key.is_attached:
        return False
    same_function = one.key.selector is other.key.selector and one.key.expression == other.key.expression
    return same_function and one.key.fields == other.key.fields


def sources_to_wait_for(plan: JobPlan) -> Mapping[str, Set[str]]:
    """By uid of a source, the sources that have to end before it is read; none where that would go in a circle."""
    waits_for: dict[str, set[str]] = {}
    for records, broadcast in _met(plan):
        for source in records:
            waits_for.setdefault(source, set()).update(broadcast)
    return {
        source: frozenset(other for other in others if other != source and source not in _behind(other, waits_for))
        for source, others in waits_for.items()
    }


def _met(plan: JobPlan) -> Iterator[tuple[Set[str], Set[str]]]:
    """Of each operator with broadcast state, the sources of its records, and those of its state."""
    origins: dict[int, frozenset[str]] = {}
    for operator in plan.operators():
        own = frozenset() if operator.inputs else frozenset({operator.uid})
        origins[operator.node.id] = own.union(*(origins[edge.source] for edge in operator.inputs))
        if isinstance(operator.node.spec, BroadcastProcessSpec):
            yield _of_input(operator, origins, is_broadcast=False), _of_input(operator, origins, is_broadcast=True)


def _of_input(operator: PlannedOperator, origins: Mapping[int, Set[str]], *, is_broadcast: bool) -> Set[str]:
    edges = (edge for edge in operator.inputs if (edge.input_index == BROADCAST) is is_broadcast)
    return frozenset().union(*(origins[edge.source] for edge in edges))


def _behind(source: str, waits_for: Mapping[str, Set[str]]) -> Set[str]:
    """All sources that one waits for, directly or through others."""
    found: set[str] = set()
    ahead = [source]
    while ahead:
        new = waits_for.get(ahead.pop(), set()) - found
        found |= new
        ahead.extend(new)
    return found


def has_to_be_read_whole(plan: JobPlan, source: PlannedOperator) -> bool:
    """Return whether one task has to read the pieces of a split, one after the other.

    That is where records meet state before any shuffle, or a generator of watermarks that has a memory, or where a sink
    gets changes of rows: these have to see them in their order. And where the pieces cannot be distinguished by number
    where their records come together again: where branches meet that have watermarks of their own, one number is not
    enough to lift what a later piece says; and where records meet what was made of them behind another shuffle, that
    has no pieces any more, unless the operator takes all of both before it does anything.
    """
    if any(fork.node == source.node.id and fork.has_several_watermarks for fork in plan.stages[0].forks):
        return True
    reached = {source.node.id: source.stage}
    for planned in plan.operators():
        edges = [edge for edge in planned.inputs if edge.source in reached]
        if edges and _goes_by_order(planned, plan):
            return True
        stages = {reached[edge.source] for edge in edges if edge.is_exchange}
        if 0 in stages and len(stages) > 1 and not planned.node.spec.waits_for_all_inputs:
            return True
        if edges:
            reached[planned.node.id] = planned.stage
    return False


def _goes_by_order(planned: PlannedOperator, plan: JobPlan) -> bool:
    """Return whether an operator of stage 0 has to see the records of a split in their order."""
    spec = planned.node.spec
    has_memory = isinstance(spec, TimestampsSpec) and spec.strategy.has_memory and not plan.settings.is_batch
    takes_changes = isinstance(spec, SinkSpec) and any(map(attrgetter("has_changes"), planned.schemas))
    return planned.stage == 0 and (bool(planned.state_kinds) or has_memory or takes_changes)


def timestamps_operators(plan: JobPlan, source: PlannedOperator) -> dict[str, WatermarkStrategy]:
    """The watermark-making operators of stage 0 that records of a source reach, by uid, with their strategies."""
    reached = {source.node.id}
    found: dict[str, WatermarkStrategy] = {}
    for planned in plan.stages[0].operators:
        if not reached.isdisjoint(map(attrgetter("source"), planned.inputs)):
            reached.add(planned.node.id)
            if isinstance(planned.node.spec, TimestampsSpec):
                found[planned.uid] = planned.node.spec.strategy
    return found
