"""Files that know their own types: what Avro, Parquet and ORC share, and the types of records of an Arrow schema."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar, Final, Self

import pyarrow as pa

from headrace.common.call_site import warn_caller
from headrace.common.columns import layout_of
from headrace.common.errors import CorruptFileError, InvalidTypeError
from headrace.common.logical_types import MAX_PRECISION, decimal
from headrace.common.other_names import alike
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.bad_records import BadRecords, good_records, without_unreadable
from headrace.formats.file_format import BulkFormat, BulkWriterFactory, Decoded, FileKind
from headrace.storage.files import InputFile, shown

_SIMPLE: list[tuple[Callable[[pa.DataType], bool], Callable[[], TypeInformation]]] = [
    (pa.types.is_boolean, Types.BOOLEAN),
    (pa.types.is_int8, Types.BYTE),
    (pa.types.is_int16, Types.SHORT),
    (pa.types.is_uint8, Types.SHORT),
    (pa.types.is_int32, Types.INT),
    (pa.types.is_uint16, Types.INT),
    (pa.types.is_int64, Types.LONG),
    (pa.types.is_uint32, Types.LONG),
    (pa.types.is_uint64, Types.BIG_INT),
    (pa.types.is_float16, Types.FLOAT),
    (pa.types.is_float32, Types.FLOAT),
    (pa.types.is_float64, Types.DOUBLE),
    (pa.types.is_string, Types.STRING),
    (pa.types.is_large_string, Types.STRING),
    (pa.types.is_binary, Types.BYTES),
    (pa.types.is_large_binary, Types.BYTES),
    (pa.types.is_fixed_size_binary, Types.BYTES),
    (pa.types.is_date, Types.SQL_DATE),
    (pa.types.is_time, Types.SQL_TIME),
]


def _decimal(kind: pa.DataType) -> TypeInformation:
    is_of_sql = 0 <= kind.scale <= kind.precision <= MAX_PRECISION
    return Types.of(decimal(kind.precision, kind.scale)) if is_of_sql else Types.BIG_DEC()


_DETAILED: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], TypeInformation]]] = [
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, lambda kind: Types.SQL_TIMESTAMP() if kind.tz is None else Types.TIMESTAMP_LTZ()),
]


def type_of_schema(schema: pa.Schema) -> TypeInformation:
    """Named rows with a field for every column.

    Raises:
        InvalidTypeError: naming the column that has no type in headrace.
    """
    return Types.ROW_NAMED(schema.names, [_type_of(field) for field in schema])


def _type_of(field: pa.Field) -> TypeInformation:
    kind = field.type
    for test, make in _SIMPLE:
        if test(kind):
            return make()
    for test, make_of in _DETAILED:
        if test(kind):
            return make_of(kind)
    if pa.types.is_dictionary(kind):
        return _type_of(field.with_type(kind.value_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Types.LIST(_type_of(kind.value_field))
    if pa.types.is_map(kind):
        return Types.MAP(_type_of(kind.key_field), _type_of(kind.item_field))
    if pa.types.is_struct(kind):
        return Types.ROW_NAMED([inner.name for inner in kind], [_type_of(inner) for inner in kind])
    raise InvalidTypeError(f"column {field.name!r} is {kind}, which has no type in headrace: choose other columns")


WAY_OUT: Final = (
    "call set_dead_letter() on the builder that FileSource.for_bulk_file_format() gives; in SQL, declare the column "
    "with the type that it has in the file, and TRY_CAST it in the query"
)
"""Advice on how to continue without unreadable records."""


class SelfDescribingFormat(BulkFormat):
    """Reads files that tell the type of their records, where the program does not."""

    name: ClassVar[str]
    """The name of such files."""
    declared_by: ClassVar[str] = "type_info"
    """The argument that declares the type in a program."""
    _type: TypeInformation | None

    @property
    def produced_type(self) -> TypeInformation:
        """The type of the records.

        Raises:
            InvalidTypeError: when it was not given and the format was not resolved.
        """
        if self._type is None:
            raise InvalidTypeError(
                f"{type(self).__name__} needs {self.declared_by}, or a file to take it from when the source is built"
            )
        return self._type

    def resolve(self, list_files: Callable[[], Sequence[InputFile]]) -> Self:
        if self._type is not None:
            return self
        files = list_files()
        if not files:
            raise InvalidTypeError(
                f"there is no {self.name} file yet that tells the type of the records: give {self.declared_by}"
            )
        return self._resolved(files[0])

    @abstractmethod
    def _resolved(self, file: InputFile) -> Self:
        """The format for records of the type that a file has."""


class ColumnFileFormat(SelfDescribingFormat):
    """Reads some columns of files that know their names and types.

    Args:
        columns: which columns to read, in that order; all of them when left out.
        type_info: the type of the records, whose fields are looked up among the columns by name. When left out it is
            that of the first file that is there when the source is built.
        case_sensitive: whether names of columns have to be spelled exactly.
    """

    def __init__(
        self, columns: Sequence[str] | None, type_info: TypeInformation | type | None, *, case_sensitive: bool
    ) -> None:
        self._columns = _names(columns)
        self._type = None if type_info is None else Types.of(type_info)
        self._case_sensitive = case_sensitive

    @abstractmethod
    def file_schema(self, file: InputFile) -> pa.Schema:
        """The columns of a file, as the types of records are made of them."""

    def _resolved(self, file: InputFile) -> Self:
        found = self.file_schema(file)
        chosen = found.names if self._columns is None else self._columns
        missing = [name for name in chosen if name not in found.names]
        if missing:
            known = ", ".join(found.names) + alike(missing[0], found.names)
            raise InvalidTypeError(f"{file.path} has no column {missing[0]!r}; it has {known}")
        resolved = copy(self)
        resolved._type = type_of_schema(pa.schema([found.field(name) for name in chosen]))
        return resolved


def _names(columns: object) -> tuple[str, ...] | None:
    if columns is None:
        return None
    names = tuple(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else (columns,)
    if isinstance(columns, str) or not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(
            f"columns is {columns!r}: give a list of the names of columns; the type of records goes to type_info="
        )
    return names


class ColumnWriterFactory(BulkWriterFactory):
    """Makes writers of files of columns.

    Args:
        kind: the names and types of the columns; those of the stream's records when None.
        options: how files are written, as the module's ``join`` takes it as well.
    """

    name: ClassVar[str]
    """The name of such files."""

    def __init__(self, kind: TypeInformation | type | None, **options: Any) -> None:
        self._type = None if kind is None else Types.of(kind)
        self._options = options

    @property
    def suffix(self) -> str:
        return f".{self.name.lower()}"

    def file_type(self, input_type: TypeInformation) -> TypeInformation:
        """The type whose columns the files have."""
        return self._type or input_type

    def file_kind(self, input_type: TypeInformation) -> FileKind:
        schema = layout_of(self.file_type(input_type)).schema
        return FileKind.of(self.name.lower(), schema.to_string(truncate_metadata=False), **self._options)

    def validate(self, input_type: TypeInformation) -> None:
        if input_type.arrow_type is None:
            raise InvalidTypeError(
                f"{self.name} needs records with columns: declare their type or annotate the function"
            )
        kind = self.file_type(input_type)
        if len(layout_of(kind).schema) != len(layout_of(input_type).schema):
            raise InvalidTypeError(f"the {self.name} files have the columns of {kind}, but records are {input_type}")


def check_hadoop_config(config: object | None) -> None:
    """Warn at the program's line that a configuration of Hadoop, as PyFlink takes one, is not read."""
    if config is not None:
        warn_caller(
            "hadoop_config has no effect: Arrow reads and writes the files, and storages are reached as the options "
            "that begin with headrace.storage. say"
        )


@contextmanager
def telling_damage(message: str) -> Iterator[None]:
    """Tell what Arrow says of damaged data from a passing fault of the disk.

    Raises:
        CorruptFileError: in place of the former, beginning with ``message``.
    """
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptFileError(f"{message}: {error}") from error


def names_in_file(path: str, found: Sequence[str], wanted: Sequence[str], *, case_sensitive: bool) -> list[str]:
    """The names that a file gives to the wanted columns.

    Args:
        path: the file, for messages.
        found: the columns of the file.
        wanted: the columns that are read.
        case_sensitive: whether names have to be spelled exactly.

    Raises:
        CorruptFileError: when a column is missing.
    """
    if not case_sensitive:
        by_lower = {name.lower(): name for name in found}
        wanted = [by_lower.get(name.lower(), name) for name in wanted]
    missing = [name for name in wanted if name not in found]
    if missing:
        similar = alike(missing[0], found)
        raise CorruptFileError(f"{shown(path)} has no column {missing[0]!r}; it has {', '.join(found)}{similar}")
    return list(wanted)


class RowDecoder:
    """Makes records of rows of a file, and finds those that are none.

    Args:
        path: the file, for messages.
        names: the columns as the file names them.
        kind: the type of the records.
        reject: whether rows that cannot be read are handed over; else they are an error.
    """

    def __init__(self, path: str, names: Sequence[str], kind: TypeInformation, *, reject: bool) -> None:
        self._path = path
        self._names = list(names)
        self._type = kind
        self._schema = layout_of(kind).schema
        self._bad_rows = BadRecords(reject, "row", WAY_OUT)

    def decoded(self, batch: pa.RecordBatch, first: int, of: str) -> Decoded:
        """The records of some rows.

        Args:
            batch: the rows.
            first: the number of the first one, counted from 0.
            of: what they are counted in.

        Raises:
            BadRecordError: on a row that does not fit the type, unless such rows are handed over.
            CorruptFileError: when a column can never be read as its type.
        """
        chosen = [batch.column(name) for name in self._names]
        read = good_records(
            lambda start, stop: self._cast([column.slice(start, stop - start) for column in chosen]), len(batch)
        )
        read = without_unreadable(read, self._type)
        letters = [self._letter(chosen, index, f"row {first + index} {of}", reason) for index, reason in read.rejected]
        return Decoded(read.columns, rejected=letters)

    def _cast(self, columns: list[pa.Array]) -> pa.RecordBatch:
        arrays = []
        for column, field in zip(columns, self._schema, strict=True):
            try:
                arrays.append(column if column.type == field.type else column.cast(field.type))
            except pa.ArrowInvalid as error:
                raise ValueError(f"field {field.name!r}: {error}, expected {field.type}") from error
            except pa.ArrowException as error:
                problem = f"field {field.name!r}: {error}"
                raise CorruptFileError(f"{self._path} does not fit the type of the records: {problem}") from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _letter(self, columns: list[pa.Array], index: int, where: str, reason: str) -> tuple[str, str, str]:
        values = [f"{name}={_text_of(column[index])}" for name, column in zip(self._names, columns, strict=True)]
        raw = ", ".join(values).encode(errors="backslashreplace")
        return self._bad_rows.letter(f"{self._path}: {where}", raw, reason)


def _text_of(value: pa.Scalar) -> str:
    """A value for people; where Python has no such value, as Arrow writes it."""
    try:
        return repr(value.as_py())
    except (ValueError, ArithmeticError):
        text: str = pa.array([value]).to_string(indent=0, skip_new_lines=True)
        return text[1:-1]
