"""From Kafka to Kafka to Kafka: drivers of two jobs and the broker are killed at any moment, also all at once.

The second job reads what the first one publishes, while it does so. What is killed when follows from a seed; how many
were is counted.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("jgo")

from headrace.broker import KafkaCluster
from headrace.client.running import TERMINATED
from tests.connectors.kafka.steady_writer import SteadyWriter
from tests.connectors.kafka.topics import Topic
from tests.forks import Forked, Forks
from tests.reliability.support.kafka_chain import PARTITIONS, check_chain
from tests.reliability.support.kafka_sinks import committed, staged_files
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3600)]

KILLS: Final = 40
FIRST, SECOND = 0, 1
WHAT_DIES: Final = {
    "the first": ([FIRST], False),
    "the second": ([SECOND], False),
    "both": ([FIRST, SECOND], False),
    "the broker": ([], True),
    "all": ([FIRST, SECOND], True),
}
"""Which drivers, and whether the broker."""


class Job:
    """A job of the chain, whose driver is started again and again.

    Args:
        forks: starts it.
        folder: where its checkpoints are.
        topics: where it reads from, and writes to.
        chance: says how it runs.
    """

    def __init__(self, forks: Forks, folder: Path, topics: list[Topic], chance: random.Random) -> None:
        folder.mkdir()
        self._forks = forks
        self._folder = folder
        self._topics = topics
        self._chance = chance
        self._driver: Forked | None = None

    @property
    def driver(self) -> Forked:
        """The process that runs now."""
        assert self._driver is not None
        return self._driver

    def start(self) -> None:
        """Start a driver, with some parallelism."""
        names = [topic.name for topic in self._topics]
        how = [self._chance.randint(1, 3), self._chance.random() < 0.5]
        self._driver = self._forks.start("kafka_to_kafka", self._folder, self._topics[0].servers, *names, *how)

    def keep_up(self) -> None:
        """Start the job again where brokers did not answer in time when it began, as who runs a service does."""
        if self.driver.code is not None:
            ended = self.driver.wait()
            assert ended.code == 1, ended
            assert "InfrastructureError" in ended.errors, ended
            self.start()

    def epoch(self) -> int:
        """The newest epoch; the job has to be up."""
        self.keep_up()
        manifests = (self._folder / "checkpoints" / "manifests").glob("[0-9]*.json")
        return max((int(path.stem) for path in manifests), default=0)

    def kill(self) -> None:
        """Kill the driver."""
        self.keep_up()
        ended = self.driver.kill()
        assert ended.code == -signal.SIGKILL, ended

    def stop(self) -> None:
        """Have the job end where it can go on; nothing of it waits to be published then."""
        self.driver.terminate()
        ended = self.driver.wait()
        assert ended.code == TERMINATED, ended
        assert staged_files(self._folder) == []


@pytest.mark.parametrize("seed", range(3))
def test_two_jobs_and_a_broker_that_are_killed(seed: int, forks: Forks, tmp_path: Path) -> None:
    chance = random.Random(seed)
    died: list[str] = []
    killed = 0
    with KafkaCluster(tmp_path / "kafka") as cluster:
        (node,) = cluster.nodes
        topics = [Topic(cluster.bootstrap_servers, PARTITIONS) for _ in range(3)]
        jobs = [Job(forks, tmp_path / f"job-{place}", topics[place : place + 2], chance) for place in (FIRST, SECOND)]
        for job in jobs:
            job.start()
        with SteadyWriter(topics[0], PARTITIONS, together=5) as writer:
            while killed < KILLS:
                topics[0].put_in_transaction(["never", "seen"], commit=False)
                goals = [job.epoch() + chance.randint(0, 3) for job in jobs]
                for job, goal in zip(jobs, goals, strict=True):
                    wait_until(lambda job=job, goal=goal: job.epoch() >= goal, f"seed {seed}: no epochs after {died}")
                time.sleep(chance.uniform(0.0, 0.2))  # in the middle of something
                died.append(chance.choice(list(WHAT_DIES)))
                drivers, broker = WHAT_DIES[died[-1]]
                for place in drivers:
                    jobs[place].kill()
                if broker:
                    node.kill()
                    time.sleep(chance.uniform(0.0, 2.0))
                    node.start()
                for place in drivers:  # perhaps before the broker answers
                    jobs[place].start()
                node.wait()
                killed += len(drivers) + broker
        assert not writer.failed
        last = topics[-1]
        wait_until(lambda: ends_at(jobs, last, writer.acknowledged), f"seed {seed}: no end after {died}", pause=1.0)
        for job in jobs:
            job.stop()
        found = [message.value().decode() for message in committed(last.servers, last.name)]
    assert killed >= KILLS
    check_chain(writer.acknowledged, found)


def ends_at(jobs: list[Job], topic: Topic, written: list[str]) -> bool:
    """Whether as many records are in a topic as were written; the jobs have to be up."""
    for job in jobs:
        job.keep_up()
    return len(committed(topic.servers, topic.name)) >= len(written)


def wait_until(holds: Callable[[], bool], otherwise: str, pause: float = 0.05) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(pause)
