"""``KafkaCluster``: one node, or several for failures of some."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from headrace.broker.node import HOST, BrokerNode, NodeAddress, broker_jars, node_settings
from headrace.common.durable import write_file
from headrace.common.errors import ConfigurationError, InfrastructureError
from headrace.common.java import bundled_java_home, cache_directory, find_java

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_NOTHING: Final[Mapping[str, str]] = {}


class KafkaCluster:
    """A Kafka on this machine, in KRaft mode. Data and addresses stay where they are from one start to the next.

    Used as a context manager it is started, and stopped at the end. It can be reached from this machine alone.

    Args:
        folder: everything that it keeps; a new cluster is made where there is none.
        brokers: how many nodes a new cluster gets; with three, every topic has three replicas of which two have to be
            in sync.
        port: where the first node of a new cluster takes clients; any that is free when None.
        settings: settings of brokers beside its own, or instead of them.

    Attributes:
        nodes: the nodes.
        bootstrap_servers: what clients are given.

    Raises:
        ConfigurationError: when jgo is missing, which fetches Kafka, or the cluster has another number of nodes.
        InfrastructureError: when Kafka cannot be fetched.
        JavaNotFoundError: when there is no usable Java.
    """

    def __init__(
        self, folder: Path, brokers: int = 1, port: int | None = None, settings: Mapping[str, str] = _NOTHING
    ) -> None:
        self._folder = folder.absolute()
        self._more = settings
        description = _read(self._folder) or _new(self._folder, brokers, port)
        addresses = description.nodes
        if len(addresses) != brokers:
            raise ConfigurationError(
                f"the Kafka in {folder} has {len(addresses)} brokers, not {brokers}: give it another folder, or remove "
                "that one"
            )
        if port not in (None, addresses[0].port):
            raise ConfigurationError(f"the Kafka in {folder} is at port {addresses[0].port}, not {port}")
        self._cluster_id = description.cluster_id
        java = find_java(os.environ, bundled_java_home(), "Kafka").home / "bin" / "java"
        jars = broker_jars(cache_directory(os.environ) / "kafka")
        self.nodes = [BrokerNode(each, self._folder / f"node-{each.node_id}", java, jars) for each in addresses]
        self.bootstrap_servers = ",".join(f"{HOST}:{each.port}" for each in addresses)

    @classmethod
    def existing(cls, folder: Path) -> Self:
        """The cluster in a folder, running or not.

        Raises:
            ConfigurationError: when there is none.
        """
        description = _read(folder)
        if description is None:
            raise ConfigurationError(f"there is no Kafka in {folder}: make one by headrace kafka start")
        return cls(folder, len(description.nodes))

    @property
    def is_running(self) -> bool:
        """Whether any node runs, whoever has started it."""
        return any(node.is_running for node in self.nodes)

    def start(self, *, detached: bool = False) -> None:
        """Start all nodes, and wait until they take requests.

        Args:
            detached: whether they outlive this process; if not, they end however this process ends.

        Raises:
            InfrastructureError: when the cluster runs already or does not come up; none of its nodes runs then that
                did not before.
        """
        if self.is_running:
            raise InfrastructureError(f"the Kafka in {self._folder} runs already, at {self.bootstrap_servers}")
        addresses = [node.address for node in self.nodes]

        def prepare(node: BrokerNode) -> None:
            node.prepare(self._cluster_id, node_settings(node.address, addresses, node.data, self._more))

        with ThreadPoolExecutor() as pool:
            list(pool.map(prepare, self.nodes))
        with ExitStack() as started:
            started.callback(self.stop)
            for node in self.nodes:
                node.start(detached=detached)
            for node in self.nodes:
                node.wait()
            started.pop_all()

    def stop(self) -> None:
        """End all nodes; what was acknowledged is there again after :meth:`start`."""
        for node in self.nodes:  # all at once: the last ones alone could not agree on anything any more
            node.ask_to_stop()
        for node in self.nodes:
            node.stop()

    def remove(self) -> None:
        """End all nodes, and delete what they have kept."""
        self.stop()
        for node in self.nodes:
            shutil.rmtree(node.data.parent, ignore_errors=True)
        _description(self._folder).unlink()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@dataclass(frozen=True, slots=True)
class _Description:
    """What a cluster is from one start to the next.

    Attributes:
        cluster_id: what its nodes know each other by.
        nodes: where they are.
    """

    cluster_id: str
    nodes: list[NodeAddress]


def _description(folder: Path) -> Path:
    return folder / "cluster.json"


def _read(folder: Path) -> _Description | None:
    try:
        found = json.loads(_description(folder).read_text())
    except FileNotFoundError:
        return None
    return _Description(found["cluster_id"], [NodeAddress(**each) for each in found["nodes"]])


def _new(folder: Path, brokers: int, port: int | None) -> _Description:
    """Describe a cluster that is not there yet."""
    free = _free_ports(2 * brokers)
    if port is not None:
        free[0] = port
    nodes = [NodeAddress(number + 1, free[2 * number], free[2 * number + 1]) for number in range(brokers)]
    # A minus at the front would look like an option
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    description = _Description(cluster_id, nodes)
    folder.mkdir(parents=True, exist_ok=True)
    write_file(_description(folder), [json.dumps(asdict(description)).encode()], durable=False)
    return description


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens to now, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
