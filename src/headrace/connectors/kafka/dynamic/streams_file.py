"""What a file says of streams: a list of them in the form that Flink's service for files has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from headrace.common.errors import ConfigurationError
from headrace.common.other_names import alike
from headrace.connectors.kafka.dynamic.metadata import ClusterMetadata, KafkaStream

_OF_A_STREAM: Final = ("streamId", "clusterMetadataList")
_OF_A_CLUSTER: Final = ("bootstrapServers", "topics", "clusterId", "properties")
_NEEDED: Final = (*_OF_A_STREAM, "bootstrapServers", "topics")


def listed_streams(document: Any) -> list[KafkaStream]:
    """The streams that a document lists.

    Raises:
        ConfigurationError: saying which of them is not what it should be, and how it should be.
    """
    if not isinstance(document, list):
        told = "is empty" if document is None else f"is {document!r:.100}"
        raise ConfigurationError(
            f"it should be a list of streams, each with {' and '.join(map(repr, _OF_A_STREAM))}, and {told}"
        )
    streams = [_stream(each, f"stream {number}") for number, each in enumerate(document, 1)]
    _check_single([stream.stream_id for stream in streams], "stream")
    return streams


def _stream(listed: Any, place: str) -> KafkaStream:
    found = _keys(listed, place, _OF_A_STREAM)
    place = f"stream {found['streamId']!r}"
    clusters = _list(found["clusterMetadataList"], f"'clusterMetadataList' of {place}")
    by_id = [_cluster(each, f"cluster {number} of {place}") for number, each in enumerate(clusters, 1)]
    _check_single([cluster_id for cluster_id, _ in by_id], f"{place}: cluster")
    return KafkaStream(str(found["streamId"]), dict(by_id))


def _cluster(listed: Any, place: str) -> tuple[str, ClusterMetadata]:
    """An element of ``clusterMetadataList``, with its id."""
    found = _keys(listed, place, _OF_A_CLUSTER)
    servers = found["bootstrapServers"]
    if not isinstance(servers, str):
        raise ConfigurationError(f"'bootstrapServers' of {place} are text, as 'host:9092,host:9092', not {servers!r}")
    topics = set(map(str, _list(found["topics"], f"'topics' of {place}")))
    properties = found.get("properties") or {}
    if not isinstance(properties, Mapping):
        raise ConfigurationError(f"'properties' of {place} are settings with their values, not {properties!r}")
    settings = {str(name): _text(value) for name, value in properties.items()}
    return str(found.get("clusterId") or servers), ClusterMetadata(topics, {**settings, "bootstrap.servers": servers})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{what} should be a list, not {value!r}")
    return value


def _keys(listed: Any, place: str, known: Collection[str]) -> Mapping[str, Any]:
    """What an element says, of which everything is known and nothing is missing."""
    if not isinstance(listed, Mapping):
        raise ConfigurationError(f"{place} should have {', '.join(map(repr, known))}, and is {listed!r}")
    for key in listed:
        if key not in known:
            raise ConfigurationError(f"{place} has {key!r}, which nobody knows{alike(str(key), known)}")
    for key in known:
        if key in _NEEDED and key not in listed:
            raise ConfigurationError(f"{place} has no {key!r}")
    return listed


def _check_single(names: Collection[str], what: str) -> None:
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{what} {twice!r} is there twice")
