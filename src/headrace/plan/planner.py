"""From the logical graph to the plan: passes over an immutable graph, each with one subject.

They check event time, and cut the graph into stages. Records are shuffled where they get a key, or another number of
subtasks. And where outputs of several operators are united behind a shuffle, they go through one more: it merges them
by watermark, so that event time rises from record to record over all of them together, as if they came one by one.
(Flink does not chain such operators either.) What event time does not matter for, most sinks say, does without. A
sink that takes watermarks is behind a shuffle in any case, since before it every split has a watermark of its
own.

In batch mode event time stands still until the input has ended, and comes to its end then. So nothing is late, and what
windows show before their end would only be shown again.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, starmap
from operator import attrgetter
from typing import Final, TypeAlias

from headrace.common import options
from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.logs import get_logger
from headrace.common.options import RuntimeExecutionMode
from headrace.connectors.source import Boundedness
from headrace.graph import specs
from headrace.graph.partitioning import FORWARD, ForwardByKey, Receivers
from headrace.graph.pattern_specs import PatternFilterSpec, PatternSpec
from headrace.graph.process_specs import AsyncSpec, CoProcessSpec, KeyedProcessSpec, LookupSpec, ProcessSpec
from headrace.graph.specs import SinkSpec, SourceSpec, TimestampsSpec
from headrace.graph.stream_graph import Edge, Node, StreamGraph
from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    ColumnarWindowSpec,
    GlobalAggregateSpec,
    GroupAggregateSpec,
    IntervalJoinSpec,
    LocalAggregateSpec,
    TriggeredWindowSpec,
)
from headrace.operators.checkpointed import CheckpointedFunction
from headrace.operators.functions import has_own, objects_of
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT, ACCUMULATORS_TAG, RECORDS_INPUT
from headrace.plan.job_plan import (
    INLINE_BYTES_OF_ALL_TASKS,
    JobPlan,
    PlannedEdge,
    PlannedOperator,
    PlanSettings,
    Stage,
    forks_of,
)
from headrace.plan.window_paths import columnar_spec, is_join, path_of
from headrace.state.protocols import NO_STATE, WITHOUT_KEYS, StateKind
from headrace.windowing.assigners import ProcessingTimeAssigner
from headrace.windowing.definition import WindowDefinition

logger = get_logger(__name__)


def with_uids(graph: StreamGraph) -> StreamGraph:
    """Give each operator an identity: the user's uid, else a digest of its kind and of what comes before it.

    Raises:
        InvalidProgramError: when two operators have the same uid.
    """
    taken: dict[str, Node] = {}

    def identify(node: Node, made: StreamGraph) -> Iterator[Node]:
        uid = node.uid or _derived_uid(node, made, taken)
        if uid in taken:
            raise InvalidProgramError(
                f"two operators have the uid {uid!r}: {taken[uid].name!r} ({taken[uid].call_site}) and {node.name!r} "
                f"({node.call_site}); state is found by uid, so give each its own"
            )
        taken[uid] = node
        yield replace(node, uid=uid)

    return graph.transform(identify)


def _derived_uid(node: Node, made: StreamGraph, taken: Collection[str]) -> str:
    inputs = (f"{made[edge.source].uid}/{edge.side_output}/{edge.input_index}" for edge in node.inputs)
    digest = hashlib.sha256("\n".join([node.spec.kind, *inputs]).encode()).hexdigest()[:16]
    uid, number = digest, 1
    while uid in taken:
        number += 1
        uid = f"{digest}-{number}"
    return uid


_Summing: TypeAlias = ColumnarWindowSpec | GroupAggregateSpec


def with_work_before_shuffles(graph: StreamGraph) -> StreamGraph:
    """Have built-in aggregates computed column by column, and senders do what receivers would, if results are the same.

    Senders leave out events that matter for no match of a pattern. And they sum up, unless aggregates depend on the
    order of records, or windows have allowed lateness or a side output for late records, which want records as they
    came.
    """

    def rewrite(node: Node, made: StreamGraph) -> Iterator[Node]:
        spec = (columnar_spec(node.spec) if isinstance(node.spec, AggregatedWindowSpec) else None) or node.spec
        is_shuffled = all(edge.partitioning.redistributes for edge in node.inputs)
        if isinstance(spec, PatternSpec) and is_shuffled and spec.can_be_filtered:
            yield from _filtered(spec, node, made)
        elif isinstance(spec, _Summing) and is_shuffled and _can_be_split(spec, node, made):
            yield from _in_two_phases(spec, node, made)
        else:
            yield node if spec is node.spec else replace(node, spec=spec)

    return graph.transform(rewrite)


def _filtered(spec: PatternSpec, node: Node, made: StreamGraph) -> Iterator[Node]:
    inputs: list[Edge] = []
    for number, edge in enumerate(node.inputs):
        before = replace(edge, partitioning=FORWARD, input_index=0, key=None)
        uid, name = f"{node.uid}/filter-{number}", f"Filter {node.name}"
        filters = PatternFilterSpec(spec.automaton)
        pattern_filter = Node(made.new_id(), filters, name, (before,), uid=uid, call_site=node.call_site)
        yield pattern_filter
        inputs.append(replace(edge, source=pattern_filter.id, side_output=None))
    yield replace(node, inputs=tuple(inputs))


def _can_be_split(spec: _Summing, node: Node, made: StreamGraph) -> bool:
    if not spec.can_be_split:
        return False
    (records,) = made.input_schemas(node)
    layout = spec.layout(records)
    return not (layout.is_ordered or layout.aggregators.need_state)


def _in_two_phases(spec: _Summing, node: Node, made: StreamGraph) -> Iterator[Node]:
    """Raw records come on one input, accumulators on the other; both by the key that the records have."""
    inputs: list[Edge] = []
    for number, edge in enumerate(node.inputs):
        assert edge.key is not None
        before = replace(edge, partitioning=FORWARD)
        uid, name = f"{node.uid}/local-{number}", f"Local {node.name}"
        local = Node(made.new_id(), LocalAggregateSpec(spec), name, (before,), uid=uid, call_site=node.call_site)
        yield local
        key = replace(edge.key, is_attached=True)
        routed = replace(key, only_routes=True)
        inputs.append(Edge(local.id, edge.partitioning, None, RECORDS_INPUT, key))
        inputs.append(Edge(local.id, edge.partitioning, ACCUMULATORS_TAG, ACCUMULATORS_INPUT, routed))
    yield replace(node, spec=GlobalAggregateSpec(spec), inputs=tuple(inputs))


def with_parallelism(graph: StreamGraph, parallelism: int, max_parallelism: int) -> StreamGraph:
    """Give each operator its numbers of subtasks and key groups, and each edge the partitioning that follows from them.

    An operator that does not say has as many subtasks as what it is chained to, so that records stay where they are.

    Args:
        graph: the graph.
        parallelism: the job's number of subtasks.
        max_parallelism: the job's number of key groups.

    Raises:
        InvalidProgramError: when there are more subtasks than key groups, or ``forward()`` between other numbers.
    """

    def place(node: Node, made: StreamGraph) -> Iterator[Node]:
        producers = [made[edge.source].parallelism or parallelism for edge in node.inputs]
        is_chained = bool(node.inputs) and not any(edge.partitioning.redistributes for edge in node.inputs)
        inherited = max(producers) if is_chained else parallelism
        subtasks = inherited if node.parallelism is None else node.parallelism
        groups = node.max_parallelism or max_parallelism
        if not 1 <= subtasks <= groups:
            raise InvalidProgramError(
                f"operator {node.name!r} ({node.call_site}) has parallelism {subtasks}; it must lie between 1 and "
                f"the max parallelism, {groups}"
            )
        receivers, inputs = node.parallelism if is_chained else subtasks, []
        for edge, senders in zip(node.inputs, producers, strict=True):
            if edge.partitioning.keeps_parallelism and senders != subtasks:
                raise InvalidProgramError(
                    f"{edge.partitioning.requested_by} before operator {node.name!r} keeps records with their subtask, "
                    f"but there are {senders} before it and {subtasks} behind: give both the same parallelism, or "
                    f"leave it out\n  at {node.call_site}"
                )
            partitioning = edge.partitioning.between(senders, receivers)
            inputs.append(edge if partitioning is edge.partitioning else replace(edge, partitioning=partitioning))
        yield replace(node, inputs=tuple(inputs), parallelism=subtasks, max_parallelism=groups)

    return graph.transform(place)


def with_single_tasks_chained(graph: StreamGraph) -> StreamGraph:
    """Have records stay in their task where one task sends them to one task, both behind a shuffle; in batch mode."""
    stage_of = stages_of(graph, is_batch=True)

    def chain(node: Node, made: StreamGraph) -> Iterator[Node]:
        producers = [made[edge.source] for edge in node.inputs]
        are_single = node.parallelism == 1 and all(each.parallelism == 1 for each in producers)
        stages = {stage_of[each.id] for each in producers}
        if not are_single or len(stages) != 1 or 0 in stages:
            yield node
            return
        edges = (
            replace(edge, partitioning=FORWARD) if edge.partitioning.redistributes else edge for edge in node.inputs
        )
        yield replace(node, inputs=tuple(edges))

    return graph.transform(chain)


def mode_of(graph: StreamGraph, mode: RuntimeExecutionMode) -> tuple[bool, str]:
    """Return whether a job runs in batch mode, and why, where the program leaves that open (else an empty text).

    Raises:
        InvalidProgramError: when it has to, and a source has no end.
    """
    endless = next(filter(_is_unbounded, graph), None)
    if mode is RuntimeExecutionMode.AUTOMATIC:
        reason = "all sources are bounded" if endless is None else f"source {endless.name!r} is unbounded"
        return endless is None, f"AUTOMATIC: {reason}"
    if mode is RuntimeExecutionMode.BATCH and endless is not None:
        raise InvalidProgramError(
            f"batch mode needs sources that end, but source {endless.name!r} ({endless.call_site}) is unbounded: let "
            "it end, as tables of topics do by 'scan.bounded.mode', or use RuntimeExecutionMode.AUTOMATIC or STREAMING "
            "('execution.runtime-mode'; for a materialized table REFRESH_MODE = CONTINUOUS)"
        )
    return mode is RuntimeExecutionMode.BATCH, ""


def _is_unbounded(node: Node) -> bool:
    return isinstance(node.spec, SourceSpec) and node.spec.source.boundedness is not Boundedness.BOUNDED


def check_clock(graph: StreamGraph) -> None:
    """Nothing waits for the clock in batch mode, so windows that follow it mean nothing.

    Raises:
        InvalidProgramError: naming the operator that has such windows.
    """
    for node in graph:
        assigner = node.spec.definition.assigner if isinstance(node.spec, TriggeredWindowSpec) else None
        if isinstance(assigner, ProcessingTimeAssigner):
            raise InvalidProgramError(
                f"operator {node.name!r}: {assigner} ends windows by the clock, for which nothing waits in "
                f"batch mode: use windows of event time, or streaming mode\n  at {node.call_site}"
            )


def with_batch_windows(graph: StreamGraph) -> StreamGraph:
    """Have windows fire once, when the input has ended, and keep nothing for late records, as there are none."""
    read = {(edge.source, edge.side_output) for node in graph for edge in node.inputs}

    def change(node: Node, _made: StreamGraph) -> Iterator[Node]:
        spec = node.spec
        if isinstance(spec, TriggeredWindowSpec):
            is_read = (node.id, spec.definition.late_tag_id) in read
            spec = replace(spec, definition=_in_batch_mode(spec.definition, keeps_tag=is_read))
            node = replace(node, spec=spec)
        yield node

    return graph.transform(change)


def _in_batch_mode(windows: WindowDefinition, *, keeps_tag: bool) -> WindowDefinition:
    # What reads late records has to find their side output, though nothing ever comes.
    tag = windows.late_tag if keeps_tag else None
    return replace(windows, trigger=windows.trigger.in_batch_mode(), allowed_lateness=0, late_tag=tag)


_KEEPS_TIMES: Final = (
    specs.MapSpec,
    specs.FlatMapSpec,
    specs.FilterSpec,
    specs.ColumnFilterSpec,
    specs.SelectSpec,
    specs.MapBatchesSpec,
    AsyncSpec,
    LookupSpec,
    ProcessSpec,
    CoProcessSpec,
    specs.RollingReduceSpec,
    specs.RollingAggregateSpec,
)
"""Operators that give each record the time of one that it was made of. All others may give records a time of their
own."""


def check_event_time(graph: StreamGraph) -> None:
    """Refuse windows of event time, and joins, on records of which none can have a timestamp.

    Where some may have one, the records tell, when the job runs.

    Raises:
        InvalidProgramError: naming the operator that has such windows, or joins, and the sources.
    """
    have_times: dict[int, bool] = {}
    for node in graph:
        have_times[node.id] = _may_have_times(node, have_times)
        needs = _needs_times(node)
        for index in range(len(node.spec.inputs)) if needs else ():
            read = {edge.source for edge in node.inputs if edge.input_index == index}
            if not any(map(have_times.__getitem__, read)):
                raise _without_times(node, needs, graph, graph.needed_by(read))


def _without_times(node: Node, needs: str, graph: StreamGraph, before: set[int]) -> InvalidProgramError:
    sources = " and ".join(repr(source.name) for source in graph if source.is_source and source.id in before)
    otherwise = "; or use windows of processing time" if needs == _WINDOWS else ""
    return InvalidProgramError(
        f"operator {node.name!r} {needs}, but its records have no timestamps: those of "
        f"{sources} come without, and no WatermarkStrategy assigns them any. Give from_source(...), or "
        "assign_timestamps_and_watermarks(...) before key_by, a strategy with a timestamp assigner: "
        f'.with_timestamp_assigner("time"), say{otherwise}\n  at {node.call_site}'
    )


_WINDOWS: Final = "has windows of event time"


def _needs_times(node: Node) -> str:
    """Return what an operator needs event time for, as an error says it; empty when it does not."""
    spec = node.spec
    if isinstance(spec, IntervalJoinSpec):
        return "joins by event time"
    has_windows = isinstance(spec, TriggeredWindowSpec) and spec.definition.assigner.is_event_time()
    return _WINDOWS if has_windows else ""


def _may_have_times(node: Node, found: Mapping[int, bool]) -> bool:
    spec = node.spec
    if isinstance(spec, specs.SourceSpec):
        return spec.source.gives_timestamps
    keeps = isinstance(spec, _KEEPS_TIMES)
    if isinstance(spec, specs.TimestampsSpec):
        keeps = spec.strategy.timestamp_assigner is None
    elif isinstance(spec, KeyedProcessSpec):  # what its timers emit has their time
        keeps = not has_own(spec.function, "on_timer")
    return any(found[edge.source] for edge in node.inputs) if keeps else True


Root = tuple[int, str | None]
"""An output: the id of its node, and the side output if it is one."""


def stages_of(graph: StreamGraph, *, is_batch: bool) -> dict[int, int]:
    """The stage of each operator, by node id: how many shuffles are on the deepest path from a source to it.

    Args:
        graph: the graph, with the partitionings that follow from the numbers of subtasks.
        is_batch: in batch mode nothing is late, so no merging is needed.
    """
    timed = graph.needed_by(node.id for node in graph if not node.spec.ignores_event_time)
    stages: dict[int, int] = {}
    # The outputs within an operator's stage that its records are made of. There are none where they come from outside
    # or through a shuffle, so that they set out from the operator itself.
    roots: dict[int, set[Root | None]] = {}
    for node in graph:
        stage = int(node.spec.requires_aligned_watermark)
        for edge in node.inputs:
            stage = max(stage, stages[edge.source] + edge.partitioning.redistributes)
        ways: set[Root | None] = set()  # that records come by which do not start from one batch; all shuffles are None
        for edge in node.inputs:
            is_chained = stages[edge.source] == stage
            ways |= (roots[edge.source] or {(edge.source, edge.side_output)}) if is_chained else {None}
        if stage and not is_batch and node.id in timed and len(ways) > 1:
            stage, ways = stage + 1, {None}
        stages[node.id], roots[node.id] = stage, set() if None in ways else ways
    return stages


_BEFORE: Final = "give the strategy to from_source(...), or call assign_timestamps_and_watermarks() before key_by()"


def check_program(graph: StreamGraph, max_parallelism: int, *, is_batch: bool) -> None:
    """Refuse what can be seen to be wrong without knowing where the job runs.

    Raises:
        InvalidProgramError: as :func:`plan_job`.
        InvalidTypeError: as :func:`plan_job`.
    """
    if not len(graph):
        raise InvalidProgramError("the job has no operators: build a stream and end it in a sink, then call execute()")
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise InvalidProgramError(
            f"max parallelism must lie between 1 and {UPPER_BOUND_MAX_PARALLELISM}, it is {max_parallelism}"
        )
    has_sink = False
    for node in graph:
        if isinstance(node.spec, SinkSpec):
            has_sink = True
            try:
                node.spec.sink.check_guarantee()
            except InvalidProgramError as error:
                raise type(error)(f"sink {node.name!r}: {error}\n  at {node.call_site}") from None
    if not has_sink:
        raise InvalidProgramError("the job has no sink, so nothing would see its results: call print() or sink_to()")
    check_event_time(graph)
    if is_batch:
        check_clock(graph)


def plan_job(graph: StreamGraph, settings: PlanSettings) -> JobPlan:
    """Plan a job.

    Raises:
        InvalidProgramError: when the graph cannot be run; the message names the operator and the user's line.
        InvalidTypeError: when a sink cannot write what reaches it.
        ConfigurationError: when it is said what becomes of windows that the program does not have.
    """
    check_program(graph, settings.max_parallelism, is_batch=settings.is_batch)
    explicit = frozenset(node.id for node in graph if node.uid is not None)
    graph = with_uids(graph)
    if settings.is_batch:
        graph = with_batch_windows(graph)
    graph = with_work_before_shuffles(graph)
    graph = with_parallelism(graph, settings.parallelism, settings.max_parallelism)
    if settings.is_batch:
        graph = with_single_tasks_chained(graph)
    stage_of = stages_of(graph, is_batch=settings.is_batch)
    _check_partitioned(graph, stage_of)
    stages = _stages(graph, stage_of, explicit)
    _check_strategies(stages)
    if settings.changed_windows:
        _check_changed_windows(stages, settings)
    tasks = sum(stage.parallelism for stage in stages if stage.holds_state)
    return JobPlan(settings, stages, min(settings.inline_threshold, INLINE_BYTES_OF_ALL_TASKS // max(1, tasks)))


def _check_changed_windows(stages: Iterable[Stage], settings: PlanSettings) -> None:
    """Refuse settings of windows that are not there: a uid that is misspelled would do nothing."""
    specs = {operator.uid: operator.node.spec for stage in stages for operator in stage.operators}
    windows = {uid for uid, spec in specs.items() if path_of(spec) is not None or is_join(spec)}
    strange = settings.changed_windows.keys() - windows
    if strange:
        raise ConfigurationError(
            f"{options.CHANGED_WINDOWS.key} is about operators with uid {', '.join(sorted(strange))}, which are no "
            f"windows or joins of the program; it has {', '.join(sorted(windows)) or 'none'}"
        )


def _stages(graph: StreamGraph, stage_of: Mapping[int, int], explicit: Collection[int]) -> tuple[Stage, ...]:
    """The operators stage by stage, wired.

    Args:
        graph: the graph after all rewrites.
        stage_of: by node id, the stage.
        explicit: the ids of the nodes whose uid the user gave.
    """
    inputs: defaultdict[int, list[PlannedEdge]] = defaultdict(list)
    outputs: defaultdict[int, list[PlannedEdge]] = defaultdict(list)
    for edge in _planned_edges(graph, stage_of):
        inputs[edge.target].append(edge)
        outputs[edge.source].append(edge)
    stages: defaultdict[int, list[PlannedOperator]] = defaultdict(list)
    for node in graph:
        assert node.uid is not None, "planning begins with the uids"
        size, side_types = _size(node), {}
        for edge in outputs[node.id]:
            if edge.side_output is not None:
                side_types[edge.side_output] = edge.record_type
        objects = objects_of(node.spec.functions)
        functions = tuple(each for each in objects if isinstance(each, CheckpointedFunction))
        own_kinds = node.spec.state_kinds
        planned = PlannedOperator(
            node=node,
            uid=node.uid,
            has_explicit_uid=node.id in explicit,
            stage=stage_of[node.id],
            parallelism=size.parallelism,
            max_parallelism=size.max_parallelism,
            inputs=tuple(inputs[node.id]),
            outputs=tuple(outputs[node.id]),
            schemas=graph.input_schemas(node),
            objects=tuple(objects),
            checkpointed=functions,
            state_kinds=own_kinds | (WITHOUT_KEYS if functions else NO_STATE),
            renamed_fields=node.spec.renamed_in_state(node.renamed_fields),
            shares_broadcast_state=StateKind.BROADCAST in own_kinds,
            side_types=side_types,
        )
        stages[planned.stage].append(planned)
    return tuple(starmap(_stage, sorted(stages.items())))


def _stage(index: int, operators: Sequence[PlannedOperator]) -> Stage:
    parallelism = max(map(attrgetter("parallelism"), operators))
    holds_state = any(map(attrgetter("state_kinds"), operators))
    return Stage(index, parallelism, tuple(operators), tuple(forks_of(operators)), holds_state)


def _check_partitioned(graph: StreamGraph, stage_of: Mapping[int, int]) -> None:
    """Refuse to take records for partitioned by key before any shuffle has done that.

    Raises:
        InvalidProgramError: with the line that says so.
    """
    for node in graph:
        for edge in node.inputs:
            if isinstance(edge.partitioning, ForwardByKey) and not stage_of[edge.source]:
                raise InvalidProgramError(
                    f"{edge.partitioning.requested_by}: nothing has partitioned the records of operator "
                    f"{graph[edge.source].name!r} by any key, they are where their splits are read; call key_by(...) "
                    f"instead\n  at {edge.partitioning.call_site}"
                )


def _check_strategies(stages: Sequence[Stage]) -> None:
    """Behind a shuffle splits are unknown: no watermark strategy holds sources back there, nor finds silent ones.

    Raises:
        InvalidProgramError: naming the operator that is to align watermarks there.
    """
    for planned in chain.from_iterable(map(attrgetter("operators"), stages[1:])):
        spec = planned.node.spec
        if not isinstance(spec, TimestampsSpec):
            continue
        if spec.strategy.alignment is not None:
            raise InvalidProgramError(
                f"operator {planned.label}: watermarks can be aligned before the first shuffle only, where it is "
                f"known which split they come from: {_BEFORE}\n  at {planned.node.call_site}"
            )
        if spec.strategy.idle_timeout is not None:
            logger.warning(
                "operator %s: with_idleness() has no effect behind a shuffle, where it is not known which split is "
                "silent: %s (at %s)",
                planned.label,
                _BEFORE,
                planned.node.call_site,
            )


def _planned_edges(graph: StreamGraph, stage_of: Mapping[int, int]) -> Iterator[PlannedEdge]:
    numbers = count()
    for node in graph:
        for edge in node.inputs:
            yield PlannedEdge(
                id=next(numbers),
                source=edge.source,
                target=node.id,
                input_index=edge.input_index,
                side_output=edge.side_output,
                record_type=graph.record_type(edge),
                key=edge.key,
                is_exchange=stage_of[edge.source] != stage_of[node.id],
                partitioning=edge.partitioning,
                target_stage=stage_of[node.id],
                receivers=_size(node),
            )


def _size(node: Node) -> Receivers:
    assert node.parallelism is not None, "all operators were given theirs"
    assert node.max_parallelism is not None, "all operators were given theirs"
    return Receivers(node.parallelism, node.max_parallelism)
