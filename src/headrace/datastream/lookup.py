"""Lookups for ``enrich``: where rows are found by a key, what is kept of them, and the settings of requests."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Self

import pyarrow as pa

from headrace.common.arguments import check_call
from headrace.common.call_site import of_function
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError, expect, refused, shown
from headrace.common.output_tag import OutputTag
from headrace.common.public_module import public_module
from headrace.common.time import Duration, Time, to_millis
from headrace.common.typeinfo import DeclaredType, PickledBytesTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.types import hints_of
from headrace.datastream.streams.checks import type_of_field
from headrace.datastream.streams.keying import selector_of
from headrace.datastream.streams.types import declared_type
from headrace.expressions import Expression
from headrace.formats.bulk_files import type_of_schema
from headrace.graph.process_specs import LookupSpec
from headrace.operators.asynchronous.requests import RequestSettings
from headrace.operators.asynchronous.retries import NO_RETRY_STRATEGY, AsyncRetryStrategy
from headrace.operators.lookup.lookup_operator import LookupSettings
from headrace.operators.lookup.readers import (
    CacheSettings,
    DatabaseReader,
    LookupFunctionReader,
    LookupReader,
    StaticReader,
)

Length = Duration | Time | timedelta | int

__all__ = ["Lookup", "LookupCache"]


_MOST_BYTES: Final = 256 << 20
"""Of a table that travels with the job to each of its tasks."""

_NAME: Final = re.compile(r'[\w$"`.\[\]]+')
"""Of a table or a column, in quotes or not."""


@dataclass(frozen=True, slots=True)
class LookupCache:
    """Keeps rows that a lookup has found, in the memory of each subtask.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream.lookup import LookupCache
        >>> LookupCache.partial(max_keys=1000, expires_after=Time.minutes(10)).settings.expires_after
        600000
        >>> LookupCache.full(refresh=Time.hours(1)).refresh
        3600000
    """

    settings: CacheSettings | None
    refresh: int | None = None

    @classmethod
    def partial(cls, max_keys: int = 10_000, expires_after: Length | None = None, *, keeps_misses: bool = True) -> Self:
        """The keys that were looked up last.

        Args:
            max_keys: how many; those that were not looked up the longest go first.
            expires_after: how long something counts after it was found, by the clock of the job, which stands still
                while an epoch runs; None for as long as there is room.
            keeps_misses: whether it is kept, too, that nothing was found.

        Raises:
            InvalidProgramError: when a number is not positive.
        """
        return cls(
            CacheSettings(_positive("max_keys", max_keys), _length("expires_after", expires_after), keeps_misses)
        )

    @classmethod
    def full(cls, refresh: Length | None = None) -> Self:
        """The whole table, for :meth:`Lookup.table`: it is read when a subtask begins, and then no service is called.

        Args:
            refresh: after what time it is read again, in front of an epoch; None for never.

        Raises:
            InvalidProgramError: when the time is not positive.
        """
        return cls(None, _length("refresh", refresh))

    @property
    def is_full(self) -> bool:
        """Return whether it holds a whole table."""
        return self.settings is None


@dataclass(frozen=True, slots=True)
class Lookup:
    """The other side of ``enrich``: a function, a static DataFrame, or a table of a database.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.lookup import Lookup
        >>> countries = Lookup.function({1: "fr", 2: "it"}.get, value_type=str)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_collection([(1, 9.5), (7, 3.0)])
        >>> orders.enrich(countries, on=0).execute_and_collect(limit=10)
        [((1, 9.5), 'fr'), ((7, 3.0), None)]
    """

    reader: LookupReader
    value_type: TypeInformation

    @staticmethod
    def function(function: Callable[[Any], Any], value_type: DeclaredType | None = None) -> Lookup:
        """A function of a key that gives a value, or None where there is none.

        Args:
            function: it may be ``async def``; else it is called in threads, several at a time. An object that is called
                may have ``open(runtime_context)`` and ``close()``.
            value_type: the type of the values; taken from the function's annotations when left out.

        Raises:
            InvalidTypeError: when it cannot be called with a key.
        """
        _check_callable(function, "key")
        return Lookup(LookupFunctionReader(function, 0), _value_type(function, value_type, is_mapping=False))

    @staticmethod
    def of_many(
        function: Callable[[list[Any]], Any], value_type: DeclaredType | None = None, keys_per_request: int = 500
    ) -> Lookup:
        """A function of a list of keys that gives a dict of the values that there are, by key.

        Args:
            function: as for :meth:`function`.
            value_type: the type of the values; taken from the function's annotations when left out.
            keys_per_request: how many keys are in a list at most.

        Raises:
            InvalidTypeError: when it cannot be called with a list.
            InvalidProgramError: when the number of keys is not positive.
        """
        _check_callable(function, "keys")
        size = _positive("keys_per_request", keys_per_request)
        return Lookup(LookupFunctionReader(function, size), _value_type(function, value_type, is_mapping=True))

    @staticmethod
    def dataframe(rows: Any, key: str | tuple[str, ...]) -> Lookup:
        """The rows of a static Spark DataFrame, or of a ``pyarrow.Table``; a key may have several.

        They are read now, and travel with the job to all tasks: what changes in the DataFrame afterwards is seen when
        the program is started again.

        Args:
            rows: the DataFrame.
            key: the column, or columns, that are the key.

        Raises:
            InvalidTypeError: when it is neither, or has no such column, or one without a type in headrace.
            InvalidProgramError: when it is larger than 256 MiB.
        """
        table = rows.toArrow() if callable(getattr(rows, "toArrow", None)) else rows
        if not isinstance(table, pa.Table):
            raise refused(
                f"Lookup.dataframe takes a DataFrame of Spark or a pyarrow.Table, not {shown(rows)}: one of pandas is "
                "pyarrow.Table.from_pandas(frame)",
                InvalidTypeError,
            )
        keys = _names("key", key)
        if missing := [name for name in keys if name not in table.schema.names]:
            known = ", ".join(table.schema.names)
            raise refused(
                f"Lookup.dataframe: there is no column {missing[0]!r} for the key: there are {known}", InvalidTypeError
            )
        if table.nbytes > _MOST_BYTES:
            raise refused(
                f"the rows take {table.nbytes >> 20} MiB, and would travel with the job to each task: join DataFrames "
                "first, or look rows up in a database"
            )
        row_type = type_of_schema(table.schema)
        return Lookup(StaticReader(table.cast(layout_of(row_type).schema), keys, row_type), row_type)

    @staticmethod
    def table(
        connect: Callable[[], Any],
        table: str,
        key: str | tuple[str, ...],
        columns: Mapping[str, DeclaredType],
        *,
        connections: int = 1,
        keys_per_request: int = 500,
    ) -> Lookup:
        """Rows of a table of a database, by any driver that follows the DB-API; a key may have several.

        Args:
            connect: makes a connection, in a task: ``lambda: psycopg.connect(url, autocommit=True)``. Without
                autocommit some databases go on showing what was there at the first query.
            table: its name.
            key: the column, or columns, that are the key.
            columns: the columns that are wanted, with their types; they become the fields of the rows.
            connections: how many queries of each subtask run at a time.
            keys_per_request: how many keys are in one query.

        Raises:
            InvalidTypeError: when a type is none, or ``connect`` is a connection.
            InvalidProgramError: when a name is none, or a number is not positive.
        """
        given: Any = connect
        is_connection = hasattr(given, "cursor") and not isinstance(given, type)  # those of sqlite3 can be called
        if not callable(given) or is_connection:
            text = f"connect takes a function that makes a connection in a task, lambda: ..., not {shown(connect)}"
            raise refused(text, InvalidTypeError)
        check_call(connect, "connect")
        expect(columns, Mapping, 'columns, as {"name": str},')
        keys, names = _names("key", key), _names("columns", tuple(columns))
        for name in (table, *keys, *names):
            if not _NAME.fullmatch(name):
                raise refused(f"{name!r} is no name of a table or a column")
        reader = DatabaseReader(
            connect,
            table,
            keys,
            names,
            connections=_positive("connections", connections),
            keys_per_request=_positive("keys_per_request", keys_per_request),
        )
        return Lookup(reader, Types.ROW_NAMED(list(names), [declared_type(kind) for kind in columns.values()]))


def _check_callable(function: Any, argument: str) -> None:
    if not callable(function):
        text = f"expected a function of ({argument}), got {shown(function)}{_instead(function)}"
        raise refused(text, InvalidTypeError)
    check_call(function, "a lookup", argument)
    called = LookupFunctionReader(function, 0).called
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        text = f"a lookup returns what is found, and yields nothing ({of_function(called)})"
        raise refused(text, InvalidTypeError)


def _instead(given: Any) -> str:
    """The end of a message about what is no function: how it is looked up all the same."""
    if isinstance(given, Mapping):
        return ": give its method get, or Lookup.function(table.get)"
    if callable(getattr(given, "toArrow", None)) or isinstance(given, pa.Table):
        return ": use Lookup.dataframe(rows, key=...)"
    if isinstance(given, str):
        return ": use Lookup.table(connect, name, key=..., columns=...)"
    if callable(getattr(given, "key_by", None)):
        return ": two streams come together by join(...), interval_join(...) or connect(...)"
    return ""


def _value_type(function: Any, declared: Any, *, is_mapping: bool) -> TypeInformation:
    """The type of what is found: declared, else by annotations, else pickled objects."""
    if declared is not None:
        return declared_type(declared)
    hint = hints_of(function).get("return", Any)
    if is_mapping:
        arguments = typing.get_args(hint)
        hint = arguments[1] if len(arguments) == 2 else Any
    present = [member for member in typing.get_args(hint) or (hint,) if member is not type(None)]
    is_optional = type(None) in typing.get_args(hint)
    found = present[0] if is_optional and len(present) == 1 else hint
    return PickledBytesTypeInfo() if found is Any else Types.of(found)


def _names(argument: str, given: str | tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not names or not all(isinstance(name, str) for name in names):
        raise refused(f"{argument} takes a name or several, not {given!r}", InvalidTypeError)
    return names


def _positive(name: str, number: int) -> int:
    expect(number, int, name)
    if number <= 0:
        raise refused(f"{name} has to be positive, not {number}")
    return number


def _length(name: str, given: Length | None) -> int | None:
    return None if given is None else _positive(name, to_millis(given, name))


public_module(__name__)


def request_settings(
    timeout: Duration | Time | timedelta | int,
    capacity: int,
    strategy: AsyncRetryStrategy = NO_RETRY_STRATEGY,
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
    """Return one value for types whose values may be equal, as those of all numbers are; None where it is not known."""
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
