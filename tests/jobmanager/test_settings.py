"""What epochs aim at follows from the mode, unless the configuration says it."""

from __future__ import annotations

from headrace.client.submission import plan_graph
from headrace.common.configuration import Configuration
from headrace.common.typeinfo import Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.jobmanager.settings import JobSettings, job_settings


def settings(*, is_counted: bool = False, is_reduced: bool = False, **given: str) -> JobSettings:
    configuration = Configuration.from_dict(
        {key.replace("__", "-").replace("_", "."): text for key, text in given.items()}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    keyed = env.from_sequence(1, 3).key_by(lambda number: number, key_type=Types.LONG())
    if is_counted:
        keyed.count_window(5).aggregate(count()).print()
    (keyed.reduce(max) if is_reduced else keyed).print()
    plan = plan_graph(env.transformations.take_next_job(), configuration, "job", 2)
    return job_settings(configuration, plan)


def aims(found: JobSettings) -> tuple[float, int, int, float]:
    limits = found.limits
    return limits.target_seconds, limits.first_records, limits.max_records, found.epoch_timeout_seconds


def test_epochs_of_batch_mode_are_large() -> None:
    assert aims(settings()) == (1.0, 50_000, 40_000_000, 600.0)
    assert aims(settings(execution_runtime__mode="AUTOMATIC")) == (60.0, 500_000, 20_000_000, 7200.0)


def test_what_is_kept_as_objects_makes_epochs_of_batch_mode_smaller() -> None:
    for is_reduced, most in ((False, 20_000_000), (True, 10_000_000)):
        found = settings(is_counted=True, is_reduced=is_reduced, execution_runtime__mode="BATCH")
        assert found.limits.max_records == most


def test_what_is_set_holds_in_either_mode() -> None:
    for mode in ("STREAMING", "BATCH"):
        found = settings(
            execution_runtime__mode=mode,
            headrace_epoch_target__duration="3 s",
            headrace_epoch_first__records="7",
            headrace_epoch_max__records="9",
            execution_checkpointing_timeout="9 s",
        )
        assert aims(found) == (3.0, 7, 18, 9.0)


def test_the_longest_time_between_checkpoints_holds_in_batch_mode() -> None:
    found = settings(execution_runtime__mode="BATCH", execution_checkpointing_interval="5 s")
    assert found.limits.target_seconds == 5.0
