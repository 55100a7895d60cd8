"""Functions of a stream and of one that is broadcast, with state that all subtasks have alike.

Records of both come in the order of event time, as those of any two inputs. The second one reaches every subtask whole
and in the same order, so all of them change their broadcast state alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import InvalidProgramError
from headrace.common.other_names import names_explained
from headrace.operators.functions import BROADCAST_INPUT, OTHER_NAMES_OF_CONTEXTS
from headrace.operators.keyed_process import KeyedProcessContext, KeyedProcessOperator
from headrace.operators.process import ProcessContext, ProcessOperator
from headrace.operators.timer_service import FollowingTimerService, ReadOnlyTimerService
from headrace.state.descriptors import MapStateDescriptor, StateDescriptor
from headrace.state.interfaces import BroadcastState, MapState, ReadOnlyBroadcastState
from headrace.state.keys.entries import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.common.batch import Batch
    from headrace.common.typeinfo import TypeInformation
    from headrace.operators.base import OperatorContext, Output
    from headrace.state.backend import KeyedStates

ELEMENTS: Final = 0
BROADCAST: Final = 1
"""The inputs of operators with a broadcast stream."""

_NO_KEY: Final = "records of the broadcast stream have no key: timers are set in process_element, or in on_timer"
_OTHER_NAMES_OF_BROADCAST_SIDE: Final = {
    **OTHER_NAMES_OF_CONTEXTS,
    "get_current_key": "records of the broadcast stream have no key; apply_to_keyed_state tells those that have state",
}
_OTHER_NAMES_OF_KEYED_SIDE: Final = {
    **OTHER_NAMES_OF_CONTEXTS,
    "apply_to_keyed_state": "the context of process_broadcast_element has it; here is the state of the record's key",
}

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
        assert context.state is not None
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
    if not isinstance(asked, MapStateDescriptor):
        raise InvalidProgramError(f"get_broadcast_state takes a MapStateDescriptor, not {asked!r}")
    declared = next((descriptor for descriptor in descriptors if descriptor.name == asked.name), None)
    if declared is None:
        known = ", ".join(repr(descriptor.name) for descriptor in descriptors) or "none"
        raise InvalidProgramError(
            f"the broadcast state {asked.name!r} was not declared: give its descriptor to broadcast(...), which "
            f"has {known}"
        )
    if declared.stored_types() != asked.stored_types():
        raise InvalidProgramError(
            f"the broadcast state {asked.name!r} is {declared.type_info}, as broadcast(...) was told, and not "
            f"{asked.type_info}"
        )


class _BroadcastAccess:
    """What contexts of both sides have: broadcast state, as their side may use it."""

    _states: BroadcastStates
    _by_name: Mapping[str, ReadOnlyBroadcastMap]
    _checked: dict[int, tuple[Any, ReadOnlyBroadcastMap]]

    def _use(self, states: BroadcastStates, by_name: Mapping[str, ReadOnlyBroadcastMap]) -> None:
        self._states, self._by_name, self._checked = states, by_name, {}

    def get_broadcast_state(self, state_descriptor: Any) -> ReadOnlyBroadcastMap:
        """The map of a descriptor that was given to ``broadcast(...)``."""
        known = self._checked.get(id(state_descriptor))  # the descriptor is kept with it, so no other one has its id
        if known is None:
            check_declared(self._states.descriptors, state_descriptor)
            known = state_descriptor, self._by_name[state_descriptor.name]
            self._checked[id(state_descriptor)] = known
        return known[1]


@names_explained("BroadcastProcessFunction.Context", OTHER_NAMES_OF_CONTEXTS)
class BroadcastContext(ProcessContext, _BroadcastAccess):
    """What methods learn about a record without a key, of either side."""

    def __init__(
        self,
        timer_service: ReadOnlyTimerService,
        states: BroadcastStates,
        by_name: Mapping[str, ReadOnlyBroadcastMap],
    ) -> None:
        super().__init__(timer_service)
        self._use(states, by_name)

    def current_processing_time(self) -> int:
        """The clock's reading for this epoch."""
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        """The event time that both streams have reached."""
        return self._timer_service.current_watermark()


class BroadcastProcessOperator(ProcessOperator):
    """Calls a ``BroadcastProcessFunction``.

    Args:
        function: the function.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
        descriptors: those of the broadcast state.
    """

    def __init__(
        self,
        function: Any,
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
        descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(function, output_type, side_types, BROADCAST_INPUT)
        self._descriptors = descriptors

    def _contexts_of(self, context: OperatorContext, timers: ReadOnlyTimerService) -> Sequence[ProcessContext]:
        states = BroadcastStates(context, self._descriptors)
        return [BroadcastContext(timers, states, by_name) for by_name in (states.read_only, states.writable)]


@names_explained("KeyedBroadcastProcessFunction.ReadOnlyContext", _OTHER_NAMES_OF_KEYED_SIDE)
class KeyedElementContext(KeyedProcessContext, _BroadcastAccess):
    """What ``process_element`` and ``on_timer`` learn."""

    def current_processing_time(self) -> int:
        """The clock's reading for this epoch."""
        return self._timer_service.processing_time

    def current_watermark(self) -> int:
        """The event time that both streams have reached."""
        return self._timer_service.watermark


@names_explained("KeyedBroadcastProcessFunction.Context", _OTHER_NAMES_OF_BROADCAST_SIDE)
class KeyedBroadcastContext(BroadcastContext):
    """What ``process_broadcast_element`` learns."""

    _keyed: KeyedStates

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        """Calls ``function(key, state)`` for each key of this subtask that has something in a keyed state."""
        if not isinstance(state_descriptor, StateDescriptor):
            raise InvalidProgramError(f"apply_to_keyed_state takes the descriptor of a state, not {state_descriptor!r}")
        keyed = self._keyed
        state = keyed.state(state_descriptor)
        holds = _HOLDS_SOMETHING[state_descriptor.kind]
        try:
            for entry in keyed.keys_of(state_descriptor):
                keyed.current = entry
                if holds(state):
                    function(entry.key, state)
        finally:
            keyed.current = NO_KEY


_HOLDS_SOMETHING: Final[dict[str, Callable[[Any], bool]]] = {
    "value": lambda state: state.value() is not None,
    "list": lambda state: bool(state.get()),
    "map": lambda state: not state.is_empty(),
    "reducing": lambda state: state.get() is not None,
    "aggregating": lambda state: state.get() is not None,
}
"""By kind of a descriptor, whether its state has anything for the current key."""


class KeyedBroadcastProcessOperator(KeyedProcessOperator):
    """Calls a ``KeyedBroadcastProcessFunction``.

    Args:
        function: the function.
        output_type: the type of what it yields.
        side_types: the types of the side outputs that are read, by tag id.
        descriptors: those of the broadcast state.
        is_batch: whether timers in processing time fire when the input has ended, whatever the clock says.
    """

    def __init__(
        self,
        function: Any,
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
        descriptors: Sequence[MapStateDescriptor],
        *,
        is_batch: bool = False,
    ) -> None:
        super().__init__(function, output_type, side_types, BROADCAST_INPUT, is_batch=is_batch)
        self._descriptors = descriptors

    def open(self, context: OperatorContext, output: Output) -> None:
        self._states = BroadcastStates(context, self._descriptors)
        super().open(context, output)

    def _new_context(self) -> KeyedProcessContext:
        found = KeyedElementContext(self._backend, self._service)
        found._use(self._states, self._states.read_only)
        return found

    def _contexts(self) -> Sequence[Any]:
        times = FollowingTimerService(self.context.name, _NO_KEY, self._service)
        for_broadcast = KeyedBroadcastContext(times, self._states, self._states.writable)
        for_broadcast._keyed = self._backend
        return [self._context, for_broadcast]

    def _entries(self, input_index: int, batch: Batch) -> Iterable[Any]:
        return super()._entries(input_index, batch) if input_index == ELEMENTS else repeat(NO_KEY, len(batch))
