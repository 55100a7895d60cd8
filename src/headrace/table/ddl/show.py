"""``SHOW`` and ``DESCRIBE``."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.models import model_of
from headrace.table.catalog.objects import (
    CatalogDescription,
    CatalogTable,
    CatalogView,
    Column,
    Database,
    ObjectPath,
    TableLike,
)
from headrace.table.ddl import text
from headrace.table.ddl.alter import shown, spec_of
from headrace.table.ddl.objects import existing_database
from headrace.table.ddl.procedures import procedure_names
from headrace.table.ddl.result import StatementResult, columns, one_column
from headrace.table.functions.table import FUNCTIONS
from headrace.table.parse.tree import statements as sql
from headrace.table.parse.tree.definitions import ObjectKind
from headrace.table.parse.tree.node import Path

_COLUMNS: Final = ("name", "type", "null", "key", "extras", "watermark")


def show(context: BindContext, node: sql.Show) -> StatementResult:
    """``SHOW`` of a list."""
    rule = _LISTS.get(node.kind)
    if rule is None:
        raise context.error(node, f"SHOW {node.kind.value} is not supported yet")
    return rule(context, node)


def check_show(context: BindContext, node: sql.Show) -> None:
    """Refuse a path that is no database, and lists that there are none of.

    Raises:
        SqlValidationError: when it is so.
    """
    if node.kind not in _LISTS and node.kind is not sql.ShowKind.JOBS:
        raise context.error(node, f"SHOW {node.kind.value} is not supported")
    is_database = node.kind not in (sql.ShowKind.COLUMNS, sql.ShowKind.PARTITIONS)
    if is_database and node.path is not None and len(node.path.names) > 2:
        raise context.error(node.path, f"'{node.path}' has more than a catalog and a database")


def _one(name: str, found: Callable[[BindContext, sql.Show], Iterable[str]]) -> Callable[..., StatementResult]:
    return lambda context, node: one_column(name, _matching(node, found(context, node)))


def _matching(node: sql.Show, names: Iterable[str]) -> list[str]:
    """The names that match LIKE."""
    if node.pattern is None:
        return list(names)
    tokens = re.findall(r"\\.|.", node.pattern, re.DOTALL)
    parts = ({"_": ".", "%": ".*"}.get(each, re.escape(each[-1])) for each in tokens)
    pattern = re.compile("".join(parts), re.IGNORECASE if node.ignores_case else 0)
    return [name for name in names if (pattern.fullmatch(name) is None) == node.negated]


def _databases(context: BindContext, node: sql.Show) -> list[str]:
    name = context.catalogs.catalog if node.path is None else str(node.path)
    if name not in context.catalogs.catalogs:
        raise context.missing_catalog(node, name)
    return sorted(context.catalogs.catalogs[name].databases())


def _database(context: BindContext, node: sql.Show) -> tuple[str, str]:
    if node.path is not None:
        return existing_database(context, node.path)
    if context.catalogs.database is None:
        raise context.error(node, "there is no current database", "USE one first.")
    return context.catalogs.catalog, context.catalogs.database


def _tables(context: BindContext, node: sql.Show) -> list[str]:
    return context.catalogs.tables(*_database(context, node))


def _views(context: BindContext, node: sql.Show) -> list[str]:
    catalog, database = _database(context, node)
    names = context.catalogs.tables(catalog, database)
    tables = {name: context.catalogs.table(ObjectPath(catalog, database, name)) for name in names}
    return [name for name, table in tables.items() if isinstance(table, CatalogView)]


def _functions(context: BindContext, node: sql.Show) -> list[str]:
    built_in = {name for name in FUNCTIONS.names() if name.isidentifier() and name not in _OPERATORS}
    return sorted({*built_in, *_user_functions(context, node)})


_OPERATORS: Final = frozenset({"AND", "IN", "ITEM", "LIKE", "NOT", "OR"})
"""Entries of the function table that are not called by name."""


def _user_functions(context: BindContext, node: sql.Show) -> list[str]:
    return sorted(context.catalogs.user_functions(*_database(context, node)))


def _models(context: BindContext, node: sql.Show) -> list[str]:
    where = _database(context, node)
    return sorted(path.name for path in context.catalogs.models if path[:2] == where)


def _materialized_tables(context: BindContext, node: sql.Show) -> list[str]:
    catalog, database = _database(context, node)
    names = context.catalogs.tables(catalog, database)
    tables = {name: context.catalogs.table(ObjectPath(catalog, database, name)) for name in names}
    return [name for name, table in tables.items() if _is_materialized(table)]


def _is_materialized(table: TableLike | None) -> bool:
    return isinstance(table, CatalogTable) and table.materialization is not None


def _partitions(context: BindContext, node: sql.Show) -> list[str]:
    assert node.path is not None
    table = _table(context, node.path)
    if isinstance(table, CatalogView) or not table.partition_keys:
        raise context.unplanned(node.path, f"table '{node.path}' is not partitioned")
    wanted = spec_of(node.partition)
    for value in node.partition:
        if value.column.text not in table.partition_keys:
            advice = misspelt(value.column.text, table.partition_keys)
            raise context.unplanned(value.column, f"'{value.column}' is not a partition column", advice)
    return [shown(each) for each in table.partitions if set(wanted) <= set(each)]


def _show_columns(context: BindContext, node: sql.Show) -> StatementResult:
    assert node.path is not None
    found = _table(context, node.path)
    kept = set(_matching(node, (column.name for column in found.columns)))
    return _described(found, [column for column in found.columns if column.name in kept])


def _table(context: BindContext, node: Path) -> TableLike:
    path = context.catalogs.qualify(node.texts)
    found = context.catalogs.table(path)
    if found is None:
        raise context.missing_table(node, path)
    return found


_LISTS: Final[dict[sql.ShowKind, Callable[[BindContext, sql.Show], StatementResult]]] = {
    sql.ShowKind.CATALOGS: _one("catalog name", lambda context, _: sorted(context.catalogs.catalogs)),
    sql.ShowKind.CURRENT_CATALOG: _one("current catalog name", lambda context, _: [context.catalogs.catalog]),
    sql.ShowKind.CURRENT_DATABASE: _one("current database name", lambda context, _: [context.catalogs.database or ""]),
    sql.ShowKind.DATABASES: _one("database name", _databases),
    sql.ShowKind.TABLES: _one("table name", _tables),
    sql.ShowKind.VIEWS: _one("view name", _views),
    sql.ShowKind.MATERIALIZED_TABLES: _one("materialized table", _materialized_tables),
    sql.ShowKind.FUNCTIONS: _one("function name", _functions),
    sql.ShowKind.USER_FUNCTIONS: _one("function name", _user_functions),
    sql.ShowKind.PROCEDURES: _one("procedure name", procedure_names),
    sql.ShowKind.MODELS: _one("model name", _models),
    sql.ShowKind.PARTITIONS: _one("partition name", _partitions),
    sql.ShowKind.MODULES: _one(
        "module name", lambda context, _: [name for name, is_used in context.catalogs.modules.items() if is_used]
    ),
    sql.ShowKind.JARS: _one("jars", lambda _, __: []),
    sql.ShowKind.COLUMNS: _show_columns,
    sql.ShowKind.FULL_MODULES: lambda context, _: columns(
        ("module name", "used"), list(context.catalogs.modules.items()), ("used",)
    ),
}


# --- SHOW CREATE -----------------------------------------------------------------------------------------------------


def show_create(context: BindContext, node: sql.ShowCreate) -> StatementResult:
    """``SHOW CREATE`` of an object."""
    return one_column("result", [_CREATES[node.kind](context, node)])


def _create_table(context: BindContext, node: sql.ShowCreate) -> str:
    found, path = _table(context, node.path), context.catalogs.qualify(node.path.texts)
    if isinstance(found, CatalogView):
        advice = "Write SHOW CREATE VIEW."
        raise context.unplanned(node.path, f"'{path}' is a view, and no table", advice)
    if _is_materialized(found):
        advice = "Write SHOW CREATE MATERIALIZED TABLE."
        raise context.unplanned(node.path, f"'{path}' is a materialized table", advice)
    return text.create_table(path, found, is_temporary=path in context.catalogs.temporary)


def _create_view(context: BindContext, node: sql.ShowCreate) -> str:
    found, path = _table(context, node.path), context.catalogs.qualify(node.path.texts)
    if isinstance(found, CatalogTable):
        advice = "Write SHOW CREATE TABLE."
        raise context.unplanned(node.path, f"'{path}' is a table, and no view", advice)
    return text.create_view(path, found, is_temporary=path in context.catalogs.temporary)


def _create_materialized_table(context: BindContext, node: sql.ShowCreate) -> str:
    found, path = _table(context, node.path), context.catalogs.qualify(node.path.texts)
    if isinstance(found, CatalogView) or found.materialization is None:
        word = "view" if isinstance(found, CatalogView) else "table"
        advice = f"Write SHOW CREATE {word.upper()}."
        raise context.unplanned(node.path, f"'{path}' is a {word}, and no materialized table", advice)
    return text.create_table(path, found, is_temporary=False)


def _create_catalog(context: BindContext, node: sql.ShowCreate) -> str:
    name = str(node.path)
    if name not in context.catalogs.catalogs:
        raise context.missing_catalog(node.path, name)
    found = context.catalogs.descriptions.get(name, CatalogDescription())
    return text.create_catalog(name, found.comment, found.options)


def _create_model(context: BindContext, node: sql.ShowCreate) -> str:
    path, model = model_of(context, node.path)
    return text.create_model(path, model, is_temporary=path in context.catalogs.temporary_models)


def _create_other(context: BindContext, node: sql.ShowCreate) -> str:
    raise context.error(node, f"SHOW CREATE {node.kind.value} is not supported yet")


_CREATES: Final[dict[ObjectKind, Callable[[BindContext, sql.ShowCreate], str]]] = {
    **dict.fromkeys(ObjectKind, _create_other),
    ObjectKind.TABLE: _create_table,
    ObjectKind.MATERIALIZED_TABLE: _create_materialized_table,
    ObjectKind.VIEW: _create_view,
    ObjectKind.CATALOG: _create_catalog,
    ObjectKind.MODEL: _create_model,
}


# --- DESCRIBE --------------------------------------------------------------------------------------------------------


def describe(context: BindContext, node: sql.Describe) -> StatementResult:
    """``DESCRIBE`` of an object."""
    rule = _DESCRIPTIONS.get(node.kind)
    if rule is None:
        raise context.error(node, f"DESCRIBE {node.kind.value} is not supported yet")
    return rule(context, node)


def _describe_table(context: BindContext, node: sql.Describe) -> StatementResult:
    found = _table(context, node.path)
    return _described(found, list(found.columns))


def _described(found: TableLike, shown: list[Column]) -> StatementResult:
    """A row for each column; comments are shown if there is any."""
    key = found.primary_key if isinstance(found, CatalogTable) else None
    watermark = found.watermark if isinstance(found, CatalogTable) else None
    has_comments = any(column.comment is not None for column in found.columns)
    rows: list[tuple[Any, ...]] = []
    for column in shown:
        keys = f"PRI({', '.join(key.columns)})" if key is not None and column.name in key.columns else None
        rule = watermark.expression if watermark is not None and watermark.column == column.name else None
        kind = column.as_field.type.as_nullable()
        type_text = str(kind) if column.time is None else f"{kind} {column.time.value}"
        row = (column.name, type_text, column.type.nullable, keys, text.extras(column), rule)
        rows.append((*row, column.comment) if has_comments else row)
    names = (*_COLUMNS, "comment") if has_comments else _COLUMNS
    return columns(names, rows, ("null",))


def _describe_catalog(context: BindContext, node: sql.Describe) -> StatementResult:
    name = str(node.path)
    if name not in context.catalogs.catalogs:
        raise context.missing_catalog(node.path, name)
    found = context.catalogs.descriptions.get(name, CatalogDescription())
    options = dict(found.options)
    rows = [("name", name), ("type", options.get("type", "generic_in_memory")), ("comment", found.comment)]
    if node.is_extended:
        rows += [(f"option:{key}", value) for key, value in sorted(options.items()) if key != "type"]
    return columns(("info name", "info value"), rows)


def _describe_database(context: BindContext, node: sql.Describe) -> StatementResult:
    catalog, name = existing_database(context, node.path)
    found = context.catalogs.catalogs[catalog].database(name) or Database()
    rows = [("name", name), ("comment", found.comment)]
    if node.is_extended:
        rows += list(found.properties)
    return columns(("info name", "info value"), rows)


def _describe_model(context: BindContext, node: sql.Describe) -> StatementResult:
    _, model = model_of(context, node.path)
    groups = ((model.inputs, True), (model.outputs, False))
    rows = [
        (column.name, str(column.type.as_nullable()), column.type.nullable, is_input, column.comment)
        for group, is_input in groups
        for column in group
    ]
    has_comments = any(row[-1] for row in rows)
    names = ("name", "type", "null", "is input", "comment")
    return (
        columns(names, rows, ("null", "is input"))
        if has_comments
        else columns(names[:-1], [row[:-1] for row in rows], ("null", "is input"))
    )


def _describe_function(context: BindContext, node: sql.Describe) -> StatementResult:
    found = context.catalogs.function(node.path.texts)
    builtin = FUNCTIONS.get(str(node.path))
    if found is None and builtin is None:
        advice = misspelt(str(node.path), context.function_names())
        raise context.error(node.path, f"function '{node.path}' does not exist", advice)
    rows = [("is system function", str(found is None).lower()), ("is temporary", "false")]
    if found is not None:
        rows += [("class name", found.class_name), ("function language", found.language)]
    return columns(("info name", "info value"), rows)


_DESCRIPTIONS: Final[dict[ObjectKind, Callable[[BindContext, sql.Describe], StatementResult]]] = {
    ObjectKind.TABLE: _describe_table,
    ObjectKind.CATALOG: _describe_catalog,
    ObjectKind.DATABASE: _describe_database,
    ObjectKind.MODEL: _describe_model,
    ObjectKind.FUNCTION: _describe_function,
}
