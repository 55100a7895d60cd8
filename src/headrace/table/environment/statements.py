"""Execution of each kind of statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headrace.client import running
from headrace.client.job_client import JobClient
from headrace.common.errors import InvalidProgramError, UnsupportedOperationError
from headrace.common.logical_types import AtomicType, LogicalType, TypeRoot
from headrace.table.bind.statements import bind_change, bind_insert, bind_query
from headrace.table.catalog.objects import CatalogTable
from headrace.table.ddl import CreatedTable, bind_table_as, execute_ddl, planned_table_as, validate_ddl
from headrace.table.ddl.columns import options_of
from headrace.table.ddl.materialized import (
    PLANNED_ACTIONS,
    altered_materialized,
    existing_materialized,
    new_materialized_table,
    refreshed_partition,
)
from headrace.table.ddl.result import OK
from headrace.table.environment.compiled_plan import (
    PlanReference,
    compiled_plan,
    loaded_plan,
    local_path,
    plan_to_replace,
)
from headrace.table.environment.explain import PlacesInText, explained
from headrace.table.environment.table_result import STRING, ResultKind, TableResult, done, static_result, text_result
from headrace.table.logical.errors import StartPositionError, refuses_depth
from headrace.table.logical.relations import Relation
from headrace.table.options import check_key
from headrace.table.parse.source import SqlSource
from headrace.table.parse.tree import statements as sql
from headrace.table.parse.tree.definitions import (
    Alter,
    CreateMaterializedTable,
    CreateTable,
    Drop,
    Refresh,
    Resume,
    Statement,
    Suspend,
)
from headrace.table.parse.tree.statements import DescribeJob, StopJob

if TYPE_CHECKING:
    from headrace.table.environment.table_environment import TableEnvironment


_COLUMNS: Final[tuple[tuple[str, LogicalType], ...]] = (
    ("job id", STRING),
    ("job name", STRING),
    ("status", STRING),
    ("start time", AtomicType(TypeRoot.TIMESTAMP_LTZ, 3)),
)


def show_jobs() -> TableResult:
    """The jobs that run."""
    return _described(running.jobs())


def describe_job(statement: DescribeJob) -> TableResult:
    """One of the jobs that run.

    Raises:
        InvalidProgramError: when no job has the id.
    """
    return _described([_job(statement.job)])


def stop_job(statement: StopJob) -> TableResult:
    """End a job after its current epoch, with or without a savepoint.

    Raises:
        InvalidProgramError: when no job has the id.
        SavepointError: when no savepoint can be taken; the job then continues.
    """
    job = _job(statement.job)
    if not statement.with_savepoint:
        job.stop(drain=statement.with_drain).result()
        return done()
    path = job.stop_with_savepoint(advance_to_end_of_event_time=statement.with_drain).result()
    return static_result([("savepoint path", STRING)], [(path,)])


def _described(jobs: Iterable[JobClient]) -> TableResult:
    rows = []
    for job in sorted(jobs, key=lambda job: job.snapshot().history[0].time):
        snapshot = job.snapshot()
        started = datetime.fromtimestamp(snapshot.history[0].time / 1000, UTC)
        rows.append((str(job.get_job_id()), snapshot.name, snapshot.status.name, started))
    return static_result(_COLUMNS, rows)


def _job(job_id: str) -> JobClient:
    found = next((job for job in running.jobs() if str(job.get_job_id()) == job_id), None)
    if found is None:
        raise InvalidProgramError(f"no job with the id '{job_id}' runs in this process: SHOW JOBS lists those that do")
    return found


Execution = Callable[["TableEnvironment", Any, SqlSource], TableResult]


def execute_statement(tables: TableEnvironment, statement: Statement, source: SqlSource) -> TableResult:
    """Execute a statement.

    Raises:
        UnsupportedOperationError: when statements of its kind cannot be executed.
    """
    if isinstance(statement, sql.Show) and statement.kind is sql.ShowKind.JOBS:
        return show_jobs()
    answer = execute_ddl(tables.bind_context(source), statement)
    if answer is not None:
        kind = ResultKind.SUCCESS if answer is OK else ResultKind.SUCCESS_WITH_CONTENT
        return static_result([(field.name, field.type) for field in answer.schema], answer.rows, kind)
    execution = _EXECUTIONS.get(type(statement))
    if execution is None:
        validate_statement(tables, statement, source)
        words = _words(statement)
        raise UnsupportedOperationError(f"{words} is not supported{_INSTEAD.get(words, '')}")
    return execution(tables, statement, source)


_INSTEAD: Final = {
    "ANALYZE TABLE": ": plans take statistics from the footers of Parquet and ORC files; leave it out",
    **dict.fromkeys(("QUIT", "EXIT", "CLEAR", "HELP"), " here: it is a command of `headrace sql`"),
    "ADD JAR": ": functions and connectors are written in Python, and installed by pip",
}
"""Alternatives to statements that are not supported."""


def _words(statement: Statement) -> str:
    """The keywords of a statement, such as ``CREATE MODEL``."""
    if isinstance(statement, sql.Jar):
        return "ADD JAR" if statement.is_add else "REMOVE JAR"
    if isinstance(statement, sql.ClientCommand):
        return statement.word
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(statement).__name__).upper()


def validate_statement(tables: TableEnvironment, statement: Statement, source: SqlSource) -> None:
    """Validate a statement."""
    if isinstance(statement, sql.ExecutePlan):
        return  # it has no names
    if isinstance(statement, sql.Explain | sql.Execute | sql.CompilePlan):
        validate_statement(tables, statement.statement, source)
    elif isinstance(statement, sql.SqlStatementSet):
        for insert in statement.inserts:
            validate_statement(tables, insert, source)
    elif isinstance(statement, sql.QueryStatement):
        tables.planner().check_hints(bind_query(tables.bind_context(source), statement.query))
    elif isinstance(statement, sql.Insert):
        tables.planner().check_hints(bind_insert(tables.bind_context(source), statement))
    elif isinstance(statement, sql.Delete | sql.Update | sql.Truncate):
        bind_change(tables.bind_context(source), statement)
    else:
        validate_ddl(tables.bind_context(source), statement)


def _query(tables: TableEnvironment, statement: sql.QueryStatement, source: SqlSource) -> TableResult:
    (relation,) = bound_statements(tables, statement, source)
    return tables.run_query(relation)


def _insert(tables: TableEnvironment, statement: sql.Insert, source: SqlSource) -> TableResult:
    return tables.run_inserts(bound_statements(tables, statement, source))


def _statement_set(tables: TableEnvironment, statement: sql.SqlStatementSet, source: SqlSource) -> TableResult:
    return tables.run_inserts(bound_statements(tables, statement, source))


def _execute(tables: TableEnvironment, statement: sql.Execute, source: SqlSource) -> TableResult:
    return execute_statement(tables, statement.statement, source)


def _compile_plan(tables: TableEnvironment, statement: sql.CompilePlan, source: SqlSource) -> TableResult:
    before, exists = plan_to_replace(tables, statement.file), local_path(statement.file).exists()
    if exists and statement.if_not_exists:
        return done()
    if exists and statement.and_execute and before is None:
        return _execute_plan(tables, sql.ExecutePlan(statement.file, start=statement.start, end=statement.end), source)
    plan = compiled_plan(tables, bound_statements(tables, statement.statement, source), before)
    plan.write_to_file(statement.file)
    return plan.execute() if statement.and_execute else done()


def _execute_plan(tables: TableEnvironment, statement: sql.ExecutePlan, _: SqlSource) -> TableResult:
    return loaded_plan(tables, PlanReference.from_file(statement.file)).execute()


def _create_table_as(tables: TableEnvironment, statement: CreateTable, source: SqlSource) -> TableResult:
    created = _bound_table(tables, statement, source)
    return done() if created is None else tables.run_creation(created)


def _bound_table(tables: TableEnvironment, statement: CreateTable, source: SqlSource) -> CreatedTable | None:
    context = tables.bind_context(source)
    created = bind_table_as(context, statement)
    if context.deferred:
        raise context.deferred[0]
    return created


@refuses_depth
def bound_statements(tables: TableEnvironment, statement: Statement, source: SqlSource) -> list[Relation]:
    """The relations of a query, an ``INSERT``, or each statement of a set.

    Raises:
        SqlValidationError: when it refers to an unknown object, or its types do not fit.
        SqlPlanError: when it is valid and cannot be planned.
        UnsupportedOperationError: when statements of its kind are not planned.
    """
    if isinstance(statement, sql.Execute):
        return bound_statements(tables, statement.statement, source)
    if isinstance(statement, sql.SqlStatementSet):
        return [relation for each in statement.inserts for relation in bound_statements(tables, each, source)]
    context = tables.bind_context(source)
    if isinstance(statement, sql.QueryStatement):
        relation = bind_query(context, statement.query)
    elif isinstance(statement, sql.Insert):
        relation = bind_insert(context, statement)
    elif isinstance(statement, CreateTable) and statement.query is not None:
        relation = planned_table_as(context, statement).sink
    else:
        raise UnsupportedOperationError(f"{type(statement).__name__} has no plan: give a query or an INSERT")
    if context.deferred:
        raise context.deferred[0]
    return [relation]


def _explain(tables: TableEnvironment, statement: sql.Explain, source: SqlSource) -> TableResult:
    if isinstance(statement.statement, sql.ExecutePlan):
        plan = loaded_plan(tables, PlanReference.from_file(statement.statement.file))
        return text_result(plan.explain(*statement.details))
    relations = bound_statements(tables, statement.statement, source)
    places = PlacesInText(statement.statement, source, tables.catalogs)
    return text_result(explained(tables, relations, statement.details, places))


def _change(tables: TableEnvironment, statement: sql.Delete | sql.Update | sql.Truncate, source: SqlSource) -> NoReturn:
    context = tables.bind_context(source)
    bind_change(context, statement)
    table = tables.catalogs.table(tables.catalogs.qualify(statement.table.texts))
    connector = dict(table.options).get("connector", "") if isinstance(table, CatalogTable) else ""
    what = f"connector '{connector}' of table" if connector else "view"
    advice = "Write a query with the rows that should remain into another table, or changes into an upsert table."
    if connector == "filesystem":
        advice = f"Write the rows that should remain: INSERT OVERWRITE {statement.table} SELECT ... in batch mode."
    raise context.unplanned(statement.table, f"{what} '{statement.table}' does not support {_words(statement)}", advice)


def _create_materialized(
    tables: TableEnvironment, statement: CreateMaterializedTable, source: SqlSource
) -> TableResult:
    context = tables.bind_context(source)
    path, table, before = new_materialized_table(context, statement)
    try:
        if before is None:
            tables.materialized.create(path, table)
        else:
            tables.materialized.alter(path, before, table)
    except StartPositionError as error:
        if statement.start_mode is None:
            raise
        raise context.unplanned(statement.start_mode, str(error)) from None
    return done()


def _alter_materialized(tables: TableEnvironment, statement: Alter, source: SqlSource) -> TableResult:
    context = tables.bind_context(source)
    action = statement.action
    is_planned = isinstance(action, PLANNED_ACTIONS)
    path, table = existing_materialized(context, statement.path, is_planned=is_planned)
    if isinstance(action, Refresh):
        return tables.materialized.refresh(path, table, refreshed_partition(context, action, table))
    if isinstance(action, Suspend):
        tables.materialized.suspend(path, table)
    elif isinstance(action, Resume):
        tables.materialized.resume(path, table, options_of(action.options))
    else:
        tables.materialized.alter(path, table, altered_materialized(context, statement, table))
    return done()


def _drop_materialized(tables: TableEnvironment, statement: Drop, source: SqlSource) -> TableResult:
    context = tables.bind_context(source)
    found = context.catalogs.table(context.catalogs.qualify(statement.path.texts))
    if statement.if_exists and getattr(found, "materialization", None) is None:
        return done()
    tables.materialized.drop(*existing_materialized(context, statement.path))
    return done()


def _set(tables: TableEnvironment, statement: sql.SetOption, _: SqlSource) -> TableResult:
    config = tables.get_config()
    if statement.option is None:
        return static_result([("key", STRING), ("value", STRING)], sorted(config.to_map().items()))
    config.set(statement.option.key, statement.option.value)
    return done()


def _reset(tables: TableEnvironment, statement: sql.ResetOption, _: SqlSource) -> TableResult:
    configuration = tables.get_config().get_configuration()
    if statement.key is not None:
        check_key(statement.key)
    for key in [statement.key] if statement.key is not None else list(configuration.to_dict()):
        configuration.remove_config(key)
    return done()


_EXECUTIONS: Final[dict[type[Statement], Execution]] = {
    sql.QueryStatement: _query,
    sql.Explain: _explain,
    sql.Insert: _insert,
    sql.SqlStatementSet: _statement_set,
    sql.Execute: _execute,
    sql.CompilePlan: _compile_plan,
    sql.ExecutePlan: _execute_plan,
    sql.SetOption: _set,
    sql.ResetOption: _reset,
    sql.Delete: _change,
    sql.Update: _change,
    sql.Truncate: _change,
    sql.DescribeJob: lambda _, statement, __: describe_job(statement),
    sql.StopJob: lambda _, statement, __: stop_job(statement),
    CreateTable: _create_table_as,
    CreateMaterializedTable: _create_materialized,
    Alter: _alter_materialized,
    Drop: _drop_materialized,
}
