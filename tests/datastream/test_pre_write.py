"""Operators that a sink adds before its writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.common import Types
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidTypeError
from headrace.connectors.sink import DeliveryGuarantee, Sink, SinkWriter, WriterContext
from headrace.datastream import DataStream, StreamExecutionEnvironment
from headrace.datastream.connectors.base import SupportsPreWriteTopology
from headrace.datastream.streams.sinks import DataStreamSink

Topology = Callable[[DataStream], Any]


class Prepared(Sink, SupportsPreWriteTopology):
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.types: list[Any] = []

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.AT_LEAST_ONCE

    def add_pre_write_topology(self, input_data_stream: DataStream) -> DataStream:
        made: DataStream = self.topology(input_data_stream)
        return made

    def create_writer(self, context: WriterContext) -> SinkWriter:
        raise NotImplementedError("nothing runs here")

    def validate(self, input_type: Any) -> None:
        self.types.append(input_type)


def two_maps(stream: DataStream) -> DataStream:
    texts = stream.map(str, Types.STRING()).uid("texts").set_parallelism(3)
    return texts.map(lambda text: text + "!", Types.STRING()).key_by(lambda text: text, Types.STRING())


def written(topology: Topology) -> tuple[Prepared, DataStreamSink]:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    sink = Prepared(topology)
    return sink, env.from_collection([1, 2], Types.LONG()).sink_to(sink)


def settings_of(handle: DataStreamSink) -> list[tuple[str | None, int | None, int | None]]:
    nodes = list(handle._transformations.graph)[-3:]
    return [(node.uid, node.parallelism, node.max_parallelism) for node in nodes]


def test_what_it_does_not_say_itself_follows_from_the_sink() -> None:
    sink, handle = written(two_maps)
    assert sink.types == [Types.STRING()], "writers get what comes of the stream"
    assert settings_of(handle) == [("texts", 3, None), (None, None, None), (None, None, None)]
    handle.uid("sink").set_parallelism(2).set_max_parallelism(8).name("Exclamations")
    assert settings_of(handle) == [("texts", 3, 8), ("sink/pre-write-1", 2, 8), ("sink", 2, 8)]
    handle.uid("other").set_parallelism(1)
    assert settings_of(handle) == [("texts", 3, 8), ("other/pre-write-1", 1, 8), ("other", 1, 8)]


def test_the_stream_may_stay_as_it_is() -> None:
    sink, handle = written(lambda stream: stream)
    assert sink.types == [Types.LONG()]
    assert handle.uid("sink").get_name() == "Sink: Prepared"


def test_something_else_than_a_stream_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"Prepared.add_pre_write_topology returned None: return the stream"):
        written(lambda stream: None)
