"""``ListState`` over columnar runs: adding neither reads nor rewrites what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.common.values import handler_of
from headrace.state.arguments import elements_of
from headrace.state.copying import copier
from headrace.state.interfaces import ListState
from headrace.state.keyed.table import Elements, NestedCells, flat, segments
from headrace.state.runs import ELEMENT_COUNT
from headrace.state.runs.layout import CLEAR, EXPIRY, VALUE
from headrace.state.runs.list_columns import list_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.state.descriptors import ListStateDescriptor
    from headrace.state.keyed.namespaces import StateScope
    from headrace.state.keyed.table import Match, StateTable


class _ListCell:
    """The list of one key: what is stored, whether that is void, and what was added in this epoch."""

    __slots__ = ("added", "cleared", "is_read", "stored")

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.added: list[Any] = []
        self.cleared = False
        self.is_read = False

    @property
    def is_changed(self) -> bool:
        """Whether there is something to be written."""
        return self.cleared or bool(self.added)

    @property
    def is_empty(self) -> bool:
        """Whether what is to be written says only that everything older is void."""
        return not self.added

    def replace(self, elements: list[Any]) -> None:
        """Makes these the whole list."""
        # Where it is known that nothing is stored, nothing has to be written that would hide it.
        self.cleared = self.cleared or not self.is_read or bool(self.stored)
        self.stored, self.added = [], elements


@names_explained("ListState", {"append": "use add(value)", "extend": "use add_all(values)", "value": "use get()"})
class ColumnarListState(ListState[Any]):
    """A list per key. Elements are kept as they are stored: with a time to live, pairs of value and expiry."""

    def __init__(self, scope: StateScope, table: StateTable, descriptor: ListStateDescriptor) -> None:
        self._scope = scope
        self._table = table
        self._elements = Elements(descriptor.element_type, table.ttl is not None)
        handler = handler_of(descriptor.element_type)
        self._coerce, self._is_coerced = handler.coerce, handler.is_coerced
        self._copy = copier(descriptor.element_type)
        self._label = descriptor.label
        self._subject = f"{descriptor.label}: the element"
        self._takes_none = descriptor.takes_none
        self._copies = not descriptor.element_type.is_immutable
        self._cells = NestedCells(scope, table, _ListCell, self._read)

    def get(self) -> list[Any]:
        cell: _ListCell = self._cells.read()
        elements = cell.added if cell.cleared else cell.stored + cell.added
        if self._table.ttl is not None:
            return list(map(self._copy, self._alive(cell, elements)))
        return list(map(self._copy, elements)) if self._copies else elements.copy()

    def add(self, value: Any) -> None:
        stored = self._stored(value)
        self._cells.current().added.append(stored)

    def add_all(self, values: Iterable[Any]) -> None:
        self._cells.current().added.extend(self._all_stored(values, "add_all"))

    def update(self, values: Iterable[Any]) -> None:
        self._cells.current().replace(self._all_stored(values, "update"))

    def clear(self) -> None:
        self._cells.current().replace([])

    def take(self) -> list[Any] | None:
        """The elements as they are stored, which are removed; None when there are none."""
        cell: _ListCell = self._cells.read()
        elements = cell.added if cell.cleared else cell.stored + cell.added
        cell.replace([])
        return elements or None

    def absorb(self, elements: list[Any]) -> None:
        """Adds what :meth:`take` has given, at the end."""
        self._cells.current().added.extend(elements)

    def _all_stored(self, values: Iterable[Any], method: str) -> list[Any]:
        if type(values) is not list:
            values = elements_of(values, f"{self._label}: {method}()")
        return [self._stored(value) for value in values]

    def _stored(self, value: Any) -> Any:
        if value is not None:
            if not self._is_coerced(value):
                value = self._coerce(value, self._subject)
            if self._copies:
                value = self._copy(value, self._subject)
        elif not self._takes_none:
            raise InvalidTypeError(f"{self._subject} cannot be None")
        ttl = self._table.ttl
        return value if ttl is None else (value, ttl.expiry(self._table.now(self._scope)))

    def _alive(self, cell: _ListCell, elements: list[Any]) -> list[Any]:
        """The values that are to be seen now; drops those that have expired, prolongs the lives of the others."""
        ttl, now = self._table.ttl, self._table.now(self._scope)
        assert ttl is not None
        alive = [pair for pair in elements if pair[1] is None or pair[1] > now]
        seen = elements if ttl.return_expired else alive
        if ttl.on_read and any(pair[1] != ttl.expiry(now) for pair in alive):
            cell.replace([(value, ttl.expiry(now)) for value, _ in alive])
        elif len(alive) < len(elements):
            cell.replace(alive.copy())
        return [value for value, _ in seen]

    def _read(self, matches: list[Match], cells: list[_ListCell]) -> None:
        for match in matches:
            expiries = flat(match, EXPIRY) if self._elements.expires and match.expires else None
            elements = self._elements.from_columns(flat(match, VALUE), expiries)
            for position, start, stop in segments(match, VALUE):
                cells[position].stored.extend(elements[start:stop])

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.forget_keys()

    def end_epoch(self) -> None:
        """Writes what was added, and where older elements are void."""
        changed = self._cells.changed()
        if changed is not None:
            keys, cells = changed
            added = [element for cell in cells for element in cell.added]
            lists = list_columns([len(cell.added) for cell in cells], self._elements.to_columns(added))
            cleared = pa.array([cell.cleared for cell in cells], pa.bool_())
            self._table.append(keys, {CLEAR: cleared, **lists}, {ELEMENT_COUNT: len(added)})
        self._table.merge_small_runs(self._scope)
