"""Faults of the driver, and user code that raises anything, where epochs are queries of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.store import CheckpointStore
from headrace.common import Configuration, Types
from headrace.common.errors import UserFunctionError
from headrace.connectors.file_system.committer import FileCommitter
from headrace.connectors.ranges import RangeEnumerator
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark.runtime import SparkRuntime
from tests.reliability.support.file_sinks import KINDS
from tests.reliability.support.small_jobs import SmallJob, expected
from tests.reliability.test_passing_faults import PATIENT, Point, strike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
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
