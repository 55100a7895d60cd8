"""``execute_and_collect`` and ``to_dataframe``: records for the program."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import (
    InvalidProgramError,
    InvalidTypeError,
    JobCancelledError,
    JobExecutionError,
    UnsupportedOperationError,
)
from headrace.connectors.driver_sink import CollectSink, PrintSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.graph.specs import SinkSpec
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.connectors.sink import Sink
    from headrace.datastream.data_stream import DataStream
    from tests.datastream.conftest import Job, Submissions


def receiver_of(job: Job) -> Any:
    """What the job's collect sink calls with the records of an epoch."""
    spec = list(job.graph)[-1].spec
    assert isinstance(spec, SinkSpec)
    assert isinstance(spec.sink, CollectSink)
    take: Any = spec.sink._take
    return take.args[0]


@pytest.fixture
def running(jobs: Submissions) -> Submissions:
    jobs.finish_at_once = False
    return jobs


def test_records_come_epoch_by_epoch(env: StreamExecutionEnvironment, running: Submissions) -> None:
    records = env.from_sequence(1, 4).execute_and_collect("numbers")
    (job,) = running
    receive = receiver_of(job)
    receive([1, 2])
    assert (next(records), records.next()) == (1, 2)
    receive([None])
    receive([3])
    job.finish()
    assert list(records) == [None, 3]
    assert next(records, "end") == "end"
    records.close()
    assert not job.is_cancelled
    assert (job.name, list(job.graph)[-1].name) == ("numbers", "Collect")
    assert records.get_job_client() is job


def test_program_waits_for_records(env: StreamExecutionEnvironment, running: Submissions) -> None:
    records = env.from_sequence(1, 4).execute_and_collect()
    timer = threading.Timer(0.05, lambda: (receiver_of(running[0])([1]), running[0].finish()))
    timer.start()
    assert list(records) == [1]
    timer.join()


def test_failure_comes_after_the_records_before_it(env: StreamExecutionEnvironment, running: Submissions) -> None:
    records = env.from_sequence(1, 4).execute_and_collect()
    receiver_of(running[0])([1])
    running[0].result.set_exception(JobExecutionError("broken"))
    assert next(records) == 1
    with pytest.raises(JobExecutionError, match="broken"):
        next(records)


def test_a_job_that_a_signal_stops_has_no_results_that_look_complete(
    env: StreamExecutionEnvironment, running: Submissions
) -> None:
    records = env.from_sequence(1, 4).execute_and_collect()
    receiver_of(running[0])([1])
    running[0].interrupted = JobCancelledError("stopped by a signal")
    running[0].finish()
    assert next(records) == 1
    with pytest.raises(JobCancelledError, match="stopped by a signal"):
        next(records)
    records.close()
    assert list(records) == []


def test_closing_cancels_a_running_job(env: StreamExecutionEnvironment, running: Submissions) -> None:
    with env.from_sequence(1, 4).execute_and_collect() as records:
        receive = receiver_of(running[0])
        receive([1, 2, 3])
        assert next(records) == 1
    assert running[0].is_cancelled
    assert list(records) == []
    records.close()


def test_job_waits_for_the_program_until_it_wants_no_more(
    env: StreamExecutionEnvironment, running: Submissions
) -> None:
    records = env.from_sequence(1, 4).execute_and_collect()
    receive = receiver_of(running[0])
    handed: list[int] = []

    def run() -> None:
        for number in range(20):
            receive([number])
            handed.append(number)

    job = threading.Thread(target=run)
    job.start()
    job.join(0.1)
    assert len(handed) == 4
    assert next(records) == 0
    job.join(0.1)
    assert len(handed) == 5
    records.close()
    job.join(PATIENCE)
    assert len(handed) == 20


def test_limit_gives_a_list_and_cancels(env: StreamExecutionEnvironment, running: Submissions) -> None:
    timer = threading.Timer(0.05, lambda: receiver_of(running[0])([1, 2, 3]))
    timer.start()
    assert env.from_sequence(1, 4).execute_and_collect(limit=2) == [1, 2]
    timer.join()
    assert running[0].is_cancelled


def test_limit_above_what_there_is(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    assert env.from_sequence(1, 4).execute_and_collect("numbers", 5) == []
    assert not jobs[0].is_cancelled


@pytest.mark.parametrize("limit", ["a", 2.0, True])
def test_limit_has_to_be_a_number(env: StreamExecutionEnvironment, limit: Any) -> None:
    with pytest.raises(InvalidTypeError, match=rf"^limit takes an int, not {limit!r}\n  at {__file__}"):
        env.from_sequence(1, 4).execute_and_collect(limit=limit)


def test_limit_has_to_be_positive(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    with pytest.raises(InvalidProgramError, match="above zero"):
        env.from_sequence(1, 4).execute_and_collect(limit=0)
    assert not jobs


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (lambda stream: stream.execute_and_collect(3), r"name first, not 3: write execute_and_collect\(limit=3\)\n"),
        (lambda stream: stream.execute_and_collect(["name"]), r"name first, not \['name'\]\n"),
        (lambda stream: stream.to_dataframe(3), r"to_dataframe takes a str, not 3\n"),
        (lambda stream: stream.get_execution_environment().execute(3), r"execute takes a str, not 3\n"),
        (lambda stream: stream.get_execution_environment().execute_async(stream), r"takes a str, not DataStream"),
    ],
)
def test_the_name_of_a_job_is_text(
    env: StreamExecutionEnvironment, jobs: Submissions, run: Callable[..., Any], said: str
) -> None:
    numbers = env.from_collection([1, 2]).filter(bool)
    with pytest.raises(InvalidTypeError, match=said):
        run(numbers)
    assert repr(env) == "StreamExecutionEnvironment(1 operator for the next job)"  # no sink was left behind
    assert numbers.execute_and_collect(limit=1) == []
    assert len(jobs) == 1


def test_what_is_shown_of_records_that_come(env: StreamExecutionEnvironment, running: Submissions) -> None:
    records = env.from_collection([1, 2]).execute_and_collect("numbers")
    assert repr(records) == f"CloseableIterator({records.get_job_client()!r})"
    assert repr(env) == "StreamExecutionEnvironment(0 operators for the next job)"


def test_keyed_streams_can_be_collected(env: StreamExecutionEnvironment, jobs: Submissions) -> None:
    assert list(env.from_sequence(1, 4).key_by(lambda x: x).execute_and_collect()) == []


made: list[tuple[Any, Configuration]] = []


def target(type_info: Any, configuration: Configuration) -> tuple[Sink, Callable[[], str]]:
    """Stands for what the client writes DataFrames with."""
    made.append((type_info, configuration))
    return PrintSink("dataframe"), lambda: "the frame"


def test_dataframe(env: StreamExecutionEnvironment, jobs: Submissions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.dataframe.dataframe_sink", target)
    assert env.from_sequence(1, 4).to_dataframe("frame") == "the frame"
    assert made == [(Types.LONG(), Configuration())]
    assert jobs[0].name == "frame"
    assert list(jobs[0].graph)[-1].name == "Sink: PrintSink"


def test_no_dataframe_of_a_job_that_a_signal_has_stopped(
    env: StreamExecutionEnvironment, jobs: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.dataframe.dataframe_sink", target)
    stopped = JobCancelledError("stopped by a signal")
    monkeypatch.setattr("tests.datastream.conftest.Job.interruption", lambda job: stopped)
    with pytest.raises(JobCancelledError, match="stopped by a signal"):
        env.from_sequence(1, 4).to_dataframe("frame")


def test_dataframe_of_an_endless_stream(endless: DataStream) -> None:
    with pytest.raises(InvalidProgramError, match="source 'endless' is unbounded"):
        endless.to_dataframe()


def test_dataframe_without_spark() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    with pytest.raises(UnsupportedOperationError, match=r"needs Spark; .* use execute_and_collect\(\)"):
        env.from_sequence(1, 4).to_dataframe()


def test_a_job_whose_records_nobody_takes_any_more_is_cancelled(
    env: StreamExecutionEnvironment, running: Submissions
) -> None:
    """As soon as nobody has the iterator: the job does not keep it."""
    records = env.from_sequence(1, 4).execute_and_collect()
    receiver_of(running[0])([1])
    assert next(records) == 1
    with pytest.warns(ResourceWarning, match=r"is cancelled: close\(\) what execute_and_collect"):
        del records
    with pytest.raises(JobExecutionError, match="cancelled"):
        running[0].result.result(PATIENCE)
    assert running[0].is_cancelled


def test_a_job_with_other_outputs_goes_on_without_those_that_nobody_takes(
    env: StreamExecutionEnvironment, running: Submissions
) -> None:
    records = env.from_sequence(1, 4).collect_async()
    env.execute_async()
    receive = receiver_of(running[0])
    del records
    for number in range(10):
        receive([number])
    assert not running[0].is_cancelled
    running[0].finish()


def test_an_iterator_that_has_come_to_its_end_may_be_dropped(
    env: StreamExecutionEnvironment, jobs: Submissions
) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        assert list(env.from_sequence(1, 4).execute_and_collect()) == []
        env.from_sequence(1, 4).execute_and_collect().close()
        gc.collect()
    assert [str(warning.message) for warning in told if "execute_and_collect" in str(warning.message)] == []
