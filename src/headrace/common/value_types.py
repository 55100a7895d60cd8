"""The type that a collection of values has in common."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from headrace.common.columns import values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.row import Row, RowKind
from headrace.common.typeinfo import (
    BasicTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    ListTypeInfo,
    NamedTupleTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from headrace.common.values import basic_handler_of

PICKLED: Final = PickledBytesTypeInfo()


def infer_from_values(collection: Collection[Any]) -> TypeInformation:
    """The type whose values are exactly those of the collection, of which every element is looked at.

    Elements have to be of the same class; then tuples of one length, rows and dicts of the same keys and records are
    typed field by field, where a field of mixed values is pickled. ``None`` may stand anywhere, except for a whole
    record. Whatever a type would not give back equal is pickled: integers of more than 64 bits, strings that UTF-8
    cannot encode, dicts with differing keys, times with zones other than UTC, mixtures.
    """
    values = list(collection)
    inferred = _common(values)
    if inferred.is_composite and any(value is None for value in values):
        return PICKLED
    return inferred if _fits(inferred, values) else PICKLED


def _common(values: Sequence[Any]) -> TypeInformation:
    kinds = set(map(type, values))
    present = [value for value in values if value is not None] if type(None) in kinds else values
    kinds.discard(type(None))
    if len(kinds) != 1:
        return PICKLED
    kind = kinds.pop()
    return _READERS[kind](present) if kind in _READERS else _declared(kind, present)


def _integers(values: Sequence[Any]) -> TypeInformation:
    return Types.LONG() if min(values) >= -(2**63) and max(values) < 2**63 else PICKLED


def _datetimes(values: Sequence[Any]) -> TypeInformation:
    zones = list(map(attrgetter("tzinfo"), values))
    if all(zone is None for zone in zones):
        return Types.SQL_TIMESTAMP()
    return Types.TIMESTAMP_LTZ() if all(zone is datetime.UTC for zone in zones) else PICKLED


def _tuples(values: Sequence[Any]) -> TypeInformation:
    lengths = set(map(len, values))
    if len(lengths) != 1 or lengths == {0}:
        return PICKLED
    return TupleTypeInfo(_field_types(values, range(lengths.pop())))


def _dicts(values: Sequence[Any]) -> TypeInformation:
    keys = set(map(tuple, values))
    names = keys.pop()
    if keys or not names or not all(type(name) is str and name for name in names):
        return PICKLED
    return DictTypeInfo(_field_types(values, names), names)


def _rows(values: Sequence[Row]) -> TypeInformation:
    shapes = {(tuple(row._fields) if row._fields else None, len(row)) for row in values}
    names, count = shapes.pop()
    if shapes or not count:
        return PICKLED
    changelog = any(row.get_row_kind() is not RowKind.INSERT for row in values)
    return RowTypeInfo(_field_types(values, range(count)), names, changelog)


def _lists(values: Sequence[Any]) -> TypeInformation:
    element = _common(list(chain.from_iterable(values)))
    return PICKLED if element == PICKLED else ListTypeInfo(element)


def _declared(kind: type, values: Sequence[Any]) -> TypeInformation:
    """What a class stands for; a field whose values do not keep to what a record class declares is typed by them."""
    declared = Types.of(kind)
    if isinstance(declared, BasicTypeInfo):  # not so a number of numpy: it would not come back as one
        return declared if basic_handler_of(declared).value_class is kind else PICKLED
    if not isinstance(declared, NamedTupleTypeInfo | DataclassTypeInfo):
        return PICKLED
    types = []
    for name, field_type in zip(declared.names, declared.types, strict=True):
        column = [getattr(value, name, None) for value in values]
        types.append(field_type if _fits(field_type, column) else _common(column))
    return replace(declared, types=tuple(types))


def _fits(declared: TypeInformation, values: Sequence[Any]) -> bool:
    try:
        values_to_array(declared, values)
    except InvalidTypeError:
        return False
    return True


def _field_types(values: Sequence[Any], keys: Collection[Any]) -> tuple[TypeInformation, ...]:
    return tuple(_common([value[key] for value in values]) for key in keys)


_READERS: Final[dict[type, Callable[[Sequence[Any]], TypeInformation]]] = {
    int: _integers,
    datetime.datetime: _datetimes,
    tuple: _tuples,
    dict: _dicts,
    list: _lists,
    Row: _rows,
}
