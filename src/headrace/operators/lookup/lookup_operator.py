"""``enrich``: each record in a pair with what is found of its key, for which keys become requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.common.batch import Batch
from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import TupleTypeInfo, TypeInformation
from headrace.common.values import handler_of
from headrace.metrics.registry import LOOKUP_CACHE_HITS, LOOKUP_MISSES
from headrace.operators.asynchronous.requesting_operator import RequestingOperator
from headrace.operators.asynchronous.requests import (
    Intake,
    Request,
    RequestedBatch,
    RequestFunction,
    Requests,
    RequestSettings,
)
from headrace.operators.base import EpochScope
from headrace.operators.lookup.readers import CacheSettings, Found, LookupReader, LookupResultCache, found_key
from headrace.operators.user_code import user_error
from headrace.state.copying import copier


class BatchRequestedByKey(RequestedBatch):
    """A batch of records, and what is found of their keys.

    Attributes:
        keys: the keys.

    Args:
        batch: the records.
        keys: the keys.
        rows: what has each of the keys, for messages; by default the keys themselves.
    """

    __slots__ = ("keys",)

    def __init__(self, batch: Batch, keys: list[Any], rows: list[Any] | None = None) -> None:
        super().__init__(batch, keys if rows is None else rows)
        self.keys = keys


class LookupIntake:
    """Makes a request for each key that is not known, or for some of them together; all in the loop.

    Args:
        requests: makes them.
        size: how many keys a request is for.
        cache: what is known of keys.
        value_type: the type of what is found.
        copies: whether a value that several records get is copied, since functions may change what they are given.

    Attributes:
        hits: how many records had a key that was known.
        misses: how many records had a key of which nothing was found.
    """

    def __init__(
        self, requests: Requests, size: int, cache: LookupResultCache, value_type: TypeInformation, *, copies: bool
    ) -> None:
        self._requests = requests
        self._size = size
        self._cache = cache
        self._coerce = handler_of(value_type).coerce
        self._copy = copier(value_type) if copies else _same
        self._waiting: dict[Any, list[tuple[BatchRequestedByKey, int]]] = {}
        self._keys: list[Any] = []
        self.hits = 0
        self.misses = 0

    def add(self, answers: RequestedBatch) -> None:
        assert isinstance(answers, BatchRequestedByKey)
        for index, key in enumerate(answers.keys):
            if key is None:  # as in SQL, it equals no other
                self._put(answers, index, [])
            elif (found := self._cache.get(key)) is not None:
                self.hits += 1
                self._put(answers, index, list(map(self._copy, found)))
            elif key in self._waiting:
                self._waiting[key].append((answers, index))
            else:
                self._ask(key, answers, index)

    def hurry(self, answers: RequestedBatch) -> None:
        if self._keys:
            self._request()

    def found(self, key: object, found: Found) -> None:
        """Take the rows that were found for a requested key.

        Raises:
            InvalidTypeError: when it is not of the type that was declared.
        """
        found = [self._coerce(value, "what was found") for value in found]
        is_kept = self._cache.put(key, found)
        for number, (answers, index) in enumerate(self._waiting[key]):
            self._put(answers, index, list(map(self._copy, found)) if is_kept or number else found)
        del self._waiting[key]  # last: an error names a record that waits for it

    def first_record(self, key: object) -> Any:
        """The first record that waits for a key."""
        answers, index = self._waiting[key][0]
        return answers.rows[index]

    def _put(self, answers: BatchRequestedByKey, index: int, found: Found) -> None:
        self.misses += not found
        answers.put(index, found)

    def _ask(self, key: object, answers: BatchRequestedByKey, index: int) -> None:
        self._waiting[key] = [(answers, index)]
        self._keys.append(key)
        if len(self._keys) == self._size:
            self._request()

    def _request(self) -> None:
        keys, self._keys = self._keys, []
        self._requests.add([_KeysRequest(keys, self)])


class _KeysRequest(Request):
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
        """Each key by itself, and only poor results are requested again: which keys share a request is chance."""
        poor = [key for key in self.argument if predicate({key: found} if (found := results[key]) else {})]
        if poor:
            self.argument, self._key = poor, poor[0]
        return bool(poor)

    def answer(self, results: dict[Any, Found]) -> None:
        for self._key, found in results.items():
            self._intake.found(self._key, found)


@dataclass(frozen=True, slots=True)
class LookupRequests:
    """The settings of requests by key.

    Attributes:
        requests: how requests are made.
        cache: what is kept of what was found; None for nothing.
    """

    requests: RequestSettings
    cache: CacheSettings | None


@dataclass(frozen=True, slots=True)
class LookupSettings(LookupRequests):
    """The settings of a lookup join.

    Attributes:
        refresh: after how many milliseconds a whole table is read again, by the clock of the job; None for never.
        keeps_misses: whether records whose key is missing leave in a pair with None.
        miss_tag: the side output that they leave by; None where they do not.
    """

    refresh: int | None
    keeps_misses: bool
    miss_tag: OutputTag | None


class KeyRequestingOperator(RequestingOperator):
    """Requests the rows of keys from a reader, unless they are in the cache.

    Args:
        reader: the reader of the table.
        output_type: the type of the results.
        found_type: the type of what is found.
        settings: how.
        copies: as for :class:`LookupIntake`.
    """

    def __init__(
        self,
        reader: LookupReader,
        output_type: TypeInformation,
        found_type: TypeInformation,
        settings: LookupRequests,
        *,
        copies: bool = True,
    ) -> None:
        called = RequestFunction(reader.read, _out_of_time, reader.called)
        super().__init__(reader, called, output_type, settings.requests, reader.keys_per_request)
        self._reader = reader
        self._found_type = found_type
        self._copies = copies
        self._cache = LookupResultCache(settings.cache)

    def begin_epoch(self, scope: EpochScope) -> None:
        self._cache.now = scope.processing_time

    def end_epoch(self) -> None:
        super().end_epoch()
        intake = self._lookup_intake
        self.count(LOOKUP_CACHE_HITS, intake.hits)
        intake.hits = 0

    def _make_intake(self) -> Intake:
        size = self._reader.keys_per_request
        made = LookupIntake(self._requests, size, self._cache, self._found_type, copies=self._copies)
        self._lookup_intake = made
        return made


class LookupOperator(KeyRequestingOperator):
    """Each record in a pair with what is found of its key.

    Args:
        reader: the reader of the table.
        key_of: gives the key of a record.
        output_type: the type of the pairs.
        settings: how.
    """

    def __init__(
        self,
        reader: LookupReader,
        key_of: Callable[[Any], object],
        output_type: TypeInformation,
        settings: LookupSettings,
    ) -> None:
        assert isinstance(output_type, TupleTypeInfo)
        record_type, found_type = output_type.field_types
        super().__init__(reader, output_type, found_type, settings)
        self._key_of = key_of
        self._copy_record = copier(record_type)
        self._lookup = settings
        self._read_at: int | None = None

    def begin_epoch(self, scope: EpochScope) -> None:
        super().begin_epoch(scope)
        now = scope.processing_time
        refresh = self._lookup.refresh
        is_old = self._read_at is None or (refresh is not None and now - self._read_at >= refresh)
        if self._reader.reads_all and is_old:
            self._loop.run(self._read_all())
            self._read_at = now

    def end_epoch(self) -> None:
        super().end_epoch()
        self.count(LOOKUP_MISSES, self._lookup_intake.misses)
        self._lookup_intake.misses = 0

    def _requested(self, batch: Batch) -> RequestedBatch:
        keys: list[Any] = []
        rows, row = batch.rows, None
        try:
            for row in rows:
                key = found_key(self._key_of(row))
                hash(key)
                keys.append(key)
        except BaseException as error:
            raise user_error(error, self.context, row, function=self._key_of) from error
        return BatchRequestedByKey(batch, keys, rows)

    def _emit(self, answers: RequestedBatch) -> None:
        found = answers.results
        missing = np.fromiter((not results for results in found), np.bool_, len(found))
        tag = self._lookup.miss_tag
        if tag is not None and missing.any():
            self.output.emit_side(tag.tag_id, answers.batch.filter(missing))
        if self._lookup.keeps_misses:
            found = [results or [None] for results in found]
        self._emit_results(answers.batch, list(map(self._pairs, answers.rows, found)))

    def _pairs(self, row: object, found: Found) -> list[tuple[Any, Any]]:
        """A record with each that was found; no two pairs share it, as functions may change what they are given."""
        if len(found) < 2:
            return [(row, value) for value in found]
        return [(self._copy_record(row), value) for value in found]

    async def _read_all(self) -> None:
        settings = self._lookup.requests
        try:
            async with asyncio.timeout(settings.timeout / 1000 if settings.timeout else None) as limit:
                self._cache.fill(await self._reader.read_all())
        except BaseException as error:
            if isinstance(error, TimeoutError) and limit.expired():
                error.args = (f"the whole of it was not read in {settings.timeout} ms: give more time",)
            failure = user_error(error, self.context)
            raise failure from (None if failure is error else error)


def _out_of_time(keys: list[Any]) -> Any:
    raise TimeoutError(f"nothing is known of {keys[0]!r} in time: give more time, or look at why it takes so long")


def _same(value: Any) -> Any:
    return value
