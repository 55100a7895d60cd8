"""Every later stage: takes envelopes in order, drives the operators, writes their state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.exchange.channel import ChannelStatus, summaries_of
from headrace.exchange.receiver import ExchangeReceiver
from headrace.operators.timestamps import TimestampsOperator
from headrace.runtime.task.inputs import EXCHANGE
from headrace.runtime.task.messages import PartitionContext, TaskReport
from headrace.runtime.task.source_task import committables_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.batch import Batch
    from headrace.exchange.envelope import Envelope
    from headrace.plan.job_plan import PlannedEdge
    from headrace.runtime.task.instance import StageInstance
    from headrace.runtime.task.messages import EpochContext
    from headrace.runtime.task.wiring import Member


class StageTask:
    """One task of a later stage in one epoch.

    Args:
        instance: the operators.
        context: the epoch, as far as this task is concerned.
    """

    def __init__(self, instance: StageInstance, context: EpochContext) -> None:
        self._instance = instance
        self._context = context
        self._start = context.partitions.get((instance.stage.index, instance.partition), PartitionContext())
        self._receivers: dict[int, ExchangeReceiver] = {}
        self._of_edge: dict[int, ExchangeReceiver] = {}
        self._has_begun = False
        for node, member in instance.members.items():
            self._add_receiver(node, member)

    def summary(self, envelope: Envelope) -> None:
        """How channels fare; all of these come before the first record."""
        for summary in summaries_of(envelope.payload):
            self._of_edge[summary.edge].summary(summary)

    def data(self, envelope: Envelope) -> None:
        """Records."""
        self._begin()
        self._of_edge[envelope.edge].data(envelope)

    def end(self) -> None:
        """No more envelopes: bring every operator to the end of the epoch."""
        self._begin()
        for node, member in self._instance.members.items():
            if node in self._receivers:
                final, _ = self._receivers[node].end()
                member.gate.advance(EXCHANGE, final)
        members = self._instance.members
        for member in members.values():
            if self._context.is_last:
                member.operator.finish()
        for member in members.values():
            member.operator.end_epoch()
        for node, member in members.items():
            for sender in member.senders:
                sender.end_channel(member.fanout.watermark, self._status_of(node))
        self._instance.seal_summaries()

    def report(self) -> TaskReport:
        """Write the state and say what was done."""
        instance = self._instance
        return TaskReport(
            stage=instance.stage.index,
            partition=instance.partition,
            state=instance.snapshot(self._context),
            watermarks={node: member.gate.watermark for node, member in instance.members.items()},
            outputs={node: member.fanout.watermark for node, member in instance.members.items()},
            committables=committables_of(instance.members),
            counters={node: dict(member.operator.counters) for node, member in instance.members.items()},
            records={node: member.gate.records for node, member in instance.members.items()},
        )

    def _add_receiver(self, node: int, member: Member) -> None:
        edges = [edge for edge in member.planned.inputs if edge.is_exchange]
        if not edges:
            return
        receiver = ExchangeReceiver(
            edges,
            self._start.watermarks.get(node, MIN_WATERMARK),
            self._deliverer(member),
            is_stalled=node in self._context.stalled,
        )
        self._receivers[node] = receiver
        for edge in edges:
            self._of_edge[edge.id] = receiver

    def _deliverer(self, member: Member) -> Callable[[PlannedEdge, Batch], None]:
        return partial(member.gate.accept, EXCHANGE)

    def _begin(self) -> None:
        """Set every gate to where the last epoch ended, then start the operators (due timers fire)."""
        if self._has_begun:
            return
        self._has_begun = True
        for node, member in self._instance.members.items():
            reached = self._start.watermarks.get(node, MIN_WATERMARK)
            member.gate.begin(self._inputs(member, reached), reached)
            output = self._start.outputs.get(node, MIN_WATERMARK)
            member.fanout.watermark = output
            for sender in member.senders:
                sender.begin_channel(self._instance.partition, 0, output)
        members = self._instance.members
        makers = {node for node, member in members.items() if isinstance(member.operator, TimestampsOperator)}
        watermarks = {
            node: (self._start.outputs if node in makers else self._start.watermarks).get(node, MIN_WATERMARK)
            for node in self._instance.members
        }
        self._instance.begin_epoch(self._context, watermarks)

    def _inputs(self, member: Member, reached: int) -> dict[int, int]:
        """The operator's inputs that are not idle, each with what it has reached; all of them when all are idle.

        A chained producer of lower parallelism is not in every task; where it is missing it has no say.
        """
        inputs: dict[int, int] = {}
        active: dict[int, int] = {}
        for edge in member.planned.inputs:
            if edge.is_exchange:
                key, watermark = EXCHANGE, reached
                status = self._receivers[member.planned.node.id].status
            elif edge.source not in self._instance.members:
                continue
            else:
                key, watermark = edge.id, self._start.outputs.get(edge.source, MIN_WATERMARK)
                status = self._status_of(edge.source)
            inputs[key] = watermark
            if status is not ChannelStatus.IDLE:
                active[key] = watermark
        return active or inputs

    def _status_of(self, node: int) -> ChannelStatus:
        """Finished when all inputs are; idle when nothing but idle and finished inputs is left."""
        member = self._instance.members[node]
        chained = (edge.source for edge in member.planned.inputs if not edge.is_exchange)
        states = {self._status_of(source) for source in chained if source in self._instance.members}
        if node in self._receivers:
            states.add(self._receivers[node].status)
        if states == {ChannelStatus.FINISHED}:
            return ChannelStatus.FINISHED
        if ChannelStatus.ACTIVE in states or isinstance(member.operator, TimestampsOperator):
            return ChannelStatus.ACTIVE
        return ChannelStatus.IDLE
