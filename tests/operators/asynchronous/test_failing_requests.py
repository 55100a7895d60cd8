"""Functions that fail while requests are in flight, and jobs that fail then or are cancelled."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from functools import partial

import pytest

from headrace.common.call_site import UNKNOWN_CALL_SITE
from headrace.common.errors import JobCancelledError, UserFunctionError
from headrace.datastream import AsyncDataStream, RuntimeContext
from headrace.operators.asynchronous import requesting_operator, requests
from headrace.operators.asynchronous.requests import RecordIntake, RequestedBatch, RequestSettings
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY
from headrace.operators.base import OperatorContext
from tests.operators.asynchronous.services import (
    LONG,
    MINUTE,
    Service,
    answers,
    asked,
    asking,
    batch_of,
    environment,
    turns,
)
from tests.waiting import PATIENCE


class Fails(Service):
    """Raises for number 3."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        self._error = error

    async def answer(self, value: int) -> list[int]:
        if value == 3:
            raise self._error()
        return [value]


def own_cancellation() -> BaseException:
    return asyncio.CancelledError("of an inner task")


@pytest.mark.parametrize(
    "error", [partial(ValueError, "no"), partial(SystemExit, 3), KeyboardInterrupt, GeneratorExit, own_cancellation]
)
def test_a_failure_names_operator_line_and_record(error: Callable[[], BaseException]) -> None:
    with pytest.raises(UserFunctionError) as raised:
        answers(asking(AsyncDataStream.unordered_wait, Fails(error)), [1, 2, 3, 4])
    text = str(raised.value)
    assert "operator 'AsyncWait' (uid asked, subtask 0) failed" in text
    assert re.search(r"test_failing_requests.py:\d+ in answer", text)
    assert "record: 3" in text
    assert type(error()).__name__ in text


def below(value: int) -> None:
    raise ValueError(f"{value} is below")


def test_a_failure_tells_how_the_program_came_there() -> None:
    class Deep(Service):
        async def answer(self, value: int) -> list[int]:
            below(value)
            return []

    with pytest.raises(UserFunctionError, match=r"in below\n *record: 1") as raised:
        answers(asking(AsyncDataStream.unordered_wait, Deep()), [1])
    assert re.search(r"(?s)in the task:.*in answer.*in below", "".join(raised.value.__notes__))


def test_no_request_begins_behind_a_failure_or_the_end() -> None:
    async def invoke(value: int) -> list[int]:
        asked.append(value)
        return [value] if value < 3 else below(value)  # type: ignore[return-value]

    async def run(*, fails: bool) -> None:
        context = OperatorContext("service", "s", 0, 1, 128, UNKNOWN_CALL_SITE)
        function = requests.RequestFunction(invoke, requesting_operator.out_of_time, invoke)
        made = requests.Requests(function, RequestSettings(0, 10, False, NO_RETRY_STRATEGY), context)
        taken = RecordIntake(made, None)
        taken.add(RequestedBatch(batch_of([1, 3 if fails else 2])))
        await turns()
        assert (made.failure is not None) is fails
        if not fails:
            await made.end()
        taken.add(RequestedBatch(batch_of([4])))
        await turns()

    for fails in (True, False):
        asked.clear()
        asyncio.run(run(fails=fails))
        assert asked == [1, 3 if fails else 2]


@pytest.mark.parametrize("method", ["open", "close"])
@pytest.mark.parametrize("error", [partial(ValueError, "no"), partial(SystemExit, 3)])
def test_failures_of_open_and_close_are_told(method: str, error: Callable[[], BaseException]) -> None:
    def raises(runtime_context: RuntimeContext | None = None) -> None:
        raise error()

    function = Service()
    setattr(function, method, raises)
    with pytest.raises(UserFunctionError, match=type(error()).__name__):
        answers(asking(AsyncDataStream.unordered_wait, function), [1])


_loops: list[object] = []


class Client(Service):
    def open(self, runtime_context: RuntimeContext) -> None:
        _loops.append(asyncio.get_running_loop())

    async def answer(self, value: int) -> list[int]:
        _loops.append(asyncio.get_running_loop())
        return [value]

    async def close(self) -> None:
        await asyncio.sleep(0)
        _loops.append(asyncio.get_running_loop())


def test_open_and_close_run_in_the_loop() -> None:
    assert answers(asking(AsyncDataStream.unordered_wait, Client()), [1], [2]) == [1, 2]
    assert len(_loops) == 6  # opened anew for each epoch, as the harness does
    assert len(set(_loops)) == 2


def test_a_task_of_the_function_that_exits_does_not_end_the_loop() -> None:
    class Careless(Service):
        async def answer(self, value: int) -> list[int]:
            async def exits() -> None:
                raise SystemExit(1)

            task = asyncio.get_running_loop().create_task(exits())
            await asyncio.wait([task])
            return [value] if isinstance(task.exception(), SystemExit) else []

    assert answers(asking(AsyncDataStream.unordered_wait, Careless()), [1, 2]) == [1, 2]


# --- failures of the job ---------------------------------------------------------------------------------------------

_away = {"left": 0}


class OftenAway(Service):
    """Is away so many times."""

    async def answer(self, value: int) -> list[int]:
        if value == 5 and _away["left"]:
            _away["left"] -= 1
            raise ConnectionError("the service is away")
        return [value]


def test_every_result_is_there_once_after_a_failure() -> None:
    _away["left"] = 2
    env = environment(
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "restart-strategy.fixed-delay.attempts": "5",
            "headrace.epoch.max-records": "2",
            "headrace.epoch.target-duration": "60s",
        }
    )
    found = AsyncDataStream.unordered_wait(env.from_sequence(1, 8), OftenAway(), MINUTE, output_type=LONG)
    with found.execute_and_collect() as results:
        assert list(results) == list(range(1, 9))
    assert asked.count(5) == 3


_begun = threading.Event()
_ended = threading.Event()


class Endless(Service):
    async def answer(self, value: int) -> list[int]:
        _begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            _ended.set()
        return []


def test_cancelling_the_job_ends_requests_in_flight() -> None:
    env = environment()
    AsyncDataStream.unordered_wait(env.from_sequence(1, 8), Endless(), 0, output_type=LONG).print()
    client = env.execute_async()
    assert _begun.wait(PATIENCE)
    client.cancel().result(timeout=PATIENCE)
    assert _ended.wait(PATIENCE)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(timeout=PATIENCE)
