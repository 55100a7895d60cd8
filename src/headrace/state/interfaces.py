"""The interfaces of keyed state for user code: PyFlink's states, and the store that gives them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic

from headrace.common.errors import InvalidProgramError
from headrace.common.type_variables import OUT, K, OUT_co, T, T_contra, V
from headrace.state import descriptors as d


class State(ABC):
    """State of the key that is being processed. It can only be used while a record or a timer of a key is handled.

    What is read from state belongs to the caller: changing it in place changes no state until it is written back.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> class Pairs(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        ...     def process_element(self, value, ctx):
        ...         self.seen.add(value)
        ...         if len(list(self.seen.get())) == 2:
        ...             yield "+".join(self.seen.get())
        ...             self.seen.clear()
        >>> def job(harness):
        ...     words = harness.add_source("words", str).key_by(len)
        ...     harness.add_sink("pairs", words.process(Pairs(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("words", ["tea", "be", "pie", "egg"])
        ...     harness.run_epoch()
        ...     print(harness.results("pairs"))
        ['tea+pie']
    """

    @abstractmethod
    def clear(self) -> None:
        """Removes everything that is held for the current key."""


class ValueState(State, Generic[T]):
    """One value per key.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import ValueState, ValueStateDescriptor
        >>> class Changes(KeyedProcessFunction):
        ...     last: ValueState[int]
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         if self.last.value() != value[1]:  # None for a new key
        ...             self.last.update(value[1])
        ...             yield value
    """

    @abstractmethod
    def value(self) -> T | None:
        """The value; None when there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replaces the value; None removes it."""


class AppendingState(State, Generic[T_contra, OUT_co]):
    """State that takes elements one by one.

    Examples:
        >>> from headrace.datastream.state import AppendingState, ListState, ReducingState
        >>> issubclass(ListState, AppendingState), issubclass(ReducingState, AppendingState)
        (True, True)
    """

    @abstractmethod
    def get(self) -> OUT_co:
        """The result for the elements so far."""

    @abstractmethod
    def add(self, value: T_contra) -> None:
        """Adds an element."""


class MergingState(AppendingState[T_contra, OUT_co]):
    """Appending state of which two can be made one.

    Examples:
        >>> from headrace.datastream.state import MergingState, ReducingState, ValueState
        >>> issubclass(ReducingState, MergingState), issubclass(ValueState, MergingState)
        (True, False)
    """


class ReducingState(MergingState[T, T | None]):
    """The elements, combined into one of their own type by a reduce function; None when there are none.

    As None stands for that, neither an element nor what the function returns can be None.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import ReducingStateDescriptor
        >>> class Largest(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         largest = ReducingStateDescriptor("largest", max, Types.LONG())
        ...         self.largest = runtime_context.get_reducing_state(largest)
        ...     def process_element(self, value, ctx):
        ...         self.largest.add(value[1])
        ...         yield value[0], self.largest.get()
    """


class AggregatingState(MergingState[T_contra, OUT_co | None]):
    """The elements, folded into an accumulator by an aggregate function; None when there are none.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import AggregateFunction, KeyedProcessFunction
        >>> from headrace.datastream.state import AggregatingStateDescriptor
        >>> class Distinct(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return []
        ...     def add(self, value, accumulator):
        ...         return accumulator if value in accumulator else [*accumulator, value]
        ...     def get_result(self, accumulator):
        ...         return len(accumulator)
        ...     def merge(self, acc_a, acc_b):
        ...         return list(dict.fromkeys([*acc_a, *acc_b]))
        >>> class Visitors(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         users = AggregatingStateDescriptor("users", Distinct(), Types.LIST(Types.STRING()))
        ...         self.users = runtime_context.get_aggregating_state(users)
        ...     def process_element(self, value, ctx):
        ...         self.users.add(value[1])
        ...         yield value[0], self.users.get()
    """


class ListState(MergingState[T, list[T]]):
    """A list of elements per key; None is not allowed as an element.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import ListStateDescriptor
        >>> class LastThree(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.DOUBLE()))
        ...     def process_element(self, value, ctx):
        ...         self.values.update([*self.values.get(), value[1]][-3:])
        ...         yield value[0], list(self.values.get())
    """

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replaces all elements.

        Raises:
            InvalidTypeError: when this is no list, tuple or the like, or an element is None or does not fit the type.
        """

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Adds several elements at the end; errors as of :meth:`update`, with which nothing is added."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadableMapState(State, Generic[K, V]):
    """The methods that read a state that is a dict, whether or not the caller may change it."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of an entry; None when there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether there is such an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries, as they are now, in the order of insertion: what changes while they are iterated is not seen."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys of all entries."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """The values of all entries."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class WritableMapState(ReadableMapState[K, V]):
    """The same where entries may be changed."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets the value of an entry.

        Raises:
            InvalidTypeError: when the key or the value does not fit its type.
        """

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Sets the values of several entries, one after the other; errors as of :meth:`put`."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes an entry, if there is one; errors as of :meth:`put`."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(WritableMapState[K, V]):
    """A dict per key, of which only the entries that change are written.

    It is iterated in the order of insertion, however the job's input was cut into epochs; with a time to live, entries
    that were put again may come later, as if they were new. A key that does not fit the declared type, ``1.0`` where
    keys are integers, is the key of no entry.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> class Shops(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         visits = MapStateDescriptor("visits", Types.STRING(), Types.LONG())
        ...         self.visits = runtime_context.get_map_state(visits)
        ...     def process_element(self, value, ctx):
        ...         card, shop = value
        ...         self.visits.put(shop, (self.visits.get(shop) or 0) + 1)
        ...         yield card, dict(self.visits.items())
    """

    @abstractmethod
    def items_between(self, low: int | None, high: int | None) -> Iterable[tuple[K, V]]:
        """The entries with keys from ``low`` up to, but not with, ``high``, as they are now; None is an open end.

        They are in ascending order of their keys. Of a large map only what belongs to them is read; so keys that are
        event times, say, find what lies in an interval of time. PyFlink has no such method.

        Raises:
            InvalidTypeError: when the keys are not declared as integers (``BYTE``, ``SHORT``, ``INT``, ``LONG``), or
                a bound is not one.
        """


class ReadOnlyBroadcastState(ReadableMapState[K, V]):
    """A dict that all subtasks of an operator have alike, as functions see it that must not change it.

    Examples:
        >>> from headrace.datastream.state import BroadcastState, ReadOnlyBroadcastState
        >>> hasattr(ReadOnlyBroadcastState, "put"), hasattr(BroadcastState, "put")
        (False, True)
    """


class BroadcastState(ReadOnlyBroadcastState[K, V], WritableMapState[K, V]):
    """The same where it may be changed: for records that all subtasks get. Each of them has to do the same to it.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import BroadcastProcessFunction
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> BLOCKED = MapStateDescriptor("blocked", Types.STRING(), Types.BOOLEAN())
        >>> class Unblocked(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, user, ctx):
        ...         ctx.get_broadcast_state(BLOCKED).put(user, True)
        ...     def process_element(self, user, ctx):
        ...         if user not in ctx.get_broadcast_state(BLOCKED):
        ...             yield user
    """


class OperatorStateStore(ABC):
    """Gives access to the state of a subtask, which belongs to no key; a ``CheckpointedFunction`` gets it.

    All methods raise an ``InvalidProgramError`` when they are given a descriptor of another kind or one with a time to
    live, and when the program declares a name twice, differently; and a ``StateMigrationError`` when something else is
    stored under the name.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import CheckpointedFunction, MapFunction
        >>> from headrace.datastream.state import ListStateDescriptor, OperatorStateStore
        >>> class Numbered(MapFunction, CheckpointedFunction):
        ...     def initialize_state(self, context):
        ...         store: OperatorStateStore = context.get_operator_state_store()
        ...         self.counts = store.get_list_state(ListStateDescriptor("counts", Types.LONG()))
        ...         self.count = sum(self.counts.get())
        ...     def map(self, value):
        ...         self.count += 1
        ...         return self.count, value
        ...     def snapshot_state(self, context):
        ...         self.counts.update([self.count])
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: d.ListStateDescriptor[T]) -> ListState[T]:
        """A list; after a start at another parallelism each subtask has an equal share of the elements of all."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: d.ListStateDescriptor[T]) -> ListState[T]:
        """A list; after a start each subtask has the elements of all, and keeps what it wants with ``update``."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: d.MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """A map, which all subtasks have to change alike."""


class KeyedStateStore(ABC):
    """Gives access to the state of the key, or of the key and window, that is being processed.

    All methods raise an ``InvalidProgramError`` when they are given a descriptor of another kind, when the operator is
    not on a keyed stream, and when the program declares a name twice, differently; and a ``StateMigrationError`` when
    something else is stored under the name.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> class Count(KeyedProcessFunction):
        ...     def open(self, runtime_context):  # the context is the store
        ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.count.update((self.count.value() or 0) + 1)
        ...         yield ctx.get_current_key(), self.count.value()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to", "be", "to"]).key_by(lambda word: word)
        >>> words.process(Count(), Types.TUPLE([str, int])).execute_and_collect(limit=10)
        [('to', 1), ('be', 1), ('to', 2)]
    """

    def get_state(self, state_descriptor: d.ValueStateDescriptor[T]) -> ValueState[T]:
        """One value for each key."""
        state: ValueState[T] = self._checked(state_descriptor, d.ValueStateDescriptor, "get_state")
        return state

    def get_list_state(self, state_descriptor: d.ListStateDescriptor[T]) -> ListState[T]:
        """A list for each key."""
        state: ListState[T] = self._checked(state_descriptor, d.ListStateDescriptor, "get_list_state")
        return state

    def get_map_state(self, state_descriptor: d.MapStateDescriptor[K, V]) -> MapState[K, V]:
        """A dict for each key."""
        state: MapState[K, V] = self._checked(state_descriptor, d.MapStateDescriptor, "get_map_state")
        return state

    def get_reducing_state(self, state_descriptor: d.ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Elements combined into one of their own type, for each key."""
        state: ReducingState[T] = self._checked(state_descriptor, d.ReducingStateDescriptor, "get_reducing_state")
        return state

    def get_aggregating_state(self, state_descriptor: d.AggregatingStateDescriptor[T, OUT]) -> AggregatingState[T, OUT]:
        """Elements folded into an accumulator, for each key."""
        expected = d.AggregatingStateDescriptor
        state: AggregatingState[T, OUT] = self._checked(state_descriptor, expected, "get_aggregating_state")
        return state

    @abstractmethod
    def _state(self, descriptor: d.StateDescriptor, method: str) -> Any:
        """The state of a descriptor; ``method`` is the method that the user has called."""

    def _checked(self, descriptor: object, expected: type[d.StateDescriptor], method: str) -> Any:
        if not isinstance(descriptor, expected):
            raise InvalidProgramError(f"{method}: expected a {expected.__name__}, got {descriptor!r}")
        return self._state(descriptor, method)
