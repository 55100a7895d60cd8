"""Threads for calls that may never return: a database that is gone, or a function that waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = tuple[Future[Any], Callable[[], Any]]

T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """Calls functions in threads, which, unlike those of the base class, do not hold up the end of the process.

    Of the base class, which an event loop wants for its executor, nothing is used but the name.

    Args:
        most: how many threads there are at most; each is made when it is needed first.
        name: what they are called.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, name)
        self._most = most
        self._name = name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._begun: list[threading.Thread] = []
        self._is_over = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_over:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and len(self._begun) < self._most:
                self._begun.append(threading.Thread(target=self._work, name=self._name, daemon=True))
                self._begun[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            if cancel_futures:
                self._cancel_all()
            if not self._is_over:
                self._is_over = True
                self._calls.put(None)
        for thread in self._begun if wait else ():
            thread.join()

    def _cancel_all(self) -> None:
        try:
            while (call := self._calls.get_nowait()) is not None:
                call[0].cancel()
        except Empty:
            return
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            _make(*call)
            del call  # nothing of it lives on while the thread waits
            self._idle.release()
        self._calls.put(None)  # which is for all of them


def _make(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except StopIteration as error:  # no future of an event loop takes one, so nobody would ever hear of it
        ended = RuntimeError("the function raised StopIteration: next(..., None) gives None instead")
        ended.__cause__ = error
        future.set_exception(ended)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
