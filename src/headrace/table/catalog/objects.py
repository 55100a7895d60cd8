"""The objects of a catalog, as immutable values."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from headrace.common.logical_types import LogicalType
from headrace.table.catalog.materialization import Materialization, is_of_partitions
from headrace.table.logical.schema import Field, Schema, TimeAttribute


class ObjectPath(NamedTuple):
    """The full path of an object."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return ".".join(self)


class ColumnKind(Enum):
    """The kinds of columns."""

    PHYSICAL = "physical"
    METADATA = "metadata"
    COMPUTED = "computed"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        type: the type; of a computed column, that of its expression.
        time: the kind of time attribute, from a watermark or ``PROCTIME()``.
        expression: the expression of a computed column, as text with quoted names.
        key: the key of a metadata column, if it differs from the name.
        is_virtual: whether a metadata column is read-only (``VIRTUAL``).
    """

    name: str
    type: LogicalType
    kind: ColumnKind = ColumnKind.PHYSICAL
    time: TimeAttribute | None = None
    expression: str | None = None
    key: str | None = None
    is_virtual: bool = False
    comment: str | None = None

    @property
    def is_persisted(self) -> bool:
        """Return whether ``INSERT`` writes it."""
        return self.kind is ColumnKind.PHYSICAL or (self.kind is ColumnKind.METADATA and not self.is_virtual)

    @property
    def metadata_key(self) -> str:
        """The connector's key of a metadata column."""
        return self.key or self.name

    @property
    def as_field(self) -> Field:
        """The column in a schema."""
        return Field(self.name, self.type, self.time)


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """``WATERMARK FOR column AS expression``, with the type of the expression."""

    column: str
    expression: str
    type: LogicalType


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """``CONSTRAINT name PRIMARY KEY (columns) NOT ENFORCED``."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """``DISTRIBUTED BY kind(columns) INTO buckets BUCKETS``."""

    kind: str | None
    columns: tuple[str, ...]
    buckets: int | None


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table.

    Attributes:
        options: the options of ``WITH``, in their order.
        partitions: those that ALTER TABLE has added, as the names and values of their columns.
        materialization: the query that fills a materialized table, and its refresh; None for other tables.
        inline: the source of the rows of a table without a connector; such a table is temporary.
    """

    columns: tuple[Column, ...]
    options: tuple[tuple[str, str], ...] = ()
    primary_key: PrimaryKey | None = None
    watermark: WatermarkSpec | None = None
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    distribution: Distribution | None = None
    partitions: tuple[tuple[tuple[str, str], ...], ...] = ()
    materialization: Materialization | None = None
    inline: Any = field(default=None, compare=False)

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return Schema(tuple(column.as_field for column in self.columns))

    def column(self, name: str) -> Column | None:
        """The column of a name."""
        return next((column for column in self.columns if column.name == name), None)

    def option(self, key: str) -> str | None:
        """The value of an option."""
        return next((value for name, value in self.options if name == key), None)

    @property
    def connector_options(self) -> tuple[tuple[str, str], ...]:
        """The options without those that say how a materialized table is refreshed."""
        if self.materialization is None:
            return self.options
        return tuple((key, value) for key, value in self.options if not is_of_partitions(key))

    def with_options(self, changes: dict[str, str]) -> "CatalogTable":
        """The table with some options changed or added; new ones come last."""
        return replace(self, options=tuple((dict(self.options) | changes).items()))


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A view.

    Attributes:
        query: its expanded text, with full and quoted names.
        original: its text as written.
    """

    columns: tuple[Column, ...]
    query: str
    original: str
    comment: str | None = None

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return Schema(tuple(column.as_field for column in self.columns))


@dataclass(frozen=True, slots=True)
class CatalogFunction:
    """A user-defined function: ``module.name`` of Python.

    Attributes:
        inline: the function itself, where a program has registered it; such a function is temporary.
    """

    class_name: str
    language: str = "PYTHON"
    inline: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Database:
    """A database, with its comment and properties."""

    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


TableLike = CatalogTable | CatalogView


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model, with its input and output columns."""

    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogDescription:
    """The options and the comment with which a catalog was created."""

    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
