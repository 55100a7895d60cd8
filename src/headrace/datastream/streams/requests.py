"""Requests of ``AsyncDataStream`` and ``enrich``: from what a program gives to them to their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.arguments import expect, refused
from headrace.common.errors import InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.common.time import to_millis
from headrace.datastream.lookup import Lookup, LookupCache
from headrace.datastream.streams.columns import type_of_field
from headrace.datastream.streams.keying import selector_of
from headrace.expressions import Expression
from headrace.graph.async_specs import LookupSpec
from headrace.operators.asynchronous.requests import RequestSettings
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY, AsyncRetryStrategy
from headrace.operators.lookup.database import DatabaseReader
from headrace.operators.lookup.lookup_operator import LookupSettings

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.common.time import Duration, Time
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.lookup.reader import LookupReader


def request_settings(
    timeout: Duration | Time | timedelta | int,
    capacity: int,
    strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    *,
    is_ordered: bool,
    strategy_argument: str = "async_retry_strategy",
) -> RequestSettings:
    """The settings.

    Args:
        timeout: how long a request may take with all its attempts; 0 for as long as it takes.
        capacity: how many requests are in flight at most.
        strategy: when a request is made again.
        is_ordered: whether requests are those of consecutive records.
        strategy_argument: what the program calls the strategy.

    Raises:
        InvalidTypeError: when an argument is of the wrong kind.
        InvalidProgramError: when the capacity is not positive, the timeout is negative, or retries have none.
    """
    expect(capacity, int, "capacity")
    expect(strategy, AsyncRetryStrategy, strategy_argument)
    millis = to_millis(timeout, "timeout")
    if capacity <= 0:
        raise refused(f"capacity: at least one request has to be in flight, not {capacity}")
    if millis < 0:
        raise refused(f"timeout: it cannot be negative, {millis} ms; 0 waits for as long as it takes")
    if not millis and strategy is not NO_RETRY_STRATEGY:
        raise refused("timeout: requests that are made again need one, which covers all attempts")
    return RequestSettings(millis, capacity, is_ordered, strategy)


KEEP: Final = "keep"
DROP: Final = "drop"


class SeveralSelectors:
    """The tuple of what several selectors give.

    Args:
        selectors: the selectors.
    """

    def __init__(self, selectors: tuple[Any, ...]) -> None:
        self._selectors = selectors

    def __call__(self, record: Any) -> tuple[Any, ...] | None:
        key = tuple(selector(record) for selector in self._selectors)
        return None if None in key else key


def lookup_spec(
    record_type: TypeInformation,
    lookup: Any,
    on: Any,
    cache: LookupCache | None,
    misses: Any,
    requests: RequestSettings,
) -> LookupSpec:
    """The spec of a lookup; the arguments but the first are those of ``enrich``."""
    if lookup is Lookup:
        raise refused(
            "enrich takes a Lookup, not the class: Lookup.function(f), Lookup.table(...), say", InvalidTypeError
        )
    found = lookup if isinstance(lookup, Lookup) else Lookup.function(lookup)
    tag = misses if isinstance(misses, OutputTag) else None
    if tag is None and misses not in (KEEP, DROP):
        raise refused(f"misses is 'keep', 'drop' or an OutputTag, not {misses!r}", InvalidTypeError)
    reader = _reader(found.reader, cache)
    key_of = _key_of(record_type, on)
    _check_keys(record_type, on, reader)
    settings = LookupSettings(
        requests=requests,
        cache=None if cache is None else cache.settings,
        refresh=None if cache is None else cache.refresh,
        keeps_misses=misses == KEEP,
        miss_tag=tag,
    )
    return LookupSpec(reader, key_of, found.value_type, settings)


def _key_of(record_type: TypeInformation, on: Any) -> Any:
    if isinstance(on, tuple) and len(on) != 1:
        return SeveralSelectors(tuple(_key_of(record_type, one) for one in on))
    on = on[0] if isinstance(on, tuple) else on
    if isinstance(on, list | Expression):
        text = f"enrich takes a field, a tuple of fields or a function as on, not {on!r}"
        raise refused(text, InvalidTypeError)
    return selector_of(record_type, on, "enrich")


def _check_keys(record_type: TypeInformation, on: Any, reader: LookupReader) -> None:
    """Refuse keys that equal none of the table's, as far as their types are known.

    Raises:
        InvalidTypeError: when there are more or fewer of them than columns, or one is a number and the other a text.
    """
    names = on if isinstance(on, tuple) else (on,)
    if not reader.keys or (callable(on) and len(reader.keys) > 1):  # a function may give a tuple
        return
    if len(names) != len(reader.keys):
        raise refused(
            f"enrich: the key of a record is {on!r}, and that of a row {', '.join(map(repr, reader.keys))}: on and key "
            "have to be as many fields",
            InvalidTypeError,
        )
    for name, key, in_table in zip(names, reader.keys, reader.key_types, strict=False):
        if callable(name) or not record_type.is_composite:
            continue
        in_record = type_of_field(record_type, name, "enrich")
        if None not in (kinds := {_kind(in_record), _kind(in_table)}) and len(kinds) == 2:
            raise refused(
                f"enrich: the key of a record, {name!r}, is {in_record}, and that of a row, {key!r}, is {in_table}: no "
                "two would be equal, so give both the same type",
                InvalidTypeError,
            )


def _kind(type_info: TypeInformation) -> Any:
    """What values equal those of a type: numbers do those of any other type of numbers; None where it is not known."""
    arrow = type_info.arrow_type
    if arrow is None or pa.types.is_nested(arrow):
        return None
    is_number = pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow)
    return "number" if is_number or pa.types.is_boolean(arrow) else arrow


def _reader(reader: LookupReader, cache: LookupCache | None) -> LookupReader:
    """The reader, which reads everything where the cache is to hold it."""
    if cache is None:
        return reader
    expect(cache, LookupCache, "cache")
    if reader.reads_all:
        raise refused("the rows of a DataFrame are in memory anyway: leave cache out")
    if not cache.is_full:
        return reader
    if not isinstance(reader, DatabaseReader):
        raise refused("LookupCache.full() is for Lookup.table(...): a function cannot tell which keys there are")
    return reader.whole()
