"""Where the streams of a stage fork, and where the branches merge again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.graph.specs import TimestampsSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.plan.job_plan import PlannedEdge, PlannedOperator, Stage

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
        """Whether branches merge whose watermarks are made by different operators."""
        return any(len({self.watermarks_from[edge.id] for edge in edges}) > 1 for edges in self.merges)


def forks_of(stage: Stage) -> Iterator[PlannedFork]:
    """The forks of a stage."""
    for planned in stage.operators:
        if _may_fork(planned):
            for side_output in sorted({edge.side_output for edge in planned.outputs}, key=str):
                fork = _fork(stage, planned, side_output)
                if fork.merges:
                    yield fork


def _may_fork(planned: PlannedOperator) -> bool:
    return not planned.inputs or any(edge.is_exchange for edge in planned.inputs)


def _fork(stage: Stage, root: PlannedOperator, side_output: str | None) -> PlannedFork:
    found = {edge.id: frozenset({FORK}) for edge in root.outputs if edge.side_output == side_output}
    for planned in stage.operators:
        reached = [found[edge.id] for edge in planned.inputs if edge.id in found]
        if reached and not _may_fork(planned):
            makes_watermarks = isinstance(planned.node.spec, TimestampsSpec)
            made_by = frozenset({planned.node.id}) if makes_watermarks else frozenset().union(*reached)
            found |= {edge.id: made_by for edge in planned.outputs}
    return PlannedFork(root.node.id, side_output, found, tuple(_merges(stage, found)))


def _merges(stage: Stage, reached: Mapping[int, frozenset[int]]) -> Iterator[tuple[PlannedEdge, ...]]:
    """Within the chain and in front of a shuffle: wherever several edges lead into one operator."""
    for planned in stage.operators:
        yield from _several(edge for edge in planned.inputs if edge.id in reached and not edge.is_exchange)
    leaving: dict[int, list[PlannedEdge]] = {}
    for planned in stage.operators:
        for edge in planned.outputs:
            if edge.is_exchange and edge.id in reached:
                leaving.setdefault(edge.target, []).append(edge)
    for edges in leaving.values():
        yield from _several(edges)


def _several(edges: Iterable[PlannedEdge]) -> Iterator[tuple[PlannedEdge, ...]]:
    found = tuple(edges)
    if len(found) > 1:
        yield found
