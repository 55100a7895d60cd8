"""Compaction of tables of files loses nothing: neither when it fails, nor what the table does not read."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from headrace.client.running import submission_defaults
from headrace.common.errors import ConfigurationError, HeadraceError
from headrace.connectors.file_system.overwrite_log import OverwriteLog
from headrace.storage.file_system import PosixFileSystem
from headrace.table import TableEnvironment
from tests.table.connectors.session import rows, run, session


def table(path: Path, form: str, *more: str, columns: str = "n INT") -> TableEnvironment:
    options = ", ".join([f"'connector' = 'filesystem', 'path' = '{path}/t', 'format' = '{form}'", *more])
    return session(f"CREATE TABLE t ({columns}) WITH ({options})", is_streaming=False)


def filled(tables: TableEnvironment) -> TableEnvironment:
    for n in range(2):
        run(tables, f"INSERT INTO t VALUES ({n})")
    return tables


def write(path: Path, *contents: str) -> None:
    (path / "t").mkdir()
    for number, content in enumerate(contents):
        (path / "t" / f"part-{number}").write_text(content)


def every_file(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in (path / "t").rglob("*") if each.is_file()}


def hidden_copies(path: Path) -> list[Path]:
    return list((path / "t").glob(".headrace-compaction*"))


@pytest.mark.parametrize("error", [OSError(errno.EIO, "no disk"), KeyboardInterrupt()])
def test_what_readers_will_publish_outlasts_a_failure(tmp_path: Path, error: BaseException) -> None:
    tables, publish, failed = filled(table(tmp_path, "json")), PosixFileSystem.publish, []

    def failing(self: PosixFileSystem, source: str, target: str) -> bool:
        if "/compacted-" in target and not failed:
            failed.append(target)
            raise error
        return publish(self, source, target)

    with patch.object(PosixFileSystem, "publish", failing), pytest.raises(type(error)):
        tables.execute_sql("CALL sys.compact('t')")
    assert len(failed) == 1
    assert hidden_copies(tmp_path)
    assert sorted(rows(tables, "SELECT * FROM t")) == [(0,), (1,)]
    assert Path(failed[0]).exists()
    assert rows(tables, "CALL sys.compact('t')") == [(0, 0, 0, 0)]


def test_copies_that_nobody_will_publish_are_removed(tmp_path: Path) -> None:
    tables = filled(table(tmp_path, "json"))
    with (
        patch.object(PosixFileSystem, "create", side_effect=OSError(errno.ENOSPC, "full")),
        pytest.raises(OSError, match="full"),
    ):
        tables.execute_sql("CALL sys.compact('t')")
    assert not hidden_copies(tmp_path)
    with (
        patch.object(PosixFileSystem, "create", side_effect=OSError(errno.ENOSPC, "full")),
        patch.object(OverwriteLog, "knows", side_effect=OSError(errno.EIO, "no disk")),
        pytest.raises(OSError, match="full"),
    ):
        tables.execute_sql("CALL sys.compact('t')")
    assert hidden_copies(tmp_path)
    assert sorted(rows(tables, "SELECT * FROM t")) == [(0,), (1,)]


def test_files_that_the_table_does_not_read_stay(tmp_path: Path) -> None:
    write(tmp_path, '{"n": 1}\n', '{"n": 2}\n', '{"n": 3}\n')
    tables = table(tmp_path, "json", f"'source.path.regex-pattern' = '{tmp_path}/t/(part-[01]|compacted-.*)'")
    assert rows(tables, "CALL sys.compact('t')")[0][:2] == (2, 1)
    assert sorted(rows(tables, "SELECT * FROM t")) == [(1,), (2,)]
    assert (tmp_path / "t" / "part-2").read_text() == '{"n": 3}\n'


def refuses(tables: TableEnvironment, path: Path, said: str) -> None:
    before = every_file(path)
    with pytest.raises(HeadraceError, match=f"(?s){said}"):
        tables.execute_sql("CALL sys.compact('t')")
    assert every_file(path) == before
    assert not hidden_copies(path)


def test_names_that_the_table_would_not_read_are_refused(tmp_path: Path) -> None:
    write(tmp_path, '{"n": 1}\n', '{"n": 2}\n')
    tables = table(tmp_path, "json", "'source.path.regex-pattern' = '.*/part-[0-9]'")
    refuses(tables, tmp_path, "would not read the compacted one, .*compacted-.*have the pattern match it too")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_that_the_table_skips_are_not_lost(tmp_path: Path, form: str) -> None:
    write(tmp_path, *(('{"n": 1}\n', '{"n": "many"}\n') if form == "json" else ("1\n", "many\n")))
    tables = table(tmp_path, form, f"'{form}.ignore-parse-errors' = 'true'")
    assert rows(tables, "SELECT * FROM t") == [(1,)]
    refuses(tables, tmp_path, "table .*t stays as it is: the rows of its small files cannot all be copied")


def test_rows_of_which_more_is_expected_are_kept(tmp_path: Path) -> None:
    write(tmp_path, '{"n": 1}\n', '{"n": -1}\n')
    tables = table(tmp_path, "json", "'expect.positive' = 'n > 0'", "'expect.positive.violations' = 'drop'")
    assert rows(tables, "SELECT * FROM t") == [(1,)]
    assert rows(tables, "CALL sys.compact('t')")[0][:2] == (2, 1)
    assert sorted(rows(table(tmp_path, "json"), "SELECT * FROM t")) == [(-1,), (1,)]


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda columns, file: pq.write_table(columns, str(file)),
    "orc": lambda columns, file: pa.orc.write_table(columns, str(file)),
}


@pytest.mark.parametrize("form", [*WRITERS, "avro", "json"])
@pytest.mark.parametrize(("columns", "lost"), [("n INT", "more"), ("n INT, more ROW<a INT>", "more.b")])
def test_columns_that_the_table_does_not_have_are_not_lost(tmp_path: Path, form: str, columns: str, lost: str) -> None:
    more = "n INT, more ROW<a INT, b INT>"
    tables = table(tmp_path, form, columns=more)
    if form in WRITERS:
        (tmp_path / "t").mkdir()
        kind = pa.struct([("a", pa.int32()), ("b", pa.int32())])
        for n in range(2):
            stored = pa.table({"n": pa.array([n], pa.int32()), "more": pa.array([{"a": 1, "b": 2}], kind)})
            WRITERS[form](stored, tmp_path / "t" / f"part-{n}")
    else:
        for n in range(2):
            run(tables, f"INSERT INTO t VALUES ({n}, ROW(1, 2))")
    refuses(table(tmp_path, form, columns=columns), tmp_path, f"has the column '{lost}', which table .* does not have")
    assert rows(tables, "CALL sys.compact('t')")[0][:2] == (2, 1)


@pytest.mark.parametrize(
    ("form", "contents", "said"),
    [
        ("csv", ("1\n", "2,3\n"), "expected 1 columns, got 2"),
        ("json", ('{"n": 1, "o": 1}\n', '{"n": 2, "o": "a"}\n{"o": 1}\n'), "has the column 'o'|is not known"),
        ("json", ('{"n": 1}\n', '{"n": 2}\n{"n": "a"}\n'), "which columns .*part-1 has is not known"),
    ],
)
def test_lines_that_hold_more_than_the_table_are_not_lost(
    tmp_path: Path, form: str, contents: tuple[str, ...], said: str
) -> None:
    write(tmp_path, *contents)
    refuses(table(tmp_path, form), tmp_path, said)


def test_what_a_pattern_matches_is_not_compacted(tmp_path: Path) -> None:
    write(tmp_path, '{"n": 1}\n', '{"n": 2}\n')
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t/part-*', 'format' = 'json'"
    refuses(
        session(f"CREATE TABLE t (n INT) WITH ({options})", is_streaming=False), tmp_path, "is of those of a folder"
    )


def test_copies_share_no_state_with_jobs_of_the_program(tmp_path: Path) -> None:
    tables = filled(table(tmp_path, "json"))
    tables.get_config().set("execution.state-recovery.path", f"{tmp_path}/nowhere")
    tables.get_config().set("execution.checkpointing.dir", f"{tmp_path}/checkpoints")
    tables.get_config().set("table.exec.sink.not-null-enforcer", "DROP")
    with (
        submission_defaults({"execution.state-recovery.path": f"{tmp_path}/nowhere"}),
        pytest.raises(ConfigurationError, match="the compaction of a table is a job of its own"),
    ):
        tables.execute_sql("CALL sys.compact('t')")
    assert rows(tables, "CALL sys.compact('t')")[0][:2] == (2, 1)
    assert not (tmp_path / "checkpoints").exists()
