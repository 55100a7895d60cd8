"""Connections to Kafka that break at each kind of request: each record is there once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("jgo")

from headrace.broker import KafkaCluster
from headrace.connectors.kafka.transactions import Marker, Publisher
from tests.connectors.kafka.broker_proxy import BrokerProxy, Fault, Request, broker_behind_proxy
from tests.connectors.kafka.topics import Topic
from tests.reliability.support.kafka_sinks import check, kafka_job, staged_files
from tests.reliability.support.small_jobs import CrashError

pytestmark = [pytest.mark.slow, pytest.mark.integration]

RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"}
RESTARTS |= {"restart-strategy.fixed-delay.delay": "10ms"}
OF_PUBLISHERS = [
    Request.PRODUCE,
    Request.OFFSET_FETCH,
    Request.INIT_PRODUCER_ID,
    Request.ADD_PARTITIONS_TO_TXN,
    Request.ADD_OFFSETS_TO_TXN,
    Request.TXN_OFFSET_COMMIT,
    Request.END_TXN,
]
THIRD = 3
"""Two publishers have claimed their ids by the first ones."""


@dataclass(frozen=True)
class Proxied:
    """A broker that is reached by a proxy.

    Attributes:
        cluster: the broker; its own servers are for the test.
        proxy: what the job's clients are sent to.
        servers: where they are.
    """

    cluster: KafkaCluster
    proxy: BrokerProxy
    servers: str


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with broker_behind_proxy(tmp_path_factory.mktemp("proxied")) as (cluster, proxy, servers):
        yield Proxied(cluster, proxy, servers)


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST])
@pytest.mark.parametrize("request_", OF_PUBLISHERS, ids=lambda kind: kind.name.lower())
def test_a_request_of_a_publisher_that_gets_lost(
    request_: Request, fault: Fault, proxied: Proxied, tmp_path: Path
) -> None:
    topic = Topic(proxied.servers, partitions=4)
    number = 1 if request_ in (Request.INIT_PRODUCER_ID, Request.OFFSET_FETCH) else THIRD
    proxied.proxy.arm(request_, number, fault)
    kafka_job(tmp_path, topic.servers, topic.name, RESTARTS).run()
    assert proxied.proxy.struck.pop() == (request_, number, fault)
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []


@pytest.mark.parametrize("number", [THIRD, THIRD + 3])
@pytest.mark.parametrize("request_", [Request.END_TXN, Request.TXN_OFFSET_COMMIT], ids=lambda kind: kind.name.lower())
def test_a_request_that_is_done_again_in_the_middle_of_a_later_transaction(
    request_: Request, number: int, proxied: Proxied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would commit messages without their marker, or set the marker back; and then the driver dies."""
    topic = Topic(proxied.servers, partitions=4)
    job = kafka_job(tmp_path, topic.servers, topic.name, RESTARTS, {"client.id.prefix": "small"})
    late, mark, commit = proxied.proxy.late, Publisher._mark, Publisher._commit

    def die_if_it_came() -> None:
        if proxied.proxy.late > late:
            raise CrashError

    def marking(publisher: Publisher, marker: Marker) -> None:
        publisher._sender.flush()
        die_if_it_came()
        mark(publisher, marker)

    def committing(publisher: Publisher) -> None:
        commit(publisher)
        die_if_it_came()

    proxied.proxy.arm(request_, number, Fault.LATE)
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_mark", marking)
        patch.setattr(Publisher, "_commit", committing)
        job.crash()
    assert proxied.proxy.struck.pop() == (request_, number, Fault.LATE)
    assert proxied.proxy.late == late + 1
    job.run()
    check(topic.servers, topic.name)
    assert staged_files(tmp_path) == []
