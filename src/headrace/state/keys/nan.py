"""One object for all NaNs in the keys of a map's entries, however deep inside a key they are.

A dict finds an object that is not equal to itself only by its being the same one. Stored keys are equal when their
encoding is, which is the same for all NaNs; so what is in memory has to be told apart in that way as well.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import partial
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.common.row import Row, make_row
from headrace.common.typeinfo import BasicType, BasicTypeInfo, CompositeTypeInfo, PickledBytesTypeInfo
from headrace.state.keys.encoding import build_dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.common.typeinfo import TypeInformation

NAN: Final = nan
"""The one object that stands for all NaNs that are floats."""

DECIMAL_NAN: Final = Decimal("NaN")
"""The same for decimals."""

_NUMBERS: Final = frozenset({BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC})
PLAIN: Final[frozenset[type]] = frozenset({int, str, bytes, bool, type(None)})
"""Classes whose instances are hashable, are no NaN, and have none inside."""


def nan_replacer(type_: TypeInformation) -> Callable[[Any], Any] | None:
    """What puts those objects into keys of a type; None when there is no NaN in any of these."""
    if isinstance(type_, PickledBytesTypeInfo):
        return partial(same_nan, decimal=NAN)  # where there is no type to tell them apart, all NaNs are one key
    return same_nan if _may_hold_nan(type_) else None


def _may_hold_nan(type_: TypeInformation) -> bool:
    """Whether a key of this type can be a NaN, or have one inside."""
    if isinstance(type_, BasicTypeInfo):
        return type_.basic_type in _NUMBERS
    if isinstance(type_, CompositeTypeInfo):
        return any(map(_may_hold_nan, type_.field_types))
    return isinstance(type_, PickledBytesTypeInfo)


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


def _is_same(made: Any, part: Any) -> bool:
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
