"""When a request is made again, under PyFlink's module path; ``AsyncRetryStrategy`` makes these strategies."""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY as NO_RETRY_STRATEGY
from headrace.operators.asynchronous.retries import (
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)

__all__ = [
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

public_module(__name__)
