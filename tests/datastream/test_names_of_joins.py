"""What streams are asked for in other libraries' words where two of them meet, or by names that Flink has given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.errors import UnknownNameError
from headrace.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from headrace.datastream.window import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
WINDOWS = TumblingEventTimeWindows.of(10)


@pytest.fixture
def stream() -> DataStream[Any]:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([("a", 1)], PAIR)


def keyed(stream: DataStream[Any]) -> KeyedStream[Any, Any]:
    return stream.key_by(0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("iterate", "repeat within a function, or send records around through a topic"),
        ("asQueryableState", "docs/reading-state.md"),
        ("enable_async_state", "leave it out"),
    ],
)
def test_what_flink_has_given_up_says_what_to_use(stream: DataStream[Any], name: str, said: str) -> None:
    for asked in (stream, keyed(stream)):
        with pytest.raises(UnknownNameError, match=rf"has no '{name}': .*{said}"):
            getattr(asked, name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("persist", r"use cache\(\)"),
        ("unordered_wait", r"use AsyncDataStream.unordered_wait\(stream"),
        ("leftOuterJoin", 'use join.*how="left"'),
        ("globalPartition", r"use global_\(\)"),
    ],
)
def test_words_of_others(stream: DataStream[Any], name: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"has no '{name}': .*{said}"):
        getattr(stream, name)


def joined(stream: DataStream[Any]) -> Any:
    return stream.join(stream)


@pytest.mark.parametrize(
    ("make", "name", "said"),
    [
        (joined, "print", "call where"),
        (lambda stream: joined(stream).where(0), "select", "call equal_to"),
        (lambda stream: joined(stream).where(0), "map", "call equal_to"),
        (lambda stream: joined(stream).where(0).equal_to(0), "print", "call window"),
        (lambda stream: joined(stream).where(0).equal_to(0).window(WINDOWS), "print", "use apply"),
        (lambda stream: stream.co_group(stream).where(0).equal_to(0).window(WINDOWS), "select", "use apply"),
        (lambda stream: keyed(stream).interval_join(keyed(stream)), "print", "call between"),
        (lambda stream: keyed(stream).interval_join(keyed(stream)), "where", "the keys are those of key_by"),
        (lambda stream: keyed(stream).interval_join(keyed(stream)), "window", r"first.join\(second\)"),
        (lambda stream: keyed(stream).interval_join(keyed(stream)).between(0, 1), "print", "use process"),
        (lambda stream: keyed(stream).interval_join(keyed(stream)).between(0, 1), "in_event_time", "before between"),
    ],
)
def test_each_step_says_what_comes_first(
    stream: DataStream[Any], make: Callable[[DataStream[Any]], Any], name: str, said: str
) -> None:
    with pytest.raises(UnknownNameError, match=rf"has no '{name}': .*{said}"):
        getattr(make(stream), name)
