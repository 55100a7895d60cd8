"""``KeyedStateBackend``: the states of one operator, and the keys that they are kept by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.common.errors import InvalidProgramError
from headrace.state import descriptors as d
from headrace.state.folding_state import FoldedAggregatingState, FoldedReducingState
from headrace.state.key_entries import NO_KEY
from headrace.state.key_scope import KeyScope
from headrace.state.list_state import ColumnarListState
from headrace.state.map_state import ColumnarMapState
from headrace.state.state_table import StateTable
from headrace.state.value_state import CopyingValueState, ElementCells, ExpiringValueState, PlainValueState

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
    from headrace.state.keys import KeyCodec
    from headrace.state.runs import RunStore

D = TypeVar("D", bound=d.StateDescriptor)

STORE_PREFIX = "state/"
"""Stores of keyed states are called so, followed by the name of the state."""


class _Epochs(Protocol):
    def forget_keys(self) -> None: ...

    def end_epoch(self) -> None: ...


class KeyedStateBackend(KeyScope):
    """The keyed state of one operator in one task.

    Args:
        codec: how keys are stored.
        store: gives the runs of a state by its name.
    """

    def __init__(self, codec: KeyCodec, store: Callable[[str], RunStore]) -> None:
        super().__init__(codec)
        self._store = store
        self._states: dict[str, tuple[d.StateDescriptor, Any]] = {}
        self._cells: list[_Epochs] = []

    def value_state(self, descriptor: d.ValueStateDescriptor) -> ValueState[Any]:
        """The state of a descriptor.

        Raises:
            StateMigrationError: when something else is stored under its name.
            InvalidProgramError: when the program declares the name twice, differently.
        """
        state: ValueState[Any] = self._state(descriptor, d.ValueStateDescriptor, self._new_value_state)
        return state

    def list_state(self, descriptor: d.ListStateDescriptor) -> ListState[Any]:
        """The state of a descriptor; errors as in :meth:`value_state`."""
        state: ListState[Any] = self._state(descriptor, d.ListStateDescriptor, self._new_list_state)
        return state

    def map_state(self, descriptor: d.MapStateDescriptor) -> MapState[Any, Any]:
        """The state of a descriptor; errors as in :meth:`value_state`."""
        state: MapState[Any, Any] = self._state(descriptor, d.MapStateDescriptor, self._new_map_state)
        return state

    def reducing_state(self, descriptor: d.ReducingStateDescriptor) -> ReducingState[Any]:
        """The state of a descriptor; errors as in :meth:`value_state`."""
        state: ReducingState[Any] = self._state(descriptor, d.ReducingStateDescriptor, self._new_reducing_state)
        return state

    def aggregating_state(self, descriptor: d.AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """The state of a descriptor; errors as in :meth:`value_state`."""
        make = self._new_aggregating_state
        state: AggregatingState[Any, Any] = self._state(descriptor, d.AggregatingStateDescriptor, make)
        return state

    def begin_epoch(self, clock: int) -> None:
        """Starts an epoch without any keys."""
        self.clock = clock
        self.forget_keys()

    def forget_keys(self) -> None:
        """Lets go of the keys of the epoch and of their state in memory."""
        super().forget_keys()
        for cells in self._cells:
            cells.forget_keys()

    def end_epoch(self) -> None:
        """Writes what has changed into runs.

        Raises:
            InvalidTypeError: when a key of a map's entry cannot be one, which shows here first; it names the state.
        """
        self.current = NO_KEY
        for cells in self._cells:
            cells.end_epoch()

    def _state(self, descriptor: Any, expected: type[D], make: Callable[[StateTable, D], Any]) -> Any:
        if not isinstance(descriptor, expected):
            raise InvalidProgramError(f"expected a {expected.__name__}, got {descriptor!r}")
        known = self._states.get(descriptor.name)
        if known is not None:
            return _same(known, descriptor)
        table = StateTable(self._store(STORE_PREFIX + descriptor.name), descriptor, self.codec)
        state = make(table, descriptor)
        self._states[descriptor.name] = (descriptor, state)
        return state

    def _element_cells(self, table: StateTable, descriptor: d.StateDescriptor) -> ElementCells:
        cells = ElementCells(self, table, descriptor.type_info)
        self._cells.append(cells)
        return cells

    def _new_value_state(self, table: StateTable, descriptor: d.ValueStateDescriptor) -> PlainValueState:
        cells = self._element_cells(table, descriptor)
        if table.ttl is not None:
            return ExpiringValueState(self, cells)
        return (PlainValueState if descriptor.type_info.is_immutable else CopyingValueState)(self, cells)

    def _new_reducing_state(self, table: StateTable, descriptor: d.ReducingStateDescriptor) -> FoldedReducingState:
        return FoldedReducingState(self, self._element_cells(table, descriptor), descriptor)

    def _new_aggregating_state(
        self, table: StateTable, descriptor: d.AggregatingStateDescriptor
    ) -> FoldedAggregatingState:
        return FoldedAggregatingState(self, self._element_cells(table, descriptor), descriptor)

    def _new_list_state(self, table: StateTable, descriptor: d.ListStateDescriptor) -> ColumnarListState:
        state = ColumnarListState(self, table, descriptor)
        self._cells.append(state)
        return state

    def _new_map_state(self, table: StateTable, descriptor: d.MapStateDescriptor) -> ColumnarMapState:
        state = ColumnarMapState(self, table, descriptor)
        self._cells.append(state)
        return state


def _same(known: tuple[d.StateDescriptor, Any], descriptor: d.StateDescriptor) -> Any:
    declared, state = known
    described = (declared.kind, declared.stored_types(), declared.ttl)
    if described != (descriptor.kind, descriptor.stored_types(), descriptor.ttl):
        raise InvalidProgramError(
            f"the operator declares the state {descriptor.name!r} twice: as {declared.kind} of {declared.type_info} "
            f"and as {descriptor.kind} of {descriptor.type_info}, or with another time to live"
        )
    return state
