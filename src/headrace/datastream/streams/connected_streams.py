"""Two streams that one function works on: connected, or one of them broadcast."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, Self, overload

from headrace.common.arguments import warn_without_results
from headrace.common.errors import InvalidTypeError, expect, refused, shown
from headrace.common.type_variables import OUT, T2_co, T_co
from headrace.common.typeinfo import DeclaredType, TypeInformation
from headrace.datastream.functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from headrace.datastream.streams.adapters import co_flat_map, co_map
from headrace.datastream.streams.checks import check_has_event_time, check_methods, check_same_environment
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.keyed_stream import KeyedStream
from headrace.datastream.streams.keying import check_same_keys
from headrace.datastream.streams.misuse import (
    check_broadcast_use,
    check_has_no_timers,
    check_sets_no_timers,
    check_uses_no_keyed_state,
)
from headrace.datastream.streams.types import (
    Role,
    SupportsBroadcastProcess,
    SupportsCoFlatMap,
    SupportsCoMap,
    SupportsCoProcess,
    origin_of,
    result_type,
)
from headrace.graph.process_specs import (
    BroadcastProcessSpec,
    CoProcessSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
)
from headrace.graph.specs import OperatorSpec
from headrace.operators.functions import BROADCAST_INPUT, NO_TIMERS, TWO_INPUTS
from headrace.state.descriptors import MapStateDescriptor


class TwoInputs(Generic[T_co, T2_co]):
    """The root of two streams that one function works on.

    Args:
        first: the stream whose ``connect`` was called.
        second: the other one.
        second_name: what messages call it.
    """

    def __init__(self, first: DataStream[T_co], second: DataStream[T2_co], second_name: str = "second") -> None:
        check_same_environment(first.get_execution_environment(), second.get_execution_environment(), "connect")
        self._first = first
        self._second = second
        self._second_name = second_name
        self._in_order = False

    def _ordered(self) -> Self:
        for stream, which in ((self._first, "first"), (self._second, self._second_name)):
            check_has_event_time(stream._transformations.graph, stream._operator_ids(), which, "in_event_time_order()")
        ordered = copy(self)
        ordered._in_order = True
        return ordered


class ConnectedStreams(TwoInputs[T_co, T2_co], Generic[T_co, T2_co]):
    """Two streams after ``connect``; what becomes of their records, one function says, which has a method for each.

    Event time is the earlier one of both streams. Between records of the two there is no order that a function could
    rely on, unless :meth:`in_event_time_order` makes one. On streams that are both keyed, by keys of one type,
    functions have state and timers, and see those of the same key whichever stream a record comes by.

    Args:
        first: the stream whose ``connect`` was called.
        second: the other one.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import CoFlatMapFunction, StreamExecutionEnvironment
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> class Allowed(CoFlatMapFunction):
        ...     def open(self, runtime_context):
        ...         self.is_blocked = runtime_context.get_state(ValueStateDescriptor("blocked", Types.BOOLEAN()))
        ...     def flat_map1(self, blocked):
        ...         self.is_blocked.update(True)
        ...     def flat_map2(self, user):
        ...         if not self.is_blocked.value():
        ...             yield user
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> blocked, users = env.from_collection(["eve"]), env.from_collection(["ann", "eve"])
        >>> allowed = blocked.connect(users).key_by(lambda name: name, lambda name: name, str).flat_map(Allowed(), str)
        >>> allowed.execute_and_collect(limit=10)
        ['ann']
    """

    def get_first_input(self) -> DataStream[T_co]:
        """The first stream."""
        return self._first

    def get_second_input(self) -> DataStream[T2_co]:
        """The second stream."""
        return self._second

    def get_type1(self) -> TypeInformation[T_co]:
        """The type of the records of the first stream."""
        return self._first.get_type()

    def get_type2(self) -> TypeInformation[T2_co]:
        """The type of the records of the second stream."""
        return self._second.get_type()

    def get_execution_environment(self) -> Any:
        """The environment that both streams belong to."""
        return self._first.get_execution_environment()

    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: DeclaredType | None = None
    ) -> "ConnectedStreams[T_co, T2_co]":
        """Keys both streams, so that records with the same key meet.

        Args:
            key_selector1: how records of the first stream are keyed: as for ``DataStream.key_by``.
            key_selector2: the same for the second stream.
            key_type: the type of the keys of both; found out for each when left out.

        Raises:
            InvalidTypeError: as ``DataStream.key_by``, and when the keys of both are of different types.
            InvalidProgramError: behind :meth:`in_event_time_order`.
        """
        if self._in_order:
            raise refused("call key_by(...) before in_event_time_order()")
        first = self._first._without_keys().key_by(key_selector1, key_type=key_type)
        second = self._second._without_keys().key_by(key_selector2, key_type=key_type)
        keyed = ConnectedStreams(first, second)
        keyed._check_keys()
        return keyed

    def in_event_time_order(self) -> "ConnectedStreams[T_co, T2_co]":
        """Has records of both streams wait until event time has come to them, and come sorted by their timestamps.

        So what a function sees does not depend on which records are read together: timers, too, fire between the
        records where their times are. Of records with one timestamp those of the first stream come first, and those of
        one stream and one key keep their order. Without keys a function sees those of its subtask in that order. A late
        record comes at once. Flink has no such method.

        Raises:
            InvalidProgramError: when one of both streams has no event time.

        Examples:
            >>> from headrace.common import Types
            >>> from headrace.datastream import KeyedCoProcessFunction
            >>> from headrace.datastream.state import ValueStateDescriptor
            >>> from headrace.testing import JobHarness
            >>> class Priced(KeyedCoProcessFunction):
            ...     def open(self, runtime_context):
            ...         self.price = runtime_context.get_state(ValueStateDescriptor("price", Types.LONG()))
            ...     def process_element1(self, price, ctx):
            ...         self.price.update(price[1])
            ...     def process_element2(self, order, ctx):
            ...         yield order[0], self.price.value()
            >>> def job(harness):
            ...     pair = Types.TUPLE([Types.STRING(), Types.LONG()])
            ...     prices, orders = (harness.add_source(name, pair).key_by(0) for name in ("prices", "orders"))
            ...     priced = prices.connect(orders).in_event_time_order().process(Priced(), output_type=pair)
            ...     harness.add_sink("priced", priced)
            >>> with JobHarness(job) as harness:
            ...     harness.push("orders", ("tea", 1), timestamp=5)  # read before its price
            ...     harness.run_epoch()
            ...     harness.push_all("prices", [("tea", 20), ("tea", 30)], [4, 6])
            ...     harness.finish()
            ...     print(harness.results("priced"))
            [('tea', 20)]
        """
        return self._ordered()

    @overload
    def map(self, func: SupportsCoMap[T_co, T2_co, OUT], output_type: None = None) -> DataStream[OUT]: ...
    @overload
    def map(self, func: SupportsCoMap[T_co, T2_co, Any], output_type: DeclaredType[OUT]) -> DataStream[OUT]: ...
    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """Makes one record of each record, or none where the function returns None.

        Args:
            func: a ``CoMapFunction``; on keyed streams its ``open`` may ask for state.
            output_type: the type of the new records; taken from the annotations of both methods when left out.

        Raises:
            InvalidProgramError: when it requests state of keys, and not both streams are keyed.
            InvalidTypeError: when it is no such function, or the keys of both streams are of different types.
        """
        check_methods(func, CoMapFunction, "map1", "map2")
        warn_without_results(func, "map1", "map2")
        found = result_type(output_type, func, Role.ONE)
        return self._transform(co_map(func), "Co-Map", found, output_type, sees_time=False)

    @overload
    def flat_map(self, func: SupportsCoFlatMap[T_co, T2_co, OUT], output_type: None = None) -> DataStream[OUT]: ...
    @overload
    def flat_map(
        self, func: SupportsCoFlatMap[T_co, T2_co, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """Makes any number of records of each record.

        Args:
            func: a ``CoFlatMapFunction``; on keyed streams its ``open`` may ask for state.
            output_type: the type of the new records; taken from the annotations of both methods when left out.

        Raises:
            InvalidProgramError: as :meth:`map`.
            InvalidTypeError: as :meth:`map`.
        """
        check_methods(func, CoFlatMapFunction, "flat_map1", "flat_map2")
        warn_without_results(func, "flat_map1", "flat_map2")
        found = result_type(output_type, func, Role.MANY)
        return self._transform(co_flat_map(func), "Co-Flat-Map", found, output_type, sees_time=False)

    @overload
    def process(self, func: SupportsCoProcess[T_co, T2_co, OUT], output_type: None = None) -> DataStream[OUT]: ...
    @overload
    def process(self, func: SupportsCoProcess[T_co, T2_co, Any], output_type: DeclaredType[OUT]) -> DataStream[OUT]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """Applies a function that sees timestamps and the time, and may write to side outputs.

        Args:
            func: a ``CoProcessFunction``; on streams that are both keyed also a ``KeyedCoProcessFunction``, which has
                state and timers.
            output_type: the type of what it yields; taken from its annotations when left out.

        Raises:
            InvalidProgramError: when it has timers, requests state of keys or is for keyed streams, and not both are.
            InvalidTypeError: when it is no such function, or the keys of both streams are of different types.
        """
        if isinstance(func, BaseBroadcastProcessFunction):
            text = f"{type(func).__name__} is for a broadcast stream: connect(rules.broadcast(descriptor))"
            raise refused(text, InvalidTypeError)
        check_methods(func, KeyedCoProcessFunction if self._is_keyed else CoProcessFunction, *TWO_INPUTS)
        if not self._is_keyed:
            check_has_no_timers(func, TWO_INPUTS, self._how_to_key())
        warn_without_results(func, *TWO_INPUTS, "on_timer")
        name = "Co-Keyed-Process" if self._is_keyed else "Co-Process"
        return self._transform(func, name, result_type(output_type, func, Role.MANY), output_type)

    @property
    def _is_keyed(self) -> bool:
        return isinstance(self._first, KeyedStream) and isinstance(self._second, KeyedStream)

    def _how_to_key(self) -> str:
        keyed = [isinstance(stream, KeyedStream) for stream in (self._first, self._second)]
        if not any(keyed):
            return "call key_by(...) of the connected streams first"
        return f"the {'second' if keyed[0] else 'first'} stream has none, so call its key_by(...) before connect(...)"

    def _transform(
        self, function: object, name: str, found: TypeInformation, declared: object, *, sees_time: bool = True
    ) -> DataStream:
        spec: OperatorSpec
        if self._is_keyed:
            self._check_keys()
            spec = KeyedCoProcessSpec(function, found, in_event_time_order=self._in_order)
        else:
            spec = CoProcessSpec(function, found, sees_time or self._in_order, in_event_time_order=self._in_order)
            check_uses_no_keyed_state(spec, f"keyed state belongs to keys: {self._how_to_key()}")
        return self._first._apply(spec, name, self._second, origin=origin_of(declared))

    def _check_keys(self) -> None:
        first, second = self._first, self._second
        assert isinstance(first, KeyedStream)
        assert isinstance(second, KeyedStream)
        check_same_keys(first.get_key_type(), second.get_key_type(), "connect")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._second!r})"


class BroadcastStream(Generic[T_co]):
    """A stream that every subtask gets as a whole, and what may be kept of it; ``connect`` takes it.

    Args:
        stream: the stream.
        descriptors: those of the broadcast state, at least one.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        >>> env.from_collection([("tea", 3)]).broadcast(rules)
        BroadcastStream(rules)
    """

    def __init__(self, stream: DataStream[T_co], descriptors: Sequence[MapStateDescriptor]) -> None:
        names: set[str] = set()
        for descriptor in descriptors:
            expect(descriptor, MapStateDescriptor, "broadcast")
            if descriptor.name in names:
                raise refused(f"broadcast was given two descriptors of the name {descriptor.name!r}")
            if descriptor.ttl is not None:
                raise refused(
                    f"broadcast state has no time to live, since subtasks would not forget alike: {descriptor.name!r} "
                    "must not enable one"
                )
            names.add(descriptor.name)
        self._stream = stream
        self._descriptors = tuple(descriptors)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(descriptor.name for descriptor in self._descriptors)})"


class BroadcastConnectedStream(TwoInputs[T_co, T2_co], Generic[T_co, T2_co]):
    """A stream connected with one that is broadcast.

    Args:
        stream: the stream whose ``connect`` was called.
        broadcast: the other one.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
        >>> from headrace.datastream.state import MapStateDescriptor
        >>> PRICES = MapStateDescriptor("prices", Types.STRING(), Types.DOUBLE())
        >>> class Priced(BroadcastProcessFunction):
        ...     def process_broadcast_element(self, value, ctx):
        ...         ctx.get_broadcast_state(PRICES).put(*value)
        ...     def process_element(self, value, ctx):
        ...         yield value, ctx.get_broadcast_state(PRICES).get(value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> prices = env.from_collection([("tea", 2.5)]).broadcast(PRICES)
        >>> orders = env.from_collection(["tea"])
        >>> len(orders.connect(prices).process(Priced()).execute_and_collect(limit=10))
        1
    """

    def __init__(self, stream: DataStream[T_co], broadcast: BroadcastStream[T2_co]) -> None:
        super().__init__(stream, broadcast._stream, "broadcast")
        self._broadcast = broadcast

    def in_event_time_order(self) -> "BroadcastConnectedStream[T_co, T2_co]":
        """Has records of both streams wait until event time has come to them, and come sorted by their timestamps.

        So what is broadcast takes effect in event time, whichever records are read together, and timers fire between
        the records where their times are. Of records with one timestamp those that are broadcast come first. A late
        record comes at once. Flink has no such method.

        Raises:
            InvalidProgramError: when one of both streams has no event time.

        Examples:
            >>> from headrace.common import Types
            >>> from headrace.datastream import KeyedBroadcastProcessFunction
            >>> from headrace.datastream.state import MapStateDescriptor
            >>> from headrace.testing import JobHarness
            >>> RATES = MapStateDescriptor("rates", Types.STRING(), Types.LONG())
            >>> class InEuros(KeyedBroadcastProcessFunction):
            ...     def process_broadcast_element(self, rate, ctx):
            ...         ctx.get_broadcast_state(RATES).put(*rate)
            ...     def process_element(self, payment, ctx):
            ...         yield payment[0], payment[1] * ctx.get_broadcast_state(RATES).get(payment[0])
            >>> def job(harness):
            ...     pair = Types.TUPLE([Types.STRING(), Types.LONG()])
            ...     payments, rates = harness.add_source("payments", pair).key_by(0), harness.add_source("rates", pair)
            ...     connected = payments.connect(rates.broadcast(RATES)).in_event_time_order()
            ...     harness.add_sink("euros", connected.process(InEuros(), output_type=pair))
            >>> with JobHarness(job) as harness:
            ...     harness.push("payments", ("GBP", 10), timestamp=5)  # read before its rate
            ...     harness.run_epoch()
            ...     harness.push_all("rates", [("GBP", 2), ("GBP", 3)], [4, 6])
            ...     harness.finish()
            ...     print(harness.results("euros"))
            [('GBP', 20)]
        """
        return self._ordered()

    @overload
    def process(
        self, func: SupportsBroadcastProcess[T_co, T2_co, OUT], output_type: None = None
    ) -> DataStream[OUT]: ...
    @overload
    def process(
        self, func: SupportsBroadcastProcess[T_co, T2_co, Any], output_type: DeclaredType[OUT]
    ) -> DataStream[OUT]: ...
    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """Applies a function to the records of both streams.

        Args:
            func: a ``KeyedBroadcastProcessFunction`` where the stream is keyed, else a ``BroadcastProcessFunction``.
            output_type: the type of what it yields; taken from its annotations when left out.

        Raises:
            InvalidTypeError: when it is no such function.
            InvalidProgramError: when its source shows that it misuses broadcast state, state of keys or timers.
        """
        is_keyed = isinstance(self._first, KeyedStream)
        kinds: tuple[type[Function], type[Function]] = (BroadcastProcessFunction, KeyedBroadcastProcessFunction)
        base, other = kinds[is_keyed], kinds[not is_keyed]
        if isinstance(func, other):
            hint = "the stream is keyed" if is_keyed else "the stream has no keys: call key_by(...) before connect(...)"
            raise refused(f"expected a {base.__name__}, got {shown(func)}: {hint}", InvalidTypeError)
        check_methods(func, base, *BROADCAST_INPUT)
        check_broadcast_use(func, self._broadcast._descriptors)
        if is_keyed:
            check_sets_no_timers(func, ("process_broadcast_element",), NO_TIMERS)
        else:
            check_has_no_timers(func, BROADCAST_INPUT, "call key_by(...) before connect(...)")
        warn_without_results(func, *BROADCAST_INPUT, "on_timer")
        make = KeyedBroadcastProcessSpec if is_keyed else BroadcastProcessSpec
        found = result_type(output_type, func, Role.MANY)
        spec = make(func, found, self._broadcast._descriptors, in_event_time_order=self._in_order)
        name = "Co-Keyed-Broadcast-Process" if is_keyed else "Co-Broadcast-Process"
        return self._first._apply(spec, name, self._second, origin=origin_of(output_type))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._first!r}, {self._broadcast!r})"
