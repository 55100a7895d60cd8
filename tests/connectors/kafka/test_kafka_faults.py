"""Brokers that are killed, hang and come back while a job reads: each record is read once, in its partition's order.

What is killed when follows from a seed, which a failure tells; how often is counted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("jgo")

from headrace.broker import BrokerNode, KafkaCluster
from headrace.client.job_client import JobClient
from headrace.common import Encoder, JobStatus, SimpleStringSchema, Types, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.connectors.messages import MessageDeserializationSchema
from headrace.connectors.partitions import OffsetsInitializer
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors import FileSink
from headrace.storage.folder import posix_folder
from tests.connectors.kafka.steady_writer import SteadyWriter
from tests.connectors.kafka.topics import Topic
from tests.connectors.partitions.driver import enumerator, read_rest

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

PARTITIONS = 3
_PATIENCE = 300.0


@contextmanager
def copying(topic: Topic, folder: Path) -> Iterator[JobClient]:
    """A job that writes what it reads, with partition and offset, to files."""
    settings = {
        "headrace.runtime": "local",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    schema = MessageDeserializationSchema(SimpleStringSchema(), metadata=["partition", "offset"])
    source = topic.reading(group="copy").set_deserializer(schema).build()
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "read").uid("read")
    lines = rows.map(lambda row: f"{row.partition} {row.offset} {row.value}", Types.STRING())
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build()
    lines.sink_to(sink).uid("write")
    job = env.execute_async("copy")
    try:
        yield job
    finally:
        job.stop()
        job.get_job_execution_result().result(_PATIENCE)


def copied(folder: Path) -> list[tuple[int, int, str]]:
    """What is visible: partition, offset, text; of each file in its order."""
    files = (folder / "out").glob("[!._]*/part-*")
    lines = (line.split(" ") for file in files for line in file.read_text().splitlines())
    return [(int(partition), int(offset), text) for partition, offset, text in lines]


def check_order(folder: Path) -> None:
    """In each file the records of each partition are in their order."""
    for file in (folder / "out").glob("[!._]*/part-*"):
        seen: dict[str, int] = {}
        for partition, offset, _ in map(str.split, file.read_text().splitlines()):
            assert int(offset) > seen.get(partition, -1), (file, partition, offset)
            seen[partition] = int(offset)


def fail(node: BrokerNode, chance: random.Random) -> str:
    """Something happens to a node, which is there again in the end; gives what."""
    kind = chance.choice(["killed", "killed", "stopped", "hangs"])
    if kind == "hangs":
        node.pause()
        time.sleep(chance.uniform(0.5, 8.0))  # perhaps longer than until the others take it for dead
        node.resume()
        return kind
    (node.kill if kind == "killed" else node.stop)()
    time.sleep(chance.uniform(0.0, 3.0))
    node.start()
    node.wait()
    return kind


@pytest.mark.parametrize(("brokers", "faults", "seed"), [(1, 12, 3), (3, 25, 7)], ids=["one-broker", "three-brokers"])
def test_a_job_reads_on_whatever_brokers_do(tmp_path: Path, brokers: int, faults: int, seed: int) -> None:
    chance = random.Random(seed)
    happened: list[str] = []
    with KafkaCluster(tmp_path / "kafka", brokers) as cluster:
        topic = Topic(cluster.bootstrap_servers, PARTITIONS)
        with copying(topic, tmp_path) as job:
            with SteadyWriter(topic, PARTITIONS) as writer:
                for _ in range(faults):
                    before = len(writer.acknowledged)
                    time.sleep(chance.uniform(0.0, 2.0))
                    happened.append(fail(chance.choice(cluster.nodes), chance))
                    end = time.monotonic() + _PATIENCE
                    while len(writer.acknowledged) == before:
                        assert time.monotonic() < end, f"seed {seed}: nothing can be written after {happened}"
                        time.sleep(0.1)
            assert not writer.failed
            end = time.monotonic() + _PATIENCE
            while len(copied(tmp_path)) < len(writer.acknowledged):
                assert job.get_job_status().result() in (JobStatus.RUNNING, JobStatus.CREATED, JobStatus.RESTARTING)
                assert time.monotonic() < end, f"seed {seed}: nothing more is read after {happened}"
                time.sleep(0.2)
    found = copied(tmp_path)
    assert len(happened) == faults
    assert sorted(text for *_, text in found) == sorted(writer.acknowledged)
    assert len({(partition, offset) for partition, offset, _ in found}) == len(found)
    check_order(tmp_path)


def test_a_group_whose_coordinator_is_gone_is_asked_again(tmp_path: Path) -> None:
    """Committed offsets are read and written while the broker that keeps them is killed; another one takes over."""
    with KafkaCluster(tmp_path / "kafka", brokers=3) as cluster:
        topic = Topic(cluster.bootstrap_servers)
        topic.put(range(10))
        start = topic.reading(OffsetsInitializer.committed_offsets(), group="group").build()
        folder = posix_folder(tmp_path)
        topic.commit_offset("group", 3)
        for node in cluster.nodes:
            planner = enumerator(start, folder)
            node.kill()
            positions: dict[str, int] = {}
            (found,) = read_rest(start, planner, positions).values()
            assert len(found) == 7
            planner.checkpoint_completed({f"{topic.name}-0": 3})
            planner.close()
            node.start()
            node.wait()
        assert topic.committed("group") == {0: 3}
