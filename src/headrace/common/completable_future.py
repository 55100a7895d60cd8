"""``CompletableFuture``: a result that is there later."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic

from headrace.common.public_module import public_module
from headrace.common.type_variables import T

__all__ = ["CompletableFuture"]


class CompletableFuture(Generic[T]):
    """PyFlink's future, over one of :mod:`concurrent.futures`.

    Args:
        future: the future to stand for; a new one, to be completed here, when left out.

    Examples:
        >>> from headrace.common import CompletableFuture
        >>> future = CompletableFuture()
        >>> future.add_done_callback(lambda done: print("got", done.result()))
        >>> future.set_result(3)
        got 3
    """

    __slots__ = ("_future",)

    def __init__(self, future: Future[T] | None = None) -> None:
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: T) -> "CompletableFuture[T]":
        """A future that has its result already."""
        future = CompletableFuture[T]()
        future.set_result(value)
        return future

    def cancel(self) -> bool:
        """Cancels it, unless it is done or cannot be cancelled any more; says whether it is cancelled now."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether it has a result or an exception, or was cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result, or raises the exception that came instead.

        Raises:
            TimeoutError: when there is none after ``timeout`` seconds.
            concurrent.futures.CancelledError: when it was cancelled.
        """
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits, and returns the exception or ``None`` when there is a result instead.

        Raises:
            TimeoutError: when it is not done after ``timeout`` seconds.
            concurrent.futures.CancelledError: when it was cancelled.
        """
        return self._future.exception(timeout)

    def set_result(self, value: T) -> None:
        """Completes it with a result."""
        self._future.set_result(value)

    def set_exception(self, error: BaseException) -> None:
        """Completes it with an exception."""
        self._future.set_exception(error)

    def add_done_callback(self, callback: "Callable[[CompletableFuture[T]], object]") -> None:
        """Calls ``callback`` with this future once it is done, at once if it is already."""
        self._future.add_done_callback(lambda _: callback(self))

    def __repr__(self) -> str:
        if not self._future.done():
            return "CompletableFuture(not done)"
        if self._future.cancelled():
            return "CompletableFuture(cancelled)"
        error = self._future.exception()
        return f"CompletableFuture({self._future.result()!r})" if error is None else f"CompletableFuture({error!r})"


public_module(__name__)
