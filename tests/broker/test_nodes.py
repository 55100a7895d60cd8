"""Nodes of a cluster that end, or do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace import broker
from headrace.broker import KafkaCluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.integration
def test_a_node_whose_others_have_ended_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Alone it would wait for a majority that tells it to leave."""
    cluster = KafkaCluster(tmp_path, brokers=3)
    cluster.start()
    first, *others = cluster.nodes
    for other in others:
        other.kill()
    monkeypatch.setattr(broker, "_STOP_SECONDS", 5.0)
    cluster.stop()
    assert not any(each.is_running for each in cluster.nodes)
    assert f"Kafka's {first} does not end by itself, and is killed" in caplog.text
