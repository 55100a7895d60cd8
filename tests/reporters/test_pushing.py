"""What reporters send at intervals, to servers of the protocols and to the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.common import JobStatus
from tests.reporters.jobs import build, environment, running
from tests.reporters.servers import http_server, udp_server
from tests.waiting import PATIENCE, wait_for


def settings(plugin: str, **more: str) -> dict[str, str]:
    given = {"factory.class": plugin, "interval": "50 ms", **more}
    return {f"metrics.reporter.it.{key}": value for key, value in given.items()}


def test_statsd_gets_gauges_in_datagrams() -> None:
    with udp_server() as server:
        given = settings("statsd", host="127.0.0.1", port=str(server.getsockname()[1]), **{"scope.delimiter": "/"})
        scope = {"metrics.scope.operator": "job<job_name>.<operator_name>.<subtask_index>", "metrics.scope.jm-job": "j"}
        found: dict[str, list[str]] = {}

        def received() -> bool:
            datagram = server.recv(1 << 16).decode()
            assert len(datagram) <= 1432
            for line in datagram.split("\n"):
                name, value = re.fullmatch(r"([^:]+):([^|]+)\|g", line).groups()  # type: ignore[union-attr]
                found.setdefault(name, []).append(value)
            return len(found.get("job<job_name>/keyed/1/numRecordsIn", ())) > 1  # so one report has come as a whole

        with running({**given, **scope}):
            wait_for(received)
    assert "j/uptime" in found
    # a gauge that begins with a sign is taken for a change
    assert found["j/lastCheckpointRestoreTimestamp"][:2] == ["0", "-1"]
    assert found["job<job_name>/measure/0/answer"][-1] == "42"
    assert float(found["job<job_name>/measure/0/numbers/parity/odd/seen"][-1]) > 0
    assert {"job<job_name>/measure/0/rate.rate", "job<job_name>/measure/0/sizes.max"} <= found.keys()


def test_a_push_gateway_gets_a_group_which_goes_with_the_job() -> None:
    with http_server() as server:
        more = {"hostUrl": server.url, "jobName": "numbers-", "groupingKey": "team=a"}
        with running(settings("prometheus-pushgateway", **more)):
            put = wait_for(lambda: [each for each in server.requests if b"numRecordsIn" in each.body])[-1]
        wait_for(lambda: server.requests[-1].method == "DELETE")
    assert put.method == "PUT"
    assert re.fullmatch(r"/metrics/job/numbers-[0-9a-f]{32}/team/a", put.path)
    assert server.requests[-1].path == put.path
    names = {family.name for family in text_string_to_metric_families(put.body.decode())}
    assert {"flink_jobmanager_job_uptime", "flink_taskmanager_job_task_operator_numRecordsIn"} <= names


def test_the_log_has_a_report_as_of_flink(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headrace.reporters.log"), running(settings("log")):
        pass
    assert "metric reporter 'log' (it) writes to the log at level INFO, which is not logged" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, "headrace.reporters.log"), running(settings("log")):
        text = wait_for(lambda: [each.getMessage() for each in caplog.records if "numRecordsIn" in each.getMessage()])
    report = text[-1]
    assert report.index("-- Counters ---") < report.index("keyed.1.numRecordsIn: ") < report.index("-- Gauges ---")
    line = r"^\S+\.taskmanager\.\S+\.numbers and more\.measure\.0\.sizes: count=\d+, min=0, max=\d+, mean="
    assert re.search(line, report, re.MULTILINE)


def failing(given: Mapping[str, str], caplog: pytest.LogCaptureFixture, said: str) -> list[logging.LogRecord]:
    """The warnings of a job whose reporter fails, and which runs to its end all the same."""
    env = environment(given)
    build(env, records=30_000)
    with caplog.at_level(logging.INFO):
        client = env.execute_async()
        assert client.get_job_execution_result().result(PATIENCE).get_job_id() is not None
        assert client.get_job_status().result() is JobStatus.FINISHED
    return [record for record in caplog.records if said in record.getMessage()]


def test_a_server_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    told = failing(settings("prometheus-pushgateway", hostUrl="http://127.0.0.1:9"), caplog, "is tried again")
    assert [record.levelname for record in told] == ["WARNING"]
    assert "metric reporter 'prometheus-pushgateway' (it) failed, and is tried again: URLError" in told[0].getMessage()


def test_it_is_told_when_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    with http_server() as server, caplog.at_level(logging.INFO):
        server.status = 503
        with running(settings("prometheus-pushgateway", hostUrl=server.url)):
            wait_for(lambda: "is tried again" in caplog.text)
            server.status = 200
            wait_for(lambda: "works again" in caplog.text)


def test_a_host_that_there_is_not(caplog: pytest.LogCaptureFixture) -> None:
    told = failing(settings("statsd", host="no.such.host.invalid"), caplog, "cannot begin: nothing is reported")
    assert len(told) == 1
