"""What a dynamic source is told: streams, metadata services, settings. No broker is asked."""

from __future__ import annotations

import json
import pickle
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.common import SimpleStringSchema
from headrace.common.errors import ConfigurationError, InvalidProgramError, InvalidTypeError, UnknownNameError
from headrace.common.time import Duration
from headrace.connectors.kafka.clients import ClientSettings
from headrace.connectors.kafka.dynamic_enumerator import NO_OFFSET, cluster_settings, clusters_of
from headrace.connectors.partitions import OffsetsInitializer
from headrace.connectors.source import Boundedness, ReaderContext
from headrace.datastream.connectors.dynamic_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    DynamicKafkaSourceBuilder,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
    YamlFileMetadataService,
)

EAST = ClusterMetadata({"a"}, {"bootstrap.servers": "east:1"})
LISTED = [
    {
        "streamId": "payments",
        "clusterMetadataList": [
            {"clusterId": "east", "bootstrapServers": "east:1,east:2", "topics": ["p1", "p2"]},
            {"bootstrapServers": "west:1", "topics": ["p3"], "properties": {"security.protocol": "SSL"}},
        ],
    }
]


class Service(KafkaMetadataService):
    """Knows three streams."""

    def get_all_streams(self) -> Collection[KafkaStream]:
        return [KafkaStream(name, {"east": EAST}) for name in ("payments-eu", "payments-us", "orders")]

    def is_cluster_active(self, kafka_cluster_id: str) -> bool:
        return kafka_cluster_id == "east"


def builder() -> DynamicKafkaSourceBuilder[str]:
    made: DynamicKafkaSourceBuilder[str] = DynamicKafkaSource.builder()
    return made.set_kafka_metadata_service(Service()).set_value_only_deserializer(SimpleStringSchema())


def ids(streams: Collection[KafkaStream]) -> list[str]:
    return [each.stream_id for each in streams]


def test_which_streams_are_read() -> None:
    subscriber = KafkaStreamSetSubscriber({"payments-us", "orders"})
    assert ids(subscriber.get_subscribed_streams(Service())) == ["orders", "payments-us"]
    pattern = StreamPatternSubscriber("nts-")
    assert ids(pattern.get_subscribed_streams(Service())) == ["payments-eu", "payments-us"]
    assert ids(StreamPatternSubscriber("^nts").get_subscribed_streams(Service())) == []
    with pytest.raises(ConfigurationError, match=r"has no stream 'order': did you mean orders\?"):
        KafkaStreamSetSubscriber({"order"}).get_subscribed_streams(Service())


def test_what_is_missing_or_said_twice() -> None:
    empty: DynamicKafkaSourceBuilder[str] = DynamicKafkaSource.builder()
    with pytest.raises(InvalidProgramError, match=r"needs set_stream_ids\(\) or set_stream_pattern\(\)"):
        empty.build()
    with pytest.raises(InvalidProgramError, match="needs set_kafka_metadata_service"):
        empty.set_stream_ids({"orders"}).build()
    with pytest.raises(InvalidProgramError, match="DynamicKafkaSource needs set_value_only_deserializer"):
        empty.set_kafka_metadata_service(Service()).build()
    with pytest.raises(InvalidProgramError, match="the source reads orders already"):
        empty.set_stream_pattern("o")
    with pytest.raises(InvalidProgramError, match="are a set of names, not 'orders'"):
        builder().set_stream_ids("orders")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="is no regular expression"):
        builder().set_stream_pattern("o(")
    with pytest.raises(InvalidTypeError, match="set_kafka_metadata_service takes a KafkaMetadataService"):
        builder().set_kafka_metadata_service(Service)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match=r"'set_topics': streams are read.*set_stream_ids"):
        builder().set_topics  # noqa: B018
    with pytest.raises(InvalidProgramError, match="the set of stream ids is empty"):
        builder().set_stream_ids(set())


def test_what_a_service_gives_is_looked_at() -> None:
    with pytest.raises(InvalidTypeError, match="a set of topics, not 'orders'"):
        ClusterMetadata("orders", {})
    anything: Any = "east:1"
    with pytest.raises(InvalidTypeError, match=r"takes settings, \{'bootstrap.servers': .* say, not 'east:1'"):
        ClusterMetadata({"orders"}, anything)
    with pytest.raises(InvalidTypeError, match="cluster 'east' of stream 'orders' takes a ClusterMetadata"):
        KafkaStream("orders", {"east": anything})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "Gives has to give a collection of KafkaStream, and gave None"),
        ([{"streamId": "a"}], "Gives has to give a collection of KafkaStream, in which there was {'streamId': 'a'}"),
    ],
)
def test_a_service_that_gives_something_else(given: Any, said: str) -> None:
    class Gives(Service):
        def get_all_streams(self) -> Any:
            return given

    with pytest.raises(InvalidTypeError, match=said):
        KafkaStreamSetSubscriber({"orders"}).get_subscribed_streams(Gives())
    with pytest.raises(InvalidTypeError, match=said):
        StreamPatternSubscriber("o").get_subscribed_streams(Gives())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("stream-metadata-discovery-interval-ms", "soon", "is a whole number, not 'soon'"),
        ("stream-metadata-discovery-failure-threshold", "x", "is a whole number"),
        ("stream-metadata-discovery-failure-threshold", "-1", "is not negative"),
        ("stream-metadata-discovery-intervall-ms", "1", "mean stream-metadata-discovery-interval-ms"),
        ("stream-enumerator-mode", "per_cluster", "is global, not 'per_cluster'"),
        ("enable.auto.commit", "true", "is for the source itself to decide"),
    ],
)
def test_settings_that_cannot_be(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        builder().set_stream_ids({"orders"}).set_property(name, value).build()


def test_a_setting_that_clients_do_not_have() -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ConfigurationError, match=r"did you mean fetch\.wait\.max\.ms"):
        builder().set_stream_ids({"orders"}).set_property("fetch.wait.max", "1").build()


def test_what_a_source_says_of_itself() -> None:
    made = builder().set_stream_ids({"orders"}).set_property("sasl.password", "s3cret")
    source = made.build()
    assert repr(source) == "DynamicKafkaSource(orders by Service)"
    assert source.locations == ("orders",)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert made.set_bounded(OffsetsInitializer.latest()).build().boundedness is Boundedness.BOUNDED
    assert repr(pickle.loads(pickle.dumps(source))) == repr(source)
    assert "s3cret" not in repr(ClusterMetadata({"a"}, {"sasl.password": "s3cret"}))


def test_metadata_goes_before_the_settings_of_the_source() -> None:
    common = {"bootstrap.servers": "nowhere:1", "client.id.prefix": "fraud", "security.protocol": "SSL"}
    settings = cluster_settings(common, "east", EAST.properties)
    assert settings.properties == {
        "bootstrap.servers": "east:1",
        "client.id.prefix": "fraud-east",
        "security.protocol": "SSL",
    }


class Consumer:
    """Stands for a consumer of a partition; all that were made are known."""

    made: ClassVar[list[Consumer]] = []

    def __init__(self, settings: ClientSettings, partition: object) -> None:
        self.settings, self.partition = settings, partition
        self.of = f"{settings.servers} {partition}"
        self.is_closed = False
        self.made.append(self)

    def read(self, start: int, end: int) -> Iterator[list[Any]]:
        return iter(())

    def rest(self) -> None:
        """It does nothing anyway."""

    def close(self) -> None:
        self.is_closed = True


def test_connections_of_a_partition_that_is_not_read_any_more_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a reader that was made since, in the same process."""
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("headrace.connectors.kafka.source.PartitionConsumer", Consumer)
    monkeypatch.setattr(Consumer, "made", [])
    context, source = ReaderContext(), builder().set_stream_ids({"orders"}).build()

    def read(*pieces: list[Any]) -> list[str]:
        reader = source.create_reader()
        reader.open(context)
        for piece in pieces:
            assert list(reader.read(piece)) == []
        reader.close()
        return [each.of for each in Consumer.made if each.is_closed]

    west = {"bootstrap.servers": "west:1"}
    both = [["east", EAST.properties, "a-0", 0, 9], ["west", west, "a-0", 0, 9]]
    assert read(*both, both[0]) == []
    assert len(Consumer.made) == 2
    assert read(["west", west, "a-0", NO_OFFSET, NO_OFFSET]) == ["west:1 a-0"]
    assert read(both[0], ["east", EAST.properties, "a-0", NO_OFFSET, NO_OFFSET]) == ["east:1 a-0", "west:1 a-0"]
    assert len(Consumer.made) == 2


def test_the_topics_of_all_streams_of_a_cluster_are_read() -> None:
    other = ClusterMetadata({"b"}, EAST.properties)
    (found,) = clusters_of([KafkaStream("1", {"east": EAST}), KafkaStream("2", {"east": other})]).values()
    assert found == ClusterMetadata({"a", "b"}, EAST.properties)
    moved = ClusterMetadata({"b"}, {"bootstrap.servers": "west:1"})
    with pytest.raises(ConfigurationError, match="stream '2' has other properties or offsets for cluster 'east'"):
        clusters_of([KafkaStream("1", {"east": EAST}), KafkaStream("2", {"east": moved})])


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_streams_of_a_file(tmp_path: Path, suffix: str) -> None:
    if suffix == "yaml":
        pytest.importorskip("yaml")
    file = tmp_path / f"streams.{suffix}"
    file.write_text(json.dumps(LISTED))  # which is YAML as well
    service = YamlFileMetadataService(file)
    west = ClusterMetadata({"p3"}, {"security.protocol": "SSL", "bootstrap.servers": "west:1"})
    east = ClusterMetadata({"p1", "p2"}, {"bootstrap.servers": "east:1,east:2"})
    assert service.describe_streams({"payments", "more"}) == {
        "payments": KafkaStream("payments", {"east": east, "west:1": west})
    }
    assert service.is_cluster_active("west:1")
    file.write_text("[]")
    assert not service.is_cluster_active("west:1")
    keeps = YamlFileMetadataService(file, Duration.of_hours(1))
    assert keeps.get_all_streams() == []
    file.write_text(json.dumps(LISTED))
    assert keeps.get_all_streams() == []


def of_one(clusters: str) -> str:
    """A file with one stream."""
    return f'[{{"streamId": "a", "clusterMetadataList": [{clusters}]}}]'


def test_yaml_needs_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.kafka.dynamic_metadata.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"streams.yaml: .*pip install PyYAML, or .*\n  at .*needs_a_library"):
        YamlFileMetadataService("streams.yaml")
    YamlFileMetadataService("streams.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("null", "it should be a list of streams.*is empty"),
        ('{"streamId": "a"}', "it should be a list of streams"),
        ('[{"streamId": "a"}]', "stream 1 has no 'clusterMetadataList'"),
        ('[{"streamID": "a"}]', "stream 1 has 'streamID', which is unknown: did you mean streamId?"),
        ('["a"]', "stream 1 should have 'streamId', 'clusterMetadataList', and is 'a'"),
        (of_one('{"bootstrapServers": "b:1", "topics": "c"}'), "'topics' of cluster 1 of stream 'a' should be a list"),
        (of_one('{"topics": ["c"]}'), "cluster 1 of stream 'a' has no 'bootstrapServers'"),
        (of_one('{"bootstrapServers": ["b:1"], "topics": ["c"]}'), "are text, as 'host:9092,host:9092', not"),
        (of_one('{"bootstrapServers": "b:1", "topics": [], "properties": ["c"]}'), "settings with their values"),
        (of_one(", ".join(['{"bootstrapServers": "b:1", "topics": []}'] * 2)), "cluster 'b:1' is there twice"),
        (f"[{of_one('')[1:-1]}, {of_one('')[1:-1]}]", "stream 'a' is there twice"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "streams.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=f"streams.json.*{said}"):
        YamlFileMetadataService(file).get_all_streams()


def test_one_cluster_needs_an_address() -> None:
    with pytest.raises(ConfigurationError, match=r"needs settings with 'bootstrap\.servers'"):
        SingleClusterTopicMetadataService("east", {})
