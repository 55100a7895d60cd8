"""Readers of lookups: functions, tables of databases, whole tables; and the cache of what they return."""

from __future__ import annotations

import asyncio
import inspect
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from numbers import Number
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import pyarrow as pa

from headrace.common.arguments import method_of_object
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError, with_article
from headrace.common.logs import get_logger
from headrace.common.typeinfo import TypeInformation
from headrace.common.types import Row
from headrace.connectors.source import EnumeratorContext, ReadBudget, ReaderContext, Source, SplitEnumerator
from headrace.operators.asynchronous.event_loop import DaemonThreads
from headrace.state.keys.typed import NAN, same_nan
from headrace.state.runs.merge_input import concat
from headrace.storage.folder import posix_folder

logger = get_logger(__name__)


def found_key(key: Any) -> Any:
    """A key as a dict finds it: all NaNs are one, as in the keys of streams, and not each unlike itself."""
    return same_nan(key, NAN)


def check_comparable(requested: Iterable[Any], known: Iterable[Any]) -> None:
    """Refuse keys of which none can equal one that is known: texts beside numbers, or bytes.

    Raises:
        InvalidTypeError: with a key of either.
    """
    mine, theirs = ({_kind(key): key for key in keys} for keys in (requested, known))
    if mine and theirs and not mine.keys() & theirs.keys() and None not in {*mine, *theirs}:
        one, other = next(iter(mine.values())), next(iter(theirs.values()))
        raise InvalidTypeError(
            f"keys of records, {one!r} say, equal none of those that there are, {other!r} say: give both the same type"
        )


def _kind(key: Any) -> type | None:
    return next((kind for kind in (str, bytes, Number) if isinstance(key, kind)), None)


Found = list[Any]
"""All that is found of a key; empty where it is missing."""


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The settings of a cache.

    Attributes:
        max_keys: the most keys; those that were requested least recently go first.
        expires_after: how many milliseconds after it was found, by the clock of the job; None for never.
        keeps_misses: whether it is kept that nothing was found.
        expires_unused: how many milliseconds after the last request for it; None for never.
    """

    max_keys: int
    expires_after: int | None
    keeps_misses: bool
    expires_unused: int | None = None


class LookupResultCache:
    """The rows that need no request: those of the keys that were requested last, or the whole table once it was read.

    Args:
        settings: what is kept; None for nothing.

    Attributes:
        now: the clock of the epoch, in milliseconds.
    """

    def __init__(self, settings: CacheSettings | None) -> None:
        self._settings = settings
        self._found: OrderedDict[Any, tuple[int, int, Found]] = OrderedDict()
        self._table: Mapping[Any, Found] | None = None
        self._is_checked = False
        self.now = 0

    def fill(self, table: Mapping[Any, Found]) -> None:
        """This is all there is: from now on what is not in it is missing."""
        self._table, self._is_checked = table, False

    def get(self, key: Any) -> Found | None:
        """Return what was found of a key; None where a request is needed."""
        if self._table is not None:
            return self._in_table(self._table, key)
        entry = self._found.get(key)
        if entry is None or self._settings is None:
            return None
        since, used, found = entry
        limit, unused = self._settings.expires_after, self._settings.expires_unused
        if (limit is not None and self.now - since >= limit) or (unused is not None and self.now - used >= unused):
            del self._found[key]
            return None
        if unused is not None:
            self._found[key] = since, self.now, found
        self._found.move_to_end(key)
        return found

    def put(self, key: Any, found: Found) -> bool:
        """This was found of a key; whether that is kept."""
        settings = self._settings
        if settings is None or not (found or settings.keeps_misses):
            return False
        self._found[key] = self.now, self.now, found
        self._found.move_to_end(key)
        if len(self._found) > settings.max_keys:
            self._found.popitem(last=False)
        return True

    def _in_table(self, table: Mapping[Any, Found], key: Any) -> Found:
        found = table.get(key)
        if found is None and not self._is_checked:
            check_comparable((key,), table)
            self._is_checked = True
        return found or []


class LookupReader:
    """Finds rows by key; part of the plan, so what it opens is not in it before ``open``.

    Attributes:
        keys_per_request: the most keys of one request.
        reads_all: whether :meth:`read_all` gives the whole table, which makes :meth:`read` needless.
        never_changes: whether what there is stays what it was when the job was built.
        keys: the names of the columns that are the key, where it has any.
        key_types: the types of these columns, where they are known.
    """

    keys_per_request: int = 1
    reads_all: bool = False
    never_changes: bool = False
    keys: tuple[str, ...] = ()

    @property
    def key_types(self) -> tuple[TypeInformation, ...]:
        return ()

    @property
    def called(self) -> Any:
        """The user's function that looks up keys, for messages; None where there is none."""
        return None

    def open(self, runtime_context: Any) -> Any:
        """Called once before anything is read; what it returns may be awaitable."""

    def close(self) -> Any:
        """Called once at the end; likewise."""

    async def read(self, keys: list[Any]) -> Mapping[Any, Found]:
        """All that there is of some keys; those that are missing may be left out."""
        raise NotImplementedError

    async def read_all(self) -> Mapping[Any, Found]:
        """All that there is."""
        raise NotImplementedError


class LookupFunctionReader(LookupReader):
    """Reads by a function of the user.

    Args:
        function: of a key, which gives a value or None; or of a list of keys, which gives a mapping of values by key.
            It is awaited, or called in a thread.
        keys_per_request: how many keys are in the list; 0 for a function of a key.
    """

    def __init__(self, function: Any, keys_per_request: int) -> None:
        self._function = function
        self._takes_many = keys_per_request > 0
        self.keys_per_request = keys_per_request or 1
        self._is_awaited = inspect.iscoroutinefunction(self.called)

    @property
    def called(self) -> Any:
        function = self._function
        return function if inspect.isroutine(function) or isinstance(function, partial) else function.__call__

    def open(self, runtime_context: Any) -> Any:
        opened = method_of_object(self._function, "open")
        return None if opened is None else opened(runtime_context)

    def close(self) -> Any:
        closed = method_of_object(self._function, "close")
        return None if closed is None else closed()

    async def read(self, keys: list[Any]) -> Mapping[Any, Found]:
        if not self._takes_many:
            value = await self._call(keys[0])
            return {} if value is None else {keys[0]: [value]}
        values = await self._call(keys)
        if not isinstance(values, Mapping):
            given = "None" if values is None else with_article(type(values))
            raise InvalidTypeError(f"{given} was returned: return a dict of what was found by key")
        if not any(key in values for key in keys):
            check_comparable(keys, values)
        return {found_key(key): [value] for key, value in values.items() if value is not None}

    async def _call(self, argument: Any) -> Any:
        if self._is_awaited:
            return await self._function(argument)
        value = await asyncio.to_thread(self._function, argument)
        return await value if inspect.isawaitable(value) else value  # a lambda may call an async def


class StaticReader(LookupReader):
    """Has all rows, as they were when the job was built.

    Args:
        table: the rows.
        keys: the names of the columns that are the key.
        row_type: the type of the rows.
    """

    reads_all = True
    never_changes = True

    def __init__(self, table: pa.Table, keys: tuple[str, ...], row_type: TypeInformation) -> None:
        self._table = table
        self.keys = keys
        self._row_type = row_type

    @property
    def key_types(self) -> tuple[TypeInformation, ...]:
        return tuple(self._row_type.field_types[self._row_type.field_index(key)] for key in self.keys)

    async def read_all(self) -> Mapping[Any, Found]:
        places = [self._row_type.field_names.index(key) for key in self.keys]
        layout, found = layout_of(self._row_type), dict[Any, list[Any]]()
        for batch in self._table.to_batches():
            rows = layout.columns_to_rows(batch)
            add_by_key(found, rows, lambda row: key_at(row, places))
        return found


def key_at(row: Any, places: list[int]) -> Any:
    """The key that lies at some places of a row: the one field itself, or a tuple of several."""
    return row[places[0]] if len(places) == 1 else tuple(row[place] for place in places)


def add_by_key(found: dict[Any, list[Any]], rows: Iterable[Any], key_of: Callable[[Any], Any]) -> None:
    """Put rows where their keys are; those with a null in it are found by none, as in SQL."""
    for row in rows:
        key = found_key(key_of(row))
        if not _has_null(key):
            found.setdefault(key, []).append(row)


def _has_null(key: Any) -> bool:
    return key is None or (type(key) is tuple and None in key)


T = TypeVar("T")

_CLOSING_SECONDS: Final = 2.0
"""The time limit for connections to close."""

_MARKS: Final = {
    "qmark": lambda number: "?",
    "format": lambda number: "%s",
    "pyformat": lambda number: "%s",
    "named": lambda number: f":{number}",  # a driver that takes names takes numbers, too
    "numeric": lambda number: f":{number}",
    "numeric_dollar": lambda number: f"${number}",
}
"""The forms of parameters, by the names that drivers have for them."""


class DatabaseReader(LookupReader):
    """Queries a table: many keys at a time, or the whole of it.

    Args:
        connect: makes a connection.
        table: its name.
        keys: the columns that are the key.
        columns: the columns of the rows that are found.
        connections: how many queries run at a time.
        keys_per_request: how many keys are in one query.
        reads_all: whether the whole table is read.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        keys: tuple[str, ...],
        columns: tuple[str, ...],
        *,
        connections: int = 1,
        keys_per_request: int = 500,
        reads_all: bool = False,
    ) -> None:
        self._connect = connect
        self._table = table
        self.keys = keys
        self._columns = columns
        self._connections = connections
        self.keys_per_request = keys_per_request
        self.reads_all = reads_all

    def whole(self) -> DatabaseReader:
        """The same, but it reads the whole table."""
        return type(self)(self._connect, self._table, self.keys, self._columns, reads_all=True)

    def open(self, runtime_context: Any) -> None:
        self._open = [_Connection(self._connect) for _ in range(self._connections)]
        self._free: asyncio.Queue[_Connection] = asyncio.Queue()
        for connection in self._open:
            self._free.put_nowait(connection)

    async def close(self) -> None:
        closed = [connection.close() for connection in self._open]
        ended, _ = await asyncio.to_thread(wait, closed, _CLOSING_SECONDS)
        for error in filter(None, (each.exception() for each in ended)):
            logger.warning("a connection for table %s could not be closed", self._table, exc_info=error)

    async def read(self, keys: list[Any]) -> Mapping[Any, Found]:
        found = await self._run(keys)
        if without_request := found.keys() - set(keys):
            raise InvalidTypeError(
                f"table {self._table} has rows for the key {next(iter(without_request))!r}, which is none of the "
                f"requested ones: keys of records, {keys[0]!r} say, have to be of the type of the column, and as exact"
            )
        return found

    async def read_all(self) -> Mapping[Any, Found]:
        return await self._run(None)

    async def _run(self, keys: list[Any] | None) -> Mapping[Any, Found]:
        connection = await self._free.get()
        try:
            return await asyncio.wrap_future(connection.run(self._query, keys))
        finally:
            self._free.put_nowait(connection)

    def _query(self, connection: Any, keys: list[Any] | None) -> Mapping[Any, Found]:
        with closing(connection.cursor()) as cursor:
            try:
                if keys is None:
                    cursor.execute(self._select())
                else:
                    cursor.execute(f"{self._select()} WHERE {self._condition(connection, len(keys))}", self._flat(keys))
                rows = cursor.fetchall()
            except Exception as error:
                error.add_note(f"query: {self._select()}{'' if keys is None else ', by key'}")
                raise
            return self._by_key(rows)

    def named(self, column: str) -> str:
        """The name of a column in queries."""
        return column

    def _select(self) -> str:
        return f"SELECT {', '.join(map(self.named, (*self.keys, *self._columns)))} FROM {self._table}"

    def _condition(self, connection: Any, count: int) -> str:
        mark = _mark_of(connection)
        width, names = len(self.keys), tuple(map(self.named, self.keys))
        if width == 1:
            marks = ", ".join(mark(number + 1) for number in range(count))
            return f"{names[0]} IN ({marks})"
        each = (
            " AND ".join(f"{name} = {mark(number * width + place + 1)}" for place, name in enumerate(names))
            for number in range(count)
        )
        return " OR ".join(f"({one})" for one in each)

    def _flat(self, keys: list[Any]) -> list[Any]:
        return keys if len(self.keys) == 1 else list(chain.from_iterable(keys))

    def _by_key(self, rows: Iterable[Any]) -> dict[Any, Found]:
        width, places = len(self.keys), list(range(len(self.keys)))
        found: dict[Any, Found] = {}
        add_by_key(found, rows, lambda row: key_at(row, places))
        return {key: [_row(self._columns, row[width:]) for row in of_key] for key, of_key in found.items()}


class _Connection:
    """A connection and the thread that it belongs to; one that has failed is made anew for the next query.

    Args:
        connect: makes it.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._thread = DaemonThreads(1, "lookup")

    def run(self, query: Callable[[Any, Any], T], argument: Any) -> Future[T]:
        """Return what a function makes of the connection."""
        return self._thread.submit(self._run, query, argument)

    def close(self) -> Future[None]:
        """Close it once its query has ended."""
        closed = self._thread.submit(self._drop)
        self._thread.shutdown(wait=False)
        return closed

    def _run(self, query: Callable[[Any, Any], T], argument: Any) -> T:
        if self._connection is None:
            self._connection = self._connect()
        try:
            return query(self._connection, argument)
        except BaseException as error:
            try:
                self._drop()
            except Exception as another:  # of a connection that is broken, and that is not used any more
                error.add_note(f"closing the connection failed, too: {another!r}")
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _row(columns: tuple[str, ...], values: Iterable[Any]) -> Row:
    row = Row(*values)
    row.set_field_names(list(columns))
    return row


def _mark_of(connection: Any) -> Callable[[int], str]:
    """Return the style of parameters of a driver; most drivers that do not declare it take question marks."""
    module = sys.modules.get(type(connection).__module__.partition(".")[0])
    return _MARKS.get(getattr(module, "paramstyle", "qmark"), _MARKS["qmark"])


_DAY: Final = 24 * 60 * 60 * 1000

_EVERYTHING: Final = ReadBudget(1 << 62, 1 << 62)
_MOST_PIECES: Final = 16


class TableReader(ABC):
    """Reads a whole table.

    Attributes:
        never_changes: whether it always reads the same.
    """

    never_changes: bool = False

    @abstractmethod
    def read(self, now: int) -> pa.RecordBatch:
        """The rows.

        Args:
            now: the clock of the job, in milliseconds.
        """


@dataclass(frozen=True)
class StaticTable(TableReader):
    """Rows as they were when the job was built."""

    rows: pa.RecordBatch
    never_changes = True

    def read(self, now: int) -> pa.RecordBatch:
        return self.rows


@dataclass(frozen=True)
class SourceTable(TableReader):
    """The rows that a bounded source has when it is read.

    Attributes:
        source: the source.
        storage_options: how object stores are reached.
    """

    source: Source[Any]
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def read(self, now: int) -> pa.RecordBatch:
        schema = layout_of(self.source.produced_type).schema
        with TemporaryDirectory() as folder:
            options = dict(self.storage_options)
            context = EnumeratorContext(1, posix_folder(Path(folder)), storage_options=options)
            splits = self.source.create_enumerator(context)
            reader = self.source.create_reader()
            reader.open(ReaderContext(options))
            try:
                parts = [part for piece in pieces_of(splits, now) for part in reader.read(piece)]
            finally:
                reader.close()
        layout = layout_of(self.source.produced_type)
        columns = [layout.rows_to_columns(part.rows or []) if part.columns is None else part.columns for part in parts]
        return concat([pa.RecordBatch.from_pylist([], schema), *columns])


def pieces_of(splits: SplitEnumerator, now: int, rows_of_piece: int | None = None) -> Iterator[Any]:
    """All that there is to read of a bounded source.

    Args:
        splits: the source.
        now: the time.
        rows_of_piece: the number of rows that a piece has at least, about; None not to cut what is read at once.
    """
    for split in splits.discover(now):
        position = splits.initial_position(split)
        while (planned := splits.plan(split, position, _EVERYTHING, now)) is not None:
            if rows_of_piece is not None and (count := planned.records // rows_of_piece) > 1:
                budget = replace(_EVERYTHING, pieces=min(count, _MOST_PIECES), cuts_cost_nothing=True)
                planned = splits.plan(split, position, budget, now) or planned
            yield from planned.pieces
            position = planned.end


@dataclass(frozen=True, slots=True)
class ReloadTrigger:
    """Has a table read again before an epoch, by the clock of the job (Flink's ``CacheReloadTrigger``).

    Attributes:
        interval: the milliseconds between two reads; None to read the table once.
        at: the time of day in UTC, in milliseconds, at which it is read if the interval is a number of days; None for
            any.
    """

    interval: int | None = None
    at: int | None = None

    def is_due(self, read_at: int, now: int) -> bool:
        """Return whether the table is to be read again.

        Args:
            read_at: when it was read.
            now: the time.
        """
        if self.interval is None:
            return False
        if self.at is None:
            return now - read_at >= self.interval
        begun = read_at - (read_at - self.at) % _DAY
        return now >= begun + max(self.interval, _DAY)
