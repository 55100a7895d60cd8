"""A job that is cancelled closes its functions, however long that takes them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import Configuration, Types
from headrace.common.errors import JobCancelledError
from headrace.datastream import AsyncDataStream, AsyncFunction, MapFunction, StreamExecutionEnvironment
from headrace.runtime.local import LocalRuntime
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from headrace.datastream.data_stream import DataStream

_entered, _closed = threading.Event(), threading.Event()
_cancels = threading.Semaphore(0)


class Counted(LocalRuntime):
    """Tells of each time that it is told to give up."""

    def cancel(self) -> None:
        super().cancel()
        _cancels.release()


def close_slowly() -> None:
    """The job is told to give up again and again meanwhile."""
    for _ in range(3):
        assert _cancels.acquire(timeout=PATIENCE)
    _closed.set()


class Busy(MapFunction):
    def map(self, value: int) -> int:
        _entered.set()
        while True:
            pass

    def close(self) -> None:
        close_slowly()


class Asking(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        _entered.set()
        await asyncio.Event().wait()
        return [value]

    def close(self) -> None:
        close_slowly()


def mapped(numbers: DataStream[int]) -> DataStream[Any]:
    return numbers.map(Busy(), Types.LONG())


def asked(numbers: DataStream[int]) -> DataStream[Any]:
    return AsyncDataStream.unordered_wait(numbers, Asking(), 0, 3, Types.LONG())


@pytest.mark.parametrize("with_function", [mapped, asked])
def test_it_is_closed(with_function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.submission.LocalRuntime", Counted)
    _entered.clear()
    _closed.clear()
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1"})
    )
    with_function(env.from_sequence(1, 10)).print()
    client = env.execute_async("never done")
    assert _entered.wait(PATIENCE)
    client.cancel().result(PATIENCE)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(PATIENCE)
    assert _closed.is_set()
