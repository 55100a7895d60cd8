"""What a Kafka source and a sink are told: settings of clients, secrets, topics, offsets. No broker is asked."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.common import SimpleStringSchema
from headrace.common.errors import ConfigurationError, InvalidProgramError, InvalidTypeError
from headrace.connectors.kafka.clients import ClientErrors, ClientSettings
from headrace.connectors.kafka.partitioned_log import KafkaPartitionedLog
from headrace.connectors.kafka.settings import PROPOSED, check_known, librdkafka_settings
from headrace.connectors.partitions import Subscription
from headrace.connectors.sink import DeliveryGuarantee
from headrace.connectors.source import Boundedness
from headrace.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)

TOPICS = {"orders": 2, "orders-eu": 1, "payments": 3}


class Cluster:
    """Stands for what a cluster knows."""

    def earliest(self, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        return dict.fromkeys(partitions, 3)

    def latest(self, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        return dict.fromkeys(partitions, 90)

    def committed(self, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        return {each: 40 for each in partitions if each.partition == 0}

    def at_timestamp(self, partitions: Sequence[KafkaTopicPartition], millis: int) -> dict[KafkaTopicPartition, int]:
        return {each: millis for each in partitions if each.partition == 0}


def builder() -> KafkaSourceBuilder[str]:
    made: KafkaSourceBuilder[str] = KafkaSource.builder()
    return made.set_bootstrap_servers("there:9092").set_value_only_deserializer(SimpleStringSchema())


def resolved(properties: Mapping[str, str]) -> dict[str, Any]:
    return librdkafka_settings(properties, "reader")


@pytest.mark.parametrize("topic", ["orders", "a-1", "a-1-2"])
def test_a_split_is_known_by_topic_and_number(topic: str) -> None:
    partition = KafkaTopicPartition(topic, 12)
    assert KafkaTopicPartition.parse(str(partition)) == partition


def test_which_partitions_are_read() -> None:
    def splits(found: list[KafkaTopicPartition]) -> list[str]:
        return [str(each) for each in found]

    assert splits(Subscription(("payments", "orders")).partitions({"orders": 1, "payments": 2})) == [
        *("payments-0", "payments-1", "orders-0")
    ]
    assert splits(Subscription(pattern="orders.*").partitions(TOPICS)) == ["orders-0", "orders-1", "orders-eu-0"]
    assert splits(Subscription(pattern="order").partitions(TOPICS)) == []
    assert splits(Subscription(chosen=(KafkaTopicPartition("orders", 1),)).partitions(TOPICS)) == ["orders-1"]
    with pytest.raises(ConfigurationError, match=r"there is no topic 'ordres'.*did you mean orders"):
        Subscription(("ordres",)).partitions(TOPICS)
    with pytest.raises(ConfigurationError, match=r"no partition orders-2: topic 'orders' has 2, from 0"):
        Subscription(chosen=(KafkaTopicPartition("orders", 2),)).partitions(TOPICS)


@pytest.mark.parametrize(
    ("initializer", "offsets"),
    [
        (KafkaOffsetsInitializer.earliest(), [3, 3]),
        (KafkaOffsetsInitializer.latest(), [90, 90]),
        (KafkaOffsetsInitializer.timestamp(70), [70, 90]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), [40, 3]),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), [40, 90]),
        (KafkaOffsetsInitializer.offsets({KafkaTopicPartition("t", 1): 55}), [3, 55]),
    ],
)
def test_where_partitions_start(initializer: KafkaOffsetsInitializer, offsets: list[int]) -> None:
    partitions = [KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)]
    found = initializer.resolve(partitions, Cluster())
    assert [found[each] for each in partitions] == offsets


def test_without_a_reset_strategy_every_partition_needs_an_offset() -> None:
    initializer = KafkaOffsetsInitializer.committed_offsets()
    with pytest.raises(ConfigurationError, match=r"no offset to start from for t-1: .*OffsetResetStrategy"):
        initializer.resolve([KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)], Cluster())


def test_offsets_are_given_by_partition() -> None:
    given: Any = {("t", 0): 7}
    with pytest.raises(InvalidTypeError, match=r"KafkaTopicPartition is the same\), not by \('t', 0\)"):
        KafkaOffsetsInitializer.offsets(given)
    offset: Any = "7"
    with pytest.raises(InvalidTypeError, match="the offset of t-0 takes an int, not '7'"):
        KafkaOffsetsInitializer.offsets({KafkaTopicPartition("t", 0): offset})
    strategy: Any = "earliest"
    with pytest.raises(InvalidTypeError, match="committed_offsets takes an OffsetResetStrategy, not 'earliest'"):
        KafkaOffsetsInitializer.committed_offsets(strategy)


def test_values_of_settings_are_text() -> None:
    number: Any = 10
    flag: Any = True
    made = builder().set_topics("t").set_property("fetch.wait.max.ms", number).set_property("check.crcs", flag)
    assert made._properties.items() >= {"fetch.wait.max.ms": "10", "check.crcs": "true"}.items()
    servers: Any = ["a:9092", "b:9092"]
    with pytest.raises(InvalidTypeError, match=r"takes text for 'group.id', not \['a:9092'"):
        builder().set_property("group.id", servers)


def test_names_of_java_are_understood() -> None:
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="p=;w";'
    given = {
        "sasl.jaas.config": login,
        "request.timeout.ms": "5000",
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "security.protocol": "SASL_SSL",
        "client.id.prefix": "fraud",
    }
    assert resolved(given) == {
        "sasl.username": "ann",
        "sasl.password": "p=;w",
        "socket.timeout.ms": "5000",
        "security.protocol": "SASL_SSL",
        "client.id": "fraud-reader",
    }


def test_secrets_are_looked_up_where_a_client_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    (tmp_path / "password").write_text("from a folder\n")
    (tmp_path / "kafka.properties").write_text("user = ann\npassword = of=file\n")
    given = {
        "sasl.password": "${env:KAFKA_PASSWORD}",
        "ssl.key.password": f"${{directory:{tmp_path}:password}}",
        "sasl.username": f"${{file:{tmp_path}/kafka.properties:password}}",
    }
    assert list(resolved(given).values()) == ["s3cret", "from a folder", "of=file"]
    source = builder().set_topics("orders").set_properties(given).build()
    assert b"s3cret" not in pickle.dumps(source)
    monkeypatch.delenv("KAFKA_PASSWORD")
    with pytest.raises(ConfigurationError, match=r"\$\{env:KAFKA_PASSWORD\}, part of Kafka's settings, is not set"):
        resolved(given)
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        resolved({"sasl.password": "${directory:/nowhere:password}"})


def test_what_is_shown_has_no_secrets() -> None:
    source = builder().set_topics("orders").set_property("sasl.password", "s3cret").build()
    assert repr(source) == "KafkaSource(orders at there:9092)"
    assert source.locations == ("orders",)
    assert "s3cret" not in repr(source._settings)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("enable.auto.commit", "true", "is for the source itself to decide"),
        ("ssl.truststore.location", "/etc/trust.jks", "export the certificates as PEM"),
        ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;", "sasl.username"),
    ],
)
def test_settings_that_mean_nothing_here_are_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        builder().set_property(name, value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("fetch.wait.max", "1", r"no setting 'fetch\.wait\.max': did you mean fetch\.wait\.max\.ms"),
        ("sasl.pasword", "${env:KAFKA_PASSWORD}", r"no setting 'sasl\.pasword': did you mean sasl\.password"),
        ("quux", "1", r"no setting 'quux'\n  at .*test_kafka_settings\.py:\d+"),
        ("fetch.min.bytes", "-1", r"refuse 'fetch\.min\.bytes': .* is outside allowed range"),
        ("debug", "everything", "refuse 'debug': Invalid value"),
        ("error_cb", "print", "refuse 'error_cb': expected error_cb property as a callable"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*only consumers use it")
def test_settings_that_clients_refuse_are_told_when_a_builder_builds(name: str, value: str, said: str) -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ConfigurationError, match=said):
        builder().set_topics("orders").set_property(name, value).build()
    sink = KafkaSink.builder().set_bootstrap_servers("there:9092").set_property(name, value)
    with pytest.raises(ConfigurationError, match=said):
        sink.set_record_serializer(alerts().set_topic("a").build()).build()


def test_settings_that_clients_take(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    before = native_threads()
    taken = {
        "fetch.max.wait.ms": "20",
        "client.id.prefix": "fraud",
        "partition.discovery.interval.ms": "100",
        "auto.offset.reset": "latest",
        "sasl.password": "${env:NOT_SET}",
        "queued.min.messages": "${env:NOT_SET}",
        "sasl.jaas.config": "${env:NOT_SET}",
        "max.poll.records": "5",
    }
    builder().set_topics("orders").set_properties(taken).build()
    plugin = {"plugin.library.paths": "monitoring", "confluent.monitoring.topic": "seen"}
    builder().set_topics("orders").set_properties(plugin).build()
    assert native_threads() == before  # no client was made
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)  # as where it is not installed
    builder().set_topics("orders").set_property("fetch.wait.max", "1").build()


def native_threads() -> int:
    """Those of this process, of libraries too; 0 where nobody counts them."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0


def test_all_names_that_are_proposed_are_known() -> None:
    pytest.importorskip("confluent_kafka")
    own = {"client.id.prefix", "commit.offsets.on.checkpoint", "partition.discovery.interval.ms"}
    check_known(dict.fromkeys(sorted(set(PROPOSED) - own), "${env:NOT_SET}"))
    assert own < set(PROPOSED)


def test_a_setting_that_librdkafka_does_not_know() -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ConfigurationError, match=r'refuses its settings: No such configuration property: "fetch.min"'):
        ClientSettings({"bootstrap.servers": "there:9092", "fetch.min": "1"}).consumer("reader", ClientErrors())


def test_files_that_settings_name_and_that_are_not_there() -> None:
    pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": "there:9092", "security.protocol": "ssl", "ssl.ca.location": "/no/such.pem"}
    with pytest.raises(ConfigurationError, match=r"'ssl.ca.location' is /no/such\.pem: No such file"):
        ClientSettings(settings).admin("sink", ClientErrors())


def test_what_is_missing_or_said_twice() -> None:
    empty: KafkaSourceBuilder[str] = KafkaSource.builder()
    with pytest.raises(ConfigurationError, match="set_bootstrap_servers"):
        empty.build()
    with pytest.raises(InvalidTypeError, match="set_bootstrap_servers takes a str"):
        empty.set_bootstrap_servers(["there:9092"])  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match=r"set_topics\(\), set_topic_pattern\(\) or set_partitions\(\)"):
        builder().build()
    with pytest.raises(InvalidProgramError, match="needs set_value_only_deserializer"):
        empty.set_bootstrap_servers("there:9092").set_topics("orders").build()
    with pytest.raises(InvalidProgramError, match="the source reads orders already"):
        builder().set_topics("orders").set_topic_pattern("o.*")
    with pytest.raises(InvalidProgramError, match="is no regular expression"):
        builder().set_topic_pattern("o(")
    with pytest.raises(InvalidTypeError, match="DeserializationSchema"):
        builder().set_value_only_deserializer(SimpleStringSchema)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="set_group_id"):
        builder().set_topics("orders").set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build()
    for name in ("partition.discovery.interval.ms", "commit.offsets.on.checkpoint", "auto.offset.reset"):
        with pytest.raises(ConfigurationError, match=name):
            builder().set_topics("orders").set_property(name, "soon").build()
    with pytest.raises(InvalidProgramError, match="not negative, got -5 for orders-1"):
        KafkaOffsetsInitializer.offsets({KafkaTopicPartition("orders", 1): -5})


def test_whether_it_ends() -> None:
    latest = KafkaOffsetsInitializer.latest()
    made = builder().set_topics("orders")
    assert made.build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert made.set_bounded(latest).build().boundedness is Boundedness.BOUNDED
    assert made.set_unbounded(latest).build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def alerts() -> KafkaRecordSerializationSchemaBuilder:
    return KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema())


def test_what_a_sink_lacks_or_is_told_twice() -> None:
    with pytest.raises(InvalidProgramError, match=r"call set_topic\(\) or set_topic_selector\(\)"):
        alerts().build()
    with pytest.raises(InvalidProgramError, match=r"set_topic\(\) or set_topic_selector\(\) once"):
        alerts().set_topic("alerts").set_topic_selector(str)
    with pytest.raises(InvalidTypeError, match="a KafkaTopicSelector or a function, not 5"):
        alerts().set_topic_selector(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match=r"call set_value_serialization_schema\(\)"):
        KafkaRecordSerializationSchema.builder().set_topic("alerts").build()
    with pytest.raises(ConfigurationError, match="set_bootstrap_servers"):
        KafkaSink.builder().build()
    with pytest.raises(InvalidProgramError, match=r"call set_record_serializer\(\)"):
        KafkaSink.builder().set_bootstrap_servers("there:9092").build()


def test_what_a_sink_promises() -> None:
    sink = (
        KafkaSink.builder().set_bootstrap_servers("there:9092").set_record_serializer(alerts().set_topic("a").build())
    )
    assert sink.build().delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    assert sink.set_delivery_guarantee(DeliveryGuarantee.NONE).build().delivery_guarantee is DeliveryGuarantee.NONE
    exactly_once = sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("shop")
    assert exactly_once.build().delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE


def test_settings_of_a_sink() -> None:
    with pytest.raises(ConfigurationError, match=r"'transactional\.id' is for the sink itself to decide"):
        KafkaSink.builder().set_property("transactional.id", "one")
    for name in ("group.id", "auto.offset.reset", "isolation.level"):
        with pytest.warns(UserWarning, match=rf"'{name}' has no effect on a sink: only consumers use it"):
            KafkaSink.builder().set_property(name, "test_group")
    given = {"max.request.size": "2000000", "value.serializer": "org.apache.kafka.x", "sasl.password": "s3cret"}
    builder = KafkaSink.builder().set_bootstrap_servers("there:9092").set_properties(given)
    sink = builder.set_record_serializer(alerts().set_topic_selector(str).build()).build()
    assert repr(sink) == "KafkaSink(topics by record at there:9092)"
    assert "s3cret" not in repr(sink._settings)
    expected = {"bootstrap.servers": "there:9092", "message.max.bytes": "2000000", "sasl.password": "s3cret"}
    assert resolved(sink._settings.properties) == expected


def test_a_partition_without_a_leader_is_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    answers = [-1001, 7]

    class Admin:
        def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
            future: Future[Any] = Future()
            future.set_result(SimpleNamespace(offset=answers.pop(0)))
            return dict.fromkeys(asked, future)

        def list_topics(self, timeout: float) -> SimpleNamespace:
            return SimpleNamespace(topics={})

    monkeypatch.setattr(ClientSettings, "admin", lambda *_: Admin())
    partition = KafkaTopicPartition("orders", 0)
    cluster = KafkaPartitionedLog(ClientSettings({"bootstrap.servers": "there:9092"}))
    assert list(cluster.latest([partition]).values()) == [7]
    assert answers == []


def test_a_broker_that_is_gone_does_not_flood_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import KafkaError

    now = [0.0]
    monkeypatch.setattr("headrace.connectors.kafka.clients.time", SimpleNamespace(monotonic=lambda: now[0]))
    errors = ClientErrors()
    for now[0] in (0.0, 0.1, 5.0, 10.0, 10.1):
        errors.note(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
        errors.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    told = [record.getMessage() for record in caplog.records]
    assert [line.count("Connection refused") for line in told] == [1, 0, 1, 0]
    assert len(told) == 4


def test_why_no_broker_could_be_reached_is_told() -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import KafkaError

    errors, missed = ClientErrors(), KafkaError(KafkaError._TRANSPORT, "Failed to get metadata")
    assert str(errors.failure(missed, "topics cannot be listed")) == (
        "topics cannot be listed: Failed to get metadata (_TRANSPORT)"
    )
    errors.note(KafkaError(KafkaError._TRANSPORT, "SSL handshake failed: connecting to a PLAINTEXT broker listener?"))
    errors.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert str(errors.failure(missed, "topics cannot be listed")).endswith("connecting to a PLAINTEXT broker listener?")
    other = KafkaError(KafkaError.TOPIC_EXCEPTION, "Invalid topic")
    assert str(errors.failure(other, "a b")) == "a b: Invalid topic (TOPIC_EXCEPTION)"


class GroupClient:
    """Stands for a consumer that is asked about its group."""

    def __init__(self, *errors: Any) -> None:
        self.errors = list(errors)
        self.commits: list[list[int]] = []

    def committed(self, asked: list[Any], _: float) -> list[Any]:
        error = self.errors.pop(0)
        return [
            SimpleNamespace(topic=each.topic, partition=0, offset=-1001 if error else 7, error=error) for each in asked
        ]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self.commits.append([each.offset for each in offsets])

    def poll(self, _: float) -> None:
        """Nothing is heard, unless the test says so."""

    def close(self) -> None:
        """Nothing is open."""


def cluster_of(client: GroupClient, monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaPartitionedLog, dict[str, Any]]:
    """A cluster that asks a client about its group, and the callbacks that the client was given."""
    callbacks: dict[str, Any] = {}

    def consumer(*given: Any) -> GroupClient:
        callbacks.update(given[3])
        return client

    admin = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics={}))
    monkeypatch.setattr(ClientSettings, "admin", lambda *_: admin)
    monkeypatch.setattr(ClientSettings, "consumer", consumer)
    return KafkaPartitionedLog(ClientSettings({"bootstrap.servers": "there:9092", "group.id": "group"})), callbacks


def test_an_offset_with_an_error_is_not_one_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a group would start anew while the broker that keeps its offsets moves."""
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import KafkaError

    client = GroupClient(KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT), None)
    cluster, _ = cluster_of(client, monkeypatch)
    assert cluster.committed([KafkaTopicPartition("orders", 0)]) == {KafkaTopicPartition("orders", 0): 7}
    assert client.errors == []


def test_commits_do_not_pile_up_while_no_broker_takes_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import KafkaError

    client = GroupClient()
    cluster, callbacks = cluster_of(client, monkeypatch)
    for offset in (7, 8, 9):
        cluster.commit({KafkaTopicPartition("orders", 0): offset})
    assert client.commits == [[7]]
    refused = SimpleNamespace(error=KafkaError(KafkaError.NOT_COORDINATOR))
    callbacks["on_commit"](None, [SimpleNamespace(error=None), refused])
    assert "the offsets of group group were not committed" in caplog.text
    monkeypatch.setattr(client, "poll", lambda _: callbacks["on_commit"](None, []))
    cluster.close()
    assert client.commits == [[7], [9]], "the last ones are committed in the end"
