"""``TableEnvironment``: the entry point of the Table API."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

from headrace.client.submission import submit
from headrace.common.call_site import warn_caller
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError, InvalidProgramError
from headrace.common.logical_types import LogicalType
from headrace.common.options import OPTIONS, PIPELINE_NAME, RUNTIME_MODE, RuntimeExecutionMode
from headrace.datastream.streams.sinks import CloseableIterator, Handover
from headrace.graph.specs import SinkSpec
from headrace.graph.stream_graph import StreamGraph
from headrace.jobmanager.status import JobListener
from headrace.table.bind.context import BindContext
from headrace.table.bind.statements import bind_query, result_schema
from headrace.table.catalog.manager import CatalogManager
from headrace.table.catalog.objects import CatalogTable, CatalogView, Column, ObjectPath
from headrace.table.ddl.execute import CreatedTable
from headrace.table.ddl.file_catalog import FileCatalogStore
from headrace.table.ddl.objects import open_catalogs
from headrace.table.environment.catalog_objects import CatalogObjectMethods
from headrace.table.environment.compiled_plan import CompiledPlan, PlanReference, compiled_plan, loaded_plan
from headrace.table.environment.descriptors import TableDescriptor
from headrace.table.environment.explain import PlacesInText, explained
from headrace.table.environment.local_tables import table_of_elements, table_of_pandas
from headrace.table.environment.materialized_tables import MaterializedTables
from headrace.table.environment.procedures import SystemProcedures, procedure_of
from headrace.table.environment.refresh_schedule import ScheduledRefresh
from headrace.table.environment.settings import EnvironmentSettings, TableConfig
from headrace.table.environment.statement_set import StatementSet
from headrace.table.environment.statements import bound_statements, execute_statement, validate_statement
from headrace.table.environment.table import Table
from headrace.table.environment.table_result import BIGINT, ResultSink, TableResult, static_result
from headrace.table.environment.tableau import ResultChanges
from headrace.table.logical.relations import Relation
from headrace.table.options import ATOMICITY, CATALOG_STORE, CATALOG_STORE_PATH, check_key, check_value, is_of_tables
from headrace.table.parse import parse_expression, parse_statement
from headrace.table.parse.format import quoted, quoted_path
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.statements import ExplainDetail, Insert, QueryStatement, SqlStatementSet
from headrace.table.physical.planner import Planner
from headrace.table.physical.sinks import Sink, with_constraints
from headrace.table.physical.translation import GraphBuilder, record_type
from headrace.table.plans.document import CompiledStatements


class TableEnvironment(CatalogObjectMethods):
    """Executes statements: it has catalogs and settings, and starts a job for each query and ``INSERT``.

    Examples:
        >>> from headrace.table import EnvironmentSettings, TableEnvironment
        >>> tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        >>> tables.get_config().set("headrace.runtime", "local").get("headrace.runtime", "")
        'local'
        >>> _ = tables.execute_sql("CREATE TEMPORARY VIEW numbers AS VALUES (1), (2), (3)")
        >>> with tables.execute_sql("SELECT * FROM numbers WHERE EXPR$0 > 1").collect() as rows:
        ...     sorted(row[0] for row in rows)
        [2, 3]
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings
        self._configuration = Configuration(settings.configuration)
        for key, value in settings.configuration.to_dict().items():
            check_key(key)
            check_value(key, str(value))
        if RUNTIME_MODE.key in settings.configuration.to_dict():
            self._configuration.set_string(RUNTIME_MODE.key, "STREAMING" if settings.is_streaming else "BATCH")
        self._config = TableConfig(self._configuration)
        self.catalogs = CatalogManager(settings.get_built_in_catalog_name(), settings.get_built_in_database_name())
        self._names = itertools.count(1)
        self.materialized = MaterializedTables(self)
        self.catalogs.system_procedures = SystemProcedures(self)
        if self._configuration.get(CATALOG_STORE) == "file":
            path = self._configuration.get(CATALOG_STORE_PATH)
            if path is None:
                raise ConfigurationError(f"{CATALOG_STORE.key} = file needs a folder: set {CATALOG_STORE_PATH.key}")
            open_catalogs(self.catalogs, FileCatalogStore(path))

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration | None = None) -> TableEnvironment:
        """Create a table environment.

        Args:
            environment_settings: the settings; streaming mode by default.
        """
        if environment_settings is None:
            return TableEnvironment(EnvironmentSettings())
        if isinstance(environment_settings, Configuration):
            is_streaming = environment_settings.get(RUNTIME_MODE) is not RuntimeExecutionMode.BATCH
            return TableEnvironment(EnvironmentSettings(is_streaming, environment_settings))
        return TableEnvironment(environment_settings)

    @property
    def is_batch(self) -> bool:
        """Return whether statements run in batch mode, by ``execution.runtime-mode`` or the environment's settings."""
        mode = self._config.get(RUNTIME_MODE.key, "AUTOMATIC").upper()
        return not self._settings.is_streaming if mode == "AUTOMATIC" else mode == "BATCH"

    def get_config(self) -> TableConfig:
        """The settings of the session."""
        return self._config

    # --- statements --------------------------------------------------------------------------------------------------

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement.

        A query or an ``INSERT`` starts a job, which continues after this returns; :meth:`TableResult.wait` waits for it
        to finish.

        Args:
            stmt: the statement.

        Raises:
            SqlParseError: when it has a syntax error.
            SqlValidationError: when it refers to an unknown object, or its types do not fit.
            PlanningError: when it cannot be planned.
        """
        return execute_statement(self, parse_statement(stmt), SqlSource(stmt))

    def validate_sql(self, stmt: str) -> None:
        """Validate a statement, without planning or executing it.

        Args:
            stmt: the statement.

        Raises:
            SqlParseError: when it has a syntax error.
            SqlValidationError: when it refers to an unknown object, or its types do not fit.
        """
        validate_statement(self, parse_statement(stmt), SqlSource(stmt))

    def sql_query(self, query: str) -> Table:
        """The table of a query, without executing it.

        Args:
            query: the query.

        Raises:
            SqlParseError: when it has a syntax error.
            SqlValidationError: when it refers to an unknown object, or its types do not fit.
            InvalidProgramError: when it is a statement of another kind.
        """
        statement = parse_statement(query)
        if not isinstance(statement, QueryStatement):
            raise InvalidProgramError(f"sql_query takes a query, not {type(statement).__name__}: use execute_sql")
        return Table(self, bind_query(self.bind_context(SqlSource(query)), statement.query))

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """The plan of a query or an ``INSERT``.

        Args:
            stmt: the statement.
            extra_details: what to add to the plan.
        """
        statement, source = parse_statement(stmt), SqlSource(stmt)
        relations = bound_statements(self, statement, source)
        return explained(self, relations, extra_details, PlacesInText(statement, source, self.catalogs))

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """Compile an ``INSERT``, or a statement set, to a plan that later sessions can execute.

        Args:
            stmt: the statement.

        Raises:
            PlanningError: when it cannot be planned, or reads or writes what exists in this program alone.
        """
        statement = parse_statement(stmt)
        if not isinstance(statement, Insert | SqlStatementSet):
            raise InvalidProgramError(f"compile_plan_sql takes INSERT, and not {type(statement).__name__}")
        return compiled_plan(self, bound_statements(self, statement, SqlSource(stmt)))

    def load_plan(self, plan_reference: PlanReference) -> CompiledPlan:
        """The compiled plan in a file, or in a text.

        Raises:
            PlanningError: when there is no such file, it holds no compiled plan, or a function is not registered.
        """
        return loaded_plan(self, plan_reference)

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Start the job of a compiled plan; errors as of :meth:`load_plan`."""
        return self.load_plan(plan_reference).execute()

    def create_statement_set(self) -> StatementSet:
        """A set of statements that are executed as one job."""
        return StatementSet(self)

    # --- tables ------------------------------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """The table at a path, which is written as in SQL."""
        return self.sql_query(f"SELECT * FROM {path}")

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """The table of a descriptor, without a name in the catalog."""
        return self._unnamed(descriptor)

    def from_elements(
        self,
        elements: Iterable[Any],
        schema: LogicalType | Sequence[str] | None = None,
        verify_schema: bool = True,
    ) -> Table:
        """The bounded table of elements of Python, in their order.

        Args:
            elements: tuples, rows, dicts, or values of a single column.
            schema: ``DataTypes.ROW``, the type of the single column, or the names of the columns; inferred from the
                elements by default.
            verify_schema: without an effect: elements are always verified.

        Raises:
            InvalidTypeError: when the elements do not fit the schema, or there is none and it cannot be inferred.
        """
        del verify_schema
        return self._unnamed(table_of_elements(elements, schema))

    def from_pandas(
        self, pdf: Any, schema: LogicalType | Sequence[str] | Sequence[LogicalType] | None = None, splits_num: int = 1
    ) -> Table:
        """The bounded table of a pandas DataFrame, in the order of its rows.

        Args:
            pdf: the DataFrame.
            schema: ``DataTypes.ROW``, or the names or types of the columns; those of the DataFrame by default.
            splits_num: without an effect: the rows are split by the parallelism of the job.

        Raises:
            InvalidTypeError: when it is not a DataFrame, or does not fit the schema.
        """
        del splits_num
        return self._unnamed(table_of_pandas(pdf, schema))

    def _unnamed(self, definition: TableDescriptor | CatalogTable) -> Table:
        with self.unnamed_table(definition) as path:
            return self.from_path(quoted_path(path))

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool = False) -> None:
        """Create a table that exists until the session ends.

        Args:
            path: its path, as in SQL.
            descriptor: its definition.
            ignoreIfExists: whether nothing happens if the table exists already.

        Raises:
            SqlValidationError: when the definition is not valid, or the table exists already.
        """
        exists = " IF NOT EXISTS" if ignoreIfExists else ""
        self.execute_sql(descriptor.definition(path, f"TEMPORARY TABLE{exists}"))

    def create_table(self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool = False) -> None:
        """Create a table in the catalog; arguments as those of :meth:`create_temporary_table`.

        Raises:
            SqlValidationError: when the definition is not valid, or the table exists already.
        """
        exists = " IF NOT EXISTS" if ignoreIfExists else ""
        self.execute_sql(descriptor.definition(path, f"TABLE{exists}"))

    def create_temporary_view(self, view_path: str, table: Table) -> None:
        """Register a table as a temporary view."""
        self._put_view(view_path, table, is_temporary=True)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> None:
        """Register a table as a view in the catalog.

        Args:
            view_path: its path, as in SQL.
            table: the table.
            ignore_if_exists: whether nothing happens if the path is taken already.
        """
        if not (ignore_if_exists and self.catalogs.permanent_table(self.path_of(view_path))):
            self._put_view(view_path, table, is_temporary=False)

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view; False when there was none."""
        return self.catalogs.temporary.pop(self.path_of(view_path), None) is not None

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table; False when there was none."""
        return self.drop_temporary_view(table_path)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a table; False when there was none, which is an error unless it is to be ignored."""
        return self._drop("TABLE", table_path, ignore_if_not_exists)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a view; False when there was none, which is an error unless it is to be ignored."""
        return self._drop("VIEW", view_path, ignore_if_not_exists)

    def _drop(self, kind: str, path: str, ignore_if_not_exists: bool) -> bool:
        there = self.catalogs.permanent_table(self.path_of(path)) is not None
        self.execute_sql(f"DROP {kind} {'IF EXISTS ' if ignore_if_not_exists else ''}{path}")
        return there

    # --- catalogs ----------------------------------------------------------------------------------------------------

    # --- functions ---------------------------------------------------------------------------------------------------

    def create_procedure(self, path: str, function: Callable[..., Any]) -> None:
        """Register a procedure, which ``CALL`` runs, until the session ends.

        The annotations of the function's parameters and of its result are their types. A first parameter of type
        ``TableEnvironment`` is given this environment. A dataclass or a named tuple as the result, or a list of these,
        is rows with its fields as columns.

        Args:
            path: its name, with or without those of its database and catalog.
            function: what it runs.

        Raises:
            InvalidProgramError: when it is no function, an annotation is missing, or the name is taken.

        Examples:
            >>> from headrace.table import TableEnvironment
            >>> def repeated(text: str, times: int = 2) -> list[str]:
            ...     return [text] * times
            >>> tables = TableEnvironment.create()
            >>> tables.create_procedure("repeated", repeated)
            >>> with tables.execute_sql("CALL repeated(text => 'a', times => 3)").collect() as rows:
            ...     [row.result for row in rows]
            ['a', 'a', 'a']
        """
        found = self.path_of(path)
        found = found._replace(name=found.name.lower())
        if found in self.catalogs.procedures:
            raise InvalidProgramError(f"procedure '{found}' exists already: drop_procedure({path!r}) first")
        if not self.catalogs.has_database(found.catalog, found.database):
            raise InvalidProgramError(f"database '{found.catalog}.{found.database}' does not exist")
        self.catalogs.procedures[found] = procedure_of(found.name, function, self)

    def drop_procedure(self, path: str) -> bool:
        """Forget a procedure that was registered; False when there was none."""
        found = self.path_of(path)
        return self.catalogs.procedures.pop(found._replace(name=found.name.lower()), None) is not None

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog the current one."""
        self.execute_sql(f"USE CATALOG {quoted(catalog_name)}")

    def use_database(self, database_name: str) -> None:
        """Make a database of the current catalog the current one."""
        self.execute_sql(f"USE {quoted(database_name)}")

    def get_current_catalog(self) -> str:
        """The name of the current catalog."""
        return self.catalogs.catalog

    def get_current_database(self) -> str:
        """The name of the current database."""
        return self.catalogs.database or ""

    def list_catalogs(self) -> list[str]:
        """The names of all catalogs."""
        return self._list("CATALOGS")

    def list_databases(self) -> list[str]:
        """The names of the databases of the current catalog."""
        return self._list("DATABASES")

    def list_tables(self) -> list[str]:
        """The names of the tables and views of the current database."""
        return self._list("TABLES")

    def list_materialized_tables(self) -> list[str]:
        """The names of the materialized tables of the current database."""
        return self._list("MATERIALIZED TABLES")

    def keep_refreshing(self) -> None:
        """Wait while this program refreshes materialized tables.

        Their jobs and schedules end with the program. This returns when all of them are suspended or dropped.

        Raises:
            JobExecutionError: when a streaming job has failed.
        """
        self.materialized.wait()

    def list_views(self) -> list[str]:
        """The names of the views of the current database."""
        return self._list("VIEWS")

    def list_temporary_tables(self) -> list[str]:
        """The names of the temporary tables and views of the current database."""
        here = self.catalogs.qualify(("",))[:2]
        return sorted(path.name for path in self.catalogs.temporary if path[:2] == here)

    def list_temporary_views(self) -> list[str]:
        """The names of the temporary views of the current database."""
        views = self.catalogs.temporary
        known = (self.catalogs.qualify((name,)) for name in self.list_temporary_tables())
        return [path.name for path in known if isinstance(views[path], CatalogView)]

    def path_of(self, text: str) -> ObjectPath:
        """The full path of an object that a program names as in SQL."""
        return self.catalogs.qualify([name.text for name in parse_expression(text).names])  # type: ignore[attr-defined]

    def _put_view(self, view_path: str, table: Table, *, is_temporary: bool) -> None:
        path = self.path_of(view_path)
        columns = tuple(Column(field.name, field.type, time=field.time) for field in table.relation.schema)
        known = CatalogTable(columns, inline=table.relation)
        there = path in self.catalogs.temporary if is_temporary else self.catalogs.permanent_table(path)
        if there:
            raise InvalidProgramError(f"there is a table or view {path} already: drop it first")
        if is_temporary:
            self.catalogs.temporary[path] = known
        else:
            self.catalogs.catalogs[path.catalog].put_table(path.database, path.name, known)

    # --- for this package --------------------------------------------------------------------------------------------

    def with_settings(self, settings: Mapping[str, str | None]) -> TableEnvironment:
        """An environment of the same catalogs with some settings changed, or removed where the value is None."""
        changed = copy(self)
        changed._configuration = Configuration(self._configuration)
        changed._config = TableConfig(changed._configuration)
        for key, value in settings.items():
            for each in (key, *(OPTIONS[key].deprecated_keys if key in OPTIONS else ())):
                changed._configuration.remove_config(each)
            if value is not None:
                changed._configuration.set_string(key, value)
        return changed

    def scheduled_refresh(self, path: ObjectPath) -> ScheduledRefresh | None:
        """The schedule of full refreshes of a materialized table; None where it has none here."""
        return self.materialized.entry(path)

    def last_refresh(self, path: ObjectPath) -> tuple[datetime | None, str | None]:
        """The time of the last refresh of a materialized table as a whole, and why it has failed."""
        return self.materialized.last_refresh(path)

    def new_name(self) -> str:
        """A generated name that no table has."""
        return f"*anonymous_{next(self._names)}*"

    @contextmanager
    def unnamed_table(self, definition: TableDescriptor | CatalogTable) -> Iterator[ObjectPath]:
        """A temporary table with a generated name, which statements inside can use."""
        path = self.catalogs.qualify((self.new_name(),))
        if isinstance(definition, TableDescriptor):
            self.create_temporary_table(quoted_path(path), definition)
        else:
            self.catalogs.temporary[path] = definition
        try:
            yield path
        finally:
            del self.catalogs.temporary[path]

    def insert_of(self, table: Table, target: str | TableDescriptor, *, overwrite: bool = False) -> list[Relation]:
        """The relation of an ``INSERT`` of the rows of a table."""
        if isinstance(target, TableDescriptor):
            with self.unnamed_table(target) as path:
                return self.insert_of(table, quoted_path(path), overwrite=overwrite)
        name = quoted(self.new_name())
        self.create_temporary_view(name, table)
        verb = "OVERWRITE" if overwrite else "INTO"
        statement = f"INSERT {verb} {target} SELECT * FROM {name}"
        try:
            return bound_statements(self, parse_statement(statement), SqlSource(statement))
        finally:
            self.drop_temporary_view(name)

    def new_graph(self) -> StreamGraph:
        """The graph of a new job."""
        return StreamGraph()

    def bind_context(self, source: SqlSource) -> BindContext:
        """The context in which a statement is bound."""
        options = self.session_settings()
        return BindContext(source, self.catalogs, is_streaming=not self.is_batch, options=options)

    def planner(self) -> Planner:
        """The planner with the current settings."""
        return Planner(self.is_batch, Configuration.from_dict(self.session_settings()))

    def catalog_table(self, name: str) -> CatalogTable:
        """The table of a name in the current database."""
        found = self.catalogs.table(self.catalogs.qualify((name,)))
        assert isinstance(found, CatalogTable), name
        return found

    def run_query(self, relation: Relation) -> TableResult:
        """Start the job of a query.

        Raises:
            PlanningError: when it cannot be planned.
        """
        planner = self.planner()
        plan = planner.plan([relation], is_collected=True)
        graph = self.new_graph()
        builder = GraphBuilder(graph, self.is_batch, planner.settings)
        edges = builder.translate(plan[0])
        handover = Handover()
        kind = record_type(plan[0].schema)
        spec = SinkSpec(ResultSink(handover, kind.field_names))
        (sink,) = builder.add(spec, "Collect", with_constraints(builder, edges, relation.schema))
        rows: CloseableIterator[ResultChanges] = CloseableIterator(handover)
        shown = graph.subgraph([sink.source])
        client = submit(shown, self.job_configuration(), self._job_name(["collect"]), is_shown=True)
        rows.begin(client, is_alone=True)
        return TableResult(
            result_schema(relation),
            kind,
            rows,
            client=client,
            is_changelog=not self.is_batch,
            time_zone=self._config.get_local_timezone(),
        )

    def run_inserts(self, relations: Sequence[Relation]) -> TableResult:
        """Start one job of ``INSERT`` statements.

        Raises:
            PlanningError: when they cannot be planned.
        """
        planner = self.planner()
        graph = self.new_graph()
        ends = planner.translated(planner.plan(relations), graph)
        return self._started(graph.subgraph([edge.source for edges in ends for edge in edges]))

    def run_compiled(self, statements: CompiledStatements) -> TableResult:
        """Start the job of compiled statements."""
        graph = self.new_graph()
        ends = statements.translated(graph, Configuration.from_dict(self.session_settings()))
        return self._started(graph.subgraph([edge.source for edges in ends for edge in edges]))

    def run_creation(self, created: CreatedTable) -> TableResult:
        """Start the job of ``CREATE TABLE ... AS`` or ``REPLACE TABLE ... AS``.

        The catalog has the table before the job starts, as in Flink. Where it is to be atomic, and the connector shows
        no rows before the job has finished, it has the table after that.

        Raises:
            PlanningError: when the query cannot be planned; the catalog is unchanged.
        """
        planner = self.planner()
        graph = self.new_graph()
        is_atomic = planner.settings.get(ATOMICITY)
        insert = replace(created.sink, staging=created.staging if is_atomic else None)
        (plan,) = planner.plan([insert])
        (edges,) = planner.translated([plan], graph)
        graph = graph.subgraph([edge.source for edge in edges])
        if isinstance(plan, Sink) and plan.is_staged:
            return self._started(graph, [created.put_when_finished(self.catalogs)])
        if is_atomic:
            warn_caller(
                f"{ATOMICITY.key} has no effect on table {created.path}: only tables of files in batch mode hold rows "
                "back until a job has finished. The table is there from the start of the job, and stays if that fails"
            )
        with self.catalogs.kept_on_failure(created.path):
            created.put(self.catalogs)
            return self._started(graph)

    def _started(self, graph: StreamGraph, listeners: Sequence[JobListener] = ()) -> TableResult:
        sinks = [node.name.removeprefix("Sink: ") for node in graph if isinstance(node.spec, SinkSpec)]
        client = submit(graph, self.job_configuration(), self._job_name(["insert-into", *sinks]), listeners)
        columns = [(name, BIGINT.not_null()) for name in sinks]
        return static_result(columns, [[-1] * len(sinks)], client=client)

    def _job_name(self, words: Sequence[str]) -> str | None:
        """Flink's name for the job of a statement; None if ``pipeline.name`` is set."""
        return None if PIPELINE_NAME.key in self.session_settings() else "_".join(words)

    def session_settings(self) -> dict[str, Any]:
        """The settings of the session."""
        return self._configuration.to_dict()

    def job_configuration(self) -> Configuration:
        """The settings of jobs: those of the session without table options."""
        settings = self.session_settings()
        found = Configuration.from_dict({key: value for key, value in settings.items() if not is_of_tables(key)})
        found.set_string(RUNTIME_MODE.key, "BATCH" if self.is_batch else "STREAMING")
        return found
