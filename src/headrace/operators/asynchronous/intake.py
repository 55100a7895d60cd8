"""What becomes a request: a record, or several of them together. All of it runs in the loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.common.arguments import with_article
from headrace.common.errors import InvalidTypeError
from headrace.common.row import Row
from headrace.operators.asynchronous.requests import Request

if TYPE_CHECKING:
    from headrace.operators.asynchronous.requests import Answers, Requests

_NO_LISTS: Final = (str, bytes, bytearray, Row)


class Intake(Protocol):
    """Makes requests of batches."""

    def add(self, answers: Answers) -> None:
        """Request what has to be known of these records."""

    def hurry(self, answers: Answers) -> None:
        """Somebody waits for these: nothing may wait for more records to come."""


class RecordIntake:
    """A request for each record."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def add(self, answers: Answers) -> None:
        self._requests.add(_RecordRequest(row, answers, index) for index, row in enumerate(answers.rows))

    def hurry(self, answers: Answers) -> None:
        """No record waits for others."""


class GroupIntake:
    """A request for so many records at a time, across the batches that they come in.

    Args:
        requests: makes them.
        size: how many records.
        seconds: so long records wait for others at most; None for as long as these keep coming in the epoch.
    """

    def __init__(self, requests: Requests, size: int, seconds: float | None) -> None:
        self._requests = requests
        self._size = size
        self._seconds = seconds
        self._records: list[Any] = []
        self._places: list[tuple[Answers, int]] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, answers: Answers) -> None:
        for index, row in enumerate(answers.rows):
            self._records.append(row)
            self._places.append((answers, index))
            if len(self._records) == self._size:
                self._request()
        if self._records and self._seconds is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._request)

    def hurry(self, answers: Answers) -> None:
        if self._places and self._places[0][0] is answers:
            self._request()

    def _request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        records, places = self._records, self._places
        self._records, self._places = [], []
        self._requests.add([_GroupRequest(records, places)])


class _RecordRequest(Request):
    """Of one record, with a list of results."""

    __slots__ = ("_answers", "_index")

    def __init__(self, record: Any, answers: Answers, index: int) -> None:
        super().__init__(record)
        self._answers = answers
        self._index = index

    def results(self, returned: Any) -> list[Any]:
        return _list_of(returned, "AsyncFunction", "[] where a record has none")

    def answer(self, results: list[Any]) -> None:
        self._answers.put(self._index, results)


class _GroupRequest(Request):
    """Of several records, with a result for each of them."""

    __slots__ = ("_places",)

    def __init__(self, records: list[Any], places: list[tuple[Answers, int]]) -> None:
        super().__init__(records)
        self._places = places

    def results(self, returned: Any) -> list[Any]:
        return _list_of(returned, "AsyncBatchFunction", "one for each record")

    def answer(self, results: list[Any]) -> None:
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
    told = "cannot be none" if returned is None else f"should be of list type, not {with_article(type(returned))}"
    todo = "await it" if inspect.isawaitable(returned) else f"return a list, {what}"
    raise InvalidTypeError(f"The result of {function} {told}: {todo}")
