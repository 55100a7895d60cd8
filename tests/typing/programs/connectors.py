"""Sources give streams of their records; sinks take those that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from headrace.common import Encoder, Row, TimestampAssigner, Types, WatermarkStrategy
from headrace.datastream import DataStream, StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink, FileSource, NumberSequenceSource, Sink, StreamFormat
from headrace.datastream.connectors.datagen import DataGeneratorSource
from headrace.datastream.formats.csv import CsvFormat, CsvReaderFormat, CsvSchema
from headrace.datastream.formats.json import JsonLinesFormat


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


def formats(env: StreamExecutionEnvironment, schema: CsvSchema) -> None:
    assert_type(CsvFormat(Payment), CsvFormat[Payment])
    assert_type(CsvFormat(Types.ROW_NAMED(["card"], [Types.STRING()])), CsvFormat[Row])
    assert_type(CsvFormat({"card": str}), CsvFormat[Any])
    assert_type(CsvReaderFormat.for_schema(schema), CsvReaderFormat[Row])
    assert_type(JsonLinesFormat(Payment), JsonLinesFormat[Payment])
    assert_type(JsonLinesFormat(), JsonLinesFormat[Any])
    payments = FileSource.for_record_stream_format(CsvFormat(Payment), "in").build()
    assert_type(payments, FileSource[Payment])
    read = env.from_source(payments, WatermarkStrategy.no_watermarks(), "payments")
    read.map(lambda payment: payment.crad)  # error: attr-defined


class PaidAt(TimestampAssigner[Payment]):
    def extract_timestamp(self, value: Payment, record_timestamp: int) -> int:
        return len(value.card)


class Untyped(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def strategies(payments: DataStream[Payment], refunds: DataStream[Refund], numbers: DataStream[int]) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    by_payment = strategy.with_timestamp_assigner(PaidAt()).with_idleness(1000)
    assert_type(by_payment, WatermarkStrategy[Payment])
    assert_type(payments.assign_timestamps_and_watermarks(by_payment), DataStream[Payment])
    refunds.assign_timestamps_and_watermarks(by_payment)
    numbers.assign_timestamps_and_watermarks(by_payment)  # error: arg-type
    numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Untyped()))
    numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda number, _: number))
    numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner("f0"))
