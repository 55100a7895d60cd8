"""Logical types: what values are, in the terms of SQL, whatever they look like in Python or in a file.

They are Flink's, with its limits, defaults and texts. Each has one Arrow type, in which columns hold its values
(:attr:`LogicalType.arrow_type`). What a program gets to see of them is the matter of
:class:`~headrace.common.typeinfo.TypeInformation`, which says a logical type and a class of Python, as Flink's
``DataType`` says a logical type and a class of Java.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import attrgetter
from typing import Final, Literal, Self

import pyarrow as pa

from headrace.common.errors import InvalidTypeError

MAX_LENGTH: Final = 2**31 - 1
"""The length of ``STRING`` and ``BYTES``, which are ``VARCHAR`` and ``VARBINARY`` of this length."""

MAX_PRECISION: Final = 38
"""The most digits of a ``DECIMAL``."""

MICROSECONDS: Final = 6
"""The precision up to which columns hold points in time in microseconds, as Python does; beyond, in nanoseconds."""

ROW_KIND_COLUMN: Final = "__row_kind"
"""The column of a changelog row's kind, after those of its fields."""


class TypeRoot(Enum):
    """The families of types without parts; the value is the name in SQL.

    Examples:
        >>> from headrace.common.logical_types import AtomicType, TypeRoot
        >>> AtomicType(TypeRoot.INTEGER)
        INT
    """

    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BITMAP = "BITMAP"


_ARROW: Final = {
    TypeRoot.NULL: pa.null(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INTEGER: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time64("us"),
    TypeRoot.VARIANT: pa.string(),  # JSON, with the names of objects in order
    TypeRoot.BITMAP: pa.binary(),  # the portable format of Roaring bitmaps
}

_SIZES: Final = {
    TypeRoot.DECIMAL: ("precision", 1, MAX_PRECISION, 10),
    **dict.fromkeys((TypeRoot.CHAR, TypeRoot.VARCHAR), ("length", 0, MAX_LENGTH, 1)),
    **dict.fromkeys((TypeRoot.BINARY, TypeRoot.VARBINARY), ("length", 0, MAX_LENGTH, 1)),
    TypeRoot.TIME: ("precision", 0, 9, 0),
    TypeRoot.TIMESTAMP: ("precision", 0, 9, MICROSECONDS),
    TypeRoot.TIMESTAMP_LTZ: ("precision", 0, 9, MICROSECONDS),
}
"""By root: what its size is called, the least, the largest and the default one. The empty literal has length 0."""

_UNBOUNDED: Final = {TypeRoot.VARCHAR: "STRING", TypeRoot.VARBINARY: "BYTES"}


@dataclass(frozen=True, slots=True, repr=False)
class LogicalType(ABC):
    """A type of SQL. ``str()`` is Flink's summary of it, which schemas and plans show.

    Types are equal when they are of the same values, and both nullable or both not.

    Attributes:
        nullable: whether NULL is among its values.

    Examples:
        >>> from headrace.common.logical_types import ArrayType, decimal, string
        >>> ArrayType(decimal(10, 2).not_null())
        ARRAY<DECIMAL(10, 2) NOT NULL>
        >>> string().arrow_type
        DataType(string)
    """

    nullable: bool = field(default=True, kw_only=True)

    @property
    @abstractmethod
    def arrow_type(self) -> pa.DataType:
        """The type of columns that hold its values. All columns are nullable, whether the type is or not."""

    @property
    def children(self) -> "tuple[LogicalType, ...]":
        """The types of its parts."""
        return ()

    @abstractmethod
    def _text(self, *, in_full: bool) -> str:
        """Its text without the nullability; ``in_full`` as DDL has it, and not the summary."""

    def not_null(self) -> Self:
        """The type of the same values without NULL."""
        return replace(self, nullable=False)

    def as_nullable(self) -> Self:
        """The type of the same values and NULL."""
        return replace(self, nullable=True)

    def as_sql(self) -> str:
        """Its text in DDL, which Flink calls the serializable string: nothing is shortened, no name is a short form."""
        return self._text(in_full=True) + self._nullability

    @property
    def _nullability(self) -> str:
        return "" if self.nullable else " NOT NULL"

    def __str__(self) -> str:
        return self._text(in_full=False) + self._nullability

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, repr=False)
class AtomicType(LogicalType):
    """A type without parts.

    Args:
        root: its family.
        size: its length or precision; the default of SQL when left out.
        scale: of ``DECIMAL``, how many digits are behind the point; 0 when left out.

    Raises:
        InvalidTypeError: when the family has no such size.

    Examples:
        >>> from headrace.common.logical_types import AtomicType, TypeRoot
        >>> AtomicType(TypeRoot.TIMESTAMP, 3, nullable=False)
        TIMESTAMP(3) NOT NULL
        >>> AtomicType(TypeRoot.TIMESTAMP_LTZ).as_sql()
        'TIMESTAMP(6) WITH LOCAL TIME ZONE'
    """

    root: TypeRoot
    size: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        name = self.root.value
        if self.root in _SIZES:
            noun, least, largest, default = _SIZES[self.root]
            size = default if self.size is None else self.size
            _expect_between(f"the {noun} of {name}", size, least, largest)
            object.__setattr__(self, "size", size)
            if self.root is TypeRoot.DECIMAL:
                scale = self.scale or 0
                _expect_between(f"the scale of {name}({size}, {scale})", scale, 0, size)
                object.__setattr__(self, "scale", scale)
        if (self.size is not None and self.root not in _SIZES) or (
            self.scale is not None and self.root is not TypeRoot.DECIMAL
        ):
            raise InvalidTypeError(f"{name} has no such precision or scale: {self.size}, {self.scale}")

    @property
    def arrow_type(self) -> pa.DataType:
        if self.root is TypeRoot.DECIMAL:
            return pa.decimal128(self.size, self.scale)
        if self.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
            unit = "ns" if self.has_nanoseconds else "us"
            return pa.timestamp(unit, "UTC" if self.root is TypeRoot.TIMESTAMP_LTZ else None)
        return _ARROW[self.root]

    @property
    def has_nanoseconds(self) -> bool:
        """Return whether it is a point in time of more digits than Python's datetimes have."""
        is_time = self.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
        return is_time and self.size is not None and self.size > MICROSECONDS

    def _text(self, *, in_full: bool) -> str:
        name = self.root.value
        if self.size is None:
            return name
        if self.size == MAX_LENGTH and self.root in _UNBOUNDED and not in_full:
            return _UNBOUNDED[self.root]
        if self.root is TypeRoot.DECIMAL:
            return f"{name}({self.size}, {self.scale})"
        if self.root is TypeRoot.TIMESTAMP_LTZ and in_full:
            return f"TIMESTAMP({self.size}) WITH LOCAL TIME ZONE"
        return f"{name}({self.size})"


class IntervalUnit(Enum):
    """The fields of an interval; the value is its text, in which ``{0}`` and ``{1}`` stand for its precisions.

    Examples:
        >>> from headrace.common.logical_types import IntervalType, IntervalUnit
        >>> IntervalType(IntervalUnit.DAY_TO_SECOND, 3, 0)
        INTERVAL DAY(3) TO SECOND(0)
    """

    YEAR = "YEAR({0})"
    YEAR_TO_MONTH = "YEAR({0}) TO MONTH"
    MONTH = "MONTH"
    DAY = "DAY({0})"
    DAY_TO_HOUR = "DAY({0}) TO HOUR"
    DAY_TO_MINUTE = "DAY({0}) TO MINUTE"
    DAY_TO_SECOND = "DAY({0}) TO SECOND({1})"
    HOUR = "HOUR"
    HOUR_TO_MINUTE = "HOUR TO MINUTE"
    HOUR_TO_SECOND = "HOUR TO SECOND({1})"
    MINUTE = "MINUTE"
    MINUTE_TO_SECOND = "MINUTE TO SECOND({1})"
    SECOND = "SECOND({1})"

    @property
    def is_of_months(self) -> bool:
        """Return whether it counts years and months, and not days and seconds."""
        return self in (IntervalUnit.YEAR, IntervalUnit.YEAR_TO_MONTH, IntervalUnit.MONTH)


@dataclass(frozen=True, slots=True, repr=False)
class IntervalType(LogicalType):
    """An amount of time: a number of months, or of microseconds.

    Args:
        unit: which fields it has.
        precision: how many digits the years or days have.
        fraction: how many digits the seconds have behind the point.

    Raises:
        InvalidTypeError: when it has no such precision.

    Examples:
        >>> from headrace.common.logical_types import IntervalType, IntervalUnit
        >>> IntervalType(IntervalUnit.YEAR_TO_MONTH)
        INTERVAL YEAR(2) TO MONTH
        >>> IntervalType(IntervalUnit.SECOND).arrow_type
        DurationType(duration[us])
    """

    unit: IntervalUnit
    precision: int = 2
    fraction: int = 6

    def __post_init__(self) -> None:
        text, most = self.unit.value, 4 if self.unit.is_of_months else 6
        low, high = (1, most) if "{0}" in text else (2, 2)
        _expect_between(f"the precision of INTERVAL {text.format('p', 's')}", self.precision, low, high)
        low, high = (0, 9) if "{1}" in text else (6, 6)
        _expect_between(f"the fraction of INTERVAL {text.format('p', 's')}", self.fraction, low, high)

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.int32() if self.unit.is_of_months else pa.duration("us")

    def _text(self, *, in_full: bool) -> str:
        return f"INTERVAL {self.unit.value.format(self.precision, self.fraction)}"


@dataclass(frozen=True, slots=True, repr=False)
class ArrayType(LogicalType):
    """Any number of elements of one type.

    Examples:
        >>> from headrace.common.logical_types import ArrayType, string
        >>> ArrayType(string(), nullable=False)
        ARRAY<STRING> NOT NULL
    """

    element: LogicalType

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return (self.element,)

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.list_(self.element.arrow_type)

    def _text(self, *, in_full: bool) -> str:
        return f"ARRAY<{_shown(self.element, in_full=in_full)}>"


@dataclass(frozen=True, slots=True, repr=False)
class MapType(LogicalType):
    """Values by keys. A column holds no NULL among the keys, whatever their type says.

    Examples:
        >>> from headrace.common.logical_types import MapType, bigint, string
        >>> MapType(string(), bigint())
        MAP<STRING, BIGINT>
    """

    key: LogicalType
    value: LogicalType

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return self.key, self.value

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.map_(self.key.arrow_type, self.value.arrow_type)

    def _text(self, *, in_full: bool) -> str:
        return f"MAP<{_shown(self.key, in_full=in_full)}, {_shown(self.value, in_full=in_full)}>"


@dataclass(frozen=True, slots=True, repr=False)
class MultisetType(LogicalType):
    """A bag of elements: a column holds each of them once, with how often it is there.

    Examples:
        >>> from headrace.common.logical_types import MultisetType, string
        >>> MultisetType(string())
        MULTISET<STRING>
    """

    element: LogicalType

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return (self.element,)

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.map_(self.element.arrow_type, pa.int32())

    def _text(self, *, in_full: bool) -> str:
        return f"MULTISET<{_shown(self.element, in_full=in_full)}>"


@dataclass(frozen=True, slots=True, repr=False)
class RowType(LogicalType):
    """Fields of different types, each with a name.

    Args:
        names: the names of the fields.
        types: their types.
        descriptions: what DDL says of them; None for nothing, and an empty tuple for nothing of any.
        changelog: whether values keep what they do in a changelog, in a column after those of the fields. It is no
            matter of SQL, and no text shows it.

    Raises:
        InvalidTypeError: when a name is empty or comes twice, or there are not as many names as types.

    Examples:
        >>> from headrace.common.logical_types import RowType, bigint, string
        >>> RowType(("user", "clicks"), (string(), bigint().not_null()))
        ROW<`user` STRING, `clicks` BIGINT NOT NULL>
    """

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    descriptions: tuple[str | None, ...] = ()
    changelog: bool = False

    def __post_init__(self) -> None:
        if len(self.names) != len(self.types) or (self.descriptions and len(self.descriptions) != len(self.types)):
            raise InvalidTypeError(f"a ROW got {len(self.names)} field names for {len(self.types)} field types")
        if not all(self.names) or len(set(self.names)) < len(self.names):
            wrong = next(name for name in self.names if not name or self.names.count(name) > 1)
            raise InvalidTypeError(f"the fields of a ROW have names, and different ones: got {wrong!r}")

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return self.types

    @property
    def arrow_type(self) -> pa.DataType:
        fields = list(map(pa.field, self.names, map(attrgetter("arrow_type"), self.types)))
        return pa.struct([*fields, pa.field(ROW_KIND_COLUMN, pa.int8())] if self.changelog else fields)

    def _text(self, *, in_full: bool) -> str:
        fields = []
        for index, (name, kind) in enumerate(zip(self.names, self.types, strict=True)):
            said = self.descriptions[index] if self.descriptions else None
            words = ["`" + name.replace("`", "``") + "`", _shown(kind, in_full=in_full)]
            if said is not None:
                words.append("'" + said.replace("'", "''") + "'" if in_full else "'...'")
            fields.append(" ".join(words))
        return f"ROW<{', '.join(fields)}>"


@dataclass(frozen=True, slots=True, repr=False)
class StructuredType(LogicalType):
    """Fields of different types that are a value of a class, as ``OBJECT_OF`` makes it.

    Examples:
        >>> from headrace.common.logical_types import StructuredType, bigint, string
        >>> StructuredType("Visit", ("user", "clicks"), (string(), bigint().not_null()))
        STRUCTURED<'Visit', `user` STRING, `clicks` BIGINT NOT NULL>
    """

    class_name: str
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]

    @property
    def fields(self) -> RowType:
        """A row of the same fields."""
        return RowType(self.names, self.types)

    @property
    def children(self) -> tuple[LogicalType, ...]:
        return self.types

    @property
    def arrow_type(self) -> pa.DataType:
        return self.fields.arrow_type

    def _text(self, *, in_full: bool) -> str:
        fields = self.fields._text(in_full=in_full).removeprefix("ROW<")
        return f"STRUCTURED<'{self.class_name}', {fields}"


@dataclass(frozen=True, slots=True, repr=False)
class RawType(LogicalType):
    """Values of a class of Python that SQL has no type for: any object, as a pickle, or a number of any size.

    Examples:
        >>> from headrace.common.logical_types import RawType
        >>> RawType(), RawType().as_sql()
        (RAW('object', ...), "RAW('object', 'pickle')")
    """

    class_name: str = "object"
    form: Literal["pickle", "digits"] = "pickle"

    @property
    def arrow_type(self) -> pa.DataType:
        # Digits as text: no fixed width holds every integer, and Decimal("1.00") must not come back as Decimal("1").
        return pa.binary() if self.form == "pickle" else pa.string()

    def _text(self, *, in_full: bool) -> str:
        return f"RAW('{self.class_name}', {repr(self.form) if in_full else '...'})"


def bigint() -> AtomicType:
    """``BIGINT``."""
    return AtomicType(TypeRoot.BIGINT)


def decimal(precision: int = 10, scale: int = 0) -> AtomicType:
    """``DECIMAL`` of so many digits, ``scale`` of them behind the point."""
    return AtomicType(TypeRoot.DECIMAL, precision, scale)


def string() -> AtomicType:
    """``STRING``: ``VARCHAR`` of the largest length."""
    return AtomicType(TypeRoot.VARCHAR, MAX_LENGTH)


def _shown(part: LogicalType, *, in_full: bool) -> str:
    return part.as_sql() if in_full else str(part)


def _expect_between(what: str, value: int, least: int, largest: int) -> None:
    if not least <= value <= largest:
        raise InvalidTypeError(f"{what} is from {least} to {largest}, not {value}")
