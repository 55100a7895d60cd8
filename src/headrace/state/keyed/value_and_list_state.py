"""``ValueState``, and the folding states on top of it: ``ReducingState`` and ``AggregatingState``."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from headrace.common.call_site import of_function
from headrace.common.errors import InvalidTypeError
from headrace.common.other_names import names_explained
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
from headrace.state.keyed.table import (
    UNLOADED,
    ElementCells,
    Elements,
    NestedCells,
    RunMatch,
    StateTable,
    flat,
    segments,
)
from headrace.state.runs.layout import EXPIRY, VALUE, list_columns
from headrace.state.ttl import TtlPolicy

CHANGED: Final[Any] = object()
"""Stands for a stored element whose successor was changed in place."""

_ELEMENT_NAMES: Final = {"value": "value", "reducing": "reduced value", "aggregating": "accumulator"}
"""The names of the elements of states in errors, by the kind of the descriptor."""


class _KeyedState:
    """The base of all states with one element per key."""

    __slots__ = ("_cells", "_coerce", "_is_coerced", "_label", "_now", "_scope", "_subject", "_table")

    def __init__(self, scope: StateScope, table: StateTable, descriptor: StateDescriptor) -> None:
        self._scope = scope
        self._table = table
        self._cells = ElementCells(scope, table, descriptor.type_info)
        self._now = self._cells.now
        handler = handler_of(descriptor.type_info)
        self._coerce, self._is_coerced = handler.coerce, handler.is_coerced
        self._label = descriptor.label
        self._subject = f"{descriptor.label}: the {_ELEMENT_NAMES[descriptor.kind]}"

    def clear(self) -> None:
        self._put(None)

    def forget_keys(self) -> None:
        """Lets go of what is in memory."""
        self._cells.forget_keys()

    def end_epoch(self) -> None:
        """Writes the elements that have changed."""
        self._cells.end_epoch()

    def _put(self, element: Any) -> None:
        ordinal = self._scope.current.ordinal
        try:
            self._now[ordinal] = element
        except IndexError:
            self._cells.grow()
            self._now[ordinal] = element

    def _stored(self, value: Any) -> Any:
        """A value as it is kept in memory: with a time to live, beside its expiry."""
        ttl = self._table.ttl
        return value if ttl is None else (value, ttl.expiry(self._table.now))


@names_explained("ValueState", {"get": "use value()", "set": "use update(value)", "put": "use update(value)"})
class PlainValueState(_KeyedState, ValueState[Any]):
    """The value of a type whose values cannot be changed in place, without a time to live."""

    __slots__ = ()

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


class CopyingValueState(PlainValueState):
    """The same for values that may be changed in place, or that expire: user code never holds the stored object."""

    __slots__ = ()

    def value(self) -> Any:
        return copy_value(self._cells.read())

    def update(self, value: Any) -> None:
        if value is not None:
            value = self._stored(copy_value(self._coerce(value, self._subject), self._subject))
        self._put(value)


def value_state(scope: StateScope, table: StateTable, descriptor: ValueStateDescriptor) -> PlainValueState:
    """The value state of a descriptor."""
    is_plain = table.ttl is None and descriptor.type_info.is_immutable
    return (PlainValueState if is_plain else CopyingValueState)(scope, table, descriptor)


class _FoldingState(_KeyedState):
    """A state whose element is replaced by what a function makes of it and of a value that is added."""

    __slots__ = ("_added", "_is_immutable", "_replaces")

    def __init__(self, scope: StateScope, table: StateTable, descriptor: StateDescriptor) -> None:
        super().__init__(scope, table, descriptor)
        self._is_immutable = descriptor.type_info.is_immutable
        self._replaces = self._is_immutable and table.ttl is None
        self._added = f"{descriptor.label}: the value that is added"

    def take(self) -> Any:
        """The element, which is removed; None when there is none."""
        value = self._live()
        self._put(None)
        return value

    def _live(self) -> Any:
        """The element that a new value is to be folded into: an expired one never is."""
        value = self._cells.read()
        if self._table.ttl is None:
            return value
        return value if self._now[self._scope.current.ordinal] is not None else None

    def _write(self, value: Any) -> None:
        """Replaces the element, which may be the old one, changed in place; to be called when that has been read."""
        ordinal = self._scope.current.ordinal
        if not self._is_coerced(value):
            value = self._coerce(value, self._subject)
        if self._replaces:
            self._now[ordinal] = value
            return
        self._now[ordinal] = self._stored(value)
        self._cells.stored[ordinal] = CHANGED

    def _copied(self, value: Any, subject: str) -> Any:
        """``value``, or a copy of it if it can be changed in place; ``subject`` is what an error calls it."""
        return value if self._is_immutable else copy_value(value, subject)


class FoldedReducingState(_FoldingState, ReducingState[Any]):
    """The values added so far, reduced to one."""

    __slots__ = ("_reduce",)

    def __init__(self, scope: StateScope, table: StateTable, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(scope, table, descriptor)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        return self._copied(self._cells.read(), self._label)

    def add(self, value: Any) -> None:
        if value is None:
            raise InvalidTypeError(f"{self._added} cannot be None")
        self.absorb(self._copied(value, self._added))

    def absorb(self, value: Any) -> None:
        """Folds in what :meth:`take` has given."""
        old = self._live()
        if old is not None:
            value = self._reduce(old, value)
            if value is None:
                raise InvalidTypeError(
                    f"{self._label}: the reduce function returned None, which would be no value: return the value of "
                    "both, or call clear() where there is to be none"
                )
        self._write(value)


class FoldedAggregatingState(_FoldingState, AggregatingState[Any, Any]):
    """The values added so far, folded into an accumulator."""

    __slots__ = ("_function",)

    def __init__(self, scope: StateScope, table: StateTable, descriptor: AggregatingStateDescriptor) -> None:
        super().__init__(scope, table, descriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._cells.read()
        # The result may be the accumulator itself, which user code must not get hold of.
        return None if accumulator is None else self._copied(self._function.get_result(accumulator), self._label)

    def add(self, value: Any) -> None:
        accumulator = self._live()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._write_accumulator("add", self._function.add(self._copied(value, self._added), accumulator))

    def absorb(self, accumulator: Any) -> None:
        """Merges what :meth:`take` has given."""
        old = self._live()
        self._write_accumulator("merge", accumulator if old is None else self._function.merge(old, accumulator))

    def _write_accumulator(self, method: str, accumulator: Any) -> None:
        if accumulator is None:  # would be no accumulator, and what was added before be lost
            place = of_function(getattr(self._function, method))
            where = "" if place is None else f" ({place})"
            raise InvalidTypeError(
                f"{self._label}: {method} of the aggregate function{where} returned None, which would be no "
                "accumulator: return the accumulator, also where it was changed in place, or call clear() where there "
                "is to be none"
            )
        self._write(accumulator)


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
        """Return whether there is something to be written."""
        return self.cleared or bool(self.added)

    @property
    def is_empty(self) -> bool:
        """Return whether what is to be written says only that everything older is void."""
        return not self.added

    def replace(self, elements: list[Any]) -> None:
        """Makes these the whole list."""
        # Where it is known that nothing is stored, nothing has to be written that would hide it.
        self.cleared = self.cleared or not self.is_read or bool(self.stored)
        self.stored, self.added = [], elements


class BaseListState(ListState[Any]):
    """The common part of keyed lists and operator lists: the elements they accept and how these are stored."""

    def __init__(self, descriptor: ListStateDescriptor) -> None:
        handler = handler_of(descriptor.element_type)
        self._coerce, self._is_coerced = handler.coerce, handler.is_coerced
        self._copy = copier(descriptor.element_type)
        self._label = descriptor.label
        self._subject = f"{descriptor.label}: the element"
        self._takes_none = descriptor.takes_none
        self._ttl = descriptor.ttl
        self._copies = not descriptor.element_type.is_immutable

    @abstractmethod
    def _added(self) -> list[Any]:
        """The elements that were added in this epoch, as they are stored."""

    @abstractmethod
    def _replace(self, elements: list[Any]) -> None:
        """Makes these the whole list."""

    def add(self, value: Any) -> None:
        self._added().append(self._stored(value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._added().extend(self._all_stored(values, "add_all"))

    def update(self, values: Iterable[Any]) -> None:
        self._replace(self._all_stored(values, "update"))

    def clear(self) -> None:
        self._replace([])

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
        return value if self._ttl is None else self._expiring(value, self._ttl)

    def _expiring(self, value: Any, ttl: TtlPolicy) -> Any:
        """An element with a time to live, as it is stored."""
        return value


@names_explained("ListState", {"append": "use add(value)", "extend": "use add_all(values)", "value": "use get()"})
class ColumnarListState(BaseListState):
    """A list per key. Elements are kept as they are stored: with a time to live, pairs of value and expiry."""

    def __init__(self, scope: StateScope, table: StateTable, descriptor: ListStateDescriptor) -> None:
        super().__init__(descriptor)
        self._table = table
        self._elements = Elements(descriptor.element_type, table.ttl is not None)
        self._cells = NestedCells(scope, table, _ListCell, self._read, self._columns)

    def get(self) -> list[Any]:
        cell = self._cells.read()
        elements = cell.added if cell.cleared else cell.stored + cell.added
        if self._ttl is not None:
            return list(map(self._copy, self._alive(cell, elements, self._ttl)))
        return list(map(self._copy, elements)) if self._copies else elements.copy()

    def _added(self) -> list[Any]:
        return self._cells.current().added

    def _replace(self, elements: list[Any]) -> None:
        self._cells.current().replace(elements)

    def take(self) -> list[Any] | None:
        """The elements as they are stored, which are removed; None when there are none."""
        cell = self._cells.read()
        elements = cell.added if cell.cleared else cell.stored + cell.added
        cell.replace([])
        return elements or None

    def absorb(self, elements: list[Any]) -> None:
        """Adds what :meth:`take` has given, at the end."""
        self._added().extend(elements)

    def _expiring(self, value: Any, ttl: TtlPolicy) -> Any:
        return value, ttl.expiry(self._table.now)

    def _alive(self, cell: _ListCell, elements: list[Any], ttl: TtlPolicy) -> list[Any]:
        """The values that are to be seen now; drops those that have expired, prolongs the lives of the others."""
        now = self._table.now
        alive = [pair for pair in elements if pair[1] is None or pair[1] > now]
        seen = elements if ttl.return_expired else alive
        if ttl.on_read and any(pair[1] != ttl.expiry(now) for pair in alive):
            cell.replace([(value, ttl.expiry(now)) for value, _ in alive])
        elif len(alive) < len(elements):
            cell.replace(alive.copy())
        return [value for value, _ in seen]

    def _read(self, matches: list[RunMatch], cells: list[_ListCell]) -> None:
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
        self._cells.end_epoch()

    def _columns(self, cells: list[_ListCell]) -> tuple[dict[str, pa.Array], int]:
        added = [element for cell in cells for element in cell.added]
        return list_columns([len(cell.added) for cell in cells], self._elements.to_columns(added)), len(added)
