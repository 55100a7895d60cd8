"""``execute_and_collect``: the records of a running job, as an iterator of the program that runs it."""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.client.job_client import JobClient
    from headrace.common.completable_future import CompletableFuture
    from headrace.common.job_execution_result import JobExecutionResult

_EPOCHS_HELD: Final = 4
"""How many epochs' records wait for the program before the job waits for it."""

_NO_RECORD: Final = object()


def first_records(records: CloseableIterator, limit: int) -> list[Any]:
    """Up to ``limit`` records; then the job is ended."""
    with records:
        return list(islice(records, limit))


class Handover:
    """Takes records from the job's thread to the program's; the job waits when the program is slow."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._epochs: deque[list[Any]] = deque()
        self._is_ended = False
        self._is_closed = False
        self._error: BaseException | None = None

    def put(self, records: list[Any]) -> None:
        """Hand over the records of an epoch; waits for the program unless it wants no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._epochs) < _EPOCHS_HELD)
            if not self._is_closed:
                self._epochs.append(records)
                self._changed.notify_all()

    def end(self, result: CompletableFuture[JobExecutionResult]) -> None:
        """The job is over: nothing follows what was handed over."""
        with self._changed:
            self._error = result.exception()
            self._is_ended = True
            self._changed.notify_all()

    def take(self) -> list[Any] | None:
        """The records of the next epoch that has any; None when there will be none.

        Raises:
            JobExecutionError: when the job has failed; or whatever else ended it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._epochs or self._is_ended or self._is_closed)
            if self._epochs and not self._is_closed:
                records = self._epochs.popleft()
                self._changed.notify_all()
                return records
            if self._error is not None and not self._is_closed:
                raise self._error
            return None

    def close(self) -> None:
        """The program wants no more: the job never waits for it again."""
        with self._changed:
            self._is_closed = True
            self._epochs.clear()
            self._changed.notify_all()


class CloseableIterator:
    """The records of a job, epoch by epoch while it runs; to be closed, best by a ``with`` statement.

    Iterating raises what made the job fail, after the records of the epochs before.

    Args:
        handover: where the job's sink puts the records.
        client: the job.
    """

    def __init__(self, handover: Handover, client: JobClient) -> None:
        self._handover = handover
        self._client = client
        client.get_job_execution_result().add_done_callback(handover.end)
        self._records: Iterator[Any] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        record = next(self._records, _NO_RECORD)
        while record is _NO_RECORD:
            records = self._handover.take()
            if records is None:
                raise StopIteration
            self._records = iter(records)
            record = next(self._records, _NO_RECORD)
        return record

    def next(self) -> Any:
        """The next record, as PyFlink names it."""
        return next(self)

    def get_job_client(self) -> JobClient:
        """The job."""
        return self._client

    def close(self) -> None:
        """Cancels the job if it runs, and waits for its end; a second time does nothing."""
        self._handover.close()
        self._records = iter(())
        if not self._client.get_job_execution_result().done():
            self._client.cancel().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
