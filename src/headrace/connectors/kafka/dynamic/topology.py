"""What the driver knows of where streams lie, and how it hears of changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError, InvalidProgramError
from headrace.common.logs import get_logger
from headrace.connectors.kafka.dynamic.background import BackgroundCall
from headrace.connectors.kafka.dynamic.cluster_reading import PATIENCE_SECONDS, THRESHOLD
from headrace.connectors.kafka.dynamic.pieces import cluster_settings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.connectors.kafka.dynamic.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream
    from headrace.connectors.kafka.dynamic.subscribers import KafkaStreamSubscriber

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
    """

    def __init__(self, subscription: StreamSubscription, properties: Mapping[str, str], threshold: int) -> None:
        self._service = subscription.service
        self._subscriber = subscription.subscriber
        self._interval = subscription.interval
        self._properties = properties
        self._threshold = threshold
        self._lock = Lock()
        self._asked: BackgroundCall[dict[str, ClusterMetadata]] | None = None
        self._asked_at: int | None = None
        self._is_late = False
        self._failures = 0
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
            ConfigurationError: when what it tells at first cannot be.
        """
        if self._asked is None and self._is_time_to_ask(now):
            self._asked_at = now
            self._asked = BackgroundCall(self._told, "streams of Kafka")
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
        if self._asked is None:
            self._service.close()
        else:
            self._asked.then(self._service.close)

    @property
    def _name(self) -> str:
        return f"the metadata service {type(self._service).__name__}"

    def _is_time_to_ask(self, now: int) -> bool:
        if self._asked_at is None:
            return True
        return self._interval is not None and now - self._asked_at >= self._interval

    def _told(self) -> dict[str, ClusterMetadata]:
        with self._lock:
            found = clusters_of(self._subscriber.get_subscribed_streams(self._service))
        for name, metadata in found.items():
            cluster_settings(self._properties, name, metadata.properties)
        return found

    def _take(self) -> None:
        """Take an answer that has come; only the first one is waited for, however long."""
        if self._asked is None:
            return
        patience = 0.0 if self._is_late else PATIENCE_SECONDS
        self._is_late = not self._asked.is_over(None if self._known is None else patience)
        if self._is_late:
            return
        asked, self._asked = self._asked, None
        try:
            self._known = asked.result()
            self._failures = 0
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failures += 1
        told = f"{self._name} has failed {self._failures} times in a row: "
        told += f"{error if isinstance(error, HeadraceError) else repr(error)}"
        if self._known is None and isinstance(error, ConfigurationError | InvalidProgramError):
            raise error
        if self._known is None or self._failures > self._threshold:
            raise InfrastructureError(f"{told} ({THRESHOLD!r} is {self._threshold})") from error
        logger.warning("%s; what it said last goes on, %d failures in a row are let pass", told, self._threshold)


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
