"""Strategies of retries, as PyFlink has them: when a request is made again."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic

from headrace.common.arguments import check_call
from headrace.common.errors import InvalidTypeError, expect, refused, shown
from headrace.common.time import Duration, Time, to_millis
from headrace.common.type_variables import OUT

Length = Duration | Time | timedelta | int
ResultPredicate = Callable[[list[Any]], bool] | None
ExceptionPredicate = Callable[[Exception], bool] | None


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Says after which results, and after which exceptions, a request is made again.

    Examples:
        >>> from headrace.datastream import AsyncRetryStrategy
        >>> strategy = AsyncRetryStrategy.fixed_delay(3, 100, exception_predicate=lambda error: "away" in str(error))
        >>> predicate = strategy.get_retry_predicate()
        >>> predicate.exception_predicate()(ConnectionError("the service is away"))
        True
        >>> predicate.result_predicate() is None
        True
    """

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """A function of the list of results that is true where another attempt is wanted; None for never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """A function of the exception that is true where another attempt is wanted; None for never."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Says whether, and when, a request is made again. A strategy serves all records, and must not remember any.

    Examples:
        >>> from headrace.datastream import AsyncRetryStrategy
        >>> from headrace.datastream.async_retry_predicates import has_exception_predicate
        >>> strategy = AsyncRetryStrategy.exponential_backoff(
        ...     max_attempts=5,
        ...     initial_delay=100,
        ...     max_retry_delay=1000,
        ...     multiplier=2.0,
        ...     exception_predicate=has_exception_predicate,
        ... )
        >>> [strategy.get_backoff_time_millis(attempt) for attempt in range(1, 6)]
        [100, 200, 400, 800, 1000]
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether there may be one more attempt after so many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return how long to wait after so many attempts, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """The conditions under which another attempt is necessary."""

    @staticmethod
    def no_restart() -> "AsyncRetryStrategy":
        """One attempt, and no more."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: Length,
        result_predicate: ResultPredicate = None,
        exception_predicate: ExceptionPredicate = None,
    ) -> "AsyncRetryStrategy":
        """Attempts with the same pause between them.

        Args:
            max_attempts: how many attempts may follow the first one, as in Flink.
            backoff_time_millis: the pause, in milliseconds or as a time.
            result_predicate: after which results there is another attempt; None for none.
            exception_predicate: after which exceptions there is another attempt; None for none.

        Raises:
            InvalidProgramError: when a number is not positive.
        """
        pause = to_millis(backoff_time_millis, "backoff_time_millis")
        return FixedDelayRetryStrategy(max_attempts, pause, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: Length,
        max_retry_delay: Length,
        multiplier: float,
        result_predicate: ResultPredicate = None,
        exception_predicate: ExceptionPredicate = None,
    ) -> "AsyncRetryStrategy":
        """Attempts with pauses that grow.

        Args:
            max_attempts: how many attempts may follow the first one, as in Flink.
            initial_delay: the first pause, in milliseconds or as a time.
            max_retry_delay: the longest pause, likewise.
            multiplier: how many times as long each pause is as the one before.
            result_predicate: after which results there is another attempt; None for none.
            exception_predicate: after which exceptions there is another attempt; None for none.

        Raises:
            InvalidProgramError: when a number is not positive.
        """
        first, longest = to_millis(initial_delay, "initial_delay"), to_millis(max_retry_delay, "max_retry_delay")
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, first, longest, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """Two functions, of results and of exceptions; either may be None, for never.

    Examples:
        >>> from headrace.datastream.async_retry_strategies import RetryPredicate
        >>> RetryPredicate(lambda results: not results, None).result_predicate()([])
        True
    """

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


@dataclass(frozen=True)
class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """One attempt, and no more.

    Examples:
        >>> from headrace.datastream.async_retry_strategies import NoRetryStrategy
        >>> NoRetryStrategy().can_retry(1)
        False
    """

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


@dataclass(frozen=True)
class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT]):
    """Attempts with the same pause between them; see :meth:`AsyncRetryStrategy.fixed_delay`.

    Examples:
        >>> from headrace.datastream.async_retry_strategies import FixedDelayRetryStrategy
        >>> strategy = FixedDelayRetryStrategy(max_attempts=2, backoff_time_millis=100)
        >>> [strategy.can_retry(attempts) for attempts in (1, 2, 3)]
        [True, True, False]
    """

    max_attempts: int
    backoff_time_millis: int
    result_predicate: ResultPredicate = None
    exception_predicate: ExceptionPredicate = None

    def __post_init__(self) -> None:
        _check_positive("fixed_delay", max_attempts=self.max_attempts, backoff_time_millis=self.backoff_time_millis)
        _check_predicates("fixed_delay", self)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self.backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(self.result_predicate, self.exception_predicate)


@dataclass(frozen=True)
class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT]):
    """Attempts with pauses that grow; see :meth:`AsyncRetryStrategy.exponential_backoff`.

    Examples:
        >>> from headrace.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy
        >>> strategy = ExponentialBackoffDelayRetryStrategy(5, initial_delay=10, max_retry_delay=50, multiplier=3.0)
        >>> [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3)]
        [10, 30, 50]
    """

    max_attempts: int
    initial_delay: int
    max_retry_delay: int
    multiplier: float
    result_predicate: ResultPredicate = field(default=None)
    exception_predicate: ExceptionPredicate = field(default=None)

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in ("initial_delay", "max_retry_delay", "multiplier")}
        _check_positive("exponential_backoff", max_attempts=self.max_attempts, **numbers)
        if self.initial_delay > self.max_retry_delay:
            raise refused(
                f"exponential_backoff: the initial_delay of {self.initial_delay} ms is above the max_retry_delay of "
                f"{self.max_retry_delay} ms"
            )
        if self.multiplier < 1:
            raise refused(
                f"exponential_backoff: with a multiplier of {self.multiplier} pauses would shrink: give 1.0 or more"
            )
        _check_predicates("exponential_backoff", self)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        delay = float(self.initial_delay)
        for _ in range(1, current_attempts):
            delay = min(delay * self.multiplier, self.max_retry_delay)
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(self.result_predicate, self.exception_predicate)


def _check_predicates(method: str, strategy: FixedDelayRetryStrategy | ExponentialBackoffDelayRetryStrategy) -> None:
    for name, argument in (("result_predicate", "results"), ("exception_predicate", "exception")):
        predicate = getattr(strategy, name)
        if predicate is None:
            continue
        if not callable(predicate):
            raise refused(f"{method}: {name} takes a function, not {shown(predicate)}", InvalidTypeError)
        check_call(predicate, name, argument)


def _check_positive(method: str, **numbers: float) -> None:
    for name, number in numbers.items():
        expect(number, float if name == "multiplier" else int, f"{method}: {name}")
        if not number > 0:
            raise refused(f"{method}: {name} has to be greater than zero, not {number!r}")


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()
