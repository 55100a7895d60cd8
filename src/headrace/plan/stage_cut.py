"""In which stage each operator runs: where records are shuffled.

Records are shuffled where they get a key, or another number of subtasks. And where outputs of several operators are
united behind a shuffle, they go through one more: it merges them by watermark, so that event time rises from record to
record over all of them together, as if they came one by one. (Flink does not chain such operators either.) What event
time does not matter for, a sink say, does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.graph.nodes import Edge, Node
    from headrace.graph.partitioning import Partitioning
    from headrace.graph.stream_graph import StreamGraph

    Root = tuple[int, str | None]


class StageCut:
    """Cuts a graph into stages, operator by operator, producers before consumers.

    Args:
        graph: the graph.
        parallelism: by node id, the number of subtasks; of all operators that were added.
        is_batch: in batch mode nothing is late, so no merging is needed.
    """

    def __init__(self, graph: StreamGraph, parallelism: Mapping[int, int], *, is_batch: bool) -> None:
        self.depth: dict[int, int] = {}
        self._parallelism = parallelism
        self._is_merging = not is_batch
        self._timeless = _timeless(graph)
        self._roots: dict[int, frozenset[Root]] = {}

    def add(self, node: Node) -> None:
        """The next operator."""
        depth = max((self._depth_behind(node, edge) for edge in node.inputs), default=0)
        if depth and self._has_to_merge(node, depth):
            depth = 1 + max(self.depth[edge.source] for edge in node.inputs)
        self.depth[node.id] = depth
        self._roots[node.id] = self._roots_of(node)

    def partitioning(self, node: Node, edge: Edge) -> Partitioning:
        """How the records of an edge are spread, with the numbers of subtasks that there are."""
        return edge.partitioning.between(self._parallelism[edge.source], node.parallelism)

    def _depth_behind(self, node: Node, edge: Edge) -> int:
        return self.depth[edge.source] + self.partitioning(node, edge).redistributes

    def _has_to_merge(self, node: Node, depth: int) -> bool:
        """Whether records come by several ways within the task that do not start from one batch."""
        if not self._is_merging or node.id in self._timeless:
            return False
        ways: set[Root | None] = set()
        for edge in node.inputs:
            ways |= self._roots_behind(edge) if self.depth[edge.source] == depth else {None}
        return len(ways) > 1

    def _roots_of(self, node: Node) -> frozenset[Root]:
        """Where the records set out that an operator makes its own of; empty when from the operator itself."""
        if any(self.depth[edge.source] != self.depth[node.id] for edge in node.inputs):
            return frozenset()
        return frozenset().union(*(self._roots_behind(edge) for edge in node.inputs))

    def _roots_behind(self, edge: Edge) -> frozenset[Root]:
        return self._roots[edge.source] or frozenset({(edge.source, edge.side_output)})


def _timeless(graph: StreamGraph) -> frozenset[int]:
    """The operators for which event time does not matter, nor for anything behind them."""
    found: set[int] = set()
    for node in reversed(list(graph)):
        if node.spec.is_timeless and all(consumer.id in found for consumer, _ in graph.consumers(node.id)):
            found.add(node.id)
    return frozenset(found)
