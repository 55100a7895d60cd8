"""What the status model keeps of a run: points that become fewer as they age, parts of epochs, sizes of state."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headrace.common.constants import MIN_WATERMARK
from headrace.connectors.source import Pending
from headrace.jobmanager.epoch_reports import EpochReports
from headrace.jobmanager.events import EpochStarted, EpochStatistics, JobStart
from headrace.jobmanager.metrics import SplitProgress
from headrace.jobmanager.status import HistoryPoint, JobSnapshot, JobStatusStore, RunHistory, split_points
from headrace.jobmanager.workload import running_parts
from headrace.runtime.task.messages import TaskReport
from headrace.runtime.task.task_clock import TaskTimes

SECOND = 1_000_000_000


def point(time: int) -> HistoryPoint:
    return HistoryPoint(time, time, 1, 0, MIN_WATERMARK, None, {}, 0, 0, ())


@pytest.mark.parametrize("step", [100, 1_000, 60_000])
def test_a_run_of_any_length_has_few_points_that_are_evenly_spread(step: int) -> None:
    history = RunHistory()
    for time in range(0, step * 5_000, step):
        if history.is_due(time):
            history = history.after(point(time))
        assert len(history.points) <= 180
    times = [each.time for each in history.points]
    assert len(times) >= 80
    assert times[0] == 0
    assert times[-1] >= step * 4_999 - history.apart
    gaps = {after - before for before, after in pairwise(times)}
    assert max(gaps) <= max(history.apart, step) * 2


def times(stage: int, ended: float, operators: dict[str, float], partition: int = 0) -> TaskReport:
    spent = {uid: round(seconds * SECOND) for uid, seconds in operators.items()}
    return TaskReport(stage, partition, times=TaskTimes(1, stage, partition, round(ended * SECOND), spent, 0, 0, 0))


def test_the_last_task_of_each_stage_says_where_the_time_has_gone() -> None:
    reports = [
        times(0, 12.0, {"source": 1.5, "map": 0.25}),
        times(0, 11.0, {"source": 0.5}, partition=1),
        times(1, 15.0, {"window": 2.0}),
    ]
    parts = running_parts(frozenset({"source"}), reports, 10 * SECOND, 6.0)
    assert parts == (1.5, 2.25, 2.25)
    assert running_parts(frozenset(), [TaskReport(0, 0)], 0, 1.0) is None


def test_clocks_of_other_machines_do_not_make_more_of_the_time_than_there_is() -> None:
    reports = [times(0, 3.0, {"source": 9.0}), times(1, 99.0, {"window": 50.0})]
    parts = running_parts(frozenset({"source"}), reports, 10 * SECOND, 4.0)
    assert parts is not None
    assert sum(parts) == pytest.approx(4.0)
    assert parts.operating == pytest.approx(4.0)


def test_sizes_of_state_are_by_uid_name_and_task() -> None:
    reports = [
        TaskReport(1, 0, state_sizes={"sum": {"state/total": 5}}),
        TaskReport(1, 2, state_sizes={"sum": {"state/total": 7, "timers/event": 1}}),
        TaskReport(1, 1),
        TaskReport(0, 0),
    ]
    assert EpochReports(reports).state_sizes == {"sum": {"state/total": (5, 0, 7), "timers/event": (0, 0, 1)}}


def test_of_many_splits_those_are_kept_that_are_furthest_behind() -> None:
    splits = [SplitProgress("s", f"{n:04}", {"w": -n}, uid="s", pending=Pending(n)) for n in range(1_000)]
    kept = split_points(splits)
    assert len(kept) == 12
    assert {split.watermark for split in kept} == set(range(-999, -987))
    assert list(kept) == sorted(kept)


def test_a_snapshot_says_which_epoch_runs_and_ends_with_the_newest_point() -> None:
    store = JobStatusStore("job")
    store.publish(JobStart("job", "id"))
    for number in range(1, 4):
        store.publish(EpochStarted(number, 10))
        running = store.snapshot.running
        assert running is not None
        assert running.time >= store.snapshot.history[0].time
        store.publish(EpochStatistics(number, 10, 0.1, 0.2, 0.1, 0, 0, 0))
        assert store.snapshot.running is None
    job: JobSnapshot = store.snapshot
    assert [each.epoch for each in job.past.points] == [1]
    last = job.points()[-1]
    assert (last.epoch, last.records) in {(1, 10), (3, 30)}  # within a millisecond there is no other point
    assert all(epoch.ended for epoch in job.epochs)
