"""``Schema``: the columns, the watermark and the primary key of a table over a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.common.logical_types import LogicalType
from headrace.common.typeinfo import Types
from headrace.table.parse.format import literal, quoted


class Schema:
    """The schema of a table, as in ``CREATE TABLE``.

    Examples:
        >>> from headrace.table import Schema
        >>> schema = (
        ...     Schema.new_builder()
        ...     .column("card", "STRING")
        ...     .column("ts", "TIMESTAMP(3)")
        ...     .column_by_expression("day", "CAST(ts AS DATE)")
        ...     .watermark("ts", "ts - INTERVAL '5' SECOND")
        ...     .build()
        ... )
    """

    def __init__(self, elements: Sequence[str], physical: Sequence[str]) -> None:
        self.elements = tuple(elements)
        self.physical = tuple(physical)

    @staticmethod
    def new_builder() -> SchemaBuilder:
        """Begin a schema."""
        return SchemaBuilder()

    def __str__(self) -> str:
        return "(\n  {}\n)".format(",\n  ".join(self.elements))


class SchemaBuilder:
    """Builds a :class:`Schema`; types are SQL text, or ``Types``.

    Examples:
        >>> from headrace.table import Schema
        >>> print(Schema.new_builder().column("id", "BIGINT").primary_key("id").build())
        (
          `id` BIGINT,
          PRIMARY KEY (`id`) NOT ENFORCED
        )
    """

    def __init__(self) -> None:
        self._elements: list[str] = []
        self._physical: list[str] = []

    def column(self, column_name: str, data_type: str | LogicalType | Any) -> SchemaBuilder:
        """Adds a column of the stream, by its name."""
        self._physical.append(column_name)
        return self._add(f"{quoted(column_name)} {_type_text(data_type)}")

    def column_by_expression(self, column_name: str, expr: str) -> SchemaBuilder:
        """Adds a computed column."""
        return self._add(f"{quoted(column_name)} AS {expr}")

    def column_by_metadata(
        self,
        column_name: str,
        data_type: str | LogicalType | Any,
        metadata_key: str | None = None,
        is_virtual: bool = False,
    ) -> SchemaBuilder:
        """Adds a metadata column."""
        key = "" if metadata_key is None else f" FROM {literal(metadata_key)}"
        virtual = " VIRTUAL" if is_virtual else ""
        return self._add(f"{quoted(column_name)} {_type_text(data_type)} METADATA{key}{virtual}")

    def watermark(self, column_name: str, watermark_expr: str) -> SchemaBuilder:
        """Declares the rowtime column, and the expression of its watermark."""
        return self._add(f"WATERMARK FOR {quoted(column_name)} AS {watermark_expr}")

    def primary_key(self, *column_names: str) -> SchemaBuilder:
        """Declares the primary key."""
        return self._add(f"PRIMARY KEY ({', '.join(map(quoted, column_names))}) NOT ENFORCED")

    def primary_key_named(self, constraint_name: str, *column_names: str) -> SchemaBuilder:
        """Declares the primary key, with a name."""
        self._add(
            f"CONSTRAINT {quoted(constraint_name)} PRIMARY KEY ({', '.join(map(quoted, column_names))}) NOT ENFORCED"
        )
        return self

    def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[Any]) -> SchemaBuilder:
        """Adds several columns."""
        for name, kind in zip(field_names, field_data_types, strict=True):
            self.column(name, kind)
        return self

    def from_schema(self, unresolved_schema: Schema) -> SchemaBuilder:
        """Adds everything in another schema."""
        self._elements += unresolved_schema.elements
        self._physical += unresolved_schema.physical
        return self

    def build(self) -> Schema:
        """The schema."""
        return Schema(self._elements, self._physical)

    def _add(self, element: str) -> SchemaBuilder:
        self._elements.append(element)
        return self


def _type_text(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    return str(kind if isinstance(kind, LogicalType) else Types.of(kind).logical_type)
