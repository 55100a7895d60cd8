"""Strategies of repeating requests, under PyFlink's module path; ``AsyncRetryStrategy`` makes these strategies."""

from typing import Final

from headrace.common.public_module import public_module
from headrace.operators.asynchronous import retries
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

NO_RETRY_STRATEGY: Final = retries.NO_RETRY_STRATEGY
"""One attempt, and no more; as in PyFlink not among what ``*`` imports."""


public_module(__name__)
