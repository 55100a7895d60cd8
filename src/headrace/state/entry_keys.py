"""Which keys of a map state's entries are one key.

A ``dict`` holds the entries that are in memory, so keys have to be equal to it exactly if they are equal when stored.
That is so of all values in the form in which they come back from storage, but for NaN, which equals nothing.
"""

from __future__ import annotations

import dataclasses
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final

from headrace.common.row import Row, make_row
from headrace.common.typeinfo import BasicType, BasicTypeInfo, CompositeTypeInfo, SequenceTypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.columns import Fitter
    from headrace.common.typeinfo import TypeInformation

NAN: Final = nan
"""The one object that stands for all NaNs: a ``dict`` finds it as it is the same, though it is not equal to itself."""

_FLOATS: Final = frozenset({BasicType.FLOAT, BasicType.DOUBLE})


def same_nan(key: Any) -> Any:
    """The key with :data:`NAN` in place of every NaN; the very key where there is none."""
    if type(key) is float:
        return NAN if isnan(key) else key
    if isinstance(key, tuple | Row):
        return _rebuilt(key, list(key))
    if dataclasses.is_dataclass(key):
        return _rebuilt(key, [getattr(key, field.name) for field in dataclasses.fields(key)])
    return key


def key_check(info: TypeInformation, fitter: Fitter) -> Callable[[Any], bool]:
    """Whether a key of a type is as it comes back from storage, with :data:`NAN` for every NaN.

    Args:
        info: the type.
        fitter: the fitter of the type.
    """
    fits = fitter.fits
    if not _has_floats(info):
        return fits
    return lambda key: fits(key) and same_nan(key) is key


def _rebuilt(key: Any, parts: list[Any]) -> Any:
    same = list(map(same_nan, parts))
    if all(new is old for new, old in zip(same, parts, strict=True)):
        return key
    if isinstance(key, Row):
        return make_row(key._fields, same, key.get_row_kind())
    if isinstance(key, tuple):
        return type(key)._make(same) if hasattr(key, "_make") else tuple(same)
    return type(key)(**{field.name: value for field, value in zip(dataclasses.fields(key), same, strict=True)})


def _has_floats(info: TypeInformation) -> bool:
    if isinstance(info, BasicTypeInfo):
        return info.basic_type in _FLOATS
    if isinstance(info, SequenceTypeInfo):
        return _has_floats(info.element_type)
    return isinstance(info, CompositeTypeInfo) and any(map(_has_floats, info.field_types))
