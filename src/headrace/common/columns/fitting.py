"""Values in the form in which they come back from storage, before they are stored.

What is kept in memory until an epoch ends has to look as it will afterwards. Else a function would see a tuple where it
sees a row later, or a double where only 32 bits are kept, and results would depend on where epochs are cut.
"""

from __future__ import annotations

import datetime
from functools import lru_cache
from math import isnan
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from headrace.common.columns import forming
from headrace.common.columns.layout import value_as_stored
from headrace.common.columns.scalars import exact_class
from headrace.common.row import Row, RowKind
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    DataclassTypeInfo,
    DictTypeInfo,
    MapTypeInfo,
    NamedTupleTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TupleTypeInfo,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common.typeinfo import TypeInformation

    Check = Callable[[Any], bool]

_MISSING: Final = object()
"""In place of a field that an instance does not have; it fits no type that has a column."""
_SINGLE: Final = Struct("<f")
_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


class Fitter:
    """Brings values of a type into the form in which they come back from storage.

    Args:
        info: the type.

    Attributes:
        fits: whether a value is in that form already.
    """

    __slots__ = ("_form", "_info", "fits")

    def __init__(self, info: TypeInformation) -> None:
        self._info = info
        self._form = _form_of(info)
        self.fits: Check = _check_of(info)

    def __call__(self, value: Any) -> Any:
        """The value itself if it is in that form, else one that is.

        Raises:
            InvalidTypeError: when it does not fit the type.
        """
        if self.fits(value):
            return value
        formed = self._form(value)
        return value_as_stored(self._info, value) if formed is forming.UNKNOWN else formed

    def check(self, values: Iterable[Any]) -> None:
        """Refuse values that do not fit the type.

        Raises:
            InvalidTypeError: for the first of them.
        """
        fits = self.fits
        for value in values:
            if not fits(value):
                self(value)


@lru_cache(maxsize=1024)
def fitter_of(info: TypeInformation) -> Fitter:
    """The fitter of a type."""
    return Fitter(info)


def _form_of(info: TypeInformation) -> Callable[[Any], Any]:
    """The quick way into the form, if there is one."""
    if isinstance(info, BasicTypeInfo):
        return {BasicType.DOUBLE: forming.double, BasicType.FLOAT: forming.single}.get(info.basic_type, forming.unknown)
    if isinstance(info, TupleTypeInfo):
        return forming.tuple_of(tuple, {tuple}, [fitter_of(field) for field in info.field_types])
    if isinstance(info, NamedTupleTypeInfo):
        return forming.tuple_of(
            info.record_class._make, {tuple, info.record_class}, [fitter_of(field) for field in info.field_types]
        )
    if isinstance(info, RowTypeInfo):
        return forming.row_of(info.field_names, [fitter_of(field) for field in info.field_types])
    return forming.unknown


def _check_of(info: TypeInformation) -> Check:
    if isinstance(info, BasicTypeInfo):
        return _scalar_check(info.basic_type)
    if isinstance(info, PickledBytesTypeInfo):
        return lambda value: True
    if isinstance(info, SequenceTypeInfo):
        return _sequence_check(info)
    if isinstance(info, MapTypeInfo):
        return _map_check(info)
    return _record_check(info) if isinstance(info, CompositeTypeInfo) else lambda value: value is None


def _scalar_check(kind: BasicType) -> Check:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special
    cls = exact_class(kind)
    if kind not in _BITS:
        return lambda value: type(value) is cls or value is None
    low, high = _range_of(kind)
    return lambda value: (low <= value <= high) if type(value) is int else value is None


def _is_single(value: Any) -> bool:
    if type(value) is not float:
        return value is None
    try:
        return isnan(value) or bool(_SINGLE.unpack(_SINGLE.pack(value))[0] == value)
    except OverflowError:
        return False


def _is_character(value: Any) -> bool:
    return len(value) == 1 if type(value) is str else value is None


def _is_naive(value: Any) -> bool:
    if type(value) is datetime.datetime or type(value) is datetime.time:
        return value.tzinfo is None and not value.fold
    return value is None


def _is_in_utc(value: Any) -> bool:
    if type(value) is datetime.datetime:
        return value.tzinfo is datetime.UTC and not value.fold
    return value is None


_SPECIAL: Final[dict[BasicType, Check]] = {
    BasicType.FLOAT: _is_single,
    BasicType.CHAR: _is_character,
    BasicType.SQL_TIME: _is_naive,
    BasicType.SQL_TIMESTAMP: _is_naive,
    BasicType.TIMESTAMP_LTZ: _is_in_utc,
}


def _sequence_check(info: SequenceTypeInfo) -> Check:
    all_fit = _all_check(info.element_type)
    nullable = info.nullable_elements

    def check(value: Any) -> bool:
        if type(value) is not list:
            return value is None
        return all_fit(value) and (nullable or None not in value)

    return check


def _map_check(info: MapTypeInfo) -> Check:
    keys_fit, values_fit = _all_check(info.key_type), _all_check(info.value_type)

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return value is None
        return None not in value and keys_fit(value) and values_fit(value.values())

    return check


def _all_check(info: TypeInformation) -> Callable[[Iterable[Any]], bool]:
    """Whether all of some values fit; by their classes alone where these tell, which stays within C."""
    if isinstance(info, BasicTypeInfo) and info.basic_type not in _SPECIAL.keys() | _BITS.keys():
        kinds = frozenset({exact_class(info.basic_type), type(None)})
        return lambda values: kinds.issuperset(map(type, values))
    check = _check_of(info)
    if isinstance(info, BasicTypeInfo) and info.basic_type in _BITS:
        low, high = _range_of(info.basic_type)
        just_integers = {int}.issuperset
        return lambda values: (
            not values
            or (just_integers(map(type, values)) and low <= min(values) and max(values) <= high)
            or all(map(check, values))
        )
    return lambda values: all(map(check, values))


def _record_check(info: CompositeTypeInfo) -> Check:
    if isinstance(info, TupleTypeInfo | NamedTupleTypeInfo):
        return _tuple_check(info)
    return _fields_check(info)


def _fields_check(info: CompositeTypeInfo) -> Check:
    parts = _parts_of(info)
    checks = tuple(_check_of(field) for field in info.field_types)
    kinds, limits = _kinds_of(info.field_types), _limits_of(info.field_types)

    def check(value: Any) -> bool:
        values = parts(value)
        if values is None:
            return value is None
        if tuple(map(type, values)) == kinds:
            # A generator for all() would cost more than everything else here.
            for position, low, high in limits:  # noqa: SIM110
                if not low <= values[position] <= high:
                    return False
            return True
        return len(values) == len(checks) and all(fits(part) for fits, part in zip(checks, values, strict=True))

    return check


def _tuple_check(info: TupleTypeInfo | NamedTupleTypeInfo) -> Check:
    """The check of a tuple, as one expression: it is made for every record, and a call for each field would cost more.

    That finds most values to fit. Others, with a field of None say, are looked at field by field.
    """
    names: dict[str, Any] = {
        "record": tuple if isinstance(info, TupleTypeInfo) else info.record_class,
        "size": len(info.field_types),
        "by_field": _fields_check(info),
    }
    conditions = ["type(value) is record", "len(value) == size"]
    for position, field in enumerate(info.field_types):
        conditions.append(_condition(f"value[{position}]", position, field, names))
    source = f"lambda value: {' and '.join(conditions)} or by_field(value)"
    check: Check = eval(source, names)  # made of positions and ranges alone
    return check


def _condition(value: str, position: int, info: TypeInformation, names: dict[str, Any]) -> str:
    """Whether a field fits, as an expression; what it needs is put among the names."""
    if not isinstance(info, BasicTypeInfo) or info.basic_type in _SPECIAL:
        names[f"check_{position}"] = _check_of(info)
        return f"check_{position}({value})"
    names[f"kind_{position}"] = exact_class(info.basic_type)
    condition = f"type({value}) is kind_{position}"
    if info.basic_type in _BITS:
        low, high = _range_of(info.basic_type)
        condition += f" and {low} <= {value} <= {high}"
    return condition


def _kinds_of(types: Iterable[TypeInformation]) -> tuple[type, ...] | None:
    """The classes of the fields of a record, if these (and limits) tell whether it fits."""
    kinds = []
    for info in types:
        if not isinstance(info, BasicTypeInfo) or info.basic_type in _SPECIAL:
            return None
        kinds.append(exact_class(info.basic_type))
    return tuple(kinds)


def _limits_of(types: Iterable[TypeInformation]) -> list[tuple[int, int, int]]:
    """Position, smallest and largest value of the fields that are integers of a fixed width."""
    return [
        (position, *_range_of(info.basic_type))
        for position, info in enumerate(types)
        if isinstance(info, BasicTypeInfo) and info.basic_type in _BITS
    ]


def _range_of(kind: BasicType) -> tuple[int, int]:
    return -(2 ** (_BITS[kind] - 1)), 2 ** (_BITS[kind] - 1) - 1


def _parts_of(info: CompositeTypeInfo) -> Callable[[Any], Any]:
    """What gives the fields of a record of the very class that comes back; None for any other."""
    if isinstance(info, TupleTypeInfo | NamedTupleTypeInfo):
        cls: type = tuple if isinstance(info, TupleTypeInfo) else info.record_class
        return lambda value: value if type(value) is cls else None
    names = info.field_names
    if isinstance(info, DataclassTypeInfo):
        record = info.record_class
        return lambda value: [getattr(value, name, _MISSING) for name in names] if type(value) is record else None
    if isinstance(info, DictTypeInfo):
        return lambda value: [*value.values()] if type(value) is dict and tuple(value) == names else None
    if isinstance(info, RowTypeInfo):
        return _row_parts(names, keeps_kinds=info.changelog)
    return lambda value: None


def _row_parts(names: tuple[str, ...], *, keeps_kinds: bool) -> Callable[[Any], Any]:
    def parts(value: Any) -> Any:
        if type(value) is not Row or value._fields != names:
            return None
        return value._values if keeps_kinds or value._row_kind is RowKind.INSERT else None

    return parts
