"""``AsyncFunction``: requests to a service, many at a time, whose results leave in the order of the records.

Which request ends first must not show in what a task emits, or another attempt of it would emit something else. So
results leave in the order of their records, and a batch leaves when so many records have come behind it, not when the
clock says so. The capacity bounds how much that is, and all are there when the watermark moves, so before the epoch
ends: no request is ever part of a checkpoint.
"""

from __future__ import annotations

import inspect
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.common.signatures import method_of_object
from headrace.operators.asynchronous.event_loop import LOOK_AROUND_SECONDS, EventLoopThread
from headrace.operators.asynchronous.intake import GroupIntake, RecordIntake
from headrace.operators.asynchronous.requests import Answers, RequestFunction, Requests
from headrace.operators.base import Operator, OperatorContext, Output
from headrace.operators.functions import RuntimeContext, method_of
from headrace.operators.user_code import calling_user_code

if TYPE_CHECKING:
    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.asynchronous.intake import Intake
    from headrace.operators.asynchronous.requests import RequestSettings

_SLACK: Final = 4096
"""So many records may wait for a slow one at least, where requests need no order."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Several records in one request.

    Attributes:
        size: how many.
        timeout: how long records wait for others, in milliseconds; None for as long as these keep coming.
    """

    size: int
    timeout: int | None


class AsyncOperator(Operator):
    """Calls a coroutine function for each record, or for some records at a time.

    Args:
        function: an ``AsyncFunction`` or a coroutine function; with a grouping, an ``AsyncBatchFunction``.
        output_type: the type of the results.
        settings: how requests are made.
        grouping: which records share a request; None where each has its own.
    """

    def __init__(
        self, function: Any, output_type: TypeInformation, settings: RequestSettings, grouping: Grouping | None = None
    ) -> None:
        super().__init__()
        self._function = function
        self._output_type = output_type
        self._settings = settings
        self._grouping = grouping
        self._methods = ("async_invoke", "timeout") if grouping is None else ("async_invoke_batch", "timeout_batch")
        self.maker = method_of(function, self._methods[0])
        window = settings.capacity * (1 if grouping is None else grouping.size)
        self._most_waiting = window if settings.is_ordered else max(_SLACK, 4 * window)
        self._pending: deque[Answers] = deque()
        self._waiting = 0

    def open(self, context: OperatorContext, output: Output) -> None:
        super().open(context, output)
        self._loop = EventLoopThread(f"requests of {context.name}")
        try:
            self._loop.run(self._life_cycle("open", RuntimeContext(context)))
        except BaseException:
            self._loop.close()
            raise
        self._requests = Requests(self._called(), self._settings, context)
        self._intake = self._make_intake()

    def process(self, input_index: int, batch: Batch) -> None:
        answers = Answers(batch)
        self._pending.append(answers)
        self._waiting += len(batch)
        self._loop.call(self._intake.add, answers)
        # Where branches of a stream meet again, a batch has to be through before the next one.
        self._emit_but(self._most_waiting if batch.ordinals is None else 0)

    def advance_watermark(self, watermark: int) -> None:
        self._emit_but(0)
        super().advance_watermark(watermark)

    def end_epoch(self) -> None:
        self.count("numAsyncTimeouts", self._requests.timeouts)
        self.count("numAsyncRetries", self._requests.retries)
        self._requests.timeouts = self._requests.retries = 0

    def close(self) -> None:
        if self._loop.is_closed:  # closing it has failed before
            return
        try:
            self._loop.run(self._requests.end())
            self._loop.run(self._life_cycle("close"))
        finally:
            self._loop.close()

    def _called(self) -> RequestFunction:
        invoke, timeout = self._methods
        on_timeout = method_of_object(self._function, timeout) or _out_of_time
        return RequestFunction(method_of(self._function, invoke), on_timeout)

    def _make_intake(self) -> Intake:
        grouping = self._grouping
        if grouping is None:
            return RecordIntake(self._requests)
        return GroupIntake(self._requests, grouping.size, None if grouping.timeout is None else grouping.timeout / 1000)

    async def _life_cycle(self, name: str, *arguments: Any) -> None:
        """Open or close the function, in the loop that its clients belong to."""
        if (called := method_of_object(self._function, name)) is None:
            return
        with calling_user_code(self.context):
            returned = called(*arguments)
            if inspect.isawaitable(returned):
                await returned

    def _emit_but(self, most: int) -> None:
        """Wait for results, and hand them on, until no more records than that are waiting."""
        while self._waiting > most:
            answers = self._pending.popleft()
            self._waiting -= len(answers.batch)
            self._await(answers)
            self._emit(answers)

    def _await(self, answers: Answers) -> None:
        if not answers.are_whole.is_set():
            self._loop.call(self._intake.hurry, answers)
            while not answers.are_whole.wait(LOOK_AROUND_SECONDS):
                if self._requests.failure is not None:
                    raise self._requests.failure

    def _emit(self, answers: Answers) -> None:
        rows = [row for results in answers.results for row in results]
        if not rows:
            return
        counts = list(map(len, answers.results))
        sources = np.repeat(np.arange(len(counts)), counts)
        self.output.emit(answers.batch.replaced(self._output_type, rows=rows, sources=sources))


def _out_of_time(_: Any) -> Any:
    """What a plain coroutine function does when its time is over."""
    raise TimeoutError("there is no result in time: give more time, or an AsyncFunction with a method timeout(value)")
