"""The base of all operators that make requests: many at a time, whose results leave in the order of the records.

Which request ends first must not show in what a task emits, or another attempt of it would emit something else. So
results leave in the order of their records, and a batch leaves when so many records have come behind it, not when the
clock says so. The capacity bounds how much that is, and all are there when the watermark moves, so before the epoch
ends: no request is ever part of a checkpoint.
"""

import inspect
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from headrace.common.arguments import method_of_object
from headrace.common.batch import Batch
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation
from headrace.metrics.registry import ASYNC_RETRIES, ASYNC_TIMEOUTS
from headrace.operators.asynchronous.event_loop import LOOK_AROUND_SECONDS, EventLoopThread
from headrace.operators.asynchronous.requests import (
    Intake,
    RecordIntake,
    RequestedBatch,
    RequestFunction,
    RequestGrouping,
    Requests,
    RequestSettings,
)
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.operators.functions import RuntimeContext, method_of
from headrace.operators.user_code import UserCodeGuard

logger = get_logger(__name__)

_CLOSE_SECONDS: Final = 60.0
"""The time limit for the end of the requests and for close() of the function. A client that waits for a service that is
gone, or that blocks the loop, would hold up the job."""

_SLACK: Final = 4096
"""The records that may wait for a slow one, at the least, where requests need no order."""


class RequestingOperator(Operator):
    """Makes requests about records, and emits their results.

    Args:
        function: the function that answers; its ``open`` and ``close`` are called in the loop.
        called: what is called for a request.
        output_type: the type of the results.
        settings: how requests are made.
        records_per_request: how many records a request is about at most.
    """

    def __init__(
        self,
        function: object,
        called: RequestFunction,
        output_type: TypeInformation,
        settings: RequestSettings,
        records_per_request: int,
    ) -> None:
        super().__init__()
        self._function = function
        self._called = called
        self._output_type = output_type
        self._settings = settings
        window = settings.capacity * records_per_request
        self._most_waiting = window if settings.is_ordered else max(_SLACK, 4 * window)
        self._pending: deque[RequestedBatch] = deque()
        self._waiting = 0

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        with UserCodeGuard(context):  # the strategy of retries
            self._requests = Requests(self._called, self._settings, context)
        self._intake = self._make_intake()
        self._loop = EventLoopThread(f"requests of {context.name}")
        try:
            self._loop.run(self._life_cycle("open", RuntimeContext(context)))
        except BaseException:
            self._loop.close()
            raise

    def process(self, input_index: int, batch: Batch) -> None:
        answers = self._requested(batch)
        self._pending.append(answers)
        self._waiting += len(batch)
        self._loop.call(self._in_loop, self._intake.add, answers)
        # Where branches of a stream meet again, a batch has to be through before the next one.
        self._emit_but(self._most_waiting if batch.ordinals is None else 0)

    def advance_watermark(self, watermark: int) -> None:
        self._emit_but(0)
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        assert not self._pending, "records came after the last watermark of the epoch"
        self.count(ASYNC_TIMEOUTS, self._requests.timeouts)
        self.count(ASYNC_RETRIES, self._requests.retries)
        self._requests.timeouts = self._requests.retries = 0

    def close(self) -> None:
        try:
            self._close_loop()
        finally:
            super().close()

    def _close_loop(self) -> None:
        try:
            if not self._loop.run(self._end(), _CLOSE_SECONDS):
                logger.warning(
                    "operator %r (%s): close() of its %s has not come to an end within %.0f s, and is left behind",
                    self.context.name,
                    self.context.call_site,
                    type(self._function).__name__,
                    _CLOSE_SECONDS,
                )
        finally:
            self._loop.close()

    @abstractmethod
    def _make_intake(self) -> Intake:
        """Return the intake that makes requests of records."""

    def _requested(self, batch: Batch) -> RequestedBatch:
        return RequestedBatch(batch)

    def _emit(self, answers: RequestedBatch) -> None:
        """Hand on what has come of a batch."""
        self._emit_results(answers.batch, answers.results)

    def _emit_results(self, batch: Batch, results: Sequence[Sequence[Any]]) -> None:
        """Hand on results, of which each record of a batch has a list."""
        rows = list(chain.from_iterable(results))
        if rows:
            sources = np.repeat(np.arange(len(results)), list(map(len, results)))
            self.output.emit(batch.replaced(self._output_type, rows=rows, sources=sources))

    async def _end(self) -> None:
        await self._requests.end()
        await self._life_cycle("close")

    async def _life_cycle(self, name: str, *arguments: Any) -> None:
        """Open or close the function, in the loop that its clients belong to."""
        if (called := method_of_object(self._function, name)) is None:
            return
        # Here, since what is raised in this thread is never a Ctrl-C.
        with UserCodeGuard(self.context):
            returned = called(*arguments)
            if inspect.isawaitable(returned):
                await returned

    def _in_loop(self, do: Callable[[RequestedBatch], None], answers: RequestedBatch) -> None:
        """Do something there, where what is raised would only be logged."""
        try:
            do(answers)
        except BaseException as error:
            self._requests.fail(error)

    def _emit_but(self, most: int) -> None:
        """Wait for results, and hand them on, until no more records than that are waiting."""
        while self._waiting > most:
            answers = self._pending.popleft()
            self._waiting -= len(answers.batch)
            self._await(answers)
            self._emit(answers)

    def _await(self, answers: RequestedBatch) -> None:
        if not answers.are_whole.is_set():
            self._loop.call(self._in_loop, self._intake.hurry, answers)
            while not answers.are_whole.wait(LOOK_AROUND_SECONDS):
                if self._requests.failure is not None:
                    raise self._requests.failure
                self._loop.look_after()


def out_of_time(_: Any) -> Any:
    """Fail a request that has timed out, where the user's function has no method for that."""
    raise TimeoutError("there is no result in time: give more time, or an AsyncFunction with a method timeout(value)")


class AsyncOperator(RequestingOperator):
    """Calls a coroutine function for each record, or for some records at a time.

    Args:
        function: an ``AsyncFunction`` or a coroutine function; with a grouping, an ``AsyncBatchFunction``.
        output_type: the type of the results.
        settings: how requests are made.
        grouping: which records share a request; None where each has its own.
    """

    def __init__(
        self,
        function: Any,
        output_type: TypeInformation,
        settings: RequestSettings,
        grouping: RequestGrouping | None = None,
    ) -> None:
        name, timeout = ("async_invoke", "timeout") if grouping is None else ("async_invoke_batch", "timeout_batch")
        invoke = self.maker = method_of(function, name)
        called = RequestFunction(invoke, method_of_object(function, timeout) or out_of_time, invoke)
        super().__init__(function, called, output_type, settings, 1 if grouping is None else grouping.size)
        self._grouping = grouping

    def _make_intake(self) -> Intake:
        return RecordIntake(self._requests, self._grouping)
