"""How what an epoch starts from reaches its tasks: along with them, or in a file of which each reads its part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.common import options
from headrace.common.configuration import Configuration
from headrace.connectors.driver_sink import CollectSink
from headrace.datastream import StreamExecutionEnvironment
from headrace.runtime.spark import runtime, shipping
from headrace.runtime.spark.epoch_sessions import EpochSession
from headrace.runtime.spark.worker import JobOfQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUMBERS = 900
EPOCHS = 3


def sums_per_key(folder: Path | None = None, parallelism: int = 2) -> list[Any]:
    settings = Configuration()
    settings.set(options.RUNTIME, "spark")
    settings.set(options.PARALLELISM, parallelism)
    settings.set(options.EPOCH_MAX_RECORDS, NUMBERS // EPOCHS // parallelism)
    settings.set(options.EPOCH_TARGET_DURATION, 60_000)
    if folder is not None:
        settings.set(options.CHECKPOINT_DIR, str(folder))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    collected: list[Any] = []
    numbers = env.from_collection([(number % 7, number) for number in range(NUMBERS)])
    numbers.key_by(lambda pair: pair[0]).sum(1).map(with_settings).sink_to(CollectSink(collected.extend))
    env.execute()
    return sorted(collected)


def with_settings(pair: Any) -> Any:
    """The pair, and how many bytes of headrace's Spark has sent along with the task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    sent = {key: value for key, value in task._localProperties.items() if key.startswith("spark.headrace.")}
    return pair, sum(map(len, sent.values()))


def test_a_big_context_takes_the_other_way_and_changes_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped = [pair for pair, _ in sums_per_key()]
    written: list[list[bytes]] = []
    built: list[object] = []
    build, write = EpochSession._built, shipping.ShippedFiles.write_parts

    def counting(self: EpochSession, job: Any, parallelism: tuple[int, ...]) -> Any:
        built.append(job)
        return build(self, job, parallelism)

    def recording(self: shipping.ShippedFiles, parts: list[bytes]) -> shipping.Parts:
        written.append(parts)
        return write(self, parts)

    monkeypatch.setattr(EpochSession, "_built", counting)
    monkeypatch.setattr(shipping.ShippedFiles, "write_parts", recording)
    assert [pair for pair, _ in sums_per_key()] == shipped
    assert written == []
    monkeypatch.setattr(runtime, "SENT_WITH_TASKS_BYTES", 0)
    found = sums_per_key(tmp_path / "checkpoint", parallelism=5)
    assert [pair for pair, _ in found] == shipped
    assert len(written) >= EPOCHS
    assert {len(parts) for parts in written} == {5}
    # One for all epochs of the job, unless jobs of other tests have left theirs
    assert [type(job) for job in built] in ([JobOfQuery], [])
    assert {size for _, size in found if size > 500} == set(), "Spark sends where to find it, and no more"
    assert list((tmp_path / "checkpoint" / "shipped").iterdir()) == []


def test_no_setting_is_left_behind(spark: SparkSession) -> None:
    sums_per_key()
    assert [key for key in spark.conf.getAll if key.startswith("spark.headrace.")] == []


def test_a_job_file_that_somebody_has_changed_is_not_used(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from headrace.common.errors import JobExecutionError

    monkeypatch.setattr(runtime, "INLINE_JOB_BYTES", 0)
    assert len(sums_per_key(tmp_path / "right")) == NUMBERS
    write = shipping.ShippedFiles.write_job

    def swapped(self: shipping.ShippedFiles, content: bytes) -> str:
        name = write(self, content)
        self.folder.write(name, [b"cos\nsystem\n(S'touch " + str(tmp_path / "run").encode() + b"'\ntR."])
        return name

    monkeypatch.setattr(shipping.ShippedFiles, "write_job", swapped)
    with pytest.raises(JobExecutionError, match="has been changed since the driver wrote it"):
        sums_per_key(tmp_path / "wrong")
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "wrong" / "shipped").iterdir()) == []


def test_what_a_killed_run_has_left_is_removed_at_the_next_start(spark: SparkSession, tmp_path: Path) -> None:
    left = [tmp_path / "shipped" / f"job-{'0' * 64}.pickle", tmp_path / "state" / f".probe-{'0' * 32}"]
    for path in left:
        path.parent.mkdir()
        path.write_bytes(b"")
    assert len(sums_per_key(tmp_path)) == NUMBERS
    assert [path for path in left if path.exists()] == []
