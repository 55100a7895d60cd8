"""Sources whose splits have a steady pace, and jobs that read them epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.checkpoint.store import TemporaryStore
from headrace.client.submission import blob_of, plan_graph
from headrace.common import Configuration, WatermarkStrategy
from headrace.common.constants import MIN_WATERMARK
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.ranges import plan_range
from headrace.connectors.source import Boundedness, ReadBudget, Source, SourceReader, SourceRecords, SplitEnumerator
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.failover import NO_RESTART
from headrace.jobmanager.job_manager import JobManager
from headrace.jobmanager.settings import PlannedJob, job_settings
from headrace.runtime.local import LocalRuntime
from headrace.time.clock import ManualClock

SHARE = 10_000
"""Records an epoch."""

TIMES = WatermarkStrategy.for_monotonous_timestamps()


class Steady(Source):
    """Splits of numbers, each with so many milliseconds from one record to the next.

    Args:
        splits: of each split, how many records it has and how many milliseconds there are between two.
        is_bounded: whether it ends with the last record, or is silent then.
    """

    def __init__(self, splits: Sequence[tuple[int, int]], *, is_bounded: bool = True) -> None:
        self.splits = list(splits)
        self.is_bounded = is_bounded

    boundedness = Boundedness.BOUNDED
    produced_type = Types.LONG()
    reads_in_pieces = True

    def create_enumerator(self, context: Any) -> SplitEnumerator:
        return _Enumerator(self)

    def create_reader(self) -> SourceReader:
        return _Reader(self.splits)


class _Enumerator(SplitEnumerator):
    def __init__(self, source: Steady) -> None:
        self._source = source

    def discover(self, now: int) -> list[str]:
        return [str(number) for number in range(len(self._source.splits))]

    def initial_position(self, split_id: str) -> int:
        return 0

    def plan(self, split_id: str, position: int, budget: ReadBudget, now: int) -> Any:
        read = plan_range(split_id, position, self._source.splits[int(split_id)][0], budget)
        return read and replace(read, pieces=tuple([split_id, *piece] for piece in read.pieces))

    def is_finished(self, split_id: str, position: int) -> bool:
        return self._source.is_bounded and position >= self._source.splits[int(split_id)][0]


class _Reader(SourceReader):
    def __init__(self, splits: list[tuple[int, int]]) -> None:
        self._splits = splits

    def read(self, piece: Any) -> Any:
        split, start, end = piece
        numbers = np.arange(start, end, dtype=np.int64)
        yield SourceRecords(rows=numbers.tolist(), timestamps=numbers * self._splits[int(split)][1])


class Driven:
    """A job with one sink for each source, run epoch by epoch; looks how far its splits are apart.

    Args:
        sources: each with its strategy.
    """

    def __init__(self, *sources: tuple[Steady, WatermarkStrategy]) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration())
        self.counts = [0] * len(sources)
        for number, (source, strategy) in enumerate(sources):
            stream = env.from_source(source, strategy, f"source {number}").uid(f"source-{number}")
            stream.sink_to(CollectSink(self._counted(number)))
        configuration = env.get_configuration()
        plan = plan_graph(env.transformations.take_next_job(), configuration, "aligned", 1)
        settled = job_settings(configuration, plan)
        settled = replace(
            settled, limits=replace(settled.limits, max_records=SHARE, first_records=SHARE), restart=NO_RESTART
        )
        store = TemporaryStore()
        self.clock = ManualClock()
        job = PlannedJob(plan, blob_of(plan, store.storage), settled)
        self.manager = JobManager(job, LocalRuntime(), store, clock=self.clock)
        self.largest_drift = 0

    def _counted(self, number: int) -> Callable[[list[Any]], None]:
        def add(records: list[Any]) -> None:
            self.counts[number] += len(records)

        return add

    def run(self, epochs: int = 10_000, *, millis: int = 0, settled_after: int = 0) -> int:
        """Run to the end, or so many epochs, or until nothing happens.

        Args:
            epochs: how many at most.
            millis: how far the clock moves before each.
            settled_after: after how many the drift is looked at.

        Returns:
            The number of epochs that were run.
        """
        self.manager.open()
        try:
            for number in range(epochs):
                self.clock.advance(millis)
                if number == settled_after:
                    self.largest_drift = 0
                if self.manager.run_epoch() is None and not millis:
                    return number
                self._look()
                if self.manager.manifest is not None and self.manager.manifest.finished:
                    return number + 1
            return epochs
        finally:
            self.manager.wait_for_commits()
            self.manager.close()

    def _look(self) -> None:
        assert self.manager.manifest is not None
        reached = [
            watermark
            for source in self.manager.manifest.sources.values()
            for split in source.splits
            if not split.finished
            for watermark in split.watermarks.values()
            if watermark > MIN_WATERMARK
        ]
        self.largest_drift = max([self.largest_drift, *(max(reached) - time for time in reached)])
