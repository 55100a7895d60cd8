"""Keys that somebody gives as columns: as they are stored, and not in two ways that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.common.columns import conformed
from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import PickledBytesTypeInfo
from headrace.savepoint.columns import ENCODED, is_shown_as_text, readable_keys
from headrace.state.keys import KeyCodec
from headrace.state.runs.layout import ENTRY, ENTRY_KEY, KEY
from headrace.state_processor.fitting import fitted

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


def given_keys(codec: KeyCodec, given: pa.Table, *, takes_objects: bool) -> pa.Array:
    """The column ``key``, or what ``key_encoded`` says where that is given beside it.

    Args:
        codec: how keys are stored.
        given: the columns.
        takes_objects: whether keys without a declared type are what the column has. Not so of a state that was stored:
            it may be what a reader has shown for them.

    Raises:
        InvalidTypeError: when keys do not fit their type, or the two columns say different things.
    """
    if ENCODED in given.column_names:
        return _encoded(codec, given)
    if not takes_objects and is_shown_as_text(codec.type):
        raise InvalidTypeError(f"keys have no declared type: the column {ENCODED!r} has to be among those given")
    return _canonical(codec, column_of(given, KEY), KEY)


def given_entries(type_: TypeInformation | None, given: pa.Table, name: str, *, takes_objects: bool) -> pa.Array:
    """The column ``entry_key`` or ``entry`` of a map; either may be given where keys of entries have a type.

    Raises:
        InvalidTypeError: when keys of entries do not fit their type.
    """
    assert type_ is not None, "maps say what their types are"
    codec = KeyCodec.for_type(type_)
    told = ENTRY if ENTRY in given.column_names else ENTRY_KEY
    if is_shown_as_text(type_):
        if told == ENTRY and ENTRY_KEY in given.column_names:  # as a reader gives both
            return fitted(type_, column_of(given, ENTRY)) if name == ENTRY else _as_stored(codec, given, ENTRY_KEY)
        if not takes_objects:
            raise InvalidTypeError(
                f"keys of entries have no declared type: the columns {ENTRY_KEY!r} and {ENTRY!r} have to be among "
                "those given"
            )
    keys = column_of(given, told)
    return fitted(type_, keys) if name == ENTRY else _canonical(codec, keys, told)


def _canonical(codec: KeyCodec, keys: pa.Array, name: str) -> pa.Array:
    if keys.null_count:
        row = keys.is_null().index(True).as_py()
        raise InvalidTypeError(f"row {row}: {name!r} is null, and every row is of a key")
    if isinstance(codec.type, PickledBytesTypeInfo):
        return codec.encode(keys.to_pylist()).values
    try:
        return codec.from_array(fitted(codec.type, keys)).values
    except InvalidTypeError as error:
        raise InvalidTypeError(f"column {name!r}: {error}") from error


def _encoded(codec: KeyCodec, given: pa.Table) -> pa.Array:
    encoded = _as_stored(codec, given, ENCODED)
    shown = readable_keys(codec, encoded)[KEY]
    told = column_of(given, KEY)
    told = told if is_shown_as_text(codec.type) else fitted(codec.type, told)
    for row, (own, other) in enumerate(zip(shown.to_pylist(), told.to_pylist(), strict=True)):
        if repr(own) != repr(other):  # NaN is what it is
            raise InvalidTypeError(
                f"row {row}: {ENCODED!r} is of the key {own!r}, and {KEY!r} is {other!r}; leave {ENCODED!r} out, and "
                "the keys become others"
            )
    return encoded


def _as_stored(codec: KeyCodec, given: pa.Table, name: str) -> pa.Array:
    keys = conformed(column_of(given, name), codec.arrow_type)
    if keys.null_count:
        raise InvalidTypeError(f"row {keys.is_null().index(True).as_py()}: {name!r} is null")
    return keys


def column_of(given: pa.Table, name: str) -> pa.Array:
    """One column in one piece; of nulls where there is none.

    Raises:
        InvalidTypeError: when it is more than an array of its type can hold.
    """
    if name not in given.column_names:
        return pa.nulls(given.num_rows)
    try:
        column = given.column(name).combine_chunks()
        return column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    except pa.ArrowInvalid as error:
        raise InvalidTypeError(f"column {name!r} is too large ({error}): give a DataFrame of Spark") from error
