"""What is open when a bounded input ends, as the page on patterns says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from headrace.common import Configuration, Types
from headrace.common.constants import MAX_WATERMARK
from headrace.common.options import RuntimeExecutionMode
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.testing import JobHarness

EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])
LATE = OutputTag("timed-out", Types.STRING())


class Told(PatternProcessFunction[Any, str], TimedOutPartialMatchHandler[Any]):
    def process_match(self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterator[str]:
        yield f"{shown(match)} at {when(ctx.timestamp())}"

    def process_timed_out_match(
        self, match: Mapping[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterator[Any]:
        yield LATE, f"{shown(match)} by {when(ctx.timestamp())}"


def shown(match: Mapping[str, list[Any]]) -> str:
    return " ".join(name for events in match.values() for _, name in events)


def when(time: int | None) -> str:
    return "the end" if time == MAX_WATERMARK else str(time)


def pattern_of(text: str) -> Pattern[Any]:
    known = {name: f"f1.starts_with('{name}')" for name in "abc"}
    known["second"] = "f1.starts_with('b') and last('a').f1 == 'a2'"
    named = re.findall(r"\b(?:[abc]|second)\b", text)
    return Pattern.parse(text, {name: known[name] for name in named if f"{name}:" not in text})


@pytest.mark.parametrize(
    ("text", "events", "matches", "timeouts"),
    [
        ("a followed_by b within 5 ms", "b1@12 a1@10", ["a1 b1 at 12"], []),
        ("a followed_by b within 5 ms", "a1@10", [], ["a1 by 15"]),
        ("a followed_by b gap 3 ms followed_by c", "a1@10 a2@11", [], ["a1 by 13", "a2 by 14"]),
        ("a followed_by b within 5 ms", "a1@-10", [], []),
        ("a followed_by b", "a1@10", [], []),
        ("a not_followed_by b within 5 ms", "a1@10", ["a1 at the end"], []),
        ("a not_followed_by b within 5 ms", "a1@10 b1@12", [], []),
        (
            "a followed_by_any b{2} within 9 ms skip_past_last_event",
            "a1@10 a2@11 b1@12",
            [],
            ["a1 b1 by 19", "a1 by 19", "a2 b1 by 20", "a2 by 20"],
        ),
        (
            "a followed_by b{2} not_followed_by c within 10 ms skip_past_last_event",
            "a1@1 b1@2 a2@3 b2@4",
            ["a1 b1 b2 at the end"],
            ["a2 b2 by 13"],
        ),
        (
            "a followed_by b:second within 9 ms skip_past_last_event",
            "a1@10 a2@11 b1@12",
            ["a2 b1 at the end"],
            ["a1 by 19"],
        ),
        ("a followed_by b:second skip_past_last_event", "a1@10 a2@11 b1@12", [], []),
        ("a followed_by b+ within 5 ms", "a1@10 b1@11", ["a1 b1 at 11"], ["a1 b1 by 15"]),
    ],
)
def test_what_is_open_in_event_time(text: str, events: str, matches: list[str], timeouts: list[str]) -> None:
    def job(harness: JobHarness) -> None:
        stream = harness.add_source("events", EVENT).key_by(0)
        found = CEP.pattern(stream, pattern_of(text)).process(Told(), str)
        harness.add_sink("matches", found)
        harness.add_sink("timeouts", found.get_side_output(LATE))

    with JobHarness(job) as harness:
        for event in events.split():
            name, _, time = event.partition("@")
            harness.push("events", ("key", name), timestamp=int(time))
        harness.run_epoch()
        assert harness.results("matches") == harness.results("timeouts") == [], "no watermark has come"
        harness.finish()
        assert harness.results("matches") == matches
        assert harness.results("timeouts") == timeouts


@pytest.mark.parametrize(("mode", "timeouts"), [(RuntimeExecutionMode.STREAMING, 0), (RuntimeExecutionMode.BATCH, 1)])
def test_the_clock_comes_to_its_end_in_batch_mode(mode: RuntimeExecutionMode, timeouts: int) -> None:
    local = Configuration.from_dict({"headrace.runtime": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(local).set_runtime_mode(mode)
    stream = env.from_collection([("key", "a1"), ("key", "b1"), ("key", "a2")], EVENT).key_by(0)
    text = "a followed_by b within 1 h"
    found = CEP.pattern(stream, pattern_of(text)).in_processing_time().process(Told(), str)
    late = found.get_side_output(LATE).execute_and_collect(limit=10)
    assert [line.partition(" by ")[0] for line in late] == ["a2"][:timeouts]
