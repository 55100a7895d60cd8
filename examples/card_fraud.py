"""Card fraud: two million payments, a rule that remembers every card, and totals for every merchant.

    headrace run examples/card_fraud.py

Payments are generated: out of order by up to four seconds, a few of them a minute late, and here and there a thief who
tries a stolen card with a small payment before a large one. The job ends by itself. Stop it with Ctrl-C and start it
again: it goes on where it was, and every alert and every total is written exactly once all the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as count_up
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.common import Configuration, Duration, JobExecutionResult, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.datagen import DataGeneratorSource
from headrace.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from headrace.datastream.formats.json import JsonLinesEncoder
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.window import Time, TumblingEventTimeWindows

SMALL, LARGE = 1.00, 500.00
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
    """Raises an alert when a card pays little and then, with its next payment within a minute, a lot."""

    def open(self, runtime_context: RuntimeContext) -> None:
        # Until when a large payment is suspicious; there only while the card's last payment was a small one
        self.deadline = runtime_context.get_state(ValueStateDescriptor("deadline", Types.LONG()))

    def process_element(self, payment: Payment, ctx: KeyedProcessFunction.Context) -> Iterator[Alert]:
        deadline = self.deadline.value()
        if deadline is not None:
            if payment.amount > LARGE and payment.time <= deadline:
                yield Alert(payment.card, payment.merchant, payment.amount, payment.time, "small, then large")
            ctx.timer_service().delete_event_time_timer(deadline)
            self.deadline.clear()
        if payment.amount < SMALL:
            self.deadline.update(payment.time + MINUTE)
            ctx.timer_service().register_event_time_timer(payment.time + MINUTE)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.deadline.clear()  # nothing followed within the minute: forget the small payment


def build(env: StreamExecutionEnvironment, events: int, output: Path) -> None:
    """Put the job together."""
    source = DataGeneratorSource(batch_generator=make_payments, count=events, type_info=Payment, seed=7)
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(4)).with_timestamp_assigner("time")
    payments = env.from_source(source, event_time, "payments").uid("payments")

    alerts = payments.key_by("card").process(SmallThenLarge(), output_type=Alert).name("fraud rule").uid("fraud-rule")
    totals = (
        payments.key_by("merchant")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .side_output_late_data(LATE)
        .aggregate(count().alias("payments"), sum("amount").alias("total"))
        .name("totals per merchant and minute")
        .uid("totals")
    )
    late = totals.get_side_output(LATE)

    for name, stream in {"alerts": alerts, "totals": totals, "late": late}.items():
        stream.sink_to(json_lines(output / name)).name(name).uid(f"{name}-sink")


def json_lines(folder: Path) -> FileSink:
    """Files of JSON lines; a file becomes visible when it is complete, at the latest after ten seconds."""
    return (
        FileSink.for_row_format(folder, JsonLinesEncoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".jsonl").build())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(rollover_interval=10_000))
        .build()
    )


# --- the input -------------------------------------------------------------------------------------------------------

CARDS = pa.array([f"card-{number:05}" for number in range(20_000)])
MERCHANTS = pa.array([f"merchant-{number:02}" for number in range(50)])
NOON = 1_748_779_200_000  # 1 June 2025, 12:00 UTC
THEFT_EVERY, LARGE_AFTER = 5_000, 2_000


def make_payments(indices: np.ndarray, rng: np.random.Generator) -> dict[str, object]:
    """Payments by number, whole columns at a time: two milliseconds of event time from one to the next."""
    size = len(indices)
    cards, merchants = rng.integers(len(CARDS), size=size), rng.integers(len(MERCHANTS), size=size)
    amounts = rng.lognormal(3.0, 1.0, size)
    delays = rng.integers(4_000, size=size) + (rng.random(size) < 0.0005) * MINUTE

    theft, step = np.divmod(indices, THEFT_EVERY)
    stolen = theft * 7919 % len(CARDS)
    cards = np.where((step == 0) | (step == LARGE_AFTER), stolen, cards)
    amounts = np.where(step == 0, 0.99, np.where(step == LARGE_AFTER, 899.0, amounts))
    return {
        "card": CARDS.take(pa.array(cards)),
        "merchant": MERCHANTS.take(pa.array(merchants)),
        "amount": np.round(amounts, 2),
        "time": NOON + 2 * indices - delays,
    }


# --- the program -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the job and say what it did."""
    arguments = parse_arguments()
    output = folder_of_this_run(arguments.output.absolute())
    configuration = Configuration().set_string("execution.checkpointing.dir", str(output / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env, arguments.events, output)
    result = env.execute("card fraud")

    if result.get_accumulator_result("payments.numRecordsIn") == arguments.events:
        (output / "done").touch()
    print(summary(result, output))


def folder_of_this_run(output: Path) -> Path:
    """The first of run-1, run-2, ... that has not come to its end: a new one, or one that was stopped and goes on."""
    return next(run for number in count_up(1) if not ((run := output / f"run-{number}") / "done").exists())


def parse_arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=2_000_000, help="how many payments there are")
    parser.add_argument("--output", type=Path, default=Path("headrace-demo"), help="the folder for results")
    return parser.parse_args()


def summary(result: JobExecutionResult, output: Path) -> str:
    """What the job did and where its results are, from its counters."""
    counters = result.get_all_accumulator_results()
    seconds = result.get_net_runtime() / 1000
    events = counters["payments.numRecordsIn"]

    def written(name: str) -> str:
        return f"{counters.get(f'{name}.numRecordsIn', 0):>9,}"

    return f"""
  {events:>9,} payments in {seconds:.1f} s ({events / seconds:,.0f} a second), {counters["numEpochs"]} checkpoints
  {written("alerts")} alerts            {output}/alerts
  {written("totals")} totals            {output}/totals
  {written("late")} late payments     {output}/late
"""


if __name__ == "__main__":
    main()
