"""Data types in syntax trees, which the binder turns into logical types."""

from dataclasses import dataclass
from enum import Enum

from headrace.table.parse.tree.node import Name, Path, SqlNode


class TypeWord(Enum):
    """The types that are keywords; the value is Flink's name."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    STRING = "STRING"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BITMAP = "BITMAP"
    ANY = "ANY"
    GEOMETRY = "GEOMETRY"


class TimeUnit(Enum):
    """The units of intervals, of ``EXTRACT``, and of functions that round and count times."""

    NANOSECOND = "NANOSECOND"
    MICROSECOND = "MICROSECOND"
    MILLISECOND = "MILLISECOND"
    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    DOW = "DOW"
    DOY = "DOY"
    ISODOW = "ISODOW"
    ISOYEAR = "ISOYEAR"
    WEEK = "WEEK"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"
    EPOCH = "EPOCH"
    DECADE = "DECADE"
    CENTURY = "CENTURY"
    MILLENNIUM = "MILLENNIUM"


@dataclass(frozen=True, slots=True)
class IntervalQualifier(SqlNode):
    """The fields of an interval: ``DAY(3) TO SECOND(6)``.

    Attributes:
        first: its largest unit.
        last: its smallest one; None when it has one unit only.
        precision: the number of digits of the largest unit; None when not specified.
        fraction: the number of fractional digits of seconds; None when not specified.
    """

    first: TimeUnit
    last: TimeUnit | None = None
    precision: int | None = None
    fraction: int | None = None


@dataclass(frozen=True, slots=True)
class TypeSpec(SqlNode):
    """A data type; there is a class for each form.

    Attributes:
        nullable: True for ``NULL``, False for ``NOT NULL``, None when not specified.
    """

    nullable: bool | None


@dataclass(frozen=True, slots=True)
class AtomicTypeSpec(TypeSpec):
    """``DECIMAL(10, 2)``, ``TIMESTAMP(3)``: a word, and the numbers in parentheses.

    Attributes:
        size: its length or precision; None when not specified.
        scale: its scale; None when not specified.
    """

    word: TypeWord
    size: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class NamedTypeSpec(TypeSpec):
    """A type by name, as a user-defined one. The binder resolves it."""

    path: Path


@dataclass(frozen=True, slots=True)
class CollectionTypeSpec(TypeSpec):
    """``ARRAY<t>`` or ``t ARRAY``, ``MULTISET<t>`` or ``t MULTISET``."""

    element: TypeSpec
    is_multiset: bool


@dataclass(frozen=True, slots=True)
class MapTypeSpec(TypeSpec):
    """``MAP<key, value>``."""

    key: TypeSpec
    value: TypeSpec


@dataclass(frozen=True, slots=True)
class RowTypeField(SqlNode):
    """A field of a row type."""

    name: Name
    type: TypeSpec
    comment: str | None


@dataclass(frozen=True, slots=True)
class RowTypeSpec(TypeSpec):
    """``ROW<name type 'comment', ...>`` or ``ROW(...)``; as ``STRUCTURED<'class', name type, ...>`` with the class."""

    fields: tuple[RowTypeField, ...]
    class_name: str | None = None


@dataclass(frozen=True, slots=True)
class RawTypeSpec(TypeSpec):
    """``RAW('class', 'serializer snapshot')``."""

    class_name: str
    serializer: str


@dataclass(frozen=True, slots=True)
class IntervalTypeSpec(TypeSpec):
    """``INTERVAL DAY TO SECOND``, which only casts can name."""

    qualifier: IntervalQualifier
