"""What ``iterate`` was for: records go round through a topic, which a job both writes and reads."""

from __future__ import annotations

from pathlib import Path

from headrace.common import Configuration, SimpleStringSchema, WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.base import MessageSerializationSchema
from headrace.datastream.connectors.log import LogSink, LogSource
from headrace.log import Log, Producer


def test_by_a_topic(tmp_path: Path) -> None:
    place = str(tmp_path / "log")
    Log.open(place, create=True).create_topic("numbers")
    with Producer(place) as producer:
        for number in (b"3", b"1"):
            producer.send("numbers", number)
    text = SimpleStringSchema()
    source = LogSource.builder().set_log(place).set_topics("numbers").set_value_only_deserializer(text).build()
    sink = LogSink.builder().set_log(place).set_record_serializer(MessageSerializationSchema("numbers", text)).build()

    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(int, output_type=int)
    numbers.filter(lambda number: number > 0).map(lambda number: str(number - 1), output_type=str).sink_to(sink)
    found = numbers.execute_and_collect(limit=6)
    assert sorted(found) == [0, 0, 1, 1, 2, 3]
