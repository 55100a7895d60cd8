"""Sources give streams of their records; sinks take those that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from headrace.common import Encoder, Types, WatermarkStrategy
from headrace.datastream import DataStream, StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink, FileSource, NumberSequenceSource, Sink, StreamFormat
from headrace.datastream.connectors.datagen import DataGeneratorSource


@dataclass(frozen=True)
class Payment:
    card: str


@dataclass(frozen=True)
class Refund(Payment):
    reason: str


def encoded(payment: Payment) -> bytes:
    return payment.card.encode()


def sources(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.no_watermarks()
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
    assert_type(lines, FileSource[str])
    assert_type(env.from_source(lines, strategy, "lines"), DataStream[str])
    assert_type(env.from_source(NumberSequenceSource(1, 3), strategy, "numbers"), DataStream[int])
    generated = DataGeneratorSource(lambda index: Payment(str(index)), 3, type_info=Types.of(Payment))
    assert_type(env.from_source(generated, strategy, "payments"), DataStream[Payment])
    env.from_source(lines, strategy, "lines").map(lambda line: line.card)  # error: attr-defined
    env.from_source("in", strategy, "lines")  # error: arg-type


def sinks(payments: DataStream[Payment], refunds: DataStream[Refund], own: Sink[Refund]) -> None:
    sink = FileSink.for_row_format("out", Encoder(encoded)).build()
    assert_type(sink, FileSink[Payment])
    payments.sink_to(sink)
    refunds.sink_to(sink)
    refunds.sink_to(own)
    payments.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build())
    payments.sink_to(own)  # error: arg-type
    payments.map(lambda payment: payment.card).sink_to(sink)  # error: arg-type
    payments.sink_to(Encoder(encoded))  # error: arg-type
