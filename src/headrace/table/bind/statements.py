"""Binding of queries, and of INSERT with the projection to the sink's columns."""

from dataclasses import replace

from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expectations import expectations_of, options_of_connector
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.hints import bound_hints, refuse_options, with_options
from headrace.table.bind.queries import QueryBinder
from headrace.table.bind.relations import RelationBinder
from headrace.table.bind.scopes import NamedRelation, Scope
from headrace.table.catalog.objects import CatalogTable, CatalogView, Column, ColumnKind, ObjectPath
from headrace.table.functions.casts import is_implicitly_castable
from headrace.table.functions.types import to_external, with_nullability
from headrace.table.logical.relations import MetadataRead, Project, Relation, Sink
from headrace.table.logical.scalars import Cast, InputRef, Literal, Scalar
from headrace.table.logical.schema import Schema, unique_names
from headrace.table.parse.tree.node import QueryExpression
from headrace.table.parse.tree.statements import Delete, Insert, Truncate, Update


def bind_query(context: BindContext, node: QueryExpression) -> Relation:
    """The relation of a query.

    Raises:
        SqlValidationError: when a name is unknown, or types do not fit.
    """
    return QueryBinder(context).query(node)


def result_schema(relation: Relation) -> Schema:
    """The columns of a query's result, in which intervals have their default fields."""
    return Schema(tuple(replace(column, type=to_external(column.type)) for column in relation.schema))


def bind_insert(context: BindContext, node: Insert) -> Sink:
    """The relation of INSERT: the query, in the columns of the table.

    Raises:
        SqlValidationError: when the query is wrong, or the table or a column is not there.
    """
    return _InsertBinder(context, node).bind()


def bind_insert_into(
    context: BindContext, node: Insert, path: ObjectPath, table: CatalogTable, query: Relation
) -> Sink:
    """The relation of an INSERT of a query that is bound already, into a table that no catalog needs to have.

    Raises:
        SqlValidationError: when a column is not there.
    """
    return _InsertBinder(context, node).into(path, table, query)


def bind_change(context: BindContext, node: Delete | Update | Truncate) -> None:
    """Check that the table of ``DELETE``, ``UPDATE`` or ``TRUNCATE`` exists, and the columns that it names.

    Raises:
        SqlValidationError: when it is not.
    """
    queries = QueryBinder(context)
    path, table = RelationBinder(queries, None).find(node.table)
    if isinstance(node, Truncate):
        if isinstance(table, CatalogView):
            raise context.error(node.table, f"'{path}' is a view, which is not emptied")
        return
    schema = table.schema
    source = NamedRelation(node.alias.text if node.alias is not None else path.name, schema, 0, path)
    binder = ExpressionBinder(queries, Scope((source,), schema, context.correlation()), "WHERE")
    if node.where is not None:
        binder.condition(node.where)
    assigned: set[str] = set()
    for assignment in node.assignments if isinstance(node, Update) else ():
        name = str(assignment.column)
        if name in assigned:
            raise context.error(assignment.column, f"target column '{name}' is assigned more than once")
        assigned.add(name)
        if name not in schema.names:
            raise context.error(assignment.column, f"target column '{name}' is unknown", misspelt(name, schema.names))
        value, kind = binder.bind(assignment.value), schema.types[schema.names.index(name)]
        if not is_implicitly_castable(value.type, kind):
            raise context.error(assignment.value, f"column '{name}' is {kind}, and takes no {value.type}")


class _InsertBinder:
    """Binds an INSERT. Rows that do not fit the table are an error at planning, as in Flink."""

    def __init__(self, context: BindContext, node: Insert) -> None:
        self.context = context
        self.node = node
        self.queries = QueryBinder(context)

    def bind(self) -> Sink:
        """The sink with its input."""
        path, table = RelationBinder(self.queries, None).find(self.node.table)
        if isinstance(table, CatalogView):
            self.context.defer(self.node.table, f"'{path}' is a view, which takes no rows")
            relation = self.queries.query(self.node.query)
            return Sink(relation, path, relation.schema, ())
        return self.into(path, table)

    def into(self, path: ObjectPath, table: CatalogTable, query: Relation | None = None) -> Sink:
        """The sink of a table, with the given input or that of the statement."""
        if table.inline is not None:
            refuse_options(self.context, self.node.table, self.node.hints)
        if table.distribution is not None:
            reason = f"table '{path}' is distributed into buckets, which its connector does not write"
            self.context.defer(self.node.table, reason, "ALTER TABLE ... DROP DISTRIBUTION first.")
        columns = [column for column in table.columns if column.is_persisted]
        targets = self._targets(columns, table)
        static = self._static(columns, table)
        relation = self.queries.query(self.node.query) if query is None else query
        wanted = self._wanted(columns, targets, static)
        if targets and len(relation.schema) != len(targets):
            reason = f"{len(targets)} columns are named, and the query gives {len(relation.schema)}"
            raise self.context.error(self.node.query, reason)
        for column in columns:
            if column.name not in wanted and column.name not in static and not column.type.nullable:
                raise self.context.error(self.node.table, f"column '{column.name}' is NOT NULL, and is not named")
        given, relation = relation, self._cast(relation, columns, wanted, static, path)
        names = [column.name for column in columns]
        metadata = tuple(
            MetadataRead(at, column.metadata_key)
            for at, column in enumerate(columns)
            if column.kind is ColumnKind.METADATA
        )
        key = table.primary_key.columns if table.primary_key is not None else ()
        stored = Schema(tuple(column.as_field.materialized() for column in columns))
        options = with_options(table.connector_options, bound_hints(self.context, self.node.hints))
        return Sink(
            relation,
            path,
            stored,
            options_of_connector(options),
            tuple(names.index(name) for name in key),
            metadata,
            table.partition_keys,
            tuple(names.index(name) for name in targets),
            tuple((name, str(getattr(value, "value", ""))) for name, value in static.items()),
            self.node.is_overwrite,
            self.node.on_conflict.name if self.node.on_conflict is not None else None,
            inline=table.inline,
            expectations=expectations_of(self.queries, path, dict(options), stored),
            is_projected=relation is not given,
            at=self.context.place(self.node.table),
        )

    def _targets(self, columns: list[Column], table: CatalogTable) -> list[str]:
        names = [column.name for column in columns]
        found: list[str] = []
        for path in self.node.columns:
            name = str(path)
            if name not in names:
                reason = "is computed" if table.column(name) is not None else "is unknown"
                raise self.context.error(path, f"target column '{name}' {reason}", misspelt(name, names))
            if name in found:
                raise self.context.error(path, f"target column '{name}' is assigned more than once")
            found.append(name)
        return found

    def _static(self, columns: list[Column], table: CatalogTable) -> dict[str, Scalar]:
        """The column values of the PARTITION clause."""
        binder = ExpressionBinder(self.queries, Scope((), Schema(()), self.context.correlation()), "PARTITION")
        types = {column.name: column.type for column in columns}
        found = {}
        for part in self.node.partition:
            name = part.column.text
            if name not in table.partition_keys:
                advice = misspelt(name, table.partition_keys)
                if name not in types:
                    raise self.context.error(part.column, f"'{name}' is not a column of the table", advice)
                self.context.defer(part.column, f"'{name}' is not a partition column of the table", advice)
            if part.value is not None:
                found[name] = binder.implicit(binder.bind(part.value), types[name].not_null())
        return found

    def _wanted(self, columns: list[Column], targets: list[str], static: dict[str, Scalar]) -> list[str]:
        """The columns of the sink that the query provides, in its order."""
        return [name for name in (targets or [column.name for column in columns]) if name not in static]

    def _cast(
        self,
        relation: Relation,
        columns: list[Column],
        wanted: list[str],
        static: dict[str, Scalar],
        path: ObjectPath,
    ) -> Relation:
        schema = relation.schema
        if not self._fits(schema, columns, wanted, path):
            return relation
        expressions: list[Scalar] = []
        for column in columns:
            if column.name in static:
                expressions.append(static[column.name])
            elif column.name in wanted:
                expressions.append(_as_column(relation, wanted.index(column.name), column))
            else:
                expressions.append(Literal(None, type=column.type.as_nullable()))
        if _is_unchanged(expressions, schema):
            return relation
        if any(isinstance(each, Cast) for each in expressions):
            expressions = [
                replace(each, type=each.type.as_nullable())
                if isinstance(each, Cast)
                else Cast(each, type=each.type.as_nullable())
                if isinstance(each, InputRef) and not each.type.nullable
                else each
                for each in expressions
            ]
            return Project(relation, tuple(expressions), tuple(column.name for column in columns))
        pairs = enumerate(expressions)
        names = [schema.names[each.index] if isinstance(each, InputRef) else f"EXPR${at}" for at, each in pairs]
        return Project(relation, tuple(expressions), unique_names(names))

    def _fits(self, schema: Schema, columns: list[Column], wanted: list[str], path: ObjectPath) -> bool:
        """Return whether the query has the columns of the sink; if not, the error says which of them differ."""
        types = {column.name: column.type for column in columns}
        if len(schema) != len(wanted):
            shown = ", ".join(f"{name} {types[name]}" for name in wanted)
            reason = f"the query gives {len(schema)} columns instead of {len(wanted)}"
            self.context.defer(self.node.query, f"{reason}: ({schema}), and the table '{path}' takes ({shown})")
            return False
        for field, name in zip(schema, wanted, strict=True):
            if not is_implicitly_castable(field.type, types[name]):
                reason = (
                    f"column '{name}' of table '{path}' is {types[name]}, and '{field.name}' of the query {field.type}"
                )
                self.context.defer(self.node.query, reason, f"Write CAST(... AS {types[name]}).")
                return False
        return True


def _as_column(relation: Relation, index: int, column: Column) -> Scalar:
    """A column of the query cast to the type of the sink's; its nullability stays as it is."""
    scalar = relation.column(index)
    kind = with_nullability(column.type, scalar.type.nullable)
    return scalar if kind == scalar.type else Cast(scalar, type=kind)


def _is_unchanged(expressions: list[Scalar], schema: Schema) -> bool:
    indices = [each.index if isinstance(each, InputRef) else None for each in expressions]
    return indices == list(range(len(schema)))
