"""The states of the dictionary backend: what ``headrace.state.interfaces`` declares, over one dict each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import Types
from headrace.common.values import handler_of
from headrace.state import descriptors as d
from headrace.state.copying import copy_value
from headrace.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from headrace.state.ttl import TtlPolicy

INTEGERS: Final = [kind.to_json() for kind in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG())]

Element = tuple[Any, int | None]
"""A value and when it expires."""


class Clock(Protocol):
    """Says the time of the epoch."""

    @property
    def clock(self) -> int:
        """In milliseconds."""


class Cells:
    """What a state holds, by key; and how long its elements live.

    Args:
        held: by key.
        key: gives the current one.
        ttl: when elements expire.
        clock: says the time.
    """

    def __init__(
        self, held: dict[Any, Any], key: Callable[[], tuple[Any, ...]], ttl: TtlPolicy | None, clock: Clock
    ) -> None:
        self._held = held
        self._key = key
        self._ttl = ttl
        self._clock = clock

    def get(self) -> Any:
        """What is held for the current key; None when there is nothing."""
        return self._held.get(self._key())

    def put(self, cell: Any) -> None:
        """Replaces it; what is empty is not held."""
        if cell:
            self._held[self._key()] = cell
        else:
            self._held.pop(self._key(), None)

    def element(self, value: Any) -> Element:
        """An element that is written now."""
        return value, None if self._ttl is None else self._ttl.expiry(self._clock.clock)

    def is_alive(self, element: Element) -> bool:
        """Whether it has not expired."""
        return element[1] is None or element[1] > self._clock.clock

    def is_seen(self, element: Element) -> bool:
        """Whether it can be read."""
        return self.is_alive(element) or (self._ttl is not None and self._ttl.return_expired)

    def read(self, element: Element) -> Element | None:
        """What becomes of an element by being read: None when it goes."""
        if not self.is_alive(element):
            return None
        return self.element(element[0]) if self._ttl is not None and self._ttl.on_read else element


class DictionaryValueState(ValueState[Any]):
    def __init__(self, cells: Cells, descriptor: d.StateDescriptor) -> None:
        self._cells = cells
        self._coerce = handler_of(descriptor.type_info).coerce

    def value(self) -> Any:
        element = self._cells.get()
        if element is None:
            return None
        is_seen = self._cells.is_seen(element)
        self._cells.put(self._cells.read(element))
        return copy_value(element[0]) if is_seen else None

    def alive(self) -> Any:
        """The same, but None when it has expired."""
        value = self.value()
        return None if self._cells.get() is None else value

    def update(self, value: Any) -> None:
        self._cells.put(None if value is None else self._cells.element(copy_value(self._coerce(value))))

    def clear(self) -> None:
        self._cells.put(None)


class DictionaryReducingState(ReducingState[Any]):
    def __init__(self, cells: Cells, descriptor: d.ReducingStateDescriptor) -> None:
        self._value = DictionaryValueState(cells, descriptor)
        self._label = descriptor.label
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        return self._value.value()

    def add(self, value: Any) -> None:
        if value is None:
            raise InvalidTypeError(f"{self._label}: the value that is added cannot be None")
        held = self._value.alive()
        if held is not None:
            value = self._reduce(held, copy_value(value))
            if value is None:
                raise InvalidTypeError(f"{self._label}: the reduce function returned None, which would be no value")
        self._value.update(value)

    def absorb(self, cell: Element) -> None:
        self.add(cell[0])

    def clear(self) -> None:
        self._value.clear()


class DictionaryAggregatingState(AggregatingState[Any, Any]):
    def __init__(self, cells: Cells, descriptor: d.AggregatingStateDescriptor) -> None:
        self._value = DictionaryValueState(cells, descriptor)
        self._label = descriptor.label
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        held = self._value.value()
        return None if held is None else copy_value(self._function.get_result(held))

    def add(self, value: Any) -> None:
        held = self._value.alive()
        accumulator = self._function.create_accumulator() if held is None else held
        self._put(self._function.add(copy_value(value), accumulator))

    def absorb(self, cell: Element) -> None:
        held = self._value.alive()
        self._put(cell[0] if held is None else self._function.merge(held, cell[0]))

    def _put(self, accumulator: Any) -> None:
        if accumulator is None:
            raise InvalidTypeError(f"{self._label}: the aggregate function returned None, which is no accumulator")
        self._value.update(accumulator)

    def clear(self) -> None:
        self._value.clear()


class DictionaryListState(ListState[Any]):
    def __init__(self, cells: Cells, descriptor: d.ListStateDescriptor) -> None:
        self._cells = cells
        self._label = descriptor.label
        self._coerce = handler_of(descriptor.element_type).coerce

    def get(self) -> list[Any]:
        elements: list[Element] = self._cells.get() or []
        seen = [copy_value(element[0]) for element in elements if self._cells.is_seen(element)]
        self._cells.put([kept for element in elements if (kept := self._cells.read(element)) is not None])
        return seen

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        self._cells.put([*(self._cells.get() or ()), *map(self._element, values)])

    def absorb(self, cell: list[Element]) -> None:
        self._cells.put([*(self._cells.get() or ()), *cell])

    def update(self, values: Iterable[Any]) -> None:
        self._cells.put([*map(self._element, values)])

    def clear(self) -> None:
        self._cells.put(None)

    def _element(self, value: Any) -> Element:
        if value is None:
            raise InvalidTypeError(f"{self._label}: the element cannot be None")
        return self._cells.element(copy_value(self._coerce(value)))


class DictionaryMapState(MapState[Any, Any]):
    def __init__(self, cells: Cells, descriptor: d.MapStateDescriptor) -> None:
        self._cells = cells
        self._coerce_key = handler_of(descriptor.key_type).coerce
        self._has_integer_keys = descriptor.key_type.to_json() in INTEGERS
        self._coerce_value = handler_of(descriptor.value_type).coerce

    def get(self, key: Any) -> Any:
        return self._seen(lambda: [self._wanted(key)]).get(self._wanted(key))

    def put(self, key: Any, value: Any) -> None:
        self.put_all({key: value})

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        written = {
            self._coerce_key(key): self._cells.element(copy_value(self._coerce_value(value)))
            for key, value in dict_value.items()
        }
        self._cells.put({**(self._cells.get() or {}), **written})

    def remove(self, key: Any) -> None:
        gone = self._coerce_key(key)
        self._cells.put({key: element for key, element in (self._cells.get() or {}).items() if key != gone})

    def contains(self, key: Any) -> bool:
        return bool(self._seen(lambda: [self._wanted(key)]))

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._seen(lambda: self._cells.get() or ()).items())

    def items_between(self, low: int | None, high: int | None) -> list[tuple[Any, Any]]:
        if not self._has_integer_keys or any(not isinstance(bound, int | None) for bound in (low, high)):
            raise InvalidTypeError("items_between() needs entries with integers as keys, and integers as bounds")
        start, stop = -(1 << 63) if low is None else low, 1 << 63 if high is None else high
        return list(self._seen(lambda: sorted(k for k in self._cells.get() or () if start <= k < stop)).items())

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not any(map(self._cells.is_seen, (self._cells.get() or {}).values()))

    def clear(self) -> None:
        self._cells.put(None)

    def _seen(self, keys: Callable[[], Iterable[Any]]) -> dict[Any, Any]:
        """The values of some entries that can be read, which may end or prolong the lives of these entries."""
        entries: dict[Any, Element] = dict(self._cells.get() or {})
        asked = [key for key in keys() if key in entries]
        seen = {key: copy_value(entries[key][0]) for key in asked if self._cells.is_seen(entries[key])}
        for key in asked:
            kept = self._cells.read(entries[key])
            if kept is None:
                del entries[key]
            else:
                entries[key] = kept
        self._cells.put(entries)
        return seen

    def _wanted(self, key: Any) -> Any:
        """A key as it is stored; an object that is no key of any entry when it does not fit the type."""
        try:
            return self._coerce_key(key)
        except InvalidTypeError:
            return object()


KINDS: Final[dict[str, Callable[[Cells, Any], Any]]] = {
    "value": DictionaryValueState,
    "list": DictionaryListState,
    "map": DictionaryMapState,
    "reducing": DictionaryReducingState,
    "aggregating": DictionaryAggregatingState,
}
"""What makes the state of a descriptor, by the descriptor's ``kind``."""
