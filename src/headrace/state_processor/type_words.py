"""Types as people say them: ``Tuple(Long, String)`` and ``List<Long>``, not the names of the classes behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NamedCompositeTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TupleTypeInfo,
)

if TYPE_CHECKING:
    from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation


def in_words(type_: TypeInformation) -> str:
    """A type in words.

    >>> from headrace.common import Types
    >>> in_words(Types.ROW_NAMED(["user", "visits"], [Types.STRING(), Types.LIST(Types.SQL_DATE())]))
    'Row(user: String, visits: List<Date>)'
    >>> in_words(Types.MAP(Types.STRING(), Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])))
    'Map<String, Tuple(Long, any object)>'
    >>> in_words(Types.BYTES())
    'Bytes'
    """
    for kind, words in _WORDS:
        if isinstance(type_, kind):
            return words(type_)
    return str(type_)


def _fields(type_: CompositeTypeInfo) -> str:
    named = zip(type_.field_names, type_.field_types, strict=True)
    return ", ".join(f"{name}: {in_words(field)}" for name, field in named)


def _basic(type_: BasicTypeInfo[Any]) -> str:
    return "Bytes" if type_.basic_type is BasicType.BYTES else str(type_).removesuffix("TypeInfo")


def _row(type_: RowTypeInfo) -> str:
    return f"Row({_fields(type_)})" if type_.names is not None else f"Row({_types(type_)})"


def _types(type_: CompositeTypeInfo) -> str:
    return ", ".join(map(in_words, type_.field_types))


_WORDS: Final[tuple[tuple[type, Callable[[Any], str]], ...]] = (
    (BasicTypeInfo, _basic),
    (PickledBytesTypeInfo, lambda _: "any object"),
    (TupleTypeInfo, lambda type_: f"Tuple({_types(type_)})"),
    (RowTypeInfo, _row),
    (NamedCompositeTypeInfo, lambda type_: f"{type_.class_name}({_fields(type_)})"),
    (ListTypeInfo, lambda type_: f"List<{in_words(type_.element_type)}>"),
    (SequenceTypeInfo, lambda type_: f"Array<{in_words(type_.element_type)}>"),
    (MapTypeInfo, lambda type_: f"Map<{in_words(type_.key_type)}, {in_words(type_.value_type)}>"),
)
"""The types that Flink spells by the name of a class; all others are words as they are."""
