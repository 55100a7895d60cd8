"""``ValueState`` over columnar runs."""

from __future__ import annotations

from operator import is_not
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.common.other_names import names_explained
from headrace.common.values import handler_of
from headrace.state.copying import copy_value
from headrace.state.interfaces import ValueState
from headrace.state.keyed.table import Elements, StateTable, changed_keys, gathered
from headrace.state.runs.layout import EXPIRY, VALUE

if TYPE_CHECKING:
    from headrace.state.descriptors import StateDescriptor, ValueStateDescriptor
    from headrace.state.keyed.scope import StateScope

UNLOADED: Final[Any] = object()
"""Stands for an element that has not been read yet."""

CHANGED: Final[Any] = object()
"""Stands for a stored element whose successor was changed in place."""

_ELEMENT_NAMES: Final = {"value": "value", "reducing": "reduced value", "aggregating": "accumulator"}
"""What errors call the element of a state, by the kind of its descriptor."""


class ElementCells:
    """One element per key: what is stored for it, and what it is now.

    ``now[ordinal]`` and ``stored[ordinal]`` are the same object as long as nothing has changed; so reading and writing
    need no bookkeeping. Both grow when a key beyond their end is met, and are filled by :meth:`load` for all keys that
    were met since it was last called.
    """

    __slots__ = ("_elements", "_loaded", "_scope", "handler", "now", "stored", "subject", "table")

    def __init__(self, scope: StateScope, table: StateTable, descriptor: StateDescriptor) -> None:
        self._scope = scope
        self.table = table
        self.handler = handler_of(descriptor.type_info)
        self.subject = f"{descriptor.label}: the {_ELEMENT_NAMES[descriptor.kind]}"
        self._elements = Elements(descriptor.type_info, table.ttl is not None)
        self.now: list[Any] = []
        self.stored: list[Any] = []
        self._loaded = 0

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        # The lists stay the same objects: the states hold them.
        self.now.clear()
        self.stored.clear()
        self._loaded = 0

    def grow(self) -> None:
        """Makes room for all keys that were met."""
        missing = [UNLOADED] * (len(self._scope.entries.all) - len(self.now))
        self.now.extend(missing)
        self.stored.extend(missing)

    def load(self, ordinal: int) -> Any:
        """The element of a key that has not been read yet; reads those of all keys met since the last call."""
        self.grow()
        start, stop = self._loaded, len(self.now)
        self._loaded = stop
        elements = self._read(start, stop)
        self.stored[start:stop] = elements
        written = self.now[start:stop]
        self.now[start:stop] = [new if old is UNLOADED else old for old, new in zip(written, elements, strict=True)]
        return self.now[ordinal]

    def _read(self, start: int, stop: int) -> list[Any]:
        if self.table.is_empty:
            return [None] * (stop - start)
        matches = self.table.find(self._scope.entries.columns(start, stop))
        values = gathered([(match.positions, match.column(VALUE)) for match in matches], stop - start)
        if values is None:
            return [None] * (stop - start)
        expiries = None
        if self._elements.expires:
            parts = [(match.positions, match.column(EXPIRY)) for match in matches if match.expires]
            expiries = gathered(parts, stop - start)
        return self._elements.from_columns(values, expiries)

    def read(self) -> Any:
        """The value of the current key, which is not to be changed; None when there is none (any more)."""
        ordinal = self._scope.current.ordinal
        try:
            element = self.now[ordinal]
        except IndexError:
            element = UNLOADED
        if element is UNLOADED:
            element = self.load(ordinal)
        if element is None or self.table.ttl is None:
            return element
        return self._touch(ordinal, element)

    def _touch(self, ordinal: int, element: tuple[Any, int | None]) -> Any:
        """The value of an element that may expire, and is read: it goes when it has, or its life is prolonged."""
        ttl, now = self.table.ttl, self.table.now(self._scope)
        assert ttl is not None
        value, expiry = element
        if expiry is not None and expiry <= now:
            self.now[ordinal] = None
            return value if ttl.return_expired else None
        if ttl.on_read and expiry != ttl.expiry(now):
            self.now[ordinal] = (value, ttl.expiry(now))
        return value

    def end_epoch(self) -> None:
        """Writes the elements that have changed; None is a tombstone."""
        changed = np.fromiter(map(is_not, self.now, self.stored), dtype=bool, count=len(self.now))
        ordinals = np.flatnonzero(changed)
        if len(ordinals):
            keys, ordinals = changed_keys(self._scope.entries, ordinals)
            elements = list(map(self.now.__getitem__, ordinals.tolist()))
            if self.table.is_empty:  # nothing is there that a tombstone could hide
                kept = np.fromiter((item is not None for item in elements), dtype=bool, count=len(elements))
                if not kept.all():
                    keys, elements = keys.take(np.flatnonzero(kept)), [item for item in elements if item is not None]
            self.table.append(keys, self._elements.to_columns(elements))
        self.table.merge_small_runs(self._scope)


@names_explained("ValueState", {"get": "use value()", "set": "use update(value)", "put": "use update(value)"})
class PlainValueState(ValueState[Any]):
    """The value of a type whose values cannot be changed in place, without a time to live."""

    __slots__ = ("_cells", "_coerce", "_is_coerced", "_now", "_scope", "_subject")

    def __init__(self, scope: StateScope, cells: ElementCells) -> None:
        self._scope = scope
        self._cells = cells
        self._now = cells.now
        self._coerce, self._is_coerced = cells.handler.coerce, cells.handler.is_coerced
        self._subject = cells.subject

    def value(self) -> Any:
        # As ElementCells.read, without another call for each record.
        ordinal = self._scope.current.ordinal
        try:
            value = self._now[ordinal]
        except IndexError:
            return self._cells.load(ordinal)
        return self._cells.load(ordinal) if value is UNLOADED else value

    def update(self, value: Any) -> None:
        if not self._is_coerced(value):
            value = self._coerce(value, self._subject)
        # As _put, without another call for each record.
        ordinal = self._scope.current.ordinal
        try:
            self._now[ordinal] = value
        except IndexError:
            self._put(value)

    def clear(self) -> None:
        self._put(None)

    def _put(self, element: Any) -> None:
        ordinal = self._scope.current.ordinal
        try:
            self._now[ordinal] = element
        except IndexError:
            self._cells.grow()
            self._now[ordinal] = element


class CopyingValueState(PlainValueState):
    """The same for values that may be changed in place: user code never holds the stored object itself."""

    __slots__ = ()

    def value(self) -> Any:
        return copy_value(super().value())

    def update(self, value: Any) -> None:
        self._put(copy_value(self._coerce(value, self._subject), self._subject))


class ExpiringValueState(PlainValueState):
    """The same with a time to live: elements are pairs of value and expiry."""

    __slots__ = ()

    def value(self) -> Any:
        return copy_value(self._cells.read())

    def update(self, value: Any) -> None:
        ttl = self._cells.table.ttl
        assert ttl is not None
        now = self._cells.table.now(self._scope)
        if value is not None:
            value = copy_value(self._coerce(value, self._subject), self._subject), ttl.expiry(now)
        self._put(value)


def value_state(scope: StateScope, cells: ElementCells, descriptor: ValueStateDescriptor) -> PlainValueState:
    """The value state of a descriptor over its elements."""
    if cells.table.ttl is not None:
        return ExpiringValueState(scope, cells)
    return (PlainValueState if descriptor.type_info.is_immutable else CopyingValueState)(scope, cells)
