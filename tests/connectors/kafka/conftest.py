"""What tests of Kafka sinks with transactions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.broker import KafkaCluster
    from tests.connectors.kafka.topics import Topic
    from tests.connectors.kafka.transactional_sink import ByHand


@pytest.fixture
def topic(kafka: KafkaCluster) -> Topic:
    from tests.connectors.kafka.topics import Topic  # which needs the client of Kafka

    return Topic(kafka.bootstrap_servers, partitions=2)


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even few messages are staged in files."""
    from headrace.connectors.kafka import writer

    monkeypatch.setattr(writer, "_IN_MANIFEST_BYTES", 0)


@pytest.fixture
def by_hand(topic: Topic, tmp_path: Path, in_files: None) -> ByHand:
    from headrace.storage.folder import posix_folder
    from tests.connectors.kafka.transactional_sink import ByHand, to

    folder = posix_folder(tmp_path / "staged")
    folder.make()
    return ByHand(to(topic).build(), folder, topic.name)
