"""Keys whose type is declared: from values to plain tuples and back.

A record (tuple, row, named tuple, dataclass) is encoded as the tuple of its fields: its class is known from the type.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import partial
from math import isnan, nan
from typing import Any, Final

import numpy as np

from headrace.common.columns import infer_from_values
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    DataclassTypeInfo,
    ListTypeInfo,
    NamedTupleTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from headrace.common.typeinfo.base import STRINGS, WHOLE_NUMBERS
from headrace.common.types import Row, make_row
from headrace.common.values import basic_handler_of, record_handler_of
from headrace.state.keys.encoding import build_dataclass

INTEGERS: Final = WHOLE_NUMBERS | {BasicType.BOOLEAN}
_FRACTIONS: Final = frozenset({BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC})
_RECORDS: Final = (TupleTypeInfo, RowTypeInfo, NamedTupleTypeInfo, DataclassTypeInfo)
_AS_TUPLES: Final = "make tuples of what they hold, in a fixed order, as in key_by(lambda record: tuple(...))"
_IN_COLUMNS: Final = (
    INTEGERS
    | STRINGS
    | {
        BasicType.BYTES,
        BasicType.FLOAT,
        BasicType.DOUBLE,
        BasicType.DECIMAL,
        BasicType.SQL_DATE,
        BasicType.SQL_TIME,
        BasicType.SQL_TIMESTAMP,
        BasicType.TIMESTAMP_LTZ,
    }
)


def check_key_type(type_: TypeInformation, *, takes_lists: bool = False) -> None:
    """Refuse types whose values cannot be keys.

    Args:
        type_: the type.
        takes_lists: whether keys may hold lists, as columns of SQL do; the functions of a program would see them.

    Raises:
        InvalidTypeError: for lists, arrays, maps and dicts, which are not hashable in Python, also within a record.
    """
    if isinstance(type_, BasicTypeInfo | PickledBytesTypeInfo):
        return
    if takes_lists and isinstance(type_, ListTypeInfo):
        check_key_type(type_.element_type, takes_lists=True)
        return
    if not isinstance(type_, _RECORDS) or (isinstance(type_, RowTypeInfo) and type_.changelog):
        raise InvalidTypeError(f"values of {type_} cannot be keys: they are not hashable; {_AS_TUPLES}")
    for field in type_.field_types:
        check_key_type(field, takes_lists=takes_lists)


def declaration_for(key: object) -> str | None:
    """The key type that takes a value like this, which is not hashable, as a program writes it; None when none does."""
    if isinstance(key, list | tuple) and key:
        fields = [declaration_for(value) for value in key]
        return None if None in fields else f"Types.TUPLE([{', '.join(map(str, fields))}])"
    if isinstance(key, dict) and key and all(isinstance(name, str) for name in key):
        fields = [declaration_for(value) for value in key.values()]
        return None if None in fields else f"Types.ROW_NAMED({list(key)}, [{', '.join(map(str, fields))}])"
    found = infer_from_values([key])
    return f"Types.{found.basic_type.name}()" if isinstance(found, BasicTypeInfo) else None


def is_integer_type(type_: TypeInformation) -> bool:
    """Return whether the values are integers of up to 64 bits, whose canonical form has their own order."""
    return isinstance(type_, BasicTypeInfo) and type_.basic_type in WHOLE_NUMBERS


def leaf_types(type_: TypeInformation) -> Iterator[TypeInformation]:
    """The types of the parts of a key that are no records or lists; of one that is none its own."""
    if isinstance(type_, ListTypeInfo):
        yield from leaf_types(type_.element_type)
    elif isinstance(type_, CompositeTypeInfo):
        for field in type_.field_types:
            yield from leaf_types(field)
    else:
        yield type_


def is_declared(type_: TypeInformation) -> bool:
    """Return whether the type says what values are in all of their parts; else some may not be hashable."""
    return not any(isinstance(leaf, PickledBytesTypeInfo) for leaf in leaf_types(type_))


def look_alike(type_: TypeInformation) -> bool:
    """Return whether equal keys of it look alike; ``0.0`` and ``-0.0`` do not, nor untyped ``1`` and ``True``."""
    leaves = leaf_types(type_)
    return all(isinstance(leaf, BasicTypeInfo) and leaf.basic_type not in _FRACTIONS for leaf in leaves)


def has_columns(type_: TypeInformation) -> bool:
    """Return whether Arrow columns of this type hold the values themselves, so that they can be encoded as they are."""
    if isinstance(type_, CompositeTypeInfo):
        return all(map(has_columns, type_.field_types))
    return isinstance(type_, BasicTypeInfo) and type_.basic_type in _IN_COLUMNS


def to_plain(type_: TypeInformation) -> Callable[[Any], Any] | None:
    """The function that turns a value of the type into one made of tuples; None when it is that already."""
    if isinstance(type_, ListTypeInfo):
        return _each(to_plain(type_.element_type), tuple)
    if not isinstance(type_, CompositeTypeInfo):
        return None
    parts = [to_plain(field) for field in type_.field_types]
    if isinstance(type_, TupleTypeInfo | NamedTupleTypeInfo) and not any(parts):
        return None
    fields_of = record_handler_of(type_).fields_of

    def convert(value: object) -> Any:
        if value is None:
            return None
        return tuple(part(item) if part else item for part, item in zip(parts, fields_of(value), strict=True))

    return convert


def from_plain(type_: TypeInformation) -> Callable[[Any], Any] | None:
    """The function that turns a decoded value back into one of the type; None when it is that already."""
    if isinstance(type_, BasicTypeInfo):
        restore = basic_handler_of(type_).from_equal
        return None if restore is None else lambda value: None if value is None else restore(value)
    if isinstance(type_, ListTypeInfo):
        return _each(from_plain(type_.element_type), list)
    if not isinstance(type_, CompositeTypeInfo):
        return None
    parts = [from_plain(field) for field in type_.field_types]
    if isinstance(type_, TupleTypeInfo) and not any(parts):
        return None
    build = record_handler_of(type_).build

    def convert(value: Any) -> Any:
        if value is None:
            return None
        return build([part(item) if part else item for part, item in zip(parts, value, strict=True)])

    return convert


def _each(part: Callable[[Any], Any] | None, build: Callable[[Iterable[Any]], Any]) -> Callable[[Any], Any]:
    """The function that converts each item of a list, and builds a tuple or list of them."""

    def convert(items: Any) -> Any:
        if items is None:
            return None
        return build(items if part is None else map(part, items))

    return convert


NAN: Final = nan
"""The one object that represents all NaNs that are floats."""

DECIMAL_NAN: Final = Decimal("NaN")
"""The same for decimals."""

PLAIN: Final[frozenset[type]] = frozenset({int, str, bytes, bool, type(None)})
"""Classes whose instances are hashable, are no NaN, and have none inside."""


def nan_replacer(type_: TypeInformation) -> Callable[[Any], Any] | None:
    """The function that puts those objects into keys of a type; None when there is no NaN in any of these."""
    if isinstance(type_, PickledBytesTypeInfo):
        return partial(same_nan, decimal=NAN)  # where there is no type to tell them apart, all NaNs are one key
    leaves = leaf_types(type_)
    may_be_nan = any(not isinstance(leaf, BasicTypeInfo) or leaf.basic_type in _FRACTIONS for leaf in leaves)
    return same_nan if may_be_nan else None


def same_nan(key: Any, decimal: Any = DECIMAL_NAN) -> Any:
    """The key with that one object in the place of every NaN; itself where nothing has to be replaced.

    Args:
        key: the key.
        decimal: what stands for a NaN that is a decimal.
    """
    cls = type(key)
    if cls in PLAIN or (cls is tuple and PLAIN.issuperset(map(type, key))):
        return key
    if isinstance(key, float | np.floating):
        return NAN if isnan(key) else key
    if isinstance(key, Decimal):
        return decimal if key.is_qnan() else key
    taken_apart = _taken_apart(key)
    if taken_apart is None:
        return key
    parts, build = taken_apart
    made = [same_nan(part, decimal) for part in parts]
    return key if all(map(_is_same, made, parts)) else build(made)


def _is_same(made: object, part: object) -> bool:
    return made is part


def _taken_apart(key: Any) -> tuple[Sequence[Any], Callable[[list[Any]], Any]] | None:
    """The parts of a key, and how one is made of other parts."""
    cls = type(key)
    if isinstance(key, tuple):
        return key, lambda parts: tuple.__new__(cls, parts)
    if isinstance(key, Row):
        return [*key], lambda parts: make_row(key._fields, parts, key.get_row_kind())
    if isinstance(key, frozenset):
        return [*key], frozenset
    if is_dataclass(cls):
        return [getattr(key, field.name) for field in fields(cls)], lambda parts: build_dataclass(cls, parts)
    return None
