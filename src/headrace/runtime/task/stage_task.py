"""Every later stage: takes envelopes in order, drives the operators, writes their state."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headrace.exchange.channel import ChannelStatus, summaries_of
from headrace.exchange.envelope import Kind
from headrace.exchange.receiver import ExchangeReceiver
from headrace.runtime.task.messages import PartitionContext
from headrace.runtime.task.watermark_valve import EXCHANGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.exchange.envelope import Envelope
    from headrace.plan.job_plan import PlannedEdge
    from headrace.runtime.task.messages import EpochContext, TaskReport
    from headrace.runtime.task.operator_chain import ChainedOperator, OperatorChain


class StageTask:
    """One task of a later stage in one epoch.

    Args:
        chain: the operators.
        context: the epoch, as far as this task is concerned.
    """

    def __init__(self, chain: OperatorChain, context: EpochContext) -> None:
        self._chain = chain
        self._context = context
        self._start = context.partitions.get((chain.stage.index, chain.partition), PartitionContext())
        self._receivers: dict[int, ExchangeReceiver] = {}
        self._of_edge: dict[int, ExchangeReceiver] = {}
        self._has_begun = False
        for node, member in chain.members.items():
            edges = [edge for edge in member.planned.inputs if edge.is_exchange]
            if edges:
                receiver = self._receivers[node] = self._receiver(node, member, edges)
                self._of_edge.update((edge.id, receiver) for edge in edges)

    def _receiver(self, node: int, member: ChainedOperator, edges: Sequence[PlannedEdge]) -> ExchangeReceiver:
        deliver = partial(member.valve.accept, EXCHANGE)
        is_stalled = node in self._context.stalled
        return ExchangeReceiver(edges, self._start.watermark_of(node), deliver, is_stalled=is_stalled)

    def take(self, envelope: Envelope) -> None:
        """Records; or, before the first of these, how channels fare."""
        if envelope.kind == Kind.SUMMARY:
            for summary in summaries_of(envelope.payload):
                self._of_edge[summary.edge].summary(summary)
        else:
            self._begin()
            self._of_edge[envelope.edge].data(envelope)

    def end(self) -> None:
        """No more envelopes: bring every operator to the end of the epoch."""
        self._begin()
        for node, member in self._chain.members.items():
            if node in self._receivers:
                member.valve.advance(EXCHANGE, self._receivers[node].end())
        self._chain.end_epoch(self._context)
        for node, member in self._chain.members.items():
            for sender in member.senders:
                sender.end_channel(member.output.watermark, self._status_of(node))
        self._chain.seal_summaries()

    def report(self) -> TaskReport:
        """Write the state and say what was done."""
        members = self._chain.members
        return replace(
            self._chain.report(self._context),
            watermarks={node: member.valve.watermark for node, member in members.items()},
            outputs={node: member.output.watermark for node, member in members.items()},
            generators={
                node: state
                for node, member in members.items()
                if (times := member.timestamps) is not None and (state := times.generator_state()) is not None
            },
        )

    def _begin(self) -> None:
        """Set every valve to where the last epoch ended, then start the operators (due timers fire)."""
        if self._has_begun:
            return
        self._has_begun = True
        chain, start = self._chain, self._start
        watermarks: dict[int, int] = {}
        for node, member in chain.members.items():
            reached, output = start.watermark_of(node), start.output_of(node)
            watermarks[node] = start.event_time_of(member.planned.node)
            member.valve.begin(self._inputs(member, reached), reached, watermarks[node])
            if (timestamps := member.timestamps) is not None:
                watermarks[node] = output
                timestamps.restore_generator(start.generators.get(node))
            member.output.watermark = output
            for sender in member.senders:
                sender.begin_channel(chain.partition, 0, output, self._context.epoch)
        chain.begin_epoch(self._context, watermarks)

    def _inputs(self, member: ChainedOperator, reached: int) -> dict[int, int]:
        """The operator's inputs that are not idle, each with what it has reached; all of them when all are idle.

        A chained producer of lower parallelism is not in every task; where it is missing it has no say.
        """
        inputs: dict[int, int] = {}
        active: dict[int, int] = {}
        for edge in member.planned.inputs:
            if edge.is_exchange:
                key, watermark = EXCHANGE, reached
                status = self._receivers[member.planned.node.id].status
            elif edge.source not in self._chain.members:
                continue
            else:
                key, watermark = edge.id, self._start.output_of(edge.source)
                status = self._status_of(edge.source)
            inputs[key] = watermark
            if status is not ChannelStatus.IDLE:
                active[key] = watermark
        return active or inputs

    def _status_of(self, node: int) -> ChannelStatus:
        """Finished when all inputs are; idle when nothing but idle and finished inputs is left."""
        member = self._chain.members[node]
        chained = (edge.source for edge in member.planned.inputs if not edge.is_exchange)
        states = {self._status_of(source) for source in chained if source in self._chain.members}
        if node in self._receivers:
            states.add(self._receivers[node].status)
        if states == {ChannelStatus.FINISHED}:
            return ChannelStatus.FINISHED
        if ChannelStatus.ACTIVE in states or member.timestamps is not None:
            return ChannelStatus.ACTIVE
        return ChannelStatus.IDLE
