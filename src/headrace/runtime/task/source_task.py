"""Stage 0: reads splits, assigns timestamps, runs what is chained to the sources, and fills the exchange."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import HeadraceError
from headrace.common.row import Row
from headrace.exchange.channel import ChannelStatus
from headrace.operators.timestamps import TimestampsOperator
from headrace.operators.user_code import user_error
from headrace.runtime.task.messages import ChannelReport, SplitAssignment, TaskReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.connectors.source import SourceRecords
    from headrace.exchange.sender import EdgeSender
    from headrace.plan.job_plan import PlannedOperator
    from headrace.runtime.task.messages import EpochContext
    from headrace.runtime.task.operator_chain import OperatorChain
    from headrace.runtime.task.outputs import ChainedOperator


class SourceTask:
    """One task of stage 0 in one epoch.

    Args:
        chain: the operators.
        context: the epoch.
    """

    def __init__(self, chain: OperatorChain, context: EpochContext) -> None:
        self._chain = chain
        self._context = context
        self._channels: list[ChannelReport] = []
        self._source_records: dict[int, int] = {}
        self._source_counters: dict[int, dict[str, int]] = {}
        self._paths = {node: _SourcePath(chain, node) for node in chain.sources}

    def run(self) -> Iterator[None]:
        """Work through the task's pieces; yields whenever the outbox may be emptied."""
        self._chain.begin_epoch(self._context, {})
        for assignment in self._context.assignments[self._chain.partition]:
            yield from self._read_assignment(assignment)
        self._chain.end_epoch(self._context)
        for senders in self._all_senders():
            senders.flush()
        self._chain.seal_summaries()

    def report(self) -> TaskReport:
        """Write the state and say what was done."""
        report = self._chain.report(self._context)
        return replace(
            report,
            channels=tuple(self._channels),
            counters={**report.counters, **self._source_counters},
            records={**report.records, **self._source_records},
        )

    def _read_assignment(self, assignment: SplitAssignment) -> Iterator[None]:
        path = self._paths[assignment.node]
        path.begin(assignment)
        for read in assignment.reads:
            for records in self._read(assignment.node, read):
                self._emit(assignment.node, records)
                yield
        self._chain.sources[assignment.node].advance_watermark(MAX_WATERMARK if assignment.ends else MIN_WATERMARK)
        self._channels.extend(path.end(assignment))
        yield

    def _emit(self, node: int, records: SourceRecords) -> None:
        planned = self._planned(node)
        output = self._chain.sources[node]
        count = len(records)
        if count:
            self._source_records[node] = self._source_records.get(node, 0) + count
            timestamps = records.timestamps
            if timestamps is None:
                timestamps = np.full(count, NO_TIMESTAMP, dtype=np.int64)
            watermarks = np.full(count, MIN_WATERMARK, dtype=np.int64)
            output.emit(Batch(planned.output_type, timestamps, watermarks, rows=records.rows, columns=records.columns))
        for name, amount in records.counters.items():
            counters = self._source_counters.setdefault(node, {})
            counters[name] = counters.get(name, 0) + amount
        if records.rejected:
            self._emit_rejected(planned, records.rejected)

    def _emit_rejected(self, planned: PlannedOperator, rejected: list[tuple[str, str, str]]) -> None:
        member_counters = self._source_records
        member_counters[planned.node.id] = member_counters.get(planned.node.id, 0) + len(rejected)
        ((tag_id, type_),) = planned.node.outputs.side_types.items()
        times = np.full(len(rejected), NO_TIMESTAMP, dtype=np.int64)
        rows: list[Any] = [Row(where=where, raw=raw, reason=reason) for where, raw, reason in rejected]
        self._chain.sources[planned.node.id].emit_side(tag_id, Batch(type_, times, times, rows=rows))

    def _read(self, node: int, piece: Any) -> Iterator[SourceRecords]:
        """The records of a piece; what its reader raises is told of the source, as a generator may be the user's."""
        reading: Iterator[SourceRecords] | None = None
        while True:
            try:
                reading = reading or iter(self._chain.reader(self._planned(node)).read(piece))
                records = next(reading, None)
            except (HeadraceError, OSError):
                raise
            except BaseException as error:
                raise user_error(error, self._chain._context_of(self._planned(node))) from error
            if records is None:
                return
            yield records

    def _planned(self, node: int) -> PlannedOperator:
        return next(op for op in self._chain.stage.operators if op.node.id == node)

    def _all_senders(self) -> Iterator[EdgeSender]:
        for senders in self._chain.source_senders.values():
            yield from senders
        for member in self._chain.members.values():
            yield from member.senders


class _SourcePath:
    """Everything of stage 0 that the records of one source can reach, in topological order."""

    def __init__(self, chain: OperatorChain, source: int) -> None:
        self._chain = chain
        self._source = source
        self._nodes: list[int] = []
        reached = {source}
        for planned in chain.stage.operators:
            if planned.node.id in chain.members and any(edge.source in reached for edge in planned.inputs):
                reached.add(planned.node.id)
                self._nodes.append(planned.node.id)
        self._reached = reached

    def begin(self, assignment: SplitAssignment) -> None:
        """What follows is this piece: set every watermark to where the piece starts."""
        outputs: dict[int, int] = {self._source: MIN_WATERMARK}
        self._chain.sources[self._source].watermark = MIN_WATERMARK
        for node in self._nodes:
            member = self._member(node)
            inputs = {edge.id: outputs[edge.source] for edge in member.planned.inputs if edge.source in self._reached}
            start = min(inputs.values())
            member.valve.begin(inputs, start)
            if isinstance(member.operator, TimestampsOperator):
                start = assignment.starts.get(node, MIN_WATERMARK)
            member.operator.begin_channel(start)
            member.output.watermark = outputs[node] = start
        for node, senders in self._senders():
            for sender in senders:
                sender.begin_channel(assignment.channel, assignment.piece, outputs[node])

    def end(self, assignment: SplitAssignment) -> Iterator[ChannelReport]:
        """The piece is over: close the channels and say how far it came."""
        for node, senders in self._senders():
            watermark = self._output_watermark(node)
            for sender in senders:
                sender.end_channel(watermark, self._status(node, assignment))
        for node in self._nodes:
            operator = self._member(node).operator
            if isinstance(operator, TimestampsOperator):
                yield ChannelReport(node, assignment.channel, operator.watermark, operator.saw_records)

    def _status(self, node: int, assignment: SplitAssignment) -> ChannelStatus:
        if assignment.ends:
            return ChannelStatus.FINISHED
        return ChannelStatus.IDLE if self._is_idle(node, assignment) else ChannelStatus.ACTIVE

    def _is_idle(self, node: int, assignment: SplitAssignment) -> bool:
        """Whether the nearest watermark-making operators before ``node`` are all idle."""
        if node == self._source:
            return False
        member = self._member(node)
        if isinstance(member.operator, TimestampsOperator):
            return node in assignment.idle
        return all(
            self._is_idle(edge.source, assignment) for edge in member.planned.inputs if edge.source in self._reached
        )

    def _senders(self) -> Iterator[tuple[int, list[EdgeSender]]]:
        yield self._source, self._chain.source_senders.get(self._source, [])
        for node in self._nodes:
            yield node, self._member(node).senders

    def _output_watermark(self, node: int) -> int:
        if node == self._source:
            return self._chain.sources[node].watermark
        return self._member(node).output.watermark

    def _member(self, node: int) -> ChainedOperator:
        return self._chain.members[node]
