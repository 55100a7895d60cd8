"""A real Prometheus scrapes a running job: the queries of the board have answers, and alerts fire when they should."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Types, WatermarkStrategy
from headrace.common.time import Duration
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from tests.docs.documents import DOCS
from tests.reporters.debian import fetch, server
from tests.reporters.jobs import Measure, environment, free_port
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MONITORING = DOCS / "monitoring"
EMPTY_WHERE_ALL_IS_WELL = ["Lost and refused"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch("prometheus", tmp_path_factory.mktemp("prometheus"))


def lines(path: Path, count: int) -> Path:
    path.write_text("".join(f"{number}\n" for number in range(count)))
    return path


def build(env: StreamExecutionEnvironment, path: Path) -> None:
    """Numbers from a file, with times that begin now, through a shuffle."""
    now = int(time.time() * 1000)
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        lambda line, _: now + int(line) // 100
    )
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    numbers = env.from_source(source, times, "lines").map(int, Types.LONG()).name("parse")
    measured = numbers.map(Measure(), output_type=Types.LONG()).name("measure")
    measured.key_by(lambda number: number % 7).map(lambda number: number, Types.LONG()).name("keyed").sink_to(
        CollectSink(lambda _: None)
    ).name("nowhere")


@contextmanager
def job(path: Path, settings: dict[str, str]) -> Iterator[None]:
    env = environment(settings)
    build(env, path)
    client = env.execute_async("orders")
    try:
        wait_for(lambda: client.snapshot().completed > 0)
        yield
    finally:
        client.cancel().result(PATIENCE)


def asked(port: int, path: str, **parameters: str) -> Any:
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def queries() -> dict[str, list[str]]:
    """By the titles of the board's panels, their queries, of the job of this test."""
    board = json.loads((MONITORING / "grafana.json").read_text())
    return {
        panel["title"]: [target["expr"].replace("$job", "orders") for target in panel["targets"]]
        for panel in board["panels"]
        if panel["type"] != "row"
    }


def test_a_prometheus_scrapes_a_running_job(programs: Path, tmp_path: Path) -> None:
    scraped, own = free_port(), free_port()
    config = (MONITORING / "prometheus.yaml").read_text().replace("localhost:9249", f"127.0.0.1:{scraped}")
    for name in ("alerts.yaml", "alerts_test.yaml"):
        (tmp_path / name).write_text((MONITORING / name).read_text())
    (tmp_path / "prometheus.yaml").write_text(re.sub(r"(scrape|evaluation)_interval: 10s", r"\1_interval: 1s", config))
    command = [
        str(programs / "prometheus"),
        f"--config.file={tmp_path / 'prometheus.yaml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{own}",
    ]
    settings = {"metrics.reporter.prom.factory.class": "prometheus", "metrics.reporter.prom.port": str(scraped)}
    ready = f"http://127.0.0.1:{own}/-/ready"
    with job(lines(tmp_path / "numbers", 2_000_000), settings), server(command, ready, tmp_path / "log"):
        wait_for(lambda: asked(own, "query", query='up{job="headrace"} == 1')["result"])
        wait_for(lambda: asked(own, "query", query='flink_jobmanager_job_numRestarts{job_name="orders"}')["result"])
        missing = {
            query for title, of_panel in queries().items() if title not in EMPTY_WHERE_ALL_IS_WELL for query in of_panel
        }
        assert len(missing) > 25
        answers: dict[str, list[Any]] = {}

        def all_have_answers() -> bool:
            for query in list(missing):
                if found := asked(own, "query", query=query)["result"]:
                    answers[query] = found
                    missing.remove(query)
            return not missing

        try:
            wait_for(all_have_answers)
        except AssertionError:
            pytest.fail(f"no answer: {missing}")
        for title in EMPTY_WHERE_ALL_IS_WELL:
            assert [asked(own, "query", query=query)["result"] for query in queries()[title]] == [[], [], []]
        rules = [rule for group in asked(own, "rules")["groups"] for rule in group["rules"]]
        wait_for(lambda: all(r["health"] == "ok" for g in asked(own, "rules")["groups"] for r in g["rules"]))
        assert len(rules) > 10
        assert not [alert for alert in asked(own, "alerts")["alerts"] if alert["state"] == "firing"]
        names = set(asked(own, "label/__name__/values"))
        (metadata,) = asked(own, "metadata", metric="flink_jobmanager_job_uptime")["flink_jobmanager_job_uptime"]
    assert metadata["type"] == "gauge"
    assert {name for name in names if name.startswith("flink_")} >= {
        metric for query in answers for metric in re.findall(r"flink_\w+", query)
    }


@pytest.mark.parametrize("command", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_the_alerts(programs: Path, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(programs / "promtool"), *command], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_push_gateway_shows_a_job_until_it_ends(tmp_path: Path) -> None:
    program = fetch("prometheus-pushgateway", tmp_path) / "prometheus-pushgateway"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    given = {"factory.class": "prometheus-pushgateway", "hostUrl": url, "jobName": "orders", "interval": "200 ms"}

    def shown() -> str:
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    command = [str(program), f"--web.listen-address=127.0.0.1:{port}"]
    with server(command, f"{url}/-/ready", tmp_path / "log"):
        settings = {f"metrics.reporter.push.{key}": value for key, value in given.items()}
        with job(lines(tmp_path / "numbers", 200_000), settings):
            wait_for(lambda: re.search(r'^flink_jobmanager_job_uptime\{.*job_name="orders".*\} [1-9]', shown(), re.M))
        assert "flink_jobmanager_job_uptime" not in shown()
