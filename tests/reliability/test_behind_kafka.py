"""A job that cannot keep up with a topic of Kafka: it falls behind, and takes no more memory for that.

Three minutes long, or as long as ``HEADRACE_BEHIND_MINUTES`` says: ``make test-behind`` takes half an hour.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from headrace.broker import KafkaCluster
from tests.connectors.kafka.topics import Topic
from tests.processes import Launcher, Running

MINUTES = float(os.environ.get("HEADRACE_BEHIND_MINUTES", "3"))
PARTITIONS = 4
WRITTEN_A_SECOND = 10_000
PADDING = "x" * 90
WARM_UP = 0.25
"""The part of the time in which caches and pools may grow."""


class Flood(threading.Thread):
    """Writes to all partitions of a topic at a steady pace, until it is stopped."""

    def __init__(self, topic: Topic) -> None:
        super().__init__()
        self._topic = topic
        self.ends = threading.Event()
        self.written = 0

    def run(self) -> None:
        producer = Producer({**self._topic.client, "linger.ms": 50})
        while not self.ends.wait(0.1):
            for _ in range(WRITTEN_A_SECOND // 10):
                text = f"{self.written} {PADDING}"
                producer.produce(self._topic.name, text, partition=self.written % PARTITIONS)
                self.written += 1
            producer.flush(60)


def python_processes(running: Running) -> Iterator[tuple[str, psutil.Process]]:
    """The driver, and the workers of Spark; a JVM takes what it is given."""
    driver = psutil.Process(running.pid)
    yield "driver", driver
    for process in driver.children(recursive=True):
        try:
            if "worker_daemon" in " ".join(process.cmdline()):
                yield "workers", process
        except psutil.NoSuchProcess:
            continue  # it has ended since it was listed


def megabytes(running: Running) -> dict[str, float]:
    """What they take now, without what they share."""
    found: dict[str, float] = defaultdict(float)
    for kind, process in python_processes(running):
        found[kind] += process.memory_full_info().uss / 1e6
    return found


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_slow_job_takes_no_more_memory_the_further_it_is_behind(
    kafka: KafkaCluster, programs: Launcher, tmp_path: Path
) -> None:
    topic = Topic(kafka.bootstrap_servers, PARTITIONS)
    flood = Flood(topic)
    flood.start()
    seen: list[dict[str, float]] = []
    try:
        running = programs.start("slow_consumer", kafka.bootstrap_servers, topic.name, tmp_path)
        pause = threading.Event()
        while not any((tmp_path / "checkpoints" / "manifests").glob("*")):
            assert running.code is None, running.errors[-3000:]
            pause.wait(0.5)
        for _ in range(int(MINUTES * 60)):
            seen.append(megabytes(running))
            pause.wait(1)
            assert running.code is None, running.errors[-3000:]
    finally:
        flood.ends.set()
        flood.join()
    behind = flood.written - sum(topic.committed("slow").values())
    assert behind > flood.written / 3, "it was no slow job"
    steady = seen[int(len(seen) * WARM_UP) :]
    half = len(steady) // 2
    for kind in ("driver", "workers"):
        before = max(each[kind] for each in steady[:half])
        after = max(each[kind] for each in steady[half:])
        print(f"{kind}: at most {before:.0f} MB in the first half, {after:.0f} MB in the second; {behind:,} behind")
        assert after < before * 1.15 + 20
