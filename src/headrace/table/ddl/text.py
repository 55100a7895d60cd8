"""``SHOW CREATE``: catalog objects as the statements that create them."""

from headrace.table.catalog.materialization import Materialization
from headrace.table.catalog.objects import (
    CatalogModel,
    CatalogTable,
    CatalogView,
    Column,
    ColumnKind,
    ObjectPath,
)
from headrace.table.parse.format import literal, quoted, quoted_path


def create_table(path: ObjectPath, table: CatalogTable, *, is_temporary: bool) -> str:
    """``CREATE TABLE`` or ``CREATE MATERIALIZED TABLE`` of a table."""
    parts = [_column(column) for column in table.columns]
    if table.watermark is not None:
        parts.append(f"WATERMARK FOR {quoted(table.watermark.column)} AS {table.watermark.expression}")
    if table.primary_key is not None:
        key = table.primary_key
        parts.append(f"CONSTRAINT {quoted(key.name)} PRIMARY KEY ({_names(key.columns)}) NOT ENFORCED")
    word = "TEMPORARY TABLE" if is_temporary else "TABLE" if table.materialization is None else "MATERIALIZED TABLE"
    lines = [f"CREATE {word} {quoted_path(path)} (", ",\n".join(f"  {part}" for part in parts), ")"]
    if table.comment:
        lines.append(f"COMMENT {literal(table.comment)}")
    if table.distribution is not None:
        lines.append(_distribution(table))
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({_names(table.partition_keys)})")
    return "\n".join([*lines, *_options(table.options), *_refresh(table.materialization)]) + "\n"


def _refresh(materialization: Materialization | None) -> list[str]:
    if materialization is None:
        return []
    refresh = f"FRESHNESS = {materialization.freshness}"
    return [
        f"START_MODE = {materialization.start}",
        refresh,
        f"REFRESH_MODE = {materialization.mode.value}",
        f"AS {materialization.query}",
    ]


def create_view(path: ObjectPath, view: CatalogView, *, is_temporary: bool) -> str:
    """``CREATE VIEW`` of a view."""
    word = "TEMPORARY VIEW" if is_temporary else "VIEW"
    names = ",\n".join(f"  {quoted(column.name)}" for column in view.columns)
    lines = [f"CREATE {word} {quoted_path(path)} (", names, ")"]
    if view.comment:
        lines.append(f"COMMENT {literal(view.comment)}")
    return "\n".join([*lines, f"AS {view.query}"]) + "\n"


def create_model(path: ObjectPath, model: CatalogModel, *, is_temporary: bool) -> str:
    """``CREATE MODEL`` of a model."""
    word = "TEMPORARY MODEL" if is_temporary else "MODEL"
    lines = [f"CREATE {word} {quoted_path(path)}"]
    for word, group in (("INPUT", model.inputs), ("OUTPUT", model.outputs)):
        if group:
            lines.append(f"{word} ({', '.join(map(_column, group))})")
    if model.comment:
        lines.append(f"COMMENT {literal(model.comment)}")
    return "\n".join([*lines, *_options(model.options)]) + "\n"


def create_catalog(name: str, comment: str | None, options: tuple[tuple[str, str], ...]) -> str:
    """``CREATE CATALOG`` of a catalog."""
    lines = [f"CREATE CATALOG {quoted(name)}"]
    if comment:
        lines.append(f"COMMENT {literal(comment)}")
    return "\n".join([*lines, *_options(options)]) + "\n"


def extras(column: Column) -> str | None:
    """The clause for the values of a computed or metadata column."""
    if column.kind is ColumnKind.COMPUTED:
        return f"AS {column.expression}"
    if column.kind is ColumnKind.METADATA:
        key = f" FROM {literal(column.key)}" if column.key is not None else ""
        return f"METADATA{key}{' VIRTUAL' if column.is_virtual else ''}"
    return None


def _column(column: Column) -> str:
    more = extras(column)
    kind = [] if column.kind is ColumnKind.COMPUTED else [column.type.as_sql()]
    comment = [f"COMMENT {literal(column.comment)}"] if column.comment else []
    return " ".join([quoted(column.name), *kind, *([more] if more else []), *comment])


def _distribution(table: CatalogTable) -> str:
    assert table.distribution is not None
    found = table.distribution
    by = f" BY {found.kind or ''}({_names(found.columns)})" if found.columns else ""
    into = f" INTO {found.buckets} BUCKETS" if found.buckets is not None else ""
    return f"DISTRIBUTED{by}{into}"


def _options(options: tuple[tuple[str, str], ...]) -> list[str]:
    if not options:
        return []
    shown = ",\n".join(f"  {literal(key)} = {literal(value)}" for key, value in sorted(options))
    return ["WITH (", shown, ")"]


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(quoted, names))
