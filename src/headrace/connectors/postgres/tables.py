"""Tables of PostgreSQL, and sources of their rows; what the catalogs say of those whose changes are read."""

from __future__ import annotations

import re
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.common.errors import ConfigurationError, InfrastructureError, SourceChangedError
from headrace.common.logical_types import LogicalType
from headrace.common.other_names import alike
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.datasets import LineageDataset
from headrace.connectors.postgres.relations import PostgresRelation
from headrace.connectors.postgres.server import PostgresServer, literal, lsn_of, lsn_text, quoted, telling
from headrace.connectors.postgres.values import check_type
from headrace.connectors.source import Source

if TYPE_CHECKING:
    from headrace.connectors.postgres.server import Connection

PLUGIN: Final = "pgoutput"
_MOST_NAMED: Final = 10
_PATIENCE: Final = 300
"""The attempts, a tenth of a second apart, to take a slot from a session that has been ended."""


_OF_PATTERNS: Final = frozenset("*+?|[](){}\\^")
"""Letters that make a pattern of a name."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table by its name.

    Attributes:
        schema: the name of its schema.
        table: its name.
    """

    schema: str
    table: str

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return quoted(self.schema, self.table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class PostgresTableSource(Source[Any]):
    """A source of rows of a table, or of several, which tasks read in pieces.

    Args:
        server: where the table is.
        table: the table.
        record_type: the type of the rows.
    """

    reads_in_pieces = True

    def __init__(self, server: PostgresServer, table: NamedTable, record_type: TypeInformation) -> None:
        self._server = server
        self._table = table
        self._type = record_type

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    @property
    def locations(self) -> tuple[str, ...]:
        return (f"{self._server}/{self._table}",)

    @property
    def datasets(self) -> tuple[LineageDataset, ...]:
        return (LineageDataset(self._server.namespace, f"{self._server.database}.{self._table}"),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._table} at {self._server})"


@dataclass(frozen=True, slots=True)
class CapturedTable(NamedTable):
    """A table whose changes are read, as the program declares it; or all whose names match regular expressions.

    Attributes:
        columns: the types of the columns that are read, by their names.
        slot: the name of the replication slot.
        publication: the name of the publication.
        has_before: whether updates come with the rows before them; otherwise only with the new rows.
        primary_key: the columns of its key; those of the key in the database when there are none.
        chunk_key: the column by which the snapshot is cut; the first of the key in the database when None.
    """

    columns: Mapping[str, LogicalType]
    slot: str
    publication: str
    has_before: bool = True
    primary_key: tuple[str, ...] = ()
    chunk_key: str | None = None

    @property
    def is_pattern(self) -> bool:
        """Return whether it stands for all tables whose names match."""
        return not _OF_PATTERNS.isdisjoint(self.schema + self.table)

    def named(self, schema: str, table: str) -> CapturedTable:
        """One of the tables that it stands for."""
        return replace(self, schema=schema, table=table)

    def check_patterns(self) -> None:
        """Refuse a name that is neither one nor a regular expression.

        Raises:
            ConfigurationError: when it is so.
        """
        for key, text in (("schema-name", self.schema), ("table-name", self.table)):
            try:
                re.compile(text)
            except re.error as error:
                if self.is_pattern:
                    raise ConfigurationError(f"{key!r} = {text!r} is no regular expression: {error}") from None

    def check_relation(self, relation: PostgresRelation) -> None:
        """Refuse a table that is not the one that the program declares any more.

        Args:
            relation: the table, as changes have it from now on.

        Raises:
            SourceChangedError: naming the column, and what to do.
        """
        given = {column.name: column for column in relation.columns}
        for name, kind in self.columns.items():
            if name not in given:
                raise SourceChangedError(
                    f"table {self}: column {name!r} is not in its changes any more: it was dropped or renamed, or the "
                    f"publication {self.publication!r} leaves it out. Declare the columns that there are, and start "
                    "the job without its checkpoints"
                )
            try:
                check_type(name, kind, given[name].type_id)
            except ConfigurationError as error:
                raise SourceChangedError(f"table {self}: the type of a column was changed: {error}") from None
        self.check_identity(relation.has_whole_rows, {column.name for column in relation.columns if column.is_identity})

    def check_identity(self, has_whole_rows: bool, identity: set[str]) -> None:
        """Refuse a replica identity that says too little of rows that are changed or deleted.

        Args:
            has_whole_rows: whether it is ``FULL``.
            identity: its columns otherwise.

        Raises:
            ConfigurationError: naming what is missing, and what to do.
        """
        if self.has_before and not has_whole_rows:
            raise ConfigurationError(
                f"table {self}: updates and deletions come without the rows that were there before, which "
                f"'changelog-mode' = 'all' needs. Execute ALTER TABLE {self.name} REPLICA IDENTITY FULL; or, for a "
                "table with a primary key, set 'changelog-mode' = 'upsert'"
            )
        missing = [name for name in self.primary_key if name not in identity]
        if missing and not has_whole_rows:
            raise ConfigurationError(
                f"table {self}: deletions come without column {missing[0]!r} of the PRIMARY KEY, since it is not "
                f"in the replica identity: execute ALTER TABLE {self.name} REPLICA IDENTITY FULL"
            )


@dataclass(frozen=True, slots=True)
class FoundTable:
    """The description of a table in the database.

    Attributes:
        schema: the name of its schema.
        table: its name.
        key: the columns of its primary key.
        chunk_key: the column by which its snapshot is cut.
        chunk_key_type: the type of that, in SQL.
        collation: the clause of the order of its texts; empty for none.
    """

    schema: str
    table: str
    key: tuple[str, ...]
    chunk_key: str
    chunk_key_type: str
    collation: str = ""

    @property
    def full_name(self) -> str:
        """Its name with that of its schema, which is unique in a source."""
        return f"{self.schema}.{self.table}"


def matching(connection: Connection, tables: CapturedTable) -> list[CapturedTable]:
    """The tables whose names match a pattern as a whole, by their names; partitions of one that does are part of it.

    Raises:
        ConfigurationError: when there is none.
    """
    with telling(f"tables {tables}"):
        rows = connection.execute(
            "SELECT c.oid::int8, n.nspname::text, c.relname::text, "
            "ARRAY(SELECT a.relid::oid::int8 FROM pg_partition_ancestors(c.oid) AS a(relid) WHERE a.relid <> c.oid) "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') "
            "AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%' "
            "ORDER BY n.nspname, c.relname"
        ).fetchall()
    schema, table = re.compile(tables.schema), re.compile(tables.table)
    found = [row for row in rows if schema.fullmatch(row[1]) and table.fullmatch(row[2])]
    ids = {row[0] for row in found}
    named = [tables.named(row[1], row[2]) for row in found if ids.isdisjoint(row[3])]
    if not named:
        known = ", ".join(f"{row[1]}.{row[2]}" for row in rows[:_MOST_NAMED]) or "none at all"
        raise ConfigurationError(
            f"no table has a name that matches 'schema-name' = {tables.schema!r} and 'table-name' = {tables.table!r} "
            f"as a whole, or this user may not see it; there are {known}{', ...' if len(rows) > _MOST_NAMED else ''}"
        )
    return named


def look_up(connection: Connection, table: CapturedTable) -> FoundTable:
    """The description of a table in the database.

    Raises:
        ConfigurationError: when it is not there, or not as it is declared.
    """
    with telling(f"table {table}"):
        wal_level = connection.execute("SHOW wal_level").fetchone()
        if wal_level != ("logical",):
            raise ConfigurationError(
                f"the server's wal_level is {wal_level and wal_level[0]!r}, and changes are only sent with 'logical': "
                "ALTER SYSTEM SET wal_level = logical, and restart the server"
            )
        found = connection.execute(
            "SELECT c.oid, c.relkind::text, c.relreplident::text FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            (table.schema, table.table),
        ).fetchone()
        if found is None or found[1] not in ("r", "p"):
            raise no_table(connection, str(table))
        oid, _, identity = found
        columns = columns_of(connection, oid)
        key = _index_columns(connection, oid, "indisprimary")
        for name, kind in table.columns.items():
            if name not in columns:
                raise ConfigurationError(f"table {table} has no column {name!r}{alike(name, columns)}")
            check_type(name, kind, columns[name][0], str(table))
        _check_identity_in_catalog(connection, table, oid, identity, key)
    chunk_key = table.chunk_key or next(iter(key), None)
    if chunk_key is None:
        raise ConfigurationError(
            f"table {table} has no primary key: name a column by which its rows can be read in parts, by "
            "'scan.incremental.snapshot.chunk.key-column'"
        )
    if chunk_key not in columns:
        raise ConfigurationError(f"table {table} has no column {chunk_key!r}{alike(chunk_key, columns)}")
    return FoundTable(table.schema, table.table, key, chunk_key, *columns[chunk_key][1:])


def no_table(connection: Connection, table: str) -> ConfigurationError:
    """The error about a table that is not there, with the names of those like it."""
    names = [
        f"{schema}.{name}"
        for schema, name in connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') LIMIT 1000"
        )
    ]
    return ConfigurationError(f"there is no table {table}, or this user may not see it{alike(table, names)}")


def columns_of(connection: Connection, oid: int) -> dict[str, tuple[int, str, str]]:
    """The id and the name of the type of each column, and the clause of its collation."""
    rows = connection.execute(
        "SELECT attname::text, atttypid::int8, format_type(atttypid, atttypmod), n.nspname::text, collname::text "
        "FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = attcollation AND c.collname <> 'default' "
        "LEFT JOIN pg_namespace n ON n.oid = c.collnamespace "
        "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (oid,),
    )
    return {
        name: (type_id, shown, "" if collation is None else f"COLLATE {quoted(schema, collation)}")
        for name, type_id, shown, schema, collation in rows
    }


def _index_columns(connection: Connection, oid: int, what: str) -> tuple[str, ...]:
    rows = connection.execute(
        "SELECT a.attname::text FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, "
        f"place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = %s AND "
        f"i.{what} ORDER BY k.place",
        (oid,),
    )
    return tuple(name for (name,) in rows)


def _check_identity_in_catalog(
    connection: Connection, table: CapturedTable, oid: int, identity: str, key: tuple[str, ...]
) -> None:
    columns = {"d": key, "i": _index_columns(connection, oid, "indisreplident")}.get(identity, ())
    if not columns and identity != "f":
        raise ConfigurationError(
            f"table {table} has no replica identity, so that PostgreSQL would refuse updates and deletions of a table "
            f"that is published: execute ALTER TABLE {table.name} REPLICA IDENTITY FULL"
        )
    table.check_identity(identity == "f", set(columns))
    if table.chunk_key is not None and identity != "f" and table.chunk_key not in columns:
        raise ConfigurationError(
            f"table {table}: 'scan.incremental.snapshot.chunk.key-column' = {table.chunk_key!r} is not in the replica "
            f"identity: name a column that is ({', '.join(columns)}), or execute ALTER TABLE {table.name} REPLICA "
            "IDENTITY FULL"
        )


# --- the publication -------------------------------------------------------------------------------------------------


def ensure_publication(connection: Connection, tables: Sequence[CapturedTable], added: Container[str] = ()) -> None:
    """Create the publication of some tables, unless there is one.

    Args:
        connection: a connection to the database.
        tables: the tables.
        added: the names of those that are added to it if it has them not.

    Raises:
        ConfigurationError: when there is one that leaves a table out, or a kind of changes; or it cannot be created.
    """
    name = tables[0].publication
    listed = ", ".join(table.name for table in tables)
    create = f"CREATE PUBLICATION {quoted(name)} FOR TABLE {listed} WITH (publish_via_partition_root = true)"
    needs = f"have the owner of the table, with the right CREATE on the database, execute {create}"
    with telling(f"publication {name!r} of table {', '.join(map(str, tables))}", needs=needs):
        found = connection.execute(
            "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s",
            (name,),
        ).fetchone()
        if found is None:
            connection.execute(create.encode())
            return
        if not found[0]:
            raise ConfigurationError(
                f"publication {name!r} leaves out some kinds of changes: execute ALTER PUBLICATION {quoted(name)} SET "
                "(publish = 'insert, update, delete, truncate')"
            )
        published = set(
            connection.execute(
                "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s", (name,)
            ).fetchall()
        )
    missing = [table for table in tables if (table.schema, table.table) not in published]
    if not missing:
        return
    alter = f"ALTER PUBLICATION {quoted(name)} ADD TABLE {', '.join(table.name for table in missing)}"
    if not all(str(table) in added for table in missing):
        raise ConfigurationError(
            f"publication {name!r} does not have table {', '.join(map(str, missing))}: execute {alter}, or give "
            "another 'publication.name'"
        )
    needs = f"have the owner of the publication and of the tables execute {alter}"
    with telling(f"publication {name!r} of table {', '.join(map(str, missing))}", needs=needs):
        connection.execute(alter.encode())


# --- the slot --------------------------------------------------------------------------------------------------------


def current_lsn(connection: Connection) -> int:
    """The place up to which the server has written."""
    return lsn_of(_one(connection, "SELECT pg_current_wal_insert_lsn()::text"))


def _one(connection: Connection, query: str) -> Any:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return found[0]


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot, which keeps the log from some place on.

    Attributes:
        name: its name.
        confirmed: the place up to which the log is not needed any more.
        active_pid: the process that reads it now; None for none.
    """

    name: str
    confirmed: int
    active_pid: int | None


def find_slot(connection: Connection, name: str) -> Slot | None:
    """The slot of a name; None where there is none.

    Raises:
        ConfigurationError: when it is of another database or plugin.
        SourceChangedError: when the log that it needs is gone.
    """
    with telling(f"replication slot {name!r}"):
        found = connection.execute(
            "SELECT plugin::text, database::text, current_database()::text, wal_status::text, "
            "confirmed_flush_lsn::text, active_pid FROM pg_replication_slots WHERE slot_name = %s",
            (name,),
        ).fetchone()
    if found is None:
        return None
    plugin, database, here, status, confirmed, pid = found
    if plugin != PLUGIN or database != here:
        raise ConfigurationError(
            f"replication slot {name!r} is one of database {database!r} and of plugin {plugin!r}, and not of {here!r} "
            f"and {PLUGIN!r}: give another 'slot.name'"
        )
    if status == "lost" or confirmed is None:
        raise SourceChangedError(
            f"replication slot {name!r} has lost changes that were not read: the server keeps no more of its log than "
            f"max_slot_wal_keep_size. Drop the slot, SELECT pg_drop_replication_slot({literal(name)}), and start the "
            "job without its checkpoints"
        )
    return Slot(name, lsn_of(confirmed), pid)


def create_slot(connection: Connection, name: str) -> Slot:
    """Create a slot; what is committed from now on is kept for it."""
    with telling(f"replication slot {name!r}"):
        found = connection.execute("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)", (name, PLUGIN))
        row = found.fetchone()
    assert row is not None
    return Slot(name, lsn_of(row[0]), None)


def take_slot(connection: Connection, name: str, position: int, *, is_own: bool) -> Slot:
    """A slot that is there already, which no session reads any more.

    A job manager that was superseded, and does not know it yet, may still hold that of its job: its session is ended.

    Args:
        connection: to the server.
        name: the slot.
        position: where the job goes on.
        is_own: whether the job has read from it before.

    Raises:
        SourceChangedError: when the slot is gone, or was moved beyond the position.
        InfrastructureError: when another session keeps it.
        ConfigurationError: likewise, when the job has not read from it before.
    """
    for attempt in range(_PATIENCE):
        slot = find_slot(connection, name)
        if slot is None:
            raise SourceChangedError(
                f"there is no replication slot {name!r} any more, from which the job would go on: it was dropped, so "
                "changes were lost. Start the job without its checkpoints, to read the table anew"
            )
        if slot.confirmed > position:
            raise SourceChangedError(
                f"replication slot {name!r} is at {lsn_text(slot.confirmed)}, beyond {lsn_text(position)}, where the "
                "job goes on: something else has read from it, or the checkpoint is an old one, and changes were lost. "
                "Each source needs a slot of its own. Start the job without its checkpoints, to read the table anew"
            )
        if slot.active_pid is None:
            return slot
        if is_own and attempt == 0:
            with telling(f"replication slot {name!r} is in use"):
                connection.execute("SELECT pg_terminate_backend(%s)", (slot.active_pid,))
        time.sleep(0.1)
    message = f"replication slot {name!r} is in use by another session"
    if is_own:
        raise InfrastructureError(message)
    raise ConfigurationError(f"{message}: each source of each job needs a slot of its own, by 'slot.name'")


def drop_slot(connection: Connection, name: str) -> None:
    """Drop a slot, if it is there, as soon as the session that has read from it is gone.

    Raises:
        InfrastructureError: when it stays in use.
    """
    for _ in range(_PATIENCE):
        slot = find_slot(connection, name)
        if slot is None:
            return
        if slot.active_pid is None:
            with telling(f"replication slot {name!r}"):
                connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
            return
        time.sleep(0.1)
    raise InfrastructureError(f"replication slot {name!r} is in use by another session, and cannot be dropped")
