"""A cluster that cannot be asked for anything is told before Java starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headrace.common.errors import ConfigurationError, InfrastructureError
from headrace.runtime.spark.diagnosis import Check, _check_spark
from headrace.runtime.spark.executors import check_master
from headrace.runtime.spark.session_start import SessionRequest, prepare


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_yarn_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing says where YARN is\n  Set HADOOP_CONF_DIR or YARN_CONF_DIR"):
        check_master("yarn", {"HADOOP_CONF_DIR": ""}, tmp_path)
    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"}, None)
    (tmp_path / "spark-env.sh").write_text("export HADOOP_CONF_DIR=/etc/hadoop\n")
    check_master("yarn", {}, tmp_path)


def test_masters_that_are_not_there() -> None:
    one, other = closed_port(), closed_port()
    with pytest.raises(InfrastructureError) as refused:
        check_master(f"spark://127.0.0.1:{one},127.0.0.1:{other}", {}, None)
    first, todo = str(refused.value).splitlines()
    assert f"127.0.0.1:{one}: " in first
    assert f"127.0.0.1:{other}: " in first
    assert "Check that it runs" in todo


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{server.getsockname()[1]}", {}, None)


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://:7077", "spark://host:port"])
def test_a_url_without_host_and_port(master: str) -> None:
    with pytest.raises(ConfigurationError, match="has no host and port, as in spark://host:7077"):
        check_master(master, {}, None)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,512]", "k8s://https://host:6443"])
def test_others_are_left_to_spark(master: str) -> None:
    check_master(master, {}, None)


def test_a_session_is_not_started_in_vain() -> None:
    request = SessionRequest({}, f"spark://127.0.0.1:{closed_port()}", uses_class_archive=False, environment={})
    with pytest.raises(InfrastructureError, match="cannot be reached"):
        prepare(request, {})


def test_the_doctor_says_it_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        check_master("yarn", {}, None)

    monkeypatch.setattr("headrace.runtime.spark.session.acquire_session", refuse)
    (check,) = _check_spark({}, "yarn")
    assert check == Check(
        "Spark session",
        False,
        "the master is yarn, but nothing says where YARN is",
        "Set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder that holds the cluster's core-site.xml and yarn-site.xml",
    )
