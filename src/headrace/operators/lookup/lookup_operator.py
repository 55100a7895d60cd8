"""``enrich``: each record in a pair with what is found of its key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.common.typeinfo import TupleTypeInfo
from headrace.metrics.own_names import LOOKUP_CACHE_HITS, LOOKUP_MISSES
from headrace.operators.asynchronous.requesting_operator import RequestingOperator
from headrace.operators.asynchronous.requests import RequestFunction
from headrace.operators.lookup.cache import FullCache, NoCache, PartialCache
from headrace.operators.lookup.intake import KeyedAnswers, LookupIntake
from headrace.operators.user_code import user_error
from headrace.state.copying import copier

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.batch import Batch
    from headrace.common.output_tag import OutputTag
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.asynchronous.intake import Intake
    from headrace.operators.asynchronous.requests import Answers, RequestSettings
    from headrace.operators.base import EpochScope
    from headrace.operators.lookup.cache import CacheSettings, Found
    from headrace.operators.lookup.reader import LookupReader


@dataclass(frozen=True, slots=True)
class LookupSettings:
    """How records are joined.

    Attributes:
        requests: how requests are made.
        cache: what is kept of what was found; None for nothing.
        refresh: after how many milliseconds a whole table is read again, by the clock of the job; None for never.
        keeps_misses: whether records whose key is missing leave in a pair with None.
        miss_tag: the side output that they leave by; None where they do not.
    """

    requests: RequestSettings
    cache: CacheSettings | None
    refresh: int | None
    keeps_misses: bool
    miss_tag: OutputTag | None


class LookupOperator(RequestingOperator):
    """Asks a reader about the keys of records, unless it knows them.

    Args:
        reader: who is asked.
        key_of: gives the key of a record.
        output_type: the type of the pairs.
        settings: how.
    """

    def __init__(
        self,
        reader: LookupReader,
        key_of: Callable[[Any], Any],
        output_type: TypeInformation,
        settings: LookupSettings,
    ) -> None:
        super().__init__(reader, output_type, settings.requests, reader.keys_per_request)
        self._reader = reader
        self._key_of = key_of
        assert isinstance(output_type, TupleTypeInfo)
        record_type, self._found_type = output_type.field_types
        self._copy_record = copier(record_type)
        self._lookup = settings
        self._cache = None if settings.cache is None else PartialCache(settings.cache)
        self._read_at: int | None = None

    def begin_epoch(self, scope: EpochScope) -> None:
        now = scope.processing_time
        if self._cache is not None:
            self._cache.now = now
        refresh = self._lookup.refresh
        is_old = self._read_at is None or (refresh is not None and now - self._read_at >= refresh)
        if self._reader.reads_all and is_old:
            self._loop.run(self._read_all())
            self._read_at = now

    def end_epoch(self) -> None:
        super().end_epoch()
        intake = self._lookup_intake
        self.count(LOOKUP_CACHE_HITS, intake.hits)
        self.count(LOOKUP_MISSES, intake.misses)
        intake.hits = intake.misses = 0

    def _called(self) -> RequestFunction:
        return RequestFunction(self._reader.read, _out_of_time, self._reader.asked)

    def _make_intake(self) -> Intake:
        cache = NoCache() if self._cache is None else self._cache
        self._lookup_intake = LookupIntake(self._requests, self._reader.keys_per_request, cache, self._found_type)
        return self._lookup_intake

    def _asked(self, batch: Batch) -> Answers:
        return KeyedAnswers(batch, self._key_of, self.context)

    def _emit(self, answers: Answers) -> None:
        found = answers.results
        missing = np.fromiter((not results for results in found), np.bool_, len(found))
        tag = self._lookup.miss_tag
        if tag is not None and missing.any():
            self.output.emit_side(tag.tag_id, answers.batch.filter(missing))
        if self._lookup.keeps_misses:
            found = [results or [None] for results in found]
        self._emit_results(answers.batch, list(map(self._pairs, answers.rows, found)))

    def _pairs(self, row: Any, found: Found) -> list[tuple[Any, Any]]:
        """A record with each that was found; no two pairs share it, as functions may change what they are given."""
        if len(found) < 2:
            return [(row, value) for value in found]
        return [(self._copy_record(row), value) for value in found]

    async def _read_all(self) -> None:
        settings = self._lookup.requests
        try:
            async with asyncio.timeout(settings.timeout / 1000 if settings.timeout else None) as limit:
                self._lookup_intake.cache = FullCache(await self._reader.read_all())
        except BaseException as error:
            if isinstance(error, TimeoutError) and limit.expired():
                error.args = (f"the whole of it was not read in {settings.timeout} ms: give more time",)
            told = user_error(error, self.context)
            raise told from (None if told is error else error)


def _out_of_time(keys: list[Any]) -> Any:
    raise TimeoutError(f"nothing is known of {keys[0]!r} in time: give more time, or look at why it takes so long")
