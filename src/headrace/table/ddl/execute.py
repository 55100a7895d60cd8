"""Execution of DDL statements, by class of statement."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.jobmanager.events import JobEnd, JobEvent
from headrace.jobmanager.status import JobListener, JobSnapshot
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.models import model_of
from headrace.table.bind.statements import bind_insert_into, bind_query
from headrace.table.catalog.manager import CatalogManager
from headrace.table.catalog.objects import CatalogTable, ObjectPath
from headrace.table.connectors.table_sink import Staging
from headrace.table.ddl import alter, materialized, objects, procedures, show, tables
from headrace.table.ddl.result import OK, StatementResult
from headrace.table.logical.relations import Sink
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree import statements as st
from headrace.table.parse.tree.definitions import ObjectKind, Statement
from headrace.table.parse.tree.node import Name, Path

CORE: Final = "core"


def load_module(context: BindContext, node: st.LoadModule) -> None:
    """``LOAD MODULE``: it is used after those that are in use.

    Raises:
        SqlValidationError: when there is no such module, or it is loaded already.
    """
    catalogs, name = context.catalogs, node.module.text
    if name in catalogs.modules:
        raise context.error(node.module, f"module '{name}' is loaded already")
    if name != CORE:
        advice = misspelt(name, (CORE,)) or "Functions of Python are created by CREATE FUNCTION ... LANGUAGE PYTHON."
        raise context.error(node.module, f"there is no module '{name}'", advice)
    for option in node.options:
        raise context.error(option, f"module '{name}' has no option '{option.key}'")
    catalogs.modules[name] = True


def unload_module(context: BindContext, node: st.UnloadModule) -> None:
    """``UNLOAD MODULE``.

    Raises:
        SqlValidationError: when it is not loaded.
    """
    _check_loaded(context, node.module)
    del context.catalogs.modules[node.module.text]


def use_modules(context: BindContext, node: st.UseModules) -> None:
    """``USE MODULES``: the named ones in this order, and no others.

    Raises:
        SqlValidationError: when one is not loaded, or is named twice.
    """
    names = [name.text for name in node.modules]
    for at, name in enumerate(node.modules):
        if name.text in names[:at]:
            raise context.error(name, f"module '{name}' is named twice")
        _check_loaded(context, name)
    modules = context.catalogs.modules
    modules.update(dict.fromkeys(modules, False) | dict.fromkeys(names, True))


def _check_loaded(context: BindContext, name: Name) -> None:
    if name.text not in context.catalogs.modules:
        raise context.error(name, f"module '{name}' is not loaded", misspelt(name.text, context.catalogs.modules))


_DROPS: Final[dict[ObjectKind, Callable[[BindContext, sql.Drop], None]]] = {
    ObjectKind.TABLE: tables.drop_table,
    ObjectKind.VIEW: tables.drop_table,
    ObjectKind.CATALOG: objects.drop_catalog,
    ObjectKind.DATABASE: objects.drop_database,
    ObjectKind.FUNCTION: objects.drop_function,
    ObjectKind.MODEL: objects.drop_model,
}
_ALTERS: Final[dict[ObjectKind, Callable[[BindContext, sql.Alter], None]]] = {
    ObjectKind.TABLE: alter.alter_table,
    ObjectKind.VIEW: alter.alter_view,
    ObjectKind.CATALOG: objects.alter_catalog,
    ObjectKind.DATABASE: objects.alter_database,
    ObjectKind.FUNCTION: objects.alter_function,
    ObjectKind.MODEL: objects.alter_model,
}


def execute_ddl(context: BindContext, node: Statement) -> StatementResult | None:
    """Execute a DDL statement; None for another statement.

    What starts or stops a job is excluded: ``CREATE TABLE ... AS``, see :func:`bind_table_as`, and statements on
    materialized tables.

    Raises:
        SqlValidationError: when an object does not exist, or exists already.
    """
    if _is_of_jobs(node):
        return None
    if isinstance(node, sql.Drop | sql.Alter):
        rules: dict[ObjectKind, Callable[..., None]] = _DROPS if isinstance(node, sql.Drop) else _ALTERS
        if node.kind not in rules:
            if isinstance(node, sql.Drop) and node.if_exists:
                return OK
            raise context.unplanned(node, f"{node.kind.value} is not supported: there are no such objects")
        rules[node.kind](context, node)
        return OK
    answer = _ANSWERS.get(type(node))
    if answer is not None:
        return answer(context, node)
    change = _CHANGES.get(type(node))
    if change is None:
        return None
    change(context, node)
    return OK


def _is_of_jobs(node: Statement) -> bool:
    """Return whether a statement starts or stops a job."""
    if isinstance(node, sql.Drop | sql.Alter):
        return node.kind is ObjectKind.MATERIALIZED_TABLE
    return isinstance(node, sql.CreateTable) and node.query is not None


def validate_ddl(context: BindContext, node: Statement) -> None:
    """Validate a DDL statement, as far as Flink does before it executes the statement.

    Definitions are bound, and the table of ``ALTER TABLE`` has to exist. Whether other objects exist, and whether new
    ones do not, is checked when the statement is executed.

    Raises:
        SqlValidationError: when it is not valid.
    """
    rule = _VALIDATIONS.get(type(node))
    if rule is not None:
        rule(context, node)


def _validate_table(context: BindContext, node: sql.CreateTable) -> None:
    if len(node.table.names) > 3:
        raise context.error(node.table, f"'{node.table}' has more than a catalog, a database and a name")
    tables.check_table(context, node)


def _validate_drop(context: BindContext, node: sql.Drop) -> None:
    if node.kind is ObjectKind.CONNECTION:
        _refuse_connections(context, node)
    if node.kind is ObjectKind.DATABASE:
        objects.check_database_name(context, node.path)


def _refuse_connections(context: BindContext, node: Statement) -> None:
    raise context.unplanned(node, "connections are not supported", "Write the options in WITH of each table.")


def _refuse_merge(context: BindContext, node: st.MergeInto) -> None:
    advice = "Write INSERT INTO a table with a PRIMARY KEY: rows of the same key are replaced."
    raise context.unplanned(node, "MERGE is not supported", advice)


def _validate_show_create(context: BindContext, node: st.ShowCreate) -> None:
    if node.kind is ObjectKind.MODEL:
        model_of(context, node.path)


def _validate_database(context: BindContext, node: sql.CreateDatabase | st.UseDatabase) -> None:
    objects.check_database_name(context, node.database)


def _validate_alter(context: BindContext, node: sql.Alter) -> None:
    if node.kind is ObjectKind.CONNECTION:
        _refuse_connections(context, node)
    elif node.kind is ObjectKind.MATERIALIZED_TABLE:
        materialized.check_altered_materialized(context, node)
    elif node.kind is ObjectKind.FUNCTION:
        objects.check_altered_function(context, node)
    elif node.kind is ObjectKind.CATALOG:
        objects.check_altered_catalog(context, node)
    elif node.kind is ObjectKind.DATABASE:
        objects.existing_database(context, node.path)
    elif node.kind is ObjectKind.MODEL:
        objects.altered_model(context, node)
    elif node.kind in (ObjectKind.TABLE, ObjectKind.VIEW):
        if isinstance(node.action, sql.RenameTo | sql.AddPartitions | sql.DropPartitions):
            alter.check_altered(context, node)
        else:
            _ALTERS[node.kind](replace(context, catalogs=deepcopy(context.catalogs)), node)


_VALIDATIONS: Final[dict[type, Callable[[BindContext, Any], object]]] = {
    sql.CreateTable: _validate_table,
    sql.CreateView: lambda context, node: tables.view_of(context, node.query, node),
    sql.CreateMaterializedTable: materialized.materialized_table,
    sql.CreateConnection: _refuse_connections,
    sql.CreateFunction: lambda context, node: objects.language_of(context, node, node.language),
    sql.CreateModel: objects.check_model,
    st.MergeInto: _refuse_merge,
    st.Show: show.check_show,
    sql.CreateDatabase: _validate_database,
    sql.Alter: _validate_alter,
    sql.Drop: _validate_drop,
    st.AnalyzeTable: tables.check_analyzed,
    st.CallProcedure: procedures.bound_call,
    st.ShowCreate: _validate_show_create,
    st.UseDatabase: _validate_database,
}
_CHANGES: Final[dict[type, Callable[[BindContext, Any], None]]] = {
    sql.CreateTable: tables.create_table,
    sql.CreateView: tables.create_view,
    sql.CreateCatalog: objects.create_catalog,
    sql.CreateDatabase: objects.create_database,
    sql.CreateFunction: objects.create_function,
    sql.CreateModel: objects.create_model,
    st.LoadModule: load_module,
    st.UnloadModule: unload_module,
    st.UseModules: use_modules,
    st.UseCatalog: objects.use_catalog,
    st.UseDatabase: objects.use_database,
}
_ANSWERS: Final[dict[type, Callable[[BindContext, Any], StatementResult]]] = {
    st.Show: show.show,
    st.ShowCreate: show.show_create,
    st.Describe: show.describe,
    st.CallProcedure: procedures.call,
}


@dataclass(frozen=True)
class CreatedTable:
    """A table that ``CREATE TABLE ... AS`` creates or replaces; no catalog has it yet.

    Attributes:
        path: its path.
        table: its definition.
        sink: the INSERT that fills it.
        replaces: whether it takes the place of another table.
    """

    path: ObjectPath
    table: CatalogTable
    sink: Sink
    replaces: bool

    @property
    def staging(self) -> Staging:
        """The treatment of the rows that are there, where the table is created atomically."""
        return Staging.REPLACE if self.replaces else Staging.CREATE

    def put(self, catalogs: CatalogManager) -> None:
        """Put it into its catalog, in place of the table that was there."""
        catalogs.catalogs[self.path.catalog].put_table(self.path.database, self.path.name, self.table)

    def put_when_finished(self, catalogs: CatalogManager) -> JobListener:
        """A listener that puts it into its catalog when the job has finished; a job that fails leaves the catalog."""

        def listen(event: JobEvent, _: JobSnapshot) -> None:
            if isinstance(event, JobEnd) and event.finished and event.error is None:
                self.put(catalogs)

        return listen


def bind_table_as(context: BindContext, node: sql.CreateTable) -> CreatedTable | None:
    """The table of ``CREATE TABLE ... AS`` or ``REPLACE TABLE ... AS``; None when it exists and is to be left alone.

    Raises:
        SqlValidationError: when the query is not valid, or the table exists already.
    """
    assert node.query is not None
    path = tables.path_of(context, node.table)
    there = context.catalogs.table(path) is not None
    if node.or_replace:
        tables.refuse_materialized(context, node.table, context.catalogs.table(path), "DROP")
    if node.must_exist and not there:
        advice = "Write CREATE OR REPLACE TABLE."
        raise context.unplanned(node.table, f"table '{path}' does not exist, and cannot be replaced", advice)
    created = planned_table_as(context, node)
    if not created.replaces and tables.is_taken(
        context, node.table, path, is_temporary=False, if_not_exists=node.if_not_exists
    ):
        return None
    return created


def planned_table_as(context: BindContext, node: sql.CreateTable) -> CreatedTable:
    """The table of ``CREATE TABLE ... AS`` or ``REPLACE TABLE ... AS``, whether there is one of its name or not.

    Raises:
        SqlValidationError: when the query is not valid.
    """
    assert node.query is not None
    path = tables.path_of(context, node.table)
    replaces = node.or_replace and context.catalogs.table(path) is not None
    query = bind_query(context, node.query)
    names = query.schema.names
    table = tables.table_of_query(context, node, query.schema)
    is_in_order = names == tuple(column.name for column in table.columns if column.is_persisted)
    targets = () if is_in_order else tuple(_column(node.table, name) for name in names)
    insert = st.Insert(node.table, node.query, targets, start=node.start, end=node.end)
    return CreatedTable(path, table, bind_insert_into(context, insert, path, table, query), replaces)


def _column(node: Path, name: str) -> Path:
    """The path of a column, at the place of a node."""
    return Path((Name(name, start=node.start, end=node.end),), start=node.start, end=node.end)
