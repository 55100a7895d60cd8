"""Drivers, tasks and brokers stand still for longer than transactions last, and go on: each record is there once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("jgo")

from headrace.broker import KafkaCluster
from tests.connectors.kafka.topics import Topic
from tests.forks import Forks
from tests.processes import PATIENCE, Launcher, Running
from tests.reliability.support.faults import FaultPlan
from tests.reliability.support.kafka_sinks import IN_TASKS, OFTEN, Place, check, kafka_job, staged_files

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(3600)]

MILLIS = 1_000
"""How long a transaction may take; a shorter one librdkafka refuses."""

LONGER = 2.0
"""Seconds after which brokers have aborted it."""

WITH_TRANSACTIONS = OFTEN[2:]
"""Steps around which one is open."""


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that aborts what takes too long at once."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with KafkaCluster(tmp_path_factory.mktemp("strict"), settings=settings) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", range(4))
def test_drivers_that_stand_still(seed: int, strict: KafkaCluster, forks: Forks, tmp_path: Path) -> None:
    """The process is stopped, threads of librdkafka as well; what was open is aborted when it wakes up."""
    chance = random.Random(seed)
    topic = Topic(strict.bootstrap_servers, partitions=4)
    places = [Place.any_of(chance, WITH_TRANSACTIONS, 20) for _ in range(5)]
    how = [chance.randint(1, 3), seed % 2 == 1, MILLIS, "SIGSTOP"]
    arguments = [each for place in places for each in place.arguments]
    driver = forks.start("kafka_sink", tmp_path, topic.servers, topic.name, *how, *arguments)
    while driver.code is None:
        if driver.stands_still:
            time.sleep(LONGER)
            driver.go_on()
        time.sleep(0.02)
    ended = driver.wait()
    assert ended.code == 0, f"seed {seed}, {places}: {ended}"
    assert ended.output.count("SIGSTOP") >= 3  # not behind a step that fails, as it has stood still before it
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_driver_that_stands_still_while_another_one_takes_over(
    seed: int, strict: KafkaCluster, forks: Forks, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    topic = Topic(strict.bootstrap_servers, partitions=4)
    place = Place.any_of(chance, OFTEN, 20)
    job = [tmp_path, topic.servers, topic.name, 2, seed % 2 == 1, MILLIS]
    zombie = forks.start("kafka_sink", *job, "SIGSTOP", *place.arguments)
    zombie.wait_until_it_stands_still()
    ended = forks.start("kafka_sink", *job).wait()
    assert ended.code == 0, f"seed {seed}, {place}: {ended}"
    check(topic.servers, topic.name)
    zombie.go_on()
    ended = zombie.wait()
    assert ended.code == 1, f"seed {seed}, {place}: {ended}"
    assert "JobSupersededError" in ended.errors, f"seed {seed}, {place}: {ended}"
    check(topic.servers, topic.name)


@pytest.mark.parametrize("seed", range(3))
def test_drivers_that_stand_still_at_any_moment(seed: int, strict: KafkaCluster, forks: Forks, tmp_path: Path) -> None:
    """In the middle of a step, that is: between a request and its answer, while a file is written."""
    chance = random.Random(seed)
    topic = Topic(strict.bootstrap_servers, partitions=4)
    driver = forks.start("kafka_sink", tmp_path, topic.servers, topic.name, 2, seed % 2 == 1, MILLIS)
    wait_for_first_epoch(driver, tmp_path)
    pauses = 0
    while driver.code is None and pauses < 10:
        driver.stand_still()
        time.sleep(chance.choice([0.1, LONGER]))
        driver.go_on()
        pauses += 1
        time.sleep(chance.uniform(0.0, 0.5))
    ended = driver.wait()
    assert ended.code == 0, f"seed {seed}: {ended}"
    assert pauses > 3
    check(topic.servers, topic.name)


def test_tasks_that_stand_still(strict: KafkaCluster, programs: Launcher, plan: FaultPlan, tmp_path: Path) -> None:
    """Workers of Spark that publish; a task goes on with a transaction that brokers have aborted."""
    topic = Topic(strict.bootstrap_servers, partitions=4)
    for step in IN_TASKS:
        plan.arm(f"before-{step}", 3).arm(f"after-{step}", 6)
    job = [tmp_path, topic.servers, topic.name, tmp_path / "faults", "SIGSTOP", MILLIS]
    driver = programs.start("kafka_sink_on_spark", *job)
    woken = 0
    while driver.code is None:
        for worker in stopped_below(driver):
            time.sleep(LONGER)
            worker.resume()
            woken += 1
        time.sleep(0.1)
    ended = driver.wait()
    assert ended.code == 0, ended
    assert plan.happened == plan.planned
    assert woken >= len(plan.planned) == 10
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


@pytest.mark.parametrize("seed", range(8))
def test_a_broker_that_stands_still_while_a_job_publishes(
    seed: int, strict: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    topic = Topic(strict.bootstrap_servers, partitions=4)
    (node,) = strict.nodes
    place = Place.any_of(chance, OFTEN, 8)
    goes_on = threading.Timer(chance.choice([0.3, LONGER, 4.0]), node.resume)

    def pause() -> None:
        node.pause()
        goes_on.start()

    with monkeypatch.context() as patch:
        place.act(pause, patch.setattr)
        kafka_job(tmp_path, topic.servers, topic.name, properties={"transaction.timeout.ms": str(MILLIS)}).run()
    assert goes_on.finished.wait(PATIENCE), f"seed {seed}: nothing stood still at {place}"
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


def wait_for_first_epoch(driver: Running, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not list((folder / "checkpoints" / "manifests").glob("[0-9]*.json")):
        assert driver.code is None, driver.wait()
        assert time.monotonic() < end, driver.kill()
        time.sleep(0.02)


def stopped_below(driver: Running) -> list[psutil.Process]:
    """The processes below a driver that a signal has stopped."""
    found = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        try:
            if process.status() == psutil.STATUS_STOPPED:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
