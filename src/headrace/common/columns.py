"""Records of a type as Arrow columns, and the type that a collection of values has in common."""

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.common.errors import InvalidTypeError
from headrace.common.garbage import gc_paused
from headrace.common.logical_types import ROW_KIND_COLUMN
from headrace.common.typeinfo import (
    BasicTypeInfo,
    CompositeTypeInfo,
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
from headrace.common.typeinfo.composite import declares_changes, schema_of
from headrace.common.types import Row, RowKind
from headrace.common.values import TypeHandler, basic_handler_of, handler_of, record_handler_of, stream_handler_of
from headrace.common.values.handler import Mask, WrongValueError, first_wrong
from headrace.common.values.records import RecordHandler, StreamRowHandler, kinds_of_rows

Kinds = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Layout(ABC):
    """Converts records of a type to columns and back: one per field of a composite type, else one called ``value``.

    What rows do in a changelog is no value of theirs: a batch has their *kinds* beside the columns, as an array of the
    values of ``RowKind``, or none where all are insertions. Where a type is declared with ``changelog=True``, and only
    there, kinds are a column like the others.
    """

    type_info: TypeInformation
    schema: pa.Schema

    @property
    def keeps_kinds(self) -> bool:
        """Return whether batches have kinds beside such columns."""
        return False

    @property
    def has_kind_column(self) -> bool:
        """Return whether kinds are a column among them."""
        return declares_changes(self.type_info)

    @abstractmethod
    def rows_to_columns(self, rows: Sequence[object]) -> pa.RecordBatch:
        """The records as a batch.

        Raises:
            InvalidTypeError: when a record does not fit the type, or is a change whose kind has no column; the message
                names the row, the field and the value.
        """

    def rows_to_columns_and_kinds(self, rows: Sequence[object]) -> tuple[pa.RecordBatch, Kinds | None]:
        """The records as a batch, and the kinds that lie beside it.

        Raises:
            InvalidTypeError: when a record does not fit the type; the message names the row, the field and the value.
        """
        return self.rows_to_columns(rows), None

    def kinds_of(self, rows: Sequence[object]) -> Kinds | None:
        """Return the kinds of records, whether their type has a column for them or not; None: all are insertions."""
        return None

    def kinds_in(self, batch: pa.RecordBatch) -> Kinds | None:
        """Return the same of the records of a batch, as far as the kinds have a column in it."""
        return None

    @abstractmethod
    def columns_to_rows(self, batch: pa.RecordBatch) -> list[Any]:
        """The records of a batch; its columns are looked up by name and cast if they are not of the very type.

        Raises:
            InvalidTypeError: when a column is missing, of a type that cannot be cast without loss, or holds what is no
                value of its type.
        """

    def columns_and_kinds_to_rows(self, batch: pa.RecordBatch, kinds: Kinds) -> list[Any]:
        """The records of a batch, some of which are changes by the kinds beside it."""
        raise AssertionError(f"records of type {self.type_info} have no kinds")

    def unreadable(self, batch: pa.RecordBatch) -> list[tuple[int, str]]:
        """The records of a batch under the schema that are none of the type, each with the reason, by rising index.

        What comes from outside may say more than Python, or the type, can hold: a year beyond 9999, say.
        """
        mask = self._mask_of_unreadable(batch)
        if mask is None:
            return []
        indices = [int(index) for index in np.flatnonzero(mask)]
        return [(index, self._explained(batch.slice(index, 1)).describe()) for index in indices]

    @abstractmethod
    def _mask_of_unreadable(self, batch: pa.RecordBatch) -> Mask | None:
        """Return a mask of the unreadable records of a batch, or None when there are none."""

    @abstractmethod
    def _explained(self, batch: pa.RecordBatch) -> WrongValueError:
        """The error of a batch whose only record is unreadable."""

    def _decoded(self, decode: Callable[..., list[Any]], batch: pa.RecordBatch, *more: object) -> list[Any]:
        """Decode the arrays of a batch, and name the record and field that cannot be decoded."""
        arrays = self.arrays(batch)
        try:
            with gc_paused():
                return decode(arrays, *more)
        except (ValueError, ArithmeticError) as error:
            found = self.unreadable(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
            if not found:
                raise  # by a class of the user
            raise InvalidTypeError(f"row {found[0][0]}{found[0][1]}") from error

    def coerced_rows(self, rows: list[Any]) -> list[Any]:
        """The records in the form in which ``columns_to_rows`` gives them: the list itself where all are.

        Raises:
            InvalidTypeError: as ``rows_to_columns_and_kinds``.
        """
        handler = stream_handler_of(self.type_info)
        if handler.all_coerced(rows):
            return rows
        try:
            return list(map(handler.coerce, rows))
        except InvalidTypeError:
            self.rows_to_columns_and_kinds(rows)  # tells which record it is
            raise

    def columns_to_array(self, batch: pa.RecordBatch) -> pa.Array:
        """The records of a batch as one column, as :func:`values_to_array` makes it of them.

        Raises:
            InvalidTypeError: as ``columns_to_rows``.
        """
        return pa.StructArray.from_arrays(self.arrays(batch), fields=list(self.schema))

    def array_to_columns(self, array: pa.Array) -> pa.RecordBatch:
        """The records of one column as a batch: what :meth:`columns_to_array` has made a column of."""
        return pa.RecordBatch.from_arrays(array.flatten(), schema=self.schema)

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of a batch, looked up by name and cast if they are not of the very type.

        Raises:
            InvalidTypeError: when a column is missing or of a type that cannot be cast without loss.
        """
        if batch.schema.equals(self.schema):
            return list(batch.columns)
        return [conformed(_column(batch, field.name, self.type_info), field.type) for field in self.schema]


@dataclass(frozen=True, slots=True)
class _RecordLayout(Layout):
    """Records by field; kinds lie beside the columns of rows, unless their type declares that they are a column."""

    handler: RecordHandler
    stream_handler: StreamRowHandler | None

    @property
    def keeps_kinds(self) -> bool:
        return self.stream_handler is not None

    def rows_to_columns_and_kinds(self, rows: Sequence[object]) -> tuple[pa.RecordBatch, Kinds | None]:
        if self.stream_handler is None:
            return self.rows_to_columns(rows), None
        try:
            arrays, kinds = self.stream_handler.encode_with_kinds(rows)
        except WrongValueError as error:
            raise self._wrong_record(rows, error, self.stream_handler) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), kinds

    def kinds_of(self, rows: Sequence[object]) -> Kinds | None:
        return _kinds_of(rows) if isinstance(self.type_info, RowTypeInfo) else None

    def kinds_in(self, batch: pa.RecordBatch) -> Kinds | None:
        kinds: Kinds | None = batch.column(ROW_KIND_COLUMN).to_numpy() if self.has_kind_column else None
        return None if kinds is None or not kinds.any() else kinds

    def columns_and_kinds_to_rows(self, batch: pa.RecordBatch, kinds: Kinds) -> list[Any]:
        if self.stream_handler is None:
            raise AssertionError(f"records of type {self.type_info} have no kinds beside their columns")
        return self._decoded(self.stream_handler.decode_with_kinds, batch, kinds)

    def rows_to_columns(self, rows: Sequence[object]) -> pa.RecordBatch:
        try:
            arrays = self.handler.encode_columns(rows)
        except WrongValueError as error:
            raise self._wrong_record(rows, error, self.handler) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _wrong_record(self, rows: Sequence[object], error: WrongValueError, handler: RecordHandler) -> InvalidTypeError:
        if (missing := _missing_record(rows, self.type_info)) is not None:
            return missing
        index, wrong = first_wrong(handler, rows) or (0, error)
        return _refused(index, wrong.describe(), rows[index])

    def columns_to_rows(self, batch: pa.RecordBatch) -> list[Any]:
        return self._decoded(self.handler.decode_columns, batch)

    def _mask_of_unreadable(self, batch: pa.RecordBatch) -> Mask | None:
        return self.handler.unreadable_columns(batch.columns)

    def _explained(self, batch: pa.RecordBatch) -> WrongValueError:
        return self.handler.explained_columns(batch.columns)


@dataclass(frozen=True, slots=True)
class _ValueLayout(Layout):
    def rows_to_columns(self, rows: Sequence[object]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([values_to_array(self.type_info, rows)], schema=self.schema)

    def columns_to_rows(self, batch: pa.RecordBatch) -> list[Any]:
        return array_to_values(self.type_info, self.arrays(batch)[0])

    def _mask_of_unreadable(self, batch: pa.RecordBatch) -> Mask | None:
        return handler_of(self.type_info).unreadable(batch.column(0))

    def _explained(self, batch: pa.RecordBatch) -> WrongValueError:
        return handler_of(self.type_info).explained(batch.column(0))

    def columns_to_array(self, batch: pa.RecordBatch) -> pa.Array:
        return self.arrays(batch)[0]

    def array_to_columns(self, array: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([array], schema=self.schema)

    def kinds_of(self, rows: Sequence[object]) -> Kinds | None:
        return _kinds_of(rows) if isinstance(self.type_info, PickledBytesTypeInfo) else None


@lru_cache(maxsize=1024)
def layout_of(type_info: TypeInformation) -> Layout:
    """The layout of a type."""
    if isinstance(type_info, CompositeTypeInfo):
        handler = record_handler_of(type_info)
        schema = schema_of(type_info)
        for_streams = stream_handler_of(type_info)
        stream_handler = for_streams if isinstance(for_streams, StreamRowHandler) else None
        return _RecordLayout(type_info, schema, handler, stream_handler)
    return _ValueLayout(type_info, schema_of(type_info))


def values_to_array(type_info: TypeInformation, values: Sequence[object]) -> pa.Array:
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
        InvalidTypeError: when it cannot be cast without loss, or holds what is no value of the type.
    """
    handler = handler_of(type_info)
    array = conformed(array, handler.storage)
    try:
        with gc_paused():
            return handler.decode(array)
    except (ValueError, ArithmeticError) as error:
        mask = handler.unreadable(array)
        if mask is None:
            raise  # by a class of the user
        index = int(np.flatnonzero(mask)[0])
        raise InvalidTypeError(f"row {index}{handler.explained(array.slice(index, 1)).describe()}") from error


def _column(batch: pa.RecordBatch, name: str, type_info: TypeInformation) -> pa.Array:
    if batch.schema.names.count(name) != 1:
        raise InvalidTypeError(f"a batch for {type_info} needs one column {name!r}; it has {batch.schema.names}")
    return batch.column(name)


def conformed(array: pa.Array | pa.ChunkedArray, storage: pa.DataType) -> pa.Array:
    """A column cast to an Arrow type, unless it is of that already.

    Raises:
        InvalidTypeError: when it cannot be cast without loss.
    """
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


def _kinds_of(records: Sequence[Any]) -> Kinds | None:
    """Return the kinds of records, as values of ``RowKind``; what is no row is an insertion, as most rows are."""
    classes = set(map(type, records))
    if Row not in classes:
        return None
    if len(classes) == 1:
        return kinds_of_rows(records)
    kinds = [record.get_row_kind().value if isinstance(record, Row) else 0 for record in records]
    return np.array(kinds, np.int8) if any(kinds) else None


def _missing_record(rows: Sequence[object], type_info: TypeInformation) -> InvalidTypeError | None:
    missing = next((index for index, row in enumerate(rows) if row is None), None)
    if missing is None:
        return None
    return _refused(
        missing,
        f": got None, expected a record of type {type_info}: drop it with a filter,"
        " or declare Types.PICKLED_BYTE_ARRAY()",
        None,
    )


def _explained(handler: TypeHandler, values: Sequence[object], error: WrongValueError) -> InvalidTypeError:
    """Looks for the first wrong value, one by one, now that there is known to be one."""
    index, wrong = first_wrong(handler, values) or (0, error)
    return _refused(index, wrong.describe(), values[index])


def _refused(index: int, described: str, record: object) -> InvalidTypeError:
    error = InvalidTypeError(f"row {index}{described}")
    error.record = record
    error.without_row = described.lstrip(":, ")
    return error


PICKLED: Final = PickledBytesTypeInfo()


def infer_from_values(collection: Collection[object]) -> TypeInformation:
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


def _common(values: Sequence[object]) -> TypeInformation:
    kinds = set(map(type, values))
    present = [value for value in values if value is not None] if type(None) in kinds else values
    kinds.discard(type(None))
    if len(kinds) != 1:
        return PICKLED
    kind = kinds.pop()
    return _READERS[kind](present) if kind in _READERS else _declared(kind, present)


def _integers(values: Sequence[Any]) -> TypeInformation:
    return Types.LONG() if min(values) >= -(2**63) and max(values) < 2**63 else PICKLED


def _datetimes(values: Sequence[object]) -> TypeInformation:
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


def _declared(kind: type, values: Sequence[object]) -> TypeInformation:
    """Return the type of a class; a field whose values do not keep to what a record class declares is typed by them."""
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


def _fits(declared: TypeInformation, values: Sequence[object]) -> bool:
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
