"""Requests: how many at a time, in which order, for how long, and which functions a program may give."""

from __future__ import annotations

import asyncio
import gc
import re
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.errors import InvalidProgramError, InvalidTypeError, UserFunctionError
from headrace.datastream import (
    AsyncBatchFunction,
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    RuntimeContext,
)
from headrace.datastream.state import ValueStateDescriptor
from headrace.operators.asynchronous import requesting_operator, requests
from headrace.operators.asynchronous.requesting_operator import AsyncOperator
from headrace.operators.asynchronous.requests import RequestSettings
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY
from headrace.operators.base import OperatorContext
from headrace.testing import JobHarness
from tests.operators.asynchronous.services import (
    LONG,
    MINUTE,
    Never,
    Service,
    Wait,
    answers,
    asked,
    asking,
    batch_of,
    environment,
    harness,
    in_flight,
    turns,
)

WAYS = [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait]
both_ways = pytest.mark.parametrize("wait", WAYS, ids=["ordered", "unordered"])


# --- order and capacity ----------------------------------------------------------------------------------------------


class LastFirst(Service):
    """Each request of five waits for the one behind it."""

    async def answer(self, value: int) -> list[int]:
        while value % 5 < 4 and (value + 1 in in_flight or value + 1 not in asked):
            await asyncio.sleep(0)
        return [value, value]


@both_ways
def test_results_leave_in_the_order_of_their_records(wait: Wait) -> None:
    numbers = list(range(20))
    assert answers(asking(wait, LastFirst()), numbers) == [number for number in numbers for _ in range(2)]


class Together(Service):
    """No request ends before there are three."""

    async def open(self, runtime_context: RuntimeContext) -> None:
        self.barrier = asyncio.Barrier(3)

    async def answer(self, value: int) -> list[int]:
        await self.barrier.wait()
        return [len(in_flight)]


@both_ways
def test_as_many_requests_are_in_flight_as_may_be(wait: Wait) -> None:
    assert max(answers(asking(wait, Together(), capacity=3), list(range(12)))) == 3


class SlowHead(Service):
    """The first request ends when all others have."""

    async def answer(self, value: int) -> list[int]:
        while value == 0 and (len(asked) < 50 or len(in_flight) > 1):
            await asyncio.sleep(0)
        return [value]


def test_nothing_waits_for_a_slow_request() -> None:
    numbers = list(range(50))
    assert answers(asking(AsyncDataStream.unordered_wait, SlowHead(), capacity=2), numbers) == numbers


class Window(Service):
    """The first request waits until no other one can go on; it says how many records were asked for by then."""

    async def answer(self, value: int) -> list[int]:
        if value == 0:
            await turns()
        return [len(asked)]


def test_ordered_requests_are_for_consecutive_records() -> None:
    assert answers(asking(AsyncDataStream.ordered_wait, Window(), capacity=4), list(range(9)))[0] == 4


@pytest.mark.sampled(1)
@both_ways
def test_no_more_records_wait_for_a_slow_service_than_may(wait: Wait) -> None:
    settings = RequestSettings(0, 10, wait is AsyncDataStream.ordered_wait, NO_RETRY_STRATEGY)
    operator, gone = AsyncOperator(Service(), LONG, settings), Gone()
    operator.open(OperatorContext("service", "s", 0, 1, 128, UNKNOWN_CALL_SITE), gone)
    most = 10 if settings.is_ordered else 4096
    for fed in range(100, 10_000, 100):
        operator.process(0, batch_of(list(range(100))))
        assert fed - gone.records <= most
    operator.advance_watermark(7)
    assert (gone.records, gone.watermark) == (9_900, 7)
    operator.close()


class Gone:
    """Counts what an operator emits."""

    def __init__(self) -> None:
        self.records = 0
        self.watermark = 0

    def emit(self, batch: Any) -> None:
        self.records += len(batch)

    def emit_side(self, tag_id: str, batch: Any) -> None:
        raise AssertionError(tag_id)

    def advance_watermark(self, watermark: int) -> None:
        self.watermark = watermark


# --- results ---------------------------------------------------------------------------------------------------------


def test_any_number_of_results_under_the_time_of_the_record() -> None:
    async def so_many(number: int) -> list[int]:
        return [number] * number

    with harness(lambda stream: AsyncDataStream.unordered_wait(stream, so_many, MINUTE)) as job:
        for number in (2, 0, 1):
            job.push("in", number, timestamp=number * 10)
        job.run_epoch()
        assert job.results_with_timestamps("out") == [(2, 20), (2, 20), (1, 10)]


@both_ways
def test_branches_meet_again_in_the_order_of_the_records(wait: Wait) -> None:
    def job(job: JobHarness, *, is_async: bool) -> None:
        numbers = job.add_source("in", LONG)
        first = wait(numbers, Service(), MINUTE, 1, LONG) if is_async else numbers.map(int, LONG)
        both = first.union(numbers.map(lambda number: -number, LONG)).map(int, LONG)
        job.add_sink("out", both)

    found = []
    for is_async in (True, False):
        with JobHarness(partial(job, is_async=is_async)) as running:
            running.push_all("in", [1, 2, 3])
            running.run_epoch()
            found.append(running.take("out"))
    assert found[0] == found[1]
    assert sorted(found[0]) == [-3, -2, -1, 1, 2, 3]


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "The result of AsyncFunction cannot be none: return a list, [] where a record has none"),
        ("text", "should be of list type, not a str"),
        (7, "should be of list type, not an int"),
    ],
)
def test_a_function_that_returns_no_list_is_told(returned: Any, told: str) -> None:
    async def wrong(number: int) -> Any:
        return returned

    with pytest.raises(UserFunctionError, match=re.escape(told)) as raised:
        answers(asking(AsyncDataStream.unordered_wait, wrong), [5])
    assert "record: 5" in str(raised.value)
    assert re.search(r"returned by .*test_async_functions.py:\d+ in wrong", str(raised.value))


def test_an_async_function_of_a_keyed_stream_has_no_state() -> None:
    class Stateful(Service):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("x", LONG))

    with pytest.raises(InvalidProgramError, match=r"get_state: keyed state .* functions that are awaited have none"):
        answers(lambda stream: AsyncDataStream.unordered_wait(stream.key_by(lambda n: n, LONG), Stateful(), 0), [1])


# --- time ------------------------------------------------------------------------------------------------------------


@both_ways
def test_what_takes_too_long_is_replaced_and_holds_up_no_other(wait: Wait) -> None:
    with harness(asking(wait, Never(2, 4), capacity=2, timeout=20)) as job:
        job.push_all("in", [1, 2, 3, 4, 5])
        job.run_epoch()
        assert job.take("out") == [1, -2, 3, -4, 5]
        assert job.counters()["numAsyncTimeouts"] == 2
        assert in_flight == set()  # those were ended


def test_without_a_replacement_the_job_fails() -> None:
    class Mute(Service):
        async def answer(self, value: int) -> list[int]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(UserFunctionError, match=r"result in time.*called for 7.*\(the timeout is \d+ ms\)") as raised:
        answers(asking(AsyncDataStream.unordered_wait, Mute(), timeout=5), [7])
    assert "record: 7" in str(raised.value)


def test_a_plain_function_without_a_result_in_time() -> None:
    async def never(number: int) -> list[int]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(UserFunctionError, match=r"there is no result in time: give more time"):
        answers(asking(AsyncDataStream.unordered_wait, never, timeout=5), [7])


@both_ways
def test_a_function_that_goes_on_though_its_time_is_over_is_told(wait: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_STUCK_SECONDS", 0.01)
    monkeypatch.setattr(requests, "_ENDING_SECONDS", 0.01)

    async def stubborn(number: int) -> list[int]:
        while number == 7:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.001)
        return [number]

    with pytest.raises(UserFunctionError, match="it goes on although it was cancelled") as raised:
        answers(asking(wait, stubborn, timeout=5), [1, 7, 2])
    assert "record: 7" in str(raised.value)


def test_a_function_that_cancels_the_requests_of_others_is_told() -> None:
    """One that has not begun cannot tell of it itself: the job waited for ever."""

    async def cancels_all(number: int) -> list[int]:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return [number]

    with pytest.raises(UserFunctionError, match="a request was cancelled before it began"):
        answers(asking(AsyncDataStream.unordered_wait, cancels_all), [1, 2, 3])


def test_what_is_wrong_with_the_results_of_a_timeout_is_told_of_that_method() -> None:
    class Forgetful(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.Event().wait()
            return []

        def timeout(self, value: int) -> list[int]:
            return None  # type: ignore[return-value]

    with pytest.raises(
        UserFunctionError,
        match=r"The result of AsyncFunction cannot be none(.|\n)*test_async_functions.py:\d+ in timeout",
    ):
        answers(asking(AsyncDataStream.unordered_wait, Forgetful(), timeout=5), [7])


def test_a_timeout_of_the_service_itself_is_an_error_like_others() -> None:
    class Gives(Never):
        async def answer(self, value: int) -> list[int]:
            raise TimeoutError("the service gives up")

    with pytest.raises(UserFunctionError, match="the service gives up"):
        answers(asking(AsyncDataStream.unordered_wait, Gives()), [7])


class AsSlow(Never):
    """Awaits what is to be given in place of its results, and of 4 that never comes either."""

    async def timeout(self, value: int) -> list[int]:  # type: ignore[override]
        if value == 4:
            await asyncio.Event().wait()
        return [-value]


def test_what_is_given_in_place_may_be_awaited_for_as_long() -> None:
    assert answers(asking(AsyncDataStream.unordered_wait, AsSlow(2), timeout=20), [1, 2]) == [1, -2]
    with pytest.raises(UserFunctionError, match="no result in time, and timeout gives none within 20 ms") as raised:
        answers(asking(AsyncDataStream.unordered_wait, AsSlow(4), timeout=20), [1, 4])
    assert "record: 4" in str(raised.value)


class Late(Never):
    """Gives a result when it is cancelled."""

    async def answer(self, value: int) -> list[int]:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return [value]


def test_a_result_that_comes_too_late_is_none() -> None:
    assert answers(asking(AsyncDataStream.unordered_wait, Late(), timeout=5), [7]) == [-7]


# --- the program -----------------------------------------------------------------------------------------------------


def applied(function: Any, **arguments: Any) -> DataStream:
    numbers = environment().from_sequence(1, 2)
    return AsyncDataStream.unordered_wait(numbers, function, **{"timeout": 1000, **arguments})


def test_the_type_of_the_results_follows_from_annotations() -> None:
    class Texts(AsyncFunction):
        async def async_invoke(self, value: int) -> list[str]:
            return [str(value)]

    assert applied(Texts()).get_type() == Types.STRING()


async def not_awaited(number: int) -> Any:
    return asyncio.sleep(0, [number])


async def with_a_coroutine(number: int) -> Any:
    return [asyncio.sleep(0, number)]


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited")
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (not_awaited, "should be of list type, not a coroutine: await it"),
        (with_a_coroutine, "a value, and not what gives one when it is awaited: write await"),
    ],
)
def test_what_is_not_awaited_is_told(function: Any, told: str) -> None:
    with pytest.raises(UserFunctionError, match=told):
        applied(function).execute_and_collect(limit=1)
    gc.collect()  # the warning comes while it is expected, not in a later test


def plain(number: int) -> list[int]:
    return [number]


async def yields(number: int) -> Any:
    yield number


async def of_two(number: int, more: int) -> list[int]:
    return [number, more]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (plain, "async_invoke is awaited: write async def instead of def"),
        (yields, "async_invoke returns a list, and yields nothing"),
        (of_two, "does not take what async_invoke is called with: write a function of (value)"),
        (Service, "expected an AsyncFunction, got the class itself: write Service()"),
        (7, "expected an AsyncFunction or an async def of its records, got 7"),
        (AsyncBatchFunction, "expected an AsyncBatchFunction, got the class itself"),
    ],
)
def test_functions_that_are_refused(function: Any, told: str) -> None:
    with pytest.raises(InvalidTypeError, match=re.escape(told)) as raised:
        applied(function)
    assert "test_async_functions.py" in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"capacity": 0}, "capacity: at least one request has to be in flight, not 0"),
        ({"timeout": -1}, "timeout: it cannot be negative, -1 ms"),
        ({"timeout": 0.5}, "timeout: expected a Duration, a Time, a datetime.timedelta or milliseconds as an int"),
    ],
)
def test_settings_that_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(told)):
        applied(Service(), **arguments)


def test_the_plan_says_that_results_may_differ() -> None:
    stream = applied(Service())
    stream.print()
    assert "not deterministic" in stream.get_execution_environment().explain()


class NeverClosed(Service):
    async def close(self) -> None:
        await asyncio.Event().wait()


def test_a_close_that_never_returns_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requesting_operator, "_CLOSE_SECONDS", 0.01)
    assert answers(asking(AsyncDataStream.ordered_wait, NeverClosed()), [1, 2]) == [1, 2]
    (told,) = [record.getMessage() for record in caplog.records if "close()" in record.getMessage()]
    assert re.search(r"services.py:\d+.*close\(\) of its NeverClosed has not come to an end", told)
