"""Every later stage: takes envelopes in order, drives the operators, writes their state."""

from dataclasses import replace
from functools import partial

from headrace.exchange.envelope import ChannelStatus, Envelope, EnvelopeKind, summaries_of
from headrace.exchange.receiver import ExchangeReceiver
from headrace.runtime.task.messages import EpochContext, PartitionContext, TaskReport
from headrace.runtime.task.operator_chain import ChainedOperator, OperatorChain
from headrace.runtime.task.watermark_valve import EXCHANGE


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
        self._statuses: dict[int, ChannelStatus] = {}
        self._has_begun = False
        for node, member in chain.members.items():
            edges = [edge for edge in member.planned.inputs if edge.is_exchange]
            if edges:
                deliver, is_stalled = partial(member.valve.accept, EXCHANGE), node in context.stalled
                receiver = ExchangeReceiver(edges, self._start.watermark_of(node), deliver, is_stalled=is_stalled)
                self._receivers[node] = receiver
                self._of_edge.update(dict.fromkeys([edge.id for edge in edges], receiver))

    def take(self, envelope: Envelope) -> None:
        """Records; or, before the first of these, how channels fare."""
        if envelope.kind == EnvelopeKind.SUMMARY:
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
                sender.end_channel(member.output.watermark, self._statuses[node])
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
            member.valve.begin(self._inputs(node, member, reached), reached, watermarks[node])
            if (timestamps := member.timestamps) is not None:
                watermarks[node] = output
                timestamps.restore_generator(start.generators.get(node))
            member.output.watermark = output
            for sender in member.senders:
                sender.begin_channel(chain.partition, 0, output, self._context.epoch)
        chain.begin_epoch(self._context, watermarks)

    def _inputs(self, node: int, member: ChainedOperator, reached: int) -> dict[int, int]:
        """The operator's inputs that are not idle, each with what it has reached; all of them when all are idle.

        A chained producer of lower parallelism is not in every task; where it is missing it has no say. The operator is
        finished when all inputs are, and idle when nothing but idle and finished inputs is left.
        """
        inputs: dict[int, int] = {}
        active: dict[int, int] = {}
        statuses: set[ChannelStatus] = set()
        for edge in member.planned.inputs:
            if edge.is_exchange:
                key, watermark, status = EXCHANGE, reached, self._receivers[node].status
            elif edge.source not in self._statuses:
                continue
            else:
                key, watermark, status = edge.id, self._start.output_of(edge.source), self._statuses[edge.source]
            inputs[key] = watermark
            statuses.add(status)
            if status is not ChannelStatus.IDLE:
                active[key] = watermark
        if statuses == {ChannelStatus.FINISHED}:
            self._statuses[node] = ChannelStatus.FINISHED
        else:
            is_active = ChannelStatus.ACTIVE in statuses or member.timestamps is not None
            self._statuses[node] = ChannelStatus.ACTIVE if is_active else ChannelStatus.IDLE
        return active or inputs
