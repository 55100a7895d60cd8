"""Binding of table definitions to catalog objects."""

from dataclasses import replace

from headrace.common.logical_types import IntervalType, LogicalType, RowType, TypeRoot
from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.bind.expansion import Expansions, expanded_text
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.queries import QueryBinder, refuse_null
from headrace.table.bind.scopes import NamedRelation, Scope
from headrace.table.catalog.objects import (
    CatalogTable,
    Column,
    ColumnKind,
    Distribution,
    PrimaryKey,
    WatermarkSpec,
)
from headrace.table.functions.types import INTEGERS, TIMESTAMPS, is_in, rebuilt, root_of, size_of, to_external
from headrace.table.logical.scalars import Call, Scalar, Subquery
from headrace.table.logical.schema import Field, Schema, TimeAttribute
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree.expressions import SqlExpression
from headrace.table.parse.tree.node import Name, SqlNode


def options_of(options: tuple[sql.Option, ...]) -> tuple[tuple[str, str], ...]:
    """The keys and values of ``WITH``; of a key that comes twice, the last value."""
    return tuple({option.key: option.value for option in options}.items())


_MOST_DIGITS = 3
"""The maximum precision of a rowtime column."""


class TableBinder:
    """Binds the parts of a CREATE TABLE or ALTER TABLE, over the columns of an existing table if there is one.

    Args:
        context: the statement.
        table: the columns, keys and options that exist already.
    """

    def __init__(self, context: BindContext, table: CatalogTable | None = None) -> None:
        self.context = context
        self.table = table or CatalogTable(())

    def create(self, node: sql.CreateTable) -> CatalogTable:
        """The table that CREATE TABLE defines by its columns."""
        self.columns(node.elements)
        self.watermarks(node.elements)
        self.keys(node.elements)
        partitions = self.partitions(node.partitioned_by)
        self.table = replace(
            self.table,
            comment=node.comment,
            options=options_of(node.options),
            partition_keys=partitions,
            distribution=self.distribution(node.distribution, is_late=False),
        )
        return self.table

    def partitions(self, names: tuple[Name, ...]) -> tuple[str, ...]:
        """``PARTITIONED BY``: columns of the table."""
        found = []
        for name in names:
            found.append(self._existing(name, "PARTITIONED BY").name)
            self.check_key(name, name.text)
        return tuple(found)

    def check_key(self, node: SqlNode, name: str, *, is_late: bool = True) -> None:
        """Refuse a key of partitions or of the distribution that is no physical column, at once or at planning."""
        column = self.table.column(name)
        if column is None or column.kind is not ColumnKind.PHYSICAL:
            known = ", ".join(each.name for each in self.table.columns if each.kind is ColumnKind.PHYSICAL)
            reason = f"'{name}' is a key of partitions or of the distribution, and no physical column"
            refused = self.context.unplanned if is_late else self.context.error
            raise refused(node, reason, f"The physical columns are {known}.")

    # --- columns -----------------------------------------------------------------------------------------------------

    def columns(self, elements: tuple[sql.TableElement, ...]) -> None:
        """Add columns: first physical and metadata columns, since computed ones depend on them."""
        nodes = [element for element in elements if isinstance(element, sql.ColumnDefinition)]
        found = {node: self._column(node) for node in nodes if not isinstance(node, sql.ComputedColumn)}
        given = [*self.table.columns, *found.values()]
        plain = Schema(tuple(each.as_field for each in given if each.kind is not ColumnKind.COMPUTED))
        for node in nodes:
            if isinstance(node, sql.ComputedColumn):
                found[node] = self._computed(node, plain)
        for node in nodes:
            column = found[node]
            self._check_metadata(node, column)
            if self.table.column(column.name) is not None:
                raise self.context.error(node, f"a column named '{column.name}' already exists")
            self.table = replace(self.table, columns=(*self.table.columns, column))

    def _check_metadata(self, node: sql.ColumnDefinition, column: Column) -> None:
        """Refuse a second column of the same metadata."""
        if column.kind is not ColumnKind.METADATA:
            return
        for each in self.table.columns:
            if each.kind is ColumnKind.METADATA and each.metadata_key == column.metadata_key:
                reason = f"columns '{each.name}' and '{column.name}' have the same metadata key '{column.metadata_key}'"
                raise self.context.error(node, reason, f"Compute the second one: {column.name} AS {each.name}.")

    def _column(self, node: sql.ColumnDefinition) -> Column:
        name = self.column_name(node)
        if isinstance(node, sql.MetadataColumn):
            kind = self.context.types.bind(node.type)
            return Column(
                name, kind, ColumnKind.METADATA, key=node.key, is_virtual=node.is_virtual, comment=node.comment
            )
        if not isinstance(node, sql.PhysicalColumn):
            raise self.context.error(node, f"column '{name}' needs a type")
        kind = self.context.types.bind(node.type)
        if isinstance(kind, IntervalType):
            raise self.context.error(node.type, f"column '{name}' cannot be of type {kind}")
        return Column(name, _without_comments(kind), comment=node.comment)

    def column_name(self, node: sql.ColumnDefinition) -> str:
        """The name of a column."""
        if len(node.name.names) != 1:
            raise self.context.error(node.name, f"'{node.name}' is not a column name: fields are defined by ROW<...>")
        return node.name.names[0].text

    def _computed(self, node: sql.ComputedColumn, plain: Schema) -> Column:
        scalar = self.expression(node.expression, plain)
        text = expanded_text(node.expression, Expansions())
        name = self.column_name(node)
        kind = to_external(scalar.type)
        return Column(name, kind, ColumnKind.COMPUTED, scalar.time, text, comment=node.comment)

    def expression(self, node: SqlExpression, columns: Schema) -> Scalar:
        """An expression over columns."""
        scope = Scope((NamedRelation(None, columns),), columns, self.context.correlation())
        found = ExpressionBinder(QueryBinder(self.context), scope, "a computed column").bind(node)
        if any(isinstance(each, Subquery) for each in found.walk()):
            raise self.context.error(node, "a computed column cannot have a query")
        refuse_null(self.context, node, found)
        return found

    # --- watermarks and keys -----------------------------------------------------------------------------------------

    def watermarks(self, elements: tuple[sql.TableElement, ...]) -> None:
        """Add the watermark."""
        nodes = [element for element in elements if isinstance(element, sql.Watermark)]
        for node in nodes:
            if self.table.watermark is not None:
                raise self.context.error(node, "there is a watermark already", "A table has one watermark at most.")
            self.watermark(node)

    def watermark(self, node: sql.Watermark) -> None:
        """Make a column the rowtime attribute."""
        names = [column.name for column in self.table.columns]
        name = str(node.column)
        column = self.table.column(name) if len(node.column.names) == 1 else None
        if column is None:
            advice = misspelt(name, names) or f"The columns are {', '.join(names)}."
            raise self.context.error(node.column, f"no column '{name}' to be the row time", advice)
        if column.time is TimeAttribute.PROCTIME:
            raise self.context.error(node.column, f"column '{name}' is a processing time, which has no watermark")
        check_time(self.context, node.column, column.type, "a row time")
        fields = Schema(tuple(Field(each.name, each.type) for each in self.table.columns))
        scalar = self.expression(node.expression, fields)
        check_time(self.context, node.expression, scalar.type, "a watermark")
        if root_of(scalar.type) is not root_of(column.type) and not is_source_watermark(scalar):
            raise self.context.error(node.expression, f"the watermark is {scalar.type}, and '{name}' is {column.type}")
        spec = WatermarkSpec(name, expanded_text(node.expression, Expansions()), scalar.type)
        columns = tuple(
            replace(each, time=TimeAttribute.ROWTIME) if each.name == name else each for each in self.table.columns
        )
        self.table = replace(self.table, columns=columns, watermark=spec)

    def keys(self, elements: tuple[sql.TableElement, ...]) -> None:
        """Add the primary key, of a column or of the table."""
        for element in elements:
            if isinstance(element, sql.Constraint):
                self.key(element, element.columns)
            elif isinstance(element, sql.PhysicalColumn) and element.constraint is not None:
                self.key(element.constraint, element.name.names)

    def key(self, node: sql.Constraint, names: tuple[Name, ...]) -> None:
        """Add a primary key; its columns become NOT NULL."""
        if not node.is_primary_key:
            raise self.context.error(node, "UNIQUE constraint is not supported", "Only PRIMARY KEY is.")
        if node.enforced is not False:
            raise self.context.error(
                node,
                "PRIMARY KEY is not enforced: the writers of the data keep it",
                "Write PRIMARY KEY (...) NOT ENFORCED.",
            )
        if self.table.primary_key is not None:
            raise self.context.error(node, "there is a primary key already")
        columns = [self._existing(name, "PRIMARY KEY") for name in names]
        if len({column.name for column in columns}) < len(columns):
            raise self.context.error(node, "a column comes twice in the PRIMARY KEY")
        for name, column in zip(names, columns, strict=True):
            if column.kind is not ColumnKind.PHYSICAL:
                raise self.context.error(name, f"column '{name}' of the PRIMARY KEY is not a physical column")
        texts = tuple(column.name for column in columns)
        key = PrimaryKey(node.name.text if node.name is not None else f"PK_{'_'.join(texts)}", texts)
        changed = tuple(
            replace(each, type=each.type.not_null()) if each.name in texts else each for each in self.table.columns
        )
        self.table = replace(self.table, columns=changed, primary_key=key)

    def _existing(self, name: Name, clause: str) -> Column:
        column = self.table.column(name.text)
        if column is None:
            names = [each.name for each in self.table.columns]
            raise self.context.error(name, f"no column '{name}' for {clause}", misspelt(name.text, names))
        return column

    def distribution(self, node: sql.TableDistribution | None, *, is_late: bool = True) -> Distribution | None:
        """``DISTRIBUTED BY``, whose errors are raised at once or when the statement is planned."""
        if node is None:
            return None
        if node.buckets is not None and node.buckets < 1:
            refused = self.context.unplanned if is_late else self.context.error
            raise refused(node, f"{node.buckets} buckets are too few: one is the least")
        columns = tuple(name.text for name in node.columns)
        for name in node.columns:
            self.check_key(name, name.text, is_late=is_late)
        return Distribution(node.kind.value if node.kind is not None else None, columns, node.buckets)


def _without_comments(kind: LogicalType) -> LogicalType:
    """The type without the comments of its fields, which tables do not keep, as in Flink."""
    parts = kind.children
    found = (rebuilt(kind, list(map(_without_comments, parts))) or kind) if parts else kind
    return RowType(found.names, found.types, nullable=found.nullable) if isinstance(found, RowType) else found


def check_time(context: BindContext, node: SqlNode, kind: LogicalType, what: str) -> None:
    """Refuse a type that no row time and no watermark has.

    Raises:
        SqlValidationError: when it is one.
    """
    if not is_in(kind, TIMESTAMPS) or size_of(kind) > _MOST_DIGITS:
        raise context.error(
            node,
            f"{what} is of type TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p from 0 to 3, and not {kind}",
            _computed_time(kind),
        )


def _computed_time(kind: LogicalType) -> str | None:
    """The advice for computing a time from a column of another type."""
    if is_in(kind, TIMESTAMPS):
        return "Write CAST(... AS TIMESTAMP(3))." if root_of(kind) is TypeRoot.TIMESTAMP else None
    computed = "TO_TIMESTAMP_LTZ(milliseconds, 3)" if is_in(kind, INTEGERS) else "TO_TIMESTAMP(text)"
    return f"Add a computed column, such as t AS {computed}, and let it have the watermark."


def is_source_watermark(scalar: Scalar) -> bool:
    """Return whether the watermark is ``SOURCE_WATERMARK()``."""
    return isinstance(scalar, Call) and scalar.function == "SOURCE_WATERMARK"
