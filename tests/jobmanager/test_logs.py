"""What a job logs: its life at INFO, its epochs at DEBUG, failures at WARNING; with the job and the epoch as fields."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.common import Configuration
from headrace.common.errors import HeadraceError, InfrastructureError, JobExecutionError
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.local import LocalRuntime
from tests.waiting import PATIENCE

Said = list[tuple[str, str, int | None]]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """Levels, messages and epochs of what the job said of itself, up to now."""

    def look() -> Said:
        records = [record for record in caplog.records if record.name == "headrace.jobmanager.status"]
        assert {vars(record)["job"] for record in records} == {"sums"}
        assert len({vars(record)["job_id"] for record in records}) == 1
        return [(record.levelname, record.getMessage(), vars(record)["epoch"]) for record in records]

    caplog.set_level(logging.DEBUG, "headrace")
    return look


def run(settings: dict[str, str], fail: bool = False) -> None:
    configuration = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "1", **settings})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection([1, 2, 3]).uid("numbers")
    stream.map(lambda value: value // (0 if fail else 1)).uid("whole").print().uid("shown")
    env.execute("sums")


def test_a_job_tells_of_its_life(said: Any, tmp_path: Any) -> None:
    settings = {"execution.checkpointing.dir": str(tmp_path)}
    run(settings)
    started, epoch, ended = said()
    assert started[0] == "INFO"
    assert started[1].startswith("job 'sums' starts afresh (job id ")
    assert started[2] is None
    assert epoch[0] == "DEBUG"
    assert epoch[1].startswith("job 'sums': epoch 1: 3 records in ")
    assert epoch[2] == 1
    assert (ended[0], ended[1]) == ("INFO", f"job 'sums' ended at epoch {ended[2]}")
    run(settings)
    again = said()[3]
    assert again[0] == "INFO"
    assert again[1].startswith(f"restored epoch {ended[2]} of job 'sums'")
    assert again[2] == ended[2]


def test_a_failure_that_passes_is_a_warning_and_the_restart_is_told(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [InfrastructureError("the disk was full"), None]
    run_epoch = LocalRuntime.run_epoch

    def flaky(self: LocalRuntime, context: Any) -> Any:
        fault = faults.pop(0)
        if fault is not None:
            raise fault
        return run_epoch(self, context)

    monkeypatch.setattr(LocalRuntime, "run_epoch", flaky)
    run({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"})
    assert faults == []
    levels = [level for level, _, _ in said()]
    assert levels == ["INFO", "WARNING", "INFO", "DEBUG", "INFO"]
    failed, restarted = said()[1:3]
    assert failed[1:] == ("job 'sums': epoch 1 failed, it is run again in 0.0 s: the disk was full", 1)
    assert restarted[1:] == ("job 'sums' goes on from epoch 0", 1)


def test_what_a_job_fails_with_is_told_to_who_waits_so_it_is_no_warning(said: Any) -> None:
    with pytest.raises(JobExecutionError):
        run({}, fail=True)
    level, message, epoch = said()[-1]
    assert (level, epoch) == ("INFO", 0)
    assert message.startswith("job 'sums' failed: UserFunctionError: operator 'Map'")


def test_a_job_that_is_stopped_has_not_come_to_its_end(said: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"headrace.runtime": "local"}))
    env.from_sequence(1, 10**12).filter(lambda number: False).print()
    client = env.execute_async("sums")
    client.stop().result(timeout=PATIENCE)
    assert said()[-1][1].startswith("job 'sums' stopped")


def test_a_job_that_is_refused_has_not_failed_at_an_epoch(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO, "headrace.jobmanager.status")
    settings = {"execution.checkpointing.dir": str(tmp_path)}
    run({**settings, "pipeline.max-parallelism": "64"})
    with pytest.raises(HeadraceError) as refused:
        run({**settings, "pipeline.max-parallelism": "128"})
    assert caplog.messages[-1] == f"job 'sums' did not start: {refused.type.__name__}: {refused.value}"


def test_threads_of_the_job_say_whose_they_are(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    """The committer's own thread warns of a commit that failed."""
    from headrace.connectors.driver_sink import _Committer

    commit, faults = _Committer.commit, [OSError("away")]

    def flaky(self: Any, *arguments: Any) -> None:
        if faults:
            raise faults.pop()
        commit(self, *arguments)

    monkeypatch.setattr(_Committer, "commit", flaky)
    run({})
    (record,) = [record for record in caplog.records if record.name == "headrace.jobmanager.sinks"]
    assert record.threadName == "headrace-committer"
    assert (vars(record)["job"], vars(record)["epoch"]) == ("sums", 1)


def test_settings_that_come_too_late_are_told(caplog: pytest.LogCaptureFixture) -> None:
    run({"headrace.log.format": "json"})  # pytest has given the root logger handlers
    assert "headrace.log.level and headrace.log.format have no effect" in caplog.text
