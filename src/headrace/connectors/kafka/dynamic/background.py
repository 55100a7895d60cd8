"""Calls that nobody has to wait for."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from threading import Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_SECONDS: Final = 3.0
"""How long an epoch waits for an answer; then it goes on without, until it has come."""
PATIENCE_AFTER_FAILURE_SECONDS: Final = 0.1
"""How long it waits for one that has failed before."""


class RepeatedCalls(Generic[T]):
    """One call after the other, each on a thread of its own, which does not keep the process from ending.

    Args:
        name: that of the threads.

    Attributes:
        failures: how many have failed in a row.
    """

    def __init__(self, name: str) -> None:
        self.failures = 0
        self._name = name
        self._future: Future[T] | None = None
        self._is_late = False

    @property
    def is_under_way(self) -> bool:
        """Whether there is a call whose answer was not taken."""
        return self._future is not None

    def begin(self, call: Callable[[], T]) -> None:
        """Begin a call, unless one is under way."""
        if self._future is None:
            self._future = Future()
            Thread(target=_run, args=(call, self._future), name=self._name, daemon=True).start()

    def has_answer(self, *, waits: bool = False) -> bool:
        """Whether there is an answer to take; it is waited for a little, but not again where it was late before.

        Args:
            waits: wait for it, however long.
        """
        if self._future is None:
            return False
        self._is_late = not wait_for([self._future], None if waits else self._patience()).done
        return not self._is_late

    def take(self) -> T:
        """What the call has given, or raises what it has raised."""
        assert self._future is not None, "only what is there is taken"
        future, self._future = self._future, None
        self.failures += 1
        answer = future.result()
        self.failures = 0
        return answer

    def failed(self) -> str:
        """The middle of a message: that it has failed, and how often in a row."""
        return "has failed" if self.failures == 1 else f"has failed {self.failures} times in a row"

    def then(self, action: Callable[[], None]) -> None:
        """Do something once nothing is under way, on the thread of what is."""
        if self._future is None:
            action()
        else:
            self._future.add_done_callback(lambda _: action())

    def _patience(self) -> float:
        if self._is_late:
            return 0.0
        return PATIENCE_AFTER_FAILURE_SECONDS if self.failures else PATIENCE_SECONDS


def _run(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # whoever takes the answer hears of it
        future.set_exception(error)
