"""``TypeInformation``: what headrace knows about the values of a stream or a state."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import UnionType
from typing import Any, ClassVar, Final, Generic

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import (
    MAX_LENGTH,
    MICROSECONDS,
    ArrayType,
    AtomicType,
    IntervalType,
    IntervalUnit,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    TypeRoot,
)
from headrace.common.type_variables import K, T, T_co, V

Json = dict[str, Any]
"""A JSON object made of dicts, lists, strings, numbers and booleans."""


@dataclass(frozen=True, slots=True, repr=False)
class TypeInformation(ABC, Generic[T_co]):
    """Describes the values of a stream, a field, a key or a state: what they are in Python, of a logical type.

    Instances are immutable, hashable and picklable, and equal when they describe the same values. They are made by
    :class:`~headrace.common.typeinfo.Types`. Every value may be ``None``, except a record of a composite type as a
    whole when it travels in a stream, the elements of a primitive array, and values whose logical type is ``NOT NULL``.

    Examples:
        >>> from headrace.common import Types
        >>> payment = Types.ROW_NAMED(["card", "amount"], [str, float])
        >>> payment
        RowTypeInfo(card: String, amount: Double)
        >>> payment.get_field_names()
        ['card', 'amount']
        >>> payment.arrow_type
        StructType(struct<card: string, amount: double>)
        >>> payment.logical_type
        ROW<`card` STRING, `amount` DOUBLE>
    """

    nullable: bool = field(default=True, kw_only=True)
    """True where ``None`` is among the values."""

    @property
    @abstractmethod
    def logical_type(self) -> LogicalType:
        """Return what the values are, whatever they look like in Python."""

    @property
    def arrow_type(self) -> pa.DataType | None:
        """The Arrow type of the values, or ``None`` for pickled Python objects (and only for those)."""
        return self.storage_type

    @property
    @abstractmethod
    def is_immutable(self) -> bool:
        """Return whether it is known beforehand that no value of this type can be changed in place."""

    @abstractmethod
    def to_json(self) -> Json:
        """A stable description, equal for types whose values are stored alike under the same names.

        Classes appear by their name and fields, never by reference, so that a description outlives the program.
        """

    @property
    def storage_type(self) -> pa.DataType:
        """The Arrow type of a column that holds such values: :attr:`arrow_type`, or binary for pickles."""
        return _storage_of(self)

    @property
    def is_composite(self) -> bool:
        """Return whether a value consists of fields that are stored as columns of their own."""
        return False

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, which are also those of the columns; empty unless composite."""
        return ()

    @property
    def field_types(self) -> "tuple[TypeInformation, ...]":
        """The types of the fields; empty unless composite."""
        return ()

    def field_index(self, field: str | int) -> int:
        """Return where a field is, given by name or by position (negative ones count from the end).

        Raises:
            InvalidTypeError: when there is no such field; the message lists those that exist.
        """
        names = self.field_names
        if isinstance(field, str) and field in names:
            return names.index(field)
        if isinstance(field, int) and not isinstance(field, bool) and -len(names) <= field < len(names):
            return field % len(names)
        known = f"its fields are {', '.join(map(repr, names))}" if names else "it has no fields"
        raise InvalidTypeError(f"{self} has no field {field!r}: {known}")

    def get_field_names(self) -> list[str]:
        """The names of the fields, as PyFlink gives them."""
        return list(self.field_names)

    def get_field_types(self) -> "list[TypeInformation]":
        """The types of the fields, as PyFlink gives them."""
        return list(self.field_types)

    def get_field_index(self, field_name: str) -> int:
        """Return where a field is, or -1 when there is none of that name (PyFlink's convention)."""
        return self.field_names.index(field_name) if field_name in self.field_names else -1

    @abstractmethod
    def _spelled(self) -> str:
        """Flink's spelling of the type, nullable."""

    def __str__(self) -> str:
        return self._spelled() if self.nullable else f"{self._spelled()} NOT NULL"

    def __repr__(self) -> str:
        return str(self)


@lru_cache(maxsize=1024)  # it is asked of each batch, and takes a millisecond for a wide row
def _storage_of(info: TypeInformation) -> pa.DataType:
    return info.logical_type.arrow_type


DeclaredType = TypeInformation[T] | type[T] | UnionType | Sequence[TypeInformation]
"""The forms of a type in a program: also a class, a type hint, or a list of types, which is a row as in PyFlink.

Checkers know what values it stands for when it is type information of a known class, or a class.
"""


class BasicType(Enum):
    """The kinds of simple values: how they look in Python. The value is Flink's spelling.

    The name is that of the factory in ``Types``. The last five have none: they are there for types of SQL.

    Examples:
        >>> from headrace.common.typeinfo import BasicType, BasicTypeInfo
        >>> BasicTypeInfo(BasicType.SHORT)
        Short
    """

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    BYTES = "PrimitiveArrayTypeInfo<Byte>"
    INSTANT = "Instant"
    SQL_DATE = "DateTypeInfo"
    SQL_TIME = "TimeTypeInfo"
    SQL_TIMESTAMP = "TimestampTypeInfo"
    TIMESTAMP_LTZ = "TimestampLtzTypeInfo"
    DECIMAL = "DecimalTypeInfo"
    TIMESTAMP_NANOS = "TimestampNanosTypeInfo"
    MONTHS = "MonthsTypeInfo"
    TIMEDELTA = "TimedeltaTypeInfo"
    NULL = "NullTypeInfo"


WHOLE_NUMBERS: Final = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG})
"""Integers of 8 to 64 bits."""

FLOATS: Final = frozenset({BasicType.FLOAT, BasicType.DOUBLE})

STRINGS: Final = frozenset({BasicType.STRING, BasicType.CHAR})


def _atomic(root: TypeRoot, size: int | None = None) -> LogicalType:
    return AtomicType(root, size)


_LOGICAL: Final[dict[BasicType, LogicalType]] = {
    BasicType.STRING: _atomic(TypeRoot.VARCHAR, MAX_LENGTH),
    BasicType.BYTE: _atomic(TypeRoot.TINYINT),
    BasicType.BOOLEAN: _atomic(TypeRoot.BOOLEAN),
    BasicType.SHORT: _atomic(TypeRoot.SMALLINT),
    BasicType.INT: _atomic(TypeRoot.INTEGER),
    BasicType.LONG: _atomic(TypeRoot.BIGINT),
    BasicType.FLOAT: _atomic(TypeRoot.FLOAT),
    BasicType.DOUBLE: _atomic(TypeRoot.DOUBLE),
    BasicType.CHAR: _atomic(TypeRoot.CHAR),
    BasicType.BIG_INT: RawType("int", "digits"),
    BasicType.BIG_DEC: RawType("decimal.Decimal", "digits"),
    BasicType.BYTES: _atomic(TypeRoot.VARBINARY, MAX_LENGTH),
    BasicType.INSTANT: _atomic(TypeRoot.TIMESTAMP_LTZ, 9),
    BasicType.SQL_DATE: _atomic(TypeRoot.DATE),
    BasicType.SQL_TIME: _atomic(TypeRoot.TIME, MICROSECONDS),
    BasicType.SQL_TIMESTAMP: _atomic(TypeRoot.TIMESTAMP),
    BasicType.TIMESTAMP_LTZ: _atomic(TypeRoot.TIMESTAMP_LTZ),
    BasicType.DECIMAL: _atomic(TypeRoot.DECIMAL),
    BasicType.TIMESTAMP_NANOS: _atomic(TypeRoot.TIMESTAMP, 9),
    BasicType.MONTHS: IntervalType(IntervalUnit.YEAR_TO_MONTH),
    BasicType.TIMEDELTA: IntervalType(IntervalUnit.DAY_TO_SECOND),
    BasicType.NULL: _atomic(TypeRoot.NULL),
}
"""The types of kinds of values in SQL, where nothing else is declared."""


@dataclass(frozen=True, slots=True, repr=False)
class BasicTypeInfo(TypeInformation[T_co]):
    """A simple value that is one column.

    Examples:
        >>> from headrace.common import Types
        >>> Types.DOUBLE().basic_type
        <BasicType.DOUBLE: 'Double'>
        >>> Types.DOUBLE().arrow_type
        DataType(double)
    """

    basic_type: BasicType
    declared: LogicalType | None = None
    """The type of the values in SQL, nullable; None for that of their kind."""

    def __post_init__(self) -> None:
        if self.declared is not None:
            object.__setattr__(self, "nullable", self.nullable and self.declared.nullable)
            nullable = self.declared.as_nullable()
            object.__setattr__(self, "declared", None if nullable == _LOGICAL[self.basic_type] else nullable)

    @property
    def logical_type(self) -> LogicalType:
        found = self.declared or _LOGICAL[self.basic_type]
        return found if self.nullable else found.not_null()

    @property
    def arrow_type(self) -> pa.DataType:
        return self.storage_type

    @property
    def is_immutable(self) -> bool:
        return True

    def to_json(self) -> Json:
        described: Json = {"type": self.basic_type.name}
        logical = self.logical_type
        if isinstance(logical, AtomicType) and logical.scale is not None:
            return {**described, "precision": logical.size, "scale": logical.scale}
        return described

    def _spelled(self) -> str:
        return self.basic_type.value if self.declared is None else str(self.declared)


PICKLED: Final = "PICKLED_BYTE_ARRAY"
"""The type of any Python object in types as JSON."""


@dataclass(frozen=True, slots=True, repr=False)
class PickledBytesTypeInfo(TypeInformation[Any]):
    """Any Python object, stored as one pickle: what a value is when nothing is known about it.

    Examples:
        >>> from typing import Any
        >>> from headrace.common import Types
        >>> Types.of(Any)
        PickledByteArrayTypeInfo
    """

    @property
    def logical_type(self) -> LogicalType:
        return RawType(nullable=self.nullable)

    @property
    def arrow_type(self) -> None:
        return None

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": PICKLED}

    def _spelled(self) -> str:
        return "PickledByteArrayTypeInfo"


_PRIMITIVES: Final = frozenset(
    BasicTypeInfo(kind) for kind in {BasicType.BOOLEAN, BasicType.CHAR} | WHOLE_NUMBERS | FLOATS
)


@dataclass(frozen=True, slots=True, repr=False)
class SequenceTypeInfo(TypeInformation[list[T]]):
    """Values that are lists of elements of one type. They are given back as lists.

    Examples:
        >>> from headrace.common import Types
        >>> Types.LIST(Types.STRING()).element_type
        String
    """

    element_type: TypeInformation[T]

    tag: ClassVar[str]
    spelling: ClassVar[str]
    nullable_elements: ClassVar[bool] = True
    allowed_elements: ClassVar[frozenset[BasicTypeInfo] | None] = None

    def __post_init__(self) -> None:
        allowed = self.allowed_elements
        if allowed is not None and self.element_type not in allowed:
            names = ", ".join(sorted(info.basic_type.name for info in allowed))
            raise InvalidTypeError(f"Types.{self.tag} takes one of {names}, not {self.element_type}: use Types.LIST")

    @property
    def logical_type(self) -> LogicalType:
        element = self.element_type.logical_type
        return ArrayType(element if self.nullable_elements else element.not_null(), nullable=self.nullable)

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": self.tag, "element": self.element_type.to_json()}

    def _spelled(self) -> str:
        return f"{self.spelling}<{self.element_type}>"


class ListTypeInfo(SequenceTypeInfo[T]):
    """A Python list.

    Examples:
        >>> from headrace.common import Types
        >>> Types.LIST(Types.LONG()) == Types.of(list[int])
        True
    """

    __slots__ = ()
    tag = "LIST"
    spelling = "ListTypeInfo"


class ObjectArrayTypeInfo(SequenceTypeInfo[T]):
    """An array of anything, with ``None`` where an element is missing.

    Examples:
        >>> from headrace.common import Types
        >>> Types.OBJECT_ARRAY(Types.STRING())
        ObjectArrayTypeInfo<String>
    """

    __slots__ = ()
    tag = "OBJECT_ARRAY"
    spelling = "ObjectArrayTypeInfo"


class BasicArrayTypeInfo(SequenceTypeInfo[T]):
    """An array of numbers or strings, with ``None`` where an element is missing.

    Examples:
        >>> from headrace.common import Types
        >>> Types.BASIC_ARRAY(Types.STRING())
        BasicArrayTypeInfo<String>
    """

    __slots__ = ()
    tag = "BASIC_ARRAY"
    spelling = "BasicArrayTypeInfo"
    allowed_elements = _PRIMITIVES | {BasicTypeInfo(BasicType.STRING)}


class PrimitiveArrayTypeInfo(SequenceTypeInfo[T]):
    """An array of numbers, none of them missing.

    Examples:
        >>> from headrace.common import Types
        >>> Types.PRIMITIVE_ARRAY(Types.DOUBLE())
        PrimitiveArrayTypeInfo<Double>
    """

    __slots__ = ()
    tag = "PRIMITIVE_ARRAY"
    spelling = "PrimitiveArrayTypeInfo"
    nullable_elements = False
    allowed_elements = _PRIMITIVES


@dataclass(frozen=True, slots=True, repr=False)
class MapTypeInfo(TypeInformation[dict[K, V]]):
    """A dict whose keys are of one type, none of them ``None``, and whose values are of one type.

    Examples:
        >>> from headrace.common import Types
        >>> Types.of(dict[str, int]).value_type
        Long
    """

    key_type: TypeInformation[K]
    value_type: TypeInformation[V]

    tag: ClassVar[str] = "MAP"

    @property
    def logical_type(self) -> LogicalType:
        return MapType(self.key_type.logical_type, self.value_type.logical_type, nullable=self.nullable)

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": self.tag, "key": self.key_type.to_json(), "value": self.value_type.to_json()}

    def _spelled(self) -> str:
        return f"MapTypeInfo<{self.key_type}, {self.value_type}>"


class MultisetTypeInfo(MapTypeInfo[T, int]):
    """A dict that says how often each element is there.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.common.logical_types import MultisetType, string
        >>> Types.of(MultisetType(string())).to_json()
        {'type': 'MULTISET', 'key': {'type': 'STRING'}, 'value': {'type': 'INT'}}
    """

    __slots__ = ()
    tag = "MULTISET"

    @property
    def logical_type(self) -> LogicalType:
        return MultisetType(self.key_type.logical_type, nullable=self.nullable)
