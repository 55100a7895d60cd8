"""What operators have cached outlasts their chains in a process, changes no result, and is dropped with what failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common import Duration, WatermarkStrategy
from headrace.common.time import Time
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment, aggregates
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.jobmanager.job_manager import JobManager
from headrace.runtime.task import operator_chain
from headrace.runtime.task.messages import EpochContext, TaskReport
from headrace.state.runs import key_dictionary
from headrace.testing.pushed import RecordingSink
from tests.runtime.task.two_workers import Attempts, TwoWorkers, run_job

RECORDS = [(number * 7 % 13, number * 100, number) for number in range(400)]
ROW = Types.ROW_NAMED(["key", "at", "value"], [Types.LONG(), Types.LONG(), Types.LONG()])


class Watched(TwoWorkers):
    """Keeps the context of the last epoch."""

    def run_epoch(self, context: EpochContext) -> list[TaskReport]:
        self.context = context
        return super().run_epoch(context)


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_dictionary, "FEWEST_ROWS", 1)


def job(attempts: Attempts, folder: Path, sink: RecordingSink) -> tuple[JobManager, Watched]:
    """Sums of windows, of 50 records an epoch."""

    def build(env: StreamExecutionEnvironment) -> None:
        times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner("at")
        read = env.from_collection([*RECORDS], ROW).uid("read").assign_timestamps_and_watermarks(times)
        windows = read.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(12)))
        windows.aggregate(aggregates.sum("value").alias("s")).uid("windows").sink_to(sink).uid("out")

    runtime = Watched(attempts)
    limit = {
        "headrace.epoch.max-records": "50",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.first-records": "50",
    }
    return run_job(build, runtime, folder, limit), runtime


def results(attempts: Attempts, folder: Path) -> list[Any]:
    sink = RecordingSink()
    manager, _ = job(attempts, folder, sink)
    manager.run()
    return [record for record, _ in sink.records]


def run_epochs(manager: JobManager, count: int) -> None:
    manager.open()
    for _ in range(count):
        manager.run_epoch()


def changes_places(epoch: int) -> list[tuple[int, ...]]:
    return [(epoch % 2,)]


def test_results_are_the_same_wherever_tasks_run(tmp_path: Path) -> None:
    stays = results(lambda _: [(0,)], tmp_path / "stays")
    moves = results(changes_places, tmp_path / "moves")
    assert moves == stays
    assert len(stays) == 4 * 13


@pytest.mark.parametrize(("most_bytes", "is_kept"), [(1 << 20, True), (0, False)])
def test_a_task_that_comes_back_knows_the_keys_of_before(
    most_bytes: int, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker meets the keys once; every time where nothing may be left."""
    added: list[int] = []
    add = key_dictionary.KeyDictionary._add

    def watched(self: key_dictionary.KeyDictionary, hashes: Any, keys: Any) -> Any:
        added.append(len(hashes))
        return add(self, hashes, keys)

    monkeypatch.setattr(operator_chain, "_MOST_CACHED_BYTES", most_bytes)
    monkeypatch.setattr(key_dictionary.KeyDictionary, "_add", watched)
    manager, _ = job(changes_places, tmp_path, RecordingSink())
    run_epochs(manager, 6)
    assert (added == [13, 13]) is is_kept
    manager.close()


def test_what_a_chain_has_learnt_that_failed_is_dropped(tmp_path: Path) -> None:
    manager, runtime = job(lambda _: [(0,)], tmp_path, RecordingSink())
    run_epochs(manager, 2)
    cache, context = runtime.workers[0]._cache, runtime.context
    (task,) = [task for task, (chain, _) in cache._chains.items() if "windows" in chain.cache]
    cache._retire(task, cache._chains.pop(task)[0])
    failed = cache.take(*task, context)
    assert failed.cache["windows"]
    failed.drop()
    again = cache.take(*task, context)
    again.open()
    assert all(again.cache["windows"][name] is not kept for name, kept in failed.cache["windows"].items())
    manager.close()
