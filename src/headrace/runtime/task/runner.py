"""The tasks of an epoch on every runtime: envelopes in, envelopes out; chains are kept from epoch to epoch.

Those of stage 0 read splits, assign timestamps, run what is chained to the sources, and fill the exchange. Those of
every later stage take envelopes in order, drive the operators, and write their state.
"""

import ctypes
import gc
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import chain as one_after_another
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.checkpoint.manifest import OperatorProgress
from headrace.common.batch import Batch
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import HeadraceError
from headrace.common.logs import note_epoch
from headrace.connectors.source import SourceRecords
from headrace.exchange.envelope import ChannelStatus, Envelope, EnvelopeKind, summaries_of
from headrace.exchange.receiver import ExchangeReceiver
from headrace.metrics.registry import RECORDS_IN_ERRORS
from headrace.operators.user_code import EpochCancelledError, name_source, user_error
from headrace.runtime.task.messages import (
    REPORTED,
    ChannelReport,
    EpochContext,
    PartitionContext,
    SerializedJob,
    SplitAssignment,
    TaskFailure,
    TaskReport,
    hands_on,
)
from headrace.runtime.task.operator_chain import ChainCache, ChainedOperator, ChainedSource, ChainNode, OperatorChain
from headrace.runtime.task.outputs import EXCHANGE
from headrace.runtime.task.task_clock import TaskClock, TaskTimes, ignore
from headrace.storage.folder import Folder

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""The numbers of parameters in ``malloc.h`` of glibc."""

_KEPT_BYTES: Final = 128 << 20
_LARGEST_KEPT: Final = 32 << 20
"""The most that every glibc accepts."""

_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


@cache
def keep_freed_memory() -> None:
    """Have freed memory kept for the next batch, which needs arrays of the same sizes.

    glibc gives it back to the system at once, and every page is mapped and zeroed again when it is next written to,
    which is up to a seventh of the CPU time of a job. Nothing happens without glibc, or if the environment decides.
    """
    is_set = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or not os.environ.keys().isdisjoint(_VARIABLES)
    if sys.platform != "linux" or is_set:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)


_TASK_THRESHOLD: Final = 2_500_000
"""New objects between two collections while a task runs; bounds what user functions leave behind in cycles."""


class _Threshold:
    """The collector's threshold, which is raised while at least one task runs; tasks may overlap in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._before: tuple[int, int, int] = (0, 0, 0)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Lets the collector run only once for every few million new objects; for as long as a task runs."""
        with self._lock:
            self._tasks += 1
            if self._tasks == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < _TASK_THRESHOLD:  # zero: the user has switched it off
                    gc.set_threshold(_TASK_THRESHOLD, *self._before[1:])
        try:
            yield
        finally:
            with self._lock:
                self._tasks -= 1
                if self._tasks == 0:
                    gc.set_threshold(*self._before)


gc_relaxed: Final = _Threshold().raised


_MANY: Final = 4096
"""Fewer times are written faster than numpy finds that one stands for all."""


def _records(source: ChainedSource, read: Any) -> Iterator[SourceRecords]:
    """Return what the reader gives; its errors name the source, as a generator may be the user's."""
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
        source.count(name, amount)
    if count:
        type_, timestamps = source.planned.node.type_of(None), records.timestamps
        if timestamps is None:
            timestamps = _repeated(NO_TIMESTAMP, count)
        watermarks = _repeated(MIN_WATERMARK, count)
        rows, columns = records.rows, records.columns
        source.output.emit(Batch(type_, timestamps, watermarks, rows=rows, columns=columns, kinds=records.kinds))
    if records.rejected:
        _emit_rejected(source, records.rejected)


def _repeated(time: int, count: int) -> npt.NDArray[np.int64]:
    """The same time for all records; of many it is not written, since the next operator replaces it as a rule."""
    return np.full(count, time) if count < _MANY else np.broadcast_to(np.int64(time), count)


def _emit_rejected(source: ChainedSource, rejected: list[tuple[str, str, str]]) -> None:
    ((tag_id, type_),) = source.planned.node.outputs.side_types.items()
    times = np.full(len(rejected), NO_TIMESTAMP, dtype=np.int64)
    source.count(RECORDS_IN_ERRORS, len(rejected))
    source.output.emit_side(tag_id, Batch(type_, times, times, rows=list(rejected)))


class _SourcePath:
    """The operators that records of one source can reach within the stage.

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
        """Begin a piece: set every watermark to where the piece starts."""
        self._source.output.watermark = MIN_WATERMARK
        for node, member in self._members.items():
            inputs = {edge: self._reached[source].output.watermark for edge, source in self._inputs[node].items()}
            start = min(inputs.values())
            member.valve.begin(inputs, start, MIN_WATERMARK)
            if (timestamps := member.timestamps) is not None:
                start = assignment.starts.get(member.planned.uid, MIN_WATERMARK)
                timestamps.restore_generator(assignment.generators.get(member.planned.uid))
            member.operator.begin_channel(start)
            member.output.watermark = start
        for chained in self._reached.values():
            for sender in chained.senders:
                sender.begin_channel(assignment.channel, assignment.piece, chained.output.watermark, epoch)

    def end(self, assignment: SplitAssignment) -> Iterator[ChannelReport]:
        """The piece is over: close the channels and return how far it came."""
        idle: set[int] = set()  # the operators that make watermarks; others when all are that they read from
        for node, member in self._members.items():
            if member.timestamps is not None:
                is_idle = member.planned.uid in assignment.idle
            else:
                is_idle = idle.issuperset(self._inputs[node].values())
            if is_idle:
                idle.add(node)
        for node, chained in self._reached.items():
            status = ChannelStatus.IDLE if node in idle else ChannelStatus.ACTIVE
            for sender in chained.senders:
                sender.end_channel(chained.output.watermark, ChannelStatus.FINISHED if assignment.ends else status)
        for member in self._members.values():
            if (timestamps := member.timestamps) is not None:
                yield ChannelReport(
                    member.planned.uid,
                    assignment.channel,
                    timestamps.watermark,
                    timestamps.saw_records,
                    timestamps.generator_state(),
                    timestamps.event_time,
                )


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
        self._received: dict[int, ChainedOperator] = {}  # by edge, who gets its records
        self._has_begun = False
        for node, member in chain.members.items():
            if edges := list(filter(attrgetter("is_exchange"), member.planned.inputs)):
                uid, deliver = member.planned.uid, partial(member.valve.accept, EXCHANGE)
                watermark, is_stalled = self._start.reached(uid).watermark, uid in context.stalled
                receiver = ExchangeReceiver(edges, watermark, deliver, is_stalled=is_stalled)
                self._receivers[node] = receiver
                for edge in edges:
                    self._of_edge[edge.id], self._received[edge.id] = receiver, member

    def take(self, envelope: Envelope) -> None:
        """Records; or, before the first of these, how channels fare."""
        if envelope.kind == EnvelopeKind.SUMMARY:
            for summary in summaries_of(envelope.payload):
                self._of_edge[summary.edge].summary(summary)
        else:
            self._begin()
            member = self._received[envelope.edge]
            member.bytes_received += len(envelope.payload)
            before = self._chain.clock.switch(member.planned.uid)
            self._of_edge[envelope.edge].data(envelope)
            self._chain.clock.switch(before)

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
        """Write the state and return the report."""
        progress: dict[str, OperatorProgress] = {}
        for member in self._chain.members.values():
            generator = None if member.timestamps is None else member.timestamps.generator_state()
            reached = OperatorProgress(member.valve.watermark, member.output.watermark, generator)
            progress[member.planned.uid] = reached
        return self._chain.report(self._context, progress=progress)

    def _begin(self) -> None:
        """Set every valve to where the last epoch ended, then start the operators (due timers fire)."""
        if self._has_begun:
            return
        self._has_begun = True
        chain, start = self._chain, self._start
        watermarks: dict[int, int] = {}
        for node, member in chain.members.items():
            reached = start.reached(member.planned.uid)
            watermarks[node] = start.event_time_of(member.planned)
            member.valve.begin(self._inputs(node, member, reached.watermark), reached.watermark, watermarks[node])
            if (timestamps := member.timestamps) is not None:
                watermarks[node] = reached.output
                timestamps.restore_generator(reached.generator)
            member.output.watermark = reached.output
            for sender in member.senders:
                sender.begin_channel(chain.partition, 0, reached.output, self._context.epoch)
        chain.begin_epoch(self._context, watermarks)

    def _inputs(self, node: int, member: ChainedOperator, reached: int) -> dict[int, int]:
        """The operator's inputs that are not idle, each with what it has reached; all of them when all are idle.

        A chained producer of lower parallelism is not in every task; where it is missing it does not count. The
        operator is finished when all inputs are, and idle when nothing but idle and finished inputs is left.
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
                producer = self._chain.members[edge.source].planned.uid
                key, watermark, status = edge.id, self._start.reached(producer).output, self._statuses[edge.source]
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


_CONTEXT_EDGE = -1


class TaskRunner:
    """Runs the tasks of one job in one process, and keeps their chains from epoch to epoch.

    Args:
        blob: the job.

    Attributes:
        blob: as above.
        on_times: is called with where the time of each task went.
    """

    def __init__(self, blob: SerializedJob) -> None:
        self.blob = blob
        self.on_times: Callable[[TaskTimes], None] = ignore
        self._clock = TaskClock()
        self._state = blob.state
        self._parallelism = blob.parallelism
        self._cache = ChainCache(blob, self._clock)
        keep_freed_memory()

    def run_source_task(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        """One task of stage 0, which also hands its share of the later tasks what they start from.

        Args:
            subtask: which task.
            context: the epoch; what is meant for other tasks of stage 0 may be left out.
        """
        attempt = _Attempt(self._cache, self._state, 0)
        work = attempt.run(_source_work(attempt, subtask, context))
        yield from self._run(attempt, self._contexts(subtask, context), work)

    def run_stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        """One task of a later stage; what is for stages beyond passes through."""
        attempt, rest = _Attempt(self._cache, self._state, stage), self._clock.received(envelopes)
        work = attempt.run(_stage_work(attempt, stage, rest))
        left = (envelope for envelope in rest if envelope.stage != stage)  # some are where it has failed
        yield from self._run(attempt, work, left)

    def _run(self, attempt: "_Attempt", *parts: Iterator[Envelope]) -> Iterator[Envelope]:
        """Yield what a task sends, then its report, and publish where its time went if it succeeded."""
        with gc_relaxed():
            self._clock.begin()
            yield from self._clock.sent(one_after_another(*parts, self._results(attempt)))
            report, context = attempt.report, attempt.context
            if report is not None and report.error is None and context is not None:
                self.on_times(self._clock.end(context.epoch, report.stage, report.partition))

    def drop_interrupted(self) -> None:
        """Close the chains of tasks that were interrupted, which do not do so themselves."""
        self._cache.drop_taken()

    def close(self) -> None:
        """Close every chain."""
        self._cache.close()

    def _contexts(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        for stage, partition in context.partitions:
            if stage and hands_on(partition, self._parallelism[0]) == subtask:
                start = context.partitions[stage, partition]
                own = replace(context, assignments={}, partitions={(stage, partition): start})
                payload = pickle.dumps(own, protocol=5)
                yield Envelope(stage, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 0, 0, EnvelopeKind.CONTEXT, payload)

    def _results(self, attempt: "_Attempt") -> Iterator[Envelope]:
        """The report to the driver; a failure is also sent to every later task, before any record."""
        report = attempt.report
        if report is None:  # Spark has made a partition without envelopes
            return
        if report.error is not None:
            for later in range(report.stage + 1, len(self._parallelism)):
                for partition in range(self._parallelism[later]):
                    yield Envelope(later, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 1, 0, EnvelopeKind.FAILURE, b"")
        driver, target = len(self._parallelism), report.partition % self._parallelism[-1]
        payload = pickle.dumps(report, protocol=5)
        yield Envelope(
            driver, target, 0, 0, _CONTEXT_EDGE, report.partition, report.stage, EnvelopeKind.REPORT, payload
        )


class _Attempt:
    """One run of a task in one epoch: its chain goes back when all went well, else it is dropped.

    Args:
        chains: those of the process.
        state: where the state files are.
        stage: the task's stage.

    Attributes:
        context: the epoch; None before it is opened.
        report: the report to the driver; None until then.
    """

    def __init__(self, chains: ChainCache, state: Folder, stage: int) -> None:
        self._chains = chains
        self._state = state
        self._stage = stage
        self._partition = 0
        self._chain: OperatorChain | None = None
        self.context: EpochContext | None = None
        self.report: TaskReport | None = None

    def open(self, partition: int, context: EpochContext) -> OperatorChain:
        """The chain that the work is done with."""
        self._partition, self.context = partition, context
        note_epoch(context.job_id, context.epoch)
        self._chain = self._chains.take(self._stage, partition, context)
        self._chain.open()
        return self._chain

    def complete(self, report: TaskReport) -> None:
        """All went well: the chain goes back, and the driver receives ``report``."""
        assert self.context is not None, "open() comes first"
        assert self._chain is not None, "open() comes first"
        self._chains.put_back(self._chain, self.context)
        self._chain, self.report = None, report

    def give_up(self) -> None:
        """Another task has failed, and the driver receives that failure."""
        self._drop()
        self.report = TaskReport(stage=self._stage, partition=self._partition)

    def run(self, work: Iterator[Envelope]) -> Iterator[Envelope]:
        """Return what the work gives; a failure that is to be reported ends it.

        Args:
            work: opens the attempt, and completes it or gives it up.
        """
        try:
            yield from work
        except REPORTED as error:
            self._drop()
            failure = TaskFailure.of(error, self._state)
            self.report = TaskReport(stage=self._stage, partition=self._partition, error=failure)
        except EpochCancelledError:
            raise  # the next interruption may come while functions are being closed: that waits until none can
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._chain is not None:
            self._chains.drop(self._chain)
            self._chain = None


def _source_work(attempt: _Attempt, subtask: int, context: EpochContext) -> Iterator[Envelope]:
    """Return what a task of stage 0 sends: its share of the splits is read."""
    chain, channels = attempt.open(subtask, context), list[ChannelReport]()
    paths = {uid: _SourcePath(source, chain.members) for uid, source in chain.sources.items()}
    chain.begin_epoch(context, {})
    for assignment in context.assignments[subtask]:
        source, path = chain.sources[assignment.source], paths[assignment.source]
        before = chain.clock.switch(assignment.source)
        path.begin(assignment, context.epoch)
        for read in assignment.reads:
            for records in _records(source, read):
                _emit(source, records)
                yield from chain.drain()
        source.output.advance_watermark(MAX_WATERMARK if assignment.ends else MIN_WATERMARK)
        channels.extend(path.end(assignment))
        chain.clock.switch(before)
        yield from chain.drain()
    chain.end_epoch(context)
    for chained in (*chain.sources.values(), *chain.members.values()):
        for sender in chained.senders:
            sender.flush()
    chain.seal_summaries()
    yield from chain.drain()
    attempt.complete(chain.report(context, channels=tuple(channels)))


def _stage_work(attempt: _Attempt, stage: int, envelopes: Iterator[Envelope]) -> Iterator[Envelope]:
    """Return what a task of a later stage sends: it is given envelopes; those for stages beyond pass through."""
    chain: OperatorChain | None = None
    task: StageTask | None = None
    for envelope in envelopes:
        if envelope.stage != stage:
            yield envelope
        elif envelope.kind == EnvelopeKind.FAILURE:
            attempt.give_up()
            return
        elif envelope.kind == EnvelopeKind.CONTEXT:
            context: EpochContext = pickle.loads(envelope.payload)
            chain = attempt.open(envelope.partition, context)
            task = StageTask(chain, context)
        elif task is None or chain is None:
            raise RuntimeError(f"stage {stage}: an envelope came before the context of its epoch")
        else:
            task.take(envelope)
            yield from chain.drain()
    if task is not None and chain is not None:
        task.end()
        yield from chain.drain()
        attempt.complete(task.report())
