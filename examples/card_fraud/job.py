"""Card fraud: reads payments from a topic, finds those that look like a theft, and sums up what merchants sell.

    headrace run examples/card_fraud/job.py card-fraud.log

A rule remembers every card: who tries it with a small payment before a large one within a minute is a thief. Alerts,
totals of every merchant and minute, and payments that come too late for these are topics, too; each result is in its
topic exactly once, whatever is killed and started again. The job runs until it is stopped, by Ctrl-C say, and goes on
from there. ``payments.py`` makes the topics and fills them, ``demo.py`` runs everything.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.common import (
    Configuration,
    Duration,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    SerializationSchema,
    Types,
    WatermarkStrategy,
)
from headrace.datastream import DataStream, KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.base import MessageSerializationSchema
from headrace.datastream.connectors.log import LogSink, LogSource
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import Time, TumblingEventTimeWindows

MINUTE = 60_000


@dataclass(slots=True)
class Payment:
    """One payment; its time is in milliseconds since 1970."""

    card: str
    merchant: str
    amount: float
    time: int


@dataclass(slots=True)
class Alert:
    """A payment that looks like fraud, and the rule that says so."""

    card: str
    merchant: str
    amount: float
    time: int
    rule: str


LATE = OutputTag("late payments", Payment)


class SmallThenLarge(KeyedProcessFunction):
    """Raises an alert when a card pays little and then, with its next payment within a minute, a lot.

    Args:
        small: what is less is little.
        large: what is more is a lot.
    """

    def __init__(self, small: float, large: float) -> None:
        self._small = small
        self._large = large

    def open(self, runtime_context: RuntimeContext) -> None:
        # Until when a large payment is suspicious; there only while the card's last payment was a small one
        self.deadline = runtime_context.get_state(ValueStateDescriptor("deadline", Types.LONG()))

    def process_element(self, payment: Payment, ctx: KeyedProcessFunction.Context) -> Iterator[Alert]:
        deadline = self.deadline.value()
        if deadline is not None:
            if payment.amount > self._large and payment.time <= deadline:
                yield Alert(payment.card, payment.merchant, payment.amount, payment.time, "small, then large")
            ctx.timer_service().delete_event_time_timer(deadline)
            self.deadline.clear()
        if payment.amount < self._small:
            self.deadline.update(payment.time + MINUTE)
            ctx.timer_service().register_event_time_timer(payment.time + MINUTE)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.deadline.clear()  # nothing followed within the minute: forget the small payment


class FieldAsKey(SerializationSchema):
    """One field of a record as the key of its message: all messages of a card are in one partition, in their order."""

    def __init__(self, field: str) -> None:
        self._field = field

    def serialize(self, element: Any) -> bytes:
        return getattr(element, self._field).encode()


def build(
    env: StreamExecutionEnvironment, log: str, version: str = "", small: float = 1.00, large: float = 500.00
) -> None:
    """Put the job together.

    Args:
        env: the environment.
        log: the folder of the log.
        version: what the names of consumer group and topics end with.
        small: what is little for a payment.
        large: what is a lot.
    """
    source = (
        LogSource.builder()
        .set_log(log)
        .set_topics("payments")
        .set_group_id(f"fraud{version}")
        .set_value_only_deserializer(JsonRowDeserializationSchema(Payment))
        .build()
    )
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(4)).with_timestamp_assigner("time")
    payments = env.from_source(source, event_time, "payments").uid("payments")

    rule = SmallThenLarge(small, large)
    alerts = payments.key_by("card").process(rule, output_type=Alert).name("fraud rule").uid("fraud-rule")
    totals = (
        payments.key_by("merchant")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .side_output_late_data(LATE)
        .aggregate(count().alias("payments"), sum("amount").alias("total"))
        .name("totals per merchant and minute")
        .uid("totals")
    )
    late = totals.get_side_output(LATE)

    for topic, key, stream in (("alerts", "card", alerts), ("totals", "merchant", totals), ("late", "card", late)):
        stream.sink_to(json_into(log, f"{topic}{version}", key, stream)).name(topic).uid(f"{topic}-sink")


def json_into(log: str, topic: str, key: str, stream: DataStream) -> LogSink:
    """Records of a stream as JSON in a topic, each exactly once; event time is their timestamp."""
    schema = MessageSerializationSchema(topic, JsonRowSerializationSchema(stream.get_type()), FieldAsKey(key))
    return LogSink.builder().set_log(log).set_record_serializer(schema).build()


def checkpointed_in(folder: Path) -> Configuration:
    """A configuration that keeps checkpoints in a folder."""
    return Configuration().set_string("execution.checkpointing.dir", str(folder))


def main() -> None:
    """Run the job until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", nargs="?", type=Path, default=Path("card-fraud.log"), help="the folder of the log")
    log = parser.parse_args().log.absolute()
    env = StreamExecutionEnvironment.get_execution_environment(checkpointed_in(log.with_suffix(".checkpoints")))
    build(env, str(log))
    env.execute("card fraud")


if __name__ == "__main__":
    main()
