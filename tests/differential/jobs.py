"""Jobs that must give the same on every runtime: functions from an environment to named streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.output_tag import OutputTag
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import avg, count, first, last, max, min, sum
from headrace.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from headrace.expressions import col, concat, when
from headrace.time.watermark_strategy import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from headrace.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from headrace.windowing.evictors import CountEvictor
from headrace.windowing.session_assigners import EventTimeSessionWindows
from headrace.windowing.triggers import ContinuousEventTimeTrigger
from tests.differential.events import EVENT, RESULT, Event, Streams, events
from tests.differential.jobs_of_patterns import patterns
from tests.differential.jobs_of_two_streams import joins, two_streams

LATE = OutputTag("late", EVENT)
SMALL = OutputTag("small", Types.TUPLE([Types.STRING(), Types.LONG()]))


@dataclass(frozen=True)
class Trade:
    symbol: str
    price: float
    time: int


@dataclass(frozen=True, order=True)
class Account:
    bank: str
    number: int


class Basket:
    """A class without types: its records travel as pickles."""

    def __init__(self, owner: str, items: list[int]) -> None:
        self.owner = owner
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Basket) and (self.owner, self.items) == (other.owner, other.items)

    def __hash__(self) -> int:
        return hash(self.owner)

    def __repr__(self) -> str:
        return f"Basket({self.owner!r}, {self.items!r})"


# --- without state ---------------------------------------------------------------------------------------------------


class Split(ProcessFunction):
    def process_element(self, value: Event, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value[3] < 20:
            yield SMALL, (value[0], value[1])
        else:
            yield value[0], "large", ctx.timestamp()


def stateless(env: StreamExecutionEnvironment) -> Streams:
    """Chains of functions of one record, a side output, a sink at the source."""
    stream = events(env)
    split = stream.process(Split(), RESULT)
    words = stream.flat_map(lambda event: [event[0]] * (event[1] % 3), Types.STRING()).filter(lambda word: "7" in word)
    return {"all": stream, "large": split, "small": split.get_side_output(SMALL), "words": words}


def over_batches(env: StreamExecutionEnvironment) -> Streams:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = batch.filter(pc.greater(batch.column(3), 50.0))
        columns = [kept.column(0), pc.multiply(kept.column(1), 2)]
        return pa.RecordBatch.from_arrays(columns, names=["f0", "f1"])

    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    stream = events(env).map_batches(doubled, pair)
    return {"pairs": stream, "sums": stream.key_by("f0").sum("f1")}


def expressions(env: StreamExecutionEnvironment) -> Streams:
    """Filters, rows, keys, aggregates and times that are computed column by column."""
    times = WatermarkStrategy.for_bounded_out_of_orderness(100).with_timestamp_assigner(col("f2") // 2 * 2)
    stream = events(env).assign_timestamps_and_watermarks(times).filter((col("f1") % 3 != 0) & (col("f3") > 5))
    keyed = stream.key_by(concat(col("f0"), "-", (col("f1") % 5).cast(str)).alias("group"))
    size = when(col("f3") >= 50).then("large").otherwise(col("f0").upper())
    return {
        "rows": stream.select("f0", (col("f3") * 2 + col("f1")).alias("n"), size.alias("size")),
        "values": stream.map(col("f3") / col("f1")),
        "keys": stream.key_by(col("f0"), col("f1") % 3).process(Numbered(), RESULT),
        "windows": keyed.window(TumblingEventTimeWindows.of(200)).aggregate(
            count(), sum(col("f3") * col("f1")).alias("product"), first((col("f1") + 1).alias("next"))
        ),
        "partials": keyed.window(SlidingEventTimeWindows.of(200, 100)).aggregate(max((-col("f1")).alias("least"))),
    }


# --- keys of all kinds -----------------------------------------------------------------------------------------------


class Numbered(KeyedProcessFunction):
    """The records of each key with their number."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number = (self.seen.value() or 0) + 1
        self.seen.update(number)
        yield repr(ctx.get_current_key()), value[0], number


def keys(env: StreamExecutionEnvironment) -> Streams:
    """Text, numbers, bytes, tuples, records of a dataclass and objects without a type as keys."""
    stream = events(env)
    chosen = {
        "text": stream.key_by("f0"),
        "number": stream.key_by(lambda event: event[1] % 17, Types.LONG()),
        "bytes": stream.key_by(lambda event: event[0].encode(), Types.BYTES()),
        "tuple": stream.key_by(lambda event: (event[0], event[1] % 3), Types.TUPLE([Types.STRING(), Types.LONG()])),
        "record": stream.key_by(lambda event: Account(event[0], event[1] % 2), Account),
        "pickled": stream.key_by(lambda event: (event[0], None)),
        "boolean": stream.key_by(lambda event: event[1] % 2 == 0, Types.BOOLEAN()),
    }
    return {name: keyed.process(Numbered(), RESULT) for name, keyed in chosen.items()}


def pickled_records(env: StreamExecutionEnvironment) -> Streams:
    baskets = events(env).map(lambda event: Basket(event[0], [event[1]]))
    merged = baskets.key_by(lambda basket: basket.owner).reduce(
        lambda one, other: Basket(one.owner, [*one.items, *other.items][-5:])
    )
    return {"baskets": baskets, "merged": merged}


def dataclass_records(env: StreamExecutionEnvironment) -> Streams:
    trades = events(env).map(lambda event: Trade(event[0], event[3], event[2]), Trade)
    return {"best": trades.key_by("symbol").max_by("price"), "lowest": trades.key_by(lambda t: t.symbol).min("price")}


# --- state and timers ------------------------------------------------------------------------------------------------


class Sessions(KeyedProcessFunction):
    """Lists, maps, values and timers of both kinds of use: set again and again, and taken back."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.open_since = runtime_context.get_state(ValueStateDescriptor("open since", Types.LONG()))
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.digits = runtime_context.get_map_state(MapStateDescriptor("digits", Types.LONG(), Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        before = self.open_since.value()
        if before is not None:
            ctx.timer_service().delete_event_time_timer(before + 400)
        self.open_since.update(value[2])
        ctx.timer_service().register_event_time_timer(value[2] + 400)
        self.numbers.add(value[1])
        self.digits.put(value[1] % 10, (self.digits.get(value[1] % 10) or 0) + 1)
        if value[3] < 5:
            yield SMALL, (value[0], value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        numbers, digits = list(self.numbers.get()), sorted(self.digits.items())
        self.numbers.clear()
        self.digits.clear()
        self.open_since.clear()
        yield ctx.get_current_key(), f"{numbers} {digits}", timestamp


def sessions(env: StreamExecutionEnvironment) -> Streams:
    found = events(env).key_by("f0").process(Sessions(), RESULT).uid("sessions")
    return {"sessions": found, "small": found.get_side_output(SMALL)}


def rolling(env: StreamExecutionEnvironment) -> Streams:
    keyed = events(env).key_by("f0")
    return {name: getattr(keyed, name)("f3") for name in ("sum", "min", "max", "min_by", "max_by")}


# --- windows ---------------------------------------------------------------------------------------------------------


def columnar_windows(env: StreamExecutionEnvironment) -> Streams:
    stream = events(env)
    tumbling = stream.key_by("f0").window(TumblingEventTimeWindows.of(500))
    sliding = stream.key_by("f0").window(SlidingEventTimeWindows.of(900, 300)).allowed_lateness(60)
    late = sliding.side_output_late_data(LATE).aggregate(count(), first("f1"), last("f1"))
    visits = stream.key_by("f0").window(EventTimeSessionWindows.with_gap(40)).side_output_late_data(LATE)
    visited = visits.aggregate(count(), first("f1"), sum("f1").alias("total"), max("f3"))
    return {
        "tumbling": tumbling.aggregate(count(), sum("f1").alias("total"), min("f3"), max("f3"), avg("f3")),
        "sliding": late,
        "late": late.get_side_output(LATE),
        "visits": visited,
        "late for visits": visited.get_side_output(LATE),
    }


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Event, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value[3], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Contents(ProcessWindowFunction):
    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Any]
    ) -> Iterator[tuple[str, str, int]]:
        yield key, f"{context.window().start}: {list(elements)}", context.window().end


def row_windows(env: StreamExecutionEnvironment) -> Streams:
    keyed = events(env).key_by("f0")
    contents = keyed.window(TumblingEventTimeWindows.of(700)).allowed_lateness(100).side_output_late_data(LATE)
    processed = contents.process(Contents(), RESULT)
    averages = keyed.window(SlidingEventTimeWindows.of(600, 400)).aggregate(Average(), Contents(), output_type=RESULT)
    reduced = keyed.window(TumblingEventTimeWindows.of(300)).reduce(max_of)
    return {"contents": processed, "late": processed.get_side_output(LATE), "averages": averages, "reduced": reduced}


class Closing(ProcessWindowFunction):
    """The amounts in a window of any kind, and why they are shown."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[Any], elements: Iterable[Event]
    ) -> Iterator[tuple[str, str, int]]:
        numbers = [event[1] for event in elements]
        yield key, f"{context.window()} {context.firing().value} {numbers}", len(numbers)


def any_windows(env: StreamExecutionEnvironment) -> Streams:
    """Windows for which the operator goes element by element."""
    stream = events(env, bound=20)
    keyed = stream.key_by(lambda event: event[0])
    sessions = keyed.window(EventTimeSessionWindows.with_gap(40)).allowed_lateness(30).side_output_late_data(LATE)
    shown = sessions.process(Closing(), RESULT).uid("sessions")
    early = keyed.window(TumblingEventTimeWindows.of(200)).trigger(ContinuousEventTimeTrigger.of(50))
    evicted = keyed.window(SlidingEventTimeWindows.of(200, 100)).evictor(CountEvictor.of(3))
    return {
        "sessions": shown,
        "late": shown.get_side_output(LATE),
        "early": early.process(Closing(), RESULT).uid("early"),
        "evicted": evicted.process(Closing(), RESULT).uid("evicted"),
        "counted": keyed.count_window(7, 3).process(Closing(), RESULT).uid("counted"),
        "of all": stream.window_all(TumblingEventTimeWindows.of(100)).reduce(max_of).uid("of all"),
    }


class EveryTenth(WatermarkGenerator):
    """A watermark at every tenth record, 50 ms behind the newest one."""

    def __init__(self) -> None:
        self.seen = 0
        self.newest = 0

    def on_event(self, event: Event, event_timestamp: int, output: WatermarkOutput) -> None:
        self.seen += 1
        self.newest = event_timestamp if event_timestamp > self.newest else self.newest
        if self.seen % 10 == 0:
            output.emit_watermark(self.newest - 50)


class Watermarks(KeyedProcessFunction):
    """Each record's number with the watermark that it meets."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value[0], str(value[1]), ctx.timer_service().current_watermark()


def generators(env: StreamExecutionEnvironment) -> Streams:
    strategy = WatermarkStrategy.for_generator(EveryTenth).with_watermark_alignment("all", 1000)
    timed = events(env).assign_timestamps_and_watermarks(strategy)
    return {"told": timed.key_by("f0").process(Watermarks(), RESULT).uid("told")}


def max_of(one: Event, other: Event) -> Event:
    return other if other[3] > one[3] else one


# --- shapes ----------------------------------------------------------------------------------------------------------


def unions(env: StreamExecutionEnvironment) -> Streams:
    """Of two sources, of a stream with itself, and of streams of different depth."""
    one, two = events(env, 1, spread=90), events(env, 2, spread=90)
    deeper = two.key_by("f0").process(Same(), EVENT)
    union = one.union(two.filter(lambda event: event[1] % 2 == 0), deeper, one)
    windows = union.key_by("f0").window(TumblingEventTimeWindows.of(1000)).aggregate(count(), sum("f1").alias("total"))
    return {"union": union, "windows": windows}


def branches(env: StreamExecutionEnvironment) -> Streams:
    """A stream with a part of itself that has watermarks of its own; some records are late in one, some in both."""
    stream = events(env)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(200)
    own = stream.filter(lambda event: event[1] % 3 > 0).assign_timestamps_and_watermarks(strategy)
    keyed = stream.union(own).key_by("f0")
    windows = keyed.window(TumblingEventTimeWindows.of(500))
    counted = windows.side_output_late_data(LATE).aggregate(count(), sum("f1").alias("total"))
    summed_early = windows.aggregate(count(), sum("f1").alias("total"))
    late = counted.get_side_output(LATE)
    return {"windows": counted, "late": late, "summed early": summed_early, "rolling": keyed.sum("f1")}


class Same(KeyedProcessFunction):
    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[Event]:
        yield value


def partitions(env: StreamExecutionEnvironment) -> Streams:
    """All records of a key together, and those of a subtask."""
    stream = events(env, spread=90)
    by_key = stream.key_by("f0").full_window_partition()
    return {
        "sorted": by_key.sort_partition(1),
        "reduced": by_key.reduce(lambda one, other: one if one >= other else other),
        "subtasks": stream.full_window_partition().sort_partition("f1"),
    }


def three_shuffles(env: StreamExecutionEnvironment) -> Streams:
    """Sinks at every depth: the totals of windows of totals of numbered records."""
    stream = events(env, spread=90)
    numbered = stream.key_by("f0").process(Numbered(), RESULT).uid("numbered")
    totals = (
        stream.key_by("f0")
        .window(TumblingEventTimeWindows.of(500))
        .aggregate(count().alias("number"), sum("f1").alias("total"))
    )
    ends = totals.map(lambda row: (row[2], row[3], row[4]), Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]))
    of_totals = (
        ends.key_by("f0")
        .window(TumblingEventTimeWindows.of(1000))
        .aggregate(sum("f1").alias("number"), max("f2").alias("greatest"))
    )
    largest = of_totals.key_by(lambda row: 1, Types.INT()).max("number").map(lambda row: row[3], Types.LONG())
    return {"source": stream, "numbered": numbered, "totals": totals, "of totals": of_totals, "largest": largest}


def other_parallelism(env: StreamExecutionEnvironment) -> Streams:
    """Operators with numbers of subtasks of their own; records move between them."""
    stream = events(env)
    one = stream.map(lambda event: (event[0], "one", event[1]), RESULT).set_parallelism(1)
    four = stream.key_by("f0").process(Numbered(), RESULT).set_parallelism(4)
    two = stream.key_by("f0").sum("f1").set_parallelism(2)
    return {"one": one, "four": four, "two": two, "filtered": four.filter(lambda row: row[2] > 3).set_parallelism(2)}


def separate(env: StreamExecutionEnvironment) -> Streams:
    """Two jobs in one that have nothing to do with one another."""
    numbers = env.from_sequence(1, 1000).map(lambda n: (n % 7, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
    sums = numbers.key_by(lambda pair: pair[0], Types.LONG()).reduce(lambda one, other: (one[0], one[1] + other[1]))
    return {"numbers": sums, **sessions(env)}


JOBS = {
    job.__name__: job
    for job in (
        stateless,
        over_batches,
        expressions,
        keys,
        pickled_records,
        dataclass_records,
        sessions,
        rolling,
        columnar_windows,
        row_windows,
        any_windows,
        generators,
        unions,
        branches,
        three_shuffles,
        other_parallelism,
        joins,
        separate,
        two_streams,
        patterns,
    )
}
BATCH_JOBS = {
    job.__name__: job
    for job in (rolling, sessions, columnar_windows, pickled_records, three_shuffles, joins, partitions)
}

IN_ORDER = {
    "keys": {"text", "number", "bytes", "tuple", "record", "pickled", "boolean"},
    "expressions": {"keys"},
    "sessions": {"sessions", "small"},
    "generators": {"told"},
    "branches": {"rolling"},
    "rolling": {"sum", "min", "max", "min_by", "max_by"},
    "pickled_records": {"merged"},
    "dataclass_records": {"best", "lowest"},
    "patterns": {"matches", "timed out"},
    "three_shuffles": {"numbered"},
    "other_parallelism": {"two", "four"},
    "separate": {"numbers", "sessions", "small"},
}
"""The streams whose records have, for each key, a defined order; the key can be told from the record."""
