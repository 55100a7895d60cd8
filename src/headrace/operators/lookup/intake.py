"""What becomes a request of a lookup: keys that no cache knows, each once at a time. All of it runs in the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.values import handler_of
from headrace.operators.asynchronous.requests import Answers, Request
from headrace.operators.lookup.comparable import found_key
from headrace.operators.user_code import user_error
from headrace.state.copying import copier

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.asynchronous.requests import Requests
    from headrace.operators.base import OperatorContext
    from headrace.operators.lookup.cache import Cache, Found


class KeyedAnswers(Answers):
    """A batch of records with their keys, and what is found of these.

    Attributes:
        keys: the key of each record.
    """

    __slots__ = ("keys",)

    def __init__(self, batch: Batch, key_of: Callable[[Any], Any], context: OperatorContext) -> None:
        super().__init__(batch)
        self.keys: list[Any] = []
        row = None
        try:
            for row in self.rows:
                key = found_key(key_of(row))
                hash(key)
                self.keys.append(key)
        except BaseException as error:
            raise user_error(error, context, row, function=key_of) from error


class LookupIntake:
    """Makes a request for each key that is not known, or for some of them together; all in the loop.

    Args:
        requests: makes them.
        size: how many keys a request is for.
        cache: what is known.
        value_type: the type of what is found. A value that several records get is copied, since functions may change
            what they are given.

    Attributes:
        cache: likewise; a table that has been read again takes the place of the one before.
        hits: how many records had a key that was known.
        misses: how many records had a key of which nothing was found.
    """

    def __init__(self, requests: Requests, size: int, cache: Cache, value_type: TypeInformation) -> None:
        self._requests = requests
        self._size = size
        self.cache = cache
        self._coerce = handler_of(value_type).coerce
        self._copy = copier(value_type)
        self._waiting: dict[Any, list[tuple[KeyedAnswers, int]]] = {}
        self._keys: list[Any] = []
        self.hits = 0
        self.misses = 0

    def add(self, answers: Answers) -> None:
        assert isinstance(answers, KeyedAnswers)
        for index, key in enumerate(answers.keys):
            if key is None:  # as in SQL, it equals no other
                self._put(answers, index, [])
            elif (found := self.cache.get(key)) is not None:
                self.hits += 1
                self._put(answers, index, list(map(self._copy, found)))
            elif key in self._waiting:
                self._waiting[key].append((answers, index))
            else:
                self._ask(key, answers, index)

    def hurry(self, answers: Answers) -> None:
        if self._keys:
            self._request()

    def found(self, key: Any, found: Found) -> None:
        """That was found of a key that was asked for.

        Raises:
            InvalidTypeError: when it is not of the type that was declared.
        """
        found = [self._coerce(value, "what was found") for value in found]
        is_kept = self.cache.put(key, found)
        for number, (answers, index) in enumerate(self._waiting[key]):
            self._put(answers, index, list(map(self._copy, found)) if is_kept or number else found)
        del self._waiting[key]  # last: what fails is told with a record that waits for it

    def first_record(self, key: Any) -> Any:
        """The first record that waits for a key."""
        answers, index = self._waiting[key][0]
        return answers.rows[index]

    def _put(self, answers: KeyedAnswers, index: int, found: Found) -> None:
        self.misses += not found
        answers.put(index, found)

    def _ask(self, key: Any, answers: KeyedAnswers, index: int) -> None:
        self._waiting[key] = [(answers, index)]
        self._keys.append(key)
        if len(self._keys) == self._size:
            self._request()

    def _request(self) -> None:
        keys, self._keys = self._keys, []
        self._requests.add([_KeysRequest(keys, self)])


class _KeysRequest(Request):
    """For some keys."""

    __slots__ = ("_found", "_intake", "_key")

    def __init__(self, keys: list[Any], intake: LookupIntake) -> None:
        super().__init__(keys)
        self._intake = intake
        self._key = keys[0]
        self._found: dict[Any, Found] = {}

    @property
    def record(self) -> Any:
        return self._intake.first_record(self._key)

    def results(self, returned: Any) -> dict[Any, Found]:
        self._found.update((key, returned.get(key, [])) for key in self.argument)
        return self._found

    def is_poor(self, results: Any, predicate: Callable[[Any], bool]) -> bool:
        """Each key by itself, and only what is poor is asked for again: which keys share a request is chance."""
        poor = [key for key in self.argument if predicate({key: found} if (found := results[key]) else {})]
        if poor:
            self.argument, self._key = poor, poor[0]
        return bool(poor)

    def answer(self, results: dict[Any, Found]) -> None:
        for self._key, found in results.items():
            self._intake.found(self._key, found)
