"""The operators of one task with their functions opened, kept in the worker from epoch to epoch.

Keeping them is a saving, not a promise: a worker process may be another one in the next epoch, and a chain that did
not do exactly the epoch before, or not in the attempt that counts, is dropped and made anew. So fields of a user
function are not state.
"""

from __future__ import annotations

import logging
import pickle
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import StateMigrationError
from headrace.connectors.source import ReaderContext
from headrace.exchange.channel import SummaryBook
from headrace.exchange.sender import EdgeSender
from headrace.graph.specs import SourceSpec
from headrace.operators.base import EpochScope, OperatorContext
from headrace.operators.sink import SinkOperator
from headrace.runtime.task.forks import wire_forks
from headrace.runtime.task.messages import StateReport, TaskReport
from headrace.runtime.task.operator_table import OperatorMaker
from headrace.runtime.task.outputs import (
    BroadcastingOutput,
    ChainedOperator,
    ChainingOutput,
    ExchangeOutput,
    calling_key_function,
)
from headrace.runtime.task.watermark_valve import WatermarkValve
from headrace.state.backend import StateOwner
from headrace.state.kinds import StateKind

if TYPE_CHECKING:
    from headrace.connectors.source import SourceReader
    from headrace.exchange.envelope import Envelope
    from headrace.plan.job_plan import JobPlan, PlannedOperator
    from headrace.runtime.task.messages import EpochContext, JobBlob, PartitionContext
    from headrace.state.backend import OperatorStates, TaskStates

logger = logging.getLogger(__name__)


class OperatorChain:
    """All operators of one task, wired and opened.

    Args:
        blob: the job.
        job_id: the job's id.
        generation: that of the job manager.
        stage: the stage.
        partition: which task of the stage.
        start: what the task starts from; None for a stage 0 that holds no state.
    """

    def __init__(
        self, blob: JobBlob, job_id: str, generation: int, stage: int, partition: int, start: PartitionContext | None
    ) -> None:
        plan: JobPlan = pickle.loads(blob.plan)
        self.plan = plan
        self.stage = plan.stages[stage]
        self.partition = partition
        self.outbox: list[Envelope] = []
        self._summaries = SummaryBook(partition)
        self.state = None if start is None or not self.stage.holds_state else self._open_state(blob, start)
        self.members: dict[int, ChainedOperator] = {}
        self._storage_options = blob.storage_options
        maker = OperatorMaker(plan, job_id, generation, partition, blob.storage_options)
        for planned in self.stage.operators:
            if partition < planned.parallelism and planned.node.inputs:
                operator = maker.make(planned)
                self.members[planned.node.id] = ChainedOperator(
                    planned, operator, WatermarkValve(operator), BroadcastingOutput(self._context_of(planned))
                )
        self.sources = {
            op.node.id: BroadcastingOutput(self._context_of(op)) for op in self.stage.operators if not op.node.inputs
        }
        self._readers: dict[int, SourceReader] = {}
        self.source_senders: dict[int, list[EdgeSender]] = {}
        self._edges: dict[int, ChainingOutput | ExchangeOutput] = {}
        self._wire()
        outputs = {**self.sources, **{node: member.output for node, member in self.members.items()}}
        wire_forks(self.stage, self.members, outputs, self._edges)
        for member in self.members.values():
            self._open(member)

    def _open(self, member: ChainedOperator) -> None:
        context = self._context_of(member.planned)
        try:
            member.operator.open(context, member.output)
        except StateMigrationError as error:
            raise StateMigrationError(f"operator {context.name!r} (uid {context.uid}): {error}") from error

    def begin_epoch(self, context: EpochContext, watermarks: dict[int, int]) -> None:
        """Tell every operator what is fixed for the epoch; their state is what the epoch starts from."""
        if self.state is not None:
            for adoption in context.partitions[self.stage.index, self.partition].adoptions:
                self.state.adopt(adoption)
        for node, member in self.members.items():
            member.operator.counters.clear()
            member.valve.records = 0
            if member.operator.context.state is not None:
                watermark = watermarks.get(node, MIN_WATERMARK)
                member.operator.context.state.begin_epoch(watermark, context.processing_time)
        # Consumers first: a due timer emits at once, and what it emits belongs to the new epoch everywhere.
        for node, member in reversed(self.members.items()):
            scope = EpochScope(
                epoch=context.epoch,
                processing_time=context.processing_time,
                watermark=watermarks.get(node, MIN_WATERMARK),
                is_batch=self.plan.is_batch,
            )
            member.operator.begin_epoch(scope)

    def reader(self, source: PlannedOperator) -> SourceReader:
        """The reader of a source of stage 0."""
        node = source.node
        if node.id not in self._readers:
            assert isinstance(node.spec, SourceSpec)
            reader = node.spec.source.create_reader()
            reader.open(ReaderContext(self._storage_options))
            self._readers[node.id] = reader
        return self._readers[node.id]

    def end_epoch(self, context: EpochContext) -> None:
        """All records and watermarks of the epoch have come: end the input if it has ended, then the epoch."""
        if context.is_last:
            for member in self.members.values():
                member.operator.finish()
        for member in self.members.values():
            member.operator.end_epoch()

    def seal_summaries(self) -> None:
        """All channels have ended: what receivers have to know of them goes into the outbox."""
        self.outbox.extend(self._summaries.seal())

    def report(self, context: EpochContext) -> TaskReport:
        """Write the state, and say what all kinds of tasks have to say."""
        members = self.members.items()
        sinks = ((node, member.operator) for node, member in members if isinstance(member.operator, SinkOperator))
        return TaskReport(
            stage=self.stage.index,
            partition=self.partition,
            state=self._snapshot(context),
            committables={node: sink.committables for node, sink in sinks if sink.committables},
            counters={node: dict(member.operator.counters) for node, member in members},
            records={node: member.valve.records for node, member in members},
        )

    def _snapshot(self, context: EpochContext) -> StateReport:
        """End the epoch of all state, and write what has changed."""
        if self.state is None:
            return StateReport()
        kept = self._operator_states()
        for state in kept:
            state.end_epoch()
        version = self.state.snapshot(context.epoch, context.generation, self.plan.inline_bytes)
        timers = [time for state in kept if (time := state.earliest_processing_time()) is not None]
        return StateReport(version, min(timers, default=None), self.state.size_in_bytes())

    def _operator_states(self) -> list[OperatorStates]:
        """The state of each operator that has some."""
        contexts = (member.operator.context for member in self.members.values())
        return [context.state for context in contexts if context.state is not None]

    def stands_at(self, start: PartitionContext | None) -> bool:
        """Whether what it holds in memory is what an epoch starts from."""
        if start is None or self.state is None or not self._operator_states():
            return True
        return start.versions == (self.state.ref,)

    def abort(self) -> None:
        """The epoch failed: sinks let go of what they opened."""
        for member in self.members.values():
            if isinstance(member.operator, SinkOperator):
                member.operator.abort()

    def close(self) -> None:
        """End of the chain's life: functions, readers and state are closed, also when one of them raises."""
        with ExitStack() as stack:
            for reader in self._readers.values():
                stack.callback(reader.close)
            if self.state is not None:
                stack.callback(self.state.close)
            for member in reversed(self.members.values()):
                stack.callback(member.operator.close)

    def drop(self) -> None:
        """It is of no use any more; what its functions raise in ``close`` must not hide why."""
        try:
            try:
                self.abort()
            finally:
                self.close()
        except Exception:
            logger.warning("closing the functions of a task that was given up failed", exc_info=True)

    def _open_state(self, blob: JobBlob, start: PartitionContext) -> TaskStates:
        return self.plan.state_backend.open(
            blob.state,
            start.versions,
            self.stage.index,
            self.partition,
            {
                planned.uid: StateOwner(
                    planned.parallelism, planned.max_parallelism, planned.state_kinds, start.dealt.get(planned.uid)
                )
                for planned in self.stage.operators
            },
        )

    def _wire(self) -> None:
        for planned in self.stage.operators:
            if planned.node.id in self.members:
                member = self.members[planned.node.id]
                self._wire_outputs(planned, member.output, member.senders)
            elif not planned.node.inputs:
                senders = self.source_senders.setdefault(planned.node.id, [])
                self._wire_outputs(planned, self.sources[planned.node.id], senders)

    def _wire_outputs(self, planned: PlannedOperator, output: BroadcastingOutput, senders: list[EdgeSender]) -> None:
        for edge in planned.outputs:
            context = self._context_of(planned)
            if edge.is_exchange:
                guard = partial(calling_key_function, context)
                sender = EdgeSender(edge, self.outbox.append, self._summaries, guard)
                senders.append(sender)
                self._edges[edge.id] = ExchangeOutput(sender)
            elif edge.target in self.members:
                self._edges[edge.id] = ChainingOutput(self.members[edge.target].valve, edge, context)
            else:
                continue
            output.add(edge.side_output, self._edges[edge.id])

    def _context_of(self, planned: PlannedOperator) -> OperatorContext:
        state = None
        if self.state is not None and planned.state_kinds:
            state = self.state.operator(planned.uid)
        if state is not None and StateKind.KEYED in planned.state_kinds:
            state.bind_key_codec(planned.key.codec)
        return OperatorContext(
            name=planned.node.name,
            uid=planned.uid,
            subtask=self.partition,
            parallelism=planned.parallelism,
            max_parallelism=planned.max_parallelism,
            call_site=planned.node.call_site,
            state=state,
            job_parameters=self.plan.parameters,
        )
