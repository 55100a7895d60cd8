"""The jobs that refresh materialized tables: their statements and names, which are Flink's, and their start.

They are jobs beside those of the program, as copies of the rows of tables are, which have settings of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.client.running import current_defaults
from headrace.common import options
from headrace.common.errors import ConfigurationError
from headrace.plan.planner import mode_of
from headrace.table.bind.statements import bind_insert_into, bind_query
from headrace.table.catalog.materialization import Materialization
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.environment.dispatched_jobs import StatementDispatcher, check_kept
from headrace.table.functions.kernels.calendar import Moments
from headrace.table.functions.kernels.time_patterns import written
from headrace.table.functions.kernels.zones import zone_of
from headrace.table.logical.relations import Sink
from headrace.table.parse import parse_statement
from headrace.table.parse.format import literal, quoted, quoted_path
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree.statements import Insert

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.common.completable_future import CompletableFuture
    from headrace.common.job_execution_result import JobExecutionResult
    from headrace.table.environment.session import TableSession

_OF_ONE_JOB: Final = (options.CHECKPOINT_DIR.key, options.RECOVERY_PATH.key)
_OF_RECOVERY: Final = (options.UID_MAPPING.key, options.CHANGED_WINDOWS.key, options.RECOVERS_POSITIONS.key)


def batch_settings(name: str | None) -> dict[str, str | None]:
    """The changes to the settings of a session for a job in batch mode, which shares no state with other jobs.

    Args:
        name: the name of the job; None for that of its statement.
    """
    return {
        options.PIPELINE_NAME.key: name,
        options.RUNTIME_MODE.key: "BATCH",
        **dict.fromkeys((*_OF_ONE_JOB, *_OF_RECOVERY)),
    }


def refuse_places_of_program(reason: str) -> None:
    """Refuse to start a job beside others where the whole program was given the place of one job's state.

    Args:
        reason: says that the job is one of its own.

    Raises:
        ConfigurationError: naming the options.
    """
    given = [key for key in _OF_ONE_JOB if key in current_defaults().settings]
    if given:
        raise ConfigurationError(
            f"{' and '.join(given)} was given to the whole program, and {reason}: "
            f"SET '{given[0]}' = '...' in the program, or set it on its TableEnvironment"
        )


def materialization_of(table: CatalogTable) -> Materialization:
    """The definition of a materialized table."""
    assert table.materialization is not None
    return table.materialization


def job_name(path: ObjectPath, kind: str) -> str:
    """The name of a job that refreshes a table.

    Args:
        path: the table.
        kind: ``continuous``, ``periodic`` or ``one_time``.
    """
    return f"Materialized_table_{quoted_path(path)}_{kind}_refresh_job"


def insert_statement(path: ObjectPath, table: CatalogTable, dynamic: Sequence[tuple[str, str]] = ()) -> str:
    """The ``INSERT`` of the streaming job.

    Args:
        path: the path of the table.
        table: its definition.
        dynamic: options of the table that hold for the job.
    """
    given = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in dynamic)
    hint = f" /*+ OPTIONS({given}) */" if given else ""
    return f"INSERT INTO {quoted_path(path)}{hint}{_columns(table)}\n{materialization_of(table).query}"


def overwrite_statement(path: ObjectPath, table: CatalogTable, partition: Mapping[str, str]) -> str:
    """The ``INSERT OVERWRITE`` of a full refresh.

    Args:
        path: the path of the table.
        table: its definition.
        partition: the values of partition columns to which the refresh is limited.
    """
    condition = " AND ".join(f"{quoted(name)} = {literal(value)}" for name, value in partition.items())
    where = f"\n  WHERE {condition}" if condition else ""
    query = materialization_of(table).query
    return f"INSERT OVERWRITE {quoted_path(path)}{_columns(table)}\n  SELECT * FROM ({query}){where}"


def _columns(table: CatalogTable) -> str:
    """The columns in the order of the query, where that is not the order of the table."""
    names = materialization_of(table).columns
    is_in_order = names == tuple(column.name for column in table.columns if column.is_persisted)
    return "" if is_in_order else f" ({', '.join(map(quoted, names))})"


def partition_value(moment: datetime, pattern: str, zone: str) -> str:
    """A time as the value of a partition column, by a pattern of Java's ``DateTimeFormatter``."""
    shown = moment.astimezone(zone_of(zone)).replace(tzinfo=UTC)
    micros = np.array([round(shown.timestamp()) * 1_000_000])
    text: str = written(Moments(micros, None), pattern)[0].as_py()
    return text


def check_job(environment: TableSession, path: ObjectPath, table: CatalogTable, statement: str) -> None:
    """Plan a job, without starting it.

    Raises:
        SqlValidationError: when the query is not valid any more.
        PlanningError: when it cannot be planned, or the connector does not take its rows.
        InvalidProgramError: when it is to run in batch mode, and reads what has no end; or it reads what this program
            alone has, and the table outlasts that.
    """
    relation = _bound(environment, path, table, statement)
    _check_outlasting(environment, path, relation)
    planner, graph = environment.planner(), environment.new_graph()
    ends = planner.translated(planner.plan([relation]), graph)
    graph = graph.subgraph([edge.source for edges in ends for edge in edges])
    mode_of(graph, environment.job_configuration().get(options.RUNTIME_MODE))


@dataclass(frozen=True)
class RefreshJob:
    """A job that refreshes a table.

    Attributes:
        job_id: its id.
        client: its handle; None where a dispatcher runs it.
        wait: waits until it has finished; it raises a ``JobExecutionError`` when the job has failed.
        failure: why it has failed; None where it has not, or not yet.
    """

    job_id: str
    client: JobClient | None
    wait: Callable[[], object]
    failure: Callable[[], str | None]


def start_job(
    environment: TableSession, path: ObjectPath, table: CatalogTable, statement: str, dispatcher: str
) -> RefreshJob:
    """Start a job.

    Args:
        environment: with the settings of the job.
        path: the path of the table.
        table: its definition.
        statement: the ``INSERT``.
        dispatcher: the address of the dispatcher that runs it; empty for this process.

    Raises:
        HeadraceError: when it cannot be planned or started.
    """
    relation = _bound(environment, path, table, statement)
    if dispatcher:
        environment.planner().plan([relation])
        found = StatementDispatcher(dispatcher, environment)
        job_id = found.submit(environment, relation, statement)
        return RefreshJob(job_id, None, partial(found.wait, job_id), partial(found.failure, job_id))
    _check_outlasting(environment, path, relation)
    refuse_places_of_program("each materialized table has a job of its own")
    client = environment.run_inserts([relation]).get_job_client()
    assert client is not None
    result = client.get_job_execution_result()
    return RefreshJob(str(client.get_job_id()), client, result.result, partial(_failure, result))


def _check_outlasting(environment: TableSession, path: ObjectPath, relation: Sink) -> None:
    if environment.catalogs.catalogs[path.catalog].outlasts_session:
        check_kept(environment, relation, "a program that goes on with the materialized table")


def _failure(result: CompletableFuture[JobExecutionResult]) -> str | None:
    error = result.exception() if result.done() else None
    return None if error is None else str(error)


def _bound(environment: TableSession, path: ObjectPath, table: CatalogTable, statement: str) -> Sink:
    node = parse_statement(statement)
    assert isinstance(node, Insert)
    context = environment.bind_context(SqlSource(statement))
    bound = bind_insert_into(context, node, path, table, bind_query(context, node.query))
    if context.deferred:
        raise context.deferred[0]
    return bound
