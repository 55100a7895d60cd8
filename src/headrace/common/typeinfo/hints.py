"""From Python's classes and type hints to ``TypeInformation``."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import sys
import types
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np

from headrace.common.errors import InvalidTypeError
from headrace.common.time import Instant
from headrace.common.typeinfo.base import TypeInformation
from headrace.common.typeinfo.basic import BasicType, BasicTypeInfo, PickledBytesTypeInfo
from headrace.common.typeinfo.collection import ListTypeInfo, MapTypeInfo
from headrace.common.typeinfo.composite import (
    DataclassTypeInfo,
    DictTypeInfo,
    NamedTupleTypeInfo,
    TupleTypeInfo,
)

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


def type_of_hint(hint: Any) -> TypeInformation:
    """The type that a class or type hint stands for, pickled objects when it says too little.

    Raises:
        InvalidTypeError: when ``hint`` is neither a ``TypeInformation`` nor a class nor a type hint.
    """
    if isinstance(hint, types.FunctionType) and hint.__qualname__.startswith("Types."):
        raise InvalidTypeError(f"{hint.__qualname__} is a function: write {hint.__qualname__}()")
    if not _is_hint(hint):
        raise InvalidTypeError(f"{hint!r} is not a type: give a TypeInformation, a class or a type hint")
    return _of(hint, frozenset())


def hints_of(owner: Any) -> dict[str, Any]:
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


def _resolve(hint: Any, scope: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, globalns=scope, include_extras=True)["hint"]
    except Exception:  # see hints_of
        return Any


def _is_hint(hint: Any) -> bool:
    special = (TypeInformation, type, typing.TypeVar, typing.NewType, types.UnionType)
    return (
        isinstance(hint, special)
        or hint is None
        or hint is Any
        or typing.get_origin(hint) is not None
        or type(hint).__module__ in ("typing", "typing_extensions")
    )


def _of(hint: Any, inside: _Classes) -> TypeInformation:
    if isinstance(hint, TypeInformation):
        return hint
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


def _of_generic(origin: Any, arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    reader = _GENERICS.get(origin)
    if reader is not None:
        return reader(arguments, inside) if arguments else PICKLED
    return _of_class(origin, inside) if isinstance(origin, type) else PICKLED


def _annotated(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    declared = [extra for extra in arguments[1:] if isinstance(extra, TypeInformation)]
    return declared[0] if declared else _of(arguments[0], inside)


def _first(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    return _of(arguments[0], inside)


def _union(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    members = [argument for argument in arguments if argument is not type(None)]
    return _of(members[0], inside) if len(members) == 1 else PICKLED


def _literal(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    return _union(tuple({type(argument) for argument in arguments}), inside)


def _tuple(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    if arguments == ((),) or Ellipsis in arguments:
        return PICKLED  # of no fixed length
    return TupleTypeInfo(tuple(_of(argument, inside) for argument in arguments))


def _list(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
    return ListTypeInfo(_of(arguments[0], inside))


def _dict(arguments: tuple[Any, ...], inside: _Classes) -> TypeInformation:
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
    """Whether bare instances can be made; not so when a class extends a built-in one, as exceptions do."""
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
