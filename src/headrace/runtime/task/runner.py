"""The entry point of a task on every runtime: envelopes in, envelopes out."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.common.garbage import gc_relaxed
from headrace.exchange.envelope import Envelope, Kind
from headrace.runtime.task.chain_cache import ChainCache
from headrace.runtime.task.failures import REPORTED, TaskFailure
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
            attempt = _Attempt(self, 0)
            yield from attempt.run(_source_work(attempt, subtask, context))
            yield from attempt.reported()

    def run_stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        """One task of a later stage; what is for stages beyond passes through."""
        with gc_relaxed():
            attempt, rest = _Attempt(self, stage), iter(envelopes)
            yield from attempt.run(_stage_work(attempt, stage, rest))
            yield from (envelope for envelope in rest if envelope.stage != stage)  # some are left where it has failed
            yield from attempt.reported()

    def close(self) -> None:
        """Close every chain."""
        self._cache.close()

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

    def _report(self, partition: int, report: TaskReport) -> Envelope:
        payload = pickle.dumps(report, protocol=5)
        target = partition % self._parallelism[-1]
        return Envelope(self._stages, target, 0, 0, _CONTEXT_EDGE, partition, report.stage, Kind.REPORT, payload)


class _Attempt:
    """One run of a task in one epoch: it takes up a chain and keeps it when all went well; else the chain is dropped.

    Args:
        runner: the runner of the task's process.
        stage: the task's stage.
    """

    def __init__(self, runner: TaskRunner, stage: int) -> None:
        self._runner = runner
        self._stage = stage
        self._partition = 0
        self._context: EpochContext | None = None
        self._chain: OperatorChain | None = None
        self._report: TaskReport | None = None

    def open(self, partition: int, context: EpochContext, start: PartitionContext | None) -> OperatorChain:
        """Take up the chain that did the epoch before, or a new one."""
        self._partition, self._context = partition, context
        self._chain = self._runner._take(self._stage, partition, context, start)
        return self._chain

    def complete(self, report: TaskReport) -> None:
        """The work is done."""
        assert self._context is not None, "open() comes first"
        assert self._chain is not None, "open() comes first"
        self._runner._keep(self._stage, self._partition, self._context, self._chain)
        self._chain, self._report = None, report

    def give_up(self) -> None:
        """Another task has failed, which is what the driver will hear of."""
        self._drop()
        self._report = TaskReport(stage=self._stage, partition=self._partition)

    def run(self, work: Iterator[Envelope]) -> Iterator[Envelope]:
        """What the work gives; of a failure that is to be reported later stages are told at once.

        Args:
            work: opens the attempt, and completes it or gives it up.
        """
        try:
            yield from work
        except REPORTED as error:
            self._drop()
            failure = TaskFailure.of(error, self._runner.blob.state)
            self._report = TaskReport(stage=self._stage, partition=self._partition, error=failure)
            yield from self._runner._fail_later_stages(self._stage)
        except BaseException:
            self._drop()
            raise

    def reported(self) -> Iterator[Envelope]:
        """The report; nothing of a partition that Spark made but nobody addressed."""
        if self._report is not None:
            yield self._runner._report(self._partition, self._report)

    def _drop(self) -> None:
        if self._chain is not None:
            self._chain.drop()
            self._chain = None


def _source_work(attempt: _Attempt, subtask: int, context: EpochContext) -> Iterator[Envelope]:
    """What a task of stage 0 does."""
    chain = attempt.open(subtask, context, context.partitions.get((0, subtask)))
    task = SourceTask(chain, context)
    for _ in task.run():
        yield from _emptied(chain)
    yield from _emptied(chain)
    attempt.complete(task.report())


def _stage_work(attempt: _Attempt, stage: int, envelopes: Iterator[Envelope]) -> Iterator[Envelope]:
    """What a task of a later stage does; envelopes for stages beyond pass through."""
    chain: OperatorChain | None = None
    task: StageTask | None = None
    for envelope in envelopes:
        if envelope.stage != stage:
            yield envelope
        elif envelope.kind == Kind.FAILURE:
            attempt.give_up()
            return
        elif envelope.kind == Kind.CONTEXT:
            context = EpochContext.from_bytes(bytes(envelope.payload))
            chain = attempt.open(envelope.partition, context, context.partitions[stage, envelope.partition])
            task = StageTask(chain, context)
        elif task is None or chain is None:
            raise RuntimeError(f"stage {stage}: an envelope came before the context of its epoch")
        else:
            task.take(envelope)
            yield from _emptied(chain)
    if task is not None and chain is not None:
        task.end()
        yield from _emptied(chain)
        attempt.complete(task.report())


def _emptied(chain: OperatorChain) -> Iterator[Envelope]:
    """What waits in the outbox."""
    if chain.outbox:
        envelopes = chain.outbox[:]
        chain.outbox.clear()
        yield from envelopes
