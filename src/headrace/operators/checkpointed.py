"""``CheckpointedFunction``: functions of the user that keep state of their subtask, and take part in every checkpoint.

An instance may be made anew in any epoch, in another process. It then finds what the subtask had at the end of the
epoch before, as if the job had gone on from that checkpoint; only that nothing is dealt out among the subtasks.

Broadcast state, which all subtasks have alike, is here too: maps, which only the side of what is broadcast may change.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headrace.common.arguments import check_call
from headrace.common.errors import InvalidProgramError, refused
from headrace.common.other_names import names_explained
from headrace.operators.base import OperatorContext
from headrace.operators.functions import RuntimeContext, keyed_states, objects_of
from headrace.operators.user_code import UserCodeGuard
from headrace.state import descriptors as d
from headrace.state.descriptors import MapStateDescriptor
from headrace.state.interfaces import (
    BroadcastState,
    KeyedStateStore,
    ListState,
    MapState,
    OperatorStateStore,
    ReadOnlyBroadcastState,
)
from headrace.state.protocols import StatesWithoutKeys

READ_ONLY: Final = "broadcast state is changed in process_broadcast_element alone, so that all subtasks have the same"
"""The part of an error that explains where broadcast state must not be changed."""

_CHANGES: Final = dict.fromkeys(("put", "put_all", "putAll", "remove", "update", "pop", "clear"), READ_ONLY)


@names_explained("ReadOnlyBroadcastState", _CHANGES)
class ReadOnlyBroadcastMap(ReadOnlyBroadcastState[Any, Any]):
    """A map of broadcast state where it must not be changed."""

    def __init__(self, entries: MapState) -> None:
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


def check_declared(descriptors: Sequence[MapStateDescriptor], descriptor: object) -> None:
    """Refuse a broadcast state that was not given to ``broadcast(...)``, or with other types.

    Raises:
        InvalidProgramError: naming what was.
    """
    known = ", ".join(repr(descriptor.name) for descriptor in descriptors)
    if not isinstance(descriptor, MapStateDescriptor):
        raise InvalidProgramError(
            f"get_broadcast_state takes a MapStateDescriptor, not {descriptor!r}: give it one of broadcast(...), which "
            f"has {known}"
        )
    declared = next((each for each in descriptors if each.name == descriptor.name), None)
    if declared is None:
        raise InvalidProgramError(
            f"the broadcast state {descriptor.name!r} was not declared: give its descriptor to broadcast(...), which "
            f"has {known}"
        )
    if declared.stored_types() != descriptor.stored_types():
        raise InvalidProgramError(
            f"the broadcast state {descriptor.name!r} is {declared.type_info}, as given to broadcast(...), and not "
            f"{descriptor.type_info}"
        )


_METHODS: Final = ("initialize_state", "snapshot_state")


class FunctionSnapshotContext:
    """The checkpoint that a function takes part in.

    Examples:
        >>> from headrace.datastream import FunctionSnapshotContext
        >>> FunctionSnapshotContext(7, 1_000).get_checkpoint_id()
        7
    """

    def __init__(self, checkpoint_id: int, checkpoint_timestamp: int) -> None:
        self._id = checkpoint_id
        self._timestamp = checkpoint_timestamp

    def get_checkpoint_id(self) -> int:
        """The number of the checkpoint, which is that of the epoch."""
        return self._id

    def get_checkpoint_timestamp(self) -> int:
        """The clock's reading for the epoch, in milliseconds."""
        return self._timestamp


class FunctionInitializationContext:
    """Gives a ``CheckpointedFunction`` its state.

    Args:
        context: the operator.
        goes_on_from: the checkpoint that the instance begins with; None for that of a new job.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import CheckpointedFunction, FunctionInitializationContext, MapFunction
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> class Distinct(MapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context: FunctionInitializationContext):
        ...         seen = ListStateDescriptor("seen", Types.STRING())
        ...         self.stored = context.get_operator_state_store().get_list_state(seen)
        ...         self.seen = set(self.stored.get()) if context.is_restored() else set()
        ...     def map(self, value):
        ...         self.seen.add(value)
        ...         return len(self.seen)
        ...     def snapshot_state(self, context):
        ...         self.stored.update(sorted(self.seen))
    """

    def __init__(self, context: OperatorContext, goes_on_from: int | None) -> None:
        self._context = context
        self._goes_on_from = goes_on_from

    def is_restored(self) -> bool:
        """Return whether there is a checkpoint to go on from: always, but in the first epoch of a new job."""
        return self._goes_on_from is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """The number of that checkpoint; None for a new job."""
        return self._goes_on_from

    def is_redistributed(self) -> bool:
        """Return whether the job has just been started, or restarted, and state was dealt out; not in Flink.

        Otherwise the instance was made anew between two epochs, and finds what the subtask itself has stored.
        """
        return _without_keys(self._context).is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """The state of the subtask."""
        return _SubtaskStates(_without_keys(self._context))

    def get_keyed_state_store(self) -> KeyedStateStore:
        """The state of keys, as the runtime context of ``open`` gives it.

        Raises:
            InvalidProgramError: when the operator is not on a keyed stream.
        """
        keyed_states(self._context, "get_keyed_state_store()")
        return RuntimeContext(self._context)


class CheckpointedFunction(ABC):
    """A function, or a sink, that keeps state of its subtask; a second base class beside ``MapFunction``, say.

    Both methods are called for each parallel instance. Lambdas and plain functions have no such state.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import CheckpointedFunction, FlatMapFunction
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> class Pairs(FlatMapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         waiting = ListStateDescriptor("waiting", Types.STRING())
        ...         self.stored = context.get_operator_state_store().get_list_state(waiting)
        ...         self.waiting = list(self.stored.get())
        ...     def flat_map(self, value):
        ...         self.waiting.append(value)
        ...         if len(self.waiting) == 2:
        ...             yield "+".join(self.waiting)
        ...             self.waiting.clear()
        ...     def snapshot_state(self, context):
        ...         self.stored.update(self.waiting)
        >>> def job(harness):
        ...     harness.add_sink("pairs", harness.add_source("words", str).flat_map(Pairs(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push("words", "tea")
        ...     harness.run_epoch()
        ...     harness.push("words", "cake")
        ...     harness.run_epoch()
        ...     print(harness.results("pairs"))
        ['tea+cake']
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called before ``open``: the place to get state, and to take up what is in it."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at the end of each epoch, after its last record: what is to be found again has to be in state."""


class _SubtaskStates(OperatorStateStore):
    """The states of an operator without keys, as Flink names them."""

    def __init__(self, states: StatesWithoutKeys) -> None:
        self._states = states

    def get_list_state(self, state_descriptor: d.ListStateDescriptor) -> ListState:
        return self._states.list_state(state_descriptor)

    def get_union_list_state(self, state_descriptor: d.ListStateDescriptor) -> ListState:
        return self._states.union_list_state(state_descriptor)

    def get_broadcast_state(self, state_descriptor: d.MapStateDescriptor) -> BroadcastState:
        return BroadcastMap(self._states.broadcast_state(state_descriptor))


def checkpointed(functions: Iterable[object]) -> list[CheckpointedFunction]:
    """The functions of an operator that keep state of the subtask."""
    return [function for function in objects_of(functions) if isinstance(function, CheckpointedFunction)]


def initialize(functions: Sequence[CheckpointedFunction], context: OperatorContext, goes_on_from: int | None) -> None:
    """Gives the functions of an operator their state; the arguments are those of their context."""
    with UserCodeGuard(context):
        for function in functions:
            function.initialize_state(FunctionInitializationContext(context, goes_on_from))


def snapshot(functions: Sequence[CheckpointedFunction], context: OperatorContext, epoch: int, now: int) -> None:
    """Has the functions of an operator put what they hold into state, at the end of an epoch."""
    with UserCodeGuard(context):
        for function in functions:
            function.snapshot_state(FunctionSnapshotContext(epoch, now))


def check_checkpointed(functions: Iterable[object]) -> None:
    """Refuse functions that look like a ``CheckpointedFunction`` and are none: their methods would never be called.

    Raises:
        InvalidProgramError: naming the class and the method.
        InvalidTypeError: when a method takes something else than a context.
    """
    for function in objects_of(functions):
        for method in _METHODS:
            found = getattr(type(function), method, None)
            if found is not None and not isinstance(function, CheckpointedFunction):
                raise refused(
                    f"{type(function).__name__} has {method}, which is called of a CheckpointedFunction alone: extend "
                    "that as well"
                )
            if inspect.iscoroutinefunction(found):
                raise refused(
                    f"{method} of {type(function).__name__} is called and not awaited: write def instead of async def"
                )
            if found is not None:
                check_call(getattr(function, method), method, "context")


def _without_keys(context: OperatorContext) -> StatesWithoutKeys:
    return context.state.operator_state_store
