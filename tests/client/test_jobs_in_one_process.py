"""Several jobs at once in one process: each has its own status, metrics, events, settings and files."""

from __future__ import annotations

import os
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.client.running import current_defaults, submission_defaults
from headrace.common import Configuration, Types, WatermarkStrategy, archive_path
from headrace.common.errors import UserFunctionError
from headrace.common.job_status import JobStatus
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from headrace.jobmanager.events import EpochStatistics, JobEnd, JobStart
from headrace.jobmanager.metrics import MetricKey
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.jobmanager.events import JobEvent
    from headrace.jobmanager.status import JobSnapshot


class Measure(MapFunction):
    """Counts what it sees, and fails when it sees a number."""

    def __init__(self, step: int, fails_at: int | None = None) -> None:
        self.step, self.fails_at = step, fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        metrics = runtime_context.get_metrics_group()
        self.sum = metrics.counter("sum")
        metrics.gauge("step", lambda: self.step)

    def map(self, value: int) -> int:
        if value == self.fails_at:
            raise ValueError(f"it is {value}")
        self.sum.inc(self.step)
        return value


class Told:
    """The events of one job, and the snapshots that came with them."""

    def __init__(self) -> None:
        self.events: list[JobEvent] = []
        self.names: set[str] = set()
        self.threads: set[str] = set()

    def __call__(self, event: JobEvent, job: JobSnapshot) -> None:
        self.events.append(event)
        self.names.add(job.name)
        self.threads.add(threading.current_thread().name)


def environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    settings = {
        "headrace.runtime": "local",
        "headrace.epoch.max-records": "50",
        "headrace.epoch.target-duration": "60s",
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    return environment.set_parallelism(parallelism)


def started(name: str, told: Told, function: MapFunction, parallelism: int = 1) -> JobClient:
    """An endless job; the operators of all of them have the same names and uids."""
    env = environment(parallelism)
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(2000), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    mapped = numbers.key_by(lambda number: number, Types.LONG()).map(function, Types.LONG()).name("measure")
    mapped.uid("measure").filter(lambda number: False).uid("none").print().uid("out")
    with submission_defaults({}, told):
        return env.execute_async(name)


def test_two_jobs_have_statuses_metrics_and_events_of_their_own() -> None:
    of_one, of_two = Told(), Told()
    one, two = started("one", of_one, Measure(1), parallelism=2), started("two", of_two, Measure(1000))
    wait_for(lambda: all(client.get_metrics().result().get("measure.sum") for client in (one, two)))
    assert one.get_job_status().result() is two.get_job_status().result() is JobStatus.RUNNING
    assert one.get_job_id() != two.get_job_id()
    assert one.get_metrics().result()["measure.0.step"] == 1
    assert two.get_metrics().result()["measure.0.step"] == 1000

    one.stop().result(PATIENCE)
    epochs = two.get_accumulators().result()["numEpochs"]
    wait_for(lambda: two.get_accumulators().result()["numEpochs"] > epochs)
    assert (one.get_job_status().result(), two.get_job_status().result()) == (JobStatus.SUSPENDED, JobStatus.RUNNING)
    two.cancel().result(PATIENCE)
    assert two.get_job_status().result() is JobStatus.CANCELED

    for client, told, name, step in ((one, of_one, "one", 1), (two, of_two, "two", 1000)):
        assert told.names == {name}
        assert len([event for event in told.events if isinstance(event, JobStart)]) == 1
        assert isinstance(told.events[-1], JobEnd)
        completed = [event for event in told.events if isinstance(event, EpochStatistics)]
        assert [epoch.epoch for epoch in completed] == [*range(1, len(completed) + 1)]
        counters = client.get_accumulators().result()
        read = sum(epoch.records for epoch in completed)
        assert (counters["numRecordsRead"], counters["measure.numRecordsIn"]) == (read, read)
        assert counters["measure.sum"] == step * read
        assert f"headrace-job-{name}" in told.threads


def test_subtasks_are_told_apart() -> None:
    client = started("one", Told(), Measure(1), parallelism=2)
    wait_for(lambda: client.get_metrics().result().get("measure.numRecordsIn", 0) > 100)
    client.stop().result(PATIENCE)
    metrics = client._manager.metrics()
    for name in ("numRecordsIn", "sum"):
        both = [metrics[MetricKey("measure", subtask, name)] for subtask in range(2)]
        assert min(both) > 0
        assert metrics[MetricKey("measure", None, name)] == sum(both)
    assert MetricKey("measure", 1, "currentInputWatermark") in metrics


def test_a_job_that_fails_leaves_the_other_one_alone() -> None:
    of_one, of_two = Told(), Told()
    one, two = started("one", of_one, Measure(1, fails_at=200)), started("two", of_two, Measure(1))
    assert isinstance(one.get_job_execution_result().exception(PATIENCE), UserFunctionError)
    wait_for(lambda: two.get_accumulators().result().get("numRecordsRead", 0) > 200)
    assert (one.get_job_status().result(), two.get_job_status().result()) == (JobStatus.FAILED, JobStatus.RUNNING)
    assert [failure.error for failure in one.get_exception_history().result()] == ["UserFunctionError"]
    assert two.get_exception_history().result() == []
    two.stop().result(PATIENCE)


def in_threads(*work: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def run(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []


def test_programs_in_threads_have_settings_and_listeners_of_their_own() -> None:
    meeting = threading.Barrier(2)

    def program(parallelism: int) -> Callable[[], None]:
        def run() -> None:
            told = Told()
            with submission_defaults({"pipeline.name": f"with {parallelism}"}, told):
                meeting.wait(PATIENCE)  # both have entered before one of them submits
                env = environment(parallelism)
                env.from_sequence(1, 100).filter(lambda number: False).print()
                env.execute()
                meeting.wait(PATIENCE)
            assert told.names == {f"with {parallelism}"}

        return run

    in_threads(program(1), program(2))


@pytest.mark.parametrize("whole_process", [True, False])
def test_threads_of_a_program_get_what_holds_for_the_whole_process(*, whole_process: bool) -> None:
    found: list[bool] = []
    with submission_defaults({"pipeline.name": "outer"}, whole_process=whole_process):
        in_threads(lambda: found.append("pipeline.name" in current_defaults().settings))
        assert current_defaults().settings == {"pipeline.name": "outer"}
    assert found == [whole_process]
    assert current_defaults().settings == {}


def test_jobs_find_their_own_archives_and_leave_the_working_directory_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").write_text("the program's own")
    wrong: list[str] = []

    def archive(name: str) -> Path:
        path = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("name.txt", name)
        return path

    def with_archive(name: str) -> Callable[[], None]:
        path = archive(name)

        def look(_: int) -> str:
            time.sleep(0.001)  # so that the others run meanwhile
            return Path("data/name.txt").read_text() + "/" + (archive_path("data") / "name.txt").read_text()

        def run() -> None:
            env = environment()
            env.add_python_archive(str(path), "data")
            found = set(env.from_sequence(1, 300).map(look, output_type=str).execute_and_collect(limit=300))
            wrong.extend(found - {f"{name}/{name}"})

        return run

    def without() -> None:
        def look(_: int) -> str:
            time.sleep(0.001)
            return Path("here.txt").read_text()

        found = set(environment().from_sequence(1, 300).map(look, output_type=str).execute_and_collect(limit=300))
        wrong.extend(found - {"the program's own"})

    in_threads(with_archive("one"), with_archive("two"), without)
    assert wrong == []
    assert Path(os.getcwd()) == tmp_path
