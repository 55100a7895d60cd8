"""``MapState`` over columnar runs: only entries that change are written, and the order of insertion is kept.

The map of a key is read as a whole when it is small, or when all of it is needed. Of a large one, entries are looked
up one by one, until so many have been that reading all of it would have cost little more.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import PickledBytesTypeInfo
from headrace.common.values import TypeHandler, handler_of
from headrace.common.values.handler import CheckSource
from headrace.state.copying import copy_value, entries_of
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.interfaces import MapState
from headrace.state.keyed.map_entries import (
    GONE,
    MAX_INT64,
    MIN_INT64,
    UNKNOWN,
    EntryChanges,
    EntryRange,
    MapCell,
    MapEntries,
)
from headrace.state.keyed.namespaces import StateScope
from headrace.state.keyed.table import NestedCells, RunMatch, StateTable
from headrace.state.keys.codecs import not_hashable
from headrace.state.keys.typed import PLAIN, is_declared, is_integer_type, nan_replacer
from headrace.state.runs.layout import ACTION, REMOVED, sorted_lists

SMALL_MAP: Final = 256
"""Up to so many entries are read together, which takes little longer than looking one up."""

LOOK_UP_COST: Final = 64
"""Looking up an entry takes so long as reading so many entries of a whole map, or less."""


_OTHER_NAMES: Final = {"update": "use put_all(values)", "add": "use put(key, value)", "pop": "use get(), then remove()"}


@names_explained("MapState", _OTHER_NAMES)
class ColumnarMapState(MapState[Any, Any]):
    """A dict per key. Elements are kept as they are stored: with a time to live, pairs of value and expiry."""

    def __init__(self, scope: StateScope, table: StateTable, descriptor: MapStateDescriptor) -> None:
        self._label = descriptor.label
        self._key_subject = f"{self._label}: the key of an entry"
        self._value_subject = f"{self._label}: the value of an entry"
        self._key_type = descriptor.key_type
        self._has_integer_keys = is_integer_type(descriptor.key_type)
        self._table = table
        self._entries = MapEntries(descriptor, expires=table.ttl is not None)
        keys, values = handler_of(descriptor.key_type), handler_of(descriptor.value_type)
        self._same_nan = nan_replacer(descriptor.key_type)
        self._coerce_key, self._is_coerced_key = keys.coerce, _key_check(keys, self._same_nan)
        self._coerce_value, self._is_coerced_value = values.coerce, values.is_coerced
        self._copies = not descriptor.value_type.is_immutable
        self._cells = NestedCells(scope, table, MapCell, self._read, self._columns)

    def get(self, key: Any) -> Any:
        cell = self._cells.read()
        if not self._is_coerced_key(key):
            key = self._wanted(key)
        element = GONE if key is GONE else cell.entries.get(key, cell.missing)
        if element is UNKNOWN:
            element = self._look_up(cell, key)
        if element is GONE:
            return None
        if self._table.ttl is not None:
            return _value_of(element) if self._touch(cell, key, element) else None
        return copy_value(element) if self._copies else element

    def contains(self, key: Any) -> bool:
        cell = self._cells.read()
        if not self._is_coerced_key(key):
            key = self._wanted(key)
        element = GONE if key is GONE else cell.entries.get(key, cell.missing)
        if element is UNKNOWN:
            element = self._look_up(cell, key)
        return element is not GONE and (self._table.ttl is None or self._touch(cell, key, element))

    def put(self, key: Any, value: Any) -> None:
        if not self._is_coerced_key(key):
            key = self._key(key)
        self._cells.current().put(key, self._stored(value))

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        given = dict_value.items() if type(dict_value) is dict else entries_of(dict_value, f"{self._label}: put_all()")
        cell = self._cells.current()
        for key, value in given:
            cell.put(self._key(key), self._stored(value))

    def remove(self, key: Any) -> None:
        self._cells.current().remove(self._key(key))

    def clear(self) -> None:
        self._cells.current().clear()

    def items(self) -> list[tuple[Any, Any]]:
        cell = self._loaded()
        if self._table.ttl is not None:
            return self._seen(cell, list(cell.entries.items()))
        if self._copies:
            return [(key, copy_value(value)) for key, value in cell.entries.items()]
        return list(cell.entries.items())

    def items_between(self, low: int | None, high: int | None) -> list[tuple[Any, Any]]:
        if not self._has_integer_keys:
            raise InvalidTypeError(
                f"{self._label}: items_between() needs entries with integers as keys, and these are of type "
                f"{self._key_type}; declare them as BYTE, SHORT, INT or LONG"
            )
        start = MIN_INT64 if low is None else max(self._bound(low), MIN_INT64)
        stop = MAX_INT64 + 1 if high is None else min(self._bound(high), MAX_INT64 + 1)
        if start >= stop:
            return []
        cell = self._cells.read()
        elements = self._between(cell, start, stop)
        keys = sorted(elements)
        if self._table.ttl is not None:
            return self._seen(cell, [(key, elements[key]) for key in keys])
        if self._copies:
            return [(key, copy_value(elements[key])) for key in keys]
        return [(key, elements[key]) for key in keys]

    def _bound(self, bound: Any) -> int:
        if isinstance(bound, bool) or not hasattr(bound, "__index__"):
            raise InvalidTypeError(
                f"{self._label}: items_between() takes integers, or None for an open end; got {bound!r} "
                f"({type(bound).__name__})"
            )
        return operator.index(bound)

    def _between(self, cell: MapCell, low: int, high: int) -> dict[int, Any]:
        """The elements of the entries with keys from ``low`` up to ``high``."""
        elements: dict[int, Any] = {}
        for place in cell.ranges:
            happened = self._entries.read_between(place, low, high)
            happened.repeat([elements], np.array([len(happened.keys)]))
        if elements and cell.actions:
            elements = {key: element for key, element in elements.items() if key not in cell.actions}
        for key in cell.keys_not_stored().between(low, high):
            element = cell.entries.get(key, GONE)
            if element is not GONE:
                elements[key] = element
        return elements

    def keys(self) -> list[Any]:
        cell = self._loaded()
        if self._table.ttl is not None:
            return [key for key, element in list(cell.entries.items()) if self._touch(cell, key, element)]
        return list(cell.entries)

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        cell = self._cells.read()
        if not cell.is_loaded and any(self._is_there(self._element(cell, key)) for key in self._some_keys(cell)):
            return False
        entries = self._loaded().entries
        return not (entries if self._table.ttl is None else any(map(self._is_there, entries.values())))

    def _key(self, key: Any) -> Any:
        """The key as it comes back from storage."""
        if self._is_coerced_key(key):
            return key
        coerced = self._coerce_key(key, self._key_subject)
        if coerced is None:
            raise InvalidTypeError(f"{self._key_subject} cannot be None")
        if self._same_nan is None:
            return coerced
        if not _is_hashable(coerced):
            raise InvalidTypeError(f"{self._key_subject}: {not_hashable(coerced)}")
        return self._same_nan(coerced)

    def _wanted(self, key: Any) -> Any:
        """The same for a key that is looked for; GONE for one that does not fit the type, so that it is not there.

        A dict would find 1 when 1.0 is looked for; how an entry is looked for must not depend on the size of the map.
        """
        try:
            return self._key(key)
        except InvalidTypeError:
            return GONE

    def _stored(self, value: Any) -> Any:
        if not self._is_coerced_value(value):
            value = self._coerce_value(value, self._value_subject)
        value = copy_value(value, self._value_subject) if self._copies else value
        ttl = self._table.ttl
        return value if ttl is None else (value, ttl.expiry(self._table.now))

    def _is_there(self, element: Any) -> bool:
        """Return whether an entry would be seen; that does not count as reading it."""
        ttl = self._table.ttl
        if element is GONE or ttl is None or ttl.return_expired:
            return element is not GONE
        expiry = _expiry_of(element)
        return expiry is None or expiry > self._table.now

    def _touch(self, cell: MapCell, key: Any, element: Any) -> bool:
        """Reads an entry that may expire: it goes when it has, or its life is prolonged; whether it is to be seen."""
        ttl, now, expiry = self._table.ttl, self._table.now, _expiry_of(element)
        if ttl is None:
            return True
        if expiry is not None and expiry <= now:
            cell.remove(key)
            return ttl.return_expired
        if ttl.on_read and expiry != ttl.expiry(now):
            cell.put(key, (None if element is None else element[0], ttl.expiry(now)))
        return True

    def _seen(self, cell: MapCell, entries: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Keys and values of entries that may expire, and are read."""
        return [(key, _value_of(element)) for key, element in entries if self._touch(cell, key, element)]

    def _some_keys(self, cell: MapCell) -> list[Any]:
        """Keys of entries that are likely to be there."""
        return self._entries.some_keys(max(cell.ranges, key=lambda place: place.stop - place.start))

    def _loaded(self) -> MapCell:
        """The cell of the current key, with all its entries."""
        cell = self._cells.read()
        if not cell.is_loaded:
            self._load(cell)
        return cell

    def _element(self, cell: MapCell, key: Any) -> Any:
        """The element of an entry; GONE when there is none."""
        element = cell.entries.get(key, cell.missing)
        return self._look_up(cell, key) if element is UNKNOWN else element

    def _look_up(self, cell: MapCell, key: Any) -> Any:
        """The element of an entry of which nothing is known yet."""
        cell.look_ups += 1
        if cell.look_ups * LOOK_UP_COST > cell.size:
            self._load(cell)
            return cell.entries.get(key, GONE)
        element = cell.entries[key] = self._found(cell, key)
        return element

    def _found(self, cell: MapCell, key: Any) -> Any:
        """Return what the newest run that knows the entry says about it."""
        try:
            probe = self._entries.probe(key)
        except InvalidTypeError:
            return GONE
        for place in reversed(cell.ranges):
            row = probe.find(place)
            if row is not None:
                is_gone = self._entries.action(place.run, row) == REMOVED
                return GONE if is_gone else self._entries.element(place.run, row)
        return GONE

    def _load(self, cell: MapCell) -> None:
        """Reads all entries of a map."""
        entries = cell.stored()
        for place in cell.ranges:
            starts, stops = np.array([place.start]), np.array([place.stop])
            self._entries.read(place.run, starts, stops).repeat([entries], stops - starts)
        cell.load(entries)

    def _read(self, matches: list[RunMatch], cells: list[MapCell]) -> None:
        """Reads the maps that are small; of others it is noted where their entries are.

        A cell that is loaded was cleared: what is stored for it is void.
        """
        found = [(match, *match.run.section.extents(ACTION, match.rows)) for match in matches]
        sizes = np.zeros(len(cells), dtype=np.int64)
        for match, starts, stops in found:
            sizes[match.positions] += stops - starts
        maps = [cell.stored() for cell in cells]
        for match, starts, stops in found:
            run, positions = match.run, match.positions
            small = sizes[positions] <= SMALL_MAP
            if small.any():
                read = self._entries.read(run, starts[small], stops[small])
                read.repeat([maps[position] for position in positions[small].tolist()], (stops - starts)[small])
            for index in np.flatnonzero(~small).tolist():
                cell = cells[positions[index]]
                if not cell.is_loaded:
                    cell.ranges += (EntryRange(run, int(starts[index]), int(stops[index])),)
        for cell, size, entries in zip(cells, sizes.tolist(), maps, strict=True):
            cell.size = size
            if size <= SMALL_MAP and not cell.is_loaded:
                cell.load(entries)

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.forget_keys()

    def end_epoch(self) -> None:
        """Writes the entries that have changed, and where older entries are void."""
        self._cells.end_epoch()

    def _columns(self, cells: list[MapCell]) -> tuple[dict[str, pa.Array], int]:
        lengths = np.array([len(cell.actions) for cell in cells], dtype=np.int64)
        return sorted_lists(lengths, self._entries.to_columns(_happened(cells))), int(lengths.sum())


def _value_of(element: Any) -> Any:
    """The value of an element that may expire: user code never holds the stored object itself."""
    return None if element is None else copy_value(element[0])


def _expiry_of(element: Any) -> int | None:
    """Return when an element expires; a None that was stored before there was a time to live never does."""
    expiry: int | None = None if element is None else element[1]
    return expiry


def _happened(cells: list[MapCell]) -> EntryChanges:
    """Return what happened to the entries of several keys."""
    keys: list[Any] = []
    actions: list[int] = []
    elements: list[Any] = []
    for cell in cells:
        keys.extend(cell.actions)
        actions.extend(cell.actions.values())
        elements.extend(map(cell.entries.get, cell.actions))
    happened = np.array(actions, dtype=np.int8)
    for index in np.flatnonzero(happened == REMOVED).tolist():
        elements[index] = None
    return EntryChanges(keys, happened, elements)


def _key_check(handler: TypeHandler, same_nan: Callable[[Any], Any] | None) -> Callable[[Any], bool]:
    """Return whether a key is as it comes back from storage, every NaN in it the one object that stands for all."""
    is_coerced = CheckSource.compiled(handler, takes_none=False)
    if same_nan is None:
        return is_coerced
    if is_declared(handler.info):
        return lambda key: is_coerced(key) and same_nan(key) is key
    surely = PLAIN if isinstance(handler.info, PickledBytesTypeInfo) else frozenset[type]()
    return lambda key: type(key) in surely or (is_coerced(key) and same_nan(key) is key and _is_hashable(key))


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
