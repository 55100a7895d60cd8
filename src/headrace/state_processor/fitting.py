"""Columns that somebody gives, as the type of a state wants them: nothing is parsed, rounded or left out for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.columns import array_to_values, conformed, values_to_array
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    CompositeTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NamedCompositeTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    SequenceTypeInfo,
    TupleTypeInfo,
)

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


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


_AS_TEXT: Final = frozenset({BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.CHAR})
"""Types whose columns are text, which not every text is of."""

_PICKLE_BEGINS: Final = b"\x80"
"""How pickles begin, since protocol 2."""


def fitted(type_: TypeInformation, given: pa.Array) -> pa.Array:
    """The values of a column as one of type ``type_.storage_type``.

    Records have the same fields, in any order. Numbers become those of another type where they are equal to them.

    Raises:
        InvalidTypeError: when values do not fit the type.
    """
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if pa.types.is_null(given.type):
        return pa.nulls(len(given), type_.storage_type)
    for kind, fit in _FITTED:
        if isinstance(type_, kind):
            return fit(type_, given)
    return as_column(given, type_.storage_type)


def as_column(given: pa.Array, storage: pa.DataType) -> pa.Array:
    """A column as one of an Arrow type. Times are no numbers, which might be of any unit.

    Raises:
        InvalidTypeError: when it cannot be cast without loss.
    """
    is_number = pa.types.is_integer(storage) or pa.types.is_floating(storage)
    if is_number and pa.types.is_temporal(given.type):
        raise InvalidTypeError(
            f"a column of type {given.type} cannot be read as {storage}, whose unit nobody knows: make numbers of it, "
            "milliseconds since 1970 for what is a time in a job"
        )
    return conformed(given, storage)


def _fitted_records(type_: CompositeTypeInfo, given: pa.Array) -> pa.Array:
    fields = type_.arrow_fields
    wanted = [field.name for field in fields]
    if not pa.types.is_struct(given.type):
        raise InvalidTypeError(
            f"a column of type {given.type} cannot be read as {in_words(type_)}, a record of {wanted}"
        )
    names = [given.type.field(place).name for place in range(given.type.num_fields)]
    if sorted(names) != sorted(wanted):
        raise InvalidTypeError(f"records with the fields {names} are no {in_words(type_)}, whose fields are {wanted}")
    kinds = type_.field_types
    columns = [
        _within(field.name, kinds[place], given.field(names.index(field.name)))
        if place < len(kinds)
        else conformed(given.field(names.index(field.name)), field.type)  # the kind of a change
        for place, field in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=given.is_null())


def _within(name: str, type_: TypeInformation, given: pa.Array) -> pa.Array:
    try:
        return fitted(type_, given)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"field {name!r}: {error}") from error


def _fitted_lists(type_: SequenceTypeInfo[Any], given: pa.Array) -> pa.Array:
    kind = given.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise InvalidTypeError(f"a column of type {kind} cannot be read as {in_words(type_)}")
    elements = fitted(type_.element_type, given.flatten())
    if elements.null_count and not type_.nullable_elements:
        raise InvalidTypeError(f"an element is null, which no element of {in_words(type_)} can be")
    return pa.ListArray.from_arrays(_offsets(given), elements, type=type_.storage_type, mask=given.is_null())


def _fitted_maps(type_: MapTypeInfo[Any, Any], given: pa.Array) -> pa.Array:
    if not pa.types.is_map(given.type):
        raise InvalidTypeError(f"a column of type {given.type} cannot be read as {in_words(type_)}")
    kind = given.type
    lists = given.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    entries = lists.flatten()
    keys, values = fitted(type_.key_type, entries.field(0)), fitted(type_.value_type, entries.field(1))
    return pa.MapArray.from_arrays(_offsets(lists), keys, values, type=type_.storage_type, mask=given.is_null())


def _offsets(lists: pa.Array) -> pa.Array:
    """Where each list begins among the elements of all; one that is null has none."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _pickled(type_: PickledBytesTypeInfo, given: pa.Array) -> pa.Array:
    """Bytes are pickles, as a reader gives them; everything else becomes one."""
    if not (pa.types.is_binary(given.type) or pa.types.is_large_binary(given.type)):
        return values_to_array(type_, given.to_pylist())
    given = given.cast(pa.binary())
    if not pc.all(pc.fill_null(pc.starts_with(given, _PICKLE_BEGINS), True)).as_py():
        raise InvalidTypeError("values without a declared type are pickles, which these bytes are not")
    return given


def _fitted_basic(type_: BasicTypeInfo[Any], given: pa.Array) -> pa.Array:
    if type_.basic_type not in _AS_TEXT:
        return as_column(given, type_.storage_type)
    is_stored = given.type.equals(type_.storage_type)
    try:
        return values_to_array(type_, array_to_values(type_, given) if is_stored else given.to_pylist())
    except (ArithmeticError, ValueError) as error:  # text that is no number
        raise InvalidTypeError(f"a value of the column is no {in_words(type_)}: {error}") from error


_FITTED: Final[tuple[tuple[type, Callable[..., pa.Array]], ...]] = (
    (CompositeTypeInfo, _fitted_records),
    (SequenceTypeInfo, _fitted_lists),
    (MapTypeInfo, _fitted_maps),
    (PickledBytesTypeInfo, _pickled),
    (BasicTypeInfo, _fitted_basic),
)
