"""``PostgresSink``: the rows of an epoch in one transaction, by upserts where the table has a key, exactly once.

Writers stage rows in the checkpoint directory. The committer copies those of an epoch into a temporary table, and from
there into the table. The same transaction notes the epoch in a table of commits, so one that is committed again is
passed over.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.csv

from headrace.common.batch import Batch, take_back
from headrace.common.config_options import ConfigOption, choice, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import (
    CheckpointError,
    CommitRefusedError,
    ConfigurationError,
    InfrastructureError,
    InvalidTypeError,
)
from headrace.common.logical_types import ArrayType, AtomicType
from headrace.common.other_names import alike
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.connectors.connector import Connector, ConnectorContext
from headrace.connectors.datasets import LineageDataset
from headrace.connectors.postgres.server import PostgresServer, error_of, literal, quoted, telling
from headrace.connectors.postgres.tables import NamedTable, no_table
from headrace.connectors.postgres.values import as_texts
from headrace.connectors.sink import (
    Committer,
    CommitterContext,
    Json,
    Sink,
    SinkWriter,
    WriterContext,
    WriterEpoch,
)
from headrace.storage.folder import Folder

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

URL: Final = ConfigOption("url", str, "", "The database: jdbc:postgresql://host:port/database.")
TABLE: Final = ConfigOption(
    "table-name", str, "", "The table, with its schema and a dot in front if that is not public."
)
USERNAME: Final = ConfigOption[str | None]("username", str, None, "Who writes.")
PASSWORD: Final = ConfigOption[str | None]("password", str, None, "The password.")
DRIVER: Final = ConfigOption(
    "driver", choice("org.postgresql.Driver"), "org.postgresql.Driver", "The class of Java's driver, which is not used."
)
TIMEOUT: Final = ConfigOption(
    "connection.max-retry-timeout", positive_duration, 60_000, "How long to wait for a connection."
)

_AN_EPOCH: Final = "the rows of an epoch are written in one transaction, and passing faults are tried again"
OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sink.buffer-flush.max-rows", "sink.buffer-flush.interval", "sink.max-retries"), _AN_EPOCH),
}

_COMMITS: Final = "headrace_commits"
"""The table that says which epoch of which sink was committed last."""
_COLUMNS_OF_COMMITS: Final = (
    "(job text, sink text, epoch bigint NOT NULL, generation bigint NOT NULL, PRIMARY KEY (job, sink))"
)

_DELETED: Final = "__deleted"
_NUMBER: Final = "__number"
_STAGED: Final = "headrace_staged"
_STAGED_TOGETHER: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class TargetTable(NamedTable):
    """A table that is written.

    Attributes:
        columns: the columns that are written.
        key: those of its key; empty where rows are only added.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...] = ()

    @property
    def commits(self) -> str:
        """The name of the table of commits in SQL."""
        return quoted(self.schema, _COMMITS)

    def check(self, connection: Connection) -> None:
        """Refuse a table that is not there, or not as the program declares it.

        Raises:
            ConfigurationError: naming what is missing.
        """
        with telling(f"table {self}"):
            rows = connection.execute(
                "SELECT attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n "
                "ON n.oid = relnamespace WHERE nspname = %s AND relname = %s AND attnum > 0 AND NOT attisdropped",
                (self.schema, self.table),
            )
            known = [name for (name,) in rows]
            if not known:
                raise no_table(connection, str(self))
            for name in self.columns:
                if name not in known:
                    raise ConfigurationError(f"table {self} has no column {name!r}{alike(name, known)}")
            if self.key and not self._has_unique_key(connection):
                raise ConfigurationError(
                    f"table {self} has no primary key or unique index on ({', '.join(self.key)}), by which rows are "
                    f"replaced: execute ALTER TABLE {self.name} ADD PRIMARY KEY ({', '.join(map(quoted, self.key))})"
                )

    def _has_unique_key(self, connection: Connection) -> bool:
        rows = connection.execute(
            "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace "
            "n ON n.oid = c.relnamespace CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, "
            "place) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum WHERE n.nspname = %s AND "
            "c.relname = %s AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs "
            "IS NULL AND k.place <= i.indnkeyatts GROUP BY i.indexrelid",
            (self.schema, self.table),
        )
        return any(set(names) == set(self.key) for (names,) in rows)


class PostgresWriter(SinkWriter):
    """Stages rows in the checkpoint directory; of those with the same key only the last is kept.

    Args:
        table: where they are to go.
        context: which of the writers it is.
    """

    def __init__(self, table: TargetTable, context: WriterContext) -> None:
        if context.folder is None:
            raise ConfigurationError("a PostgresSink stages rows in the checkpoint directory, and there is none")
        self._table = table
        self._folder: Folder = context.folder
        self._name = f"{context.generation}-{context.subtask}"
        self._epoch = 0
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[str] = []

    def begin_epoch(self, epoch: WriterEpoch) -> None:
        self._epoch = epoch.number

    def write(self, batch: Batch) -> None:
        columns, kinds = batch.columns, batch.row_kinds
        arrays = [as_texts(columns.column(place)) for place in range(len(self._table.columns))]
        if self._table.key:
            arrays.append(pa.array(take_back(kinds)))
        elif take_back(kinds).any():
            raise InvalidTypeError(
                f"rows of table {self._table} are updated or deleted, and it has no key to find them by"
            )
        names = [*self._table.columns, *([_DELETED] if self._table.key else [])]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, names=names))
        self._bytes += self._batches[-1].nbytes
        if self._bytes >= _STAGED_TOGETHER:
            self._stage()

    def prepare_commit(self) -> Sequence[Json]:
        self._stage()
        files, self._files = self._files, []
        return files

    def abort(self) -> None:
        self._folder.remove_all(self._files)
        self._batches, self._bytes, self._files = [], 0, []

    def _stage(self) -> None:
        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        if self._table.key:
            rows = last_of_each_key(rows, self._table.key)
        content = _ipc(rows)
        digest = hashlib.sha256(content).hexdigest()[:16]
        name = f"{self._name}-{self._epoch}-{len(self._files)}-{digest}.arrow"
        self._folder.make()
        self._folder.write(name, (content,))
        self._files.append(name)


def last_of_each_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in their order."""
    numbered = rows.append_column(_NUMBER, pa.array(np.arange(len(rows))))
    last = numbered.select([*key, _NUMBER]).group_by(list(key)).aggregate([(_NUMBER, "max")])
    return rows.take(pa.array(np.sort(last.column(f"{_NUMBER}_max").to_numpy())))


def _ipc(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    return sink.getvalue()


class PostgresCommitter(Committer):
    """Writes the staged rows of an epoch in one transaction, together with a note that this was done.

    Args:
        server: where the table is.
        table: the table.
        context: of the sink.
    """

    def __init__(self, server: PostgresServer, table: TargetTable, context: CommitterContext) -> None:
        self._server = server
        self._table = table
        self._context = context
        self._connection: Connection | None = None
        self._take_over()

    def commit(self, epoch: int, committables: Sequence[Json], processing_time: int) -> None:
        self._executed(f"the output of epoch {epoch}", lambda connection: self._write(connection, epoch, committables))
        if self._context.folder is not None:
            self._context.folder.remove_all(list(committables))

    def recover(self, in_progress: Json | None) -> None:
        folder = self._context.folder
        if folder is not None:
            folder.make()
            left = [name for name in folder.names() if int(name.partition("-")[0]) < self._context.generation]
            folder.remove_all(left)

    def finish(self) -> None:
        self._executed("the end of a job", self._forget)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take_over(self) -> None:
        """Fence older generations of the job."""

        def note(connection: Connection) -> None:
            create_commits(connection, self._table)
            known = connection.execute(
                f"INSERT INTO {self._table.commits} AS known (job, sink, epoch, generation) VALUES (%s, %s, 0, %s) ON "
                "CONFLICT (job, sink) DO UPDATE SET generation = greatest(known.generation, excluded.generation) "
                "RETURNING generation".encode(),
                (*self._own, self._context.generation),
            ).fetchone()
            assert known is not None
            self._check_generation(known[0])

        self._executed("the takeover", note)

    @property
    def _own(self) -> tuple[str, str]:
        return (self._context.job_id, self._context.operator_id)

    def _check_generation(self, known: int) -> None:
        if known > self._context.generation:
            raise InfrastructureError(
                f"a younger job manager writes to table {self._table} (generation {known}, this one is "
                f"{self._context.generation}): this one has to stop"
            )

    def _executed(self, what: str, work: Callable[[Connection], None]) -> None:
        """Execute a transaction.

        Raises:
            CommitRefusedError: when the database refuses it for good.
            OSError: on a passing fault.
        """
        import psycopg

        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._server.connect(f"sink {self._table}")
            with self._connection.transaction():
                work(self._connection)
        except psycopg.Error as error:
            self.close()
            failure = error_of(error, f"table {self._table} does not take {what}")
            if isinstance(failure, InfrastructureError):
                raise OSError(str(failure)) from error
            raise CommitRefusedError(str(failure)) from error
        except InfrastructureError as error:
            self.close()
            if isinstance(error.__cause__, psycopg.Error):
                raise OSError(str(error)) from error
            raise

    def _write(self, connection: Connection, epoch: int, files: Sequence[str]) -> None:
        known = connection.execute(
            f"SELECT epoch, generation FROM {self._table.commits} WHERE job = %s AND sink = %s FOR UPDATE".encode(),
            self._own,
        ).fetchone()
        if known is None:
            raise CommitRefusedError(
                f"table {self._table.commits} knows nothing of this job any more: its rows are part of the job's "
                "exactly once, and must not be removed while it runs"
            )
        self._check_generation(known[1])
        if known[0] >= epoch:
            return
        if files and self._table.key:
            self._upsert(connection, files)
        elif files:
            self._copy(connection, self._table.name, self._table.columns, files)
        connection.execute(
            f"UPDATE {self._table.commits} SET epoch = %s WHERE job = %s AND sink = %s".encode(), (epoch, *self._own)
        )

    def _upsert(self, connection: Connection, files: Sequence[str]) -> None:
        table, staged = self._table, quoted(_STAGED)
        columns = ", ".join(map(quoted, table.columns))
        connection.execute(
            f"CREATE TEMP TABLE {staged} ON COMMIT DROP AS SELECT {columns}, true AS {quoted(_DELETED)}, 0::bigint AS "
            f"{quoted(_NUMBER)} FROM {table.name} WITH NO DATA".encode()
        )
        connection.execute(
            f"ALTER TABLE {staged} ALTER {quoted(_NUMBER)} SET NOT NULL, ALTER {quoted(_NUMBER)} ADD GENERATED ALWAYS "
            "AS IDENTITY".encode()
        )
        self._copy(connection, staged, (*table.columns, _DELETED), files)
        connection.execute(f"ANALYZE {staged}".encode())
        same = " AND ".join(f"one.{quoted(name)} = other.{quoted(name)}" for name in table.key)
        number, deleted = quoted(_NUMBER), quoted(_DELETED)
        # Keys of one file, too: texts that differ may be equal to the database, as those of CHAR
        connection.execute(
            f"DELETE FROM {staged} one USING {staged} other WHERE {same} AND one.{number} < other.{number}".encode()
        )
        connection.execute(
            f"DELETE FROM {table.name} one USING {staged} other WHERE {same} AND other.{deleted}".encode()
        )
        others = [name for name in table.columns if name not in table.key]
        replaced = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        connection.execute(
            f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {staged} WHERE NOT {deleted} ON CONFLICT "
            f"({', '.join(map(quoted, table.key))}) DO {f'UPDATE SET {replaced}' if others else 'NOTHING'}".encode()
        )

    def _copy(self, connection: Connection, into: str, columns: Sequence[str], files: Sequence[str]) -> None:
        folder = self._context.folder
        assert folder is not None
        command = f"COPY {into} ({', '.join(map(quoted, columns))}) FROM STDIN (FORMAT csv)"
        with connection.cursor().copy(command.encode()) as copy:
            for name in files:
                for text in _csv(folder.read(name)):
                    copy.write(text)

    def _forget(self, connection: Connection) -> None:
        connection.execute(f"DELETE FROM {self._table.commits} WHERE job = %s AND sink = %s".encode(), self._own)


def _csv(content: bytes) -> Iterator[bytes]:
    options = pyarrow.csv.WriteOptions(include_header=False)
    with pa.ipc.open_file(pa.py_buffer(content)) as file:
        for number in range(file.num_record_batches):
            sink = io.BytesIO()
            pyarrow.csv.write_csv(file.get_batch(number), sink, options)
            yield sink.getvalue()


def create_commits(connection: Connection, table: TargetTable) -> None:
    """Create the table of commits, unless it is there."""
    found = connection.execute("SELECT to_regclass(%s)", (table.commits,)).fetchone()
    if found == (None,):
        connection.execute(f"SELECT pg_advisory_xact_lock(hashtext({literal(_COMMITS)}))".encode())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table.commits} {_COLUMNS_OF_COMMITS}".encode())


def needs_of_commits(table: TargetTable) -> str:
    """The rights that a user lacks to create or write the table of commits."""
    return (
        f"the user needs the right CREATE on schema {quoted(table.schema)}, or a table that is there, with SELECT, "
        f"INSERT, UPDATE and DELETE on it: CREATE TABLE {table.commits} {_COLUMNS_OF_COMMITS}"
    )


class PostgresSink(Sink[Any]):
    """Writes rows into a table of PostgreSQL: the rows of an epoch in one transaction, exactly once.

    With a key, a row takes the place of the one with its key, and one that is deleted is removed. Without one, rows are
    only added. A table ``headrace_commits`` beside it says which epoch was written last.

    Args:
        options: as for ``'connector' = 'jdbc'`` in SQL.
        primary_key: the columns of the key; without any, rows are only added.

    Raises:
        ConfigurationError: when an option is missing, unknown or wrong.

    Examples:
        >>> from headrace.datastream.connectors.postgres import PostgresSink
        >>> PostgresSink({"url": "jdbc:postgresql://db/shop", "table-name": "totals"}, primary_key=["card"])
        PostgresSink(public.totals at db:5432/shop)
    """

    def __init__(self, options: Mapping[str, Any], *, primary_key: Sequence[str] = ()) -> None:
        checked = Jdbc("jdbc").read_options({key: str(value) for key, value in options.items()})
        self._server = server_of_url(checked)
        schema, _, table = checked.get(TABLE).rpartition(".")
        self._place = (schema or "public", table)
        self._key = tuple(primary_key)

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return (LineageDataset(self._server.namespace, f"{self._server.database}.{'.'.join(self._place)}"),)

    def takes_changes(self, input_type: TypeInformation) -> bool:
        return bool(self._key)

    def validate(self, input_type: TypeInformation) -> None:
        if not isinstance(input_type, RowTypeInfo):
            raise InvalidTypeError(
                f"a PostgresSink writes rows with named fields, not {input_type}: use Types.ROW_NAMED with the columns"
            )
        for name, kind in zip(input_type.field_names, input_type.types, strict=True):
            if not isinstance(kind.logical_type, AtomicType | ArrayType):
                raise InvalidTypeError(
                    f"column {name!r}: PostgreSQL has no column for {kind.logical_type}; make a text of it"
                )
        missing = [name for name in self._key if name not in input_type.field_names]
        if missing:
            raise InvalidTypeError(f"the key has a column {missing[0]!r}, and the rows {input_type} have not")

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return PostgresWriter(self._table(context.input_type), context)

    def create_committer(self, context: CommitterContext) -> Committer:
        return PostgresCommitter(self._server, self._table(context.input_type), context)

    def check_output(self, context: CommitterContext) -> None:
        table = self._table(context.input_type)
        with closing(self._server.connect(f"sink {table}")) as connection:
            table.check(connection)
            with telling(f"table {table.commits}", needs=needs_of_commits(table)), connection.transaction():
                create_commits(connection, table)
                known = connection.execute(
                    f"SELECT epoch FROM {table.commits} WHERE job = %s AND sink = %s".encode(),
                    (context.job_id, context.operator_id),
                ).fetchone()
        if known is not None and known[0] > context.restored_epoch:
            raise CheckpointError(
                f"the checkpoint directory is at epoch {context.restored_epoch}, but table {table} has the output of "
                f"this job up to epoch {known[0]}: the directory is an old copy, or newer checkpoints were removed, "
                "and going on would write that output again. Put the newest checkpoint directory back; or start a new "
                "job, with a checkpoint directory of its own"
            )

    def _table(self, input_type: TypeInformation) -> TargetTable:
        assert isinstance(input_type, RowTypeInfo)
        return TargetTable(*self._place, tuple(input_type.field_names), self._key)

    def __repr__(self) -> str:
        return f"PostgresSink({'.'.join(self._place)} at {self._server})"


class Jdbc(Connector):
    """Makes the sink by its name, with the options of Flink's ``jdbc``."""

    required_options = (URL, TABLE)
    optional_options = (USERNAME, PASSWORD, DRIVER, TIMEOUT)
    other_options = OTHERS

    def create_sink(self, context: ConnectorContext) -> Sink[Any]:
        return PostgresSink(context.options.to_dict())


_SCHEMES: Final = ("postgresql", "postgres")


def server_of_url(options: Configuration) -> PostgresServer:
    """The server of a URL as JDBC has it: ``jdbc:postgresql://host:port/database?user=...``.

    Raises:
        ConfigurationError: when it is one of another database, or none.
    """
    url = options.get(URL)
    parts = urlsplit(url.removeprefix("jdbc:"))
    database = unquote(parts.path.removeprefix("/"))
    if parts.scheme not in _SCHEMES or not database:
        raise ConfigurationError(
            f"'url' = {url.partition('?')[0]!r} is not one of PostgreSQL, which alone is supported: "
            "jdbc:postgresql://host:port/database"
        )
    more = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    unknown = more.keys() - {"host", "port", "user", "password"}
    if unknown:
        raise ConfigurationError(f"'url' has a parameter {min(unknown)!r}: there are host, port, user and password")
    try:
        port = int(more.get("port") or parts.port or 5432)
    except ValueError as error:
        raise ConfigurationError(f"'url' = {url.partition('?')[0]!r} has a port that is none: {error}") from None
    return PostgresServer(
        more.get("host") or parts.hostname or "localhost",
        port,
        database,
        options.get(USERNAME) or more.get("user") or unquote(parts.username or "") or None,
        options.get(PASSWORD) or more.get("password") or unquote(parts.password or "") or None,
        options.get(TIMEOUT),
    )
