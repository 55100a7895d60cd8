"""``CREATE`` and ``DROP`` of tables and views."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expansion import expanded_text
from headrace.table.bind.queries import QueryBinder
from headrace.table.bind.relations import RelationBinder
from headrace.table.catalog.objects import (
    CatalogTable,
    CatalogView,
    Column,
    ColumnKind,
    Distribution,
    ObjectPath,
    TableLike,
)
from headrace.table.ddl.columns import TableBinder
from headrace.table.functions.casts import is_implicitly_castable
from headrace.table.functions.types import to_external
from headrace.table.logical.schema import Schema
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree.node import Path, QueryExpression, SqlNode
from headrace.table.parse.tree.statements import AnalyzeTable

_MERGED = (
    sql.LikeFeature.CONSTRAINTS,
    sql.LikeFeature.DISTRIBUTION,
    sql.LikeFeature.GENERATED,
    sql.LikeFeature.METADATA,
    sql.LikeFeature.OPTIONS,
    sql.LikeFeature.PARTITIONS,
    sql.LikeFeature.WATERMARKS,
)
_OVERWRITABLE = (
    sql.LikeFeature.GENERATED,
    sql.LikeFeature.METADATA,
    sql.LikeFeature.OPTIONS,
    sql.LikeFeature.WATERMARKS,
)


def path_of(context: BindContext, node: Path) -> ObjectPath:
    """The full path of an object to create or drop, in a database that exists.

    Raises:
        SqlValidationError: when there is no such catalog or database.
    """
    if len(node.names) > 3:
        raise context.error(node, f"'{node}' has more than a catalog, a database and a name")
    path = context.catalogs.qualify(node.texts)
    if path.catalog not in context.catalogs.catalogs:
        raise context.missing_catalog(node, path.catalog)
    if not context.catalogs.has_database(path.catalog, path.database):
        known = context.catalogs.catalogs[path.catalog].databases()
        reason = f"database '{path.catalog}.{path.database}' does not exist"
        raise context.error(node, reason, misspelt(path.database, known))
    return path


def create_table(context: BindContext, node: sql.CreateTable) -> None:
    """``CREATE TABLE`` without a query."""
    path = path_of(context, node.table)
    table = like(context, node) if node.like is not None else TableBinder(context).create(node)
    put(context, node.table, path, table, is_temporary=node.is_temporary, if_not_exists=node.if_not_exists)


def check_table(context: BindContext, node: sql.CreateTable) -> None:
    """Validate the definition of ``CREATE TABLE``, without its path."""
    if node.query is not None:
        table_of_query(context, node, QueryBinder(context).query(node.query).schema)
    elif node.like is not None:
        like(context, node)
    else:
        TableBinder(context).create(node)


def put(
    context: BindContext, node: SqlNode, path: ObjectPath, table: TableLike, *, is_temporary: bool, if_not_exists: bool
) -> None:
    """Add a new table or view, unless it exists already."""
    if is_taken(context, node, path, is_temporary=is_temporary, if_not_exists=if_not_exists):
        return
    if is_temporary:
        context.catalogs.temporary[path] = table
    else:
        context.catalogs.catalogs[path.catalog].put_table(path.database, path.name, table)


def is_taken(context: BindContext, node: SqlNode, path: ObjectPath, *, is_temporary: bool, if_not_exists: bool) -> bool:
    """Return whether a path has a table or view already.

    Raises:
        SqlValidationError: when it has, and IF NOT EXISTS is not written.
    """
    catalogs = context.catalogs
    there = path in catalogs.temporary if is_temporary else catalogs.permanent_table(path) is not None
    if there and not if_not_exists:
        word = "temporary table or view" if is_temporary else "table or view"
        raise context.error(node, f"{word} '{path}' already exists", "Write IF NOT EXISTS, or drop it first.")
    return there


def table_of_query(context: BindContext, node: sql.CreateTable, schema: Schema) -> CatalogTable:
    """The table of ``CREATE TABLE ... AS``: the columns of its query, and those that are defined."""
    if node.is_temporary:
        reason = "what a query fills is no temporary table"
        raise context.error(node.table, reason, "Leave TEMPORARY out, or CREATE it first, and then INSERT INTO it.")
    given = [Column(field.name, to_external(field.type)) for field in schema]
    named = [each for each in node.elements if isinstance(each, sql.NamedColumn)]
    if named:
        given = _in_order(context, named, given)
    defined = tuple(each for each in node.elements if not isinstance(each, sql.NamedColumn))
    named_anew = {str(each.name) for each in defined if isinstance(each, sql.ColumnDefinition)}
    binder = TableBinder(context, CatalogTable(tuple(each for each in given if each.name not in named_anew)))
    binder.columns(tuple(each for each in defined if isinstance(each, sql.ColumnDefinition)))
    own = {column.name: column for column in binder.table.columns if column.name in named_anew}
    _check_types(context, node, given, own)
    first = tuple(column for column in own.values() if column.name not in {each.name for each in given})
    binder.table = replace(binder.table, columns=(*first, *(own.get(each.name, each) for each in given)))
    rest = tuple(each for each in defined if not isinstance(each, sql.ColumnDefinition))
    check_nullable_keys(context, rest, binder.table)
    return binder.create(replace(node, elements=rest))


def _check_types(context: BindContext, node: sql.CreateTable, given: list[Column], own: dict[str, Column]) -> None:
    """Refuse a column type to which the query's values cannot be cast."""
    for column in given:
        wanted = own.get(column.name)
        if wanted is not None and not is_implicitly_castable(column.type, wanted.type):
            raise context.error(node, f"column '{column.name}' is {wanted.type}, and {column.type} in the query")


def check_nullable_keys(context: BindContext, elements: tuple[sql.TableElement, ...], table: CatalogTable) -> None:
    """Refuse a primary key of columns that may be NULL.

    Raises:
        SqlValidationError: when one may.
    """
    for element in elements:
        if isinstance(element, sql.Constraint):
            for name in element.columns:
                column = table.column(name.text)
                if column is not None and column.type.nullable:
                    raise context.error(name, f"column '{name}' of the PRIMARY KEY is nullable")


def _in_order(context: BindContext, named: list[sql.NamedColumn], given: list[Column]) -> list[Column]:
    by_name = {column.name: column for column in given}
    wanted = [str(each.name) for each in named]
    for each, name in zip(named, wanted, strict=True):
        if name not in by_name:
            raise context.error(each, f"the query has no column '{name}'", misspelt(name, by_name))
    if len(wanted) != len(given):
        raise context.error(named[0], f"{len(wanted)} columns are named, and the query gives {len(given)}")
    return [by_name[name] for name in wanted]


# --- LIKE ------------------------------------------------------------------------------------------------------------


def like(context: BindContext, node: sql.CreateTable) -> CatalogTable:
    """The table of ``CREATE TABLE ... LIKE``, with the additional definitions."""
    assert node.like is not None
    _, base = RelationBinder(QueryBinder(context), None).find(node.like.table)
    if isinstance(base, CatalogView):
        raise context.error(node.like.table, f"'{node.like.table}' is a view, and LIKE takes a table")
    if base.materialization is not None:
        raise context.error(node.like.table, f"'{node.like.table}' is a materialized table, and LIKE takes a table")
    strategies = _strategies(context, node.like)
    taken = _taken(base, strategies)
    _check_conflicts(context, node, taken, strategies)
    overwrites = strategies[sql.LikeFeature.WATERMARKS] is sql.MergingStrategy.OVERWRITING
    if overwrites and any(isinstance(element, sql.Watermark) for element in node.elements):
        taken = without_watermark(taken)
    places = {column.name: place for place, column in enumerate(taken.columns)}
    taken = replace(taken, columns=tuple(_without_overwritten(taken.columns, node, strategies)))
    binder = TableBinder(context, taken)
    check_nullable_keys(context, node.elements, taken)
    binder.create(node)
    return replace(
        binder.table,
        columns=tuple(sorted(binder.table.columns, key=lambda column: places.get(column.name, len(places)))),
        comment=node.comment,
        options=tuple((dict(taken.options) | dict(binder.table.options)).items()),
        partition_keys=binder.table.partition_keys or taken.partition_keys,
        distribution=binder.table.distribution or taken.distribution,
    )


def _without_overwritten(
    columns: Sequence[Column], node: sql.CreateTable, strategies: dict[sql.LikeFeature, sql.MergingStrategy]
) -> Iterator[Column]:
    """The columns that the statement does not define anew."""
    nodes = [each for each in node.elements if isinstance(each, sql.ComputedColumn | sql.MetadataColumn)]
    anew = {(_KINDS[type(each)], str(each.name)) for each in nodes}
    anew = {each for each in anew if strategies[_FEATURES[each[0]]] is sql.MergingStrategy.OVERWRITING}
    return (column for column in columns if (column.kind, column.name) not in anew)


_FEATURES: Final = {ColumnKind.COMPUTED: sql.LikeFeature.GENERATED, ColumnKind.METADATA: sql.LikeFeature.METADATA}
_KINDS: Final = {sql.ComputedColumn: ColumnKind.COMPUTED, sql.MetadataColumn: ColumnKind.METADATA}


def _strategies(context: BindContext, node: sql.TableLike) -> dict[sql.LikeFeature, sql.MergingStrategy]:
    """The merging strategy of each feature: by default all are included, and options may be overwritten."""
    chosen = {option.feature: option.strategy for option in node.options}
    if len(chosen) < len(node.options):
        raise context.error(node, "an option of LIKE is given twice")
    for option in node.options:
        if option.strategy is sql.MergingStrategy.OVERWRITING and option.feature not in _OVERWRITABLE:
            raise context.error(option, f"OVERWRITING is not possible for {option.feature.value}", "Use EXCLUDING.")
    everything = chosen.get(sql.LikeFeature.ALL)
    found = {}
    for feature in _MERGED:
        is_options = feature is sql.LikeFeature.OPTIONS
        default = sql.MergingStrategy.OVERWRITING if is_options else sql.MergingStrategy.INCLUDING
        found[feature] = chosen.get(feature, everything or default)
    return found


def check_analyzed(context: BindContext, node: AnalyzeTable) -> None:
    """Check that the table of ``ANALYZE TABLE`` exists, and the columns that it names.

    Raises:
        SqlValidationError: when it is not so.
    """
    path = context.catalogs.qualify(node.table.texts)
    table = context.catalogs.table(path)
    if not isinstance(table, CatalogTable):
        raise context.missing_table(node.table, path, "table")
    for name in node.columns:
        if table.column(name.text) is None:
            known = [column.name for column in table.columns]
            raise context.error(name, f"column '{name}' does not exist in table '{path}'", misspelt(name.text, known))


def _taken(base: CatalogTable, strategies: dict[sql.LikeFeature, sql.MergingStrategy]) -> CatalogTable:
    """The part of a table that LIKE copies."""
    out = {feature for feature, strategy in strategies.items() if strategy is sql.MergingStrategy.EXCLUDING}
    columns = tuple(column for column in base.columns if _FEATURES.get(column.kind) not in out)
    if sql.LikeFeature.WATERMARKS in out:
        names = {column.name for column in columns}
        columns = tuple(each for each in without_watermark(base).columns if each.name in names)
    distribution: Distribution | None = None if sql.LikeFeature.DISTRIBUTION in out else base.distribution
    return replace(
        base,
        columns=columns,
        comment=None,
        options=() if sql.LikeFeature.OPTIONS in out else base.options,
        primary_key=None if sql.LikeFeature.CONSTRAINTS in out else base.primary_key,
        watermark=None if sql.LikeFeature.WATERMARKS in out else base.watermark,
        partition_keys=() if sql.LikeFeature.PARTITIONS in out else base.partition_keys,
        distribution=distribution,
    )


def without_watermark(table: CatalogTable) -> CatalogTable:
    """The table without its watermark; the column is then no time attribute."""
    rowtime = table.watermark.column if table.watermark is not None else None
    columns = tuple(replace(each, time=None) if each.name == rowtime else each for each in table.columns)
    return replace(table, columns=columns, watermark=None)


def _check_conflicts(
    context: BindContext,
    node: sql.CreateTable,
    taken: CatalogTable,
    strategies: dict[sql.LikeFeature, sql.MergingStrategy],
) -> None:
    """Refuse duplicate definitions that may not be overwritten."""
    for element in node.elements:
        if isinstance(element, sql.Constraint) and taken.primary_key is not None:
            raise context.error(element, "the base table already has a primary key", "Write EXCLUDING CONSTRAINTS.")
    if node.distribution is not None and taken.distribution is not None:
        reason = "the base table already has a distribution"
        raise context.error(node.distribution, reason, "Write EXCLUDING DISTRIBUTION.")
    if node.partitioned_by and taken.partition_keys:
        name = node.partitioned_by[0]
        raise context.error(name, "the base table already has partitions", "Write EXCLUDING PARTITIONS.")
    if strategies[sql.LikeFeature.OPTIONS] is sql.MergingStrategy.INCLUDING:
        known = dict(taken.options)
        for option in node.options:
            if option.key in known:
                raise context.error(
                    option, f"the base table already has the option '{option.key}'", "Write OVERWRITING OPTIONS."
                )


# --- views -----------------------------------------------------------------------------------------------------------


def create_view(context: BindContext, node: sql.CreateView) -> None:
    """``CREATE VIEW``."""
    path = path_of(context, node.view)
    view = view_of(context, node.query, node)
    put(context, node.view, path, view, is_temporary=node.is_temporary, if_not_exists=node.if_not_exists)


def view_of(context: BindContext, query: QueryExpression, node: sql.CreateView | None = None) -> CatalogView:
    """The view of a query, with the column names of CREATE VIEW."""
    queries = QueryBinder(context)
    relation = queries.query(query)
    schema: Schema = relation.schema.renamed(queries.named_columns(query, relation))
    names = node.columns if node is not None else ()
    if names and len(names) != len(schema):
        raise context.error(names[0], f"the view names {len(names)} columns, and its query gives {len(schema)}")
    texts = [name.text for name in names] or list(schema.names)
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise context.error(
            node or query, f"column '{twice}' comes twice in the view", "Name the columns: VIEW v (a, b) AS ..."
        )
    columns = tuple(
        Column(text, to_external(field.type), time=field.time) for text, field in zip(texts, schema, strict=True)
    )
    comment = node.comment if node is not None else None
    return CatalogView(columns, expanded_text(query, context.expansions), context.text(query), comment)


# --- DROP ------------------------------------------------------------------------------------------------------------


def drop_table(context: BindContext, node: sql.Drop) -> None:
    """``DROP TABLE`` and ``DROP VIEW``; a temporary object is dropped as such only."""
    path = context.catalogs.qualify(node.path.texts)
    wanted = CatalogView if node.kind is sql.ObjectKind.VIEW else CatalogTable
    word = node.kind.value.lower()
    catalogs = context.catalogs
    temporary = catalogs.temporary.get(path)
    if node.is_temporary:
        if isinstance(temporary, wanted):
            del catalogs.temporary[path]
        elif not node.if_exists:
            raise context.error(node.path, f"temporary {word} '{path}' does not exist")
        return
    if isinstance(temporary, wanted):
        advice = f"Write DROP TEMPORARY {node.kind.value} first."
        raise context.error(node.path, f"temporary {word} '{path}' exists, and hides the permanent one", advice)
    found = catalogs.permanent_table(path)
    if isinstance(found, CatalogTable) and found.materialization is not None:
        if not node.if_exists:
            refuse_materialized(context, node.path, found, "DROP")
        return
    if isinstance(found, wanted):
        catalogs.catalogs[path.catalog].drop_table(path.database, path.name)
    elif not node.if_exists:
        if catalogs.table(path) is not None:
            other = "TABLE" if wanted is CatalogView else "VIEW"
            kind = f"TEMPORARY {other}" if temporary is not None else other
            raise context.error(node.path, f"'{path}' is not a {word}", f"Write DROP {kind}.")
        raise context.missing_table(node.path, path, word)


def refuse_materialized(context: BindContext, node: Path, table: TableLike | None, statement: str) -> None:
    """Refuse a materialized table where a statement is about other tables.

    Raises:
        SqlValidationError: when it is one.
    """
    if isinstance(table, CatalogTable) and table.materialization is not None:
        reason = f"'{node}' is a materialized table"
        raise context.error(node, reason, f"Write {statement} MATERIALIZED TABLE.")
