"""An event loop in a thread of its own for the coroutines of the user, and threads for calls that may never return."""

import asyncio
import math
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from headrace.common.call_site import CallSite, of_stack
from headrace.common.logs import get_logger

logger = get_logger(__name__)

Call = tuple[Future[Any], Callable[[], Any]]


T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """Calls functions in threads, which, unlike those of the base class, do not hold up the end of the process.

    Of the base class, which an event loop requires of its executor, nothing is used but the name.

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
    except StopIteration as error:  # no future of an event loop takes one, so it would be lost
        ended = RuntimeError("the function raised StopIteration: next(..., None) gives None instead")
        ended.__cause__ = error
        future.set_exception(ended)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


LOOK_AROUND_SECONDS: Final = 0.05
"""The interval at which a waiting thread returns to Python, where it may be interrupted."""

_CLOSING_SECONDS: Final = 5.0
"""The time limit for the end of the loop, which is abandoned after it."""

_ENDING_SECONDS: Final = 2.0
"""The time limit for tasks that are left over to end once they are cancelled."""

_MOST_THREADS: Final = 64
"""The most calls that block beside the loop: those of ``asyncio.to_thread``, and functions that are not awaited."""

_BLOCKED_SECONDS: Final = 1.0
"""A loop that does not respond for this time is blocked by a call that should have been awaited."""

_HELD_UP: Final = (
    "%s: nothing else could run in its event loop for %.1f s, at %s: use a client that can be awaited, or "
    "await asyncio.to_thread(...)"
)


class EventLoopThread:
    """Runs an event loop until it is closed.

    Operators make it when they are opened: no process is forked any more then, so none inherits a loop without its
    thread. Neither that thread nor those of ``asyncio.to_thread`` keep the process alive.

    Args:
        name: what the thread is called.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreads(_MOST_THREADS, name))
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._requested_at: float | None = None
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Have a function called in the loop's thread, some time soon."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def run(self, coroutine: Coroutine[Any, Any, None], most_seconds: float = math.inf) -> bool:
        """Wait for a coroutine; what it raises is raised here, and when the wait is interrupted, it is cancelled.

        Returns:
            Whether it came to its end in time; else it is cancelled.
        """
        future = asyncio.run_coroutine_threadsafe(_failure_of(coroutine), self._loop)
        end = time.monotonic() + most_seconds
        try:
            while not wait([future], LOOK_AROUND_SECONDS).done:
                self.look_after()
                if time.monotonic() > end:
                    future.cancel()
                    return False
        except BaseException:
            future.cancel()
            raise
        if (error := future.result()) is not None:
            raise error
        return True

    def look_after(self) -> None:
        """Warn, once, of the line that holds up the loop; called now and then by the thread that waits for it."""
        now = time.monotonic()
        if self._requested_at is None:
            self._requested_at = now
            self.call(self._answer)
        elif (
            now - self._requested_at > _BLOCKED_SECONDS and not self._has_warned and (line := self._line()) is not None
        ):
            self._has_warned = True
            logger.warning(_HELD_UP, self._thread.name, now - self._requested_at, line)

    def _answer(self) -> None:
        self._requested_at = None

    def _line(self) -> CallSite | None:
        """The line of the program that the loop is at."""
        return of_stack(sys._current_frames().get(self._thread.ident or 0))

    def close(self) -> None:
        """End the loop, with all tasks that are left in it; a coroutine that blocks it is left behind."""
        self.call(self._end.set_result, None)
        self._thread.join(_CLOSING_SECONDS)
        if self._thread.is_alive():
            place = "something" if (line := self._line()) is None else f"the line at {line}"
            logger.warning("%s: %s blocks its event loop, which is left behind", self._thread.name, place)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._run_until(self._end)
        self._run_until(self._loop.create_task(self._end_tasks()))
        self._loop.close()

    def _run_until(self, end: asyncio.Future[None]) -> None:
        while not end.done():
            try:
                self._loop.run_until_complete(end)
            except BaseException:  # sys.exit() in a task that a function has started for itself, say
                logger.warning("%s: a task of its event loop failed", self._thread.name, exc_info=True)

    async def _end_tasks(self) -> None:
        """End what functions have left in the loop: tasks that they have started for themselves, and generators."""
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=_ENDING_SECONDS)
        await self._loop.shutdown_asyncgens()


async def _failure_of(coroutine: Coroutine[Any, Any, None]) -> BaseException | None:
    """The exception of a coroutine, returned since some exceptions would end the loop if they reached it."""
    try:
        await coroutine
    except BaseException as error:
        return error
    return None
