"""``AsyncDataStream``: functions that are awaited, many at a time, applied to streams."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from headrace.common.arguments import check_parameters, method_of_object
from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError, expect, refused, shown, with_article
from headrace.common.public_module import public_module
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import OUT
from headrace.common.typeinfo import DeclaredType
from headrace.datastream.data_stream import DataStream
from headrace.datastream.functions import AsyncBatchFunction, AsyncFunction, Function
from headrace.datastream.lookup import request_settings
from headrace.datastream.streams.checks import check_instance
from headrace.datastream.streams.types import Role, origin_of, result_type
from headrace.graph.process_specs import AsyncSpec
from headrace.operators.asynchronous.requests import RequestGrouping, RequestSettings
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY, AsyncRetryStrategy

Length = Duration | Time | timedelta | int
Invoked = AsyncFunction[Any, Any] | Callable[[Any], Awaitable[Iterable[Any]]]
BatchInvoked = AsyncBatchFunction[Any, Any] | Callable[[list[Any]], Awaitable[Iterable[Any]]]

__all__ = ["AsyncDataStream"]

_WAITS: Final = {
    "async_invoke": "unordered_wait(...) or ordered_wait(...)",
    "async_invoke_batch": "unordered_wait_batch(...) or ordered_wait_batch(...)",
}
"""By the method that is awaited, what functions with it are for."""


class AsyncDataStream:
    """Applies functions that are awaited to streams, so that many requests to a service are in flight at a time.

    At most ``capacity`` requests of each parallel instance are in flight; then no more records are read. All results
    are there before the epoch ends, so no request is part of a checkpoint: after a failure the records of the epoch are
    requested again, and what is in state and in the output is what the attempt that counts was answered.

    Results leave in the order of their records, ordered or not: what a service answers first must not decide it.
    ``unordered`` says that nothing waits for a slow request inside: as soon as any request has ended, the next one
    begins. With ``ordered`` it begins when all but the last ``capacity`` requests before it have ended, so a service
    never sees a record long before one that came earlier.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream import AsyncDataStream, StreamExecutionEnvironment
        >>> async def twice(number: int) -> list[int]:
        ...     return [number, number]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([1, 2])
        >>> AsyncDataStream.ordered_wait(numbers, twice, Time.seconds(5)).execute_and_collect(limit=10)
        [1, 1, 2, 2]
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: Invoked,
        timeout: Length,
        capacity: int = 100,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Makes records of what a service answers; nothing waits for a slow request.

        Args:
            data_stream: the records. Results are not keyed, and the function has no state of keys, as in Flink.
            async_function: an ``AsyncFunction``, or an ``async def`` of a record; it returns a list of results.
            timeout: how long a request may take; 0 for as long as it takes.
            capacity: how many requests of each parallel instance are in flight at most.
            output_type: the type of the results; taken from the function's annotations when left out.

        Raises:
            InvalidTypeError: when the function is not to be awaited, or takes other parameters.
            InvalidProgramError: when the capacity is not positive, or the timeout is negative.
        """
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: Invoked,
        timeout: Length,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Makes records of what a service answers, as :meth:`unordered_wait`, and repeats requests by a strategy.

        Args:
            data_stream: as for :meth:`unordered_wait`.
            async_function: as for :meth:`unordered_wait`.
            timeout: how long a record may take with all its attempts.
            async_retry_strategy: when there is another attempt; ``AsyncRetryStrategy.fixed_delay(...)``, say.
            capacity: as for :meth:`unordered_wait`; a record that waits for its next attempt counts.
            output_type: as for :meth:`unordered_wait`.

        Raises:
            InvalidTypeError: as :meth:`unordered_wait`.
            InvalidProgramError: as :meth:`unordered_wait`, and when there are retries without a timeout.
        """
        settings = request_settings(timeout, capacity, async_retry_strategy, is_ordered=False)
        return _applied(data_stream, async_function, settings, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: Invoked,
        timeout: Length,
        capacity: int = 100,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Makes records of what a service answers; at most ``capacity`` consecutive records are under way.

        The arguments, and what is raised, are those of :meth:`unordered_wait`.
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: Invoked,
        timeout: Length,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Makes records of what a service answers, as :meth:`ordered_wait`, and repeats requests by a strategy.

        The arguments, and what is raised, are those of :meth:`unordered_wait_with_retry`.
        """
        settings = request_settings(timeout, capacity, async_retry_strategy, is_ordered=True)
        return _applied(data_stream, async_function, settings, output_type)

    @staticmethod
    def unordered_wait_batch(
        data_stream: DataStream,
        async_batch_function: BatchInvoked,
        timeout: Length,
        batch_size: int,
        batch_timeout: Length | None = None,
        capacity: int = 100,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Makes a record of each record, with requests for several of them; nothing waits for a slow request.

        Args:
            data_stream: as for :meth:`unordered_wait`.
            async_batch_function: an ``AsyncBatchFunction``, or an ``async def`` of a list of records; it returns a list
                with one result for each.
            timeout: how long a request may take.
            batch_size: how many records share a request; fewer where the input of an epoch ends.
            batch_timeout: how long a record waits for others; until the input of the epoch ends when left out.
            capacity: how many requests of each parallel instance are in flight at most.
            output_type: as for :meth:`unordered_wait`.

        Raises:
            InvalidTypeError: when the function is not to be awaited, or takes other parameters.
            InvalidProgramError: when the timeout, the batch size or the capacity is not positive, or the batch timeout
                is negative.
        """
        settings = request_settings(timeout, capacity, is_ordered=False)
        grouping = _grouping(settings, batch_size, batch_timeout)
        return _applied(data_stream, async_batch_function, settings, output_type, grouping)

    @staticmethod
    def ordered_wait_batch(
        data_stream: DataStream,
        async_batch_function: BatchInvoked,
        timeout: Length,
        batch_size: int,
        batch_timeout: Length | None = None,
        capacity: int = 100,
        output_type: DeclaredType[OUT] | None = None,
    ) -> DataStream[OUT]:
        """Makes a record of each record, with requests for several of them; at most ``capacity`` consecutive ones.

        The arguments, and what is raised, are those of :meth:`unordered_wait_batch`.
        """
        settings = request_settings(timeout, capacity, is_ordered=True)
        grouping = _grouping(settings, batch_size, batch_timeout)
        return _applied(data_stream, async_batch_function, settings, output_type, grouping)


def _applied(
    stream: Any, function: Any, settings: RequestSettings, output_type: Any, grouping: RequestGrouping | None = None
) -> DataStream:
    expect(stream, DataStream, "AsyncDataStream")
    base, method = (AsyncFunction, "async_invoke") if grouping is None else (AsyncBatchFunction, "async_invoke_batch")
    _check_awaited(function, base, method)
    spec = AsyncSpec(function, result_type(output_type, function, Role.MANY), settings, grouping)
    applied: DataStream = stream._apply(spec, AsyncSpec.kind, origin=origin_of(output_type))
    return applied


def _grouping(settings: RequestSettings, size: int, timeout: Any) -> RequestGrouping:
    expect(size, int, "batch_size")
    millis = None if timeout is None else to_millis(timeout, "batch_timeout")
    if size <= 0:
        raise refused(f"batch_size has to be positive, not {size}")
    if millis is not None and millis < 0:
        raise refused(f"batch_timeout cannot be negative: {millis} ms")
    if not settings.timeout:
        raise refused("timeout has to be positive for requests of several records")
    return RequestGrouping(size, millis)


def _check_awaited(function: object, base: type[Function], method: str) -> None:
    """Refuse a function that cannot be awaited for a record."""
    for kind in (AsyncFunction, AsyncBatchFunction):
        check_instance(function, kind)
    called = method_of_object(function, method) or function
    if not callable(called):
        made_for = [waits for awaited, waits in _WAITS.items() if method_of_object(function, awaited) is not None]
        hint = f": that is for {made_for[0]}" if made_for else ""
        text = f"expected {with_article(base)} or an async def of its records, got {shown(function)}{hint}"
        raise refused(text, InvalidTypeError)
    check_parameters(function, base, method)
    if inspect.isasyncgenfunction(called):
        raise refused(f"{method} returns a list, and yields nothing ({of_function(called)})", InvalidTypeError)
    if not inspect.iscoroutinefunction(called) and inspect.isroutine(called):
        raise refused(f"{method} is awaited: write async def instead of def ({of_function(called)})", InvalidTypeError)


public_module(__name__)
