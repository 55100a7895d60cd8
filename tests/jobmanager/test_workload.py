"""Where the time of operators goes, and how fast their counters grow."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.submission import plan_graph
from headrace.common import Configuration, Types
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.jobmanager.metrics import MetricKey
from headrace.jobmanager.workload import EpochTimes, OperatorTimes, Reading, TimeKeeper, TimeSpent, Workload
from headrace.plan.job_plan import JobPlan
from headrace.runtime.task.messages import TaskReport
from headrace.runtime.task.task_clock import TaskTimes

S = 1_000_000_000


def plan() -> JobPlan:
    """A source, a map, and behind a shuffle another map and a sink."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    numbers = env.from_collection([1, 2]).uid("source").map(lambda n: n, Types.LONG()).uid("first")
    keyed = numbers.key_by(lambda n: n).map(lambda n: n, Types.LONG()).uid("second")
    keyed.sink_to(CollectSink(lambda _: None)).uid("sink")
    return plan_graph(env.transformations.take_next_job(), env.get_configuration(), "job", 1)


def task(stage: int, ended: int, waiting_for_output: int = 0, **busy: int) -> TaskReport:
    """A task that has ended after so many seconds; the other numbers are seconds as well."""
    spent = {uid: seconds * S for uid, seconds in busy.items()}
    times = TaskTimes(1, stage, 0, ended * S, spent, 0, 0, waiting_for_output * S)
    return TaskReport(stage, 0, times=times)


def spent(
    tasks: Sequence[TaskReport], *, is_full: bool = True, known: OperatorTimes | None = None
) -> dict[str, list[int]]:
    """By operator, how many seconds of an epoch of ten it was busy, idle and back-pressured."""
    found = TimeKeeper(plan()).after(known or {}, tasks, EpochTimes(0, 10 * S, is_full))
    return {
        uid: [nanos // S for nanos in times[0]] for uid, times in found.items() if uid in ("first", "second", "sink")
    }


def test_an_operator_waits_for_those_behind_it() -> None:
    # Stage 0 works from 1 to 3 s, stage 1 until 9 s; then comes the checkpoint.
    tasks = [task(0, 3, source=1, first=1), task(1, 9, second=4, sink=2)]
    assert spent(tasks) == {"first": [1, 2, 7], "second": [4, 3, 3], "sink": [2, 7, 1]}


def test_without_more_to_do_nothing_is_back_pressured() -> None:
    tasks = [task(0, 3, source=1, first=1), task(1, 9, second=4, sink=2)]
    assert spent(tasks, is_full=False) == {"first": [1, 9, 0], "second": [4, 6, 0], "sink": [2, 8, 0]}


def test_waiting_for_who_takes_the_output_is_back_pressure() -> None:
    tasks = [task(0, 9, waiting_for_output=5, source=1, first=3), task(1, 10, second=1, sink=0)]
    assert spent(tasks)["first"] == [3, 1, 6]


def test_a_machine_whose_clock_is_wrong_makes_no_time() -> None:
    tasks = [task(0, 3000, source=1, first=1), task(1, -3000, second=4, sink=2)]
    assert spent(tasks) == {"first": [1, 9, 0], "second": [4, 0, 6], "sink": [2, 0, 8]}


def test_epochs_add_up_and_a_runtime_that_tells_nothing_changes_nothing() -> None:
    known = {"first": (TimeSpent(S, S, S),), "gone": (TimeSpent(S, S, S),)}
    assert spent([task(0, 3, first=1), task(1, 9, second=4)], known=known)["first"] == [2, 3, 8]
    assert spent([TaskReport(0, 0), TaskReport(1, 0)], known=known) == {"first": [1, 1, 1]}


def workload(*readings: tuple[int, int, int]) -> Workload:
    """What an operator has done up to some seconds: records, and seconds of work."""
    found = Workload()
    for second, records, busy in readings:
        times = {"a": (TimeSpent(busy * S, (second - busy) * S, 0), TimeSpent(0, busy * S, (second - busy) * S))}
        found = found.after(Reading(second * 1000, {"a": {"numRecordsIn": (records, 0)}}, times))
    return found


def test_rates_are_over_the_last_minute() -> None:
    known = workload((0, 1000, 0), (30, 1600, 15), (60, 2200, 30), (90, 8200, 60))
    metrics = known.metrics(90_000)
    assert metrics[MetricKey("a", 0, "numRecordsInPerSecond")] == (8200 - 1600) / 60
    assert metrics[MetricKey("a", None, "numRecordsInPerSecond")] == (8200 - 1600) / 60
    assert metrics[MetricKey("a", 0, "busyTimeMsPerSecond")] == 45_000 / 60
    assert metrics[MetricKey("a", 1, "busyTimeMsPerSecond")] == 0
    assert metrics[MetricKey("a", 0, "backPressuredTimeMsPerSecond")] == 0
    assert metrics[MetricKey("a", None, "idleTimeMsPerSecond")] == 45_000 / 60, "that of the subtask that has most"
    assert metrics[MetricKey("a", None, "accumulateBusyTimeMs")] == 60_000
    later = known.metrics(200_000)  # nothing came for a minute
    assert later[MetricKey("a", 0, "numRecordsInPerSecond")] == later[MetricKey("a", 0, "busyTimeMsPerSecond")] == 0
    assert later[MetricKey("a", 0, "idleTimeMsPerSecond")] == 1000


def test_of_many_epochs_a_few_readings_are_kept() -> None:
    known = workload(*((second, second, 0) for second in range(1000)))
    assert 12 <= len(known.readings) <= 15
    assert known.metrics(999_000)[MetricKey("a", 0, "numRecordsInPerSecond")] == 1
    assert Workload().metrics(0) == {}
