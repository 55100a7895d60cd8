"""``TableEnvironment``: where statements are executed."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.submission import submit
from headrace.common.configuration import Configuration
from headrace.common.errors import InvalidProgramError
from headrace.datastream.streams.sinks import CloseableIterator, Handover
from headrace.graph.specs import SinkSpec
from headrace.graph.stream_graph import StreamGraph
from headrace.table.bind.context import BindContext
from headrace.table.bind.statements import bind_query, result_schema
from headrace.table.catalog.manager import CatalogManager
from headrace.table.catalog.objects import CatalogTable
from headrace.table.environment.explaining import plan_text
from headrace.table.environment.settings import EnvironmentSettings, TableConfig
from headrace.table.environment.statements import bound_statements, execute_statement, validate_statement
from headrace.table.environment.static import BIGINT, static_result
from headrace.table.environment.table import Table
from headrace.table.environment.table_result import Changes, ResultSink, TableResult
from headrace.table.logical.relations import Relation
from headrace.table.parse import parse_statement
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.statements import QueryStatement
from headrace.table.physical.planner import Planner
from headrace.table.physical.sinks import with_constraints
from headrace.table.physical.translation import GraphBuilder, record_type


class TableEnvironment:
    """Where statements are executed: it has catalogs and settings, and starts a job for each query and ``INSERT``.

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
        self._config = TableConfig(self._configuration)
        self.catalogs = CatalogManager()

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration | None = None) -> TableEnvironment:
        """A new environment.

        Args:
            environment_settings: how statements run; as streams when left out.
        """
        if environment_settings is None:
            return TableEnvironment(EnvironmentSettings())
        if isinstance(environment_settings, Configuration):
            is_streaming = environment_settings.get_string("execution.runtime-mode", "STREAMING").upper() != "BATCH"
            return TableEnvironment(EnvironmentSettings(is_streaming, environment_settings))
        return TableEnvironment(environment_settings)

    @property
    def is_batch(self) -> bool:
        """Return whether statements run in batch mode."""
        return not self._settings.is_streaming

    def get_config(self) -> TableConfig:
        """The settings of the session."""
        return self._config

    # --- statements --------------------------------------------------------------------------------------------------

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement.

        A query or an ``INSERT`` starts a job, which goes on after this returns; :meth:`TableResult.wait` waits for its
        end.

        Args:
            stmt: the statement.

        Raises:
            SqlParseError: when it is no SQL.
            SqlValidationError: when it names what is not there, or its types do not fit.
            PlanningError: when no operators compute it.
        """
        return execute_statement(self, parse_statement(stmt), SqlSource(stmt))

    def validate_sql(self, stmt: str) -> None:
        """See whether a statement could be executed, as far as that is known before it is planned.

        Args:
            stmt: the statement.

        Raises:
            SqlParseError: when it is no SQL.
            SqlValidationError: when it names what is not there, or its types do not fit.
        """
        validate_statement(self, parse_statement(stmt), SqlSource(stmt))

    def sql_query(self, query: str) -> Table:
        """The table that a query is, without running it.

        Args:
            query: the query.

        Raises:
            SqlParseError: when it is no SQL.
            SqlValidationError: when it names what is not there, or its types do not fit.
            InvalidProgramError: when it is a statement of another kind.
        """
        statement = parse_statement(query)
        if not isinstance(statement, QueryStatement):
            raise InvalidProgramError(f"sql_query takes a query, not {type(statement).__name__}: use execute_sql")
        return Table(self, bind_query(self.bind_context(SqlSource(query)), statement.query))

    def explain_sql(self, stmt: str) -> str:
        """The plan of a query or an ``INSERT``.

        Args:
            stmt: the statement.
        """
        relations = bound_statements(self, parse_statement(stmt), SqlSource(stmt))
        return plan_text(self.planner(), relations)

    # --- for this package --------------------------------------------------------------------------------------------

    def bind_context(self, source: SqlSource) -> BindContext:
        """What binding a statement depends on."""
        options = self._configuration.to_dict()
        return BindContext(source, self.catalogs, is_streaming=not self.is_batch, options=options)

    def planner(self) -> Planner:
        """The planner under the settings of now."""
        return Planner(self.is_batch, Configuration(self._configuration))

    def table(self, name: str) -> CatalogTable:
        """The table of a name in the current database."""
        found = self.catalogs.table(self.catalogs.qualify((name,)))
        assert isinstance(found, CatalogTable), name
        return found

    def run_query(self, relation: Relation) -> TableResult:
        """Start the job of a query.

        Raises:
            PlanningError: when no operators compute it.
        """
        planner = self.planner()
        plan = planner.plan([relation], is_collected=True)
        graph, (edges,) = planner.graph(plan)
        handover = Handover()
        builder = GraphBuilder(graph, self.is_batch, planner.settings)
        builder.add(SinkSpec(ResultSink(handover)), "Collect", with_constraints(builder, edges, relation.schema))
        rows: CloseableIterator[Changes] = CloseableIterator(handover)
        client = submit(graph, self._job_configuration(), None)
        rows.begin(client, is_alone=True)
        return TableResult(result_schema(relation), record_type(plan[0].schema), rows, client=client, handover=rows)

    def run_inserts(self, relations: Sequence[Relation]) -> TableResult:
        """Start one job of statements that write into tables.

        Raises:
            PlanningError: when no operators compute them.
        """
        planner = self.planner()
        graph, _ = planner.graph(planner.plan(relations))
        return self._started(graph)

    def _started(self, graph: StreamGraph) -> TableResult:
        client = submit(graph, self._job_configuration(), None)
        sinks = [node.name for node in graph if isinstance(node.spec, SinkSpec)]
        columns = [(name.removeprefix("Sink: "), BIGINT.not_null()) for name in sinks]
        return static_result(columns, [[-1] * len(sinks)], client=client)

    def _job_configuration(self) -> Configuration:
        """The settings of jobs: those of the session that are not about tables alone."""
        settings = self._configuration.to_dict()
        found = Configuration.from_dict({key: value for key, value in settings.items() if not _is_of_tables(key)})
        found.set_string("execution.runtime-mode", "BATCH" if self.is_batch else "STREAMING")
        return found


def _is_of_tables(key: str) -> bool:
    return key.startswith(("table.", "sql-client."))
