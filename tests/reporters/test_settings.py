"""What a configuration says of reporters, and what is wrong with it."""

from __future__ import annotations

import pytest

from headrace.common import Configuration
from headrace.common.errors import ConfigurationError
from headrace.metrics.scopes import ScopeFormats, ScopeKind
from headrace.reporters.reporter import METRIC_REPORTERS, TRACE_REPORTERS
from headrace.reporters.reporting import INTERVAL, reporters_of, trace_reporters_of

P = "metrics.reporter."


def test_all_that_the_configuration_knows_or_those_that_are_named() -> None:
    given = {
        f"{P}prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        f"{P}prom.port": "9250-9260",
        f"{P}my_log.class": "org.apache.flink.metrics.slf4j.Slf4jReporter",
        f"{P}my_log.interval": "60 SECONDS",
    }
    prometheus, log = reporters_of(Configuration.from_dict(given))
    assert (prometheus.name, prometheus.reporter.name, prometheus.get(INTERVAL)) == ("prom", "prometheus", 10_000)
    assert (log.name, log.reporter.name, log.get(INTERVAL)) == ("my_log", "log", 60_000)
    (named,) = reporters_of(Configuration.from_dict({**given, "metrics.reporters": " my_log ,"}))
    assert named.name == "my_log"
    Configuration.from_dict(given).validate()


def test_reporters_of_spans() -> None:
    otel = "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory"
    given = {
        "factory.class": otel,
        "exporter.endpoint": "http://there/v1/traces",
        "exporter.headers": "key=s3cret",
    }
    configuration = Configuration.from_dict({f"traces.reporter.otel.{key}": value for key, value in given.items()})
    (found,) = trace_reporters_of(configuration)
    assert (found.name, found.reporter.name) == ("otel", "opentelemetry")
    configuration.validate()
    assert "s3cret" not in repr(configuration)
    assert "s3cret" not in str(configuration.job_parameters())
    with pytest.raises(ConfigurationError, match=r"traces\.reporter\.otel\.: trace reporter 'opentelemetry' has no"):
        trace_reporters_of(Configuration.from_dict({**configuration.to_dict(), "traces.reporter.otel.host": "a"}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({f"{P}a.factory.class": "promethius"}, r"metrics\.reporter\.a\.: there is no metric reporter 'promethius'.*"),
        (
            {f"{P}a.factory.class": "prometheus", f"{P}a.prot": "1"},
            r"metric reporter 'prometheus' has no option 'prot'",
        ),
        ({f"{P}a.factory.class": "prometheus", f"{P}a.port": "x"}, "port = 'x': expected ports such as 8081"),
        ({f"{P}a.port": "1"}, "factory.class is not set"),
        ({f"{P}a": "1"}, "write metrics.reporter.<name>.<option>"),
        ({"metrics.reporters": "a"}, "metrics.reporters: nothing is said of a reporter 'a': set metrics.reporter.a."),
        ({f"{P}a.class": "log", f"{P}a.interval": "soon"}, "interval = 'soon': expected a duration"),
        ({f"{P}a.class": "log", f"{P}a.filter.includes": "a:b:size"}, "expected kinds among counter, gauge"),
        ({f"{P}a.class": "log", f"{P}a.filter.includes": "a:b:gauge:d"}, "expected <scope>:<name>"),
        ({f"{P}a.class": "log", f"{P}a.scope.variables.additional": "x"}, "expected labels such as 'region:eu"),
        ({f"{P}a.class": "org.apache.flink.metrics.jmx.JMXReporterFactory"}, "there is no JVM to look into"),
    ],
)
def test_mistakes(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        reporters_of(Configuration.from_dict(given))


def test_keys_of_metrics_are_checked() -> None:
    with pytest.raises(
        ConfigurationError, match=r"metrics\.reporter is not an option.*did you mean metrics\.reporters"
    ):
        Configuration.from_dict({"metrics.reporter": "a"}).validate()
    with pytest.warns(UserWarning, match=r"metrics\.fetcher\.update-interval has no effect"):
        Configuration.from_dict({"metrics.fetcher.update-interval": "1 s"}).validate()


def test_every_reporter_of_headrace_loads() -> None:
    for group in (METRIC_REPORTERS, TRACE_REPORTERS):
        for name in group.built_in:
            assert group.load(name).name == name


VARIABLES = {
    "host": "h",
    "tm_id": "t",
    "job_id": "j",
    "job_name": "job",
    "task_id": "x",
    "task_name": "a -> b",
    "task_attempt_id": "y",
    "task_attempt_num": "0",
    "subtask_index": "3",
    "operator_id": "z",
    "operator_name": "b",
}


def test_scopes_are_written_as_formats_say() -> None:
    def written(kind: ScopeKind, **given: str) -> str:
        formats = ScopeFormats(Configuration.from_dict({f"metrics.scope.{key}": text for key, text in given.items()}))
        return ".".join(formats.scope(kind, VARIABLES).components)

    assert written(ScopeKind.JOB) == "h.jobmanager.job"
    assert written(ScopeKind.OPERATOR) == "h.taskmanager.t.job.b.3"
    assert written(ScopeKind.TASK) == "h.taskmanager.t.job.a -> b.3"
    assert written(ScopeKind.TASK, task="*.<task_id>", tm="<tm_id>", **{"tm-job": "*.<job_name>"}) == "t.job.x"
    with pytest.raises(ConfigurationError, match=r"metrics\.scope\.jm-job: there is no <task_id>, only <host>"):
        written(ScopeKind.JOB, **{"jm-job": "<task_id>"})


def test_groups_are_parts_of_a_scope() -> None:
    operator = ScopeFormats(Configuration()).scope(ScopeKind.OPERATOR, VARIABLES)
    scope = operator.within([("http", None), ("status", "404")])
    assert scope.logical == ("taskmanager", "job", "task", "operator", "http", "status")
    assert scope.components[-3:] == ("http", "status", "404")
    assert scope.variables["status"] == "404"
