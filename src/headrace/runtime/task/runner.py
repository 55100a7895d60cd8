"""The entry point of a task on every runtime: envelopes in, envelopes out; chains are kept from epoch to epoch."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headrace.common.constants import MIN_WATERMARK
from headrace.common.garbage import gc_relaxed
from headrace.common.logs import note_epoch
from headrace.connectors.source import KeptClients
from headrace.exchange.envelope import Envelope, EnvelopeKind
from headrace.operators.base import ProcessLocalCache
from headrace.operators.user_code import EpochCancelledError
from headrace.plan.job_plan import JobPlan
from headrace.runtime.task.messages import REPORTED, EpochContext, SerializedJob, TaskFailure, TaskReport, hands_on
from headrace.runtime.task.operator_chain import OperatorChain
from headrace.runtime.task.source_task import SourceTask
from headrace.runtime.task.stage_task import StageTask
from headrace.storage.folder import Folder

Task = tuple[int, int]
"""A stage, and a task of it."""
Mark = tuple[str, int, int]
"""The epoch that a chain has done: the job's id, the generation, the epoch's number."""


_MOST_CACHED_BYTES: Final = 128 << 20
"""So much is kept at most of what operators have cached whose tasks have moved to another process."""


class ChainCache:
    """The chains of one process, each with the epoch that it did last.

    An epoch is known by its number, yet it may have been run more than once: what a task here did may be superseded by
    what the same task did elsewhere, and functions need not be deterministic. So a chain has to hold the very state
    that the next epoch begins with.

    Connections of readers and writers outlast their chains, but not the generation: what comes after a failure has its
    own. What operators have cached outlasts their chains, as it changes no result: tasks of one machine change places
    between its processes again and again. Of a chain that has failed it is dropped, since it may be in disorder.

    Args:
        blob: the job.
        keeps: whether chains are kept; else every epoch has new ones.
    """

    def __init__(self, blob: SerializedJob, *, keeps: bool) -> None:
        self._blob = blob
        self._keeps = keeps
        self._chains: dict[Task, tuple[OperatorChain, Mark]] = {}
        self._taken: set[OperatorChain] = set()
        self._caches: dict[Task, dict[str, dict[str, ProcessLocalCache]]] = {}
        self._clients = KeptClients()
        self._clients_of: tuple[str, int] | None = None

    def take(self, stage: int, partition: int, context: EpochContext) -> OperatorChain:
        """The chain that can go on with an epoch of a task, or a new one, which is to be opened."""
        run = (context.job_id, context.generation)
        before = (*run, context.previous)
        self._close_stale({before, (*run, context.epoch)})
        if self._clients_of != run:  # the connections of another run of the job may still do what is not its own
            self._clients.close()
            self._clients_of = run
        start = context.partitions.get((stage, partition))
        chain, mark = self._chains.pop((stage, partition), (None, None))
        if chain is not None:
            if mark == before and chain.stands_at(start):
                self._taken.add(chain)
                return chain
            self._retire((stage, partition), chain)
        cache = self._caches.pop((stage, partition), {})
        chain = OperatorChain(self._blob, context, stage, partition, cache, self._clients)
        self._taken.add(chain)
        return chain

    def put_back(self, chain: OperatorChain, context: EpochContext) -> None:
        """Takes back a chain that has done an epoch; it is closed when there is nothing more for it to do."""
        if self._keeps and not context.is_last:
            self._chains[chain.stage.index, chain.partition] = (
                chain,
                (context.job_id, context.generation, context.epoch),
            )
        else:
            chain.close()
        self._taken.discard(chain)
        if context.is_last:
            self._clients.close()

    def drop(self, chain: OperatorChain) -> None:
        """Close a chain that has not done its epoch."""
        chain.drop()
        self._taken.discard(chain)

    def drop_taken(self) -> None:
        """The same with all whose tasks were interrupted."""
        for chain in tuple(self._taken):
            self.drop(chain)

    def close(self) -> None:
        """Close them all; nobody waits for them any more."""
        chains, self._chains = self._chains, {}
        for chain, _ in chains.values():
            chain.drop()
        self._clients.close()

    def _close_stale(self, current: set[Mark]) -> None:
        """Close what did neither this epoch nor the one before: its task has moved to another process since."""
        for task, (chain, mark) in list(self._chains.items()):
            if mark not in current:
                del self._chains[task]
                self._retire(task, chain)

    def _retire(self, task: Task, chain: OperatorChain) -> None:
        """Drop a chain that has done its epoch; what it has cached stays, as long as that is not too much."""
        chain.drop()
        self._caches[task] = chain.cache
        while sum(map(_size_of, self._caches.values())) > _MOST_CACHED_BYTES:
            del self._caches[next(iter(self._caches))]


def _size_of(cache: Mapping[str, Mapping[str, ProcessLocalCache]]) -> int:
    return sum(each.nbytes for of_operator in cache.values() for each in of_operator.values())


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
        self._state = blob.state
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
            attempt = _Attempt(self._cache, self._state, 0)
            yield from attempt.run(_source_work(attempt, subtask, context))
            yield from self._results(attempt)

    def run_stage_task(self, stage: int, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        """One task of a later stage; what is for stages beyond passes through."""
        with gc_relaxed():
            attempt, rest = _Attempt(self._cache, self._state, stage), iter(envelopes)
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
                payload = pickle.dumps(context.for_partition(stage, partition), protocol=5)
                yield Envelope(stage, partition, -1, MIN_WATERMARK, _CONTEXT_EDGE, 0, 0, EnvelopeKind.CONTEXT, payload)

    def _results(self, attempt: _Attempt) -> Iterator[Envelope]:
        """The report, to the driver; and of a failure every later task is told, before any record."""
        report = attempt.report
        if report is None:  # Spark has made a partition that nobody addressed
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
