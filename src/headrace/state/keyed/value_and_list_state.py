"""``ValueState``, and the folding states on top of it: ``ReducingState`` and ``AggregatingState``."""

from collections.abc import Iterable
from operator import is_not
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import TypeInformation
from headrace.common.values import handler_of
from headrace.state.copying import copier, copy_value, elements_of
from headrace.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from headrace.state.interfaces import AggregatingState, ListState, ReducingState, ValueState
from headrace.state.keyed.namespaces import StateScope
from headrace.state.keyed.table import Elements, Match, NestedCells, StateTable, changed_keys, flat, gathered, segments
from headrace.state.runs import ELEMENT_COUNT
from headrace.state.runs.layout import CLEAR, EXPIRY, VALUE, list_columns

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

    def _touch(self, ordinal: int, element: tuple[object, int | None]) -> Any:
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

    def update(self, value: object) -> None:
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

    def _put(self, element: object) -> None:
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

    def update(self, value: object) -> None:
        self._put(copy_value(self._coerce(value, self._subject), self._subject))


class ExpiringValueState(PlainValueState):
    """The same with a time to live: elements are pairs of value and expiry."""

    __slots__ = ()

    def value(self) -> Any:
        return copy_value(self._cells.read())

    def update(self, value: object) -> None:
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


class _Folded:
    """The element of the current key, with or without a time to live.

    Args:
        scope: says which key that is.
        cells: the elements.
        type_: the type of the values.
    """

    __slots__ = ("_cells", "_coerce", "_is_coerced", "_is_immutable", "_now", "_replaces", "_scope")

    def __init__(self, scope: StateScope, cells: ElementCells, type_: TypeInformation) -> None:
        self._scope = scope
        self._cells = cells
        self._now = cells.now
        self._coerce, self._is_coerced = cells.handler.coerce, cells.handler.is_coerced
        self._replaces = type_.is_immutable and cells.table.ttl is None
        self._is_immutable = type_.is_immutable

    def live(self) -> Any:
        """The element that a new value is to be folded into: an expired one never is."""
        value = self._cells.read()
        if self._cells.table.ttl is None:
            return value
        return value if self._now[self._scope.current.ordinal] is not None else None

    def write(self, value: object) -> None:
        """Replaces the element, which may be the old one, changed in place; to be called when that has been read."""
        ordinal = self._scope.current.ordinal
        if not self._is_coerced(value):
            value = self._coerce(value, self._cells.subject)
        if self._replaces:
            self._now[ordinal] = value
            return
        table = self._cells.table
        if table.ttl is not None:
            value = (value, table.ttl.expiry(table.now(self._scope)))
        self._now[ordinal] = value
        self._cells.stored[ordinal] = CHANGED

    def clear(self) -> None:
        """Removes the element."""
        ordinal = self._scope.current.ordinal
        if ordinal >= len(self._now):
            self._cells.grow()
        self._now[ordinal] = None

    def take(self) -> Any:
        """The element, which is removed; None when there is none."""
        value = self.live()
        self.clear()
        return value

    def copy(self, value: object, subject: str) -> Any:
        """``value``, or a copy of it if it can be changed in place; ``subject`` is what an error calls it."""
        return value if self._is_immutable else copy_value(value, subject)


def _added(descriptor: StateDescriptor) -> str:
    """What errors call a value that is folded in."""
    return f"{descriptor.label}: the value that is added"


class FoldedReducingState(ReducingState[Any]):
    """The values added so far, reduced to one."""

    __slots__ = ("_added", "_cells", "_folded", "_label", "_reduce")

    def __init__(self, scope: StateScope, cells: ElementCells, descriptor: ReducingStateDescriptor) -> None:
        self._cells = cells
        self._folded = _Folded(scope, cells, descriptor.type_info)
        self._label = descriptor.label
        self._added = _added(descriptor)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        return self._folded.copy(self._cells.read(), self._label)

    def add(self, value: object) -> None:
        if value is None:
            raise InvalidTypeError(f"{self._added} cannot be None")
        self.absorb(self._folded.copy(value, self._added))

    def clear(self) -> None:
        self._folded.clear()

    def take(self) -> Any:
        """The reduced value, which is removed; None when there is none."""
        return self._folded.take()

    def absorb(self, value: object) -> None:
        """Folds in what :meth:`take` has given."""
        old = self._folded.live()
        if old is not None:
            value = self._reduce(old, value)
            if value is None:
                raise InvalidTypeError(
                    f"{self._label}: the reduce function returned None, which would be no value: return the value of "
                    "both, or call clear() where there is to be none"
                )
        self._folded.write(value)


class FoldedAggregatingState(AggregatingState[Any, Any]):
    """The values added so far, folded into an accumulator."""

    __slots__ = ("_added", "_cells", "_folded", "_function", "_label")

    def __init__(self, scope: StateScope, cells: ElementCells, descriptor: AggregatingStateDescriptor) -> None:
        self._cells = cells
        self._folded = _Folded(scope, cells, descriptor.type_info)
        self._label = descriptor.label
        self._added = _added(descriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._cells.read()
        # The result may be the accumulator itself, which user code must not get hold of.
        return None if accumulator is None else self._folded.copy(self._function.get_result(accumulator), self._label)

    def add(self, value: object) -> None:
        accumulator = self._folded.live()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        accumulator = self._function.add(self._folded.copy(value, self._added), accumulator)
        if accumulator is None:
            raise self._none_returned("add")
        self._folded.write(accumulator)

    def clear(self) -> None:
        self._folded.clear()

    def take(self) -> Any:
        """The accumulator, which is removed; None when there is none."""
        return self._folded.take()

    def absorb(self, accumulator: object) -> None:
        """Merges what :meth:`take` has given."""
        old = self._folded.live()
        if old is not None:
            accumulator = self._function.merge(old, accumulator)
            if accumulator is None:
                raise self._none_returned("merge")
        self._folded.write(accumulator)

    def _none_returned(self, method: str) -> InvalidTypeError:
        """None would be no accumulator, and what was added before be lost."""
        place = of_function(getattr(self._function, method))
        where = "" if place is None else f" ({place})"
        return InvalidTypeError(
            f"{self._label}: {method} of the aggregate function{where} returned None, which would be no accumulator: "
            "return the accumulator, also where it was changed in place, or call clear() where there is to be none"
        )


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

    def add(self, value: object) -> None:
        stored = self._stored(value)
        self._cells.current().added.append(stored)

    def add_all(self, values: Iterable[object]) -> None:
        self._cells.current().added.extend(self._all_stored(values, "add_all"))

    def update(self, values: Iterable[object]) -> None:
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

    def _all_stored(self, values: Iterable[object], method: str) -> list[Any]:
        if type(values) is not list:
            values = elements_of(values, f"{self._label}: {method}()")
        return [self._stored(value) for value in values]

    def _stored(self, value: object) -> Any:
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
