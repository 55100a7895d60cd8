"""The driver's half of a source of several clusters: it hears where streams lie, and follows them."""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import asdict, dataclass, field, replace
from threading import Lock, Thread
from typing import Final, Generic, TypeVar

from headrace.common.errors import ConfigurationError, HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.common.messages import TopicPartition
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.dynamic_metadata import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSubscriber,
    checked_streams,
)
from headrace.connectors.kafka.settings import check_properties
from headrace.connectors.partitions import (
    PartitionedLog,
    PartitionEnumerator,
    ReadingPlan,
    Subscription,
    narrowed_state,
)
from headrace.connectors.source import Json, Pending, ReadBudget, SplitEnumerator, SplitRead

logger = get_logger(__name__)

T = TypeVar("T")

PATIENCE_SECONDS: Final = 3.0
"""An epoch waits so long for an answer; then it goes on without it."""
PATIENCE_AFTER_FAILURE_SECONDS: Final = 0.1
"""An epoch waits so long for a call that has failed before."""


class RepeatedCalls(Generic[T]):
    """Makes one call after the other, each on a daemon thread of its own, so that an epoch need not wait for it.

    Args:
        name: what is called, for errors.
        threshold: how often in a row it may fail.
    """

    def __init__(self, name: str, threshold: int) -> None:
        self.name = name
        self._threshold = threshold
        self._failures = 0
        self._future: Future[T] | None = None
        self._is_late = False

    @property
    def is_under_way(self) -> bool:
        """Tell whether there is a call whose answer was not taken."""
        return self._future is not None

    def begin(self, call: Callable[[], T]) -> None:
        """Begin a call, unless one is under way."""
        if self._future is None:
            self._future = Future()
            Thread(target=_run, args=(call, self._future), name=self.name, daemon=True).start()

    def has_answer(self, *, waits: bool = False) -> bool:
        """Tell whether there is an answer to take; it is waited for a little, but not again where it was late before.

        Args:
            waits: wait for it, however long.
        """
        if self._future is None:
            return False
        self._is_late = not wait_for([self._future], None if waits else self._patience()).done
        return not self._is_late

    def take(self) -> T:
        """Take the result of the call, or raise its error."""
        assert self._future is not None, "only what is there is taken"
        future, self._future = self._future, None
        self._failures += 1
        answer = future.result()
        self._failures = 0
        return answer

    def tolerate(self, error: Exception, meanwhile: str) -> None:
        """Log the error of a call; ``meanwhile`` says what goes on without its answer.

        Raises:
            InfrastructureError: when that was one failure too many.
        """
        times = "" if self._failures == 1 else f" {self._failures} times in a row"
        problem = f"{self.name} has failed{times} ({THRESHOLD!r} is {self._threshold})"
        if self._failures > self._threshold:
            raise InfrastructureError(f"{problem if self._threshold else self.name}: {_text_of(error)}") from error
        logger.warning("%s, and %s: %s", problem, meanwhile, _text_of(error))

    def then(self, action: Callable[[], None]) -> None:
        """Do something once nothing is under way, on the thread of what is."""
        if self._future is None:
            action()
        else:
            self._future.add_done_callback(lambda _: action())

    def _patience(self) -> float:
        if self._is_late:
            return 0.0
        return PATIENCE_AFTER_FAILURE_SECONDS if self._failures else PATIENCE_SECONDS


def _run(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # raised where the answer is taken
        future.set_exception(error)


INTERVAL: Final = "stream-metadata-discovery-interval-ms"
THRESHOLD: Final = "stream-metadata-discovery-failure-threshold"
RETENTION: Final = "stream-metadata-removed-cluster-retention-ms"
MODE: Final = "stream-enumerator-mode"
OPTIONS: Final = (INTERVAL, THRESHOLD, RETENTION, MODE)

NO_OFFSET: Final = -1
"""The end of a range of a partition that is not read any more: its task lets go of the connections."""

_PREFIX: Final = "client.id.prefix"


def cluster_settings(properties: Mapping[str, str], cluster: str, metadata: Mapping[str, str]) -> ClientSettings:
    """The settings of a cluster's clients: those of the source, overridden by those of the metadata.

    Raises:
        ConfigurationError: when its address is missing, or a setting is for the source to decide.
    """
    merged = {**properties, **metadata}
    check_properties(merged)
    if "bootstrap.servers" not in merged:
        raise ConfigurationError(
            f"the metadata service has no 'bootstrap.servers' for cluster {cluster!r}: add them to its properties"
        )
    if _PREFIX in merged:
        merged[_PREFIX] = f"{merged[_PREFIX]}-{cluster}"
    return ClientSettings(merged)


@dataclass(frozen=True, slots=True)
class DynamicPlan:
    """The streams that a source of several clusters reads, and from where to where.

    Attributes:
        subscriber: which streams.
        service: says where they are.
        interval: the milliseconds between two queries; None for never.
        each: what is read of every cluster, but for the topics.
        properties: settings of all clients; not those that the metadata says.
        threshold: how often in a row a cluster, or the metadata service once it has answered, may fail.
        retention: for how many milliseconds it is remembered how far a cluster was read that is taken away.
    """

    subscriber: KafkaStreamSubscriber
    service: KafkaMetadataService
    interval: int | None
    each: ReadingPlan
    properties: Mapping[str, str]
    threshold: int
    retention: int


class StreamTopology:
    """The clusters of the streams that a source reads, as a metadata service lists them now and then.

    Args:
        plan: which streams, and the service.
        goes_on: whether the job has run before, so that whatever is wrong with the service may have been right then.
    """

    def __init__(self, plan: DynamicPlan, *, goes_on: bool = False) -> None:
        self._plan = plan
        self._goes_on = goes_on
        self._lock = Lock()
        name = f"the metadata service {type(plan.service).__name__}"
        self._calls: RepeatedCalls[dict[str, ClusterMetadata]] = RepeatedCalls(name, plan.threshold)
        self._requested_at: int | None = None
        self._known: Mapping[str, ClusterMetadata] | None = None

    @property
    def is_fixed(self) -> bool:
        """Return whether changes are not looked for any more."""
        return self._known is not None and self._plan.interval is None

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
            self._requested_at = now
            self._calls.begin(self._clusters)
        if self._calls.has_answer(waits=self._known is None):
            self._take()
        assert self._known is not None, "the first answer is waited for"
        return self._known

    def is_cluster_active(self, cluster_id: str) -> bool:
        """Tell whether the service wants a cluster to be read; where it fails, as before."""
        try:
            with self._lock:
                return self._plan.service.is_cluster_active(cluster_id)
        except Exception as error:  # the error of the cluster, the reason for the query, is the one to raise
            logger.warning("%s does not say whether cluster %r is active: %r", self._calls.name, cluster_id, error)
            return True

    def close(self) -> None:
        """Close the service; where it is in use, later."""
        self._calls.then(self._plan.service.close)

    def _is_time_to_ask(self, now: int) -> bool:
        if self._requested_at is None:
            return True
        return self._plan.interval is not None and now - self._requested_at >= self._plan.interval

    def _clusters(self) -> dict[str, ClusterMetadata]:
        with self._lock:
            streams = self._plan.subscriber.get_subscribed_streams(self._plan.service)
        found = clusters_of(checked_streams(streams, self._plan.subscriber))
        for name, metadata in found.items():
            cluster_settings(self._plan.properties, name, metadata.properties)
        return found

    def _take(self) -> None:
        """Take the answer that has come."""
        try:
            known, self._known = self._known, self._calls.take()
        except Exception as error:
            self._fail(error)
            return
        if not self._known and known != self._known:
            logger.warning(
                "%s knows no cluster of %s: nothing is read until it does", self._calls.name, self._plan.subscriber
            )

    def _fail(self, error: Exception) -> None:
        if self._known is not None:
            self._calls.tolerate(error, "what it said last goes on")
        elif self._goes_on or isinstance(error, OSError | InfrastructureError):
            raise InfrastructureError(f"{self._calls.name} has failed: {_text_of(error)}") from error
        else:
            raise error


def _text_of(error: Exception) -> str:
    """The text of an error of a service."""
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


class ClusterReading:
    """A cluster and its partitions, which are looked at by a thread of their own.

    Of what a look under way may change nothing is read: until it is over, the cluster has nothing new.

    Args:
        name: what errors call it: its id, and where it is.
        log: the cluster.
        plan: what is read of it.
        state: that of the enumerator, or None at the first start.
        threshold: how often in a row it may fail.
        is_active: returns whether it is still to be read; called when it fails.

    Attributes:
        enumerator: that of the cluster's partitions.
        splits: the partitions that are known by now.
        state: that of the enumerator as of the last look, for a restart; None before the first one.
    """

    def __init__(
        self,
        name: str,
        log: PartitionedLog,
        plan: ReadingPlan,
        state: Json | None,
        threshold: int,
        is_active: Callable[[], bool],
    ) -> None:
        self._is_active = is_active
        self.enumerator = PartitionEnumerator(log, plan, copy.deepcopy(state))
        self.state = state
        self._looks: RepeatedCalls[Sequence[str] | None] = RepeatedCalls(f"cluster {name}", threshold)
        self.splits: Sequence[str] = ()
        self._is_known = False

    def begin_to_look(self, now: int) -> None:
        """Begin to look what there is, unless that is under way."""
        self._looks.begin(lambda: self._found(now))

    def end_looking(self) -> None:
        """Wait for what was begun, but not for long, and not again if it was late before.

        Raises:
            InfrastructureError: when the cluster has failed once too often.
            HeadraceError: when something is wrong that does not pass.
        """
        if not self._looks.has_answer():
            return
        try:
            found = self._looks.take()
        except (InfrastructureError, OSError) as error:
            self._looks.tolerate(error, "others are read meanwhile")
        except HeadraceError as error:
            raise type(error)(f"{self._looks.name}: {error}") from error
        else:
            self._is_known = True
            if found is not None:
                self.splits = found
                self.state = copy.deepcopy(self.enumerator.snapshot())

    @property
    def at_rest(self) -> PartitionEnumerator | None:
        """The cluster's enumerator; None while a look is under way, which changes what is known."""
        return None if self._looks.is_under_way else self.enumerator

    @property
    def is_complete(self) -> bool:
        """Tell whether no further partition will be found; it is not before the first look."""
        return self._is_known and self.enumerator.is_complete()

    def close(self) -> None:
        """Let go of connections; those that are in use, later."""
        self._looks.then(self.enumerator.close)

    def _found(self, now: int) -> Sequence[str] | None:
        """The partitions; None when the cluster has failed and is not to be read any more anyway."""
        try:
            return self.enumerator.discover(now)
        except (HeadraceError, OSError) as error:
            if self._is_active():
                raise
            logger.info("%s is not active any more, and not queried: %s", self._looks.name, error)
            return None


@dataclass(slots=True)
class RemovedCluster:
    """The state of a removed cluster, from which reading goes on when it comes back.

    Attributes:
        removed_at: when it went, in milliseconds of the job's clock.
        state: what its enumerator knew; None where it was never looked at.
        positions: by partition, where reading ended.
    """

    removed_at: int
    state: Json | None
    positions: dict[str, Json] = field(default_factory=dict)


CLUSTERS: Final = "kafkaClustersCount"
"""Flink's metric: how many clusters are read."""


class DynamicKafkaEnumerator(SplitEnumerator):
    """Plans what is read of several clusters; a split is a partition of one of them, as ``cluster/topic-partition``.

    What is not to be read any more ends where it is. Its position is forgotten with that, as in Flink, unless the
    whole cluster has gone, and not for long.

    A piece is JSON: the cluster, what the metadata says about clients of it, the partition, and the range of offsets.

    Args:
        plan: which streams are read, and the service that says where they are.
        connect: reaches a cluster.
        state: what :meth:`snapshot` gave.
    """

    def __init__(
        self, plan: DynamicPlan, connect: Callable[[ClientSettings], PartitionedLog], state: Json | None
    ) -> None:
        self._topology = StreamTopology(plan, goes_on=state is not None)
        self._plan = plan
        self._connect = connect
        self._restored: dict[str, Json] = {} if state is None else dict(state["clusters"])
        removed = {} if state is None else state["removed"]
        self._removed = {name: RemovedCluster(**known) for name, known in removed.items()}
        self._wanted: Mapping[str, ClusterMetadata] = {}
        self._clusters: dict[str, ClusterReading] = {}
        self._were_wanted: dict[str, Mapping[str, str]] = {}
        self._positions: dict[str, Json] = {} if state is None else dict(state["positions"])
        self._leaving: set[str] = set()
        self._left: set[str] = set()

    def discover(self, now: int) -> Sequence[str]:
        for name in [name for name, each in self._removed.items() if now - each.removed_at >= self._plan.retention]:
            del self._removed[name]
        self._follow(self._topology.clusters(now), now)
        for cluster in self._clusters.values():
            cluster.begin_to_look(now)
        for cluster in self._clusters.values():
            cluster.end_looking()
        found = (f"{name}/{each}" for name, cluster in self._clusters.items() for each in cluster.splits)
        listed = [split_id for split_id in found if split_id not in self._leaving]
        # What has come back is a new split once the old one is forgotten, for which it must not be listed once
        self._leaving -= self._left
        self._left.clear()
        return listed

    def initial_position(self, split_id: str) -> Json:
        name, partition = _parsed(split_id)
        if split_id in self._positions:
            return self._positions.pop(split_id)
        return self._clusters[name].enumerator.initial_position(partition)

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        name, partition = _parsed(split_id)
        if self._is_gone(split_id):
            return SplitRead(split_id, position, position, self._last_pieces(name, partition))
        cluster = self._clusters[name].at_rest
        read = None if cluster is None else cluster.plan(partition, position, budget, now)
        if read is None:
            return None
        properties = self._wanted[name].properties
        pieces = tuple([name, dict(properties), *piece] for piece in read.pieces)
        return replace(read, split_id=split_id, pieces=pieces)

    def is_finished(self, split_id: str, position: Json) -> bool:
        name, partition = _parsed(split_id)
        if self._is_gone(split_id):
            self._leaving.add(split_id)
            if name in self._removed:
                self._removed[name].positions[partition] = position
            return True
        cluster = self._clusters[name].at_rest
        return cluster is not None and cluster.is_finished(partition, position)

    def is_complete(self) -> bool:
        return self._topology.is_fixed and all(cluster.is_complete for cluster in self._clusters.values())

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        if self._is_gone(split_id):
            return Pending(0, 0)
        name, partition = _parsed(split_id)
        cluster = self._clusters[name].at_rest
        return Pending() if cluster is None else cluster.pending(partition, position, now)

    def gauges(self) -> Mapping[str, int]:
        return {CLUSTERS: len(self._clusters)}

    def snapshot(self) -> Json:
        removed = {name: asdict(cluster) for name, cluster in self._removed.items()}
        return {"clusters": self._states(), "removed": removed, "positions": dict(self._positions)}

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        self._left |= self._leaving & positions.keys()
        by_cluster: dict[str, dict[str, Json]] = {}
        for split_id, position in positions.items():
            if not self._is_gone(split_id):
                name, partition = _parsed(split_id)
                by_cluster.setdefault(name, {})[partition] = position
        for name, of_cluster in by_cluster.items():
            if (cluster := self._clusters[name].at_rest) is not None:  # else no offsets are committed to it
                cluster.checkpoint_completed(of_cluster)

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.close()
        self._topology.close()

    def _last_pieces(self, name: str, partition: str) -> tuple[Json, ...]:
        """The pieces by which tasks close a partition; none for a cluster that no task has read in this run."""
        properties = self._were_wanted.get(name)
        return () if properties is None else ([name, dict(properties), partition, NO_OFFSET, NO_OFFSET],)

    def _is_gone(self, split_id: str) -> bool:
        """Tell whether a split is not to be read any more."""
        return not _is_of(split_id, self._wanted)

    def _states(self) -> dict[str, Json]:
        """Give the state of each cluster's enumerator; clusters that were never looked at are left out."""
        states = {name: each.state for name, each in self._clusters.items() if each.state is not None}
        return self._restored | states

    def _follow(self, wanted: Mapping[str, ClusterMetadata], now: int) -> None:
        """Read what the metadata says now; of clusters that stay, what is known stays."""
        if wanted == self._wanted and not self._restored:
            return
        states = self._states()
        changed = [name for name, metadata in wanted.items() if metadata != self._wanted.get(name)]
        settings = {name: cluster_settings(self._plan.properties, name, wanted[name].properties) for name in changed}
        for name in [name for name in self._clusters if name not in wanted or name in settings]:
            self._clusters.pop(name).close()
        for name in (self._wanted.keys() | states.keys()) - wanted.keys():
            if self._plan.retention > 0:
                self._removed[name] = RemovedCluster(now, states.get(name))
            logger.info("nothing is read of cluster %r any more", name)
        for name, of_cluster in settings.items():
            state = self._remembered(name, wanted) if name in self._removed else states.get(name)
            self._clusters[name] = self._reading(name, of_cluster, wanted[name], state)
            logger.info("of cluster %r topics %s are read from now on", name, ", ".join(sorted(wanted[name].topics)))
        self._were_wanted |= {name: metadata.properties for name, metadata in self._wanted.items()}
        self._wanted, self._restored = wanted, {}

    def _remembered(self, name: str, wanted: Mapping[str, ClusterMetadata]) -> Json | None:
        """Take the state of a cluster that has come back; its partitions are read on where they were."""
        known = self._removed.pop(name)
        positions = {f"{name}/{partition}": position for partition, position in known.positions.items()}
        self._positions |= {split_id: at for split_id, at in positions.items() if _is_of(split_id, wanted)}
        return known.state

    def _reading(
        self, name: str, settings: ClientSettings, metadata: ClusterMetadata, state: Json | None
    ) -> ClusterReading:
        each = self._plan.each
        topics = tuple(sorted(metadata.topics))
        plan = replace(
            each,
            subscription=Subscription(topics),
            start=metadata.starting_offsets_initializer or each.start,
            stop=(metadata.stopping_offsets_initializer or each.stop) if each.is_bounded else None,
        )
        return ClusterReading(
            f"{name!r} at {settings.servers}",
            self._connect(settings),
            plan,
            None if state is None else narrowed_state(state, topics),
            self._plan.threshold,
            lambda: self._topology.is_cluster_active(name),
        )


def _is_of(split_id: str, wanted: Mapping[str, ClusterMetadata]) -> bool:
    """Tell whether a split is to be read."""
    name, partition = _parsed(split_id)
    return name in wanted and TopicPartition.parse(partition).topic in wanted[name].topics


def _parsed(split_id: str) -> tuple[str, str]:
    """The cluster, and its partition; there is no ``/`` in the name of a topic."""
    name, _, partition = split_id.rpartition("/")
    return name, partition
