"""What a task is told to read: a range of offsets of a partition, and how its cluster is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from headrace.common.errors import ConfigurationError
from headrace.connectors.kafka.clients.client import ClientSettings
from headrace.connectors.kafka.clients.properties import check_properties

if TYPE_CHECKING:
    from headrace.connectors.source import Json

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
