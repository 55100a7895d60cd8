"""Threads for calls that may never return: a database that is gone, or a function that waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads(Executor):
    """Calls functions in threads, which, unlike those of the standard library, do not hold up the end of the process.

    Args:
        most: how many threads there are at most; each is made when it is needed first.
        name: what they are called.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
                self._threads.append(threading.Thread(target=self._work, name=self._name, daemon=True))
                self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            if cancel_futures:
                self._cancel_all()
            for _ in self._threads:
                self._calls.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _cancel_all(self) -> None:
        try:
            while (call := self._calls.get_nowait()) is not None:
                call[0].cancel()
        except Empty:
            return

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del call, future, function  # nothing of it lives on while the thread waits
            self._idle.release()
