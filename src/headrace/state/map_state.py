"""``MapState`` over columnar runs: only entries that change are written, and the order of insertion is kept."""

from __future__ import annotations

from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.columns import array_to_values, fitter_of, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.state.copying import copy_value
from headrace.state.interfaces import MapState
from headrace.state.keys import KeyCodec
from headrace.state.nested_rows import NestedCells, flat, list_columns, segments
from headrace.state.run_layout import ACTION, CLEAR, ENTRY, ENTRY_KEY, EXPIRY, PUT, REINSERTED, REMOVED, VALUE
from headrace.state.state_table import Elements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.common.columns import Fitter
    from headrace.state.descriptors import MapStateDescriptor
    from headrace.state.key_scope import KeyScope
    from headrace.state.state_table import Match, StateTable


_NAN: Final = nan
"""The one object that stands for all NaNs among the keys of entries."""


class _MapCell:
    """The map of one key: its entries, if they have been read, and the actions of this epoch."""

    __slots__ = ("actions", "cleared", "entries", "is_loaded", "values")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.actions: dict[Any, int] = {}
        self.values: dict[Any, Any] = {}
        self.cleared = False
        self.is_loaded = False

    @property
    def is_changed(self) -> bool:
        """Whether there is something to be written."""
        return self.cleared or bool(self.actions)

    @property
    def is_empty(self) -> bool:
        """Whether what is to be written only takes away."""
        return not self.values

    def put(self, key: Any, element: Any) -> None:
        """Sets an entry."""
        if self.actions.get(key) == REMOVED:
            # At the end of the actions, as a new entry is at the end of the map.
            del self.actions[key]
            self.actions[key] = REINSERTED
        else:
            self.actions.setdefault(key, PUT)
        self.values[key] = element
        if self.is_loaded:
            self.entries[key] = element

    def remove(self, key: Any) -> None:
        """Removes an entry."""
        self.actions.pop(key, None)
        self.actions[key] = REMOVED
        self.values.pop(key, None)
        self.entries.pop(key, None)

    def clear(self) -> None:
        """Removes all entries."""
        self.entries, self.actions, self.values = {}, {}, {}
        self.cleared = self.is_loaded = True

    def apply(self, action: int, key: Any, element: Any) -> None:
        """Repeats an action on the entries."""
        if action != PUT:
            self.entries.pop(key, None)
        if action != REMOVED:
            self.entries[key] = element


class ColumnarMapState(MapState[Any, Any]):
    """A dict per key. Elements are kept as they are stored: with a time to live, pairs of value and expiry."""

    def __init__(self, scope: KeyScope, table: StateTable, descriptor: MapStateDescriptor) -> None:
        self._scope = scope
        self._table = table
        self._key_type = descriptor.key_type
        self._codec = KeyCodec.for_type(descriptor.key_type)
        self._elements = Elements(descriptor.value_type, table.ttl is not None)
        self._fit_key, self._fit_value = fitter_of(descriptor.key_type), fitter_of(descriptor.value_type)
        self._key_fits, self._value_fits = _key_check(self._fit_key), self._fit_value.fits
        self._copies = not descriptor.value_type.is_immutable
        self._cells = NestedCells(scope, table, _MapCell, self._read)

    def get(self, key: Any) -> Any:
        cell: _MapCell = self._cells.loaded()
        if not self._key_fits(key):
            key = self._wanted(key)
        element = cell.entries.get(key)
        if self._table.ttl is not None:
            return None if element is None else self._alive(cell, key, element)
        return copy_value(element) if self._copies else element

    def contains(self, key: Any) -> bool:
        cell: _MapCell = self._cells.loaded()
        if not self._key_fits(key):
            key = self._wanted(key)
        if self._table.ttl is None:
            return key in cell.entries
        return key in cell.entries and (self._is_alive(cell.entries[key]) or self._table.ttl.return_expired)

    def put(self, key: Any, value: Any) -> None:
        self._cells.current().put(self._key(key), self._stored(value))

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        cell: _MapCell = self._cells.current()
        for key, value in dict_value.items():
            cell.put(self._key(key), self._stored(value))

    def remove(self, key: Any) -> None:
        self._cells.current().remove(self._key(key))

    def clear(self) -> None:
        self._cells.current().clear()

    def items(self) -> list[tuple[Any, Any]]:
        cell: _MapCell = self._cells.loaded()
        if self._table.ttl is not None:
            alive = [(key, element) for key, element in list(cell.entries.items()) if self._is_seen(element)]
            return [(key, self._alive(cell, key, element)) for key, element in alive]
        if self._copies:
            return [(key, copy_value(value)) for key, value in cell.entries.items()]
        return list(cell.entries.items())

    def keys(self) -> list[Any]:
        cell: _MapCell = self._cells.loaded()
        if self._table.ttl is not None:
            return [key for key, element in cell.entries.items() if self._is_seen(element)]
        return list(cell.entries)

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self.keys()

    def _key(self, key: Any) -> Any:
        """The key as it comes back from storage."""
        return key if self._key_fits(key) else _same_nan(self._fit_key(key))

    def _wanted(self, key: Any) -> Any:
        """The same for a key that is looked for: one that does not fit the type is not there."""
        try:
            return self._key(key)
        except InvalidTypeError:
            return key

    def _stored(self, value: Any) -> Any:
        if not self._value_fits(value):
            value = self._fit_value(value)
        value = copy_value(value) if self._copies else value
        ttl = self._table.ttl
        return value if ttl is None else (value, ttl.expiry(self._scope.clock))

    def _is_alive(self, element: Any) -> bool:
        # A value of None that was stored before there was a time to live has no expiry to be paired with.
        return element is None or element[1] is None or element[1] > self._scope.clock

    def _is_seen(self, element: Any) -> bool:
        ttl = self._table.ttl
        assert ttl is not None
        return ttl.return_expired or self._is_alive(element)

    def _alive(self, cell: _MapCell, key: Any, element: Any) -> Any:
        """The value of an entry if it is to be seen; drops the entry when it has expired, or prolongs its life."""
        ttl, now = self._table.ttl, self._scope.clock
        assert ttl is not None
        if element is None:
            return None
        if not self._is_alive(element):
            cell.remove(key)
            return copy_value(element[0]) if ttl.return_expired else None
        if ttl.on_read and element[1] != ttl.expiry(now):
            cell.put(key, (element[0], ttl.expiry(now)))
        return copy_value(element[0])

    def _read(self, matches: list[Match], cells: list[_MapCell]) -> None:
        for match in matches:
            keys = self._read_keys(match)
            actions = flat(match, ACTION).to_pylist()
            expiries = flat(match, EXPIRY) if self._elements.expires and match.has(EXPIRY) else None
            elements = self._elements.from_columns(flat(match, VALUE), expiries)
            for segment in segments(match, ACTION):
                cell = cells[segment.position]
                if not cell.is_loaded:  # else it was cleared: what is stored is void
                    for index in range(segment.start, segment.stop):
                        cell.apply(actions[index], keys[index], elements[index])
        for cell in cells:
            # What was put or removed before it was read comes on top.
            if not cell.is_loaded:
                for key, action in cell.actions.items():
                    cell.apply(action, key, cell.values.get(key))

    def _read_keys(self, match: Match) -> list[Any]:
        if match.has(ENTRY):
            return list(map(_same_nan, array_to_values(self._key_type, flat(match, ENTRY))))
        return self._codec.decode(flat(match, ENTRY_KEY))

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.forget_keys()

    def end_epoch(self) -> None:
        """Writes the entries that have changed, and where older entries are void."""
        changed = self._cells.changed()
        if changed is not None:
            keys, cells = changed
            lists = list_columns([len(cell.actions) for cell in cells], self._entry_columns(cells))
            self._table.append(keys, {CLEAR: pa.array([cell.cleared for cell in cells], pa.bool_()), **lists})
        self._table.merge_small_runs(self._scope.clock)

    def _entry_columns(self, cells: list[_MapCell]) -> dict[str, pa.Array]:
        keys = [key for cell in cells for key in cell.actions]
        actions = np.array([action for cell in cells for action in cell.actions.values()], dtype=np.int8)
        elements = [cell.values.get(key) for cell in cells for key in cell.actions]
        columns = {ENTRY_KEY: self._codec.encode(keys).values}
        if not self._codec.is_plain:
            columns[ENTRY] = values_to_array(self._key_type, keys)
        return {**columns, ACTION: pa.array(actions), **self._elements.to_columns(elements)}


def _key_check(fitter: Fitter) -> Callable[[Any], bool]:
    """Whether a key is as it comes back from storage, a NaN the one object that stands for all."""
    fits = fitter.fits
    if not fits(_NAN):
        return fits
    return lambda key: fits(key) and (type(key) is not float or key is _NAN or not isnan(key))


def _same_nan(key: Any) -> Any:
    """One object for all NaNs: a dict finds it as it is the same, though it is not equal to itself."""
    return _NAN if type(key) is float and isnan(key) else key
