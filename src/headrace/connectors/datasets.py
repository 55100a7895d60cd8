"""Datasets: what sources read and sinks write, under names that other systems know (OpenLineage's)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from headrace.common.masking import without_secrets

_USUAL_SCHEMES: Final = {"s3a": "s3", "abfs": "abfss"}

_WITH_CONTAINERS: Final = ("abfss", "wasbs", "wasb")
"""Schemes of addresses in which a container is in the place of a user: ``abfss://container@account``."""


@dataclass(frozen=True, slots=True, order=True)
class LineageDataset:
    """A dataset (Flink's ``LineageDataset``), named as OpenLineage's naming conventions say.

    Attributes:
        namespace: the system that it is in: ``file``, ``s3://bucket``, ``kafka://broker:9092``.
        name: its name there: a path, a topic.

    Examples:
        >>> from headrace.connectors.datasets import LineageDataset
        >>> str(LineageDataset("kafka://broker:9092", "payments"))
        'kafka://broker:9092 payments'
    """

    namespace: str
    name: str

    def __post_init__(self) -> None:
        for field in ("namespace", "name"):
            object.__setattr__(self, field, without_secrets(getattr(self, field)))

    def __str__(self) -> str:
        """Namespace and name."""
        return f"{self.namespace} {self.name}"


def file_dataset(location: str) -> LineageDataset:
    """The dataset of a path or a URI of files; the user that a URI names is no part of it."""
    parts = urlsplit(location, allow_fragments=False)
    if "://" not in location or parts.scheme == "file":
        return LineageDataset("file", location.removeprefix("file:").removeprefix("//") or "/")
    scheme = _USUAL_SCHEMES.get(parts.scheme, parts.scheme)
    authority = parts.netloc if scheme in _WITH_CONTAINERS else parts.netloc.rpartition("@")[2]
    pattern = f"?{parts.query}" if parts.query and "=" not in parts.query else ""
    return LineageDataset(f"{scheme}://{authority}", f"{parts.path}{pattern}".strip("/") or "/")


def topic_datasets(namespace: str, topics: Iterable[str]) -> tuple[LineageDataset, ...]:
    """The datasets of some topics."""
    return tuple(LineageDataset(namespace, topic) for topic in topics)


def log_datasets(location: str, topics: Iterable[str]) -> tuple[LineageDataset, ...]:
    """The datasets of some topics of an embedded log, which are folders in its own."""
    return tuple(file_dataset(f"{location.rstrip('/')}/{topic}") for topic in topics)


def kafka_namespace(bootstrap_servers: str) -> str:
    """The namespace of the topics of a cluster: its first server."""
    return f"kafka://{bootstrap_servers.split(',', maxsplit=1)[0].strip()}"
