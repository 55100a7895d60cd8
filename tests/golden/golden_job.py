"""A job with all kinds of state; ``python -m tests.golden.golden_job VERSION`` keeps what it leaves, for each backend.

Every release adds, for each backend, an archive of a checkpoint directory, one of a canonical savepoint, and one of a
native savepoint with the checkpoint directory that it refers to, and never changes those of earlier ones. In each is
what the job has published after it, had it never stopped (``expected.json``).

Everything in it has a declared type but the keys of ``by-anything``, which are pickles of numbers and text: pickles of
protocol 2 to 5 are the same for every version of Python.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, Time, Types, WatermarkStrategy
from headrace.common.serialization import Encoder
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.datastream import (
    AggregateFunction,
    CheckpointedFunction,
    DataStream,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import count, max, sum
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy, StreamFormat
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from headrace.jobmanager import compaction
from headrace.state.rocksdb.table import RocksDBSettings
from tests.savepoint.jobs import DEADLINE, wait_for_records, wait_until

BACKENDS: Final = ("hashmap", "rocksdb")
EVENT: Final = Types.ROW_NAMED(["key", "amount", "time"], [Types.STRING(), Types.LONG(), Types.LONG()])
FIRST: Final = {f"k{number}": [(number, 1_000 * number)] for number in range(7)}
SECOND: Final = {f"k{number}": [(10 + number, 12_000 + number)] for number in range(7)}
THIRD: Final = {f"k{number}": [(100 + number, 13_000 + number), (7, 31_000)] for number in range(3, 9)}
RULES: Final = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
LAST_TIMER: Final = 4_102_444_800_000
"""A timer of processing time that no test sees fire: 2100."""


class Average(AggregateFunction):
    """Of amounts; the accumulator is a count and a sum."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class EveryState(KeyedProcessFunction):
    """Keeps amounts in states of all kinds, and shows them when event time ends."""

    def open(self, context: Any) -> None:
        lasting = ValueStateDescriptor("lasting", EVENT)
        lasting.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36_500)).build())
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.value = context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.lasting = context.get_state(lasting)
        self.list = context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))
        self.most = context.get_reducing_state(ReducingStateDescriptor("most", _most, Types.LONG()))
        self.mean = context.get_aggregating_state(AggregatingStateDescriptor("mean", Average(), pair))

    def process_element(self, event: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.value.update((self.value.value() or 0) + event.amount)
        self.lasting.update(event)
        self.list.add(event.amount)
        self.map.put(f"m{event.amount}", event.time)
        self.most.add(event.amount)
        self.mean.add(event.amount)
        ctx.timer_service().register_event_time_timer(1_000_000)
        ctx.timer_service().register_processing_time_timer(LAST_TIMER)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        held = self.value.value(), tuple(self.lasting.value()), list(self.list.get()), sorted(self.map.items())
        yield f"states {ctx.get_current_key()} {held} {self.most.get()} {self.mean.get()} at {timestamp}"


def _most(one: int, other: int) -> int:
    return one if one > other else other


class Contents(ProcessWindowFunction):
    """All that is in a window, and how many windows of the key there were."""

    def process(self, key: str, context: Any, elements: Any) -> Iterator[str]:
        number = context.global_state().get_state(ValueStateDescriptor("windows", Types.LONG()))
        number.update((number.value() or 0) + 1)
        window = context.window()
        amounts = [event.amount for event in elements]
        yield f"contents {key} {amounts} of {window.start} to {window.end}, number {number.value()}"


class Both(ProcessJoinFunction):
    """Both amounts."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[str]:
        yield f"interval {left.key} {left.amount} {right.amount}"


class Ruled(KeyedBroadcastProcessFunction):
    """Shows the rules when event time ends, and what each key had of the amounts."""

    def open(self, context: Any) -> None:
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, event: Any, ctx: Any) -> None:
        self.total.update((self.total.value() or 0) + event.amount)
        ctx.timer_service().register_event_time_timer(2_000_000)

    def process_broadcast_element(self, rule: str, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(rule, len(rule))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        rules = sorted(ctx.get_broadcast_state(RULES).items())
        yield f"ruled {ctx.get_current_key()} {self.total.value()} {rules}"


class Ledger(FlatMapFunction, CheckpointedFunction):
    """Lists of a subtask, of both kinds."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.own = store.get_list_state(ListStateDescriptor("own", Types.LONG()))
        self.all = store.get_union_list_state(ListStateDescriptor("all", Types.LONG()))

    def flat_map(self, event: Any) -> Iterator[str]:
        self.own.add(event.amount)
        self.all.add(event.time)
        if event.amount == 7:
            yield f"ledger {sorted(self.own.get())} {sorted(self.all.get())}"

    def snapshot_state(self, context: Any) -> None:
        """Everything is in state already."""


class EventTime(TimestampAssigner):
    """That of the record."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.time)


def start(folder: Path, parallelism: int, backend: str, settings: dict[str, str] | None = None) -> JobClient:
    """Start the job; what it reads, publishes and keeps is below a folder."""
    known = {
        "headrace.runtime": "local",
        "parallelism.default": str(parallelism),
        "state.backend.type": backend,
        "execution.checkpointing.dir": str(folder / "job"),
        "execution.checkpointing.data-inline-threshold": "4 kb",
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(known | (settings or {})))
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    lines = _lines(env, folder, "events").map(_parsed, EVENT).uid("parsed")
    events = lines.assign_timestamps_and_watermarks(times).uid("times")
    first, *others = _results(events, _lines(env, folder, "rules"))
    sink = (
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )
    first.union(*others).sink_to(sink).uid("out")
    return env.execute_async("golden")


def _lines(env: StreamExecutionEnvironment, folder: Path, name: str) -> DataStream:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(place))
    watched = source.monitor_continuously(Duration.of_millis(20)).build()
    return env.from_source(watched, WatermarkStrategy.no_watermarks(), name).uid(name)


def _parsed(line: str) -> tuple[str, int, int]:
    key, amount, time = line.split(",")
    return key, int(amount), int(time)


def _results(events: DataStream, rules: DataStream) -> list[DataStream]:
    keyed = events.key_by("key")
    anything = events.key_by(lambda event: (event.key, event.amount % 2, 0.5), Types.PICKLED_BYTE_ARRAY())
    tumbling = TumblingEventTimeWindows.of(Time.seconds(10))
    sliding = SlidingEventTimeWindows.of(Time.seconds(20), Time.seconds(5))
    sessions = EventTimeSessionWindows.with_gap(Time.seconds(15))
    numbers = (count(), sum("amount"), max("amount"))
    joined = events.join(events, "outer").where("key").equal_to("key").window(tumbling)
    return [
        keyed.process(EveryState(), Types.STRING()).uid("states"),
        _shown("tumbling", keyed.window(tumbling).aggregate(*numbers).uid("tumbling")),
        _shown("sliding", keyed.window(sliding).aggregate(*numbers).uid("sliding")),
        _shown("session", keyed.window(sessions).aggregate(*numbers).uid("sessions")),
        _shown("count", keyed.count_window(3).aggregate(*numbers).uid("counts")),
        _shown("reduced", keyed.window(tumbling).trigger(CountTrigger.of(2)).reduce(_added).uid("reduced")),
        keyed.window(tumbling).process(Contents(), Types.STRING()).uid("contents"),
        keyed.window(sessions).process(Contents(), Types.STRING()).uid("session-contents"),
        _shown("rolling", keyed.sum("amount").uid("rolling")),
        _shown("anything", anything.reduce(_added).uid("by-anything")),
        keyed.interval_join(keyed).between(-5_000, 5_000).process(Both(), Types.STRING()).uid("interval"),
        joined.apply(lambda one, other: f"joined {tuple(one)} {tuple(other)}", Types.STRING()).uid("joined"),
        keyed.connect(rules.broadcast(RULES)).process(Ruled(), Types.STRING()).uid("ruled"),
        events.flat_map(Ledger(), Types.STRING()).uid("ledger").set_parallelism(1),
    ]


def _added(one: Any, other: Any) -> Any:
    return one.key, one.amount + other.amount, other.time


def _shown(name: str, records: DataStream) -> DataStream:
    return records.map(lambda record: f"{name} {tuple(record)}", Types.STRING()).uid(f"{name}-shown")


def write(folder: Path, name: str, events: dict[str, list[tuple[int, int]]]) -> int:
    """One more file of events, in the order of time, and one of a rule; returns how many records that is."""
    rows = sorted((time, key, amount) for key, pairs in events.items() for amount, time in pairs)
    for kind, text in {
        "events": "".join(f"{key},{amount},{time}\n" for time, key, amount in rows),
        "rules": f"rule-{name}\n",
    }.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / name).write_text(text)
    return len(rows) + 1


def published(folder: Path) -> Counter[str]:
    """The lines that a job has published."""
    files = (path for path in (folder / "out").rglob("part-*") if not path.name.startswith("."))
    return Counter(line for path in files for line in path.read_text().splitlines())


def finish(client: JobClient, records: int) -> None:
    """Wait until the job has read so many records since its first start, and end it with its sources."""
    wait_for_records(client, records)
    client.stop_with_savepoint(True).result(DEADLINE)


def _kept(backend: str, root: Path) -> dict[str, Path]:
    """What a stopped job has left, by kind, each with what comes after it."""
    folder, whole, native = root / "stopped", root / "whole", root / "native"
    client = start(folder, 2, backend)
    records = write(folder, "a", FIRST)
    wait_for_records(client, records)
    if backend == "rocksdb":
        wait_until(lambda: any((folder / "job" / "state").glob("compacted-*")), client)
    records += write(folder, "b", SECOND)
    wait_for_records(client, records)
    references = Path(client.trigger_savepoint(format_type="native").result(DEADLINE))
    savepoint = Path(client.stop_with_savepoint(False).result(DEADLINE))
    shutil.rmtree(folder / "job" / "requests", ignore_errors=True)
    shutil.copytree(folder / "job", native / "job")
    shutil.copytree(references, native / "savepoint")
    _expect(whole, backend, records, published(folder), [folder / "job", savepoint, native / "savepoint"])
    return {"checkpoint": folder / "job", "savepoint": savepoint, "native": native}


def _expect(folder: Path, backend: str, records: int, before: Counter[str], places: list[Path]) -> None:
    """Write into places what a job that never stops publishes after it has published what was before."""
    client = start(folder, 2, backend)
    read = 0
    for name, events in {"a": FIRST, "b": SECOND, "c": THIRD}.items():
        read += write(folder, name, events)
        wait_for_records(client, read)
    finish(client, read)
    expected = {"records": records, "lines": sorted((published(folder) - before).elements())}
    for place in places:
        (place / "expected.json").write_text(json.dumps(expected, indent=1))


@contextmanager
def _with_small_tables() -> Iterator[None]:
    """Has runs become tables of RocksDB that are not worth one, and at once, so that some are kept."""
    of = RocksDBSettings.of
    with (
        patch.object(RocksDBSettings, "of", lambda options: replace(of(options), smallest_table=1, largest_columns=1)),
        patch.object(compaction, "EPOCHS_BETWEEN_LOOKS", 1),
    ):
        yield


def main(version: str) -> None:
    """Keep what this version leaves."""
    from tests.golden.archives import pack

    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as root, _with_small_tables():
            for kind, directory in _kept(backend, Path(root)).items():
                print(pack(directory, f"{version}-{backend}-{kind}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
