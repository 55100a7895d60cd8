"""Numbers the records of a topic of Kafka, and writes them into another one, exactly once, until it is stopped.

kafka_to_kafka.py FOLDER SERVERS FROM TO PARALLELISM PUBLISHES-IN-TASKS
"""

from __future__ import annotations

import sys

from headrace.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from headrace.connectors.kafka import transactions, writer
from headrace.connectors.messages import MessageSerializationSchema
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import KafkaSink, KafkaSource
from tests.reliability.support.kafka_chain import Key, Numbering, key_of


def main(folder: str, servers: str, source: str, target: str, parallelism: str, in_tasks: str) -> None:
    if in_tasks == "True":
        transactions._IN_DRIVER_MESSAGES = 0
        writer._IN_MANIFEST_BYTES = 0
    settings = {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(int(parallelism))
    reading = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(source).set_group_id(f"of-{target}")
    reading.set_value_only_deserializer(SimpleStringSchema())
    texts = env.from_source(reading.build(), WatermarkStrategy.no_watermarks(), "read").uid("read")
    numbered = texts.key_by(key_of, Types.LONG()).process(Numbering(), Types.STRING()).uid("number")
    writing = KafkaSink.builder().set_bootstrap_servers(servers)
    writing.set_record_serializer(MessageSerializationSchema(target, SimpleStringSchema(), Key()))
    writing.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    numbered.sink_to(writing.build()).uid("write")
    env.execute("from Kafka to Kafka")


if __name__ == "__main__":
    main(*sys.argv[1:])
