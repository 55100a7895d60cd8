"""Functions over records of one stream, and over their windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable
from typing import Any, Generic

from headrace.common.output_tag import ToSideOutput
from headrace.common.type_variables import ACC, K_co, K_contra, OUT_co, T, T_contra, W_co, W_contra
from headrace.datastream.time_domain import TimeDomain
from headrace.operators.functions import RuntimeContext, does_nothing
from headrace.operators.timer_service import TimerService
from headrace.state.interfaces import KeyedStateStore
from headrace.windowing.trigger import Firing


class Function(ABC):  # noqa: B024 - there is nothing that every function must have
    """The root of all functions.

    What ``__init__`` sets travels with the function, so it has to be picklable; connections, models and state are for
    ``open``. Attributes that change while records are processed are not state: after a failure they are gone.

    Examples:
        >>> from headrace.datastream import MapFunction, StreamExecutionEnvironment
        >>> class Price(MapFunction):
        ...     def open(self, runtime_context):  # once for each parallel instance
        ...         self.prices = {"tea": 2.5, "cake": 4.0}
        ...     def map(self, value):
        ...         return self.prices[value]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["cake", "tea"]).map(Price(), output_type=float).execute_and_collect(limit=10)
        [4.0, 2.5]
    """

    @does_nothing
    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once for each parallel instance before any record; the place to get state."""

    def close(self) -> None:
        """Called once for each parallel instance at the end of its life."""


class MapFunction(Function, Generic[T_contra, OUT_co]):
    """Makes one record of each record.

    Examples:
        >>> from headrace.datastream import MapFunction, StreamExecutionEnvironment
        >>> class Length(MapFunction):
        ...     def map(self, value: str) -> int:
        ...         return len(value)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to", "be", "or"]).map(Length()).execute_and_collect(limit=10)
        [2, 2, 2]
    """

    @abstractmethod
    def map(self, value: T_contra) -> OUT_co:
        """The record that ``value`` becomes."""


class FlatMapFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of each record.

    Examples:
        >>> from collections.abc import Iterator
        >>> from headrace.datastream import FlatMapFunction, StreamExecutionEnvironment
        >>> class Words(FlatMapFunction):
        ...     def flat_map(self, value: str) -> Iterator[str]:
        ...         yield from value.split()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to be", "or"]).flat_map(Words()).execute_and_collect(limit=10)
        ['to', 'be', 'or']
    """

    @abstractmethod
    def flat_map(self, value: T_contra) -> Iterable[OUT_co] | None:
        """Yields the records that ``value`` becomes, or returns something to iterate over."""


class FilterFunction(Function, Generic[T_contra]):
    """Keeps some of the records.

    Examples:
        >>> from headrace.datastream import FilterFunction, StreamExecutionEnvironment
        >>> class Short(FilterFunction):
        ...     def filter(self, value):
        ...         return len(value) < 3
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to", "question"]).filter(Short()).execute_and_collect(limit=10)
        ['to']
    """

    @abstractmethod
    def filter(self, value: T_contra) -> bool:
        """Return whether ``value`` is kept. The record must not be changed."""


class ReduceFunction(Function, Generic[T]):
    """Combines two records into one of the same type.

    Examples:
        >>> from headrace.datastream import ReduceFunction, StreamExecutionEnvironment
        >>> class Longest(ReduceFunction):
        ...     def reduce(self, value1, value2):
        ...         return max(value1, value2, key=len)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> words = env.from_collection(["to", "tea", "be", "toast"]).key_by(lambda word: word[0])
        >>> words.reduce(Longest()).execute_and_collect(limit=10)
        ['to', 'tea', 'be', 'toast']
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Combine ``value1``, which is what was combined so far, and the next record."""


class AggregateFunction(Function, Generic[T_contra, ACC, OUT_co]):
    """Folds records into an accumulator and makes a result of that; all three may be of different types.

    Examples:
        >>> from headrace.datastream import AggregateFunction
        >>> class Mean(AggregateFunction):
        ...     def create_accumulator(self) -> tuple[float, int]:
        ...         return 0.0, 0
        ...     def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        ...         return accumulator[0] + value, accumulator[1] + 1
        ...     def get_result(self, accumulator: tuple[float, int]) -> float:
        ...         return accumulator[0] / accumulator[1]
        ...     def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
        >>> mean = Mean()
        >>> mean.get_result(mean.add(4.0, mean.add(3.0, mean.create_accumulator())))
        3.5

        ``windows.aggregate(Mean())`` gives the mean of each window.
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """The accumulator of no records."""

    @abstractmethod
    def add(self, value: T_contra, accumulator: ACC) -> ACC:
        """The accumulator with one more record; it may be changed in place and returned."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT_co:
        """The result of everything that was added."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Two accumulators made one; only windows that merge (sessions) ask for it."""


class KeySelector(Function, Generic[T_contra, K_co]):
    """Takes the key from a record; the same record must always give the same key.

    Examples:
        >>> from headrace.datastream import KeySelector, StreamExecutionEnvironment
        >>> class Initial(KeySelector):
        ...     def get_key(self, value: str) -> str:
        ...         return value[0]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["tea", "toast"]).key_by(Initial()).max(0).execute_and_collect(limit=10)
        ['tea', 'toast']
    """

    @abstractmethod
    def get_key(self, value: T_contra) -> K_co:
        """The key of ``value``; it has to be hashable."""


class Partitioner(Function, Generic[K_contra]):
    """Says which subtask gets a record, by its key.

    Examples:
        >>> from headrace.datastream import Partitioner, StreamExecutionEnvironment
        >>> class ByParity(Partitioner):
        ...     def partition(self, key: int, num_partitions: int) -> int:
        ...         return key % 2 % num_partitions
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> spread = env.from_collection([1, 2, 3]).partition_custom(ByParity(), lambda number: number)
        >>> sorted(spread.map(lambda number: number, output_type=int).execute_and_collect(limit=10))
        [1, 2, 3]
    """

    @abstractmethod
    def partition(self, key: K_contra, num_partitions: int) -> int:
        """The number of the subtask, from 0 to ``num_partitions - 1``. The same key must always give the same."""


class ProcessFunction(Function, Generic[T_contra, OUT_co]):
    """Works on records one by one, and sees their timestamps and the time.

    On a keyed stream it has state and timers as a :class:`KeyedProcessFunction` has.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import ProcessFunction, StreamExecutionEnvironment
        >>> class Dated(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield f"{value} at {ctx.timestamp()}"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value * 1000)
        >>> numbers = env.from_collection([1, 2]).assign_timestamps_and_watermarks(times)
        >>> numbers.process(Dated(), output_type=str).execute_and_collect(limit=10)
        ['1 at 1000', '2 at 2000']
    """

    class Context(ABC):
        """Tells a function about the record; only valid during the call."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Tells the time; on a keyed stream it also sets timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds since the epoch; None when it has none."""

    @abstractmethod
    def process_element(self, value: T_contra, ctx: ProcessFunction.Context) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires; only keyed streams have timers."""


class KeyedProcessFunction(Function, Generic[K_contra, T_contra, OUT_co]):
    """Works on the records of a keyed stream one by one, with state and timers for each key.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream import KeyedProcessFunction
        >>> from headrace.datastream.state import ValueStateDescriptor
        >>> from headrace.testing import JobHarness
        >>> class Silence(KeyedProcessFunction):
        ...     "Tells of a sensor that has sent nothing for a minute."
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        ...     def process_element(self, value, ctx):
        ...         self.last.update(ctx.timestamp())
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         if timestamp == self.last.value() + 60_000:
        ...             yield f"{ctx.get_current_key()} is silent since {self.last.value()}"
        >>> def job(harness):
        ...     sensors = harness.add_source("sensors", str).key_by(lambda sensor: sensor)
        ...     harness.add_sink("alerts", sensors.process(Silence(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push("sensors", "a", timestamp=0)
        ...     harness.push("sensors", "a", timestamp=30_000)
        ...     harness.advance_watermark("sensors", 100_000)
        ...     harness.run_epoch()
        ...     print(harness.results("alerts"))
        ['a is silent since 30000']
    """

    class Context(ProcessFunction.Context, Generic[K_co]):
        """Tells a function about the record; only valid during the call."""

        @abstractmethod
        def get_current_key(self) -> K_co:
            """The key of the record or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Tells the time, and sets and deletes timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The event time of the record, or the time of the timer, in milliseconds; None when there is none."""

    class OnTimerContext(Context[K_co]):
        """Tells ``on_timer`` about the timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return whether the timer is one of event time or of processing time."""

    @abstractmethod
    def process_element(
        self, value: T_contra, ctx: KeyedProcessFunction.Context[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called for each record.

        ``yield value`` emits a record, ``yield tag, value`` emits one to the side output of an ``OutputTag``.
        """

    @does_nothing
    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[K_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a timer fires, once for each key, time and time domain; emits as ``process_element`` does.

        Args:
            timestamp: the time that the timer was set for, in milliseconds.
            ctx: the key, the time, and timers to set.
        """


class _Awaited(Function):
    """The root of functions that are awaited: their ``open`` and ``close`` may be awaited, too."""

    @does_nothing
    def open(self, runtime_context: RuntimeContext) -> Awaitable[None] | None:  # type: ignore[override]
        """Called once for each parallel instance before any record; it may be ``async def``."""
        return None

    def close(self) -> Awaitable[None] | None:  # type: ignore[override]
        """Called once for each parallel instance at the end of its life; it may be ``async def``."""
        return None


class AsyncFunction(_Awaited, Generic[T_contra, OUT_co]):
    """Makes any number of records of each record, and may wait for them; used by :class:`AsyncDataStream`.

    All methods are called in the event loop of the operator, ``open`` and ``close`` as well: a client that needs a
    running loop may be made there, and they may be ``async def``, too. What blocks (``time.sleep``, a client that is
    not asynchronous) holds up all other requests; ``await asyncio.to_thread(...)`` does not, in up to 64 threads. Tasks
    that a function has started for itself are cancelled after ``close``, if they are still there.

    Examples:
        >>> import asyncio
        >>> from headrace.common import Time
        >>> from headrace.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
        >>> class Price(AsyncFunction):
        ...     async def async_invoke(self, value: str) -> list[float]:
        ...         await asyncio.sleep(0.001)  # a service would be called here
        ...         return [{"tea": 2.5, "cake": 4.0}[value]]
        ...     def timeout(self, value: str) -> list[float]:
        ...         return [-1.0]
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> orders = env.from_collection(["cake", "tea"])
        >>> AsyncDataStream.unordered_wait(orders, Price(), Time.seconds(5)).execute_and_collect(limit=10)
        [4.0, 2.5]
    """

    @abstractmethod
    async def async_invoke(self, value: T_contra) -> Iterable[OUT_co]:
        """The records that ``value`` becomes, as a list; an exception fails the job unless there is a retry."""

    def timeout(self, value: T_contra) -> Iterable[OUT_co] | Awaitable[Iterable[OUT_co]]:
        """Return the same for a record whose time is over, with all its attempts; as it is, it raises ``TimeoutError``.

        It may be ``async def``, and has the same time again.
        """
        raise _out_of_time(f"timeout(value) was called for {value!r}", "timeout")


class AsyncBatchFunction(_Awaited, Generic[T_contra, OUT_co]):
    """Makes one record of each of several records, and may wait for them; used by :class:`AsyncDataStream`.

    What is said of :class:`AsyncFunction` holds for it as well.

    Examples:
        >>> from headrace.common import Time
        >>> from headrace.datastream import AsyncBatchFunction, AsyncDataStream, StreamExecutionEnvironment
        >>> class Score(AsyncBatchFunction):
        ...     async def async_invoke_batch(self, inputs: list[int]) -> list[int]:
        ...         return [value * len(inputs) for value in inputs]  # a model would be called here
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([1, 2, 3, 4, 5])
        >>> scores = AsyncDataStream.unordered_wait_batch(numbers, Score(), Time.seconds(5), batch_size=3)
        >>> scores.execute_and_collect(limit=10)
        [3, 6, 9, 8, 10]
    """

    @abstractmethod
    async def async_invoke_batch(self, inputs: list[Any]) -> Iterable[OUT_co]:
        """A list with one result for each of the records, in their order."""

    def timeout_batch(self, inputs: list[Any]) -> Iterable[OUT_co] | Awaitable[Iterable[OUT_co]]:
        """Return the same for records whose time is over, with all attempts; as it is, it raises ``TimeoutError``.

        It may be ``async def``, and has the same time again.
        """
        raise _out_of_time(f"timeout_batch(inputs) was called for {len(inputs)} records", "timeout_batch")


def _out_of_time(called: str, method: str) -> TimeoutError:
    return TimeoutError(f"there is no result in time: {called}; override {method} to give results in their place")


class WindowFunction(Function, Generic[T_contra, OUT_co, K_contra, W_contra]):
    """Works on the contents of a window.

    Examples:
        >>> from headrace.datastream import WindowFunction
        >>> from headrace.datastream.window import TimeWindow
        >>> class Report(WindowFunction):
        ...     def apply(self, key, window, inputs):
        ...         yield f"{key} from {window.start} to {window.end}: {sorted(inputs)}"
        >>> list(Report().apply("a", TimeWindow(0, 60_000), [2, 1]))
        ['a from 0 to 60000: [1, 2]']

        ``windows.apply(Report(), output_type=str)`` gives a report for each window.
    """

    @abstractmethod
    def apply(
        self, key: K_contra, window: W_contra, inputs: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires; yields results, or returns something to iterate over."""


class ProcessWindowFunction(Function, Generic[T_contra, OUT_co, K_contra, W_contra]):
    """Works on the contents of a window, and sees the window, the time and state.

    Examples:
        >>> from headrace.datastream import ProcessWindowFunction
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> class Busy(ProcessWindowFunction):
        ...     def process(self, key, context, elements):
        ...         yield f"{key}: {len(list(elements))} until {context.window().end}"
        >>> def job(harness):
        ...     users = harness.add_source("clicks", str).key_by(lambda user: user)
        ...     busy = users.window(TumblingEventTimeWindows.of(60_000)).process(Busy(), output_type=str)
        ...     harness.add_sink("busy", busy)
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", ["ann", "ann", "bob"], [1_000, 2_000, 3_000])
        ...     harness.finish()
        ...     print(sorted(harness.results("busy")))
        ['ann: 2 until 60000', 'bob: 1 until 60000']
    """

    class Context(ABC, Generic[W_co]):
        """Tells a function about the window; only valid during the call."""

        @abstractmethod
        def window(self) -> W_co:
            """The window that fires."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock's reading in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time that has been reached, in milliseconds."""

        @abstractmethod
        def firing(self) -> Firing:
            """Return whether the window fires before, at, or for a late record after its end; not in PyFlink."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this key and this window; ``clear`` has to clear it.

            Windows that merge have none: declaring a state in it raises an ``InvalidProgramError``.
            """

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of this key, shared by all its windows; nothing clears it by itself."""

    @abstractmethod
    def process(
        self, key: K_contra, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window of a key fires; yields results, or returns something to iterate over."""

    @does_nothing
    def clear(self, context: ProcessWindowFunction.Context[W_contra]) -> None:
        """Called when the window's contents are dropped for good; clears what ``window_state()`` holds."""


class MapPartitionFunction(Function, Generic[T_contra, OUT_co]):
    """Makes any number of records of all records of a partition, when the input has ended; not in PyFlink.

    Examples:
        >>> from headrace.datastream import MapPartitionFunction
        >>> class Median(MapPartitionFunction):
        ...     def map_partition(self, values):
        ...         in_order = sorted(values)
        ...         yield in_order[len(in_order) // 2]
        >>> list(Median().map_partition([3, 1, 2]))
        [2]

        ``stream.full_window_partition().map_partition(Median(), output_type=int)`` gives that of each subtask.
    """

    @abstractmethod
    def map_partition(self, values: Iterable[T_contra]) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called once for each partition; yields results, or returns something to iterate over."""


class AllWindowFunction(Function, Generic[T_contra, OUT_co, W_contra]):
    """Works on the contents of a window of all records.

    Examples:
        >>> from headrace.datastream import AllWindowFunction
        >>> from headrace.datastream.window import TimeWindow
        >>> class Report(AllWindowFunction):
        ...     def apply(self, window, inputs):
        ...         yield f"until {window.end}: {sorted(inputs)}"
        >>> list(Report().apply(TimeWindow(0, 60_000), [2, 1]))
        ['until 60000: [1, 2]']

        ``stream.window_all(...).apply(Report(), output_type=str)`` gives a report for each window.
    """

    @abstractmethod
    def apply(self, window: W_contra, inputs: Iterable[T_contra]) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window fires; yields results, or returns something to iterate over."""


class ProcessAllWindowFunction(Function, Generic[T_contra, OUT_co, W_contra]):
    """Works on the contents of a window of all records, and sees the window and state.

    Examples:
        >>> from headrace.datastream import ProcessAllWindowFunction
        >>> from headrace.datastream.window import TumblingEventTimeWindows
        >>> from headrace.testing import JobHarness
        >>> class Busy(ProcessAllWindowFunction):
        ...     def process(self, context, elements):
        ...         yield f"{len(list(elements))} until {context.window().end}"
        >>> def job(harness):
        ...     windows = harness.add_source("clicks", str).window_all(TumblingEventTimeWindows.of(60_000))
        ...     harness.add_sink("busy", windows.process(Busy(), output_type=str))
        >>> with JobHarness(job) as harness:
        ...     harness.push_all("clicks", ["ann", "ann", "bob"], [1_000, 2_000, 3_000])
        ...     harness.finish()
        ...     print(harness.results("busy"))
        ['3 until 60000']
    """

    Context = ProcessWindowFunction.Context
    """The context of a ``ProcessWindowFunction``; its state is that of all records."""

    @abstractmethod
    def process(
        self, context: ProcessWindowFunction.Context[W_contra], elements: Iterable[T_contra]
    ) -> Iterable[OUT_co | ToSideOutput] | None:
        """Called when a window fires; yields results, or returns something to iterate over."""

    @does_nothing
    def clear(self, context: ProcessWindowFunction.Context[W_contra]) -> None:
        """Called when the window's contents are dropped for good; clears what ``window_state()`` holds."""
