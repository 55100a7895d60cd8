"""A real Kafka on this machine, for trying things out and for tests."""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from headrace.common.durable import write_file
from headrace.common.errors import ConfigurationError, InfrastructureError
from headrace.common.java import bundled_java_home, cache_directory, find_java
from headrace.common.logs import get_logger

logger = get_logger(__name__)

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


class NodeAddress(NamedTuple):
    """The address of a node.

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


_START_SECONDS: Final = 120
_STOP_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.05
_SHOWN_LINES: Final = 15

# Kafka runs as a child of a shell that ends it when nobody holds the other end of its standard input any more:
# that is so however the process ends that has started it.
_WATCHED: Final = """\
exec 3<&0
"$@" </dev/null 3<&- &
kafka=$!
{ cat <&3; kill "$kafka"; } >/dev/null 2>&1 &
wait "$kafka"
"""


class BrokerNode:
    """One node of a local Kafka.

    Args:
        address: where it is.
        folder: what is its own: settings, data, log, number of its process.
        java: the ``java`` that runs it.
        jars: Kafka's.

    Attributes:
        address: where it is.
    """

    def __init__(self, address: NodeAddress, folder: Path, java: Path, jars: Sequence[Path]) -> None:
        self.address = address
        self._folder = folder
        self._java = java
        self._class_path = ":".join(map(str, jars))
        self._process: subprocess.Popen[bytes] | None = None
        self._signalled: int | None = None

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self._folder / "data"

    @property
    def log(self) -> Path:
        """The file that it logs to."""
        return self._folder / "server.log"

    def prepare(self, cluster_id: str, settings: Mapping[str, object]) -> None:
        """Write its settings, and make its data folder if there is none.

        Raises:
            InfrastructureError: when Kafka does not take the settings.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        write_file(self._settings, [properties(settings).encode()], durable=False)
        if (self.data / "meta.properties").exists():
            return
        arguments = ["format", "--cluster-id", cluster_id, "--config", str(self._settings)]
        command = [*self._command("kafka.tools.StorageTool"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise InfrastructureError(f"Kafka refuses its settings: {(done.stderr + done.stdout).strip()}")

    def start(self, *, detached: bool = False) -> None:
        """Start its process; :meth:`wait` waits until it takes requests.

        Args:
            detached: whether it outlives this process; if not, it ends however this process ends.
        """
        command = [*self._command("kafka.Kafka"), str(self._settings)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command if detached else ["/bin/sh", "-c", _WATCHED, "sh", *command],
                stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        write_file(self._pid, [str(self._process.pid).encode()], durable=False)

    def wait(self) -> None:
        """Wait until it takes requests.

        Raises:
            InfrastructureError: when it ends instead, or takes too long; the message has the end of its log.
        """
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process is not None and self._process.poll() is not None:
                raise InfrastructureError(f"Kafka's {self} has ended: {self._end_of_log()}")
            if time.monotonic() > end:
                raise InfrastructureError(f"Kafka's {self} is not up after {_START_SECONDS} s: {self._end_of_log()}")
            time.sleep(_POLL_SECONDS)

    @property
    def is_running(self) -> bool:
        """Return whether any process works on its data."""
        try:
            with (self.data / ".lock").open("r+b") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def ask_to_stop(self) -> None:
        """Ask it to shut down."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        else:
            self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Shut it down, by force if it waits for nodes of its cluster that have ended before.

        Raises:
            InfrastructureError: when it does not end.
        """
        self.ask_to_stop()
        if not self._ends():
            logger.warning("Kafka's %s does not end by itself, and is killed: the others may have ended before", self)
            self.kill()

    def kill(self) -> None:
        """Kill it, as if the machine had failed."""
        self._signal(signal.SIGKILL)
        if not self._ends():
            raise InfrastructureError(f"Kafka's {self} does not end: kill process group {self._pid.read_text()}")

    def pause(self) -> None:
        """Suspend it, as if the machine hung."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume it after :meth:`pause`."""
        self._signal(signal.SIGCONT)

    def __str__(self) -> str:
        return f"node {self.address.node_id} at {HOST}:{self.address.port}"

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _pid(self) -> Path:
        return self._folder / "pid"

    @property
    def _lives(self) -> bool:
        return self.is_running or (self._process is not None and self._process.poll() is None)

    def _command(self, main: str) -> list[str]:
        return [str(self._java), *JAVA_OPTIONS, "-cp", self._class_path, main]

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.address.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        if not self._lives:  # its number may be another process's by now
            return
        self._signalled = int(self._pid.read_text())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._signalled, number)

    def _ends(self) -> bool:
        """Wait until it has ended; False when it does not."""
        end = time.monotonic() + _STOP_SECONDS
        while self._lives or self._leaves():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        return True

    def _leaves(self) -> bool:
        """Tell whether the process that was signalled is still there: it unlocks its data before it ends."""
        if self._signalled is None:
            return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._signalled, os.WNOHANG)  # a child of this process would stay as a zombie
        try:
            os.killpg(self._signalled, 0)
        except ProcessLookupError:
            self._signalled = None
        return self._signalled is not None

    def _end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        return "\n  ".join([f"the end of {self.log} is", *lines])


KAFKA_VERSION: Final = "4.1.0"

_ENDPOINT: Final = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36"
"""The broker, and what prints its log."""


def broker_jars(cache: Path) -> list[Path]:
    """The jars of a broker; the first time they are fetched, some 40 MB in one to two minutes.

    Args:
        cache: the folder that they are kept in; several processes may use it.

    Raises:
        ConfigurationError: when jgo, which fetches them, is not installed.
        InfrastructureError: when they cannot be fetched.
        OSError: when the folder cannot be written.
    """
    return maven_jars(cache, f"Kafka {KAFKA_VERSION}", _ENDPOINT)


def maven_jars(cache: Path, product: str, endpoint: str) -> list[Path]:
    """The jars of artifacts and of all that they depend on; the first time they are fetched from Maven Central.

    Args:
        cache: the folder that they are kept in; several processes may use it.
        product: the name and version of the product, for messages.
        endpoint: the artifacts, ``group:name:version``, with a plus between them.

    Raises:
        ConfigurationError: when jgo, which fetches them, is not installed.
        InfrastructureError: when they cannot be fetched.
        OSError: when the folder cannot be written.
    """
    listing = cache / f"{product.lower().replace(' ', '-')}.txt"
    found = _listed(listing)
    if found:
        return found
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        found = _listed(listing)
        if not found:
            found = _fetched(cache / "jars", product, endpoint)
            write_file(listing, ["\n".join(map(str, found)).encode()])
    return found


def _listed(listing: Path) -> list[Path]:
    """The jars that a listing names; none when it is not there, or one of them is not."""
    try:
        jars = [Path(line) for line in listing.read_text().splitlines()]
    except FileNotFoundError:
        return []
    return jars if all(jar.is_file() for jar in jars) else []


def _fetched(folder: Path, product: str, endpoint: str) -> list[Path]:
    try:
        import jgo
    except ImportError:
        raise ConfigurationError(
            f"{product} needs jars, and a library that is not installed to fetch them: "
            "pip install 'headrace[kafka-broker]'"
        ) from None
    try:
        return [Path(jar) for jar in jgo.build(endpoint, update=True, cache_dir=folder).all_jars]
    except Exception as error:  # whatever a resolver and its client of HTTP raise
        raise InfrastructureError(
            f"{product} cannot be fetched from Maven Central: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_NOTHING: Final[Mapping[str, str]] = {}

_DESCRIPTION: Final = "cluster.json"


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
        self._cluster_id, addresses = _described(self._folder) or _new(self._folder, brokers, port)
        if len(addresses) != brokers:
            raise ConfigurationError(
                f"the Kafka in {folder} has {len(addresses)} brokers, not {brokers}: give it another folder, or remove "
                "that one"
            )
        if port not in (None, addresses[0].port):
            raise ConfigurationError(f"the Kafka in {folder} is at port {addresses[0].port}, not {port}")
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
        described = _described(folder)
        if described is None:
            raise ConfigurationError(f"there is no Kafka in {folder}: make one by headrace kafka start")
        return cls(folder, len(described[1]))

    @property
    def is_running(self) -> bool:
        """Return whether any node runs."""
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
        """Shut down all nodes; acknowledged messages are there again after :meth:`start`."""
        for node in self.nodes:  # all at once: the last ones alone could not agree on anything any more
            node.ask_to_stop()
        for node in self.nodes:
            node.stop()

    def remove(self) -> None:
        """Shut down all nodes, and delete their data."""
        self.stop()
        for node in self.nodes:
            shutil.rmtree(node.data.parent, ignore_errors=True)
        (self._folder / _DESCRIPTION).unlink()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _described(folder: Path) -> tuple[str, list[NodeAddress]] | None:
    """The id of the cluster in a folder, by which its nodes know each other, and where they are."""
    try:
        cluster_id, nodes = json.loads((folder / _DESCRIPTION).read_text())
    except FileNotFoundError:
        return None
    return cluster_id, [NodeAddress(*each) for each in nodes]


def _new(folder: Path, brokers: int, port: int | None) -> tuple[str, list[NodeAddress]]:
    """Describe a cluster that is not there yet."""
    free = _free_ports(2 * brokers)
    if port is not None:
        free[0] = port
    nodes = [NodeAddress(number + 1, free[2 * number], free[2 * number + 1]) for number in range(brokers)]
    # A minus at the front would look like an option
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / _DESCRIPTION, [json.dumps([cluster_id, nodes]).encode()], durable=False)
    return cluster_id, nodes


def _free_ports(count: int) -> list[int]:
    """Ports on which no process listens now, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
