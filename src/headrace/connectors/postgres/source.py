"""``PostgresSource``: the rows of tables of PostgreSQL and their changes, by logical replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.common.config_options import ConfigOption, boolean, choice, duration, integer, positive_duration
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidTypeError
from headrace.common.logical_types import RowType
from headrace.common.other_names import alike
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.common.typeinfo.types import type_of_logical
from headrace.connectors.connector import Connector, ConnectorContext
from headrace.connectors.postgres.decoding import METADATA, PostgresReader
from headrace.connectors.postgres.enumerator import CapturePlan, PostgresEnumerator, StartupMode
from headrace.connectors.postgres.server import PostgresServer
from headrace.connectors.postgres.tables import PLUGIN, CapturedTable, PostgresTableSource
from headrace.connectors.postgres.values import converter_of
from headrace.connectors.source import Boundedness, EnumeratorContext, Source, SourceReader, SplitEnumerator

HOSTNAME: Final = ConfigOption("hostname", str, "", "The address of the server, or the folder of its socket.")
PORT: Final = ConfigOption("port", integer(1, 65_535), 5432, "Where the server listens.")
USERNAME: Final = ConfigOption[str | None]("username", str, None, "The user that connects.")
PASSWORD: Final = ConfigOption[str | None]("password", str, None, "The password.")
DATABASE: Final = ConfigOption("database-name", str, "", "The name of the database.")
SCHEMA: Final = ConfigOption("schema-name", str, "public", "The name of the schema, or a pattern of names.")
TABLE: Final = ConfigOption("table-name", str, "", "The name of the table, or a pattern of names.")
SLOT: Final = ConfigOption("slot.name", str, "", "The name of the replication slot; each source needs one of its own.")
PLUGIN_NAME: Final = ConfigOption("decoding.plugin.name", choice(PLUGIN), PLUGIN, "The plugin of the server.")
PUBLICATION: Final = ConfigOption[str | None](
    "publication.name", str, None, "The name of the publication, which is created unless it is there."
)
STARTUP: Final = ConfigOption(
    "scan.startup.mode", choice(*(mode.value for mode in StartupMode)), StartupMode.INITIAL.value, "Where to begin."
)
BOUNDED: Final = ConfigOption("scan.bounded.mode", choice("unbounded", "latest-offset"), "unbounded", "Where to end.")
CHANGELOG: Final = ConfigOption(
    "changelog-mode", choice("all", "upsert"), "all", "Whether updates come with the rows before them."
)
CHUNK_SIZE: Final = ConfigOption(
    "scan.incremental.snapshot.chunk.size", integer(1, 10**9), 8_096, "How many rows a chunk of the snapshot has."
)
CHUNK_KEY: Final = ConfigOption[str | None](
    "scan.incremental.snapshot.chunk.key-column", str, None, "The column by which the snapshot is cut into chunks."
)
HEARTBEAT: Final = ConfigOption(
    "heartbeat.interval.ms", positive_duration, 30_000, "How often a place without changes is noted."
)
TIMEOUT: Final = ConfigOption(
    "connect.timeout", duration, 30_000, "How long the server may be away before the job fails and restarts."
)

ADDED_TABLES: Final = ConfigOption(
    "scan.newly-added-table.enabled",
    boolean,
    False,
    "Whether tables are read, too, that match a pattern when the job is restarted, and did not before.",
)

REQUIRED: Final = (HOSTNAME, DATABASE, TABLE, SLOT)
OPTIONAL: Final = (
    *(PORT, USERNAME, PASSWORD, SCHEMA, PLUGIN_NAME, PUBLICATION, STARTUP, BOUNDED, CHANGELOG),
    *(CHUNK_SIZE, CHUNK_KEY, HEARTBEAT, TIMEOUT, ADDED_TABLES),
)
OTHERS: Final[Mapping[str, str]] = {
    "scan.incremental.snapshot.enabled": "the snapshot is always cut into chunks, which several tasks read",
    "scan.snapshot.fetch.size": "a chunk is read as a whole: 'scan.incremental.snapshot.chunk.size'",
    "debezium.publication.name": "it is 'publication.name'",
    "debezium.snapshot.mode": "it is 'scan.startup.mode'",
    "connect.max-retries": "connecting is retried for as long as 'connect.timeout'",
    "connection.pool.size": "a task has one connection",
}
"""Options of Flink CDC, and what to do instead."""


class PostgresSource(PostgresTableSource):
    """The rows of tables of PostgreSQL, and then their changes in the order of commits, exactly once.

    It begins with a snapshot of the tables, which tasks read in chunks, and goes on with what pgoutput sends of every
    change. Records are rows of a changelog. They carry the time of their transaction; those of the snapshot the time 0.
    Where ``table-name`` or ``schema-name`` is a regular expression, the tables are all whose names match it.

    Args:
        options: as for ``'connector' = 'postgres-cdc'`` in SQL.
        record_type: the type of the rows: columns of the table by their names.
        primary_key: the columns of the key; those of the key in the database when there are none.
        metadata: what is known of a row besides, as further fields: ``database_name``, ``schema_name``,
            ``table_name``, ``op_ts``.

    Raises:
        ConfigurationError: when an option is missing, unknown or wrong.
        InvalidTypeError: when the record type has no named fields.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.connectors.postgres import PostgresSource
        >>> options = {"hostname": "db", "database-name": "shop", "table-name": "orders", "slot.name": "orders"}
        >>> PostgresSource(options, Types.ROW_NAMED(["id", "price"], [int, float]))
        PostgresSource(public.orders at db:5432/shop)
    """

    _table: CapturedTable
    _type: RowTypeInfo

    def __init__(
        self,
        options: Mapping[str, Any],
        record_type: TypeInformation,
        *,
        primary_key: Sequence[str] = (),
        metadata: Sequence[str] = (),
    ) -> None:
        checked = PostgresCdc("postgres-cdc").read_options({key: str(value) for key, value in options.items()})
        if not isinstance(record_type, RowTypeInfo):
            raise InvalidTypeError(
                f"a PostgresSource gives rows with named fields, not {record_type}: use Types.ROW_NAMED"
            )
        columns = dict(zip(record_type.field_names, (each.logical_type for each in record_type.types), strict=True))
        for name, kind in columns.items():
            converter_of(name, kind)
        for key in metadata:
            if key not in METADATA:
                raise ConfigurationError(f"there is no metadata {key!r}{alike(key, METADATA)}")
        self._metadata = tuple(metadata)
        table = table_of(checked, columns, tuple(primary_key))
        super().__init__(server_of(checked), table, _with_metadata(record_type, self._metadata))
        table.check_patterns()
        self._plan = CapturePlan(
            StartupMode(checked.get(STARTUP)),
            checked.get(CHUNK_SIZE),
            checked.get(BOUNDED) != "unbounded",
            checked.get(HEARTBEAT),
            checked.get(ADDED_TABLES),
        )
        if self._plan.adds_tables and (self._plan.ends or not table.is_pattern):
            reason = "the source ends" if self._plan.ends else "'table-name' and 'schema-name' are no patterns"
            raise ConfigurationError(f"{ADDED_TABLES.key!r} adds tables that match a pattern, and {reason}")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._plan.ends else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return PostgresEnumerator(self._server, self._table, self._plan, context.state)

    def create_reader(self) -> SourceReader:
        return PostgresReader(self._server, self._table, self._type, self._metadata)


class PostgresCdc(Connector):
    """Makes the source by its name, with the options of Flink CDC's ``postgres-cdc``."""

    required_options = REQUIRED
    optional_options = OPTIONAL
    other_options = OTHERS

    def create_source(self, context: ConnectorContext) -> Source[Any]:
        if context.record_type is None:
            raise InvalidTypeError(f"{self} needs the type of its rows: Types.ROW_NAMED with the columns of the table")
        return PostgresSource(context.options.to_dict(), context.record_type)


def server_of(options: Configuration) -> PostgresServer:
    """The server that options name."""
    return PostgresServer(
        options.get(HOSTNAME),
        options.get(PORT),
        options.get(DATABASE),
        options.get(USERNAME),
        options.get(PASSWORD),
        options.get(TIMEOUT),
    )


def table_of(options: Configuration, columns: Mapping[str, Any], primary_key: tuple[str, ...]) -> CapturedTable:
    """The table that options name, or all that are called so.

    Args:
        options: the options.
        columns: the types of the columns that are read, by their names.
        primary_key: the columns of its key.
    """
    slot = options.get(SLOT)
    return CapturedTable(
        options.get(SCHEMA),
        options.get(TABLE),
        columns,
        slot,
        options.get(PUBLICATION) or slot,
        has_before=options.get(CHANGELOG) == "all",
        primary_key=primary_key,
        chunk_key=options.get(CHUNK_KEY),
    )


def _with_metadata(rows: RowTypeInfo, metadata: Sequence[str]) -> RowTypeInfo:
    if not metadata:
        return rows
    more = type_of_logical(RowType(tuple(metadata), tuple(METADATA[key] for key in metadata)))
    assert isinstance(more, RowTypeInfo)
    taken = set(rows.field_names)
    names = tuple(f"{name} metadata" if name in taken else name for name in metadata)
    return RowTypeInfo(tuple(rows.types) + tuple(more.types), rows.field_names + names)
