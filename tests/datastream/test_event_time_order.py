"""``in_event_time_order()``: what comes late, what has no time, and where it cannot be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError
from headrace.datastream import (
    CoFlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import MapStateDescriptor
from headrace.operators import event_time_order
from headrace.testing import JobHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LAST = MapStateDescriptor("last", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


class Told(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        yield f"first {value[1]} at {ctx.timer_service().current_watermark()}"

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        yield f"second {value[1]} at {ctx.timer_service().current_watermark()}"


class Latest(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(LAST).get("last")

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> list[Any]:
        ctx.get_broadcast_state(LAST).put("last", value)
        return []


def told(harness: JobHarness) -> None:
    first, second = (harness.add_source(name, PAIR).key_by("f0") for name in ("first", "second"))
    results = first.connect(second).in_event_time_order().process(Told(), output_type=str)
    harness.add_sink("told", results.uid("told"))


def latest(harness: JobHarness) -> None:
    records = harness.add_source("records", Types.PICKLED_BYTE_ARRAY()).key_by(lambda record: 0, key_type=int)
    broadcast = harness.add_source("broadcast", Types.PICKLED_BYTE_ARRAY()).broadcast(LAST)
    harness.add_sink("out", records.connect(broadcast).in_event_time_order().process(Latest()).uid("latest"))


def test_records_of_one_timestamp_and_late_ones() -> None:
    """First those of the first input; a late one comes behind what its watermark lets go, and meets that."""
    with JobHarness(told) as harness:
        harness.push_all("second", [("a", 1), ("a", 2), ("a", 3)], [5, 4, 12])
        harness.run_epoch()
        harness.push("first", ("a", 4), timestamp=5)
        assert harness.take("told") == []
        for source in ("first", "second"):
            harness.advance_watermark(source, 10)
        harness.push("first", ("a", 5), timestamp=3)
        harness.run_epoch()
        in_time = ["second 2 at 3", "first 4 at 4", "second 1 at 4"]
        assert harness.take("told") == [*in_time, "first 5 at 10"]
        harness.finish()
        assert harness.take("told") == ["second 3 at 11"]


def test_what_waits_is_there_after_a_restart_at_another_parallelism() -> None:
    """Of any type, None included, and as often as it was put off."""
    with JobHarness(latest, parallelism=3) as harness:
        harness.push_all("broadcast", [{"is": 1}, None], [10, 30])
        harness.push_all("records", [{"a"}, None], [20, 40])
        harness.run_epoch()
        checkpoint = harness.checkpoint()
    with JobHarness(latest, parallelism=2, restore=checkpoint) as harness:
        harness.push_all("broadcast", ["same time"], [30])
        harness.run_epoch()
        for source in ("records", "broadcast"):
            harness.advance_watermark(source, 25)
        harness.run_epoch()
        assert harness.take("out") == [({"a"}, {"is": 1})]
        harness.finish()
        assert harness.take("out") == [(None, "same time")]


class Collected(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield f"first {value[1]}"

    def flat_map2(self, value: Any) -> Iterator[Any]:
        yield f"second {value[1]}"


def collected(harness: JobHarness) -> None:
    first, second = (harness.add_source(name, PAIR) for name in ("first", "second"))
    results = first.connect(second).in_event_time_order().flat_map(Collected(), str)
    harness.add_sink("out", results.uid("collected"))


def test_what_waits_without_keys_is_dealt_out_at_another_parallelism() -> None:
    """Each record once, those of which nothing is over yet and those of a table that is over in part."""
    with JobHarness(collected, parallelism=3) as harness:
        for start in (0, 10):
            harness.push_all("first", [("", time) for time in range(start, start + 10)], [*range(start, start + 10)])
            harness.run_epoch()
        for source in ("first", "second"):
            harness.advance_watermark(source, 4)
        harness.run_epoch()
        assert sorted(harness.take("out")) == [f"first {time}" for time in range(5)]
        checkpoint = harness.checkpoint()
    with JobHarness(collected, parallelism=2, restore=checkpoint) as harness:
        harness.push("second", ("", 7), timestamp=7)
        harness.run_epoch()
        assert harness.take("out") == []
        for source in ("first", "second"):
            harness.advance_watermark(source, 11)
        harness.run_epoch()
        assert sorted(harness.take("out")) == sorted([*(f"first {time}" for time in range(5, 12)), "second 7"])
        harness.finish()
        assert sorted(harness.take("out")) == [f"first {time}" for time in range(12, 20)]


def test_more_records_than_are_handed_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_time_order, "_HANDED_OVER", 7)
    monkeypatch.setattr(event_time_order, "_MOST_WAITING", 10)
    times = [(number * 37) % 100 for number in range(100)]
    with JobHarness(told, parallelism=2) as harness:
        for source in ("first", "second"):
            harness.push_all(source, [("a", time) for time in times[:60]], times[:60])
            harness.run_epoch()
            harness.push_all(source, [("a", time) for time in times[60:]], times[60:])
        harness.finish()
        both = [f"{which} {time} at {time - 1}" for time in range(100) for which in ("first", "second")]
        assert harness.take("told") == both


def test_a_record_without_a_timestamp_is_refused() -> None:
    with JobHarness(told) as harness:
        harness.push("first", ("a", 1))
        with pytest.raises(InvalidProgramError, match=r"without timestamp met in_event_time_order\(\)"):
            harness.run_epoch()


def test_changes_of_rows_are_refused_when_the_program_is_built() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    type_ = Types.ROW_NAMED(["key"], [Types.STRING()], changelog=True)
    rows = env.from_collection([], type_).assign_timestamps_and_watermarks(strategy).key_by("key")
    with pytest.raises(InvalidProgramError, match="takes insertions alone"):
        rows.connect(rows).in_event_time_order().process(Told(), output_type=str)


class Either(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[Any]:
        yield value

    def flat_map2(self, value: Any) -> Iterator[Any]:
        yield value


def test_it_wants_event_time() -> None:
    local = Configuration.from_dict({"headrace.runtime": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(local)
    plain = env.from_collection([("a", 1)], PAIR).name("plain")
    timed = env.from_collection([("a", 1)], PAIR).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    )
    here = __file__
    with pytest.raises(InvalidProgramError, match=f"records of 'plain' in the second stream have none(.|\n)*{here}:"):
        timed.key_by("f0").connect(timed.union(plain).key_by("f0")).in_event_time_order()
    with pytest.raises(InvalidProgramError, match="records of 'plain' in the first stream have none"):
        plain.connect(timed.broadcast(LAST)).in_event_time_order()
    with pytest.raises(InvalidProgramError, match="records of 'plain' in the broadcast stream have none"):
        timed.key_by("f0").connect(plain.broadcast(LAST)).in_event_time_order()
    connected = timed.connect(timed).key_by("f0", "f0").in_event_time_order()
    with pytest.raises(InvalidProgramError, match=r"call key_by\(...\) before in_event_time_order"):
        connected.key_by("f0", "f0")
    assert connected.flat_map(Either(), PAIR).execute_and_collect(limit=10) == [("a", 1), ("a", 1)]
