"""Rules in a topic: patterns of payments that are added, changed and withdrawn while the job runs.

    headrace run examples/card_fraud/rules.py headrace-demo/run-1/log

The job knows no rule. It reads them from a topic beside the payments, as JSON, and each holds from its own time on: the
first one finds the thieves that ``job.py`` finds, and 140 seconds later a second version finds careful ones, too. Both
are written into the topic when it is empty. The program ends with the payments that there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from job import Alert, Payment
from payments import NOON

from headrace.cep import CEP, PatternProcessFunction, PatternRule
from headrace.common import Duration, JsonRowDeserializationSchema, SimpleStringSchema, WatermarkStrategy
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors.log import LogSource, OffsetsInitializer
from headrace.log import Log, Producer

TOPIC = "rules"
REJECTED = OutputTag("rejected rules")

PATTERN = "small next large within 1 min"
THEFT = PatternRule("theft", PATTERN, {"small": "amount < 1.00", "large": "amount > 500.00"})
CAREFUL = PatternRule("theft", PATTERN, {"small": "amount < 2.00", "large": "amount > 400.00"})
RULES = [(THEFT, NOON), (CAREFUL, NOON + 140_000)]


class Alerts(PatternProcessFunction[Payment, Alert]):
    """Makes an alert of the last payment of a match."""

    def process_match(self, match: Mapping[str, list[Payment]], ctx: PatternProcessFunction.Context) -> Iterator[Alert]:
        payment = match["large"][-1]
        rule = f"{ctx.rule_id()}, version {ctx.rule_version()}"
        yield Alert(payment.card, payment.merchant, payment.amount, payment.time, rule)


def write_rules(location: str) -> None:
    """Put the rules into their topic, unless there are some."""
    log = Log.open(location)
    if TOPIC in log.topics():
        return
    log.create_topic(TOPIC, partitions=1)
    times = np.array([time for _, time in RULES]).astype("datetime64[ms]")
    with Producer(log) as producer:
        producer.append(TOPIC, pa.table({"value": [rule.to_json() for rule, _ in RULES], "timestamp": times}))


def main() -> None:
    """Look for all rules in all payments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path, help="the folder of the log, with payments")
    location = str(parser.parse_args().log.absolute())
    write_rules(location)

    env = StreamExecutionEnvironment.get_execution_environment()
    delayed = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(4)).with_timestamp_assigner("time")
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
    builder = LogSource.builder().set_log(location).set_bounded(OffsetsInitializer.latest())
    payments = builder.set_topics("payments").set_value_only_deserializer(JsonRowDeserializationSchema(Payment)).build()
    builder = LogSource.builder().set_log(location).set_bounded(OffsetsInitializer.latest())
    rules = builder.set_topics(TOPIC).set_value_only_deserializer(SimpleStringSchema()).build()

    cards = env.from_source(payments, delayed, "payments").key_by("card")
    patterns = CEP.dynamic_patterns(cards, env.from_source(rules, in_order, "rules"))
    alerts = patterns.side_output_rejected_rules(REJECTED).process(Alerts(), Alert).name("rules")
    for alert in alerts.execute_and_collect():
        print(f"  {alert.card}: {alert.amount:.2f} ({alert.rule})")


if __name__ == "__main__":
    main()
