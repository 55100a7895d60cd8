"""Functions that are awaited, many at a time: requests to services."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from headrace.common.type_variables import OUT_co, T_contra
from headrace.datastream.functions.function import Function
from headrace.operators.functions import does_nothing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from headrace.operators.functions import RuntimeContext


class _Awaited(Function):
    """What functions that are awaited have in common: how their life begins and ends may be awaited, too."""

    @does_nothing
    def open(self, runtime_context: RuntimeContext) -> Awaitable[None] | None:  # type: ignore[override]
        """Called once for each parallel instance before any record; it may be ``async def``."""
        return None

    def close(self) -> Awaitable[None] | None:  # type: ignore[override]
        """Called once for each parallel instance at the end of its life; it may be ``async def``."""
        return None


class AsyncFunction(_Awaited, Generic[T_contra, OUT_co]):
    """Makes any number of records of each record, and may wait for them; used by :class:`AsyncDataStream`.

    All methods are called in the event loop of the operator, ``open`` and ``close`` as well: a client that needs a
    running loop may be made there, and they may be ``async def``, too. What blocks (``time.sleep``, a client that is
    not asynchronous) holds up all other requests; ``await asyncio.to_thread(...)`` does not, in up to 64 threads. Tasks
    that a function has started for itself are cancelled after ``close``, if they are still there.

    Examples:
        >>> import asyncio
        >>> from headrace.common import Time
        >>> from headrace.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
        >>> class Price(AsyncFunction):
        ...     async def async_invoke(self, value: str) -> list[float]:
        ...         await asyncio.sleep(0.001)  # a service would be asked here
        ...         return [{"tea": 2.5, "cake": 4.0}[value]]
        ...     def timeout(self, value: str) -> list[float]:
        ...         return [-1.0]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_collection(["cake", "tea"])
        >>> AsyncDataStream.unordered_wait(orders, Price(), Time.seconds(5)).execute_and_collect(limit=10)
        [4.0, 2.5]
    """

    @abstractmethod
    async def async_invoke(self, value: T_contra) -> Iterable[OUT_co]:
        """The records that ``value`` becomes, as a list; an exception fails the job unless there is a retry."""

    def timeout(self, value: T_contra) -> Iterable[OUT_co] | Awaitable[Iterable[OUT_co]]:
        """The same for a record whose time is over, with all its attempts; as it is, it raises ``TimeoutError``.

        It may be ``async def``, and has the same time again.
        """
        raise _out_of_time(f"timeout(value) was called for {value!r}", "timeout")


class AsyncBatchFunction(_Awaited, Generic[T_contra, OUT_co]):
    """Makes one record of each of several records, and may wait for them; used by :class:`AsyncDataStream`.

    What is said of :class:`AsyncFunction` holds for it as well.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream import AsyncBatchFunction, AsyncDataStream, StreamExecutionEnvironment
        >>> class Score(AsyncBatchFunction):
        ...     async def async_invoke_batch(self, inputs: list[int]) -> list[int]:
        ...         return [value * len(inputs) for value in inputs]  # a model would be asked here
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([1, 2, 3, 4, 5])
        >>> scores = AsyncDataStream.unordered_wait_batch(numbers, Score(), Time.seconds(5), batch_size=3)
        >>> scores.execute_and_collect(limit=10)
        [3, 6, 9, 8, 10]
    """

    @abstractmethod
    async def async_invoke_batch(self, inputs: list[Any]) -> Iterable[OUT_co]:
        """A list with one result for each of the records, in their order."""

    def timeout_batch(self, inputs: list[Any]) -> Iterable[OUT_co] | Awaitable[Iterable[OUT_co]]:
        """The same for records whose time is over, with all attempts; as it is, it raises ``TimeoutError``.

        It may be ``async def``, and has the same time again.
        """
        raise _out_of_time(f"timeout_batch(inputs) was called for {len(inputs)} records", "timeout_batch")


def _out_of_time(called: str, method: str) -> TimeoutError:
    return TimeoutError(f"there is no result in time: {called}; override {method} to give results in their place")
