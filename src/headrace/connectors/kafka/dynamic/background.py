"""Calls that nobody has to wait for."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """A call on a thread of its own, which does not keep the process from ending.

    Args:
        call: what is called, once.
        name: that of the thread.
    """

    def __init__(self, call: Callable[[], T], name: str) -> None:
        self._future: Future[T] = Future()
        Thread(target=self._run, args=(call,), name=name, daemon=True).start()

    def is_over(self, seconds: float | None) -> bool:
        """Whether it is over, after so many seconds at most; None waits for it."""
        return bool(wait_for([self._future], seconds).done)

    def result(self) -> T:
        """What it has given, or raises what it has raised."""
        return self._future.result()

    def then(self, action: Callable[[], None]) -> None:
        """Do something once it is over, on its thread if it is not yet."""
        self._future.add_done_callback(lambda _: action())

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:  # whoever asks for the result hears of it
            self._future.set_exception(error)
