"""Topics of the embedded log as benchmarks use them; those of Kafka are tried by ``python -m benchmarks --quick``."""

from __future__ import annotations

import json
import queue
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import payments
from benchmarks.brokers import PARTITIONS, Broker, EmbeddedLog, Kafka
from benchmarks.data import RandomKeys, dataset
from benchmarks.programs.headrace_topics import PAYMENT
from benchmarks.programs.headrace_topics_latency import paced, read
from benchmarks.truth import copied_totals


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return EmbeddedLog(str(tmp_path / "log"))


def test_a_program_is_told_where_topics_are(broker: Broker) -> None:
    assert isinstance(Broker.of(broker.options), EmbeddedLog)
    assert Broker.of({"kafka": "a:1"}).options == Kafka("a:1").options == {"kafka": "a:1"}


def test_payments_are_those_of_the_files_in_their_order(broker: Broker, tmp_path: Path) -> None:
    source = dataset(RandomKeys(2, 500, 10, strings=True), tmp_path)
    topic = payments.fill(broker, source)
    assert payments.output_totals(broker, topic) == pytest.approx(copied_totals(source))
    found = [json.loads(value) for value in broker.values(topic).to_pylist()]
    assert list(found[0]) == list(payments.FIELDS) == list(PAYMENT.field_names)
    of_partitions = [[each["id"] for each in found if each["id"] % PARTITIONS == at] for at in range(PARTITIONS)]
    assert of_partitions == [list(range(at, 1_000, PARTITIONS)) for at in range(PARTITIONS)]
    assert found[0]["card"].startswith("card-")


def test_totals_of_windows(broker: Broker) -> None:
    topic = broker.new_topic("results")
    windows = [{"card": "a", "window_end": 60, "c": 2, "s": 0.5}, {"card": "b", "window_end": 120, "c": 3, "s": 1.5}]
    broker.send(topic, [(json.dumps(each).encode(), 0) for each in windows], 0)
    assert payments.output_totals(broker, topic) == {"rows": 2, "last_end": 120, "count": 5, "sum": 2.0}


def test_records_are_sent_when_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    sent = [(json.loads(value), partition) for value, partition in paced(10, 6)]
    assert [each["sent"] for each, _ in sent] == pytest.approx([100.0, 100.1, 100.2, 100.3, 100.4, 100.5])
    assert [(each["number"], partition) for each, partition in sent] == [(n, n % PARTITIONS) for n in range(6)]


def test_a_reader_tells_when_each_result_came(broker: Broker) -> None:
    topic = broker.new_topic("results")
    broker.send(topic, [(f"{number} {number + 1} 1.5".encode(), number % PARTITIONS) for number in range(8)], 0)
    found: queue.Queue[Any] = queue.Queue()
    before = time.time()
    read(broker.options, topic, 8, found)
    numbers, counts, sent, seen = found.get()
    assert sorted(numbers) == list(range(8))
    assert (counts == numbers + 1).all()
    assert (sent == 1.5).all()
    assert ((before <= seen) & (seen <= time.time())).all()
