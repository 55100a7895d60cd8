"""What the nodes of a local Kafka are told."""

from __future__ import annotations

from pathlib import Path

from headrace.broker import NodeAddress, node_settings, properties

NODES = [NodeAddress(number, 9000 + number, 9100 + number) for number in (1, 2, 3)]


def test_one_node_has_no_replicas() -> None:
    settings = node_settings(NODES[0], NODES[:1], Path("/data"), {})
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:9101"
    assert settings["default.replication.factor"] == settings["transaction.state.log.replication.factor"] == 1
    assert settings["min.insync.replicas"] == 1


def test_of_three_nodes_one_may_fail() -> None:
    settings = node_settings(NODES[1], NODES, Path("/data"), {})
    assert settings["node.id"] == 2
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9002"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103"
    assert settings["offsets.topic.replication.factor"] == 3
    assert settings["transaction.state.log.min.isr"] == 2


def test_what_is_asked_for_wins() -> None:
    assert node_settings(NODES[0], NODES, Path("/data"), {"num.io.threads": "9"})["num.io.threads"] == "9"


def test_backslashes_are_those_of_properties() -> None:
    assert properties({"log.dirs": "C:\\data", "node.id": 1}) == "log.dirs=C:\\\\data\nnode.id=1\n"
