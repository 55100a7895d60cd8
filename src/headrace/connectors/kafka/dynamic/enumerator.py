"""The driver's half of a source of several clusters, which follows where its streams lie."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.common.errors import HeadraceError, InfrastructureError
from headrace.common.logs import get_logger
from headrace.common.topic_partition import TopicPartition
from headrace.connectors.kafka.dynamic.topology import THRESHOLD, ClusterPiece, RepeatedCalls, cluster_settings
from headrace.connectors.partitions.enumerator import PartitionEnumerator, narrowed_state
from headrace.connectors.partitions.subscription import Topics
from headrace.connectors.source import Pending, SplitEnumerator, SplitRead

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.connectors.kafka.clients import ClientSettings
    from headrace.connectors.kafka.dynamic.metadata import ClusterMetadata
    from headrace.connectors.kafka.dynamic.topology import StreamTopology
    from headrace.connectors.partitions.enumerator import ReadingPlan
    from headrace.connectors.partitions.subscription import PartitionedLog
    from headrace.connectors.source import Json, ReadBudget


logger = get_logger(__name__)


class ClusterReading:
    """A cluster and its partitions, which are looked at by a thread of their own.

    Of what a look under way may change nothing is read: until it is over, the cluster has nothing new.

    Args:
        name: what errors call it: its id, and where it is.
        log: the cluster.
        plan: what is read of it.
        state: what :meth:`snapshot` gave, or None at the first start.
        threshold: how often in a row it may fail.
        is_active: whether it is still to be read, asked when it fails.
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
        self._name = name
        self._threshold = threshold
        self._is_active = is_active
        self._enumerator = PartitionEnumerator(log, plan, copy.deepcopy(state))
        self._state = state
        self._looks: RepeatedCalls[Sequence[str] | None] = RepeatedCalls(f"look at {name}")
        self._splits: Sequence[str] = ()
        self._is_known = False

    @property
    def splits(self) -> Sequence[str]:
        """The partitions that are known by now."""
        return self._splits

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
            self._fail(error)
        except HeadraceError as error:
            raise type(error)(f"cluster {self._name}: {error}") from error
        else:
            self._is_known = True
            if found is not None:
                self._splits = found
                self._state = copy.deepcopy(self._enumerator.snapshot())

    def initial_position(self, split_id: str) -> Json:
        """As that of an enumerator."""
        return self._enumerator.initial_position(split_id)

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        """As that of an enumerator."""
        return self._enumerator.plan(split_id, position, budget, now) if self._is_at_rest else None

    def is_finished(self, split_id: str, position: Json) -> bool:
        """As that of an enumerator."""
        return self._is_at_rest and self._enumerator.is_finished(split_id, position)

    def is_complete(self) -> bool:
        """As that of an enumerator; it is not before the first look."""
        return self._is_known and self._enumerator.is_complete()

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        """As that of an enumerator."""
        return self._enumerator.pending(split_id, position, now) if self._is_at_rest else Pending()

    def snapshot(self) -> Json | None:
        """What has to be known after a restart, as the last look has left it; None before the first one."""
        return self._state

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        """As that of an enumerator; while the cluster does not answer nobody tells it how far the job is."""
        if self._is_at_rest:
            self._enumerator.checkpoint_completed(positions)

    def close(self) -> None:
        """Let go of connections; those that are in use, later."""
        self._looks.then(self._enumerator.close)

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing changes what is known."""
        return not self._looks.is_under_way

    def _found(self, now: int) -> Sequence[str] | None:
        """The partitions; None when the cluster has failed and is not to be read any more anyway."""
        try:
            return self._enumerator.discover(now)
        except (HeadraceError, OSError) as error:
            if self._is_active():
                raise
            logger.info("cluster %s is not active any more, and not asked: %s", self._name, error)
            return None

    def _fail(self, error: Exception) -> None:
        told = f"cluster {self._name} {self._looks.failed()} ({THRESHOLD!r} is {self._threshold})"
        if self._looks.failures > self._threshold:
            raise InfrastructureError(f"{told if self._threshold else f'cluster {self._name}'}: {error}") from error
        logger.warning("%s, and others are read meanwhile: %s", told, error)


@dataclass(slots=True)
class RemovedCluster:
    """What is known of a cluster, so that reading may go on when it comes back.

    Attributes:
        removed_at: when it went, in milliseconds of the job's clock.
        state: what its enumerator knew; None where it was never looked at.
        positions: by partition, where reading ended.
    """

    removed_at: int
    state: Json | None
    positions: dict[str, Json] = field(default_factory=dict)


class RemovedClusters:
    """The clusters that went within a time.

    Args:
        retention: for how many milliseconds they are remembered; none are where it is not positive.
        state: what :meth:`snapshot` gave.
    """

    def __init__(self, retention: int, state: Mapping[str, Json]) -> None:
        self._retention = retention
        self._clusters = {name: RemovedCluster(**told) for name, told in state.items()}

    def remove(self, name: str, state: Json | None, now: int) -> None:
        """A cluster is not to be read any more."""
        if self._retention > 0:
            self._clusters[name] = RemovedCluster(now, state)

    def ended(self, name: str, partition: str, position: Json) -> None:
        """Reading of a partition has ended, as its cluster went, or the topic alone, which is not remembered."""
        if name in self._clusters:
            self._clusters[name].positions[partition] = position

    def __contains__(self, name: str) -> bool:
        return name in self._clusters

    def pop(self, name: str) -> RemovedCluster:
        """What is known of a cluster, which is to be read again."""
        return self._clusters.pop(name)

    def forget(self, now: int) -> None:
        """Forget those that went too long ago."""
        kept = self._clusters.items()
        self._clusters = {name: each for name, each in kept if now - each.removed_at < self._retention}

    def snapshot(self) -> Json:
        """For the manifest."""
        return {name: asdict(cluster) for name, cluster in self._clusters.items()}


CLUSTERS: Final = "kafkaClustersCount"
"""Flink's metric: how many clusters are read."""


@dataclass(frozen=True, slots=True)
class DynamicPlan:
    """What a source of several clusters reads.

    Attributes:
        each: what is read of every cluster, but for the topics.
        properties: settings of all clients; not those that the metadata says.
        threshold: how often in a row a cluster, or the metadata service, may fail.
        retention: for how many milliseconds it is remembered how far a cluster was read that is taken away.
    """

    each: ReadingPlan
    properties: Mapping[str, str]
    threshold: int
    retention: int


class DynamicKafkaEnumerator(SplitEnumerator):
    """Plans what is read of several clusters; a split is a partition of one of them, as ``cluster/topic-partition``.

    What is not to be read any more ends where it is. Its position is forgotten with that, as in Flink, unless the
    whole cluster has gone, and not for long.

    Args:
        topology: the clusters.
        plan: what is read of them.
        connect: reaches a cluster.
        state: what :meth:`snapshot` gave.
    """

    def __init__(
        self,
        topology: StreamTopology,
        plan: DynamicPlan,
        connect: Callable[[ClientSettings], PartitionedLog],
        state: Json | None,
    ) -> None:
        self._topology = topology
        self._plan = plan
        self._connect = connect
        self._restored: dict[str, Json] = {} if state is None else dict(state["clusters"])
        self._removed = RemovedClusters(plan.retention, {} if state is None else state["removed"])
        self._wanted: Mapping[str, ClusterMetadata] = {}
        self._clusters: dict[str, ClusterReading] = {}
        self._were_wanted: dict[str, Mapping[str, str]] = {}
        self._positions: dict[str, Json] = {} if state is None else dict(state["positions"])
        self._leaving: set[str] = set()
        self._left: set[str] = set()

    def discover(self, now: int) -> Sequence[str]:
        self._removed.forget(now)
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
        return self._clusters[name].initial_position(partition)

    def plan(self, split_id: str, position: Json, budget: ReadBudget, now: int) -> SplitRead | None:
        name, partition = _parsed(split_id)
        if self._is_gone(split_id):
            return SplitRead(split_id, position, position, self._last_pieces(name, partition))
        read = self._clusters[name].plan(partition, position, budget, now)
        if read is None:
            return None
        properties = self._wanted[name].properties
        pieces = tuple(ClusterPiece(name, properties, *piece).to_json() for piece in read.pieces)
        return replace(read, split_id=split_id, pieces=pieces)

    def is_finished(self, split_id: str, position: Json) -> bool:
        name, partition = _parsed(split_id)
        if self._is_gone(split_id):
            self._leaving.add(split_id)
            self._removed.ended(name, partition, position)
            return True
        return self._clusters[name].is_finished(partition, position)

    def is_complete(self) -> bool:
        return self._topology.is_fixed and all(cluster.is_complete() for cluster in self._clusters.values())

    def pending(self, split_id: str, position: Json, now: int) -> Pending:
        if self._is_gone(split_id):
            return Pending(0, 0)
        name, partition = _parsed(split_id)
        return self._clusters[name].pending(partition, position, now)

    def gauges(self) -> Mapping[str, int]:
        return {CLUSTERS: len(self._clusters)}

    def snapshot(self) -> Json:
        return {"clusters": self._states(), "removed": self._removed.snapshot(), "positions": dict(self._positions)}

    def checkpoint_completed(self, positions: dict[str, Json]) -> None:
        self._left |= self._leaving & positions.keys()
        by_cluster: dict[str, dict[str, Json]] = {}
        for split_id, position in positions.items():
            if not self._is_gone(split_id):
                name, partition = _parsed(split_id)
                by_cluster.setdefault(name, {})[partition] = position
        for name, of_cluster in by_cluster.items():
            self._clusters[name].checkpoint_completed(of_cluster)

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.close()
        self._topology.close()

    def _last_pieces(self, name: str, partition: str) -> tuple[Json, ...]:
        """What has tasks let go of a partition; nothing of a cluster that no task has heard of since the start."""
        properties = self._were_wanted.get(name)
        return () if properties is None else (ClusterPiece.last(name, properties, partition).to_json(),)

    def _is_gone(self, split_id: str) -> bool:
        """Whether a split is not to be read any more."""
        return not _is_of(split_id, self._wanted)

    def _states(self) -> dict[str, Json]:
        """By cluster, what its enumerator knows; those that were never looked at are left out."""
        states = {name: cluster.snapshot() for name, cluster in self._clusters.items()}
        return self._restored | {name: state for name, state in states.items() if state is not None}

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
            self._removed.remove(name, states.get(name), now)
            logger.info("nothing is read of cluster %r any more", name)
        for name, of_cluster in settings.items():
            state = self._remembered(name, wanted) if name in self._removed else states.get(name)
            self._clusters[name] = self._reading(name, of_cluster, wanted[name], state)
            logger.info("of cluster %r topics %s are read from now on", name, ", ".join(sorted(wanted[name].topics)))
        self._were_wanted |= {name: metadata.properties for name, metadata in self._wanted.items()}
        self._wanted, self._restored = wanted, {}

    def _remembered(self, name: str, wanted: Mapping[str, ClusterMetadata]) -> Json | None:
        """What is known of a cluster that has come back; its partitions are read on where they were."""
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
            subscription=Topics(topics),
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
    """Whether a split is to be read."""
    name, partition = _parsed(split_id)
    return name in wanted and TopicPartition.parse(partition).topic in wanted[name].topics


def _parsed(split_id: str) -> tuple[str, str]:
    """The cluster, and its partition; there is no ``/`` in the name of a topic."""
    name, _, partition = split_id.rpartition("/")
    return name, partition
