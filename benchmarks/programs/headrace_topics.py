"""Payments from one topic to another by headrace: as they are, or as counts and sums of windows of each card.

Options: ``kafka`` or ``log`` (see :class:`~benchmarks.brokers.Broker`), ``topic``, ``records`` (how many it has),
``work``, which is ``pass-through`` or ``windows``, and ``guarantee``, exactly once unless told otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.brokers import Broker
from benchmarks.data import OUT_OF_ORDER_MILLIS
from benchmarks.outcome import Assignment, Outcome
from benchmarks.payments import output_totals
from benchmarks.programs.headrace_job import EpochTimes, open_environment, run_job
from benchmarks.truth import WINDOW_MILLIS
from headrace.common import JsonRowDeserializationSchema, JsonRowSerializationSchema, Types
from headrace.common.time import Duration, Time
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import aggregates
from headrace.datastream.connectors.base import DeliveryGuarantee, MessageSerializationSchema
from headrace.datastream.window import TumblingEventTimeWindows

if TYPE_CHECKING:
    from headrace.datastream.data_stream import DataStream

PAYMENT = Types.ROW_NAMED(
    ["id", "card", "at", "amount", "country"],
    [Types.LONG(), Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.STRING()],
)


def run(assignment: Assignment) -> Outcome:
    """Run the job over all that the topic has."""
    options = assignment.options
    broker = Broker.of(options)
    environment = open_environment(assignment)
    source = broker.source(options["topic"], JsonRowDeserializationSchema(PAYMENT), options["records"])
    results = broker.new_topic("results")
    is_pass_through = options["work"] == "pass-through"
    strategy = WatermarkStrategy.no_watermarks() if is_pass_through else _event_time()
    payments = environment.from_source(source, strategy, "payments").uid("payments")
    written = payments if is_pass_through else _windows(payments)
    values = JsonRowSerializationSchema(written.get_type())
    guarantee = DeliveryGuarantee[options.get("guarantee", "EXACTLY_ONCE")]
    written.sink_to(broker.sink(MessageSerializationSchema(results, values), guarantee)).uid("results")
    times = EpochTimes()
    run_job(environment, times)
    return Outcome(tuple(times.epochs), output_totals(broker, results), times.summary())


def _event_time() -> WatermarkStrategy:
    tolerated = Duration.of_millis(OUT_OF_ORDER_MILLIS)
    return WatermarkStrategy.for_bounded_out_of_orderness(tolerated).with_timestamp_assigner("at")


def _windows(payments: DataStream) -> DataStream:
    windows = payments.key_by("card").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MILLIS)))
    return windows.aggregate(aggregates.count().alias("c"), aggregates.sum("amount").alias("s")).uid("windows")
