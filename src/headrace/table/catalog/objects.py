"""The objects of a catalog, as immutable values: what ``CREATE`` makes and ``SHOW CREATE`` shows."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from headrace.common.logical_types import LogicalType
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
        type: of a computed column, that of its expression.
        time: which time attribute it is, by a watermark or by ``PROCTIME()``.
        expression: of a computed column, as a text in which all names are quoted.
        key: of metadata, the connector's name for it where it is another one than the column's.
        is_virtual: of metadata, whether it is only read.
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
        """The connector's name for a column of metadata."""
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
        options: of ``WITH``, in their order.
        inline: what the rows come from where no options say it; such a table is a temporary one.
    """

    columns: tuple[Column, ...]
    options: tuple[tuple[str, str], ...] = ()
    primary_key: PrimaryKey | None = None
    watermark: WatermarkSpec | None = None
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    distribution: Distribution | None = None
    inline: Any = field(default=None, compare=False)

    @property
    def schema(self) -> Schema:
        """The columns as queries see them."""
        return Schema(tuple(column.as_field for column in self.columns))

    def column(self, name: str) -> Column | None:
        """The column of a name."""
        return next((column for column in self.columns if column.name == name), None)

    def option(self, key: str) -> str | None:
        """The value of an option."""
        return next((value for name, value in self.options if name == key), None)

    def with_options(self, changes: dict[str, str]) -> "CatalogTable":
        """The table with other values of some options; new ones come last."""
        return replace(self, options=tuple((dict(self.options) | changes).items()))


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A view.

    Attributes:
        query: its text, in which all names are paths and quoted.
        original: its text as it was written.
    """

    columns: tuple[Column, ...]
    query: str
    original: str
    comment: str | None = None

    @property
    def schema(self) -> Schema:
        """The columns as queries see them."""
        return Schema(tuple(column.as_field for column in self.columns))


@dataclass(frozen=True, slots=True)
class CatalogFunction:
    """A function of a user: ``module.name`` of Python."""

    class_name: str
    language: str = "PYTHON"


@dataclass(frozen=True, slots=True)
class Database:
    """A database, with its comment and properties."""

    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


TableLike = CatalogTable | CatalogView


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model: the columns that it takes and gives."""

    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogDescription:
    """The options and the comment with which a catalog was created."""

    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
