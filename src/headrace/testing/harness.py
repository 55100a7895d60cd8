"""``JobHarness``: a whole job that a test drives by hand, in its own process, without Spark.

::

    def clicks_per_user(job: JobHarness) -> None:
        clicks = job.add_source("clicks", Types.TUPLE([Types.STRING(), Types.INT()]))
        job.add_sink("counts", clicks.key_by(lambda click: click[0]).process(CountClicks()).uid("counter"))


    def test_that_clicks_are_counted() -> None:
        with JobHarness(clicks_per_user) as job:
            job.push("clicks", ("ann", 1), timestamp=10)
            job.push("clicks", ("bob", 1), timestamp=12)
            job.advance_watermark("clicks", 60_000)
            job.run_epoch()
            assert job.take("counts") == [("ann", 1), ("bob", 1)]
            checkpoint = job.checkpoint()

        with JobHarness(clicks_per_user, parallelism=3, restore=checkpoint) as job:
            job.push("clicks", ("ann", 1), timestamp=60_010)
            job.run_epoch()
            assert job.take("counts") == [("ann", 2)]
"""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from headrace.checkpoint.store import CheckpointStore
from headrace.client.dependencies import gather
from headrace.client.submission import blob_of, effective_configuration, plan_graph
from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.common.constants import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP
from headrace.common.errors import InvalidProgramError, expect
from headrace.common.typeinfo import TypeInformation, Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.sinks import DataStreamSink
from headrace.graph.specs import SourceSpec, TimestampsSpec
from headrace.graph.stream_graph import Edge
from headrace.jobmanager.failover import NO_RESTART
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.metrics import by_shown_name
from headrace.jobmanager.settings import EpochLimits, PlannedJob, job_settings
from headrace.operators.pattern.stored_matches import StoredMatch
from headrace.operators.window.stored_windows import StoredWindow
from headrace.runtime.local import LocalRuntime
from headrace.storage.folder import posix_folder
from headrace.testing.pushed import (
    ManualSource,
    PushedInput,
    PushedRecords,
    RecordingSink,
    check_millis,
    check_new,
    stamped,
    unknown,
)
from headrace.testing.stored_state import Checkpoint, PendingTimer, StoredState, temporary_folder
from headrace.time.clock import ManualClock
from headrace.time.watermark_strategy import NoWatermarks, WatermarkStrategy
from headrace.windowing.windows import Window

_EVERYTHING = EpochLimits(max_records=1 << 40, max_bytes=1 << 60, target_seconds=1.0)


class JobHarness:
    """A job whose sources, clock and epochs are driven by hand; use it in a ``with`` statement.

    What is pushed waits until :meth:`run_epoch`; then the whole job sees it, through the same code that runs it on a
    cluster: the planner, the exchange, the operators, their state and its checkpoints. A failing function raises the
    :class:`~headrace.common.errors.UserFunctionError` that would fail the job.

    Args:
        build: makes the job's streams, with :meth:`add_source`, :meth:`add_sink` and :attr:`env`.
        parallelism: subtasks of each operator that does not say otherwise.
        restore: a checkpoint of the same job to go on from, perhaps of another parallelism.
        processing_time: what the clock shows first, in milliseconds, or a date and time with a time zone. It is never
            earlier than in the checkpoint.
        configuration: more settings of the job.
        fresh_functions: make the functions of the job anew for each epoch, as after a failure, so that a test finds out
            fields that are used as state.

    Attributes:
        env: the environment, for ``build``.

    Examples:
        >>> from headrace.testing import JobHarness
        >>> def job(harness):
        ...     clicks = harness.add_source("clicks", tuple[str, int])
        ...     harness.add_sink("counts", clicks.key_by(lambda click: click[0]).sum(1).uid("sum"))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", [("ann", 1), ("bob", 1)])
        ...     harness.run_epoch()
        ...     print(harness.take("counts"))
        ...     checkpoint = harness.checkpoint()
        [('ann', 1), ('bob', 1)]
        >>> with JobHarness(job, parallelism=3, restore=checkpoint) as harness:
        ...     harness.push("clicks", ("ann", 1))
        ...     harness.run_epoch()
        ...     print(harness.take("counts"))
        [('ann', 2)]
    """

    def __init__(
        self,
        build: "Callable[[JobHarness], object]",
        *,
        parallelism: int = 1,
        restore: Checkpoint | None = None,
        processing_time: int | datetime = 0,
        configuration: Configuration | Mapping[str, str] | None = None,
        fresh_functions: bool = True,
    ) -> None:
        if configuration is None or isinstance(configuration, Configuration):
            settings = Configuration(configuration)
        else:
            settings = Configuration.from_dict(configuration)
        settings.set(options.FRESH_FUNCTIONS, fresh_functions)
        settings.set(options.PARALLELISM, parallelism)
        self.env = StreamExecutionEnvironment.get_execution_environment(settings)
        self._clock = ManualClock(_millis(processing_time))
        self._input = PushedInput()
        self._sinks: dict[str, RecordingSink] = {}
        self._taken: dict[str, int] = {}
        build(self)
        self._folder = temporary_folder(self)
        if restore is not None:
            shutil.copytree(restore.directory, self._folder, dirs_exist_ok=True)
        self._manager = self._make_manager(parallelism)
        self._is_open = False

    # --- building ----------------------------------------------------------------------------------------------------

    def add_source(
        self,
        name: str,
        type_info: TypeInformation | type,
        *,
        watermarks: WatermarkStrategy | None = None,
        splits: int = 1,
    ) -> DataStream:
        """A stream of the records that are pushed; for the ``build`` function.

        Args:
            name: what :meth:`push` calls it; also its uid.
            type_info: the type of the records.
            watermarks: how event time is taken from records. When left out, or when it makes no watermarks, timestamps
                are those that records are pushed with, and :meth:`advance_watermark` moves event time.
            splits: how many splits the source has (partitions of a topic, say), each with its own event time.
        """
        strategy = watermarks or WatermarkStrategy.no_watermarks()
        found = Types.of(type_info)
        source = ManualSource(found, splits)
        self._input.add_source(name, source, is_by_hand=isinstance(strategy.generator, NoWatermarks))
        graph = self.env.transformations.graph
        reader = graph.add(SourceSpec(source), name)
        graph.update(reader.id, uid=name)
        times = graph.add(TimestampsSpec(strategy), f"{name} Watermarks", (Edge(reader.id),))
        graph.update(times.id, uid=f"{name}-watermarks")
        return DataStream(self.env, (Edge(times.id),))

    def add_sink(self, name: str, stream: DataStream) -> DataStreamSink:
        """Keep the records of a stream (a side output, say) for :meth:`results`; for the ``build`` function.

        Args:
            name: what :meth:`results` calls it; its uid is this with ``-sink``, so an operator may have the same one.
            stream: the stream.
        """
        check_new(name, self._sinks, "sink")
        self._sinks[name] = RecordingSink()
        return stream.sink_to(self._sinks[name]).name(name).uid(f"{name}-sink")

    # --- driving -----------------------------------------------------------------------------------------------------

    def push(self, source: str, record: Any, timestamp: int | None = None, *, split: int = 0) -> None:
        """Give a source a record, which the next epoch reads.

        Args:
            source: the name of the source.
            record: the record.
            timestamp: its event time in milliseconds, if it has any.
            split: which split it comes from.

        Raises:
            InvalidTypeError: when the timestamp is no int.
        """
        self.push_all(source, [record], None if timestamp is None else [timestamp], split=split)

    def push_all(
        self, source: str, records: Iterable[Any], timestamps: Iterable[int] | None = None, *, split: int = 0
    ) -> None:
        """Give a source records in this order; see :meth:`push`.

        Args:
            source: the name of the source.
            records: the records.
            timestamps: the event time of each; none has any when left out.
            split: which split they come from.

        Raises:
            InvalidTypeError: when the timestamps are no ints.
            InvalidProgramError: when there are more or fewer of them than records.
        """
        self._input.push(source, split, stamped(list(records), timestamps))

    def advance_watermark(self, source: str, watermark: int, *, split: int | None = None) -> None:
        """Move the event time of a source, behind what was pushed before and ahead of what is pushed after.

        Args:
            source: the name of the source.
            watermark: no record at or below it will follow, unless it is late.
            split: which split; all of them when left out.

        Raises:
            InvalidTypeError: when the watermark is no int.
            InvalidProgramError: when the source makes watermarks of its records.
        """
        check_millis(watermark, "a watermark")
        self._input.set_watermark(source, split, watermark)

    def set_processing_time(self, time: int | datetime) -> None:
        """Turn the clock; what is due fires with the next epoch.

        Args:
            time: milliseconds since the epoch, or a date and time with a time zone.

        Raises:
            ValueError: when that would turn it back. The clock of a job never goes back; to test what becomes of a
                job that is started again by an earlier clock, restore a checkpoint with an earlier ``processing_time``.
        """
        self._clock.set(_millis(time))

    def advance_processing_time(self, millis: int) -> None:
        """Turn the clock forward."""
        self._clock.advance(millis)

    def processing_time(self) -> int:
        """The reading of the clock."""
        return self._clock.now()

    def run_epoch(self) -> None:
        """Let the job work on everything that was pushed since the last time, and fire all timers that are due.

        A watermark between records is in force between them; the job then runs one epoch for each such stretch.

        Raises:
            UserFunctionError: when a function of the job raised.
        """
        self._open()
        if self._manager.manifest is not None and self._manager.manifest.finished:
            raise InvalidProgramError("the job has come to its end: nothing can be run any more")
        while self._input.is_waiting:
            if self._input.take_records() and self._input.is_waiting:
                self._run()
            self._input.take_watermarks(self._advance_watermark)
        self._run()

    def end_split(self, source: str, split: int = 0) -> None:
        """Nothing will follow in a split; once the job knows, in the next epoch, it no longer holds event time back."""
        self._input.end(source, split)

    def finish(self) -> None:
        """End all sources and run the job to its end: every window and every event-time timer fires.

        Sources that the job has besides those of :meth:`add_source` have to end by themselves.
        """
        self._open()
        if self._input.is_waiting:
            self.run_epoch()
        self._input.end_all()
        while not self._finished():
            self._run()
        self._manager.complete_commits()

    def checkpoint(self) -> Checkpoint:
        """The state of the job as it is now, after what was pushed; the job can go on."""
        self.run_epoch()
        return Checkpoint(self._folder)

    def close(self) -> None:
        """Close the functions of the job and remove its files."""
        if self._is_open:
            self._is_open = False
            self._manager.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- looking -----------------------------------------------------------------------------------------------------

    def results(self, sink: str) -> list[Any]:
        """All records that have reached a sink since the harness began; those of one subtask are in order."""
        return PushedRecords(record for record, _ in self._sink(sink).records)

    def results_with_timestamps(self, sink: str) -> list[tuple[Any, int | None]]:
        """Return the :meth:`results`, each with its event time in milliseconds, None where it has none."""
        return [(record, None if time == NO_TIMESTAMP else time) for record, time in self._sink(sink).records]

    def take(self, sink: str) -> list[Any]:
        """The records that have reached a sink since it was last taken from."""
        results = self.results(sink)
        start, self._taken[sink] = self._taken.get(sink, 0), len(results)
        return PushedRecords(results[start:])

    def watermark(self, of: str) -> int | None:
        """The event time of a source or of an operator; None at the end of input.

        Args:
            of: the name of a source: its slowest split counts which is not idle. Or the uid of an operator: its
                slowest subtask counts.
        """
        self._open()
        if of in self._input:
            reached = self._manager.source(of).watermark()
        else:
            self._check_uid(of)
            progress = self._manager.event_time().of_operator(of)
            reached = MIN_WATERMARK if progress is None else progress.watermark
        return None if reached == MAX_WATERMARK else reached

    def windows(self, uid: str) -> list[StoredWindow]:
        """The contents of the windows of an operator after the last epoch, by their last timestamp and key.

        Those that have fired are among them as long as they take late records. Nothing changes, and no function is
        opened for this; triggers and evictors are not called.

        Args:
            uid: the uid of the operator.

        Raises:
            InvalidProgramError: when the job has no such operator, or it has no windows.
        """
        return self._stored_state().windows(uid)

    def window(self, uid: str, key: Any, window: Window) -> list[Any]:
        """The contents of one window of :meth:`windows` for a key; nothing when there is no such window.

        Args:
            uid: the uid of the operator.
            key: the key.
            window: the window, ``TimeWindow(0, 60_000)`` say.

        Raises:
            InvalidTypeError: when that is no window.
        """
        expect(window, Window, "window")
        held = (held.contents for held in self.windows(uid) if held.key == key and held.window == window)
        return next(held, [])

    def partial_matches(self, uid: str) -> list[StoredMatch]:
        """The partial matches of a pattern after the last epoch, by the time of its first event and key.

        Those with one time and key are in the order in which they are looked at. Matches that
        are finished, and that a skip strategy holds back, are among them.

        Args:
            uid: the uid of the operator.

        Raises:
            InvalidProgramError: when the job has no such operator, or it looks for no pattern.
        """
        return self._stored_state().partial_matches(uid)

    def timers(self, uid: str) -> list[PendingTimer]:
        """The timers that an operator has after the last epoch, of both times, by time and key.

        Those of windows are what triggers have set, and the times at which windows go; windows that only fire at their
        ends need none.

        Args:
            uid: the uid of the operator.

        Raises:
            InvalidProgramError: when the job has no such operator, or it has no keys.
        """
        return self._stored_state().timers(uid)

    def counters(self) -> dict[str, int]:
        """The counters of the job, ``numLateRecordsDropped`` say; those of an operator as ``<name>.numRecordsIn``."""
        return self._manager.shown_counters()

    def metrics(self) -> dict[str, float]:
        """The same, and what ``JobClient.get_metrics()`` has besides: event time, sources, metrics of functions."""
        return self._manager.shown_metrics()

    def summary(self) -> str:
        """Return how far the job has come, in lines: clock, event time, what was counted, what reached sinks."""
        facts: dict[str, object] = {"processing time": self._clock.now()}
        if self._is_open:
            progress = self._manager.event_time()
            gauges = by_shown_name(progress.metrics(), progress.plan.shown_names())
            facts |= {name: millis for name, millis in gauges.items() if millis != MIN_WATERMARK}
        facts |= self.counters()
        for name in self._sinks:
            left = PushedRecords(self.results(name)[self._taken.get(name, 0) :])
            facts[f"sink {name!r}"] = f"{len(self.results(name))} in all, not taken yet: {left!r}"
        return "\n".join(f"{name}: {value}" for name, value in facts.items())

    # --- inside ------------------------------------------------------------------------------------------------------

    def _make_manager(self, parallelism: int) -> JobManager:
        configuration = effective_configuration(self.env.get_configuration())
        plan = plan_graph(self.env.transformations.take_next_job(), configuration, None, parallelism)
        store = CheckpointStore(posix_folder(self._folder))
        settings = replace(job_settings(configuration, plan), limits=_EVERYTHING, restart=NO_RESTART)
        self._blob = blob_of(plan, store.storage, gather(configuration), configuration.storage_options())
        job = PlannedJob(plan, self._blob, settings)
        return JobManager(job, LocalRuntime(), store, clock=self._clock)

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._manager.open()
            assert self._manager.manifest is not None
            if self._clock.now() < self._manager.manifest.processing_time:
                self._clock.set(self._manager.manifest.processing_time)

    def _run(self) -> None:
        self._manager.run_epoch(force=True)
        self._manager.wait_for_commits()

    def _stored_state(self) -> StoredState:
        self._open()
        assert self._manager.manifest is not None
        return StoredState(self._blob, self._manager.manifest)

    def _check_uid(self, uid: str) -> None:
        known = [operator.uid for operator in self._manager.plan.operators()]
        if uid not in known:
            raise unknown("source or operator", uid, known)

    def _advance_watermark(self, source: str, split: str, watermark: int) -> None:
        self._manager.source(source).advance_watermark(split, watermark, self._clock.now())

    def _finished(self) -> bool:
        return self._manager.manifest is not None and self._manager.manifest.finished

    def _sink(self, name: str) -> RecordingSink:
        if name not in self._sinks:
            raise unknown("sink", name, list(self._sinks))
        return self._sinks[name]


def _millis(time: int | datetime) -> int:
    """A reading of the clock."""
    if not isinstance(time, datetime):
        return time
    if time.tzinfo is None:
        raise InvalidProgramError(f"{time!r} has no time zone: give it one, tzinfo=UTC say")
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
