"""What the driver knows of where streams lie, and how it hears of changes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.connectors.kafka.clients import ClientSettings, check_properties
from headrace.connectors.kafka.dynamic.metadata import checked_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headrace.connectors.kafka.dynamic.metadata import (
        ClusterMetadata,
        KafkaMetadataService,
        KafkaStream,
        KafkaStreamSubscriber,
    )
    from headrace.connectors.source import Json


T = TypeVar("T")

PATIENCE_SECONDS: Final = 3.0
"""How long an epoch waits for an answer; then it goes on without, until it has come."""
PATIENCE_AFTER_FAILURE_SECONDS: Final = 0.1
"""How long it waits for one that has failed before."""


class RepeatedCalls(Generic[T]):
    """One call after the other, each on a thread of its own, which does not keep the process from ending.

    Args:
        name: that of the threads.

    Attributes:
        failures: how many have failed in a row.
    """

    def __init__(self, name: str) -> None:
        self.failures = 0
        self._name = name
        self._future: Future[T] | None = None
        self._is_late = False

    @property
    def is_under_way(self) -> bool:
        """Whether there is a call whose answer was not taken."""
        return self._future is not None

    def begin(self, call: Callable[[], T]) -> None:
        """Begin a call, unless one is under way."""
        if self._future is None:
            self._future = Future()
            Thread(target=_run, args=(call, self._future), name=self._name, daemon=True).start()

    def has_answer(self, *, waits: bool = False) -> bool:
        """Whether there is an answer to take; it is waited for a little, but not again where it was late before.

        Args:
            waits: wait for it, however long.
        """
        if self._future is None:
            return False
        self._is_late = not wait_for([self._future], None if waits else self._patience()).done
        return not self._is_late

    def take(self) -> T:
        """What the call has given, or raises what it has raised."""
        assert self._future is not None, "only what is there is taken"
        future, self._future = self._future, None
        self.failures += 1
        answer = future.result()
        self.failures = 0
        return answer

    def failed(self) -> str:
        """The middle of a message: that it has failed, and how often in a row."""
        return "has failed" if self.failures == 1 else f"has failed {self.failures} times in a row"

    def then(self, action: Callable[[], None]) -> None:
        """Do something once nothing is under way, on the thread of what is."""
        if self._future is None:
            action()
        else:
            self._future.add_done_callback(lambda _: action())

    def _patience(self) -> float:
        if self._is_late:
            return 0.0
        return PATIENCE_AFTER_FAILURE_SECONDS if self.failures else PATIENCE_SECONDS


def _run(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # whoever takes the answer hears of it
        future.set_exception(error)


INTERVAL: Final = "stream-metadata-discovery-interval-ms"
THRESHOLD: Final = "stream-metadata-discovery-failure-threshold"
RETENTION: Final = "stream-metadata-removed-cluster-retention-ms"
MODE: Final = "stream-enumerator-mode"
OPTIONS: Final = (INTERVAL, THRESHOLD, RETENTION, MODE)


_PREFIX: Final = "client.id.prefix"
_NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class ClusterPiece:
    """A range of offsets of a partition of a cluster.

    Attributes:
        cluster: the id of the cluster.
        properties: what the metadata says about clients of it. Not shown.
        partition: the partition, as ``topic-partition``.
        start: the first offset.
        end: the offset behind the last one.
    """

    cluster: str
    properties: Mapping[str, str] = field(repr=False)
    partition: str
    start: int
    end: int

    @classmethod
    def last(cls, cluster: str, properties: Mapping[str, str], partition: str) -> Self:
        """The piece of a partition that is not read any more: its task lets go of the connections."""
        return cls(cluster, properties, partition, _NOWHERE, _NOWHERE)

    @property
    def is_last(self) -> bool:
        """Whether nothing is read any more."""
        return self.end == _NOWHERE

    def to_json(self) -> Json:
        """For the tasks."""
        return [self.cluster, dict(self.properties), self.partition, self.start, self.end]


def cluster_settings(properties: Mapping[str, str], cluster: str, told: Mapping[str, str]) -> ClientSettings:
    """How a cluster is reached: as the source says, and where the metadata has told something, so.

    Raises:
        ConfigurationError: when nobody says where it is, or a setting is for the source to decide.
    """
    merged = {**properties, **told}
    check_properties(merged)
    if "bootstrap.servers" not in merged:
        raise ConfigurationError(
            f"the metadata service has no 'bootstrap.servers' for cluster {cluster!r}: add them to its properties"
        )
    if _PREFIX in merged:
        merged[_PREFIX] = f"{merged[_PREFIX]}-{cluster}"
    return ClientSettings(merged)


logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamSubscription:
    """Which streams are read, and who tells where they lie.

    Attributes:
        subscriber: which.
        service: tells.
        interval: after how many milliseconds it is asked again; None for never.
    """

    subscriber: KafkaStreamSubscriber
    service: KafkaMetadataService
    interval: int | None


class StreamTopology:
    """The clusters of the streams that a source reads, as a metadata service tells now and then.

    Args:
        subscription: which streams, and who tells.
        properties: settings of all clients.
        threshold: how often in a row the service may fail, once it has answered.
        goes_on: whether the job has run before, so that whatever is wrong with the service may have been right then.
    """

    def __init__(
        self, subscription: StreamSubscription, properties: Mapping[str, str], threshold: int, *, goes_on: bool = False
    ) -> None:
        self._service = subscription.service
        self._subscriber = subscription.subscriber
        self._interval = subscription.interval
        self._properties = properties
        self._threshold = threshold
        self._goes_on = goes_on
        self._lock = Lock()
        self._calls: RepeatedCalls[dict[str, ClusterMetadata]] = RepeatedCalls("streams of Kafka")
        self._asked_at: int | None = None
        self._known: Mapping[str, ClusterMetadata] | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether nobody asks for changes any more."""
        return self._known is not None and self._interval is None

    def clusters(self, now: int) -> Mapping[str, ClusterMetadata]:
        """The clusters by id, each with all topics that are to be read of it.

        Args:
            now: the reading of the job's clock in milliseconds.

        Raises:
            InfrastructureError: when the service fails, and nothing is known yet, or it did so once too often.
            Exception: when a job that starts for the first time cannot use what the service says, or it has raised
                something else than a passing fault.
        """
        if not self._calls.is_under_way and self._is_time_to_ask(now):
            self._asked_at = now
            self._calls.begin(self._told)
        if self._calls.has_answer(waits=self._known is None):
            self._take()
        assert self._known is not None, "the first answer is waited for"
        return self._known

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Whether the service wants a cluster to be read; where it fails, as before."""
        try:
            with self._lock:
                return self._service.is_cluster_active(cluster_id)
        except Exception as error:  # that of the cluster, which is why it is asked, is the one to tell
            logger.warning("%s does not say whether cluster %r is active: %r", self._name, cluster_id, error)
            return True

    def close(self) -> None:
        """Close the service; where it is in use, later."""
        self._calls.then(self._service.close)

    @property
    def _name(self) -> str:
        return f"the metadata service {type(self._service).__name__}"

    def _is_time_to_ask(self, now: int) -> bool:
        if self._asked_at is None:
            return True
        return self._interval is not None and now - self._asked_at >= self._interval

    def _told(self) -> dict[str, ClusterMetadata]:
        with self._lock:
            streams = self._subscriber.get_subscribed_streams(self._service)
        found = clusters_of(checked_streams(streams, self._subscriber))
        for name, metadata in found.items():
            cluster_settings(self._properties, name, metadata.properties)
        return found

    def _take(self) -> None:
        """Take the answer that has come."""
        try:
            known, self._known = self._known, self._calls.take()
        except Exception as error:
            self._fail(error)
            return
        if not self._known and known != self._known:
            logger.warning("%s knows no cluster of %s: nothing is read until it does", self._name, self._subscriber)

    def _fail(self, error: Exception) -> None:
        if self._known is None:
            if not (self._goes_on or isinstance(error, OSError | InfrastructureError)):
                raise error
            raise InfrastructureError(f"{self._name} has failed: {_told(error)}") from error
        told = f"{self._name} {self._calls.failed()} ({THRESHOLD!r} is {self._threshold})"
        if self._calls.failures > self._threshold:
            raise InfrastructureError(f"{told}: {_told(error)}") from error
        logger.warning("%s, and what it said last goes on: %s", told, _told(error))


def _told(error: Exception) -> str:
    """What a service, or whoever it has asked, says."""
    return str(error) if isinstance(error, HeadraceError | OSError) else f"{type(error).__name__}: {error}"


def clusters_of(streams: Collection[KafkaStream]) -> dict[str, ClusterMetadata]:
    """The clusters of some streams by id, each with the topics of all of them.

    Raises:
        ConfigurationError: when two streams have different settings or offsets for one cluster.
    """
    found: dict[str, ClusterMetadata] = {}
    for stream in sorted(streams, key=lambda each: each.stream_id):
        for cluster_id, metadata in stream.cluster_metadata_map.items():
            known = found.setdefault(cluster_id, metadata)
            if replace(known, topics=metadata.topics) != metadata:
                raise ConfigurationError(
                    f"stream {stream.stream_id!r} has other properties or offsets for cluster {cluster_id!r} than "
                    "another stream: have the metadata service say the same of a cluster, or give it another id"
                )
            found[cluster_id] = replace(known, topics=frozenset((*known.topics, *metadata.topics)))
    return found
