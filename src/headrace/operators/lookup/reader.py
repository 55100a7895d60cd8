"""Where a lookup finds what it joins: what a reader is, and readers that ask functions or have a static table."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.common.arguments import method_of_object, with_article
from headrace.common.columns import layout_of
from headrace.common.errors import InvalidTypeError
from headrace.operators.lookup.cache import check_comparable, found_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.lookup.cache import Found


class LookupReader:
    """Finds rows by key; part of the plan, so what it opens is not in it before ``open``.

    Attributes:
        keys_per_request: how many keys it is asked for at once, at most.
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
    def asked(self) -> Any:
        """The user's function that says what is found, for messages; None where there is none."""
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


class FunctionReader(LookupReader):
    """Asks a function of the user.

    Args:
        function: of a key, which gives a value or None; or of a list of keys, which gives a mapping of values by key.
            It is awaited, or called in a thread.
        keys_per_request: how many keys are in the list; 0 for a function of a key.
    """

    def __init__(self, function: Any, keys_per_request: int) -> None:
        self._function = function
        self._takes_many = keys_per_request > 0
        self.keys_per_request = keys_per_request or 1
        self._is_awaited = inspect.iscoroutinefunction(self.asked)

    @property
    def asked(self) -> Any:
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
