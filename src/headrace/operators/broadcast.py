"""Functions of a stream and of one that is broadcast, with state that all subtasks have alike.

The second input reaches every subtask whole and in the same order, so all of them change their broadcast state alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from headrace.common.batch import Batch
from headrace.common.errors import InvalidProgramError
from headrace.common.other_names import names_explained
from headrace.common.typeinfo import TypeInformation
from headrace.operators.base import OperatorContext
from headrace.operators.checkpointed import BroadcastStates, ReadOnlyBroadcastMap, check_declared
from headrace.operators.functions import BROADCAST_INPUT, NO_TIMERS, OTHER_NAMES_OF_CONTEXTS
from headrace.operators.process import KeyedProcessContext, KeyedProcessOperator, ProcessContext, ProcessOperator
from headrace.operators.timer_service import ReadOnlyTimerService, TimerService
from headrace.state.descriptors import MapStateDescriptor, StateDescriptor
from headrace.state.keys.codecs import NO_KEY
from headrace.state.protocols import KeyedStates

ELEMENTS: Final = 0
BROADCAST: Final = 1
"""The inputs of operators with a broadcast stream."""

_OTHER_NAMES_OF_BROADCAST_SIDE: Final = {
    **OTHER_NAMES_OF_CONTEXTS,
    "get_current_key": "records of the broadcast stream have no key; apply_to_keyed_state tells those that have state",
}
_OTHER_NAMES_OF_KEYED_SIDE: Final = {
    **OTHER_NAMES_OF_CONTEXTS,
    "apply_to_keyed_state": "the context of process_broadcast_element has it; here is the state of the record's key",
}


class _BroadcastAccess:
    """The context that both sides share: the time, and broadcast state, as their side may use it."""

    _timer_service: TimerService
    _states: BroadcastStates
    _by_name: Mapping[str, ReadOnlyBroadcastMap]
    _checked: dict[int, tuple[Any, ReadOnlyBroadcastMap]]
    _MOST_CHECKED: Final = 64
    """The most descriptors that are known: functions may make one for each record."""

    def _use(self, states: BroadcastStates, by_name: Mapping[str, ReadOnlyBroadcastMap]) -> None:
        self._states, self._by_name, self._checked = states, by_name, {}

    def current_processing_time(self) -> int:
        """The clock's reading for this epoch."""
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        """The event time that both streams have reached."""
        return self._timer_service.current_watermark()

    def get_broadcast_state(self, state_descriptor: Any) -> ReadOnlyBroadcastMap:
        """The map of a descriptor that was given to ``broadcast(...)``."""
        known = self._checked.get(id(state_descriptor))  # the descriptor is kept with it, so no other one has its id
        if known is None:
            check_declared(self._states.descriptors, state_descriptor)
            known = state_descriptor, self._by_name[state_descriptor.name]
            if len(self._checked) == self._MOST_CHECKED:
                self._checked.clear()
            self._checked[id(state_descriptor)] = known
        return known[1]


@names_explained("BroadcastProcessFunction.Context", OTHER_NAMES_OF_CONTEXTS)
class BroadcastContext(ProcessContext, _BroadcastAccess):
    """The context of methods for records without a key, of either side."""

    def __init__(
        self,
        timer_service: ReadOnlyTimerService,
        states: BroadcastStates,
        by_name: Mapping[str, ReadOnlyBroadcastMap],
    ) -> None:
        super().__init__(timer_service)
        self._use(states, by_name)


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
        function: object,
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
    """The context of ``process_element`` and ``on_timer``."""


@names_explained("KeyedBroadcastProcessFunction.Context", _OTHER_NAMES_OF_BROADCAST_SIDE)
class KeyedBroadcastContext(BroadcastContext):
    """The context of ``process_broadcast_element``."""

    def __init__(self, timer_service: ReadOnlyTimerService, states: BroadcastStates, keyed: KeyedStates) -> None:
        super().__init__(timer_service, states, states.writable)
        self._keyed = keyed

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], object]) -> None:
        """Calls ``function(key, state)`` for each key of this subtask that has something in a keyed state."""
        if not isinstance(state_descriptor, StateDescriptor):
            raise InvalidProgramError(f"apply_to_keyed_state takes the descriptor of a state, not {state_descriptor!r}")
        keyed = self._keyed
        before = keyed.current  # that of another call, where the function makes one
        state = keyed.state(state_descriptor)
        holds = _HOLDS_SOMETHING[state_descriptor.kind]
        try:
            for entry in keyed.keys_of(state_descriptor):
                keyed.current = entry
                if holds(state):
                    function(entry.key, state)
        finally:
            keyed.current = before


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
        is_batch: whether timers in processing time fire when the input has ended, whatever the time.
        is_in_order: whether records come in the order of event time.
    """

    def __init__(
        self,
        function: object,
        output_type: TypeInformation,
        side_types: Mapping[str, TypeInformation],
        descriptors: Sequence[MapStateDescriptor],
        *,
        is_batch: bool = False,
        is_in_order: bool = False,
    ) -> None:
        super().__init__(function, output_type, side_types, BROADCAST_INPUT, is_batch=is_batch, is_in_order=is_in_order)
        self._descriptors = descriptors

    def restore_state(self, context: OperatorContext) -> None:
        self._states = BroadcastStates(context, self._descriptors)
        super().restore_state(context)

    def _new_context(self) -> KeyedProcessContext:
        found = KeyedElementContext(self._backend, self._service)
        found._use(self._states, self._states.read_only)
        return found

    def _contexts(self) -> Sequence[Any]:
        times = ReadOnlyTimerService(self.context.name, NO_TIMERS, self._service)
        return [self._context, KeyedBroadcastContext(times, self._states, self._backend)]

    def _entries(self, input_index: int, batch: Batch) -> Iterable[Any]:
        return super()._entries(input_index, batch) if input_index == ELEMENTS else repeat(NO_KEY, len(batch))
