"""From Kafka to Kafka: payments go into a topic, and a job writes totals for every merchant and minute into another.

    headrace run examples/kafka_totals.py

Without ``--bootstrap-servers`` it starts a real Kafka of its own, which is gone at the end; the first time that is
fetched. The job reads what is in the topic when it starts, and ends. Each epoch's totals are a transaction of Kafka, so
that each is there once, whatever fails; at the end they are read as any consumer of ``read_committed`` would.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.broker import KafkaCluster
from headrace.common import (
    Duration,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    Row,
    Types,
    WatermarkStrategy,
)
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count, sum
from headrace.datastream.connectors.base import DeliveryGuarantee
from headrace.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from headrace.datastream.window import Time, TumblingEventTimeWindows

TOPIC, TOTALS = "payments", "totals"
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
    # Without idempotence a message that is sent again may come to lie behind later ones, and be late for its minute.
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    draw = random.Random(7)
    for number in range(events):
        card, merchant = f"card-{draw.randrange(1000)}", f"merchant-{draw.randrange(5)}"
        payment = {"merchant": merchant, "amount": draw.randrange(1, 200)}
        time = START + number * 100
        producer.produce(TOPIC, json.dumps(payment).encode(), key=card.encode(), timestamp=time)
        producer.poll(0)
    producer.flush()


def totals(bootstrap_servers: str) -> None:
    """Run the job; event time is what the messages have as their timestamps."""
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
    total = Types.ROW_NAMED(["merchant", "payments", "total"], [str, int, int])
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(TOTALS)
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(total).build())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap_servers)
        .set_record_serializer(schema)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("totals")
        .build()
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    found = (
        env.from_source(source, event_time, "payments")
        .key_by("merchant")
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .aggregate(count().alias("payments"), sum("amount").alias("total"))
        .map(lambda found: Row(found["merchant"], found["payments"], found["total"]), total)
    )
    found.sink_to(sink).name("totals")
    env.execute("totals")


def consume(bootstrap_servers: str) -> Iterator[str]:
    """Read all committed totals."""
    reader = {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
    everything, committed = (
        Consumer(reader | {"isolation.level": level}) for level in ("read_uncommitted", "read_committed")
    )
    partitions = [
        TopicPartition(TOTALS, number, 0) for number in committed.list_topics(TOTALS).topics[TOTALS].partitions
    ]
    ends = {each.partition: everything.get_watermark_offsets(each, 60)[1] for each in partitions}
    committed.assign(partitions)
    while ends:
        message = committed.poll(60)
        if message is None:
            raise TimeoutError("no broker answers")
        if message.error() is None:
            yield message.value().decode()
        elif message.error().code() != KafkaError._PARTITION_EOF:
            raise KafkaException(message.error())
        elif message.offset() >= ends[message.partition()]:  # not where a transaction is about to be committed
            del ends[message.partition()]
    committed.close()
    everything.close()


def main() -> None:
    """Start what is needed, fill the topic, and run the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", help="a Kafka that is there")
    parser.add_argument("--events", type=int, default=10_000, help="how many payments")
    arguments = parser.parse_args()
    with servers(arguments.bootstrap_servers) as bootstrap_servers:
        produce(bootstrap_servers, arguments.events)
        totals(bootstrap_servers)
        for line in sorted(consume(bootstrap_servers)):
            print(line)


if __name__ == "__main__":
    main()
