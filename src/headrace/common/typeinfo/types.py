"""``Types``: where type information is made."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, overload

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo.base import DeclaredType, TypeInformation
from headrace.common.typeinfo.basic import BasicType, BasicTypeInfo
from headrace.common.typeinfo.collection import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from headrace.common.typeinfo.composite import RowTypeInfo, TupleTypeInfo
from headrace.common.typeinfo.hints import PICKLED, type_of_hint

if TYPE_CHECKING:
    from datetime import date, datetime, time
    from decimal import Decimal

    from headrace.common.row import Row
    from headrace.common.time import Instant
    from headrace.common.type_variables import K, T, V


class _TypesByName(type):
    """Says what to write in place of a name that is none of a type."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            raise AttributeError(no_such_type(name), name=name, obj=cls)


class Types(metaclass=_TypesByName):
    """Makes type information, under PyFlink's names.

    Wherever a type is asked for, a Python class or type hint does as well: ``Types.LIST(int)``. A value that does not
    fit the declared type is an error which names field and value; nothing is wrapped, rounded or cut silently.
    Where PyFlink lets a narrow integer wrap (43878 as ``SHORT`` becomes -21658), headrace refuses it.

    | type                | Python value                 | also accepted, given back as the Python value             |
    |---------------------|------------------------------|-----------------------------------------------------------|
    | BYTE SHORT INT LONG | int of 8, 16, 32, 64 bits    | numpy integers; not bool, not float                       |
    | DOUBLE              | float                        | numpy floats, integers that a double holds exactly        |
    | FLOAT               | float, rounded to 32 bits    | the same; not a finite number beyond the largest float    |
    | BOOLEAN             | bool                         | numpy bool; not 0 and 1                                   |
    | STRING, CHAR        | str, of one character        | subclasses of str; not bytes                              |
    | BYTES               | bytes                        | bytearray, memoryview; not str                            |
    | BIG_INT, BIG_DEC    | int, Decimal of any size     | numpy integers, int for BIG_DEC; not float                |
    | SQL_DATE, SQL_TIME  | date, time without zone      | not datetime for a date                                   |
    | SQL_TIMESTAMP       | datetime without zone        | numpy datetime64 of microseconds or coarser               |
    | TIMESTAMP_LTZ       | datetime with zone, in UTC   | datetimes with any zone                                   |
    | INSTANT             | Instant, 1677 to 2262        | nothing else                                              |
    | LIST and the arrays | list                         | tuple, array.array, numpy's arrays of one dimension       |
    | MAP                 | dict, no None among its keys | other mappings                                            |
    | TUPLE               | tuple                        | list, Row                                                 |
    | ROW, ROW_NAMED      | Row                          | tuple and list by position; dict by name, None if missing |

    Two things are not kept: the zone of a ``TIMESTAMP_LTZ``, and the ``fold`` of times, which no comparison looks at.

    Examples:
        >>> from dataclasses import dataclass
        >>> from headrace.common import Types
        >>> Types.MAP(Types.STRING(), Types.INT())
        MapTypeInfo<String, Integer>
        >>> Types.LIST(int)
        ListTypeInfo<Long>
        >>> @dataclass(frozen=True)
        ... class Payment:
        ...     card: str
        ...     amount: float
        >>> Types.of(Payment).get_field_names()
        ['card', 'amount']
    """

    @overload
    @staticmethod
    def of(kind: TypeInformation[T] | type[T]) -> TypeInformation[T]: ...
    @overload
    @staticmethod
    def of(kind: Any) -> TypeInformation[Any]: ...
    @staticmethod
    def of(kind: Any) -> TypeInformation[Any]:
        """The type information for ``kind``: itself, or what a class or type hint stands for.

        ``int`` is ``LONG``, ``float`` is ``DOUBLE``, ``datetime`` is ``SQL_TIMESTAMP``, ``list[X]``, ``dict[K, V]``
        and ``tuple[X, Y]`` are what one expects, ``Optional[X]`` is as ``X``. Dataclasses, named tuples and typed
        dicts become types that give back instances of the class. ``Annotated[X, info]`` is ``info``. What says too
        little (``Any``, a bare ``list``, a union, an unknown class) is pickled.

        Raises:
            InvalidTypeError: when ``kind`` is no type at all.
        """
        return type_of_hint(kind)

    @staticmethod
    def STRING() -> TypeInformation[str]:
        """A ``str``."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation[int]:
        """An ``int`` from -128 to 127."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:
        """A ``bool``."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation[int]:
        """An ``int`` of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation[int]:
        """An ``int`` of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation[int]:
        """An ``int`` of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation[float]:
        """A ``float`` that is rounded to 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:
        """A ``float``."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation[str]:
        """A ``str`` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BYTES() -> TypeInformation[bytes]:
        """A ``bytes``; the same type as ``PRIMITIVE_ARRAY(BYTE())``."""
        return BasicTypeInfo(BasicType.BYTES)

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:
        """An ``int`` of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:
        """A ``decimal.Decimal``, kept digit by digit."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:
        """An :class:`~headrace.common.time.Instant`, to the nanosecond."""
        return BasicTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation[date]:
        """A ``datetime.date``."""
        return BasicTypeInfo(BasicType.SQL_DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation[time]:
        """A ``datetime.time`` without time zone."""
        return BasicTypeInfo(BasicType.SQL_TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime]:
        """A ``datetime.datetime`` without time zone."""
        return BasicTypeInfo(BasicType.SQL_TIMESTAMP)

    @staticmethod
    def TIMESTAMP_LTZ() -> TypeInformation[datetime]:
        """A ``datetime.datetime`` with a time zone: a point in time, given back in UTC."""
        return BasicTypeInfo(BasicType.TIMESTAMP_LTZ)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:
        """Any Python object that can be pickled."""
        return PICKLED

    @staticmethod
    def ROW(field_types: Sequence[Any], *, changelog: bool = False) -> TypeInformation[Row]:
        """A :class:`~headrace.common.row.Row` whose fields have no names; ``changelog`` makes its kind a column."""
        return RowTypeInfo(_all(field_types), None, changelog)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str], field_types: Sequence[Any], *, changelog: bool = False
    ) -> TypeInformation[Row]:
        """A :class:`~headrace.common.row.Row` whose fields have names; ``changelog`` makes its kind a column."""
        return RowTypeInfo(_all(field_types), field_names, changelog)

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInformation[tuple[Any, ...]]:
        """A ``tuple`` with one value of each type."""
        return TupleTypeInfo(_all(field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation[Any]:
        """A list of numbers or booleans without ``None``; ``bytes`` when the elements are of type ``BYTE``."""
        element = type_of_hint(element_type)
        return Types.BYTES() if element == Types.BYTE() else PrimitiveArrayTypeInfo(element)

    @staticmethod
    def BASIC_ARRAY(element_type: DeclaredType[T]) -> TypeInformation[list[T]]:
        """A list of numbers, booleans or strings."""
        return BasicArrayTypeInfo(type_of_hint(element_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: DeclaredType[T]) -> TypeInformation[list[T]]:
        """A list of values of any type."""
        return ObjectArrayTypeInfo(type_of_hint(element_type))

    @staticmethod
    def LIST(element_type_info: DeclaredType[T]) -> TypeInformation[list[T]]:
        """A list."""
        return ListTypeInfo(type_of_hint(element_type_info))

    @staticmethod
    def MAP(key_type_info: DeclaredType[K], value_type_info: DeclaredType[V]) -> TypeInformation[dict[K, V]]:
        """A dict."""
        return MapTypeInfo(type_of_hint(key_type_info), type_of_hint(value_type_info))


def _all(kinds: Sequence[Any]) -> tuple[TypeInformation, ...]:
    if isinstance(kinds, str | TypeInformation | type):
        raise InvalidTypeError(f"expected a list of field types, got {kinds!r}")
    return tuple(map(type_of_hint, kinds))


def no_such_type(name: str) -> str | None:
    """The words about a name that :class:`Types` does not have; None for one that it has."""
    known = [each for each in vars(Types) if not each.startswith("_")]
    if name in known or name.startswith("__"):
        return None if name in known else f"Types has no {name}"
    close = get_close_matches(name.upper(), known, n=1)
    meant = f"did you mean Types.{close[0]}? " if close else ""
    return (
        f"Types has no {name}: {meant}For a dataclass, a named tuple or a TypedDict give the class itself "
        f'(ValueStateDescriptor("stats", Stats)), or Types.of(Stats)'
    )
