"""``headrace kafka``: a broker that outlives the command which has started it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.broker import KafkaCluster
from headrace.cli.main import app
from headrace.common.errors import ConfigurationError, InfrastructureError


def kafka(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["kafka", *map(str, arguments)])


def test_without_a_cluster_it_says_how_to_make_one(tmp_path: Path) -> None:
    for command in ("status", "stop"):
        ended = kafka(command, "--data", tmp_path / "none")
        assert ended.exit_code == 2
        assert "make one by headrace kafka start" in ended.stderr


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.apart
def test_from_start_to_stop(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    started = kafka("start", "--data", folder)
    assert started.exit_code == 0, started.stderr
    host, port = started.stdout.strip().split(":")
    socket.create_connection((host, int(port))).close()
    assert kafka("start", "--data", folder).stdout == started.stdout  # it runs already
    with pytest.raises(InfrastructureError, match="runs already"):
        KafkaCluster.existing(folder).start()
    running = kafka("status", "--data", folder)
    assert (running.exit_code, running.stdout) == (0, started.stdout)
    assert kafka("stop", "--data", folder).exit_code == 0
    stopped = kafka("status", "--data", folder)
    assert (stopped.exit_code, stopped.stdout) == (1, "")
    assert "node 1 at 127.0.0.1" in stopped.stderr
    with pytest.raises(ConfigurationError, match="has 1 brokers, not 3"):
        KafkaCluster(folder, brokers=3)
    assert kafka("stop", "--delete", "--data", folder).exit_code == 0
    assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.integration
def test_a_node_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        KafkaCluster(tmp_path)
        description = json.loads((tmp_path / "cluster.json").read_text())
        description[1][0][2] = taken.getsockname()[1]
        (tmp_path / "cluster.json").write_text(json.dumps(description))
        cluster = KafkaCluster.existing(tmp_path)
        with pytest.raises(InfrastructureError, match=r"node 1 at .* has ended: the end of .*server\.log is"):
            cluster.start()
    assert not cluster.is_running
