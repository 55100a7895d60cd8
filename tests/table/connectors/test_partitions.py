"""Partitions of tables in files: their commit, and their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.logical_types import AtomicType, RowType, TypeRoot
from headrace.connectors.sink import WriterContext, WriterEpoch
from headrace.table.connectors import TABLE_CONNECTORS, TableContext
from tests.connectors.harness import SinkRun, batch_of
from tests.table.connectors.session import rows, run, session

POLICY = "'sink.partition-commit.policy.kind'='success-file'"
TEXT = AtomicType(TypeRoot.VARCHAR, 2**31 - 1)


@pytest.mark.parametrize("is_streaming", [True, False])
@pytest.mark.parametrize("verb", ["INTO", "OVERWRITE"])
def test_partitions_are_committed_at_the_end(tmp_path: Path, verb: str, is_streaming: bool) -> None:
    if verb == "OVERWRITE" and is_streaming:
        return
    tables = session(
        f"CREATE TABLE t (a INT, d STRING, h INT) PARTITIONED BY (d, h) WITH ({POLICY}, 'connector'='filesystem', "
        f"'path'='{tmp_path}', 'format'='csv', 'sink.partition-commit.trigger'='partition-time', "
        "'partition.time-extractor.timestamp-pattern'='$d $h:00:00')",
        is_streaming=is_streaming,
    )
    run(tables, f"INSERT {verb} t VALUES (1, '2024-01-01', 8), (2, '2024-01-01', 9)")
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("_*"))
    assert found == ["d=2024-01-01/h=8/_SUCCESS", "d=2024-01-01/h=9/_SUCCESS"]


class Table(SinkRun):
    """Writes a table of a column and a partition column."""

    def __init__(self, path: Path, **options: str) -> None:
        columns = RowType(("a", "day"), (TEXT, TEXT))
        known = {"path": str(path), "format": "csv", "sink.partition-commit.policy.kind": "success-file"}
        table = TableContext(("c", "d", "t"), columns, partition_keys=("day",), options=known | options)
        sink = TABLE_CONNECTORS.load("filesystem").create_sink(table).create_sink([])
        super().__init__(sink, table.record_type, parallelism=2)
        self.path = path

    def epoch_of(self, rows: list[list[Any]], watermarks: list[int], now: int = 0) -> list[str]:
        """Write rows in each subtask and commit; gives the partitions that are committed now."""
        self.epoch += 1
        written = []
        for subtask, watermark in enumerate(watermarks):
            writer = self.sink.create_writer(
                WriterContext("job", "sink", self.generation, subtask, self.parallelism, self.kind)
            )
            writer.begin_epoch(WriterEpoch(self.epoch, now))
            writer.write(batch_of(self.kind, rows[subtask]))
            writer.write_watermark(watermark)
            written += writer.prepare_commit()
        ready = self.prepare(written, now)
        self.committer.commit(self.epoch, ready, now)
        self.committer.post_commit(self.epoch, ready, now)
        return self.committed()

    def committed(self) -> list[str]:
        """The partitions with a file that says so, which is removed."""
        found = sorted(self.path.rglob("_SUCCESS"))
        for file in found:
            assert list(file.parent.glob("part-*"))
            file.unlink()
        return [file.parent.name.removeprefix("day=") for file in found]


DAY = 86_400_000


def test_a_partition_is_committed_when_all_watermarks_have_passed_its_time(tmp_path: Path) -> None:
    options = {
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.delay": "1 d",
        "sink.partition-commit.watermark-time-zone": "GMT+02:00",
        "partition.time-extractor.timestamp-formatter": "yyyyMMdd",
    }
    table = Table(tmp_path, **options)
    begun = DAY - 2 * 3_600_000  # the first day, in that zone, ends
    assert table.epoch_of([[("x", "19700101")], [("y", "19700102")]], [begun + 1, begun]) == []
    table.restart()
    assert table.epoch_of([[], []], [begun + 2 * DAY, begun + 1]) == ["19700101"]
    assert table.epoch_of([[("late", "19700101")], []], [begun + 2 * DAY, begun + 1]) == ["19700101"]
    assert table.in_progress is not None
    assert table.epoch_of([[], []], [begun + 2 * DAY] * 2) == ["19700102"]
    assert table.in_progress is None


def test_a_partition_is_committed_when_the_clock_has_passed_the_delay(tmp_path: Path) -> None:
    table = Table(
        tmp_path, **{"sink.partition-commit.delay": "10 s", "sink.partition-commit.success-file.name": "_SUCCESS"}
    )
    assert table.epoch_of([[("x", "1")], []], [0, 0], now=1000) == []
    assert table.sink.pre_commit is not None
    assert table.sink.pre_commit.due(table.in_progress) == 11_001
    assert table.epoch_of([[("y", "1")], [("z", "2")]], [0, 0], now=11_001) == ["1"]
    assert table.epoch_of([[], []], [0, 0], now=21_002) == ["2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("'sink.partition-commit.policy.kind'='metastore'", "it is of tables of Hive"),
        ("'sink.partition-commit.policy.kind'='custom,success-file'", "'success-file', as there is no 'custom' here"),
        ("'sink.partition-commit.delay'='1 h'", "needs 'sink.partition-commit.policy.kind'"),
        (f"{POLICY}, 'partition.time-extractor.kind'='custom'", "partition.time-extractor.timestamp-pattern"),
        (f"{POLICY}, 'sink.partition-commit.trigger'='event-time'", "one of process-time, partition-time"),
        (f"{POLICY}, 'sink.partition-commit.watermark-time-zone'='Mars'", "a time zone, such as UTC"),
        (f"{POLICY}, 'sink.partition-commit.policy.class'='x.Y'", "no option 'sink.partition-commit.policy.class'"),
        (f"{POLICY}, 'partition.time-extractor.timestamp-formatter'='yyMM'", "holds 'yy'; supported are yyyy, MM"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, options: str, said: str) -> None:
    where = f"'connector'='filesystem', 'path'='{tmp_path}', 'format'='csv', {options}"
    tables = session(f"CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d) WITH ({where})")
    with pytest.raises(ConfigurationError, match=said):
        tables.execute_sql("INSERT INTO t VALUES (1, 'x')")


def test_a_partition_that_tells_no_time(tmp_path: Path) -> None:
    table = Table(tmp_path, **{"sink.partition-commit.trigger": "partition-time"})
    with pytest.raises(
        InvalidProgramError, match="the partition 'day=x' has no time: 'x' is not of the form yyyy-MM-dd"
    ):
        table.epoch_of([[("y", "x")], []], [0, 0])


def test_the_partition_of_rows_without_a_value(tmp_path: Path) -> None:
    tables = session(
        "CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d) WITH ('connector'='filesystem', 'format'='csv', "
        f"'path'='{tmp_path}', 'partition.default-name'='none')"
    )
    run(tables, "INSERT INTO t VALUES (1, 'x'), (2, CAST(NULL AS STRING))")
    assert (tmp_path / "d=none").is_dir()
    assert sorted(rows(tables, "SELECT * FROM t")) == [(1, "x"), (2, None)]
