"""``ALTER TABLE`` and ``ALTER VIEW``."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headrace.table.bind.context import BindContext
from headrace.table.bind.errors import misspelt
from headrace.table.catalog.objects import CatalogTable, CatalogView, Column, ColumnKind, ObjectPath, PrimaryKey
from headrace.table.ddl.columns import TableBinder, check_time
from headrace.table.ddl.tables import refuse_materialized, view_of, without_watermark
from headrace.table.functions.types import to_external
from headrace.table.logical.schema import Schema, TimeAttribute
from headrace.table.parse.parser import parse_expression
from headrace.table.parse.source import SqlError
from headrace.table.parse.tree import definitions as sql
from headrace.table.parse.tree.expressions import Identifier
from headrace.table.parse.tree.node import Path, SqlNode, walk


def check_altered(context: BindContext, node: sql.Alter) -> None:
    """Refuse ``ALTER TABLE`` and ``ALTER VIEW`` of what is no table, or no view.

    Raises:
        SqlValidationError: when it is not.
    """
    path = context.catalogs.qualify(node.path.texts)
    found = context.catalogs.table(path)
    is_missing = found is None and node.if_exists
    if not is_missing and not isinstance(found, CatalogTable if node.kind is sql.ObjectKind.TABLE else CatalogView):
        raise context.missing_table(node.path, path, node.kind.value.lower())
    refuse_materialized(context, node.path, found, "ALTER")


def alter_table(context: BindContext, node: sql.Alter) -> None:
    """``ALTER TABLE``."""
    check_altered(context, node)
    path = context.catalogs.qualify(node.path.texts)
    table = context.catalogs.table(path)
    if not isinstance(table, CatalogTable):
        return
    if path in context.catalogs.temporary:
        raise context.error(node.path, f"'{path}' is a temporary table, which cannot be altered")
    if isinstance(node.action, sql.RenameTo):
        _rename(context, path, table, node.action.to)
        return
    catalog = context.catalogs.catalogs[path.catalog]
    if isinstance(node.action, sql.AddPartitions) and not catalog.keeps_partitions:
        reason = f"catalog '{path.catalog}' keeps no partitions"
        raise context.unplanned(node.action, reason, "Leave it out: INSERT adds them.")
    catalog.put_table(path.database, path.name, altered(context, table, node.action))


def altered(context: BindContext, table: CatalogTable, action: sql.AlterAction) -> CatalogTable:
    """The table after an action on its columns, keys, partitions or options.

    Raises:
        SqlValidationError: when it is not possible.
    """
    rule = _RULES.get(type(action))
    if rule is None:
        raise context.error(action, f"ALTER TABLE has no such action: {type(action).__name__}")
    return _resolved(context, action, rule(_Alteration(context, table), action))


def _resolved(context: BindContext, node: SqlNode, table: CatalogTable) -> CatalogTable:
    """The table with the types that its computed columns now have: an alteration resolves its schema anew."""
    binder = TableBinder(context, table)
    keys = (*table.partition_keys, *(table.distribution.columns if table.distribution is not None else ()))
    for key in keys:
        binder.check_key(node, key)
    plain = Schema(tuple(each.as_field for each in table.columns if each.kind is not ColumnKind.COMPUTED))
    return replace(table, columns=tuple(_recomputed(context, node, each, plain) for each in table.columns))


def _recomputed(context: BindContext, node: SqlNode, column: Column, plain: Schema) -> Column:
    if column.expression is None:
        return column
    try:
        scalar = TableBinder(context.of_text(column.expression)).expression(parse_expression(column.expression), plain)
    except SqlError as error:
        reason = f"column '{column.name}' AS {column.expression} could not be computed any longer: {error.reason}"
        raise context.error(node, reason, "Change or DROP it first.") from None
    time = column.time if column.time is TimeAttribute.ROWTIME else scalar.time
    return replace(column, type=to_external(scalar.type), time=time)


def alter_view(context: BindContext, node: sql.Alter) -> None:
    """``ALTER VIEW ... RENAME TO | AS``."""
    check_altered(context, node)
    path = context.catalogs.qualify(node.path.texts)
    view = context.catalogs.table(path)
    if not isinstance(view, CatalogView):
        return
    if path in context.catalogs.temporary:
        raise context.error(node.path, f"'{path}' is a temporary view, which cannot be altered", "Create it anew.")
    if isinstance(node.action, sql.RenameTo):
        _rename(context, path, view, node.action.to)
    elif isinstance(node.action, sql.SetQuery):
        changed = replace(view_of(context, node.action.query), comment=view.comment)
        context.catalogs.catalogs[path.catalog].put_table(path.database, path.name, changed)


def _rename(context: BindContext, path: ObjectPath, found: CatalogTable | CatalogView, to: Path) -> None:
    """Rename an object; it stays in its database."""
    target = path._replace(name=to.names[-1].text)
    if context.catalogs.table(target) is not None:
        raise context.error(to, f"table or view '{target}' already exists")
    catalog = context.catalogs.catalogs[path.catalog]
    catalog.drop_table(path.database, path.name)
    catalog.put_table(target.database, target.name, found)


class _Alteration:
    """The actions on one table."""

    def __init__(self, context: BindContext, table: CatalogTable) -> None:
        self.context = context
        self.table = table

    def set_options(self, action: sql.SetOptions) -> CatalogTable:
        """``SET (...)``."""
        return self.table.with_options({option.key: option.value for option in action.options})

    def reset_options(self, action: sql.ResetOptions) -> CatalogTable:
        """``RESET (...)``."""
        if "connector" in action.keys:
            raise self.context.error(action, "RESET cannot change 'connector'")
        if not action.keys:
            raise self.context.error(action, "RESET needs a key")
        kept = tuple((key, value) for key, value in self.table.options if key not in action.keys)
        return replace(self.table, options=kept)

    def rename_column(self, action: sql.RenameColumn) -> CatalogTable:
        """``RENAME a TO b``."""
        column = self.existing(action.column)
        self.check_unused(action.column, column.name)
        name = str(action.to)
        if self.table.column(name) is not None:
            raise self.context.error(action.to, f"a column named '{name}' already exists")
        columns = tuple(replace(each, name=name) if each is column else each for each in self.table.columns)
        key = self.table.primary_key
        if key is not None:
            key = PrimaryKey(key.name, tuple(name if each == column.name else each for each in key.columns))
        return replace(self.table, columns=columns, primary_key=key)

    def drop_columns(self, action: sql.DropColumns) -> CatalogTable:
        """``DROP (a, b)``."""
        dropped = {self.existing(path).name for path in action.columns}
        if len(dropped) < len(action.columns):
            raise self.context.error(action, "a column is named twice")
        for path in action.columns:
            self.check_unused(path, str(path), dropped)
            if self.table.primary_key is not None and str(path) in self.table.primary_key.columns:
                raise self.context.error(path, f"column '{path}' is used as the primary key", "DROP PRIMARY KEY first.")
        kept = tuple(column for column in self.table.columns if column.name not in dropped)
        return replace(self.table, columns=kept)

    def add_partitions(self, action: sql.AddPartitions) -> CatalogTable:
        """``ADD PARTITION (...) ...``."""
        for partition, options in zip(action.partitions, action.options, strict=True):
            for option in options:
                raise self.context.error(option, "partitions have no options of their own")
            found = self.partition(partition)
            there = any(set(found) == set(each) for each in self.table.partitions)
            if there and not action.if_not_exists:
                raise self.context.unplanned(action, f"partition {shown(found)} exists already", "Write IF NOT EXISTS.")
            if not there:
                self.table = replace(self.table, partitions=(*self.table.partitions, found))
        return self.table

    def drop_partitions(self, action: sql.DropPartitions) -> CatalogTable:
        """``DROP PARTITION (...), ...``."""
        for partition in action.partitions:
            self.check_values(partition)
            wanted = set(spec_of(partition) if action.if_exists else self.partition(partition))
            kept = tuple(each for each in self.table.partitions if set(each) != wanted)
            if len(kept) == len(self.table.partitions) and not action.if_exists:
                reason = f"partition {shown(spec_of(partition))} does not exist"
                raise self.context.unplanned(action, reason, "Write IF EXISTS.")
            self.table = replace(self.table, partitions=kept)
        return self.table

    def partition(self, partition: sql.Partition) -> tuple[tuple[str, str], ...]:
        """The columns and values of a partition, which are all partition columns."""
        keys = self.table.partition_keys
        if not keys:
            raise self.context.unplanned(partition[0], "the table is not partitioned")
        if {value.column.text for value in partition} != set(keys) or len(partition) != len(keys):
            raise self.context.unplanned(partition[0], f"a partition has the columns {', '.join(keys)}")
        self.check_values(partition)
        return spec_of(partition)

    def check_values(self, partition: sql.Partition) -> None:
        """Refuse values of partition columns that are not literals."""
        for each in partition:
            if each.value is not None and not hasattr(each.value, "value"):
                raise self.context.unplanned(each.value, f"the value of partition column '{each.column}' is no literal")

    def drop_part(self, action: sql.DropPart) -> CatalogTable:
        """``DROP PRIMARY KEY | WATERMARK | DISTRIBUTION``."""
        if action.part is sql.DroppedPart.PRIMARY_KEY:
            self.expect(action, self.table.primary_key, "primary key")
            return replace(self.table, primary_key=None)
        if action.part is sql.DroppedPart.WATERMARK:
            self.expect(action, self.table.watermark, "watermark")
            return without_watermark(self.table)
        self.expect(action, self.table.distribution, "distribution")
        return replace(self.table, distribution=None)

    def drop_constraint(self, action: sql.DropConstraint) -> CatalogTable:
        """``DROP CONSTRAINT name``."""
        key = self.table.primary_key
        if key is None or key.name != action.name.text:
            advice = misspelt(action.name.text, [key.name] if key is not None else [])
            raise self.context.error(action.name, f"the table has no constraint '{action.name}'", advice)
        return replace(self.table, primary_key=None)

    def change(self, action: sql.ChangeSchema) -> CatalogTable:
        """``ADD (...)`` and ``MODIFY (...)``."""
        elements = [change.element for change in action.changes]
        if not action.is_add:
            self.make_room(elements)
        definitions = tuple(each for each in elements if not isinstance(each, sql.TableDistribution))
        binder = TableBinder(self.context, self.table)
        if action.is_add:
            self.check_places(action)
            binder.columns(definitions)
        else:
            self.modify(binder, definitions)
        self.table = binder.table
        for change in action.changes:
            if change.place is not None and isinstance(change.element, sql.ColumnDefinition):
                self.move(str(change.element.name), change.place)
        binder.table = self.table
        binder.watermarks(definitions)
        binder.keys(definitions)
        for element in elements:
            if isinstance(element, sql.TableDistribution):
                if action.is_add and self.table.distribution is not None:
                    raise self.context.error(element, "the table has a distribution already", "Write MODIFY.")
                binder.table = replace(binder.table, distribution=binder.distribution(element))
        return binder.table

    def check_places(self, action: sql.ChangeSchema) -> None:
        """Refuse a column that is added after one which the statement adds only later."""
        known = {column.name for column in self.table.columns}
        for change in action.changes:
            if change.place is not None and change.place.after is not None and str(change.place.after) not in known:
                self.existing(change.place.after)
            if isinstance(change.element, sql.ColumnDefinition):
                known.add(str(change.element.name))

    def make_room(self, elements: list[sql.TableElement | sql.TableDistribution]) -> None:
        """Remove the primary key and the watermark that MODIFY redefines."""
        for element in elements:
            if isinstance(element, sql.Constraint):
                self.expect(element, self.table.primary_key, "primary key")
                self.table = replace(self.table, primary_key=None)
            elif isinstance(element, sql.Watermark):
                self.expect(element, self.table.watermark, "watermark")
                self.table = without_watermark(self.table)
            elif isinstance(element, sql.TableDistribution):
                self.expect(element, self.table.distribution, "distribution")

    def modify(self, binder: TableBinder, elements: tuple[sql.TableElement, ...]) -> None:
        """Redefine columns at their positions."""
        columns = [each for each in elements if isinstance(each, sql.ColumnDefinition)]
        nodes = {str(each.name): each for each in columns}
        if len(nodes) < len(columns):
            raise self.context.error(columns[-1], "a column is modified twice")
        for node in columns:
            self.existing(node.name)
        order = [column.name for column in self.table.columns]
        binder.table = replace(
            self.table, columns=tuple(column for column in self.table.columns if column.name not in nodes)
        )
        binder.columns(tuple(nodes.values()))
        modified = sorted(binder.table.columns, key=lambda column: order.index(column.name))
        modified = [self.with_role(nodes.get(column.name), column) for column in modified]
        binder.table = replace(binder.table, columns=tuple(modified))

    def with_role(self, node: sql.ColumnDefinition | None, column: Column) -> Column:
        """The modified column as part of the primary key, row time and with the comment, which it had before."""
        if node is None:
            return column
        if column.comment is None:
            column = replace(column, comment=self.existing(node.name).comment)
        key, watermark = self.table.primary_key, self.table.watermark
        if key is not None and column.name in key.columns:
            if column.kind is not ColumnKind.PHYSICAL:
                reason = f"column '{column.name}' of the PRIMARY KEY is not a physical column"
                raise self.context.error(node, reason, "DROP PRIMARY KEY first.")
            column = replace(column, type=column.type.not_null())
        if watermark is None or column.name != watermark.column:
            return column
        check_time(self.context, node, column.type, f"column '{column.name}' is the row time, which")
        return replace(column, time=TimeAttribute.ROWTIME)

    def move(self, name: str, place: sql.ColumnPlace) -> None:
        """Move a column to the first position, or after another one."""
        moved = next(column for column in self.table.columns if column.name == name)
        if place.after is not None and str(place.after) == name:
            return
        rest = [column for column in self.table.columns if column is not moved]
        at = 0 if place.after is None else rest.index(self.existing(place.after)) + 1
        self.table = replace(self.table, columns=(*rest[:at], moved, *rest[at:]))

    def expect(self, node: SqlNode, part: object, word: str) -> None:
        """Refuse an action on something that the table does not have."""
        if part is None:
            raise self.context.error(node, f"the table has no {word}")

    def existing(self, path: Path) -> Column:
        """The column at a path."""
        column = self.table.column(str(path)) if len(path.names) == 1 else None
        if column is None:
            names = [each.name for each in self.table.columns]
            raise self.context.error(path, f"column '{path}' does not exist", misspelt(str(path), names))
        return column

    def check_unused(self, node: SqlNode, name: str, dropped: set[str] | None = None) -> None:
        """Refuse a change of a column that computed columns depend on."""
        users = {
            each.name: each.expression
            for each in self.table.columns
            if each.kind is ColumnKind.COMPUTED and each.expression and each.name not in (dropped or ())
        }
        for user, expression in users.items():
            if name in names_in(expression):
                raise self.context.error(node, f"column '{name}' is referenced by column '{user}'")
        if self.table.watermark is not None:
            used = names_in(self.table.watermark.expression) | {self.table.watermark.column}
            if name in used:
                raise self.context.error(node, f"column '{name}' is referenced by the watermark")
        keys = self.table.distribution.columns if self.table.distribution is not None else ()
        if name in (*self.table.partition_keys, *keys):
            raise self.context.error(node, f"column '{name}' is a key of partitions or of the distribution")


def spec_of(partition: sql.Partition) -> tuple[tuple[str, str], ...]:
    """The names and values of ``PARTITION (...)``."""
    return tuple((each.column.text, str(getattr(each.value, "value", ""))) for each in partition)


def shown(partition: tuple[tuple[str, str], ...]) -> str:
    """A partition as ``SHOW PARTITIONS`` shows it: ``a=1/b=2``."""
    return "/".join(f"{name}={value}" for name, value in partition)


def names_in(text: str) -> set[str]:
    """The columns to which an expression refers."""
    return {node.names[0].text for node in walk(parse_expression(text)) if isinstance(node, Identifier)}


_RULES: Final[dict[type, Callable[[_Alteration, Any], CatalogTable]]] = {
    sql.SetOptions: _Alteration.set_options,
    sql.ResetOptions: _Alteration.reset_options,
    sql.RenameColumn: _Alteration.rename_column,
    sql.AddPartitions: _Alteration.add_partitions,
    sql.DropPartitions: _Alteration.drop_partitions,
    sql.DropColumns: _Alteration.drop_columns,
    sql.DropPart: _Alteration.drop_part,
    sql.DropConstraint: _Alteration.drop_constraint,
    sql.ChangeSchema: _Alteration.change,
}
