"""``Types``: where type information is made."""

import dataclasses
import datetime
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, NoReturn, overload

import numpy as np

from headrace.common.errors import InvalidTypeError
from headrace.common.logical_types import (
    ArrayType,
    AtomicType,
    IntervalType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    StructuredType,
    TypeRoot,
)
from headrace.common.time import Instant
from headrace.common.type_variables import K, T, V
from headrace.common.typeinfo.base import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DeclaredType,
    ListTypeInfo,
    MapTypeInfo,
    MultisetTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    TypeInformation,
)
from headrace.common.typeinfo.composite import (
    DataclassTypeInfo,
    DictTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from headrace.common.types import Row

PICKLED: Final = PickledBytesTypeInfo()

_SIMPLE: Final[dict[Any, BasicType]] = {
    int: BasicType.LONG,
    float: BasicType.DOUBLE,
    str: BasicType.STRING,
    bytes: BasicType.BYTES,
    bool: BasicType.BOOLEAN,
    datetime.datetime: BasicType.SQL_TIMESTAMP,
    datetime.date: BasicType.SQL_DATE,
    datetime.time: BasicType.SQL_TIME,
    Decimal: BasicType.BIG_DEC,
    Instant: BasicType.INSTANT,
    np.int8: BasicType.BYTE,
    np.int16: BasicType.SHORT,
    np.int32: BasicType.INT,
    np.int64: BasicType.LONG,
    np.float32: BasicType.FLOAT,
    np.float64: BasicType.DOUBLE,
    np.bool_: BasicType.BOOLEAN,
}

_Classes = frozenset[type]
"""Classes whose fields are being looked at: one that contains itself is pickled there, since Arrow has no recursion."""


def type_of_hint(hint: object) -> TypeInformation:
    """The type that a class or type hint stands for, pickled objects when it says too little.

    Raises:
        InvalidTypeError: when ``hint`` is neither a type of headrace nor a class nor a type hint.
    """
    if isinstance(hint, types.FunctionType) and hint.__qualname__.startswith(("Types.", "DataTypes.")):
        raise InvalidTypeError(f"{hint.__qualname__} is a function: write {hint.__qualname__}()")
    if not _is_hint(hint):
        raise InvalidTypeError(f"{hint!r} is not a type: give a TypeInformation, a class or a type hint")
    return _of(hint, frozenset())


def type_of_logical(logical: LogicalType) -> TypeInformation:
    """The values of Python that a type of SQL stands for.

    A ``ROW`` is a :class:`~headrace.common.types.Row`, an ``ARRAY`` a list, a ``MAP`` a dict, and a ``MULTISET`` a dict
    that says how often each element is there. A ``TIMESTAMP_LTZ`` of more than six digits is an
    :class:`~headrace.common.time.Instant`, such a ``TIMESTAMP`` a ``numpy.datetime64``. Intervals are a number of
    months, or a ``timedelta``. The length of texts and bytes is not checked, as in Flink.
    """
    return dataclasses.replace(_OF_LOGICAL[type(logical)](logical), nullable=logical.nullable)


def _of_atomic(logical: AtomicType) -> TypeInformation:
    kinds = _OF_NANOSECONDS if logical.has_nanoseconds else _OF_ROOTS
    return BasicTypeInfo(kinds[logical.root], logical)


def _of_raw(logical: RawType) -> TypeInformation:
    kind = _OF_DIGITS.get(logical.class_name) if logical.form == "digits" else None
    return PICKLED if kind is None else BasicTypeInfo(kind)


_OF_LOGICAL: Final[dict[type[LogicalType], Callable[[Any], TypeInformation]]] = {
    AtomicType: _of_atomic,
    IntervalType: lambda of: BasicTypeInfo(BasicType.MONTHS if of.unit.is_of_months else BasicType.TIMEDELTA, of),
    ArrayType: lambda of: ListTypeInfo(type_of_logical(of.element)),
    MapType: lambda of: MapTypeInfo(type_of_logical(of.key), type_of_logical(of.value)),
    MultisetType: lambda of: MultisetTypeInfo(type_of_logical(of.element), Types.INT()),
    RowType: lambda of: RowTypeInfo(tuple(map(type_of_logical, of.types)), of.names, of.changelog),
    StructuredType: lambda of: type_of_logical(of.fields),
    RawType: _of_raw,
}
_OF_DIGITS: Final = {"int": BasicType.BIG_INT, "decimal.Decimal": BasicType.BIG_DEC}
_OF_ROOTS: Final = {
    TypeRoot.NULL: BasicType.NULL,
    TypeRoot.BOOLEAN: BasicType.BOOLEAN,
    TypeRoot.TINYINT: BasicType.BYTE,
    TypeRoot.SMALLINT: BasicType.SHORT,
    TypeRoot.INTEGER: BasicType.INT,
    TypeRoot.BIGINT: BasicType.LONG,
    TypeRoot.FLOAT: BasicType.FLOAT,
    TypeRoot.DOUBLE: BasicType.DOUBLE,
    TypeRoot.DECIMAL: BasicType.DECIMAL,
    TypeRoot.CHAR: BasicType.STRING,
    TypeRoot.VARCHAR: BasicType.STRING,
    TypeRoot.BINARY: BasicType.BYTES,
    TypeRoot.VARBINARY: BasicType.BYTES,
    TypeRoot.DATE: BasicType.SQL_DATE,
    TypeRoot.TIME: BasicType.SQL_TIME,
    TypeRoot.TIMESTAMP: BasicType.SQL_TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ: BasicType.TIMESTAMP_LTZ,
    TypeRoot.VARIANT: BasicType.STRING,
    TypeRoot.BITMAP: BasicType.BYTES,
}
_OF_NANOSECONDS: Final = {
    TypeRoot.TIMESTAMP: BasicType.TIMESTAMP_NANOS,
    TypeRoot.TIMESTAMP_LTZ: BasicType.INSTANT,
}


def hints_of(owner: object) -> dict[str, Any]:
    """The annotations of a class or function, resolved one by one where they do not resolve together.

    One that cannot be resolved (a name that is only imported for type checkers, say) becomes ``Any``.
    """
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except Exception:  # whatever evaluating an annotation may raise
        scope = vars(sys.modules.get(getattr(owner, "__module__", ""), types))
        return {name: _resolve(hint, scope) for name, hint in _raw_annotations(owner).items()}


def _raw_annotations(owner: Any) -> dict[str, Any]:
    try:
        if not isinstance(owner, type):
            return dict(inspect.get_annotations(owner))
        merged: dict[str, Any] = {}
        for base in reversed(owner.__mro__):
            merged.update(inspect.get_annotations(base))
        return merged
    except Exception:  # Python 3.14 evaluates annotations when they are asked for
        return {}


def _resolve(hint: object, scope: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)["hint"]
    except Exception:  # see hints_of
        return Any


def _is_hint(hint: object) -> bool:
    special = (TypeInformation, LogicalType, type, typing.TypeVar, typing.NewType, types.UnionType)
    return (
        isinstance(hint, special)
        or hint is None
        or hint is Any
        or typing.get_origin(hint) is not None
        or type(hint).__module__ in ("typing", "typing_extensions")
    )


def _of(hint: Any, inside: _Classes) -> TypeInformation:
    if isinstance(hint, TypeInformation | LogicalType):
        return hint if isinstance(hint, TypeInformation) else type_of_logical(hint)
    if isinstance(hint, typing.NewType):
        return _of(hint.__supertype__, inside)
    if type(hint).__name__ == "TypeAliasType":  # `type X = ...` of Python 3.12
        return _of(hint.__value__, inside)
    origin = typing.get_origin(hint)
    if origin is not None:
        return _of_generic(origin, typing.get_args(hint), inside)
    if isinstance(hint, type):
        simple = _SIMPLE.get(hint)
        return BasicTypeInfo(simple) if simple is not None else _of_class(hint, inside)
    return PICKLED


def _of_generic(origin: object, arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    reader = _GENERICS.get(origin)
    if reader is not None:
        return reader(arguments, inside) if arguments else PICKLED
    return _of_class(origin, inside) if isinstance(origin, type) else PICKLED


def _annotated(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    declared = [extra for extra in arguments[1:] if isinstance(extra, TypeInformation)]
    return declared[0] if declared else _of(arguments[0], inside)


def _first(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    return _of(arguments[0], inside)


def _union(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    members = [argument for argument in arguments if argument is not type(None)]
    return _of(members[0], inside) if len(members) == 1 else PICKLED


def _literal(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    return _union(tuple({type(argument) for argument in arguments}), inside)


def _tuple(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    if arguments == ((),) or Ellipsis in arguments:
        return PICKLED  # of no fixed length
    return TupleTypeInfo(tuple(_of(argument, inside) for argument in arguments))


def _list(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    return ListTypeInfo(_of(arguments[0], inside))


def _dict(arguments: tuple[object, ...], inside: _Classes) -> TypeInformation:
    return MapTypeInfo(_of(arguments[0], inside), _of(arguments[1], inside))


_GENERICS: Final[dict[Any, Callable[[tuple[Any, ...], _Classes], TypeInformation]]] = {
    typing.Annotated: _annotated,
    typing.Final: _first,
    typing.ClassVar: _first,
    typing.Required: _first,
    getattr(typing, "ReadOnly", typing.Required): _first,  # from Python 3.13 on
    typing.Union: _union,
    types.UnionType: _union,
    typing.Literal: _literal,
    tuple: _tuple,
    list: _list,
    dict: _dict,
}


def _of_class(cls: type, inside: _Classes) -> TypeInformation:
    if cls in inside or inspect.isabstract(cls):
        return PICKLED
    inside |= {cls}
    if dataclasses.is_dataclass(cls):
        return _of_dataclass(cls, inside)
    if typing.is_typeddict(cls):
        return _of_typed_dict(cls, inside)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _of_named_tuple(cls, inside)
    return PICKLED


def _of_dataclass(cls: type, inside: _Classes) -> TypeInformation:
    names = tuple(field.name for field in dataclasses.fields(cls))
    if not names or not _made_by_object(cls):
        return PICKLED
    return DataclassTypeInfo(_field_types(cls, names, inside), names, cls)


def _made_by_object(cls: type) -> bool:
    """Return whether bare instances can be made; not so when a class extends a built-in one, as exceptions do."""
    try:
        return isinstance(object.__new__(cls), cls)
    except TypeError:
        return False


def _of_typed_dict(cls: Any, inside: _Classes) -> TypeInformation:
    hints = hints_of(cls)
    # Keys marked NotRequired are not among __optional_keys__ where annotations are postponed.
    may_be_missing = any(typing.get_origin(hint) is typing.NotRequired for hint in hints.values())
    if not hints or cls.__optional_keys__ or may_be_missing:
        return PICKLED  # a missing key and a key with None have to stay different
    return DictTypeInfo(tuple(_of(hint, inside) for hint in hints.values()), tuple(hints), cls.__qualname__)


def _of_named_tuple(cls: Any, inside: _Classes) -> TypeInformation:
    names = tuple(cls._fields)
    return NamedTupleTypeInfo(_field_types(cls, names, inside), names, cls) if names else PICKLED


def _field_types(cls: type, names: tuple[str, ...], inside: _Classes) -> tuple[TypeInformation, ...]:
    hints = hints_of(cls)
    return tuple(_of(hints.get(name, Any), inside) for name in names)


class _TypesByName(type):
    """Says what to write in place of a name that is none of a type."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            raise AttributeError(no_such_type(name), name=name, obj=cls)


class Types(metaclass=_TypesByName):
    """Makes type information, under PyFlink's names.

    Wherever a type is expected, a Python class or type hint does as well: ``Types.LIST(int)``. A value that does not
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
    def of(kind: Any) -> TypeInformation: ...
    @staticmethod
    def of(kind: Any) -> TypeInformation:
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
    def SQL_DATE() -> TypeInformation[datetime.date]:
        """A ``datetime.date``."""
        return BasicTypeInfo(BasicType.SQL_DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation[datetime.time]:
        """A ``datetime.time`` without time zone."""
        return BasicTypeInfo(BasicType.SQL_TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime.datetime]:
        """A ``datetime.datetime`` without time zone."""
        return BasicTypeInfo(BasicType.SQL_TIMESTAMP)

    @staticmethod
    def TIMESTAMP_LTZ() -> TypeInformation[datetime.datetime]:
        """A ``datetime.datetime`` with a time zone: a point in time, given back in UTC."""
        return BasicTypeInfo(BasicType.TIMESTAMP_LTZ)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object that can be pickled."""
        return PICKLED

    @staticmethod
    def ROW(field_types: Sequence[Any], *, changelog: bool = False) -> TypeInformation[Row]:
        """A :class:`~headrace.common.types.Row` whose fields have no names; ``changelog`` makes its kind a column."""
        return RowTypeInfo(_all(field_types), None, changelog)

    @staticmethod
    def ROW_NAMED(
        field_names: Sequence[str], field_types: Sequence[Any], *, changelog: bool = False
    ) -> TypeInformation[Row]:
        """A :class:`~headrace.common.types.Row` whose fields have names; ``changelog`` makes its kind a column."""
        return RowTypeInfo(_all(field_types), field_names, changelog)

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInformation[tuple[Any, ...]]:
        """A ``tuple`` with one value of each type."""
        return TupleTypeInfo(_all(field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation:
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


def _all(kinds: Sequence[object]) -> tuple[TypeInformation, ...]:
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
