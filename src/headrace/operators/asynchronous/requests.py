"""Requests of one operator: what becomes one, a record or several of them, and how they are made.

So many are made at a time, each with its timeout and its attempts. All of it runs in the loop.
"""

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.common.batch import Batch
from headrace.common.errors import InvalidProgramError, InvalidTypeError, with_article
from headrace.common.types import Row
from headrace.operators.asynchronous.retries import AsyncRetryStrategy
from headrace.operators.base import OperatorContext
from headrace.operators.user_code import NO_RECORD, note_returned, user_error

_ENDING_SECONDS: Final = 2.0
"""The time limit for cancelled requests to end."""

_STUCK_SECONDS: Final = 5.0
"""Twice as long one may take whose time is over; then nothing is expected of it any more."""

OUT_OF_TIME: Final = object()
"""Stands for results that have not come in time."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The settings of requests.

    Attributes:
        timeout: how long a record may take with all its attempts, in milliseconds; 0 for as long as it takes.
        capacity: how many requests are in flight at most.
        is_ordered: whether a request begins only when all but the last ``capacity`` requests before it have ended;
            else when any has ended.
        retries: when a request is made again.
    """

    timeout: int
    capacity: int
    is_ordered: bool
    retries: AsyncRetryStrategy


class RequestedBatch:
    """A batch of records and what has come of them until now.

    Attributes:
        batch: the records.
        rows: the arguments of the requests, as Python objects.
        results: for each of these, the list of its results.
        are_whole: set when there are results of all of them.

    Args:
        batch: the records.
        rows: the arguments of the requests; by default the records, made here, as one of a wrong type fails the task.
    """

    __slots__ = ("_missing", "are_whole", "batch", "results", "rows")

    def __init__(self, batch: Batch, rows: list[Any] | None = None) -> None:
        self.batch = batch
        self.rows = batch.rows if rows is None else rows
        self.results: list[Any] = [None] * len(self.rows)
        self.are_whole = threading.Event()
        self._missing = len(self.rows)
        if not self._missing:
            self.are_whole.set()

    def put(self, index: int, results: list[Any]) -> None:
        """There are results of one record."""
        self.results[index] = results
        self._missing -= 1
        if not self._missing:
            self.are_whole.set()


class Request(ABC):
    """One call of the user's function.

    Attributes:
        argument: what it is called with.
        has_ended: whether there is a result.
        watch: looks after it once its time is over; None where it has all the time.
    """

    __slots__ = ("argument", "has_ended", "watch")

    def __init__(self, argument: Any) -> None:
        self.argument = argument
        self.has_ended = False
        self.watch: asyncio.TimerHandle | None = None

    @property
    def record(self) -> Any:
        """The record or key of the request, for messages."""
        return self.argument

    def results(self, returned: Any) -> Any:
        """The returned value, as the predicates of retries see it.

        Raises:
            InvalidTypeError: when it is not what it should be.
        """
        return returned

    def is_poor(self, results: Any, predicate: Callable[[Any], bool]) -> bool:
        """Return whether there is to be another attempt, by a predicate on the results of this one."""
        return predicate(results)

    @abstractmethod
    def answer(self, results: Any) -> None:
        """Take the results of the last attempt.

        Raises:
            InvalidTypeError: when they are not what they should be.
        """


@dataclass(frozen=True, slots=True)
class RequestFunction:
    """The functions that requests call.

    Attributes:
        invoke: makes an attempt.
        on_timeout: gives results where there are none in time; it may be a coroutine function.
        given_by: the user's function that the results of ``invoke`` come from, for messages.
    """

    invoke: Callable[[Any], Awaitable[Any]]
    on_timeout: Callable[[Any], Any]
    given_by: Any


class Requests:
    """Makes requests in the order in which they come, as many at a time as may be.

    Args:
        function: what is called.
        settings: how.
        context: the operator, for messages.

    Attributes:
        failure: what the first request that failed is to raise; none begins after it.
        timeouts: how many requests have had no result in time.
        retries: how many attempts were not the first.
    """

    def __init__(self, function: RequestFunction, settings: RequestSettings, context: OperatorContext) -> None:
        self._function = function
        self._capacity = settings.capacity
        self._seconds = settings.timeout / 1000
        self._strategy = settings.retries
        predicate = settings.retries.get_retry_predicate()
        self._is_poor = predicate.result_predicate() or _never
        self._is_passing = predicate.exception_predicate() or _never
        self._context = context
        self._waiting: deque[Request] = deque()
        self._window: deque[Request] | None = deque() if settings.is_ordered else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = False
        self.failure: BaseException | None = None
        self.timeouts = 0
        self.retries = 0

    def add(self, requests: Iterable[Request]) -> None:
        """Make these as soon as there is room, unless it is over."""
        if not self._is_over:
            self._waiting.extend(requests)
            self._begin()

    def fail(self, error: BaseException, record: Any = NO_RECORD, function: Any = None) -> None:
        """Give up with this error; the arguments are those of :func:`user_error`."""
        if self.failure is None:
            self.failure = user_error(error, self._context, record, function=function)
            if self.failure is not error:
                self.failure.__cause__ = error
            self._give_up()

    async def end(self) -> None:
        """Give up what is in flight."""
        self._give_up()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ENDING_SECONDS)

    def _give_up(self) -> None:
        self._is_over = True
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def _begin(self) -> None:
        while self._waiting and self._has_room():
            request = self._waiting.popleft()
            if self._window is not None:
                self._window.append(request)
            task = asyncio.get_running_loop().create_task(self._make(request))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # before it began, so nothing in it has seen that
            self.fail(InvalidProgramError(_CANCELLED))
        elif (error := task.exception()) is not None:
            self.fail(error)
        self._begin()

    def _has_room(self) -> bool:
        return len(self._tasks if self._window is None else self._window) < self._capacity

    async def _make(self, request: Request) -> None:
        try:
            await self._answer(request)
        except BaseException as error:  # sys.exit() would end the loop
            self.fail(error, request.record)
            return
        request.has_ended = True
        window = self._window
        while window and window[0].has_ended:
            window.popleft()

    async def _answer(self, request: Request) -> None:
        given_by = self._function.given_by
        results = await self._in_time(self._attempts(request), request)
        if results is OUT_OF_TIME:
            self.timeouts += 1
            given_by = self._function.on_timeout
            results = _taken(request.results, await self._in_place(request), given_by)
        _taken(request.answer, results, given_by)

    async def _in_place(self, request: Request) -> Any:
        """The results in place of those that have timed out."""
        try:
            returned = self._function.on_timeout(request.argument)
            if inspect.isawaitable(returned):
                returned = await self._in_time(returned, request)
        except TimeoutError as error:
            if len(error.args) == 1:  # name the limit, which may have been meant in another unit
                error.args = (f"{error.args[0]} (the timeout is {self._limit})",)
            raise
        if returned is OUT_OF_TIME:
            name = getattr(self._function.on_timeout, "__name__", "timeout")
            raise TimeoutError(f"there is no result in time, and {name} gives none within {self._limit} either")
        return returned

    @property
    def _limit(self) -> str:
        return f"{self._seconds * 1000:g} ms"

    async def _in_time(self, awaited: Awaitable[Any], request: Request) -> Any:
        """Await a result; the value is ``OUT_OF_TIME`` after the time limit."""
        if not self._seconds:
            return await awaited
        request.watch = self._later(self._seconds + _STUCK_SECONDS, self._watch, request)
        try:
            async with asyncio.timeout(self._seconds) as limit:
                results = await awaited
        except Exception:  # ended by the limit, it may raise anything, or nothing
            if not limit.expired():
                raise
        finally:
            request.watch.cancel()
        return OUT_OF_TIME if limit.expired() else results

    def _watch(self, request: Request) -> None:
        """Its time is over, which is noticed only now where something has held up the loop."""
        request.watch = self._later(_STUCK_SECONDS, self._is_stuck, request)

    def _is_stuck(self, request: Request) -> None:
        self.fail(TimeoutError(_STUCK), request.record, self._function.given_by)

    @staticmethod
    def _later(seconds: float, function: Callable[[Request], None], request: Request) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, function, request)

    async def _attempts(self, request: Request) -> Any:
        attempts, function = 1, self._function
        while True:
            try:
                returned = await function.invoke(request.argument)
            except Exception as error:
                if not (self._may_retry(attempts) and self._is_passing(error)):
                    raise
            else:
                results = _taken(request.results, returned, function.given_by)
                if not (self._may_retry(attempts) and request.is_poor(results, self._is_poor)):
                    return results
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1
            self.retries += 1

    def _may_retry(self, attempts: int) -> bool:
        """Return whether there may be another attempt: none of a cancelled one, whatever its predicates return."""
        task = asyncio.current_task()
        assert task is not None, "requests are made by tasks"
        return not task.cancelling() and self._strategy.can_retry(attempts)


_CANCELLED: Final = (
    "a request was cancelled before it began: a function must not cancel tasks of its event loop that are not its own"
)
_STUCK: Final = (
    "its time is over, and it goes on although it was cancelled: have it end at a CancelledError, which "
    "'except Exception' lets pass, and a bare 'except' or 'except BaseException' does not"
)


def _taken(take: Callable[[Any], Any], returned: Any, given_by: Any) -> Any:
    """The results in what a function has returned; the error for a wrong value notes the function."""
    try:
        return take(returned)
    except InvalidTypeError as error:
        note_returned(error, given_by)
        raise


def _never(_: Any) -> bool:
    return False


_NO_LISTS: Final = (str, bytes, bytearray, Row)


class Intake(Protocol):
    """Makes requests of batches."""

    def add(self, answers: RequestedBatch) -> None:
        """Request what has to be known of these records."""

    def hurry(self, answers: RequestedBatch) -> None:
        """Do not wait for more records to come: these are needed now."""


@dataclass(frozen=True, slots=True)
class RequestGrouping:
    """Several records in one request.

    Attributes:
        size: how many.
        timeout: how long records wait for others, in milliseconds; None for as long as these keep coming.
    """

    size: int
    timeout: int | None


class RecordIntake:
    """A request for each record, or for so many at a time, across the batches that they come in.

    Args:
        requests: makes them.
        grouping: which records share a request; None where each has its own.
    """

    def __init__(self, requests: Requests, grouping: RequestGrouping | None) -> None:
        self._requests = requests
        self._is_grouped = grouping is not None
        self._size = 1 if grouping is None else grouping.size
        self._seconds = None if grouping is None or grouping.timeout is None else grouping.timeout / 1000
        self._records: list[Any] = []
        self._places: list[tuple[RequestedBatch, int]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, answers: RequestedBatch) -> None:
        for index, row in enumerate(answers.rows):
            self._records.append(row)
            self._places.append((answers, index))
            if len(self._records) == self._size:
                self._request()
        if self._records and self._seconds is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._request)

    def hurry(self, answers: RequestedBatch) -> None:
        if self._places and self._places[0][0] is answers:
            self._request()

    def _request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        records, places = self._records, self._places
        self._records, self._places = [], []
        self._requests.add([_RecordRequest(records if self._is_grouped else records[0], places, self._is_grouped)])


class _RecordRequest(Request):
    """About one record, of which there is a list of results; or about several, with a result for each of them."""

    __slots__ = ("_is_grouped", "_places")

    def __init__(self, argument: Any, places: list[tuple[RequestedBatch, int]], is_grouped: bool) -> None:
        super().__init__(argument)
        self._places = places
        self._is_grouped = is_grouped

    def results(self, returned: Any) -> list[Any]:
        if self._is_grouped:
            return _list_of(returned, "AsyncBatchFunction", "one for each record")
        return _list_of(returned, "AsyncFunction", "[] where a record has none")

    def answer(self, results: list[Any]) -> None:
        if not self._is_grouped:
            answers, index = self._places[0]
            answers.put(index, results)
            return
        if len(results) != len(self._places):
            raise InvalidTypeError(
                f"{len(results)} results were returned for {len(self._places)} records: return one for each, in their "
                "order"
            )
        for (answers, index), result in zip(self._places, results, strict=True):
            answers.put(index, [result])


def _list_of(returned: Any, function: str, what: str) -> list[Any]:
    """The results that a function has returned.

    Raises:
        InvalidTypeError: when they are no list, nor anything like it.
    """
    if type(returned) is list:
        return returned
    if isinstance(returned, Iterable) and not isinstance(returned, _NO_LISTS):
        return list(returned)
    problem = "cannot be none" if returned is None else f"should be of list type, not {with_article(type(returned))}"
    todo = "await it" if inspect.isawaitable(returned) else f"return a list, {what}"
    raise InvalidTypeError(f"The result of {function} {problem}: {todo}")
