"""Reads a topic of Kafka slower than it is written: slow_consumer.py SERVERS TOPIC FOLDER."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headrace.common import Configuration, Encoder, SimpleStringSchema, Types, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink
from headrace.datastream.connectors.kafka import KafkaSource

RECORDS_A_SECOND = 2_000
"""Of each task."""


def slowly(text: str) -> bool:
    """Keep one of a thousand, and take the time that makes it a slow consumer."""
    number = int(text.split(" ", 1)[0])
    if number % 100 == 0:
        time.sleep(100 / RECORDS_A_SECOND)
    return number % 1000 == 0


def main(servers: str, topic: str, folder: Path) -> None:
    configuration = Configuration().set_string("execution.checkpointing.dir", str(folder / "checkpoints"))
    configuration.set_string("parallelism.default", "2")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_group_id("slow")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    kept = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "read").uid("read").filter(slowly)
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build()
    kept.map(str, Types.STRING()).sink_to(sink).uid("write")
    env.execute("slow")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
