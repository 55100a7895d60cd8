"""Where the streams of a stage branch, and where the branches meet again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.graph.specs import TimestampsSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.plan.job_plan import PlannedEdge, PlannedOperator, Stage

ROOT: Final = -1
"""Stands for the root of a branching among the makers of watermarks."""


@dataclass(frozen=True, slots=True)
class Branching:
    """Everything that records of one root reach within their task.

    A root is an output of an operator whose records set out anew: of a source, or of an operator behind a shuffle. From
    there on each record of a stage is made of one that set out.

    Attributes:
        node: node id of the root.
        side_output: which of its outputs; None for the main output.
        makers: by edge, what made its watermarks: the node ids of the nearest operators that make any, or ``ROOT``.
        meetings: the edges of each meeting, in topological order: several that lead into one operator.
    """

    node: int
    side_output: str | None
    makers: Mapping[int, frozenset[int]]
    meetings: tuple[tuple[PlannedEdge, ...], ...]

    @property
    def all_makers(self) -> frozenset[int]:
        """All that make watermarks behind the root."""
        return frozenset().union(*self.makers.values()) - {ROOT}

    @property
    def has_several_makers(self) -> bool:
        """Whether branches meet that differ in their watermarks."""
        return any(len({self.makers[edge.id] for edge in met}) > 1 for met in self.meetings)


def branchings(stage: Stage) -> Iterator[Branching]:
    """Those of a stage whose branches meet again."""
    for planned in stage.operators:
        if is_root(planned):
            for side_output in sorted({edge.side_output for edge in planned.outputs}, key=str):
                found = _branching(stage, planned, side_output)
                if found.meetings:
                    yield found


def is_root(planned: PlannedOperator) -> bool:
    """Whether what leaves an operator sets out anew."""
    return not planned.inputs or any(edge.is_exchange for edge in planned.inputs)


def _branching(stage: Stage, root: PlannedOperator, side_output: str | None) -> Branching:
    makers = {edge.id: frozenset({ROOT}) for edge in root.outputs if edge.side_output == side_output}
    for planned in stage.operators:
        reached = [makers[edge.id] for edge in planned.inputs if edge.id in makers]
        if reached and not is_root(planned):
            is_maker = isinstance(planned.node.spec, TimestampsSpec)
            made_by = frozenset({planned.node.id}) if is_maker else frozenset().union(*reached)
            makers |= {edge.id: made_by for edge in planned.outputs}
    return Branching(root.node.id, side_output, makers, tuple(_meetings(stage, makers)))


def _meetings(stage: Stage, makers: Mapping[int, frozenset[int]]) -> Iterator[tuple[PlannedEdge, ...]]:
    """Within the task and in front of a shuffle: wherever several inputs lead into one operator."""
    for planned in stage.operators:
        yield from _several(edge for edge in planned.inputs if edge.id in makers and not edge.is_exchange)
    leaving: dict[int, list[PlannedEdge]] = {}
    for planned in stage.operators:
        for edge in planned.outputs:
            if edge.is_exchange and edge.id in makers:
                leaving.setdefault(edge.target, []).append(edge)
    for edges in leaving.values():
        yield from _several(edges)


def _several(edges: Iterable[PlannedEdge]) -> Iterator[tuple[PlannedEdge, ...]]:
    found = tuple(edges)
    if len(found) > 1:
        yield found
