"""Faults of the driver, and user code that raises anything, where epochs are queries of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from typer.testing import CliRunner

from headrace.checkpoint.store import CheckpointStore
from headrace.cli.main import app
from headrace.common import Configuration, Types
from headrace.common.errors import UserFunctionError
from headrace.connectors.driver_sink import CollectSink
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.ranges import RangeEnumerator
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark.runtime import SparkRuntime
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.small_jobs import SmallJob, expected
from tests.reliability.test_passing_faults import PATIENT, Point, strike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "after", [pytest.param(False, id="before", marks=pytest.mark.slow), pytest.param(True, id="after")]
)
def test_faults_that_pass_cost_nothing(
    spark: SparkSession, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        Point(CheckpointStore, "write", frozenset({1, 4})),
        Point(RangeEnumerator, "snapshot", frozenset({5})),
        Point(SparkRuntime, "run_epoch", frozenset({3, 6})),
        Point(FileCommitter, "recover", frozenset({2})),
    ]
    planted = [strike(point, monkeypatch, after=after) for point in points]
    kind, output = KINDS[1], tmp_path / "output"
    SmallJob(tmp_path, kind.make(output), PATIENT | {"headrace.runtime": "spark"}).run()
    assert kind.records(output) == expected()
    assert [set(faults.happened) for faults in planted] == [point.visits for point in points]


@pytest.mark.parametrize("raised", ["SystemExit(3)", "KeyboardInterrupt()", "GeneratorExit()", "Mute()"])
def test_what_user_code_raises_is_told(spark: SparkSession, raised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(BaseException):
        def __str__(self) -> str:
            raise SystemExit

    def fails(number: int) -> int:
        if number == 3:
            raise {
                "SystemExit(3)": SystemExit(3),
                "KeyboardInterrupt()": KeyboardInterrupt(),
                "GeneratorExit()": GeneratorExit(),
                "Mute()": Mute(),
            }[raised]
        return number

    epochs = strike(Point(SparkRuntime, "run_epoch", frozenset()), monkeypatch, after=False)
    configuration = Configuration.from_dict({"headrace.runtime": "spark", "parallelism.default": "1"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_sequence(1, 4).map(fails, Types.LONG()).name("failing").uid("failing").print()
    with pytest.raises(UserFunctionError, match=raised.partition("(")[0]) as told:
        env.execute()
    assert "operator 'failing' (uid failing" in str(told.value)
    assert "record: 3" in str(told.value)
    assert epochs.calls == 1


def test_a_job_begins_again_in_the_same_java_and_the_command_tells_of_it(spark: SparkSession, tmp_path: Path) -> None:
    """Operator, record, attempt and process of each failure are kept; no session was made anew for it."""
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def fails_twice(number: int) -> int:
        if number == 3 and len(found := list(attempts.iterdir())) < 3:
            (java,) = (process for process in psutil.Process().parents() if process.name() == "java")
            (attempts / f"{len(found)}").write_text(str(java.pid))
            if len(found) < 2:
                raise ValueError("three is too many")
        return number

    settings = {
        "headrace.runtime": "spark",
        "parallelism.default": "2",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    application = spark.sparkContext.applicationId
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    shown: list[int] = []
    numbers = env.from_sequence(1, 8).uid("numbers").map(fails_twice, Types.LONG()).name("careful").uid("the-careful")
    numbers.sink_to(CollectSink(shown.extend)).uid("out")
    env.execute("careful")
    assert sorted(shown) == [*range(1, 9)]
    javas = {path.read_text() for path in attempts.iterdir()}
    assert len(list(attempts.iterdir())) == 3, "it failed twice, and then it did not"
    assert len(javas) == 1
    assert spark.sparkContext.applicationId == application

    told = CliRunner().invoke(app, ["failures", str(tmp_path / "checkpoints")], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    for word in ("careful", "the-careful", "record: 3", "restart 1 of the run", "restart 2 of the run", "process "):
        assert word in told.output, told.output
