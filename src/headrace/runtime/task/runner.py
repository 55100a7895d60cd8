"""The entry point of a task on every runtime: envelopes in, envelopes out."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.common.garbage import gc_relaxed
from headrace.exchange.envelope import Envelope, Kind
from headrace.runtime.task.chain_cache import ChainCache
from headrace.runtime.task.failures import REPORTED, describe
from headrace.runtime.task.messages import EpochContext, JobBlob, PartitionContext, TaskReport, hands_on
from headrace.runtime.task.operator_chain import OperatorChain
from headrace.runtime.task.source_task import SourceTask
from headrace.runtime.task.stage_task import StageTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.plan.job_plan import JobPlan

_CONTEXT_EDGE = -1


class TaskRunner:
    """Runs the tasks of one job in one process, and keeps their chains from epoch to epoch.

    Args:
        blob: the job.
    """

    def __init__(self, blob: JobBlob) -> None:
        self.blob = blob
        self._cache = ChainCache()
        plan: JobPlan = pickle.loads(blob.plan)
        self._stages = len(plan.stages)
        self._parallelism = [stage.parallelism for stage in plan.stages]
        self._fresh = plan.fresh_instances

    def run_source_task(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        """One task of stage 0, which also hands its share of the later tasks what they start from.

        Args:
            subtask: which task.
            context: the epoch; what is meant for other tasks of stage 0 may be left out.
        """
        with gc_relaxed():
            yield from self._contexts(subtask, context)
            yield from self._source_task(subtask, context)

    def run_stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        """One task of a later stage; what is for stages beyond passes through."""
        with gc_relaxed():
            yield from self._stage_task(stage, envelopes)

    def close(self) -> None:
        """Close every chain."""
        self._cache.close()

    def _source_task(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        chain: OperatorChain | None = None
        try:
            chain = self._take(0, subtask, context, context.partitions.get((0, subtask)))
            task = SourceTask(chain, context)
            for _ in task.run():
                yield from _emptied(chain)
            yield from _emptied(chain)
            report = task.report()
            self._keep(0, subtask, context, chain)
        except REPORTED as error:
            report = self._failed(0, subtask, chain, error)
            yield from self._fail_later_stages(0)
        except BaseException:
            if chain is not None:
                chain.drop()
            raise
        yield self._report(subtask, report)

    def _stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        running = _RunningStage(self, stage)
        try:
            for envelope in envelopes:
                if envelope.stage != stage:
                    yield envelope
                else:
                    yield from running.take(envelope)
            yield from running.end()
        except BaseException:
            running.drop()
            raise

    def _fail_later_stages(self, stage: int) -> Iterator[Envelope]:
        """Tell every later task, before any record, that the epoch has failed: its input is not whole."""
        for later in range(stage + 1, self._stages):
            for partition in range(self._parallelism[later]):
                yield Envelope(later, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 1, 0, Kind.FAILURE, b"")

    def _contexts(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        for stage, partition in context.partitions:
            if stage and hands_on(partition, self._parallelism[0]) == subtask:
                payload = context.for_partition(stage, partition).to_bytes()
                yield Envelope(stage, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 0, 0, Kind.CONTEXT, payload)

    def _take(self, stage: int, partition: int, context: EpochContext, start: PartitionContext | None) -> OperatorChain:
        """The chain that did the epoch before, or a new one."""
        kept = self._cache.take((stage, partition), context, start)
        return kept or OperatorChain(self.blob, context.job_id, context.generation, stage, partition, start)

    def _keep(self, stage: int, partition: int, context: EpochContext, chain: OperatorChain) -> None:
        if context.is_last or self._fresh:
            chain.close()
        else:
            self._cache.keep((stage, partition), context, chain)

    def _failed(self, stage: int, partition: int, chain: OperatorChain | None, error: BaseException) -> TaskReport:
        if chain is not None:
            chain.outbox.clear()
            chain.drop()
        return TaskReport(stage=stage, partition=partition, error=describe(error, self.blob.state))

    def _report(self, partition: int, report: TaskReport) -> Envelope:
        payload = pickle.dumps(report, protocol=5)
        target = partition % self._parallelism[-1]
        return Envelope(self._stages, target, 0, 0, _CONTEXT_EDGE, partition, report.stage, Kind.REPORT, payload)


class _RunningStage:
    """A task of a later stage from its first envelope to its last."""

    def __init__(self, runner: TaskRunner, stage: int) -> None:
        self._runner = runner
        self._stage = stage
        self._context: EpochContext | None = None
        self._partition = 0
        self._chain: OperatorChain | None = None
        self._task: StageTask | None = None
        self._report: TaskReport | None = None

    def take(self, envelope: Envelope) -> Iterator[Envelope]:
        """Handle one envelope."""
        if self._report is not None:
            return  # failed already: the rest of the input cannot matter any more
        try:
            if envelope.kind == Kind.CONTEXT:
                self._start(envelope)
            elif envelope.kind == Kind.FAILURE:
                self._give_up()
            elif self._task is None:
                raise RuntimeError(f"stage {self._stage}: an envelope came before the context of its epoch")
            elif envelope.kind == Kind.SUMMARY:
                self._task.summary(envelope)
            else:
                self._task.data(envelope)
        except REPORTED as error:
            yield from self._fail(error)
        if self._chain is not None:
            yield from _emptied(self._chain)

    def end(self) -> Iterator[Envelope]:
        """The input is over."""
        if self._context is None:
            return  # a partition that Spark made but nobody addressed
        if self._report is None:
            assert self._task is not None
            assert self._chain is not None
            try:
                self._task.end()
                yield from _emptied(self._chain)
                self._report = self._task.report()
                self._runner._keep(self._stage, self._partition, self._context, self._chain)
            except REPORTED as error:
                yield from self._fail(error)
        assert self._report is not None
        yield self._runner._report(self._partition, self._report)

    def _start(self, envelope: Envelope) -> None:
        self._context = EpochContext.from_bytes(bytes(envelope.payload))
        self._partition = envelope.partition
        start = self._context.partitions[self._stage, self._partition]
        self._chain = self._runner._take(self._stage, self._partition, self._context, start)
        self._task = StageTask(self._chain, self._context)

    def _give_up(self) -> None:
        """Another task has failed, which is what the driver will hear of."""
        self.drop()
        self._report = TaskReport(stage=self._stage, partition=self._partition)

    def drop(self) -> None:
        """The task cannot go on."""
        if self._report is None and self._chain is not None:
            self._chain.drop()
            self._chain = None

    def _fail(self, error: BaseException) -> Iterator[Envelope]:
        self._report = self._runner._failed(self._stage, self._partition, self._chain, error)
        self._chain = None
        return self._runner._fail_later_stages(self._stage)


def _emptied(chain: OperatorChain) -> Iterator[Envelope]:
    """What waits in the outbox."""
    if chain.outbox:
        envelopes = chain.outbox[:]
        chain.outbox.clear()
        yield from envelopes
