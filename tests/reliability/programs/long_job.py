"""A job with something of everything, over files that grow in number, which is killed again and again.

long_job.py SETTINGS

SETTINGS is JSON: ``input``, ``output``, ``checkpoints`` and ``savepoints`` are folders; ``runtime``, ``backend`` and
``parallelism`` say how it runs; ``start`` is the savepoint that it begins with, ``claim`` whether it claims that;
``ends`` is whether it ends with what there is to read; ``kill`` is where it dies, ``action`` what it asks of itself as
soon as it runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace.jobmanager.compaction
import headrace.state.compaction
import headrace.state.runs.merging
from headrace.client.job_client import JobClient
from headrace.client.running import submission_defaults
from headrace.common import Configuration, Row, Time, Types, WatermarkStrategy
from headrace.common.time import Duration
from headrace.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from headrace.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from headrace.jobmanager import control
from tests.reliability.support.canonical import row_sink
from tests.reliability.support.file_sinks import A_FILE_AN_EPOCH, ROLLED_BY_SIZE
from tests.reliability.support.kill_points import KillPoint
from tests.reliability.support.long_job import BOUND, GAP, NEAR, STREAMS, WINDOW, Record, kind_of
from tests.reliability.support.reporting import Reporter

RECORD = Types.ROW_NAMED(["id", "key", "time", "amount"], [int, str, int, int])
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
TOTALS = [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()]


class Ledger(KeyedProcessFunction):
    """Numbers the events of each key, and closes its books after each stretch of time; state of every kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        number = Types.LONG()
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", number))
        self.entries = runtime_context.get_list_state(ListStateDescriptor("entries", Types.TUPLE([number, number])))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", number, number))
        self.brief, self.lasting = (
            runtime_context.get_state(_expiring(name, time)) for name, time in (("brief", 30), ("lasting", 86_400_000))
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        before = self.seen.value() or 0
        if self.brief.value() not in {None, before} or self.lasting.value() != (before or None):
            raise AssertionError(f"{value.key}: {before}, {self.brief.value()}, {self.lasting.value()}")
        for state in (self.seen, self.brief, self.lasting):
            state.update(before + 1)
        end = (value.time // WINDOW + 1) * WINDOW
        self.entries.add((end, value.id))
        self.sums.put(end, (self.sums.get(end) or 0) + value.amount)
        ctx.timer_service().register_event_time_timer(end)
        yield f"event|{value.id}"
        yield f"seen|{value.key}|{before + 1}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        entries = list(self.entries.get())
        ids = " ".join(map(str, sorted(number for end, number in entries if end == timestamp)))
        self.entries.update([entry for entry in entries if entry[0] != timestamp])
        yield f"book|{ctx.get_current_key()}|{timestamp}|{self.sums.get(timestamp)}|{ids}"
        self.sums.remove(timestamp)


class Ruled(KeyedBroadcastProcessFunction):
    """How many rules of the kind of an event came before it."""

    def process_broadcast_element(self, value: Row, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        rules = ctx.get_broadcast_state(RULES)
        kind = kind_of(value.amount)
        rules.put(kind, (rules.get(kind) or 0) + 1)

    def process_element(self, value: Row, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        yield f"ruled|{value.id}|{ctx.get_broadcast_state(RULES).get(kind_of(value.amount)) or 0}"


class Pairs(ProcessJoinFunction):
    """The numbers of both."""

    def process_element(self, left: Row, right: Row, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield f"pair|{left.id}|{right.id}"


def _expiring(name: str, millis: int) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor(name, Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(millis)).build())
    return descriptor


def _total(kind: str, stream: Any) -> Any:
    totals = stream.aggregate(count(), sum("amount")).uid(kind)
    return totals.map(lambda row: f"{kind}|{row[0]}|{row[1]}|{row[3]}|{row[4]}", Types.STRING()).uid(f"{kind}-lines")


def build(env: StreamExecutionEnvironment, settings: dict[str, Any]) -> None:
    """The job."""
    events, others, rules = (_records(env, settings, stream) for stream in STREAMS)
    keyed = events.key_by("key")
    ledger = keyed.process(Ledger(), Types.STRING()).uid("ledger")
    near = keyed.interval_join(others.key_by("key")).between(Time.milliseconds(-NEAR), Time.milliseconds(NEAR))
    said: DataStream[Any] = keyed.connect(rules.broadcast(RULES)).in_event_time_order().process(Ruled(), Types.STRING())
    said = said.uid("ruled").union(
        _total("window", keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW)))),
        _total("session", keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP)))),
        near.process(Pairs(), Types.STRING()).uid("pairs"),
    )
    ledger.sink_to(row_sink(f"{settings['output']}/ledger", ROLLED_BY_SIZE)).uid("ledger-files")
    said.sink_to(row_sink(f"{settings['output']}/said", A_FILE_AN_EPOCH)).uid("said-files")


def _records(env: StreamExecutionEnvironment, settings: dict[str, Any], stream: str) -> Any:
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{settings['input']}/{stream}")
    source = files.process_static_file_set() if settings["ends"] else files.monitor_continuously(20)
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND)).with_timestamp_assigner(
        lambda line, _: Record.of(line).time
    )
    lines = env.from_source(source.build(), times, stream).uid(stream)
    return lines.map(lambda line: Row(**Record.of(line)._asdict()), RECORD).uid(f"{stream}-records")


def configuration(settings: dict[str, Any]) -> Configuration:
    """How it runs."""
    known = {
        "headrace.runtime": settings["runtime"],
        "headrace.spark.master": "local[2]",
        "parallelism.default": str(settings["parallelism"]),
        "state.backend.type": settings["backend"],
        "execution.checkpointing.dir": settings["checkpoints"],
        "execution.checkpointing.savepoint-dir": settings["savepoints"],
        "execution.checkpointing.data-inline-threshold": "1b",
        "headrace.epoch.max-records": "25",
        "headrace.epoch.target-duration": "60s",
        "headrace.epoch.min-interval": "0 ms",
        "headrace.source.poll-interval": "10 ms",
    }
    if settings["start"]:
        mode = "CLAIM" if settings["claim"] else "NO_CLAIM"
        known |= {"execution.state-recovery.path": settings["start"], "execution.state-recovery.claim-mode": mode}
    return Configuration.from_dict(known)


def act(client: JobClient, action: str) -> None:
    """Do what the job is to ask of itself."""
    what, _, how = action.partition(":")
    if what == "savepoint":
        print("savepoint", client.trigger_savepoint(format_type=how).result(), flush=True)
    elif what == "stop":
        print("stopped", client.stop_with_savepoint(False, format_type=how).result(), flush=True)
    elif what == "rescale":
        client.rescale(int(how)).result()
        print("rescaled", flush=True)


def main(given: str) -> None:
    settings = json.loads(given)
    for module in (headrace.state.compaction, headrace.state.runs.merging):
        module.INLINE_ROWS = 0
    headrace.jobmanager.compaction.EPOCHS_BETWEEN_LOOKS = 3
    control._LOOK_SECONDS = 0.02
    env = StreamExecutionEnvironment.get_execution_environment(configuration(settings))
    build(env, settings)
    Path(settings["output"]).mkdir(parents=True, exist_ok=True)
    KillPoint.of(settings["kill"]).arm()
    with submission_defaults({}, Reporter()):
        client = env.execute_async("long")
    try:
        act(client, settings["action"])
    finally:
        client.get_job_execution_result().result()  # what the job has failed with says more


if __name__ == "__main__":
    main(*sys.argv[1:])
