"""Joins the branches of a task that meet again, so that they know of one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.exchange.merging import merged
from headrace.operators.timestamps import TimestampsOperator
from headrace.runtime.task.branching import ROOT, branchings
from headrace.runtime.task.rounds import Meeting, Round, Trace, ordinals_of, slowest_at
from headrace.runtime.task.watermark_valve import ValveMeeting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from headrace.common.batch import Batch
    from headrace.plan.job_plan import PlannedEdge, Stage
    from headrace.runtime.task.branching import Branching
    from headrace.runtime.task.outputs import BroadcastingOutput, ChainedOperator, ExchangeOutput


@dataclass(slots=True)
class ExchangeMeeting(Meeting):
    """Branches that meet behind a shuffle.

    The receiver merges edges by watermark, so what all branches had reached is in the stamps already when records are
    sent. And edges that send alike are as one, so that records keep the order in which they set out.

    Attributes:
        targets: the ends of the branches, each with the one that sends for it.
        traces: what makes the watermarks of the records.
    """

    targets: Mapping[ExchangeOutput, ExchangeOutput]
    traces: Collection[Trace]
    _waiting: dict[ExchangeOutput, list[Batch]] = field(default_factory=dict)

    def open(self) -> None:
        self._waiting.clear()
        for target in self.targets:
            target.meeting = self

    def wait(self, target: ExchangeOutput, batch: Batch) -> None:
        self._waiting.setdefault(self.targets[target], []).append(target.sender.prepared(batch))

    def close(self) -> None:
        for target in self.targets:
            target.meeting = None
        for target, batches in self._waiting.items():
            met = [batch.with_watermarks(slowest_at(self.traces, batch)) for batch in batches]
            for _, batch in merged({target.sender.edge.id: met}, ordinals_of):
                target.sender.send_prepared(batch)


def send_alike(one: PlannedEdge, other: PlannedEdge) -> bool:
    """Whether it makes no difference by which of two edges into one operator a record goes."""
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


def join_branches(
    stage: Stage,
    members: Mapping[int, ChainedOperator],
    sources: Mapping[int, BroadcastingOutput],
    exchanged: Mapping[int, ExchangeOutput],
) -> None:
    """Let the branches of each branching know of one another, as far as they are in this task.

    Args:
        stage: the stage.
        members: by node id, the operators of the task.
        sources: by node id, what stands behind its sources.
        exchanged: by edge, where it enters the exchange.
    """
    outputs = {**sources, **{node: member.output for node, member in members.items()}}
    for branching in branchings(stage):
        if branching.node in outputs:
            _Joining(branching, members, outputs, exchanged).join()


@dataclass(frozen=True, slots=True)
class _Joining:
    branching: Branching
    members: Mapping[int, ChainedOperator]
    outputs: Mapping[int, BroadcastingOutput]
    exchanged: Mapping[int, ExchangeOutput]

    def join(self) -> None:
        root = self.outputs[self.branching.node]
        own = Trace(lambda: root.watermark)
        makers = {node: self._trace_of(node) for node in self.branching.all_makers & self.members.keys()}
        meetings = list(self._meetings({ROOT: own, **makers}))
        root.rounds[self.branching.side_output] = Round(own, tuple(makers.values()), meetings)

    def _meetings(self, traces: Mapping[int, Trace]) -> Iterator[Meeting]:
        for met in self.branching.meetings:
            edges = [edge for edge in met if self._is_here(edge)]
            makers = {edge.id: self.branching.makers[edge.id].intersection(traces) for edge in edges}
            if len(edges) < 2:
                continue
            if not edges[0].is_exchange:
                of_edges = {edge: [traces[maker] for maker in found] for edge, found in makers.items()}
                yield ValveMeeting(self.members[edges[0].target].valve, of_edges)
            elif len(ends := self._ends(edges)) > len(set(ends.values())) or len(set(makers.values())) > 1:
                yield ExchangeMeeting(ends, [traces[maker] for maker in frozenset().union(*makers.values())])

    def _ends(self, edges: Sequence[PlannedEdge]) -> dict[ExchangeOutput, ExchangeOutput]:
        """Where each edge enters the exchange, and where one does that sends for it."""
        senders = {edge.id: next(first for first in edges if send_alike(first, edge)) for edge in edges}
        return {self.exchanged[edge.id]: self.exchanged[senders[edge.id].id] for edge in edges}

    def _is_here(self, edge: PlannedEdge) -> bool:
        """A producer of lower parallelism is not in every task."""
        return edge.id in self.exchanged if edge.is_exchange else edge.source in self.outputs

    def _trace_of(self, node: int) -> Trace:
        """That of an operator that makes watermarks."""
        member = self.members[node]
        operator = member.operator
        assert isinstance(operator, TimestampsOperator)
        if member.output.trace is None:
            member.output.trace = Trace(lambda: operator.watermark)
        return member.output.trace
