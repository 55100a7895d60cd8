"""Types of values without parts: numbers, strings, times, and pickled objects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from headrace.common.type_variables import T_co
from headrace.common.typeinfo.base import Json, TypeInformation


class BasicType(Enum):
    """The kinds of simple values; the name is that of the factory in ``Types``, the value Flink's spelling.

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


WHOLE_NUMBERS: Final = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG})
"""Integers of 8 to 64 bits."""

FLOATS: Final = frozenset({BasicType.FLOAT, BasicType.DOUBLE})

STRINGS: Final = frozenset({BasicType.STRING, BasicType.CHAR})

_ARROW: Final[dict[BasicType, pa.DataType]] = {
    BasicType.STRING: pa.string(),
    BasicType.BYTE: pa.int8(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.CHAR: pa.string(),
    # Digits as text: no fixed width holds every integer, and Decimal("1.00") must not come back as Decimal("1").
    BasicType.BIG_INT: pa.string(),
    BasicType.BIG_DEC: pa.string(),
    BasicType.BYTES: pa.binary(),
    BasicType.INSTANT: pa.timestamp("ns", "UTC"),
    BasicType.SQL_DATE: pa.date32(),
    BasicType.SQL_TIME: pa.time64("us"),
    BasicType.SQL_TIMESTAMP: pa.timestamp("us"),
    BasicType.TIMESTAMP_LTZ: pa.timestamp("us", "UTC"),
}


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

    @property
    def arrow_type(self) -> pa.DataType:
        return _ARROW[self.basic_type]

    @property
    def is_immutable(self) -> bool:
        return True

    def to_json(self) -> Json:
        return {"type": self.basic_type.name}

    def __str__(self) -> str:
        return self.basic_type.value


PICKLED: Final = "PICKLED_BYTE_ARRAY"
"""What types as JSON say of any Python object."""


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
    def arrow_type(self) -> None:
        return None

    @property
    def is_immutable(self) -> bool:
        return False

    def to_json(self) -> Json:
        return {"type": PICKLED}

    def __str__(self) -> str:
        return "PickledByteArrayTypeInfo"
