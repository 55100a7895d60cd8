"""What epochs aim at follows from the mode, unless the configuration says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.submission import plan_graph
from headrace.common.configuration import Configuration
from headrace.common.typeinfo import Types
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.aggregates import count
from headrace.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from headrace.expressions import left as side
from headrace.jobmanager.settings import JobSettings, job_settings

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("missing", ["execution.state-recovery.path", "execution.checkpointing.dir"])
def test_a_claim_of_nothing_is_told(missing: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"execution.state-recovery.path": str(tmp_path / "a"), "execution.checkpointing.dir": str(tmp_path / "b")}
    given.pop(missing)
    given["execution.state-recovery.claim-mode"] = "CLAIM"
    written: dict[str, Any] = {key.replace("-", "__").replace(".", "_"): text for key, text in given.items()}
    settings(**written)
    assert f"execution.state-recovery.claim-mode is CLAIM and nothing is claimed: {missing} is not set" in caplog.text


def joined(kind: str, **given: str) -> tuple[int, int, int]:
    """How many records the first and any epoch reads, and how many bytes, where two streams are joined."""
    configuration = Configuration.from_dict({"execution.runtime-mode": "BATCH", **given})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[0])
    numbers = env.from_sequence(1, 3).map(lambda number: (number, 0), PAIR).assign_timestamps_and_watermarks(times)
    left, right = (numbers.filter(lambda pair: True) for _ in range(2))
    two = left.join(right).where(0).equal_to(0)
    if kind == "interval":
        left.key_by(0).interval_join(right.key_by(0)).between(0, 1).select(side("f1")).print()
    else:
        two.window(WINDOWS[kind]).apply(lambda a, b: a, PAIR).print()
    plan = plan_graph(env.transformations.take_next_job(), configuration, "job", 2)
    limits = job_settings(configuration, plan).limits
    return limits.first_records, limits.max_records, limits.max_bytes


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
WINDOWS = {"tumbling": TumblingEventTimeWindows.of(5), "sessions": EventTimeSessionWindows.with_gap(5)}


@pytest.mark.parametrize("kind", ["interval", "tumbling"])
def test_joins_in_batch_mode_have_one_epoch(kind: str) -> None:
    assert min(joined(kind)) > 10**12


@pytest.mark.parametrize(("kind", "runtime"), [("sessions", "spark"), ("interval", "local")])
def test_where_an_epoch_is_in_memory_joins_have_a_large_one(kind: str, runtime: str) -> None:
    in_memory = joined(kind, **{"headrace.runtime": runtime})
    assert in_memory == (5_000_000, 10_000_000, 512 << 20)


@pytest.mark.parametrize("option", ["execution.checkpointing.interval", "headrace.epoch.target-duration"])
def test_joins_in_batch_mode_have_epochs_where_one_may_take_so_long_only(option: str) -> None:
    assert joined("interval", **{option: "5 s"}) == (500_000, 10_000_000, 512 << 20)


def test_how_much_joins_in_batch_mode_read_may_be_set() -> None:
    given = {"headrace.epoch.max-records": "7", "headrace.epoch.max-bytes": "1 kb", "headrace.epoch.first-records": "3"}
    assert joined("interval", **given) == (3, 14, 2048)


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
