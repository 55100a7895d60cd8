"""The operators of one task with their functions opened, kept in the worker from epoch to epoch.

Keeping them is a saving, not a promise: a worker process may be another one in the next epoch, and a chain that did
not do exactly the epoch before, or not in the attempt that counts, is dropped and made anew. So fields of a user
function are not state.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final

from headrace.checkpoint.manifest import OperatorProgress, PartitionSnapshot
from headrace.common.constants import MIN_WATERMARK
from headrace.common.errors import CheckpointFailedError, StateMigrationError
from headrace.common.logs import get_logger
from headrace.connectors.source import KeptClients, ReaderContext, SourceReader
from headrace.exchange.envelope import Envelope, SummaryBook
from headrace.exchange.sender import EdgeSender
from headrace.graph.specs import SourceSpec, TaskParameters
from headrace.metrics.registry import Measurements
from headrace.operators.base import EpochScope, Operator, OperatorContext, ProcessLocalCache, cannot_go_on
from headrace.operators.checkpointed import initialize, snapshot
from headrace.operators.functions import close_all
from headrace.operators.sink import SinkOperator
from headrace.operators.timestamps import TimestampsOperator
from headrace.operators.user_code import NamingSource, UserCodeGuard
from headrace.operators.window.stored_windows import drop_changed
from headrace.plan.job_plan import JobPlan, PlannedOperator
from headrace.runtime.task.messages import (
    ChannelReport,
    EpochContext,
    PartitionContext,
    SerializedJob,
    TaskReport,
    Traffic,
)
from headrace.runtime.task.outputs import BroadcastingOutput, ChainingOutput, EdgeOutput, WatermarkValve, wire_forks
from headrace.runtime.task.task_clock import TaskClock
from headrace.state.backend import StateOwner, TaskStates
from headrace.state.protocols import OperatorStates, StateKind
from headrace.storage.folder import Folder
from headrace.windowing.definition import ChangedWindows

logger = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class ChainNode:
    """A source or an operator of a chain.

    Attributes:
        planned: the operator in the plan.
        context: the context for its whole life.
        output: takes what it emits.
        senders: those of its edges that lead to other tasks.
        bytes_received: what came by other edges from other tasks in the epoch.
    """

    planned: PlannedOperator
    context: OperatorContext
    output: BroadcastingOutput
    senders: list[EdgeSender] = field(default_factory=list)
    bytes_received: int = 0

    @property
    def traffic(self) -> Traffic:
        """Return what went out of it in the epoch, and what came in from other tasks."""
        return Traffic(self.output.records, self.bytes_received, sum(map(attrgetter("bytes_sent"), self.senders)))

    def begin_epoch(self) -> None:
        """Count from 0."""
        self.output.records = self.bytes_received = 0
        for sender in self.senders:
            sender.bytes_sent = 0


@dataclass(slots=True, kw_only=True)
class ChainedSource(ChainNode):
    """A source.

    Attributes:
        reader_context: what its reader is opened with.
        records: how many it has read in the epoch.
        counters: those of the epoch.
    """

    reader_context: ReaderContext
    records: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    _reader: SourceReader | None = None

    def reader(self) -> SourceReader:
        """The reader, which is opened at its first use."""
        if self._reader is None:
            spec = self.planned.node.spec
            assert isinstance(spec, SourceSpec)
            reader = spec.source.create_reader()
            reader.open(self.reader_context)
            self._reader = reader
        return self._reader

    def count(self, name: str, amount: int) -> None:
        """Adds to a counter of the epoch."""
        self.counters[name] = self.counters.get(name, 0) + amount

    def close(self) -> None:
        """Closes the reader, if there is one."""
        if self._reader is not None:
            with NamingSource(self.context.name, self.context.call_site):
                self._reader.close()


@dataclass(slots=True, kw_only=True)
class ChainedOperator(ChainNode):
    """An operator with inputs.

    Attributes:
        operator: the operator.
        valve: what its input comes through.
        timestamps: the operator if it makes watermarks; others have that of their inputs.
    """

    operator: Operator
    valve: WatermarkValve
    timestamps: TimestampsOperator | None


@dataclass(frozen=True, slots=True)
class TaskProcess:
    """The resources that all tasks of a process share.

    Attributes:
        clients: those that it keeps for readers and writers.
        clock: measures them.
        folder: a folder of the job that all tasks on this machine share; None where there is none.
    """

    clients: KeptClients
    clock: TaskClock
    folder: Path | None


class OperatorChain:
    """All operators of one task, wired, and opened before the first epoch.

    Args:
        blob: the job.
        context: the first epoch that it will do.
        stage: the stage.
        partition: which task of the stage.
        cache: by uid, what operators of the same task have cached in this process.
        process: what the process has for all its tasks.

    Attributes:
        sources: by uid; none but in stage 0.
        members: the operators that are in this task, by node id, in topological order.
        cache: as above, with what those of this chain have cached.
        clock: that of the process.
    """

    def __init__(
        self,
        blob: SerializedJob,
        context: EpochContext,
        stage: int,
        partition: int,
        cache: dict[str, dict[str, ProcessLocalCache]],
        process: TaskProcess,
    ) -> None:
        plan: JobPlan = pickle.loads(blob.plan)
        self.plan = plan
        self.stage = plan.stages[stage]
        self.partition = partition
        self._outbox: list[Envelope] = []
        self._summaries = SummaryBook(partition)
        self._goes_on_from = context.goes_on_from
        self._is_open = False
        self._closing: list[Callable[[], object]] = []
        self.state: TaskStates | None = None
        start = context.partitions.get((stage, partition))  # None for a stage 0 that holds no state
        if start is not None and self.stage.holds_state:
            self.state = open_state(plan, stage, partition, blob.state, start)
            self._closing.append(self.state.close)
        self.sources: dict[str, ChainedSource] = {}
        self.members: dict[int, ChainedOperator] = {}
        self.cache = cache
        self.clock = process.clock
        self._machine_folder = process.folder
        task = task_parameters(plan, blob, partition, process.clients, context.job_id, context.generation)
        reader_context = ReaderContext(blob.storage_options, process.clients)
        for planned in _with_own_functions(self.stage.operators, blob.plan):
            if not planned.node.inputs:
                source = self.sources[planned.uid] = self._source(planned, reader_context)
                self._closing.append(source.close)
            elif partition < planned.parallelism:
                watermark = MIN_WATERMARK if start is None else start.event_time_of(planned)
                self.members[planned.node.id] = self._member(planned, task, watermark)
        self._states: list[OperatorStates] = []
        for member in self.members.values():
            if member.context.optional_state is not None:
                self._states.append(member.context.optional_state)
        self._wire()

    def _source(self, planned: PlannedOperator, reader_context: ReaderContext) -> ChainedSource:
        context = operator_context(self.plan, planned, self.partition, self.state)
        output = BroadcastingOutput(context)
        return ChainedSource(planned=planned, context=context, output=output, reader_context=reader_context)

    def _member(self, planned: PlannedOperator, task: TaskParameters, watermark: int) -> ChainedOperator:
        cache = self.cache.setdefault(planned.uid, {})
        context = replace(
            operator_context(self.plan, planned, self.partition, self.state),
            cache=cache,
            machine_folder=self._machine_folder,
            watermark=watermark,
            changed_windows=self.plan.settings.changed_windows.get(planned.uid, ChangedWindows.FAIL),
        )
        operator = planned.create_operator(task)
        return ChainedOperator(
            planned=planned,
            context=context,
            output=BroadcastingOutput(context, operator.maker),
            operator=operator,
            valve=WatermarkValve(operator, planned.node.spec.event_time_lag, self.clock, planned.uid),
            timestamps=operator if isinstance(operator, TimestampsOperator) else None,
        )

    def open(self) -> None:
        """Open the operators, unless they are open; when one fails, those before it are there to be closed.

        What windows hold that an operator cannot go on with is dropped where that was requested.
        """
        for member in () if self._is_open else self.members.values():
            context = member.context
            try:
                if member.planned.checkpointed:
                    initialize(member.planned.checkpointed, context, self._goes_on_from)
                try:
                    member.operator.open(context, member.output)
                except StateMigrationError as error:
                    if context.changed_windows is not ChangedWindows.DROP:
                        raise
                    drop_changed(context, error)
                    member.operator.open(context, member.output)
            except StateMigrationError as error:
                raise cannot_go_on(context, error) from error
            self._closing.append(member.operator.close)
        self._is_open = True

    def begin_epoch(self, context: EpochContext, watermarks: dict[int, int]) -> None:
        """Tell every operator what is fixed for the epoch; their state is what the epoch starts from."""
        if self.state is not None:
            for adoption in context.partitions[self.stage.index, self.partition].adoptions:
                self.state.adopt(adoption)
        for source in self.sources.values():
            source.counters.clear()
            source.records = 0
            source.begin_epoch()
        for node, member in self.members.items():
            member.begin_epoch()
            member.operator.counters.clear()
            member.operator.counters.update(member.context.counted)
            member.context.counted.clear()
            member.valve.records = 0
            if (state := member.context.optional_state) is not None:
                watermark = watermarks.get(node, MIN_WATERMARK)
                state.begin_epoch(watermark, context.processing_time)
        # Consumers first: a due timer emits at once, and what it emits belongs to the new epoch everywhere.
        for node, member in reversed(self.members.items()):
            scope = EpochScope(
                epoch=context.epoch,
                processing_time=context.processing_time,
                watermark=watermarks.get(node, MIN_WATERMARK),
            )
            before = self.clock.switch(member.planned.uid)
            member.operator.begin_epoch(scope)
            self.clock.switch(before)

    def end_epoch(self, context: EpochContext) -> None:
        """All records and watermarks of the epoch have come: end the input if it has ended, then the epoch."""
        if context.is_last:
            for member in self.members.values():
                before = self.clock.switch(member.planned.uid)
                member.operator.finish()
                self.clock.switch(before)
        for member in self.members.values():
            before = self.clock.switch(member.planned.uid)
            member.operator.end_epoch()
            if member.planned.checkpointed:
                snapshot(member.planned.checkpointed, member.context, context.epoch, context.processing_time)
            self.clock.switch(before)

    def drain(self) -> Sequence[Envelope]:
        """Return what was sent since the last call."""
        envelopes = self._outbox[:]
        self._outbox.clear()
        return envelopes

    def seal_summaries(self) -> None:
        """All channels have ended: what receivers need of them goes into the outbox."""
        self._outbox.extend(self._summaries.seal())

    def report(
        self,
        context: EpochContext,
        *,
        channels: tuple[ChannelReport, ...] = (),
        progress: Mapping[str, OperatorProgress] | None = None,
    ) -> TaskReport:
        """Write the state, and return the report.

        Args:
            context: the epoch.
            channels: how far the splits have come, in stage 0.
            progress: how far the operators have come, in later stages.
        """
        members, sources = self.members.values(), self.sources.values()
        snapshot, sizes = self._snapshot(context, progress or {})
        return TaskReport(
            stage=self.stage.index,
            partition=self.partition,
            snapshot=snapshot,
            state_sizes=sizes,
            channels=channels,
            committables={
                each.planned.uid: each.operator.committables
                for each in members
                if isinstance(each.operator, SinkOperator) and each.operator.committables
            },
            counters={
                **{each.planned.uid: dict(each.operator.counters) for each in members},
                **{each.planned.uid: dict(each.counters) for each in sources if each.counters},
            },
            records={
                **{each.planned.uid: each.valve.records for each in members},
                **{each.planned.uid: each.records for each in sources if each.records},
            },
            traffic={each.planned.uid: found for each in (*members, *sources) if any(found := each.traffic)},
            metrics={each.planned.uid: _measured(each.context) for each in members if each.context.metrics.by_name},
            held={each.planned.uid: each.operator.hold for each in members if each.operator.hold},
        )

    def _snapshot(
        self, context: EpochContext, progress: Mapping[str, OperatorProgress]
    ) -> tuple[PartitionSnapshot, Mapping[str, Mapping[str, int]]]:
        """End the epoch of all state, and write what has changed; returns the sizes of its stores as well."""
        if self.state is None:
            return PartitionSnapshot(progress=progress), {}
        for state in self._states:
            state.end_epoch()
        try:
            version = self.state.snapshot(context.epoch, context.generation, self.plan.inline_bytes)
        except OSError as error:
            raise CheckpointFailedError(f"the state of epoch {context.epoch} cannot be written: {error}") from error
        times = [state.earliest_processing_time() for state in self._states]
        times += [member.operator.wake_up_time() for member in self.members.values()]
        timers = [time for time in times if time is not None]
        # In batch mode timers wait for the end of the input, so there is no time to look for them.
        earliest = None if self.plan.settings.is_batch else min(timers, default=None)
        return PartitionSnapshot(version, progress, earliest), self.state.sizes()

    def stands_at(self, start: PartitionContext | None) -> bool:
        """Return whether what it holds in memory is what an epoch starts from."""
        if start is None or self.state is None or not self._states:
            return True
        return start.versions == (self.state.ref,)

    def abort(self) -> None:
        """The epoch failed: sinks let go of what they opened."""
        for member in self.members.values():
            if isinstance(member.operator, SinkOperator):
                member.operator.abort()

    def close(self) -> None:
        """End of the chain's life: functions, readers and state are closed, each once, also when one of them raises."""
        close_all(self._closing)

    def drop(self) -> None:
        """Close an operator that has failed; what its functions raise in ``close`` must not hide the reason."""
        try:
            try:
                self.abort()
            finally:
                self.close()
        except Exception:
            logger.warning("closing the functions of a task that was given up failed", exc_info=True)

    def _wire(self) -> None:
        """Connects the outputs with the operators and senders behind them."""
        edges: dict[int, EdgeOutput] = {}
        chained: list[ChainNode] = [*self.sources.values(), *self.members.values()]
        for each in chained:
            for edge in each.planned.outputs:
                if edge.is_exchange:
                    guard = partial(UserCodeGuard, each.context)
                    sender = edges[edge.id] = EdgeSender(edge, self._outbox.append, self._summaries, guard)
                    each.senders.append(sender)
                elif edge.target in self.members:
                    edges[edge.id] = ChainingOutput(self.members[edge.target].valve, edge, each.context)
                else:
                    continue
                each.output.add(edge.side_output, edges[edge.id])
        if self.stage.forks:
            wire_forks(self.stage, self.members, {each.planned.node.id: each.output for each in chained}, edges)


def _with_own_functions(operators: Sequence[PlannedOperator], pickled: bytes) -> Iterator[PlannedOperator]:
    """The operators, no two with the same object of the user: it has the fields, and the state, of one of them."""
    taken: set[int] = set()
    for planned in operators:
        own = set(map(id, planned.objects))
        if own.isdisjoint(taken):
            taken |= own
            yield planned
        else:
            another: JobPlan = pickle.loads(pickled)
            yield another.operator(planned.node.id)


def open_state(plan: JobPlan, stage: int, partition: int, storage: Folder, start: PartitionContext) -> TaskStates:
    """The state that a task starts from.

    Args:
        plan: the job.
        stage: the stage.
        partition: which task of the stage.
        storage: where the state files are.
        start: what the task starts from.
    """
    return plan.settings.state_backend.open(
        storage,
        start.versions,
        stage,
        partition,
        {
            planned.uid: StateOwner(
                planned.parallelism,
                planned.max_parallelism,
                planned.state_kinds,
                start.dealt.get(planned.uid),
                planned.shares_broadcast_state,
            )
            for planned in plan.stages[stage].operators
        },
    )


def _measured(context: OperatorContext) -> Measurements:
    """The measurements of an operator's functions."""
    with UserCodeGuard(context):  # gauges
        return context.metrics.take()


def task_parameters(
    plan: JobPlan, blob: SerializedJob, subtask: int, clients: KeptClients, job_id: str = "", generation: int = 0
) -> TaskParameters:
    """Return what operators of a subtask are created from; of those that write nothing the job's id does not matter."""
    return TaskParameters(
        job_id=job_id,
        generation=generation,
        subtask=subtask,
        is_batch=plan.settings.is_batch,
        storage=blob.storage,
        storage_options=blob.storage_options,
        clients=clients,
    )


def operator_context(
    plan: JobPlan, planned: PlannedOperator, partition: int, of_task: TaskStates | None
) -> OperatorContext:
    """Return the context of an operator for its whole life.

    Args:
        plan: the job.
        planned: the operator.
        partition: which task it is in.
        of_task: the state of that task, if it has any.
    """
    state = None
    if of_task is not None and planned.state_kinds:
        state = of_task.operator(planned.uid)
    if state is not None and StateKind.KEYED in planned.state_kinds:
        state.bind_key_codec(planned.key.codec)
    return OperatorContext(
        name=planned.node.name,
        uid=planned.uid,
        subtask=partition,
        parallelism=planned.parallelism,
        max_parallelism=planned.max_parallelism,
        call_site=planned.node.call_site,
        optional_state=state,
        job_parameters=plan.settings.parameters,
        renamed_fields=planned.renamed_fields,
    )


Task = tuple[int, int]
"""A stage, and a task of it."""
Mark = tuple[str, int, int]
"""The epoch that a chain has done: the job's id, the generation, the epoch's number."""

_MOST_CACHED_BYTES: Final = 128 << 20
"""The most caches of operators that are kept whose tasks have moved to another process."""


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
        clock: measures its tasks.
    """

    def __init__(self, blob: SerializedJob, clock: TaskClock) -> None:
        self._blob = blob
        self._clock = clock
        self._chains: dict[Task, tuple[OperatorChain, Mark]] = {}
        self._taken: set[OperatorChain] = set()
        self._caches: dict[Task, dict[str, dict[str, ProcessLocalCache]]] = {}
        self._clients = KeptClients()
        self._process = TaskProcess(self._clients, clock, None if blob.payloads is None else Path(blob.payloads))
        self._clients_of: tuple[str, int] | None = None

    def take(self, stage: int, partition: int, context: EpochContext) -> OperatorChain:
        """The chain that can go on with an epoch of a task, or a new one, which is to be opened."""
        run = (context.job_id, context.generation)
        before = (*run, context.previous)
        for task, (stale, done) in list(self._chains.items()):
            if done not in (before, (*run, context.epoch)):  # its task has moved to another process since
                del self._chains[task]
                self._retire(task, stale)
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
        chain = OperatorChain(self._blob, context, stage, partition, cache, self._process)
        self._taken.add(chain)
        return chain

    def put_back(self, chain: OperatorChain, context: EpochContext) -> None:
        """Takes back a chain that has done an epoch; it is closed when there is nothing more for it to do."""
        if not (context.is_last or self._blob.fresh_instances):
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
        """Close them all, since they are not needed any more."""
        chains, self._chains = self._chains, {}
        for chain, _ in chains.values():
            chain.drop()
        self._clients.close()

    def _retire(self, task: Task, chain: OperatorChain) -> None:
        """Drop a chain that has done its epoch; what it has cached stays, as long as that is not too much."""
        chain.drop()
        self._caches[task] = chain.cache
        while sum(map(_size_of, self._caches.values())) > _MOST_CACHED_BYTES:
            del self._caches[next(iter(self._caches))]


def _size_of(cache: Mapping[str, Mapping[str, ProcessLocalCache]]) -> int:
    return sum(each.nbytes for of_operator in cache.values() for each in of_operator.values())
