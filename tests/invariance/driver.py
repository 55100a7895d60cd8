"""Runs a job on the local runtime with its input cut in every way that must not matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.store import TemporaryStore
from headrace.client.submission import blob_of, plan_graph
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.options import RuntimeExecutionMode
from headrace.common.typeinfo import TypeInformation, Types
from headrace.connectors.sink import SinkWriter
from headrace.connectors.source import (
    Boundedness,
    EnumeratorContext,
    ReadBudget,
    Source,
    SourceReader,
    SourceRecords,
    SplitEnumerator,
    SplitRead,
)
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.streams.data_stream import DataStream
from headrace.jobmanager.failover import NO_RESTART, FixedDelay
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.settings import PlannedJob, job_settings
from headrace.runtime.local import LocalRuntime
from headrace.savepoint.metadata import IN_PROGRESS
from headrace.savepoint.tasks import export_version, import_version, tasks_of, with_versions
from headrace.state import exported_tables
from headrace.state.backend import DEFAULT_BACKEND, ROCKSDB_BACKEND, STATE_BACKENDS
from headrace.state.runs import merging
from headrace.testing.pushed import RecordingSink
from headrace.time.clock import ManualClock
from headrace.time.watermark_strategy import WatermarkStrategy
from tests.draws import draws

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.connectors.sink import WriterContext

EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
"""Key, value, event time."""

Event = tuple[str, int, int]
Outputs = dict[str, list[Any]]


@dataclass(frozen=True)
class Cut:
    """One way of running a job; none of it may show in what comes out.

    Attributes:
        shares: how many records an epoch reads of a split, round and round.
        pieces: into how many pieces a share is cut, round and round.
        batch: rows in a batch.
        parallelism: subtasks of one operator after the other, round and round; it moves on with every life of the job.
        restarts: epochs after which a new job manager goes on.
        crashes: epochs that run, but whose manifest is not written any more.
        inline_threshold: bytes of state that go into the manifest.
        fresh: whether functions are made anew for each epoch.
        ticks: milliseconds that the clock goes on before each epoch, round and round.
        faults: how often sinks are written to before one of them fails, in the middle of an epoch.
        recovers: whether the job manager goes on by itself after such a fault; else another one does.
        through_tables: whether what a life goes on from has been through the files of a savepoint, in pieces of a few
            rows each.
        backends: what keeps state in one life after the other, round and round; more than one go through tables.
    """

    shares: tuple[int, ...] = (1 << 30,)
    pieces: tuple[int, ...] = (1,)
    batch: int = 1 << 30
    parallelism: tuple[int, ...] = (1,)
    restarts: frozenset[int] = frozenset()
    crashes: frozenset[int] = frozenset()
    inline_threshold: int = 1 << 20
    fresh: bool = False
    ticks: tuple[int, ...] = (0,)
    faults: frozenset[int] = frozenset()
    recovers: bool = False
    through_tables: bool = False
    backends: tuple[str, ...] = (DEFAULT_BACKEND,)

    def backend(self, life: int) -> str:
        """What keeps state in a life of the job."""
        return self.backends[life % len(self.backends)]


WHOLE = Cut()

cuts = st.builds(
    Cut,
    shares=st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any).map(tuple),
    pieces=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    batch=st.integers(1, 9),
    parallelism=st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple),
    restarts=st.frozensets(st.integers(1, 5), max_size=2),
    crashes=st.frozensets(st.integers(1, 5), max_size=1),
    inline_threshold=st.sampled_from([0, 1 << 20]),
    fresh=st.booleans(),
    through_tables=st.booleans(),
)

deaths = st.builds(
    replace,
    cuts,
    faults=st.frozensets(st.integers(1, 12), max_size=2),
    recovers=st.booleans(),
    backends=st.sampled_from([(DEFAULT_BACKEND,), (ROCKSDB_BACKEND,), (DEFAULT_BACKEND, ROCKSDB_BACKEND)]),
)
"""The same, and sinks fail in the middle of epochs: what tasks have done until then is undone."""


class ScriptedSource(Source):
    """Splits of events, read as a :class:`Cut` says; the timestamps are the source's own.

    Args:
        splits: the events of each split.
        cut: how they are read.
        type_info: the type of the records.

    Attributes:
        planned: where pieces begin and end, by split, first and last position of what was planned to be read.
    """

    def __init__(self, splits: Sequence[Sequence[Any]], cut: Cut, type_info: TypeInformation = EVENT) -> None:
        self._splits = [list(split) for split in splits]
        self._cut = cut
        self._type = type_info
        self.planned: dict[tuple[str, int, int], tuple[int, ...]] = {}

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    @property
    def reads_in_pieces(self) -> bool:
        return True

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return _Enumerator(self._splits, self._cut, self.planned)

    def create_reader(self) -> SourceReader:
        return _Reader(self._splits, self._cut.batch)


class _Enumerator(SplitEnumerator):
    def __init__(self, splits: list[list[Any]], cut: Cut, planned: dict[tuple[str, int, int], tuple[int, ...]]) -> None:
        self._splits = splits
        self._cut = cut
        self._planned = planned
        # Each split has turns of its own: of two that are always asked in turn, one would never get its share.
        self._turns = [count() for _ in splits]
        self._given = dict[str, tuple[int, int]]()

    def discover(self, now: int) -> list[str]:
        return [str(number) for number in range(len(self._splits))]

    def initial_position(self, split_id: str) -> int:
        return 0

    def plan(self, split_id: str, position: int, budget: ReadBudget, now: int) -> SplitRead | None:
        turn = self._turn(split_id, position)
        size = len(self._splits[int(split_id)])
        end = min(size, position + min(self._cut.shares[turn % len(self._cut.shares)], budget.records))
        if end == position:
            return None
        self._given[split_id] = (position, turn)
        bounds = np.linspace(position, end, self._cut.pieces[turn % len(self._cut.pieces)] + 1).astype(int).tolist()
        self._planned[split_id, position, end] = tuple(bounds)
        pieces = tuple([split_id, start, stop] for start, stop in pairwise(bounds))
        return SplitRead(split_id, position, end, pieces, records=end - position)

    def _turn(self, split_id: str, position: int) -> int:
        """The next one; where a share was given and was too much, the same once more."""
        given, turn = self._given.get(split_id, (-1, 0))
        return turn if given == position else next(self._turns[int(split_id)])

    def is_finished(self, split_id: str, position: int) -> bool:
        return position >= len(self._splits[int(split_id)])


class _Reader(SourceReader):
    def __init__(self, splits: list[list[Any]], batch: int) -> None:
        self._splits = splits
        self._batch = batch

    def read(self, piece: Any) -> Iterator[SourceRecords]:
        split_id, start, end = piece
        for at in range(start, end, min(self._batch, end - start) or 1):
            rows = self._splits[int(split_id)][at : min(at + self._batch, end)]
            yield SourceRecords(rows=rows, timestamps=np.array([row[2] for row in rows], dtype=np.int64))


@dataclass
class Job:
    """What a test builds its job with.

    Attributes:
        env: the environment.
        cut: how the job is run.
        life: how often it was restarted.
    """

    env: StreamExecutionEnvironment
    cut: Cut
    life: int
    sinks: dict[str, RecordingSink] = field(default_factory=dict)
    sources: dict[str, ScriptedSource] = field(default_factory=dict)
    _operators: Iterator[int] = field(default_factory=count)

    def source(self, name: str, splits: Sequence[Sequence[Any]], bound: int) -> DataStream:
        """Events of splits, each behind its newest one by at most ``bound``, or late."""
        return self.source_of(name, splits, EVENT, WatermarkStrategy.for_bounded_out_of_orderness(bound))

    def source_of(
        self, name: str, splits: Sequence[Sequence[Any]], type_info: TypeInformation, strategy: WatermarkStrategy
    ) -> DataStream:
        """Records of splits, whose third field is their timestamp."""
        source = self.sources[name] = ScriptedSource(splits, self.cut, type_info)
        return self.env.from_source(source, strategy, name).uid(name).set_parallelism(self.parallelism())

    def sink(self, name: str, stream: DataStream) -> None:
        """Keep a stream's records."""
        self.sinks[name] = FaultySink()
        stream.sink_to(self.sinks[name]).uid(f"sink-{name}")

    def parallelism(self) -> int:
        """That of the next operator."""
        return self.cut.parallelism[(next(self._operators) + self.life) % len(self.cut.parallelism)]

    def keyed(self, uid: str, stream: DataStream) -> DataStream:
        """Give a keyed operator its uid and its parallelism."""
        return stream.uid(uid).set_parallelism(self.parallelism())


class FaultError(OSError):
    """A sink fails, as a disk does."""


class FaultySink(RecordingSink):
    """Keeps records; fails in the middle of an epoch where the :class:`Cut` says so."""

    faults: ClassVar[set[int]] = set()
    writes: ClassVar[int] = 0

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _FaultyWriter(super().create_writer(context))


class _FaultyWriter(SinkWriter):
    def __init__(self, writer: SinkWriter) -> None:
        self._writer = writer

    def write(self, batch: Batch) -> None:
        FaultySink.writes += 1
        if FaultySink.writes in FaultySink.faults:
            FaultySink.faults.discard(FaultySink.writes)
            raise FaultError
        self._writer.write(batch)

    def prepare_commit(self) -> Sequence[Any]:
        return self._writer.prepare_commit()

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True)
class Began:
    """A job, or what it goes on from, begins.

    Attributes:
        clock: the reading of the clock.
    """

    clock: int


@dataclass(frozen=True)
class Ran:
    """An epoch has come to its end.

    Attributes:
        clock: its reading of the clock.
        reads: by source and split, where its pieces began and ended; of the sources that the job itself has made.
        finished: the splits that have come to their ends by it.
    """

    clock: int
    reads: dict[tuple[str, int], tuple[int, ...]]
    finished: frozenset[tuple[str, int]]


class History:
    """What happens to a job, without that which is undone.

    Attributes:
        events: in order.
        faults: how often a sink has failed.
    """

    def __init__(self) -> None:
        self.events: list[Began | Ran] = []
        self.faults = 0
        self._positions: dict[tuple[str, int], int] = {}

    def began(self, clock: int) -> None:
        """The job begins, or goes on."""
        self.events.append(Began(clock))

    def ran(self, manifest: Manifest, sources: Mapping[str, ScriptedSource]) -> None:
        """An epoch has come to its end."""
        before = self._positions
        splits = {
            (uid, int(split.split_id)): split
            for uid, source in manifest.sources.items()
            for split in source.splits
            if uid in sources
        }
        reads = {
            (uid, number): sources[uid].planned[str(number), before.get((uid, number), 0), split.position]
            for (uid, number), split in splits.items()
            if split.position > before.get((uid, number), 0)
        }
        self._positions |= {place: split.position for place, split in splits.items()}
        finished = frozenset(place for place, split in splits.items() if split.finished)
        self.events.append(Ran(manifest.processing_time, reads, finished))


class RestartedStore(TemporaryStore):
    """Manifests as bytes in memory, so that a job can go on where it was; one manifest can be prevented.

    Attributes:
        crashes: whether the next manifest is prevented.
        begins: is called when a job goes on.
        through_tables: whether what it goes on from has been through the files of a savepoint.
        backend: what keeps the state of the job that goes on.
    """

    def __init__(self, begins: Callable[[], None], *, through_tables: bool) -> None:
        super().__init__()
        self.through_tables = through_tables
        self.backend = self._written_by = DEFAULT_BACKEND
        self._manifests: list[bytes] = []
        self.crashes = False
        self.begins = begins

    def latest(self) -> Manifest | None:
        if not self._manifests:
            return None
        return replace(Manifest.from_bytes(self._manifests[-1], "in memory"), state_backend=self.backend)

    def take_over(self, previous: Manifest) -> Manifest:
        mine = replace(previous, epoch=previous.epoch + 1, generation=previous.generation + 1)
        if self.through_tables:
            with _small_pieces():
                mine = self._transplanted(mine)
        self.write(mine)
        self.begins()
        return mine

    def restart(self, known: Manifest) -> Manifest:
        self.begins()
        return super().restart(known)

    def write(self, manifest: Manifest) -> None:
        if self.crashes:
            self.crashes = False
            raise CrashError
        self._manifests.append(manifest.to_bytes())
        self._written_by = self.backend
        super().write(manifest)

    def _transplanted(self, manifest: Manifest) -> Manifest:
        folder = self.storage.folder(f"savepoint-{manifest.epoch}")
        folder.make()
        folder.create(IN_PROGRESS, b"")
        export = partial(
            export_version, STATE_BACKENDS.load(self._written_by), self.state, folder, manifest.processing_time
        )
        versions = [part.version for stage in manifest.stages for part in stage.partitions if part.version]
        tables = [table for version in versions for table in export(version)]
        uids = {uid for stage in manifest.stages for uid in stage.operators}
        work = partial(import_version, STATE_BACKENDS.load(self.backend), self.state, folder)
        return with_versions(manifest, map(work, tasks_of(tables, manifest, uids, 0)))

    def close(self) -> None:
        """A life of the job ends, its files stay."""

    def remove(self) -> None:
        super().close()


class CrashError(Exception):
    """The job manager dies."""


def run(build: Callable[[Job], None], cut: Cut = WHOLE, *, is_batch: bool = False) -> Outputs:
    """Run a job to its end; what has reached each sink, over all its lives, each record with its timestamp."""
    return run_recorded(build, cut, is_batch=is_batch)[0]


def run_recorded(build: Callable[[Job], None], cut: Cut = WHOLE, *, is_batch: bool = False) -> tuple[Outputs, History]:
    """The same, with what happened meanwhile."""
    clock, history = ManualClock(), History()
    through_tables = cut.through_tables or len(set(cut.backends)) > 1
    store = RestartedStore(lambda: history.began(clock.now()), through_tables=through_tables)
    outputs: Outputs = defaultdict(list)
    turns = _Turns(count(1), set(cut.restarts), set(cut.crashes))
    FaultySink.faults, FaultySink.writes = set(cut.faults), 0
    try:
        for life in count():
            store.backend = cut.backend(life)
            job = Job(_environment(cut, store.backend, is_batch=is_batch), cut, life)
            build(job)
            manager = _manager(job, store, clock)
            try:
                finished = _live(manager, job, store, clock, history, turns)
            finally:
                manager.close()
            for name, sink in job.sinks.items():
                outputs[name].extend(sink.records)
            if finished:
                history.faults = len(cut.faults) - len(FaultySink.faults)
                return outputs, history
        raise AssertionError("unreachable")
    finally:
        store.remove()


@contextmanager
def _small_pieces() -> Iterator[None]:
    """Tables are written and taken in in pieces of a few rows, as large ones are in large pieces."""
    chunks, pieces, ordered = (
        (merging, "CHUNK_ROWS"),
        (exported_tables, "PIECE_BYTES"),
        (exported_tables, "ORDERED_BYTES"),
    )
    with patch.object(*chunks, 3), patch.object(*pieces, 100), patch.object(*ordered, 100):
        yield


@dataclass
class _Turns:
    """Numbers of epochs, over all lives, and those that end a life.

    Attributes:
        numbers: gives the next one.
        restarts: those after which a new job manager goes on.
        crashes: those whose manifest is not written.
    """

    numbers: Iterator[int]
    restarts: set[int]
    crashes: set[int]


def _live(
    manager: JobManager, job: Job, store: RestartedStore, clock: ManualClock, history: History, turns: _Turns
) -> bool:
    """One life of the job; whether it came to its end."""
    store.crashes = False
    manager.open()
    idle = 0
    while True:
        assert manager.manifest is not None
        if manager.manifest.finished:
            manager.complete_commits()
            return True
        epoch = next(turns.numbers)
        clock.advance(job.cut.ticks[epoch % len(job.cut.ticks)])
        store.crashes = epoch in turns.crashes
        turns.crashes.discard(epoch)
        try:
            statistics = manager.run_epoch()
        except (CrashError, FaultError):
            return False
        if statistics is not None:
            history.ran(manager.manifest, job.sources)
        manager.wait_for_commits()
        idle = 0 if statistics is not None else idle + 1
        assert idle < 100, "the job does not move"
        if epoch in turns.restarts and not manager.manifest.finished:
            turns.restarts.discard(epoch)
            return False


def _environment(cut: Cut, backend: str, *, is_batch: bool) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set(options.STATE_BACKEND, backend)
    mode = RuntimeExecutionMode.BATCH if is_batch else RuntimeExecutionMode.STREAMING
    configuration.set(options.RUNTIME_MODE, mode)
    configuration.set(options.FRESH_FUNCTIONS, cut.fresh)
    configuration.set(options.CHECKPOINT_INLINE_THRESHOLD, cut.inline_threshold)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def _manager(job: Job, store: RestartedStore, clock: ManualClock) -> JobManager:
    configuration = job.env.get_configuration()
    plan = plan_graph(job.env.transformations.take_next_job(), configuration, "invariance", 1)
    restart = FixedDelay(2 * len(job.cut.faults), 0.0) if job.cut.recovers else NO_RESTART
    settings = replace(job_settings(configuration, plan), restart=restart)
    job = PlannedJob(plan, blob_of(plan, store.storage), settings)
    return JobManager(job, LocalRuntime(), store, clock=clock)


def per_key(records: Sequence[tuple[Any, int]]) -> dict[Any, list[Any]]:
    """The records of each key (their first field) in order."""
    grouped = defaultdict(list)
    for record, timestamp in records:
        grouped[record[0]].append((*record, timestamp))
    return dict(grouped)


def multiset(records: Sequence[tuple[Any, int]]) -> list[Any]:
    """The records, each with its timestamp, in canonical order."""
    return sorted(((*(tuple(record)), timestamp) for record, timestamp in records), key=repr)


def examples(
    number: int, many: int | None = None, **strategies: Any
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """A test of a share of so many examples, and a slow one of many: ten times as many unless that is said."""
    slow = pytest.param(many or 10 * number, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("drawn", [draws(number), slow])
        def test(drawn: int) -> None:
            bounds = settings(max_examples=drawn, deadline=None, suppress_health_check=list(HealthCheck))
            bounds(given(**strategies)(check))()  # of what given() makes: a function takes settings only once

        test.__name__ = test.__qualname__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return decorate
