"""Rewrites of the logical graph, each a function from graph to graph; and what batch mode refuses and changes.

In batch mode event time stands still until the input has ended, and comes to its end then. So nothing is late, and what
windows show before their end would only be shown again.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError
from headrace.common.options import RuntimeExecutionMode
from headrace.connectors.source import Boundedness
from headrace.graph.partitioning import FORWARD
from headrace.graph.specs import SourceSpec
from headrace.graph.stream_graph import Edge, Node
from headrace.graph.window_specs import (
    AggregatedWindowSpec,
    ColumnarRegularSpec,
    GlobalWindowSpec,
    LocalWindowSpec,
    TriggeredWindowSpec,
)
from headrace.operators.window.columnar.local_aggregate import ACCUMULATORS_INPUT, ACCUMULATORS_TAG, RECORDS_INPUT
from headrace.plan.window_paths import columnar_spec
from headrace.windowing.assigners.time import ProcessingTimeAssigner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from headrace.graph.stream_graph import StreamGraph
    from headrace.windowing.definition import WindowDefinition


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


def with_columnar_windows(graph: StreamGraph) -> StreamGraph:
    """Have built-in aggregates computed column by column where the results are the same."""

    def pick(node: Node, _: StreamGraph) -> Iterator[Node]:
        spec = columnar_spec(node.spec) if isinstance(node.spec, AggregatedWindowSpec) else None
        yield node if spec is None else replace(node, spec=spec)

    return graph.transform(pick)


def with_two_phase_windows(graph: StreamGraph) -> StreamGraph:
    """Sum up before the shuffle what a window with built-in aggregates would sum up behind it.

    Only where there is one, and it changes nothing: without allowed lateness and without a side output for late
    records, which both want records as they came, and for aggregates that do not depend on the order of records.
    """

    def split(node: Node, made: StreamGraph) -> Iterator[Node]:
        spec = node.spec
        if isinstance(spec, ColumnarRegularSpec) and _can_be_split(spec, node, made):
            local = [_local_window(spec, node, number, made.new_id()) for number in range(len(node.inputs))]
            yield from local
            edges = zip(local, node.inputs, strict=True)
            inputs = tuple(edge for window, given in edges for edge in _edges_between(window, given))
            node = replace(node, spec=GlobalWindowSpec(spec), inputs=inputs)
        yield node

    return graph.transform(split)


def _can_be_split(spec: ColumnarRegularSpec, node: Node, made: StreamGraph) -> bool:
    (records,) = made.input_schemas(node)
    if not all(edge.partitioning.redistributes for edge in node.inputs):
        return False
    if spec.definition.late_tag is not None or spec.definition.allowed_lateness > 0:
        return False
    return not spec.layout(records).is_ordered


def _local_window(spec: ColumnarRegularSpec, node: Node, number: int, node_id: int) -> Node:
    return Node(
        id=node_id,
        spec=LocalWindowSpec(spec),
        name=f"Local {node.name}",
        inputs=(replace(node.inputs[number], partitioning=FORWARD),),
        uid=f"{node.uid}/local-{number}",
        call_site=node.call_site,
    )


def _edges_between(local: Node, given: Edge) -> Iterator[Edge]:
    """Raw records on one input, accumulators on the other; both by the key that the records have."""
    assert given.key is not None
    key = replace(given.key, is_attached=True)
    yield Edge(local.id, given.partitioning, None, RECORDS_INPUT, key)
    key = replace(key, only_routes=True)
    yield Edge(local.id, given.partitioning, ACCUMULATORS_TAG, ACCUMULATORS_INPUT, key)


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
        producers = [_subtasks(made[edge.source]) for edge in node.inputs]
        is_chained = bool(node.inputs) and not any(edge.partitioning.redistributes for edge in node.inputs)
        inherited = max(producers) if is_chained else parallelism
        subtasks = inherited if node.parallelism is None else node.parallelism
        groups = node.max_parallelism or max_parallelism
        if not 1 <= subtasks <= groups:
            raise InvalidProgramError(
                f"operator {node.name!r} ({node.call_site}) has parallelism {subtasks}; it must lie between 1 and "
                f"the max parallelism, {groups}"
            )
        _check_forward(node, producers, subtasks)
        edges = zip(node.inputs, producers, strict=True)
        receivers = node.parallelism if is_chained else subtasks
        inputs = tuple(_placed(edge, number, receivers) for edge, number in edges)
        yield replace(node, inputs=inputs, parallelism=subtasks, max_parallelism=groups)

    return graph.transform(place)


def _check_forward(node: Node, producers: Sequence[int], subtasks: int) -> None:
    """Refuse another number of subtasks where the program says that records stay with theirs."""
    for edge, number in zip(node.inputs, producers, strict=True):
        if edge.partitioning.keeps_parallelism and number != subtasks:
            raise InvalidProgramError(
                f"{edge.partitioning.asked_by} before operator {node.name!r} keeps records with their subtask, but "
                f"there are {number} before it and {subtasks} behind: give both the same parallelism, or leave it out\n"
                f"  at {node.call_site}"
            )


def _placed(edge: Edge, senders: int, receivers: int | None) -> Edge:
    partitioning = edge.partitioning.between(senders, receivers)
    return edge if partitioning is edge.partitioning else replace(edge, partitioning=partitioning)


def _subtasks(node: Node) -> int:
    assert node.parallelism is not None, "producers are placed first"
    return node.parallelism


def mode_of(graph: StreamGraph, mode: RuntimeExecutionMode) -> tuple[bool, str]:
    """Return whether a job runs in batch mode, and why, where the program leaves that open (else an empty text).

    Raises:
        InvalidProgramError: when it has to, and a source has no end.
    """
    endless = next((node for node in graph if isinstance(node.spec, SourceSpec) and not _ends(node.spec)), None)
    if mode is RuntimeExecutionMode.AUTOMATIC:
        reason = "all sources are bounded" if endless is None else f"source {endless.name!r} is unbounded"
        return endless is None, f"AUTOMATIC: {reason}"
    if mode is RuntimeExecutionMode.BATCH and endless is not None:
        raise InvalidProgramError(
            f"batch mode needs sources that end, but source {endless.name!r} ({endless.call_site}) is unbounded: use "
            "RuntimeExecutionMode.AUTOMATIC or STREAMING"
        )
    return mode is RuntimeExecutionMode.BATCH, ""


def _ends(spec: SourceSpec) -> bool:
    return spec.source.boundedness is Boundedness.BOUNDED


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
