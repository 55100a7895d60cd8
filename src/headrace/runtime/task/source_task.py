"""Stage 0: reads splits, assigns timestamps, runs what is chained to the sources, and fills the exchange."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import HeadraceError
from headrace.connectors.source import SourceRecords
from headrace.exchange.envelope import ChannelStatus
from headrace.operators.user_code import name_source, user_error
from headrace.runtime.task.messages import ChannelReport, EpochContext, SplitAssignment, TaskReport
from headrace.runtime.task.operator_chain import ChainedOperator, ChainedSource, ChainNode, OperatorChain

_MANY: Final = 4096
"""Fewer times are written sooner than numpy has said that one stands for all."""


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
        self._paths = {node: _SourcePath(source, chain.members) for node, source in chain.sources.items()}

    def run(self) -> Iterator[None]:
        """Work through the task's pieces; yields whenever envelopes may be taken from the chain."""
        chain = self._chain
        chain.begin_epoch(self._context, {})
        for assignment in self._context.assignments[chain.partition]:
            yield from self._read_assignment(assignment)
        chain.end_epoch(self._context)
        for chained in (*chain.sources.values(), *chain.members.values()):
            for sender in chained.senders:
                sender.flush()
        chain.seal_summaries()

    def report(self) -> TaskReport:
        """Write the state and say what was done."""
        return replace(self._chain.report(self._context), channels=tuple(self._channels))

    def _read_assignment(self, assignment: SplitAssignment) -> Iterator[None]:
        source, path = self._chain.sources[assignment.node], self._paths[assignment.node]
        path.begin(assignment, self._context.epoch)
        for read in assignment.reads:
            for records in _records(source, read):
                _emit(source, records)
                yield
        source.output.advance_watermark(MAX_WATERMARK if assignment.ends else MIN_WATERMARK)
        self._channels.extend(path.end(assignment))
        yield


def _records(source: ChainedSource, read: Any) -> Iterator[SourceRecords]:
    """What the reader gives; what it raises is told of the source, as a generator may be the user's."""
    reading: Iterator[SourceRecords] | None = None
    while True:
        try:
            reading = reading or iter(source.reader().read(read))
            records = next(reading, None)
        except HeadraceError as error:
            name_source(error, source.context.name, source.context.call_site)
            raise
        except OSError:
            raise
        except BaseException as error:
            raise user_error(error, source.context) from error
        if records is None:
            return
        yield records


def _emit(source: ChainedSource, records: SourceRecords) -> None:
    count = len(records)
    source.records += count + len(records.rejected)
    for name, amount in records.counters.items():
        source.counters[name] = source.counters.get(name, 0) + amount
    if count:
        type_, timestamps = source.planned.output_type, records.timestamps
        if timestamps is None:
            timestamps = _repeated(NO_TIMESTAMP, count)
        watermarks = _repeated(MIN_WATERMARK, count)
        source.output.emit(Batch(type_, timestamps, watermarks, rows=records.rows, columns=records.columns))
    if records.rejected:
        _emit_rejected(source, records.rejected)


def _repeated(time: int, count: int) -> npt.NDArray[np.int64]:
    """The same time for all records; of many it is not written, since the next operator replaces it as a rule."""
    return np.full(count, time) if count < _MANY else np.broadcast_to(np.int64(time), count)


def _emit_rejected(source: ChainedSource, rejected: list[tuple[str, str, str]]) -> None:
    ((tag_id, type_),) = source.planned.node.outputs.side_types.items()
    times = np.full(len(rejected), NO_TIMESTAMP, dtype=np.int64)
    source.output.emit_side(tag_id, Batch(type_, times, times, rows=list(rejected)))


class _SourcePath:
    """What the records of one source can reach within the stage.

    Args:
        source: the source.
        members: the operators of the task, in topological order.
    """

    def __init__(self, source: ChainedSource, members: Mapping[int, ChainedOperator]) -> None:
        self._source = source
        self._reached: dict[int, ChainNode] = {source.planned.node.id: source}
        self._members: dict[int, ChainedOperator] = {}
        self._inputs: dict[int, dict[int, int]] = {}  # by operator and edge that the records can come by, the producer
        for node, member in members.items():
            inputs = {edge.id: edge.source for edge in member.planned.inputs if edge.source in self._reached}
            if inputs:
                self._reached[node] = self._members[node] = member
                self._inputs[node] = inputs

    def begin(self, assignment: SplitAssignment, epoch: int) -> None:
        """What follows is this piece: set every watermark to where the piece starts."""
        self._source.output.watermark = MIN_WATERMARK
        for node, member in self._members.items():
            inputs = {edge: self._reached[source].output.watermark for edge, source in self._inputs[node].items()}
            start = min(inputs.values())
            member.valve.begin(inputs, start, MIN_WATERMARK)
            if (timestamps := member.timestamps) is not None:
                start = assignment.starts.get(node, MIN_WATERMARK)
                timestamps.restore_generator(assignment.generators.get(node))
            member.operator.begin_channel(start)
            member.output.watermark = start
        for chained in self._reached.values():
            for sender in chained.senders:
                sender.begin_channel(assignment.channel, assignment.piece, chained.output.watermark, epoch)

    def end(self, assignment: SplitAssignment) -> Iterator[ChannelReport]:
        """The piece is over: close the channels and say how far it came."""
        idle = set(assignment.idle)  # the operators that make watermarks; others when all are that they read from
        for node, member in self._members.items():
            if member.timestamps is None and idle.issuperset(self._inputs[node].values()):
                idle.add(node)
        for node, chained in self._reached.items():
            status = ChannelStatus.IDLE if node in idle else ChannelStatus.ACTIVE
            for sender in chained.senders:
                sender.end_channel(chained.output.watermark, ChannelStatus.FINISHED if assignment.ends else status)
        for node, member in self._members.items():
            if (timestamps := member.timestamps) is not None:
                yield ChannelReport(
                    node,
                    assignment.channel,
                    timestamps.watermark,
                    timestamps.saw_records,
                    timestamps.generator_state(),
                    timestamps.event_time,
                )
