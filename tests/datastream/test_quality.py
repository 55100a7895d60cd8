"""Expectations of records, and measures of the records of a window."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.client.job_client import JobClient
from headrace.common import Configuration, Duration, Encoder, Row, SimpleStringSchema, Time, Types, WatermarkStrategy
from headrace.common.errors import InvalidProgramError, InvalidTypeError, JobExecutionError, UserFunctionError
from headrace.connectors.ranges import DataGeneratorSource, RateLimiterStrategy
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from headrace.datastream.connectors.base import MessageSerializationSchema
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.connectors.log import LogSink
from headrace.datastream.quality import (
    distinct_share,
    freshness,
    highest,
    lowest,
    mean,
    measure,
    null_share,
    volume,
    volume_change,
)
from headrace.datastream.window import TumblingEventTimeWindows
from headrace.expressions import col
from headrace.jobmanager.events import EpochHeld
from headrace.log import Log
from headrace.testing import JobHarness
from tests.waiting import PATIENCE, wait_for

PAYMENT = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.DOUBLE()])
PAYMENTS = [("a", 1.0), (None, 2.0), ("b", -1.0), ("c", None), ("a", 5.0)]
POSITIVE = col("amount") > 0
BAD = OutputTag("bad")


def local(**settings: str) -> StreamExecutionEnvironment:
    options = {"headrace.runtime": "local", "parallelism.default": "1", "restart-strategy.type": "none"} | settings
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


def amounts(records: Any) -> list[float | None]:
    return [record.amount for record in records]


def is_positive(payment: Row) -> bool:
    return payment.amount is not None and payment.amount > 0


@pytest.mark.parametrize("condition", [POSITIVE, is_positive], ids=["expression", "function"])
@pytest.mark.parametrize(("violations", "kept"), [("count", [1.0, 2.0, -1.0, None, 5.0]), ("drop", [1.0, 2.0, 5.0])])
def test_records_that_violate_an_expectation_are_counted(condition: Any, violations: Any, kept: list[float]) -> None:
    env = local()
    stream = env.from_collection(PAYMENTS, PAYMENT).expect("positive", condition, violations)
    stream.map(lambda row: row.amount, output_type=Types.DOUBLE()).print()
    client = env.execute_async()
    client.get_job_execution_result().result(timeout=PATIENCE)
    assert client.get_metrics().result()["positive.numViolations"] == 2
    assert (
        amounts(
            local().from_collection(PAYMENTS, PAYMENT).expect("p", condition, violations).execute_and_collect(limit=9)
        )
        == kept
    )


@pytest.mark.parametrize("condition", [POSITIVE, is_positive], ids=["expression", "function"])
def test_dead_letters_leave_by_a_side_output(condition: Any) -> None:
    checked = local().from_collection(PAYMENTS, PAYMENT).expect("positive", condition, BAD)
    assert checked.get_side_output(BAD).get_type() == PAYMENT
    assert amounts(checked.get_side_output(BAD).execute_and_collect(limit=9)) == [-1.0, None]
    assert amounts(checked.execute_and_collect(limit=9)) == [1.0, 2.0, 5.0]


@pytest.mark.parametrize("condition", [POSITIVE, is_positive], ids=["expression", "function"])
def test_a_violation_fails_the_job_with_its_record(condition: Any) -> None:
    checked = local().from_collection(PAYMENTS, PAYMENT).expect("positive", condition, "fail")
    with pytest.raises(UserFunctionError, match=r"expectation 'positive' is violated(.|\n)*-1\.0"):
        checked.execute_and_collect(limit=9)


def test_a_failed_expectation_does_not_restart_the_job() -> None:
    env = local(**{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5"})
    env.from_collection(PAYMENTS, PAYMENT).expect("positive", POSITIVE, "fail").print()
    client = env.execute_async()
    with pytest.raises(UserFunctionError, match="expectation 'positive' is violated"):
        client.get_job_execution_result().result(timeout=PATIENCE)
    assert client.snapshot().restarts == 0


# --- epochs that are held back ---------------------------------------------------------------------------------------


def held_job(output: Path, **settings: str) -> JobClient:
    """A job of numbers whose epochs with 250 and 700 are held back."""
    env = local(
        **{
            "headrace.epoch.max-records": "100",
            "headrace.epoch.target-duration": "60s",
            "headrace.epoch.first-records": "100",
        },
        **settings,
    )
    source = DataGeneratorSource(lambda number: number, 1000, RateLimiterStrategy.no_op(), Types.LONG())
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    expected = numbers.expect("plain", lambda number: number not in (250, 700), violations="hold")
    expected.sink_to(FileSink.for_row_format(str(output), Encoder.simple_string_encoder()).build())
    return env.execute_async()


def _is_over(client: JobClient, held: EpochHeld) -> bool:
    return client.snapshot().held is not held


def published(output: Path) -> int:
    files = (path for path in output.rglob("*") if path.is_file())
    visible = [path for path in files if not any(part.startswith(".") for part in path.relative_to(output).parts)]
    return sum(path.read_text().count("\n") for path in visible)


def test_an_epoch_is_held_back_until_it_is_released(tmp_path: Path) -> None:
    client = held_job(tmp_path / "out")
    for bad in (250, 700):
        wait_for(lambda: client.snapshot().held)
        held = client.snapshot().held
        assert held is not None
        (reason,) = held.violations.values()
        assert "the expectation 'plain' is violated" in reason
        assert f"record: {bad}" in reason
        assert published(tmp_path / "out") <= bad - bad % 100
        time.sleep(1)
        assert client.release_epoch() == held.epoch
        wait_for(partial(_is_over, client, held))
    client.get_job_execution_result().result(timeout=PATIENCE)
    assert published(tmp_path / "out") == 1000
    assert client.snapshot().completed < 15  # the time in which somebody looks at an epoch does not make others small
    with pytest.raises(JobExecutionError, match="no epoch of the job is held"):
        client.release_epoch()


@pytest.mark.parametrize("ends", [JobClient.stop, JobClient.cancel], ids=["stop", "cancel"])
def test_a_job_that_ends_before_an_epoch_is_released_holds_it_back_again(
    tmp_path: Path, ends: Callable[[JobClient], Any]
) -> None:
    settings = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    first = held_job(tmp_path / "out", **settings)
    wait_for(lambda: first.snapshot().held)
    ends(first).result(timeout=PATIENCE)
    wait_for(lambda: first.snapshot().end)
    assert first.snapshot().held is None
    assert published(tmp_path / "out") <= 200
    again = held_job(tmp_path / "out", **settings)
    for _ in range(2):
        wait_for(lambda: again.snapshot().held)
        held = again.snapshot().held
        assert held is not None
        assert CliRunner().invoke(app, ["release", str(tmp_path / "checkpoints")]).exit_code == 0
        wait_for(partial(_is_over, again, held))
    again.get_job_execution_result().result(timeout=PATIENCE)
    assert published(tmp_path / "out") == 1000


@pytest.mark.parametrize(
    ("violations", "guarantee", "is_told"),
    [
        ("hold", DeliveryGuarantee.AT_LEAST_ONCE, True),
        ("drop", DeliveryGuarantee.AT_LEAST_ONCE, False),
        ("fail", DeliveryGuarantee.EXACTLY_ONCE, False),
    ],
)
def test_sinks_that_do_not_wait_for_the_end_of_an_epoch_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, violations: Any, guarantee: DeliveryGuarantee, is_told: bool
) -> None:
    Log.open(str(tmp_path / "log"), create=True).create_topic("texts", 1)
    texts = MessageSerializationSchema("texts", SimpleStringSchema())
    sink = LogSink.builder().set_log(str(tmp_path / "log")).set_record_serializer(texts)
    env = local()
    expected = env.from_collection(["a"], Types.STRING()).expect("short", lambda text: len(text) < 2, violations)
    expected.sink_to(sink.set_delivery_guarantee(guarantee).build()).name("out")
    env.execute()
    assert ("AT_LEAST_ONCE, and sends records before the expectations of their epoch (short)" in caplog.text) is is_told


# --- measures ---------------------------------------------------------------------------------------------------------


def figures(*measures: Any, minutes: int = 1) -> list[Row]:
    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT)
        window = TumblingEventTimeWindows.of(Time.minutes(minutes))
        harness.add_sink("figures", measure(payments, window, *measures))

    with JobHarness(job) as harness:
        first = [("a", 1.0), (None, 3.0), ("a", None), ("b", 5.0)]
        harness.push_all(
            "payments", [*first, ("c", 2.0), ("c", 4.0), (None, None)], [0, 1, 2, 3, 60_000, 60_001, 120_000]
        )
        harness.finish()
        return harness.results("figures")


def test_measures_of_windows() -> None:
    found = figures(null_share("user"), distinct_share("user"), lowest("amount"), highest("amount"), mean("amount"))
    assert [tuple(row) for row in found] == [
        (0, 60_000, 0.25, 2 / 3, 1.0, 5.0, 3.0),
        (60_000, 120_000, 0.0, 0.5, 2.0, 4.0, 3.0),
        (120_000, 180_000, 1.0, None, None, None, None),
    ]


def test_volumes_are_compared_with_the_windows_before() -> None:
    found = figures(volume(), volume_change(2))
    assert [(row.volume, row.volume_change) for row in found] == [(4, None), (2, 0.5), (1, 1 / 3)]


def test_something_is_expected_of_a_measure() -> None:
    def job(harness: JobHarness) -> None:
        payments = harness.add_source("payments", PAYMENT)
        found = measure(payments, TumblingEventTimeWindows.of(Time.minutes(1)), null_share("user"))
        harness.add_sink("bad", found.expect("known", col("null_share_user") <= 0.1, BAD).get_side_output(BAD))

    with JobHarness(job) as harness:
        harness.push_all("payments", [("a", 1.0), (None, 1.0), ("a", 1.0)], [0, 60_000, 120_000])
        harness.finish()
        assert [tuple(row) for row in harness.results("bad")] == [(60_000, 120_000, 1.0)]


def test_freshness_goes_on_when_no_records_come() -> None:
    def job(harness: JobHarness) -> None:
        harness.add_sink("fresh", freshness(harness.add_source("payments", PAYMENT), Duration.of_seconds(1)))

    with JobHarness(job) as harness:
        harness.push("payments", ("a", 1.0), 0)
        harness.run_epoch()
        harness.set_processing_time(1_500)
        harness.push("payments", ("a", 1.0), 0)
        for second in range(2, 6):
            harness.run_epoch()
            harness.set_processing_time(second * 1_000)
        harness.run_epoch()
        assert [tuple(row) for row in harness.results("fresh")] == [
            (1_000, 1, 0),
            (2_000, 1, 0),
            (4_000, 0, 2_000),
            (5_000, 0, 3_000),
        ]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "error", "message"),
    [
        (lambda stream: stream.expect("", POSITIVE), InvalidProgramError, "needs a name"),
        (lambda stream: stream.expect("p", col("amount")), InvalidTypeError, "takes a condition"),
        (lambda stream: stream.expect("p", col("amuont") > 0), InvalidTypeError, "amuont"),
        (lambda stream: stream.expect("p", POSITIVE, "dead letter"), InvalidProgramError, "'hold', or an OutputTag"),
        (lambda stream: stream.expect("p", POSITIVE, 3), InvalidTypeError, "'hold', or an OutputTag"),
        (lambda stream: stream.expect("p", 3), InvalidTypeError, "FilterFunction"),
        (lambda stream: measure(stream, TumblingEventTimeWindows.of(1)), InvalidProgramError, "what is to be measured"),
        (
            lambda stream: measure(stream, TumblingEventTimeWindows.of(1), volume(), volume()),
            InvalidProgramError,
            "measured twice",
        ),
        (lambda stream: volume_change(0), InvalidProgramError, "at least one window"),
        (lambda stream: freshness(stream, Time.minutes(0)), InvalidProgramError, "positive"),
    ],
)
def test_refusals(expected: Callable[[DataStream], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        expected(local().from_collection(PAYMENTS, PAYMENT))
