"""Kafka's jars are fetched once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.broker import KAFKA_VERSION, broker_jars
from headrace.common.errors import ConfigurationError, InfrastructureError


class Maven:
    """Stands for jgo."""

    def __init__(self, folder: Path) -> None:
        self.calls = 0
        self.jar = folder / "kafka.jar"

    def build(self, endpoint: str, *, update: bool, cache_dir: Path) -> SimpleNamespace:
        self.calls += 1
        assert f":{KAFKA_VERSION}" in endpoint
        self.jar.touch()
        return SimpleNamespace(all_jars=[self.jar])


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maven:
    maven = Maven(tmp_path)
    monkeypatch.setitem(sys.modules, "jgo", maven)  # type: ignore[arg-type]
    return maven


def test_they_are_fetched_once(tmp_path: Path, maven: Maven) -> None:
    assert broker_jars(tmp_path / "cache") == broker_jars(tmp_path / "cache") == [maven.jar]
    assert maven.calls == 1


def test_one_that_is_gone_is_fetched_again(tmp_path: Path, maven: Maven) -> None:
    broker_jars(tmp_path / "cache")
    maven.jar.unlink()
    assert broker_jars(tmp_path / "cache") == [maven.jar]
    assert maven.calls == 2


def test_a_failure_says_what_failed(tmp_path: Path, maven: Maven, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(maven, "build", fail)
    with pytest.raises(InfrastructureError, match=r"from Maven Central: ConnectionError: no route to host"):
        broker_jars(tmp_path / "cache")


def test_without_jgo_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'headrace\[kafka-broker\]'"):
        broker_jars(tmp_path / "cache")
