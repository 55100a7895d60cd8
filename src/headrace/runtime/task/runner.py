"""The entry point of a task on every runtime: envelopes in, envelopes out."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from headrace.common.constants import MIN_WATERMARK
from headrace.common.garbage import gc_relaxed
from headrace.common.logs import note_epoch
from headrace.exchange.envelope import Envelope, Kind
from headrace.operators.interruption import EpochCancelledError
from headrace.runtime.task.chain_cache import ChainCache
from headrace.runtime.task.failures import REPORTED, TaskFailure
from headrace.runtime.task.messages import EpochContext, SerializedJob, TaskReport, hands_on
from headrace.runtime.task.source_task import SourceTask
from headrace.runtime.task.stage_task import StageTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.plan.job_plan import JobPlan
    from headrace.runtime.task.operator_chain import OperatorChain
    from headrace.storage.folder import Folder

_CONTEXT_EDGE = -1


class TaskRunner:
    """Runs the tasks of one job in one process, and keeps their chains from epoch to epoch.

    Args:
        blob: the job.

    Attributes:
        blob: as above.
        job: the job's name.
    """

    def __init__(self, blob: SerializedJob) -> None:
        self.blob = blob
        plan: JobPlan = pickle.loads(blob.plan)
        self.job = plan.name
        self._parallelism = [stage.parallelism for stage in plan.stages]
        self._cache = ChainCache(blob, keeps=not plan.settings.fresh_instances)

    def run_source_task(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        """One task of stage 0, which also hands its share of the later tasks what they start from.

        Args:
            subtask: which task.
            context: the epoch; what is meant for other tasks of stage 0 may be left out.
        """
        with gc_relaxed():
            yield from self._contexts(subtask, context)
            attempt = _Attempt(self._cache, self.blob.state, 0)
            yield from attempt.run(_source_work(attempt, subtask, context))
            yield from self._results(attempt)

    def run_stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        """One task of a later stage; what is for stages beyond passes through."""
        with gc_relaxed():
            attempt, rest = _Attempt(self._cache, self.blob.state, stage), iter(envelopes)
            yield from attempt.run(_stage_work(attempt, stage, rest))
            yield from (envelope for envelope in rest if envelope.stage != stage)  # some are left where it has failed
            yield from self._results(attempt)

    def drop_interrupted(self) -> None:
        """Close the chains of tasks that were interrupted, which do not do so themselves."""
        self._cache.drop_taken()

    def close(self) -> None:
        """Close every chain."""
        self._cache.close()

    def _contexts(self, subtask: int, context: EpochContext) -> Iterator[Envelope]:
        for stage, partition in context.partitions:
            if stage and hands_on(partition, self._parallelism[0]) == subtask:
                payload = context.for_partition(stage, partition).to_bytes()
                yield Envelope(stage, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 0, 0, Kind.CONTEXT, payload)

    def _results(self, attempt: _Attempt) -> Iterator[Envelope]:
        """The report, to the driver; and of a failure every later task is told, before any record."""
        report = attempt.report
        if report is None:  # Spark has made a partition that nobody addressed
            return
        if report.error is not None:
            for later in range(report.stage + 1, len(self._parallelism)):
                for partition in range(self._parallelism[later]):
                    yield Envelope(later, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 1, 0, Kind.FAILURE, b"")
        driver, target = len(self._parallelism), report.partition % self._parallelism[-1]
        payload = pickle.dumps(report, protocol=5)
        yield Envelope(driver, target, 0, 0, _CONTEXT_EDGE, report.partition, report.stage, Kind.REPORT, payload)


class _Attempt:
    """One run of a task in one epoch: its chain goes back when all went well, else it is dropped.

    Args:
        chains: those of the process.
        state: where the state files are.
        stage: the task's stage.

    Attributes:
        report: what the driver is to be told; None until then.
    """

    def __init__(self, chains: ChainCache, state: Folder, stage: int) -> None:
        self._chains = chains
        self._state = state
        self._stage = stage
        self._partition = 0
        self._context: EpochContext | None = None
        self._chain: OperatorChain | None = None
        self.report: TaskReport | None = None

    def open(self, partition: int, context: EpochContext) -> OperatorChain:
        """The chain that the work is done with."""
        self._partition, self._context = partition, context
        note_epoch(context.job_id, context.epoch)
        self._chain = self._chains.take(self._stage, partition, context)
        self._chain.open()
        return self._chain

    def complete(self, report: TaskReport) -> None:
        """All went well: the chain goes back, and the driver is told ``report``."""
        assert self._context is not None, "open() comes first"
        assert self._chain is not None, "open() comes first"
        self._chains.put_back(self._chain, self._context)
        self._chain, self.report = None, report

    def give_up(self) -> None:
        """Another task has failed, which is what the driver will hear of."""
        self._drop()
        self.report = TaskReport(stage=self._stage, partition=self._partition)

    def run(self, work: Iterator[Envelope]) -> Iterator[Envelope]:
        """What the work gives; a failure that is to be reported ends it.

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
    """What a task of stage 0 sends: its share of the splits is read."""
    chain = attempt.open(subtask, context)
    task = SourceTask(chain, context)
    for _ in task.run():
        yield from chain.drain()
    yield from chain.drain()
    attempt.complete(task.report())


def _stage_work(attempt: _Attempt, stage: int, envelopes: Iterator[Envelope]) -> Iterator[Envelope]:
    """What a task of a later stage sends: it is given envelopes; those for stages beyond pass through."""
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
