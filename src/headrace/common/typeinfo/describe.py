"""Reads back what ``TypeInformation.to_json`` wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo.basic import PICKLED, BasicType, BasicTypeInfo, PickledBytesTypeInfo
from headrace.common.typeinfo.collection import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    SequenceTypeInfo,
)
from headrace.common.typeinfo.composite import (
    DataclassTypeInfo,
    DetachedTypeInfo,
    DictTypeInfo,
    NamedTupleTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)

if TYPE_CHECKING:
    from headrace.common.typeinfo.base import Json, TypeInformation


def type_from_json(described: Json) -> TypeInformation:
    """The type that a description stands for.

    A record class comes back as :class:`DetachedTypeInfo`, which describes itself in the same words and reads the
    same columns, but gives rows, since a description does not lead back to the class.

    Raises:
        InvalidTypeError: when the description is not one that ``to_json`` writes.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.common.typeinfo import type_from_json
        >>> described = Types.LIST(Types.LONG()).to_json()
        >>> described
        {'type': 'LIST', 'element': {'type': 'LONG'}}
        >>> type_from_json(described)
        ListTypeInfo<Long>
    """
    try:
        return _READERS[described["type"]](described)
    except (KeyError, TypeError) as error:
        raise InvalidTypeError(f"{described!r} does not describe a type") from error


def _basic(kind: BasicType) -> Callable[[Json], TypeInformation]:
    return lambda described: BasicTypeInfo(kind)


def _sequence(info: type[SequenceTypeInfo]) -> Callable[[Json], TypeInformation]:
    return lambda described: info(type_from_json(described["element"]))


def _map(described: Json) -> TypeInformation:
    return MapTypeInfo(type_from_json(described["key"]), type_from_json(described["value"]))


def _tuple(described: Json) -> TypeInformation:
    return TupleTypeInfo(tuple(map(type_from_json, described["fields"])))


def _row(described: Json) -> TypeInformation:
    fields, changelog = described["fields"], described.get("changelog", False)
    if "name" in fields[0]:
        return RowTypeInfo(_types(fields), _names(fields), changelog)
    return RowTypeInfo(tuple(map(type_from_json, fields)), None, changelog)


def _dict(described: Json) -> TypeInformation:
    fields = described["fields"]
    return DictTypeInfo(_types(fields), _names(fields), described["class"])


def _detached(described: Json) -> TypeInformation:
    fields = described["fields"]
    return DetachedTypeInfo(_types(fields), _names(fields), described["class"], described["type"])


def _types(fields: list[Json]) -> tuple[TypeInformation, ...]:
    return tuple(type_from_json(field["type"]) for field in fields)


def _names(fields: list[Json]) -> tuple[str, ...]:
    return tuple(field["name"] for field in fields)


_READERS: Final[dict[str, Callable[[Json], TypeInformation]]] = {
    **{kind.name: _basic(kind) for kind in BasicType},
    **{
        info.tag: _sequence(info)
        for info in (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
    },
    PICKLED: lambda described: PickledBytesTypeInfo(),
    "MAP": _map,
    TupleTypeInfo.tag: _tuple,
    RowTypeInfo.tag: _row,
    DictTypeInfo.tag: _dict,
    NamedTupleTypeInfo.tag: _detached,
    DataclassTypeInfo.tag: _detached,
}
