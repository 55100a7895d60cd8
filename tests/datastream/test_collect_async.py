"""``collect_async``: the records of several streams of one job, for the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import InvalidProgramError, UserFunctionError
from headrace.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from headrace.datastream.data_stream import CloseableIterator


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    settings = {
        "headrace.runtime": "local",
        "headrace.epoch.max-records": "10",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.first-records": "10",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)


def halves(env: StreamExecutionEnvironment, count: int) -> tuple[CloseableIterator[Any], CloseableIterator[Any]]:
    """The even and the odd numbers of a sequence, in epochs of ten records each."""
    numbers = env.from_sequence(0, count - 1)
    even = numbers.filter(lambda number: number % 2 == 0)
    return even.collect_async(), numbers.filter(lambda number: number % 2 == 1).collect_async()


def test_streams_are_taken_while_the_job_runs(env: StreamExecutionEnvironment) -> None:
    even, odd = halves(env, 300)
    client = env.execute_async()
    assert [number for pair in zip(even, odd, strict=True) for number in pair] == list(range(300))
    assert even.get_job_client() is odd.get_job_client() is client
    assert next(even, "end") == "end"


def test_with_execute_everything_is_kept_until_the_program_takes_it(env: StreamExecutionEnvironment) -> None:
    even, odd = halves(env, 300)
    env.execute()
    assert list(odd) == list(range(1, 300, 2))
    assert list(even) == list(range(0, 300, 2))


def test_records_belong_to_the_job_they_were_asked_of(env: StreamExecutionEnvironment) -> None:
    first = env.from_collection([1]).collect_async()
    env.execute()
    second = env.from_collection([2]).collect_async()
    env.execute()
    assert (list(first), list(second)) == ([1], [2])


def test_before_the_job_there_are_none(env: StreamExecutionEnvironment) -> None:
    records = env.from_collection([1, 2]).collect_async()
    assert repr(records) == "CloseableIterator(no job yet)"
    assert "no job yet" in records._repr_html_()
    with pytest.raises(InvalidProgramError, match=r"call execute_async\(\) before"):
        next(records)
    env.execute()
    assert list(records) == [1, 2]


def test_of_a_job_that_cannot_be_started_there_are_none(env: StreamExecutionEnvironment) -> None:
    of_refused = env.from_collection([1]).uid("twice").map(abs, output_type=int).uid("twice").collect_async()
    with pytest.raises(InvalidProgramError, match="twice"):
        env.execute()
    env.from_collection([2]).print()
    env.execute()
    with pytest.raises(InvalidProgramError, match="the job was not started"):
        next(of_refused)


def test_who_wants_no_more_holds_nobody_up(env: StreamExecutionEnvironment) -> None:
    even, odd = halves(env, 300)
    even._handover.close()
    env.execute_async()
    assert list(odd) == list(range(1, 300, 2))
    even.close()
    odd.close()


def test_closing_ends_the_job(env: StreamExecutionEnvironment) -> None:
    even, odd = halves(env, 100_000)
    client = env.execute_async()
    assert next(odd) == 1
    odd.close()
    assert client.get_job_execution_result().done()
    even.close()


def test_what_made_the_job_fail_comes_after_the_records_before(env: StreamExecutionEnvironment) -> None:
    results = env.from_sequence(-15, 5).map(lambda number: 1 // number, output_type=int).collect_async()
    env.execute_async()
    taken = []
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        taken.extend(results)
    assert taken == [-1] * len(taken)
    assert len(taken) == 10
