"""Operations that take longer than a request: they are triggered, and their outcome is requested later, as in Flink."""

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from headrace.common.completable_future import CompletableFuture
from headrace.server.errors import check_id, not_found

_LOOK_SECONDS: Final = 0.05


@dataclass
class TriggeredOperation:
    """One operation.

    Attributes:
        kind: that of the operation; a trigger of one kind is unknown to requests for another.
        subject: the job, or what else it is about.
        outcome: its result, later.
        ended: when that was there, in seconds that never go back; None before.
        is_reported: whether the outcome has been requested since.
    """

    kind: str
    subject: str
    outcome: CompletableFuture[Any]
    ended: float | None = None
    is_reported: bool = False


class Operations:
    """The operations of a server; from any thread.

    Args:
        store_seconds: how long an outcome is kept.
        clock: returns seconds, never going back.
    """

    def __init__(self, store_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._store_seconds = store_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, TriggeredOperation] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="headrace-rest-operations")

    def begin(self, kind: str, subject: str, trigger: str | None, begin: Callable[[], CompletableFuture[Any]]) -> str:
        """Begin an operation, unless one was begun under that id.

        Args:
            kind: that of the operation.
            subject: the job.
            trigger: the id that the client has chosen, so that it can ask again; None for any.
            begin: begins it.

        Returns:
            The id.
        """
        if trigger is not None:
            check_id("triggerId", trigger)
        chosen = trigger or secrets.token_hex(16)
        with self._lock:
            self._forget()
            if chosen not in self._known:
                operation = TriggeredOperation(kind, subject, begin())
                self._known[chosen] = operation
                operation.outcome.add_done_callback(lambda _: self._end(operation))
        return chosen

    def run(self, kind: str, subject: str, trigger: str | None, work: Callable[[], Any]) -> str:
        """The same for work that waits for storage; it is done on a thread of its own."""

        def begin() -> CompletableFuture[Any]:
            return CompletableFuture(self._worker.submit(work))

        return self.begin(kind, subject, trigger, begin)

    def do(self, work: Callable[[], Any]) -> None:
        """Do something without an outcome on that thread."""
        self._worker.submit(work)

    def get(self, kind: str, subject: str, trigger: str) -> CompletableFuture[Any]:
        """The outcome of an operation.

        Raises:
            RestError: when there is none of that id, or it was forgotten.
        """
        with self._lock:
            self._forget()
            operation = self._known.get(trigger)
            if operation is None or (operation.kind, operation.subject) != (kind, subject):
                raise not_found(f"There is no {kind} with triggerId={trigger}: it is unknown, or was forgotten")
            operation.is_reported = operation.outcome.done()
            return operation.outcome

    def wait_until_reported(self, seconds: float) -> None:
        """Wait until clients have the outcomes of what they have triggered: the process is about to end.

        Outcomes that are not requested within that time are dropped.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(self._is_awaited(each, seconds) for each in list(self._known.values())):
            time.sleep(_LOOK_SECONDS)

    def _is_awaited(self, operation: TriggeredOperation, seconds: float) -> bool:
        is_old = operation.ended is not None and self._clock() - operation.ended > seconds
        return not (operation.is_reported or is_old)

    def close(self) -> None:
        """Nothing is begun any more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _end(self, operation: TriggeredOperation) -> None:
        operation.ended = self._clock()

    def _forget(self) -> None:
        oldest = self._clock() - self._store_seconds
        for trigger in [
            each for each, known in self._known.items() if known.ended is not None and known.ended < oldest
        ]:
            del self._known[trigger]
