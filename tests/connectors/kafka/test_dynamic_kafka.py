"""``DynamicKafkaSource`` against two real clusters: a stream that moves from one to the other, on both runtimes."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from headrace.broker import KafkaCluster
from headrace.common import Encoder, JobStatus, SimpleStringSchema, Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.connectors.messages import MessageDeserializationSchema
from headrace.connectors.partitions import OffsetsInitializer
from headrace.datastream import OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink
from headrace.datastream.connectors.dynamic_kafka import (
    DynamicKafkaSource,
    DynamicKafkaSourceBuilder,
    SingleClusterTopicMetadataService,
    YamlFileMetadataService,
)
from tests.connectors.kafka.topics import Topic
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.integration, pytest.mark.slow]  # of brokers of its own


Step = tuple[list[str], Callable[[], None]]
"""What is to be written before something is done, and what."""


@pytest.fixture(scope="module")
def other_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("other-kafka")) as cluster:
        yield cluster


@pytest.fixture
def east(kafka: KafkaCluster) -> Topic:
    return Topic(kafka.bootstrap_servers, 2)


@pytest.fixture
def west(other_kafka: KafkaCluster) -> Topic:
    return Topic(other_kafka.bootstrap_servers)


def tell(file: Path, **clusters: Topic) -> None:
    """Where the stream ``s`` lies now; a reader never sees half of it."""
    listed = [
        {"clusterId": name, "bootstrapServers": topic.servers, "topics": [topic.name]}
        for name, topic in clusters.items()
    ]
    new = file.with_suffix(".new")
    new.write_text(json.dumps([{"streamId": "s", "clusterMetadataList": listed}]))
    new.replace(file)


def source(file: Path) -> DynamicKafkaSourceBuilder[Any]:
    made: DynamicKafkaSourceBuilder[Any] = DynamicKafkaSource.builder()
    made.set_kafka_metadata_service(YamlFileMetadataService(file)).set_stream_ids({"s"}).set_group_id("moving")
    made.set_property("stream-metadata-discovery-interval-ms", "100")
    made.set_property("stream-metadata-discovery-failure-threshold", "99")
    return made.set_value_only_deserializer(SimpleStringSchema())


def environment(tmp_path: Path, **settings: str) -> StreamExecutionEnvironment:
    usual = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(usual | settings))


def written(tmp_path: Path) -> list[str]:
    files = (file for file in (tmp_path / "out").rglob("*") if file.is_file() and file.name[0] not in "._")
    return sorted(line for file in files for line in file.read_text().splitlines())


def copy_until(env: StreamExecutionEnvironment, file: Path, steps: list[Step]) -> None:
    """Run a job that writes what it reads; when so much is written, do the next thing."""
    lines = env.from_source(source(file).build(), WatermarkStrategy.no_watermarks(), "read").uid("read")
    sink = FileSink.for_row_format(str(file.parent / "out"), Encoder.simple_string_encoder()).build()
    lines.map(str, Types.STRING()).sink_to(sink).uid("write")
    job = env.execute_async("copy")
    try:
        for expected, action in steps:
            deadline = time.monotonic() + PATIENCE
            while (found := written(file.parent)) != expected:
                assert job.get_job_status().result() in (JobStatus.RUNNING, JobStatus.CREATED)
                assert time.monotonic() < deadline, (found, expected)
                time.sleep(0.05)
            action()
    finally:
        job.stop()
        job.get_job_execution_result().result(PATIENCE)


@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_a_stream_moves_and_the_job_goes_on(tmp_path: Path, east: Topic, west: Topic, runtime: str) -> None:
    file = tmp_path / "streams.json"
    env = {"headrace.runtime": runtime, "parallelism.default": "2"}

    def move() -> None:
        west.put(["w1", "w2"])
        tell(file, east=east, west=west)

    def leave() -> None:
        tell(file, west=west)
        west.put(["w3"])

    east.put(["e1"])
    east.put(["e2"], partition=1)
    tell(file, east=east)
    seen = ["e1", "e2", "w1", "w2", "w3"]
    steps = [(seen[:2], move), (seen[:4], leave), (seen, lambda: None)]
    copy_until(environment(tmp_path, **env), file, steps)
    assert (east.committed("moving"), west.committed("moving")) == ({0: 1, 1: 1}, {0: 3})


def test_a_job_that_was_stopped_goes_on_where_it_was_in_each_cluster(tmp_path: Path, east: Topic, west: Topic) -> None:
    file, seen = tmp_path / "streams.json", list[str]()
    tell(file, east=east, west=west)
    for number in range(2):
        for topic, name in ((east, "e"), (west, "w")):
            topic.put([f"{name}{number}"])
            seen.append(f"{name}{number}")
        copy_until(environment(tmp_path), file, [(sorted(seen), lambda: None)])


def test_bad_messages_say_in_which_cluster(tmp_path: Path, east: Topic, west: Topic) -> None:
    file = tmp_path / "streams.json"
    tell(file, east=east, west=west)
    east.put([b"\xff"])
    west.put(["tea"])
    bad = OutputTag("bad")
    schema = MessageDeserializationSchema(SimpleStringSchema(), metadata=["topic"])
    made = source(file).set_deserializer(schema).set_dead_letter(bad).set_bounded(OffsetsInitializer.latest())
    read = environment(tmp_path).from_source(made.build(), WatermarkStrategy.no_watermarks(), "read")
    letters = read.get_side_output(bad).map(lambda letter: letter[0], Types.STRING())
    found = sorted(read.map(lambda row: f"{row[1]} {row[0]}", Types.STRING()).union(letters).execute_and_collect())
    assert found == sorted([f"{west.name} tea", f"east/{east.name}-0@0"])


def test_the_topics_of_one_cluster_are_streams(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = Topic(kafka.bootstrap_servers, prefix="single")
    topic.another(prefix="single-other").put(["never"])
    topic.put(["tea"])
    service = SingleClusterTopicMetadataService("only", {"bootstrap.servers": kafka.bootstrap_servers})
    made = source(tmp_path).set_kafka_metadata_service(service).set_bounded(OffsetsInitializer.latest())
    made._subscriber = None
    read = environment(tmp_path).from_source(
        made.set_stream_pattern(f"^{topic.name}$").build(), WatermarkStrategy.no_watermarks(), "read"
    )
    assert list(read.execute_and_collect()) == ["tea"]


@pytest.mark.slow
def test_the_others_are_read_while_a_cluster_is_down(tmp_path: Path, east: Topic) -> None:
    """And it is read on when it is back, or forgotten when the metadata drops it while it is down."""
    file, numbers = tmp_path / "streams.json", itertools.count()
    with KafkaCluster(tmp_path / "kafka") as cluster:
        west, (node,) = Topic(cluster.bootstrap_servers), cluster.nodes
        tell(file, east=east, west=west)
        seen: list[str] = []

        def put(topic: Topic) -> Step:
            def act() -> None:
                text = f"{next(numbers):03}"
                topic.put([text])
                seen.append(text)

            return seen, act

        def restart() -> None:
            node.start()
            node.wait()

        steps = [put(east), put(west), (seen, node.kill)]
        steps += [put(east) for _ in range(20)]
        steps += [(seen, restart), put(west), put(east), (seen, node.kill), (seen, lambda: tell(file, east=east))]
        steps += [*(put(east) for _ in range(5)), (seen, lambda: None)]
        copy_until(environment(tmp_path), file, steps)
