"""``StreamTableEnvironment``: conversion of streams to tables, and of tables to streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.common.errors import InvalidProgramError, InvalidTypeError, expect
from headrace.common.messages import fields_of
from headrace.common.options import RUNTIME_MODE, RuntimeExecutionMode
from headrace.datastream.data_stream import DataStream
from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
from headrace.datastream.streams.types import TypeOrigin
from headrace.graph.stream_graph import StreamGraph
from headrace.table.catalog.objects import CatalogTable
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.table_sink import GraphSink
from headrace.table.connectors.table_source import GraphSource
from headrace.table.environment.descriptors import TableDescriptor
from headrace.table.environment.schema import Schema
from headrace.table.environment.settings import EnvironmentSettings
from headrace.table.environment.table import Table
from headrace.table.environment.table_environment import TableEnvironment
from headrace.table.logical.relations import Relation, Sink
from headrace.table.parse.format import quoted, quoted_path

if TYPE_CHECKING:
    from headrace.common.types import Row


class StreamTableEnvironment(TableEnvironment):
    """A table environment that converts streams to tables, and tables to streams.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.common import Types
        >>> from headrace.table import StreamTableEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> tables = StreamTableEnvironment.create(env)
        >>> row = Types.ROW_NAMED(["word", "n"], [str, int])
        >>> words = env.from_collection([("to", 1), ("be", 2)], row)
        >>> tables.create_temporary_view("words", words)
        >>> long = tables.to_data_stream(tables.sql_query("SELECT UPPER(word) AS w FROM words WHERE n > 1"))
        >>> long.execute_and_collect(limit=1)
        [Row(w='BE')]
    """

    def __init__(self, settings: EnvironmentSettings, stream_environment: StreamExecutionEnvironment) -> None:
        super().__init__(settings)
        self._streams = stream_environment

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Create a table environment for a stream environment.

        Args:
            stream_execution_environment: the stream environment; a new one by default.
            environment_settings: the settings; by default the execution mode is that of the streams.
        """
        streams = stream_execution_environment or StreamExecutionEnvironment.get_execution_environment()
        expect(streams, StreamExecutionEnvironment, "StreamTableEnvironment.create")
        is_batch = streams.get_configuration().get(RUNTIME_MODE) is RuntimeExecutionMode.BATCH
        return StreamTableEnvironment(environment_settings or EnvironmentSettings(not is_batch), streams)

    # --- tables of streams -------------------------------------------------------------------------------------------

    def from_data_stream(self, data_stream: DataStream, schema: Schema | None = None) -> Table:
        """The table of an insert-only stream.

        Args:
            data_stream: the stream; records without fields are a column ``f0``.
            schema: its columns by name, computed columns, and the watermark; by default the fields of the records.
                The timestamp of a record is ``column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")``, and the watermark
                of the stream ``watermark("rowtime", "SOURCE_WATERMARK()")``.

        Raises:
            InvalidTypeError: when a column is missing, or cannot be converted.
        """
        return self._table_of(data_stream, schema, ChangelogMode.INSERT)

    def from_changelog_stream(
        self, data_stream: DataStream[Row], schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Table:
        """The table of a stream whose rows have kinds.

        Args:
            data_stream: the stream.
            schema: as for :meth:`from_data_stream`; upserts need a primary key.
            changelog_mode: the row kinds; all kinds by default.

        Raises:
            InvalidTypeError: when a column is missing, or cannot be converted.
        """
        return self._table_of(data_stream, schema, changelog_mode or ChangelogMode.ALL)

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Table | DataStream, schema: Schema | None = None
    ) -> None:
        """Register a table or a stream as a temporary view.

        Args:
            view_path: the name.
            table_or_data_stream: the rows.
            schema: of a stream, as for :meth:`from_data_stream`.
        """
        if isinstance(table_or_data_stream, DataStream):
            super().create_temporary_view(view_path, self.from_data_stream(table_or_data_stream, schema))
        else:
            super().create_temporary_view(view_path, table_or_data_stream)

    def _table_of(self, stream: DataStream, schema: Schema | None, mode: ChangelogMode) -> Table:
        expect(stream, DataStream, "from_data_stream")
        known = fields_of(stream.get_type(), "f0")
        names = [name for name, _ in known]
        given = [f"{quoted(name)} {of.logical_type}" for name, of in known]
        elements = list(schema.elements) if schema is not None else []
        physical = list(schema.physical) if schema is not None and schema.physical else names
        if schema is None or not schema.physical:
            elements = [*given, *elements]
        missing = [name for name in physical if name not in names]
        if missing:
            raise InvalidTypeError(f"the stream has no field {missing[0]!r}: there are {', '.join(names)}")
        source = GraphSource(stream._edges, tuple(names.index(name) for name in physical), stream.get_type(), mode)
        definition = TableDescriptor(Schema(elements, physical), {"connector": "blackhole"})
        with self.unnamed_table(definition) as path:
            table = self.catalogs.temporary[path]
            assert isinstance(table, CatalogTable)
            self.catalogs.temporary[path] = replace(table, options=(), inline=source)
            return self.from_path(quoted_path(path))

    # --- streams of tables -------------------------------------------------------------------------------------------

    def to_data_stream(self, table: Table) -> DataStream[Row]:
        """The stream of the rows of an insert-only table.

        Raises:
            InvalidProgramError: when its rows may be updated or deleted.
        """
        return self._stream_of(table.relation, insertions_only=True)

    def to_changelog_stream(
        self, table: Table, target_schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream[Row]:
        """The stream of the changes of a table; the kind of a row is its ``get_row_kind()``.

        Args:
            table: the table.
            target_schema: columns of the table by name, cast to their declared types, and a primary key; without
                columns, all of the table.
            changelog_mode: the row kinds; all kinds by default. Upserts need a primary key.

        Raises:
            SqlValidationError: when the table has no such column.
            PlanningError: when a column cannot be cast, or the changes of the table are of other kinds.
        """
        if target_schema is None and changelog_mode is None:
            return self._stream_of(table.relation, insertions_only=False)
        return self._stream_of(self._into(table, target_schema, changelog_mode or ChangelogMode.ALL))

    def _into(self, table: Table, schema: Schema | None, mode: ChangelogMode) -> Relation:
        """The relation of a table in the columns of a schema, and with changes of some kinds."""
        elements = list(schema.elements) if schema is not None else []
        if schema is None or not schema.physical:
            elements = [*(f"{quoted(field.name)} {field.type}" for field in table.relation.schema), *elements]
        chosen = table if schema is None or not schema.physical else self._columns(table, schema.physical)
        definition = TableDescriptor(Schema(elements, []), {"connector": "blackhole"})
        with self.unnamed_table(definition) as path:
            target = self.catalogs.temporary[path]
            assert isinstance(target, CatalogTable)
            if mode == ChangelogMode.UPSERT and target.primary_key is None:
                raise InvalidProgramError(
                    "rows are updated by their key, and there is none: target_schema has to name it, by "
                    "Schema.new_builder().primary_key(...)"
                )
            self.catalogs.temporary[path] = replace(target, options=(), inline=GraphSink(mode))
            (relation,) = self.insert_of(chosen, quoted_path(path))
            return relation

    def _columns(self, table: Table, names: Sequence[str]) -> Table:
        view = quoted(self.new_name())
        self.create_temporary_view(view, table)
        try:
            return self.sql_query(f"SELECT {', '.join(map(quoted, names))} FROM {view}")
        finally:
            self.drop_temporary_view(view)

    def _stream_of(self, relation: Relation, *, insertions_only: bool = False) -> DataStream[Row]:
        planner = self.planner()
        plan = planner.plan([relation], is_collected=not isinstance(relation, Sink))
        if insertions_only and plan[0].mode.takes_updates | plan[0].mode.takes_deletions:
            raise InvalidProgramError(
                "the rows of the table may be updated or deleted, which to_data_stream() cannot show: use "
                "to_changelog_stream()"
            )
        (edges,) = planner.translated(plan, self._streams.transformations.graph)
        return self._streams._stream(edges, TypeOrigin.DECLARED)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def new_graph(self) -> StreamGraph:
        return self._streams.transformations.graph.transform(lambda node, _: [node])

    def session_settings(self) -> dict[str, Any]:
        return self._streams.get_configuration().to_dict() | super().session_settings()
