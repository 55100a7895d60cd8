"""Rows of a table of a database, by any driver that follows the DB-API (PEP 249)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from concurrent.futures import wait
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.common.errors import InvalidTypeError
from headrace.common.logs import get_logger
from headrace.common.row import Row
from headrace.operators.asynchronous.event_loop import DaemonThreads
from headrace.operators.lookup.reader import LookupReader, add_by_key, key_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from headrace.operators.lookup.cache import Found

T = TypeVar("T")

logger = get_logger(__name__)

_CLOSING_SECONDS: Final = 2.0
"""So long connections may take to close."""

_MARKS: Final = {
    "qmark": lambda number: "?",
    "format": lambda number: "%s",
    "pyformat": lambda number: "%s",
    "named": lambda number: f":{number}",  # a driver that wants names takes numbers, too
    "numeric": lambda number: f":{number}",
    "numeric_dollar": lambda number: f"${number}",
}
"""How drivers want to see parameters, by what they call it."""


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
        return DatabaseReader(self._connect, self._table, self.keys, self._columns, reads_all=True)

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
        if unasked := found.keys() - set(keys):
            raise InvalidTypeError(
                f"table {self._table} has rows for the key {next(iter(unasked))!r}, which is none of those that were "
                f"asked for: keys of records, {keys[0]!r} say, have to be of the type of the column, and as exact"
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

    def _select(self) -> str:
        return f"SELECT {', '.join((*self.keys, *self._columns))} FROM {self._table}"

    def _condition(self, connection: Any, count: int) -> str:
        mark = _mark_of(connection)
        width = len(self.keys)
        if width == 1:
            marks = ", ".join(mark(number + 1) for number in range(count))
            return f"{self.keys[0]} IN ({marks})"
        each = (
            " AND ".join(f"{key} = {mark(number * width + place + 1)}" for place, key in enumerate(self.keys))
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
        """What a function makes of the connection."""
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
            except Exception as another:  # of a connection that is broken, and that nobody uses any more
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
    """How a driver wants to see parameters; most that do not say it take question marks."""
    module = sys.modules.get(type(connection).__module__.partition(".")[0])
    return _MARKS.get(getattr(module, "paramstyle", "qmark"), _MARKS["qmark"])
