"""A Kafka that is reached by TLS alone and asks for passwords: failures say what is wrong, secrets stay secret."""

from __future__ import annotations

import io
import logging
import subprocess
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from shutil import which

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from headrace.broker import KafkaCluster
from headrace.common import SimpleStringSchema, WatermarkStrategy
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, JobExecutionError
from headrace.connectors.partitions import OffsetsInitializer
from headrace.datastream import StreamExecutionEnvironment
from headrace.storage.folder import posix_folder
from tests.connectors.kafka.topics import Topic
from tests.connectors.partitions.driver import ALL, enumerator, texts
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.integration, pytest.mark.slow]  # of brokers of its own

PASSWORD = "s3cret-of-ann"
_MODULE = "org.apache.kafka.common.security"
_STORE = "of-the-key-store"


@pytest.fixture(scope="module")
def folder_of_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key of a broker, and its certificate as PEM, made as Kafka's documentation says."""
    keytool = which("keytool")
    if keytool is None:
        pytest.skip("keytool of a JDK makes the certificates")
    folder = tmp_path_factory.mktemp("keys")
    store = ["-keystore", str(folder / "broker.p12"), "-storepass", _STORE, "-alias", "broker"]
    names = ["-keyalg", "EC", "-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-storetype", "PKCS12"]
    subprocess.run([keytool, "-genkeypair", *names, *store], check=True, capture_output=True)
    exported = subprocess.run([keytool, "-exportcert", "-rfc", *store], check=True, capture_output=True)
    (folder / "ca.pem").write_bytes(exported.stdout)
    return folder


@pytest.fixture(scope="module")
def secure(folder_of_keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Known to it are ``broker`` by PLAIN, and ``ann`` by SCRAM."""
    pytest.importorskip("jgo")
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder_of_keys / "broker.p12"),
        "ssl.keystore.password": _STORE,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder_of_keys / "ca.pem"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{_MODULE}.plain.PlainLoginModule required username="broker" password="b" user_broker="b";'
        ),
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
    }
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings=settings) as cluster:
        admin = {"sasl.mechanism": "PLAIN", "sasl.username": "broker", "sasl.password": "b", **tls(folder_of_keys)}
        known = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        ann = UserScramCredentialUpsertion("ann", known, PASSWORD.encode())
        client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **admin})
        client.alter_user_scram_credentials([ann])["ann"].result(PATIENCE)
        yield cluster


def tls(folder: Path) -> dict[str, str]:
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(folder / "ca.pem")}


@pytest.fixture
def login(folder_of_keys: Path) -> dict[str, str]:
    """What a client of ann's is told."""
    return {
        **tls(folder_of_keys),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }


@pytest.fixture
def topic(secure: KafkaCluster, login: Mapping[str, str]) -> Topic:
    return Topic(secure.bootstrap_servers, login=login)


@pytest.mark.slow
def test_reading_goes_on_after_the_broker_was_killed(topic: Topic, secure: KafkaCluster, tmp_path: Path) -> None:
    topic.put(range(100))
    source = topic.reading().build()
    planner, reader = enumerator(source, posix_folder(tmp_path)), source.create_reader()
    (split,) = planner.discover(0)
    assert planner.initial_position(split) == 0
    assert sum(len(each) for each in reader.read([split, 0, 50])) == 50
    (node,) = secure.nodes
    node.kill()
    node.start()
    node.wait()
    topic.put(range(100, 200))
    end = time.monotonic() + PATIENCE
    while (planned := planner.plan(split, 50, ALL, 0)) is None or planned.end < 200:
        assert time.monotonic() < end
        planner.discover(0)
    rows = [value for each in reader.read([split, 50, 200]) for value in each.columns["value"].to_pylist()]  # type: ignore[index]
    assert rows == texts(range(50, 200))
    reader.close()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"sasl.password": "guessed"}, "Authentication failed"),
        ({"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"}, "certificate verify failed"),
    ],
    ids=["password", "certificate"],
)
def test_who_is_turned_away_is_told_so_at_once(
    topic: Topic, tmp_path: Path, wrong: Mapping[str, str], reason: str
) -> None:
    source = topic.reading().set_properties(wrong).build()
    with pytest.raises(ConfigurationError, match=f"topics cannot be listed, at 127.*{reason}"):
        enumerator(source, posix_folder(tmp_path)).discover(0)
    with pytest.raises(ConfigurationError, match=f"{topic.name}-0@0, at 127.*{reason}"):
        list(source.create_reader().read([f"{topic.name}-0", 0, 1]))


@pytest.mark.parametrize(
    "kind", ["env", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("file", "directory", "literal"))]
)
def test_a_secret_is_nowhere_but_where_it_is_kept(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Not in logs, plans, checkpoints, errors, nor in what a job prints: of jobs that run, and of those that fail."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "secrets" / "kafka.properties").write_text(f"password={PASSWORD}\n")
    monkeypatch.setenv("PASSWORD_OF_ANN", PASSWORD)
    references = {
        "env": "${env:PASSWORD_OF_ANN}",
        "file": f"${{file:{tmp_path}/secrets/kafka.properties:password}}",
        "directory": f"${{directory:{tmp_path}/secrets:password}}",
        "literal": PASSWORD,
    }
    caplog.set_level(logging.DEBUG)
    topic.put(["1", "no number"])
    begun = topic.reading(group=f"group-{topic.name}").set_value_only_deserializer(SimpleStringSchema())
    begun.set_property("sasl.password", references[kind]).set_property("debug", "all")
    source = begun.set_bounded(OffsetsInitializer.latest()).build()
    settings = {"headrace.runtime": "local", "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.from_source(source, WatermarkStrategy.no_watermarks(), "in").map(int).print()
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
        shown = [repr(source), env.explain(), env.get_execution_plan()]
        with pytest.raises(JobExecutionError) as failed:
            env.execute("numbers")
    shown += [printed.getvalue(), "".join(traceback.format_exception(failed.value)), caplog.text]
    assert "no number" in shown[-2]
    assert "SASL" in caplog.text, "librdkafka has told what it does"
    kept = [file.read_bytes() for file in (tmp_path / "checkpoints").rglob("*") if file.is_file()]
    assert kept
    assert not [text for text in (*map(str.encode, shown), *kept) if PASSWORD.encode() in text]
