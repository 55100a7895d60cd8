"""How requests of ``AsyncDataStream`` and ``enrich`` are made, once it is certain that they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.common.time import to_millis
from headrace.operators.asynchronous.requests import RequestSettings
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY, AsyncRetryStrategy

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.time import Duration, Time


def request_settings(
    timeout: Duration | Time | timedelta | int,
    capacity: int,
    strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    *,
    is_ordered: bool,
    strategy_argument: str = "async_retry_strategy",
) -> RequestSettings:
    """The settings.

    Args:
        timeout: how long a request may take with all its attempts; 0 for as long as it takes.
        capacity: how many requests are in flight at most.
        strategy: when a request is made again.
        is_ordered: whether requests are those of consecutive records.
        strategy_argument: what the program calls the strategy.

    Raises:
        InvalidTypeError: when an argument is of the wrong kind.
        InvalidProgramError: when the capacity is not positive, the timeout is negative, or retries have none.
    """
    expect(capacity, int, "capacity")
    expect(strategy, AsyncRetryStrategy, strategy_argument)
    millis = to_millis(timeout, "timeout")
    if capacity <= 0:
        raise refused(f"capacity: at least one request has to be in flight, not {capacity}")
    if millis < 0:
        raise refused(f"timeout: it cannot be negative, {millis} ms; 0 waits for as long as it takes")
    if not millis and strategy is not NO_RETRY_STRATEGY:
        raise refused("timeout: requests that are made again need one, which covers all attempts")
    return RequestSettings(millis, capacity, is_ordered, strategy)
