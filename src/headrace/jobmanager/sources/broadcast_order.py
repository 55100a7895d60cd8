"""Batch mode: what meets broadcast state is read when all that this state is made of has been read, as in Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.graph.process_specs import BroadcastProcessSpec
from headrace.operators.broadcast.broadcast_operator import BROADCAST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from headrace.jobmanager.sources.coordinator import SourceCoordinator
    from headrace.plan.job_plan import JobPlan, PlannedOperator


class BroadcastOrder:
    """Holds back the sources of records until those of the streams that are broadcast to them have ended.

    Args:
        plan: the job; outside batch mode nothing waits.
        sources: its sources.
    """

    def __init__(self, plan: JobPlan, sources: Sequence[SourceCoordinator]) -> None:
        self._sources = sources
        self._waits_for = sources_to_wait_for(plan) if plan.settings.is_batch else {}

    def held_back(self) -> frozenset[int]:
        """The channels of the splits that are not to be read yet."""
        if not self._waits_for:
            return frozenset()
        going_on = {source.planned.node.id for source in self._sources if _may_bring_more(source)}
        return frozenset(
            split.channel
            for source in self._sources
            if self._waits_for.get(source.planned.node.id, frozenset()) & going_on
            for split in source.unfinished()
        )


def _may_bring_more(source: SourceCoordinator) -> bool:
    return not source.is_complete() or any(source.unfinished())


def sources_to_wait_for(plan: JobPlan) -> Mapping[int, Set[int]]:
    """By node id of a source, the sources that have to end before it is read; none where that would go in a circle."""
    waits_for: dict[int, set[int]] = {}
    for records, broadcast in _met(plan):
        for source in records:
            waits_for.setdefault(source, set()).update(broadcast)
    return {
        source: frozenset(other for other in others if other != source and source not in _behind(other, waits_for))
        for source, others in waits_for.items()
    }


def _met(plan: JobPlan) -> Iterator[tuple[Set[int], Set[int]]]:
    """Of each operator with broadcast state, the sources of its records, and those of its state."""
    origins: dict[int, frozenset[int]] = {}
    for operator in plan.operators():
        own = frozenset() if operator.inputs else frozenset({operator.node.id})
        origins[operator.node.id] = own.union(*(origins[edge.source] for edge in operator.inputs))
        if isinstance(operator.node.spec, BroadcastProcessSpec):
            yield _of_input(operator, origins, is_broadcast=False), _of_input(operator, origins, is_broadcast=True)


def _of_input(operator: PlannedOperator, origins: Mapping[int, Set[int]], *, is_broadcast: bool) -> Set[int]:
    edges = (edge for edge in operator.inputs if (edge.input_index == BROADCAST) is is_broadcast)
    return frozenset().union(*(origins[edge.source] for edge in edges))


def _behind(source: int, waits_for: Mapping[int, Set[int]]) -> Set[int]:
    """All sources that one waits for, directly or through others."""
    found: set[int] = set()
    ahead = [source]
    while ahead:
        new = waits_for.get(ahead.pop(), set()) - found
        found |= new
        ahead.extend(new)
    return found
