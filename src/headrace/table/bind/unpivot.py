"""``UNPIVOT``: each row as several, with columns of it below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.common.logical_types import ArrayType, AtomicType, LogicalType, RowType, TypeRoot
from headrace.operators.join.results import JoinType
from headrace.table.bind.expressions import ExpressionBinder
from headrace.table.bind.scopes import Scope
from headrace.table.functions.types import BOOLEAN, least_restrictive
from headrace.table.logical.relations import Filter, LogicalCorrelate, Project, Relation, Unnest
from headrace.table.logical.scalars import Call, Cast, CorrelatedRef, Literal, Scalar
from headrace.table.logical.schema import Field, Schema

if TYPE_CHECKING:
    from headrace.table.bind.queries import QueryBinder
    from headrace.table.parse.tree import queries as sql
    from headrace.table.parse.tree.node import Name


@dataclass(frozen=True)
class UnpivotBinder:
    """Binds ``relation UNPIVOT (measure FOR axis IN (column [AS value], ...))``.

    Each row is joined with an array of itself: of one element for each item of ``IN``, with the value of the axis and
    those of the item's columns.

    Attributes:
        queries: binds the query.
        node: the clause.
        relation: the rows.
    """

    queries: QueryBinder
    node: sql.Unpivot
    relation: Relation

    def bind(self) -> Relation:
        """The relation: the columns that no item has, those of the axes, and then the measures.

        Raises:
            SqlValidationError: when columns are missing, or have no common type.
        """
        self._check_names()
        fields = (*self._axes, *self._measures)
        correlation = self.queries.context.correlation()
        items = [self._element(item, correlation.name) for item in self._items]
        elements = Call("ARRAY", tuple(items), type=ArrayType(items[0].type).not_null())
        made: Relation = LogicalCorrelate(
            self.relation,
            Unnest((elements,), Schema(fields)),
            correlation.name,
            JoinType.INNER,
            tuple(sorted({index for item in self._items for index in item.columns})),
        )
        width = len(self.relation.schema)
        if not self.node.include_nulls:
            given = [made.column(width + len(self._axes) + at) for at in range(len(self._measures))]
            present = [Call("IS NOT NULL", (each,), type=BOOLEAN.not_null()) for each in given]
            made = Filter(
                made, present[0] if len(present) == 1 else Call("OR", tuple(present), type=BOOLEAN.not_null())
            )
        columns: list[Scalar] = [*map(made.column, self._kept), *map(made.column, range(width, width + len(fields)))]
        if not self.node.include_nulls and len(self._measures) == 1 and columns[-1].type.nullable:
            columns[-1] = Cast(columns[-1], type=columns[-1].type.not_null())
        names = [self.relation.schema.names[index] for index in self._kept]
        return Project(made, tuple(columns), (*names, *(field.name for field in fields)))

    # --- columns -----------------------------------------------------------------------------------------------------

    @cached_property
    def _items(self) -> list[_Item]:
        return [self._item(value) for value in self.node.values]

    def _item(self, value: sql.UnpivotValue) -> _Item:
        for word, found, wanted in (
            ("columns", value.columns, self.node.measures),
            ("values", value.values or self.node.axes, self.node.axes),
        ):
            if len(found) != len(wanted):
                message = f"an item of UNPIVOT has as many {word} as there are names before IN: {len(wanted)}"
                raise self.queries.context.error(value, message)
        binder = ExpressionBinder(
            self.queries, Scope((), Schema(()), self.queries.context.correlation(), None), "UNPIVOT"
        )
        text = "_".join(name.text for name in value.columns)
        default = Literal(text, type=AtomicType(TypeRoot.VARCHAR, len(text), nullable=False))
        values = binder.bind_all(value.values) if value.values else (default,) * len(self.node.axes)
        return _Item(tuple(map(self._index, value.columns)), tuple(values))

    def _index(self, name: Name) -> int:
        names = self.relation.schema.names
        if name.text not in names:
            raise self.queries.context.error(name, f"column '{name.text}' not found in any table")
        return names.index(name.text)

    @cached_property
    def _kept(self) -> list[int]:
        """The columns that no item has."""
        taken = {index for item in self._items for index in item.columns}
        return [index for index in range(len(self.relation.schema)) if index not in taken]

    @cached_property
    def _axes(self) -> tuple[Field, ...]:
        columns = zip(*(item.values for item in self._items), strict=True)
        types = ([each.type for each in column] for column in columns)
        return tuple(
            Field(name.text, self._common(name, kinds)) for name, kinds in zip(self.node.axes, types, strict=True)
        )

    @cached_property
    def _measures(self) -> tuple[Field, ...]:
        columns = zip(*(item.columns for item in self._items), strict=True)
        types = ([self.relation.schema.types[index].as_nullable() for index in column] for column in columns)
        pairs = zip(self.node.measures, types, strict=True)
        return tuple(Field(name.text, self._common(name, kinds)) for name, kinds in pairs)

    def _common(self, name: Name, types: Sequence[LogicalType]) -> LogicalType:
        found = least_restrictive(types)
        if found is None:
            shown = ", ".join(dict.fromkeys(map(str, types)))
            raise self.queries.context.error(name, f"the columns of '{name.text}' have no common type: {shown}")
        return found

    def _check_names(self) -> None:
        seen = {self.relation.schema.names[index] for index in self._kept}
        for name in (*self.node.axes, *self.node.measures):
            if name.text in seen:
                raise self.queries.context.error(name, f"UNPIVOT has several columns '{name.text}'")
            seen.add(name.text)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _element(self, item: _Item, correlation: str) -> Scalar:
        """The row of an item."""
        fields, schema = (*self._axes, *self._measures), self.relation.schema
        columns = (
            CorrelatedRef(correlation, index, schema.names[index], type=schema.types[index]) for index in item.columns
        )
        values = zip((*item.values, *columns), fields, strict=True)
        parts = tuple(each if each.type == field.type else Cast(each, type=field.type) for each, field in values)
        kind = RowType(tuple(field.name for field in fields), tuple(field.type for field in fields))
        return Call("ROW", parts, type=kind.not_null())


@dataclass(frozen=True)
class _Item:
    """An item of ``IN``.

    Attributes:
        columns: the columns of the measures.
        values: the values of the axes.
    """

    columns: tuple[int, ...]
    values: tuple[Scalar, ...]
