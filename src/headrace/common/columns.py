"""How records of a type lie in Arrow columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.garbage import gc_paused
from headrace.common.typeinfo import CompositeTypeInfo, TypeInformation
from headrace.common.values import TypeHandler, handler_of, record_handler_of
from headrace.common.values.handler import WrongValueError, first_wrong

if TYPE_CHECKING:
    from headrace.common.values.records import RecordHandler


VALUE_COLUMN: Final = "value"
"""The column of values that have no fields."""


@dataclass(frozen=True, slots=True)
class Layout(ABC):
    """How records of a type lie in columns: one per field of a composite type, else one called ``value``."""

    type_info: TypeInformation
    schema: pa.Schema

    @abstractmethod
    def rows_to_columns(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """The records as a batch.

        Raises:
            InvalidTypeError: when a record does not fit the type; the message names the row, the field and the value.
        """

    @abstractmethod
    def columns_to_rows(self, batch: pa.RecordBatch) -> list[Any]:
        """The records of a batch; its columns are looked up by name and cast if they are not of the very type.

        Raises:
            InvalidTypeError: when a column is missing or of a type that cannot be cast without loss.
        """

    def coerced_rows(self, rows: list[Any]) -> list[Any]:
        """The records in the form in which ``columns_to_rows`` gives them: the list itself where all are.

        Raises:
            InvalidTypeError: as ``rows_to_columns``.
        """
        handler = handler_of(self.type_info)
        if handler.all_coerced(rows):
            return rows
        try:
            return list(map(handler.coerce, rows))
        except InvalidTypeError:
            self.rows_to_columns(rows)  # tells which record it is
            raise

    def _arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if batch.schema.equals(self.schema):
            return list(batch.columns)
        return [_conform(_column(batch, field.name, self.type_info), field.type) for field in self.schema]


@dataclass(frozen=True, slots=True)
class _RecordLayout(Layout):
    handler: RecordHandler

    def rows_to_columns(self, rows: Sequence[Any]) -> pa.RecordBatch:
        try:
            arrays = self.handler.encode_columns(rows)
        except WrongValueError as error:
            raise _missing_record(rows, self.type_info) or self._wrong_record(rows, error) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _wrong_record(self, rows: Sequence[Any], error: WrongValueError) -> InvalidTypeError:
        index, wrong = first_wrong(self.handler, rows) or (0, error)
        explained = InvalidTypeError(f"row {index}{wrong.describe()}")
        explained.record = rows[index]
        return explained

    def columns_to_rows(self, batch: pa.RecordBatch) -> list[Any]:
        with gc_paused():
            return self.handler.decode_columns(self._arrays(batch))


@dataclass(frozen=True, slots=True)
class _ValueLayout(Layout):
    def rows_to_columns(self, rows: Sequence[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([values_to_array(self.type_info, rows)], schema=self.schema)

    def columns_to_rows(self, batch: pa.RecordBatch) -> list[Any]:
        return array_to_values(self.type_info, self._arrays(batch)[0])


@lru_cache(maxsize=1024)
def layout_of(type_info: TypeInformation) -> Layout:
    """The layout of a type."""
    if isinstance(type_info, CompositeTypeInfo):
        handler = record_handler_of(type_info)
        return _RecordLayout(type_info, pa.schema(handler.arrow_fields), handler)
    return _ValueLayout(type_info, pa.schema([pa.field(VALUE_COLUMN, type_info.storage_type)]))


def values_to_array(type_info: TypeInformation, values: Sequence[Any]) -> pa.Array:
    """The values as one column of type ``type_info.storage_type``: composite ones as structs, ``None`` as null.

    Raises:
        InvalidTypeError: when a value does not fit; the message says which, and where in it.
    """
    handler = handler_of(type_info)
    try:
        return handler.encode(values)
    except WrongValueError as error:
        raise _explained(handler, values, error) from error


def array_to_values(type_info: TypeInformation, array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; it is cast if it is not of type ``type_info.storage_type``.

    Raises:
        InvalidTypeError: when it cannot be cast without loss.
    """
    handler = handler_of(type_info)
    with gc_paused():
        return handler.decode(_conform(array, handler.storage))


def _column(batch: pa.RecordBatch, name: str, type_info: TypeInformation) -> pa.Array:
    if batch.schema.names.count(name) != 1:
        raise InvalidTypeError(f"a batch for {type_info} needs one column {name!r}; it has {batch.schema.names}")
    return batch.column(name)


def _conform(array: pa.Array | pa.ChunkedArray, storage: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type.equals(storage):
        return array
    try:
        if _is_text(array.type) != _is_text(storage):
            raise pa.ArrowInvalid("text is neither parsed nor made of numbers silently")
        return array.cast(storage)
    except pa.ArrowException as error:
        raise InvalidTypeError(f"a column of type {array.type} cannot be read as {storage}: {error}") from error


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _missing_record(rows: Sequence[Any], type_info: TypeInformation) -> InvalidTypeError | None:
    missing = next((index for index, row in enumerate(rows) if row is None), None)
    if missing is None:
        return None
    return InvalidTypeError(
        f"row {missing}: got None, expected a record of type {type_info}: drop it with a filter,"
        " or declare Types.PICKLED_BYTE_ARRAY()"
    )


def _explained(handler: TypeHandler, values: Sequence[Any], error: WrongValueError) -> InvalidTypeError:
    """Looks for the first wrong value, one by one, now that there is known to be one."""
    index, wrong = first_wrong(handler, values) or (0, error)
    return InvalidTypeError(f"row {index}{wrong.describe()}")
