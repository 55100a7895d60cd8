"""``KeyedStateStore``: how user code asks for its states, wherever it can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidProgramError
from headrace.state import descriptors as d

if TYPE_CHECKING:
    from headrace.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState


class KeyedStateStore(ABC):
    """Gives access to the state of the key, or of the key and window, that is being processed.

    All methods raise an ``InvalidProgramError`` when they are given a descriptor of another kind, when the operator is
    not on a keyed stream, and when the program declares a name twice, differently; and a ``StateMigrationError`` when
    something else is stored under the name.
    """

    def get_state(self, state_descriptor: d.ValueStateDescriptor) -> ValueState[Any]:
        """One value for each key."""
        state: ValueState[Any] = self._checked(state_descriptor, d.ValueStateDescriptor, "get_state")
        return state

    def get_list_state(self, state_descriptor: d.ListStateDescriptor) -> ListState[Any]:
        """A list for each key."""
        state: ListState[Any] = self._checked(state_descriptor, d.ListStateDescriptor, "get_list_state")
        return state

    def get_map_state(self, state_descriptor: d.MapStateDescriptor) -> MapState[Any, Any]:
        """A dict for each key."""
        state: MapState[Any, Any] = self._checked(state_descriptor, d.MapStateDescriptor, "get_map_state")
        return state

    def get_reducing_state(self, state_descriptor: d.ReducingStateDescriptor) -> ReducingState[Any]:
        """Elements combined into one of their own type, for each key."""
        state: ReducingState[Any] = self._checked(state_descriptor, d.ReducingStateDescriptor, "get_reducing_state")
        return state

    def get_aggregating_state(self, state_descriptor: d.AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Elements folded into an accumulator, for each key."""
        expected = d.AggregatingStateDescriptor
        state: AggregatingState[Any, Any] = self._checked(state_descriptor, expected, "get_aggregating_state")
        return state

    @abstractmethod
    def _state(self, descriptor: d.StateDescriptor, method: str) -> Any:
        """The state of a descriptor; ``method`` is the method that the user has called."""

    def _checked(self, descriptor: Any, expected: type[d.StateDescriptor], method: str) -> Any:
        if not isinstance(descriptor, expected):
            raise InvalidProgramError(f"{method}: expected a {expected.__name__}, got {descriptor!r}")
        return self._state(descriptor, method)
