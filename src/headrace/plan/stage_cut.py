"""In which stage each operator runs: where records are shuffled.

Records are shuffled where they get a key, or another number of subtasks. And where outputs of several operators are
united behind a shuffle, they go through one more: it merges them by watermark, so that event time rises from record to
record over all of them together, as if they came one by one. (Flink does not chain such operators either.) What event
time does not matter for, most sinks say, does without. A sink that is told of watermarks is behind a shuffle in any
case, since before it every split has a watermark of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.graph.nodes import Edge, Node
    from headrace.graph.stream_graph import StreamGraph

Root = tuple[int, str | None]
"""An output: the id of its node, and the side output if it is one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator runs.

    Attributes:
        stage: how many shuffles are on the deepest path from a source to it.
        roots: the outputs within its stage that its records are made of; empty when they come from outside or through
            a shuffle, so that they set out from the operator itself.
    """

    stage: int
    roots: frozenset[Root]


def stages_of(graph: StreamGraph, *, is_batch: bool) -> dict[int, int]:
    """The stage of each operator, by node id.

    Args:
        graph: the graph, with the partitionings that follow from the numbers of subtasks.
        is_batch: in batch mode nothing is late, so no merging is needed.
    """
    timed = graph.needed_by(node.id for node in graph if not node.spec.ignores_event_time)

    def place(node: Node, places: Mapping[int, Place]) -> Place:
        producers = [places[edge.source].stage for edge in node.inputs]
        behind = zip(producers, node.inputs, strict=True)
        stage = max((number + edge.partitioning.redistributes for number, edge in behind), default=0)
        if node.spec.requires_aligned_watermark:
            stage = max(stage, 1)
        is_merging = bool(stage) and not is_batch and node.id in timed
        if is_merging and _ways(node, stage, places) > 1:
            stage = 1 + max(producers)
        is_first = any(number != stage for number in producers)
        roots = () if is_first else (_roots_behind(edge, places) for edge in node.inputs)
        return Place(stage, frozenset().union(*roots))

    return {node_id: found.stage for node_id, found in graph.annotate(place).items()}


def _ways(node: Node, stage: int, places: Mapping[int, Place]) -> int:
    """By how many ways that do not start from one batch records come within the task; all exchanges are one."""
    ways: set[Root | None] = set()
    for edge in node.inputs:
        ways |= _roots_behind(edge, places) if places[edge.source].stage == stage else {None}
    return len(ways)


def _roots_behind(edge: Edge, places: Mapping[int, Place]) -> frozenset[Root]:
    return places[edge.source].roots or frozenset({(edge.source, edge.side_output)})
