"""Tables of PostgreSQL are written: by upserts or insertions, an epoch at once and once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.common.batch import Batch
from headrace.common.columns import layout_of
from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    ConfigurationError,
    InfrastructureError,
    InvalidTypeError,
)
from headrace.common.typeinfo import RowTypeInfo
from headrace.common.types import Row
from headrace.connectors.postgres.sink import PostgresCommitter, PostgresSink
from headrace.connectors.sink import CommitterContext, WriterContext, WriterEpoch
from headrace.storage.folder import Folder, posix_folder
from tests.connectors.postgres.capture import KINDS, row_type
from tests.connectors.postgres.server import Database, Server
from tests.connectors.postgres.test_captured_values import VALUES

pytestmark = pytest.mark.integration

COLUMNS = row_type("card STRING, total INT")
TOTALS = "CREATE TABLE totals (card text PRIMARY KEY, total int, more int DEFAULT 7)"


class ByHand:
    """A sink that is driven as the job manager does.

    Args:
        database: where it writes.
        folder: the folder of the job.
        key: the columns of the key.
        kind: the type of the rows.
        generation: of the job manager.
        restored_epoch: the epoch that it goes on from.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        key: tuple[str, ...] = ("card",),
        kind: RowTypeInfo = COLUMNS,
        generation: int = 1,
        restored_epoch: int = 0,
    ) -> None:
        self.sink = PostgresSink({"url": database.url, "table-name": "totals"}, primary_key=key)
        self.kind = kind
        self.folder: Folder = posix_folder(folder)
        self.context = CommitterContext("job", "sink", kind, generation, restored_epoch, folder=self.folder)
        self.sink.validate(kind)
        self.sink.check_output(self.context)
        committer = self.sink.create_committer(self.context)
        assert isinstance(committer, PostgresCommitter)
        self.committer = committer
        self.epochs = 0

    def stage(self, *changes: tuple[Any, ...], subtask: int = 0) -> list[str]:
        """What a writer makes of changes: kinds and values."""
        context = WriterContext("job", "sink", self.context.generation, subtask, 1, self.kind, folder=self.folder)
        writer = self.sink.create_writer(context)
        writer.begin_epoch(WriterEpoch(self.epochs + 1, 0))
        for part in (changes[: len(changes) // 2], changes[len(changes) // 2 :]):
            rows = layout_of(self.kind).rows_to_columns([Row(*values) for _, *values in part])
            kinds = np.array([KINDS.index(kind) for kind, *_ in part], np.int8)
            times = np.zeros(len(part), np.int64)
            writer.write(Batch(self.kind, times, times, columns=rows, kinds=kinds))
        return list(writer.prepare_commit())

    def epoch(self, *changes: tuple[Any, ...]) -> None:
        """Write an epoch."""
        self.commit(self.stage(*changes))

    def commit(self, files: list[str]) -> None:
        self.epochs += 1
        self.committer.commit(self.epochs, files, 0)


def test_rows_are_replaced_and_removed_by_their_key(database: Database, tmp_path: Path) -> None:
    database.execute(TOTALS, "INSERT INTO totals VALUES ('there', 1, 8), ('gone', 1, 8)")
    sink = ByHand(database, tmp_path)
    sink.epoch(("+I", "a", 1), ("+U", "a", 2), ("+I", "b", None), ("-D", "gone", None), ("+U", "there", 5))
    sink.epoch(("-D", "b", None), ("+I", "c", 3), ("-D", "c", 3), ("+I", "c", 4), ("+I", "d", 1), ("-D", "d", 1))
    found = database.rows("SELECT card, total, more FROM totals ORDER BY card")
    assert found == [("a", 2, 7), ("c", 4, 7), ("there", 5, 8)]
    assert list(tmp_path.iterdir()) == []


def test_the_last_row_of_several_files_counts(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.connectors.postgres import sink as module

    monkeypatch.setattr(module, "_STAGED_TOGETHER", 1)
    database.execute(TOTALS)
    sink = ByHand(database, tmp_path)
    files = sink.stage(("+I", "a", 1), ("+I", "b", 1), ("+U", "a", 2), ("-D", "b", 1))
    assert len(files) == 2
    sink.commit([*files, *sink.stage(("+I", "c", 3), subtask=1)])
    assert database.rows("SELECT card, total FROM totals ORDER BY card") == [("a", 2), ("c", 3)]


def test_keys_that_are_equal_to_the_database_alone_are_one(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE totals (card char(3) PRIMARY KEY, total int)")
    sink = ByHand(database, tmp_path)
    sink.epoch(("+I", "a", 1), ("+U", "a ", 2), ("+I", "b", 1), ("-D", "b ", 1))
    assert database.rows("SELECT * FROM totals") == [("a  ", 2)]


def test_only_indexes_by_which_rows_are_replaced_are_keys(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE totals (card text, total int, UNIQUE (total) DEFERRABLE)",
        "CREATE UNIQUE INDEX ON totals (total, lower(card))",
        "CREATE UNIQUE INDEX ON totals (card) INCLUDE (total)",
    )
    ByHand(database, tmp_path).epoch(("+I", "a", 1), ("+U", "a", 2))
    assert database.rows("SELECT * FROM totals") == [("a", 2)]
    for key in (("total",), ("card", "total")):
        with pytest.raises(ConfigurationError, match="no primary key or unique index on"):
            ByHand(database, tmp_path, key)


def test_an_epoch_is_written_once(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE totals (card text, total int)")
    sink = ByHand(database, tmp_path, ())
    files = sink.stage(("+I", "a", 1), ("+I", "a", 1))
    sink.commit(files)
    sink.committer.commit(1, files, 0)
    younger = ByHand(database, tmp_path, (), generation=2, restored_epoch=1)
    younger.committer.commit(1, files, 0)
    younger.committer.commit(2, younger.stage(("+I", "b", 2)), 0)
    with pytest.raises(InfrastructureError, match="a younger job manager"):
        sink.committer.commit(2, [], 0)
    assert database.rows("SELECT * FROM totals") == [("a", 1), ("a", 1), ("b", 2)]
    younger.committer.finish()
    assert database.rows("SELECT * FROM headrace_commits") == []


def test_what_is_left_of_failed_attempts_is_removed(database: Database, tmp_path: Path) -> None:
    database.execute(TOTALS)
    ByHand(database, tmp_path / "none").committer.recover(None)
    folder = tmp_path / "staged"
    ByHand(database, folder).stage(("+I", "a", 1))
    younger = ByHand(database, folder, generation=2)
    waiting = younger.stage(("+I", "b", 1))
    younger.committer.recover(None)
    assert [path.name for path in folder.iterdir()] == waiting


def test_a_checkpoint_that_is_an_old_copy_is_noticed(database: Database, tmp_path: Path) -> None:
    database.execute(TOTALS)
    ByHand(database, tmp_path).epoch(("+I", "a", 1))
    with pytest.raises(CheckpointError, match="up to epoch 1: the directory is an old copy"):
        ByHand(database, tmp_path)


def test_the_database_dies_and_comes_back(server: Server, database: Database, tmp_path: Path) -> None:
    database.execute(TOTALS)
    sink = ByHand(database, tmp_path)
    sink.epoch(("+I", "a", 1))
    files = sink.stage(("+I", "b", 1))
    server.kill()
    with pytest.raises(OSError, match="does not take the output of epoch 2"):
        sink.committer.commit(2, files, 0)
    server.start()
    sink.commit(files)
    assert database.rows("SELECT card FROM totals ORDER BY card") == [("a",), ("b",)]


def test_what_the_table_refuses_stops_the_job(database: Database, tmp_path: Path) -> None:
    database.execute(TOTALS, "ALTER TABLE totals ADD CHECK (total < 10)")
    sink = ByHand(database, tmp_path)
    with pytest.raises(CommitRefusedError, match="violates check constraint"):
        sink.epoch(("+I", "a", 1), ("+I", "b", 10))
    assert database.rows("SELECT * FROM totals") == []


def test_values_of_all_types_are_written(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        f"CREATE TABLE totals (id int PRIMARY KEY, {', '.join(f'c{n} {row[0]}' for n, row in enumerate(VALUES))})",
        "CREATE TABLE wanted AS SELECT * FROM totals",
        f"INSERT INTO wanted VALUES (1, {', '.join(row[2] for row in VALUES)})",
        "INSERT INTO wanted VALUES (2)",
    )
    kind = row_type(", ".join(["id INT", *(f"c{n} {row[1]}" for n, row in enumerate(VALUES))]))
    sink = ByHand(database, tmp_path, ("id",), kind)
    sink.epoch(("+I", 1, *(row[3] for row in VALUES)), ("+I", 2, *(None for _ in VALUES)))
    exact = [f"c{n}::text" for n, row in enumerate(VALUES) if (row[0], row[1]) not in ROUNDED and "[0:1]" not in row[2]]
    columns = ", ".join(["id", *exact])
    assert database.rows(f"SELECT {columns} FROM totals ORDER BY id") == database.rows(
        f"SELECT {columns} FROM wanted ORDER BY id"
    )


ROUNDED = (("numeric", "DECIMAL(8, 2)"), ("timestamp", "TIMESTAMP(3)"), ("numeric", "DOUBLE"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("CREATE TABLE total (id int)", "may not see it: did you mean public.total?"),
        ("CREATE TABLE totals (card text PRIMARY KEY, totals int)", "has no column 'total': did you mean totals?"),
        ("CREATE TABLE totals (card text, total int)", "no primary key or unique index on (card)"),
        (
            "CREATE TABLE totals (card text, total int UNIQUE)",
            "no primary key or unique index on (card)",
        ),
    ],
)
def test_tables_that_cannot_be_written_are_refused(
    database: Database, tmp_path: Path, table: str, message: str
) -> None:
    database.execute(table)
    with pytest.raises(ConfigurationError) as told:
        ByHand(database, tmp_path)
    assert message in str(told.value)


def test_a_user_who_may_not_create_the_table_of_commits_is_told_what_helps(database: Database) -> None:
    database.execute(TOTALS, "CREATE ROLE writer LOGIN", "GRANT SELECT, INSERT, UPDATE, DELETE ON totals TO writer")
    url = database.url.replace("user=postgres", "user=writer")
    sink = PostgresSink({"url": url, "table-name": "totals"}, primary_key=["card"])
    context = CommitterContext("job", "sink", COLUMNS, 1, 0)
    with pytest.raises(ConfigurationError, match="needs the right CREATE on schema") as told:
        sink.check_output(context)
    statement = "CREATE TABLE" + str(told.value).rpartition("CREATE TABLE")[2]
    database.execute(statement, "GRANT SELECT, INSERT, UPDATE, DELETE ON headrace_commits TO writer")
    sink.check_output(context)


def test_what_no_column_holds_is_refused_at_once(database: Database, tmp_path: Path) -> None:
    database.execute(TOTALS)
    with pytest.raises(InvalidTypeError, match="no column for MAP"):
        ByHand(database, tmp_path, kind=row_type("card STRING, total MAP<STRING, INT>"))
    with pytest.raises(InvalidTypeError, match="the key has a column 'id'"):
        ByHand(database, tmp_path, ("id",))
    sink = ByHand(database, tmp_path, ())
    with pytest.raises(InvalidTypeError, match="no key to find them by"):
        sink.stage(("-D", "a", 1))


@pytest.mark.parametrize("url", ["jdbc:mysql://db/shop", "jdbc:postgresql://db", "shop.db"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not one of PostgreSQL"):
        PostgresSink({"url": url, "table-name": "totals"})


def test_names_and_passwords_of_urls_are_as_urls_have_them() -> None:
    sink = PostgresSink({"url": "jdbc:postgresql://an%40n:p%2Fw@db:5433/shop", "table-name": "totals"})
    assert (sink._server.username, sink._server.password, sink._server.port) == ("an@n", "p/w", 5433)
    for place in ("db:many/shop", "db/shop?port=many"):
        with pytest.raises(ConfigurationError, match="has a port that is none"):
            PostgresSink({"url": f"jdbc:postgresql://{place}", "table-name": "totals"})
