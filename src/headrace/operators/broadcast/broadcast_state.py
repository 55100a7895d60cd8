"""Broadcast state as functions see it: maps, which only the side of what is broadcast may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError
from headrace.common.other_names import names_explained
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.interfaces import BroadcastState, MapState, ReadOnlyBroadcastState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.operators.base import OperatorContext

READ_ONLY: Final = "broadcast state is changed in process_broadcast_element alone, so that all subtasks have the same"
"""What errors say where broadcast state must not be changed."""

_CHANGES: Final = dict.fromkeys(("put", "put_all", "putAll", "remove", "update", "pop", "clear"), READ_ONLY)


@names_explained("ReadOnlyBroadcastState", _CHANGES)
class ReadOnlyBroadcastMap(ReadOnlyBroadcastState[Any, Any]):
    """A map of broadcast state where it must not be changed."""

    def __init__(self, entries: MapState[Any, Any]) -> None:
        self._entries = entries
        self.get, self.contains = entries.get, entries.contains  # type: ignore[method-assign] # one call less

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return self._entries.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._entries.items()

    def keys(self) -> Iterable[Any]:
        return self._entries.keys()

    def values(self) -> Iterable[Any]:
        return self._entries.values()

    def is_empty(self) -> bool:
        return self._entries.is_empty()

    def clear(self) -> None:
        raise InvalidProgramError(f"clear() of a ReadOnlyBroadcastState: {READ_ONLY}")


class BroadcastMap(ReadOnlyBroadcastMap, BroadcastState[Any, Any]):
    """The same where records come that all subtasks get."""

    def put(self, key: Any, value: Any) -> None:
        self._entries.put(key, value)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        self._entries.put_all(dict_value)

    def remove(self, key: Any) -> None:
        self._entries.remove(key)

    def clear(self) -> None:
        self._entries.clear()


class BroadcastStates:
    """The broadcast state of an operator, by descriptor.

    Args:
        context: the operator.
        descriptors: those that were given to ``broadcast(...)``.
    """

    def __init__(self, context: OperatorContext, descriptors: Sequence[MapStateDescriptor]) -> None:
        store = context.state.operator_state_store
        self.descriptors = descriptors
        maps = {descriptor.name: store.broadcast_state(descriptor) for descriptor in descriptors}
        self.read_only = {name: ReadOnlyBroadcastMap(entries) for name, entries in maps.items()}
        self.writable = {name: BroadcastMap(entries) for name, entries in maps.items()}


def check_declared(descriptors: Sequence[MapStateDescriptor], asked: Any) -> None:
    """Refuse a broadcast state that was not given to ``broadcast(...)``, or with other types.

    Raises:
        InvalidProgramError: naming what was.
    """
    known = ", ".join(repr(descriptor.name) for descriptor in descriptors)
    if not isinstance(asked, MapStateDescriptor):
        raise InvalidProgramError(
            f"get_broadcast_state takes a MapStateDescriptor, not {asked!r}: give it one of broadcast(...), which has "
            f"{known}"
        )
    declared = next((descriptor for descriptor in descriptors if descriptor.name == asked.name), None)
    if declared is None:
        raise InvalidProgramError(
            f"the broadcast state {asked.name!r} was not declared: give its descriptor to broadcast(...), which "
            f"has {known}"
        )
    if declared.stored_types() != asked.stored_types():
        raise InvalidProgramError(
            f"the broadcast state {asked.name!r} is {declared.type_info}, as broadcast(...) was told, and not "
            f"{asked.type_info}"
        )
