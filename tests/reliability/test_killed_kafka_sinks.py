"""Drivers, tasks and brokers die between any two steps of publishing: readers see each record once, in order."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("jgo")

from headrace.broker import KafkaCluster
from headrace.common.errors import JobSupersededError
from tests.connectors.kafka.topics import Topic
from tests.forks import Forks
from tests.processes import Launcher
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.kafka_sinks import IN_TASKS, OFTEN, STEPS, Place, check, kafka_job, staged_files
from tests.reliability.support.small_jobs import SmallJob
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3600)]

TWO_MINUTES = 120_000
RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"}
RESTARTS |= {
    "restart-strategy.fixed-delay.delay": "100ms",
    "headrace.epoch.max-records": "50",
    "headrace.epoch.target-duration": "60s",
}


@pytest.mark.parametrize("seed", range(6))
def test_drivers_that_are_killed(seed: int, kafka: KafkaCluster, forks: Forks, tmp_path: Path) -> None:
    """Each goes on where the one before was killed, with other tasks, and publishes in them or in the driver."""
    chance = random.Random(seed)
    topic = Topic(kafka.bootstrap_servers, partitions=4)
    job = [tmp_path, topic.servers, topic.name]
    kills = 12
    for kill in range(kills):
        place = Place.any_of(chance, list(STEPS) if kill else OFTEN, 6)  # nothing is recovered when a job begins
        how = [chance.randint(1, 3), chance.random() < 0.5, TWO_MINUTES]
        ended = forks.start("kafka_sink", *job, *how, "SIGKILL", *place.arguments).wait()
        assert ended.code == -9, f"seed {seed}, kill {kill} at {place}: {ended}"
    ended = forks.start("kafka_sink", *job, 2, False, TWO_MINUTES).wait()
    assert ended.code == 0, f"seed {seed}: {ended}"
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


@pytest.mark.parametrize("seed", range(16))
def test_publishers_that_come_back(
    seed: int, kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver stands still at some step, another one takes over, and the first one wakes up while it publishes."""
    chance = random.Random(seed)
    topic = Topic(kafka.bootstrap_servers, partitions=4)
    stands, wakes = threading.Event(), threading.Event()
    woken: list[Place] = []

    def stand_still() -> None:
        stands.set()
        assert wakes.wait(PATIENCE)

    errors: list[BaseException] = []
    with monkeypatch.context() as patch:
        Place.any_of(chance, OFTEN[1:], 6).act(stand_still, patch.setattr)
        standing = kafka_job(tmp_path, topic.servers, topic.name)
        older = standing.in_background(errors)
        assert stands.wait(PATIENCE)
        wait_until_quiet(standing)
    with monkeypatch.context() as patch:
        place = Place.any_of(chance, OFTEN, 4)

        def wake() -> None:
            woken.append(place)
            wakes.set()
            older.join(chance.choice([0.0, 0.3, PATIENCE]))

        place.act(wake, patch.setattr)
        kafka_job(tmp_path, topic.servers, topic.name, RESTARTS).run()
    older.join(PATIENCE)
    assert len(woken) == 1
    assert [type(error) for error in errors] == [JobSupersededError], errors
    check(topic.servers, topic.name)


def test_tasks_that_are_killed(kafka: KafkaCluster, programs: Launcher, plan: FaultPlan, tmp_path: Path) -> None:
    """Spark runs them again, or the driver has them be run again."""
    topic = Topic(kafka.bootstrap_servers, partitions=4)
    for step in IN_TASKS:
        for side in ("before", "after"):
            plan.arm(f"{side}-{step}", 2, 5)
    job = [tmp_path, topic.servers, topic.name, tmp_path / "faults", "SIGKILL", TWO_MINUTES]
    ended = programs.start("kafka_sink_on_spark", *job).wait()
    assert ended.code == 0, ended
    assert plan.happened == plan.planned
    assert len(plan.happened) == 20
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


def wait_until_quiet(job: SmallJob) -> None:
    """Until too many epochs wait for their sinks, so that nothing happens any more."""
    before = None
    while before != (now := job.epochs()):
        before = now
        time.sleep(1.0)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("one")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("three"), brokers=3) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", range(12))
def test_a_broker_that_is_killed_while_a_job_publishes(
    seed: int, own_broker: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back a moment later, and so does its answer whether the transaction is committed."""
    chance = random.Random(seed)
    topic = Topic(own_broker.bootstrap_servers, partitions=4)
    (node,) = own_broker.nodes
    killed: list[Place] = []
    comes_back = threading.Timer(chance.uniform(0.0, 2.0), node.start)

    def kill() -> None:
        node.kill()
        killed.append(place)
        comes_back.start()

    place = Place.any_of(chance, OFTEN, 8)
    with monkeypatch.context() as patch:
        place.act(kill, patch.setattr)
        kafka_job(tmp_path, topic.servers, topic.name, RESTARTS).run()
    assert killed == [place]
    comes_back.join()
    node.wait()
    check(topic.servers, topic.name)


@pytest.mark.parametrize("seed", range(9))
def test_another_broker_becomes_the_coordinator_while_a_job_publishes(
    seed: int, three_brokers: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node is killed in turn, so also those that lead transactions, markers and partitions."""
    chance = random.Random(seed)
    topic = Topic(three_brokers.bootstrap_servers, partitions=4)
    node = three_brokers.nodes[seed % 3]
    killed: list[Place] = []

    def kill() -> None:
        node.kill()
        killed.append(place)

    place = Place.any_of(chance, OFTEN, 8)
    with monkeypatch.context() as patch:
        place.act(kill, patch.setattr)
        kafka_job(tmp_path, topic.servers, topic.name, RESTARTS).run()
    assert killed == [place]
    node.start()
    node.wait()
    check(topic.servers, topic.name)
