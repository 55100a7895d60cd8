"""Clusters that the metadata has no more, as long as they are remembered."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.connectors.source import Json


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
