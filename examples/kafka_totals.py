"""Kafka: payments go into a topic, and totals for every merchant and minute come out of a job that reads it.

    headrace run examples/kafka_totals.py

Without ``--bootstrap-servers`` it starts a real Kafka of its own, which is gone at the end; the first time that is
fetched. The job reads what is in the topic when it starts, and ends.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from headrace.broker.cluster import KafkaCluster
from headrace.common import Duration, JsonRowDeserializationSchema, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from headrace.datastream.window import Time, TumblingEventTimeWindows

TOPIC = "payments"
START = 1_700_000_040_000


@contextmanager
def servers(given: str | None) -> Iterator[str]:
    """The bootstrap servers of a Kafka that is there, or of one that is started."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder), settings={"num.partitions": "2"}) as kafka:
        yield kafka.bootstrap_servers


def produce(bootstrap_servers: str, events: int) -> None:
    """Put payments into the topic, ten in a second of event time; those of one card into one partition."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    draw = random.Random(7)
    for number in range(events):
        card, merchant = f"card-{draw.randrange(1000)}", f"merchant-{draw.randrange(5)}"
        payment = {"merchant": merchant, "amount": draw.randrange(1, 200)}
        time = START + number * 100
        producer.produce(TOPIC, json.dumps(payment).encode(), key=card.encode(), timestamp=time)
        producer.poll(0)
    producer.flush()


def totals(bootstrap_servers: str) -> None:
    """Run the job, and print what it finds; event time is what the messages have as their timestamps."""
    payment = Types.ROW_NAMED(["merchant", "amount"], [str, int])
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap_servers)
        .set_topics(TOPIC)
        .set_group_id("totals")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonRowDeserializationSchema(payment))
        .build()
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    found = (
        env.from_source(source, event_time, "payments")
        .key_by("merchant")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .aggregate(count().alias("payments"), sum("amount").alias("total"))
    )
    with found.execute_and_collect() as rows:
        for row in sorted(rows, key=str):
            print(row)


def main() -> None:
    """Start what is needed, fill the topic, and run the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", help="a Kafka that is there")
    parser.add_argument("--events", type=int, default=10_000, help="how many payments")
    arguments = parser.parse_args()
    with servers(arguments.bootstrap_servers) as bootstrap_servers:
        produce(bootstrap_servers, arguments.events)
        totals(bootstrap_servers)


if __name__ == "__main__":
    main()
