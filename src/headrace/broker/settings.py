"""What the nodes of a local Kafka are told: small, quick to start, and with replicas where there are several nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HOST: Final = "127.0.0.1"

JAVA_OPTIONS: Final = (
    "-Xms64m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts a third sooner; brokers of this size are limited by disks and clients
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)

_SETTINGS: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,  # a killed node is not taken back before
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "log.retention.ms": -1,  # brokers go by records' own timestamps: old data would vanish within minutes
}
"""Beside the names and addresses of nodes."""

_REPLICATED: Final = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
_IN_SYNC: Final = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Where a node is.

    Attributes:
        node_id: its number, from 1.
        port: where clients connect to.
        controller_port: where the nodes agree on what the cluster is.
    """

    node_id: int
    port: int
    controller_port: int


def node_settings(
    node: NodeAddress, nodes: Sequence[NodeAddress], data: Path, more: Mapping[str, str]
) -> dict[str, object]:
    """The settings of one node.

    Args:
        node: the node.
        nodes: all of them.
        data: where it keeps its data.
        more: settings that are added, or replace others.
    """
    replicas = min(3, len(nodes))
    voters = ",".join(f"{each.node_id}@{HOST}:{each.controller_port}" for each in nodes)
    return {
        **_SETTINGS,
        "node.id": node.node_id,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}",
        "log.dirs": data,
        **{f"{name}.replication.factor": replicas for name in _REPLICATED},
        **dict.fromkeys(_IN_SYNC, max(1, replicas - 1)),
        **more,
    }


def properties(settings: Mapping[str, object]) -> str:
    """The settings as a file of Java's properties, which takes a backslash for an escape."""
    return "".join(f"{key}={str(value).replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items())
