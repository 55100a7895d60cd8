"""CSV files are read into columns, those with more values in a line than columns too."""

import csv as python_csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.common.errors import ConfigurationError, CorruptFileError, expect
from headrace.common.logs import get_logger
from headrace.common.other_names import alike
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import BasicType, BasicTypeInfo, SequenceTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.base import FLOATS, WHOLE_NUMBERS
from headrace.common.types import Row
from headrace.common.values import basic_handler_of
from headrace.formats.bad_records import inside_field
from headrace.formats.csv.schema import CsvColumn, CsvSchema
from headrace.formats.file_format import Decoded, bytes_of, join_text, whole
from headrace.formats.lines import (
    BOM,
    DEFAULT_MAX_LINE_BYTES,
    LineDecoder,
    LineFormat,
    Newlines,
    NewlinesOutsideQuotes,
    type_of_fields,
    value_pattern,
)
from headrace.storage.files import shown

logger = get_logger(__name__)


def _taker_of(schema: CsvSchema, file_columns: list[str]) -> int | None:
    """The place of the column that takes the last value of a line with more values than columns, if there is one."""
    arrays = {column.name for column in schema.columns if isinstance(column.kind, SequenceTypeInfo)}
    name = schema.any_property
    return file_columns.index(name) if name in file_columns and name not in arrays else None


def _cell_of(schema: CsvSchema) -> re.Pattern[bytes]:
    """Finds the values of a line as they stand there, with their quotes."""
    delimiter, quote, escape = (re.escape(char or "") for char in (schema.delimiter, schema.quote, schema.escape))
    escaped = f"|{escape}." if escape else ""
    quoted = f"(?:{quote}(?:[^{quote}{escape}]|{quote}{quote}{escaped})*{quote})?" if quote else ""
    return re.compile(rf"(?s)(?:\A|{delimiter})({quoted}(?:[^{delimiter}{escape}]{escaped})*)".encode())


def _line_with_returns(schema: CsvSchema) -> re.Pattern[bytes]:
    """A line whose carriage returns are between quotes, but for one at its end."""
    value = value_pattern(schema.quote, schema.delimiter, schema.escape, r"\r\n")
    return re.compile(rf"(?s)(?:{value}{re.escape(schema.delimiter)})*+{value}\r?\n".encode())


_COMMENT = re.compile(rb"(?m)^#.*(?:\n|\Z)")
_BLANK = re.compile(rb"(?m)^\r?$")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_UNCLOSED = "a quote is not closed"
_BAD_VALUE = re.compile(
    r"(?s)^In CSV column #(?P<column>\d+): (?:Row #\d+: )?CSV conversion error to [^:]*: (?P<why>.*)$"
)
_BAD_COUNT = re.compile(r"^CSV parse error: (?:Row #\d+: )?Expected (?P<expected>\d+) columns, got (?P<found>\d+)")
_INTEGERS: Final[frozenset[Any]] = frozenset(map(BasicTypeInfo, WHOLE_NUMBERS))
_BY_ARROW: Final[frozenset[Any]] = frozenset(
    map(BasicTypeInfo, {BasicType.STRING, BasicType.BOOLEAN} | WHOLE_NUMBERS | FLOATS)
)
_TEXTS: Final[frozenset[Any]] = frozenset({Types.STRING()})
_WITH_BLANKS = frozenset({BasicType.STRING, BasicType.CHAR})


class CsvReaderFormat(LineFormat[T_co]):
    """Lines of comma-separated values as named rows. Empty lines are left out.

    Args:
        schema: the columns.
        multiline: whether quoted values may hold newlines. Such a file is read by one task in one epoch, for where a
            record begins cannot be found from the middle of the file.
        charset: how characters are encoded.
        max_line_bytes: a longer line is a bad record.
        columns: the names of the columns to read, in the order of the records; all of the schema when left out.

    Raises:
        ConfigurationError: when ``multiline`` is combined with an escape character or without quotes.

    Examples:
        >>> from headrace.datastream.formats.csv import CsvReaderFormat, CsvSchema
        >>> schema = CsvSchema.builder().add_string_column("card").add_number_column("amount").build()
        >>> CsvReaderFormat.for_schema(schema).produced_type
        RowTypeInfo(card: String, amount: Long)
    """

    def __init__(
        self,
        schema: CsvSchema,
        *,
        multiline: bool = False,
        charset: str = "UTF-8",
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(charset, max_line_bytes)
        expect(schema, CsvSchema, "a CsvReaderFormat")
        if multiline and (schema.quote is None or schema.escape is not None):
            raise ConfigurationError("multiline CSV needs a quote character and no escape character")
        self._schema = schema
        self._read = schema if columns is None else schema.of_columns(columns)
        self._multiline = multiline
        self.boundary = boundary_of(schema) if multiline else Newlines()
        self.header_lines = int(schema.header or schema.skip_first)

    @staticmethod
    def for_schema(schema: CsvSchema) -> "CsvReaderFormat[Row]":
        """The format of files with the columns of ``schema``."""
        return CsvReaderFormat(schema)

    @property
    def produced_type(self) -> TypeInformation:
        return self._read.row_type

    def decoder(self, path: str, header: bytes) -> LineDecoder:
        names = [column.name for column in self._schema.columns]
        found = self._names_in(header, names, path) if self._schema.header and header else names
        return CsvDecoder(self._read, found, self.boundary if self._multiline else None).lines

    def hint_at_first_line(self, line: bytes) -> str:
        cells = [cell.strip() for cell in _cells(line, self._schema)]
        names = {column.name.lower() for column in self._schema.columns}
        are_words = len(cells) == len(names) and all(map(str.isidentifier, cells))
        if self.header_lines or not (are_words or names <= {cell.lower() for cell in cells}):
            return ""
        return (
            ", which seems to name the columns: then say header=True, or set_use_header() where a schema is built; in "
            "SQL, set the table's option csv.header to true"
        )

    def _names_in(self, header: bytes, names: list[str], path: str) -> list[str]:
        """The names of a file's columns, by its first line or by the schema, whose names are ``names``."""
        found = _cells(header, self._schema)
        if self._schema.strict_headers and found != names:
            raise CorruptFileError(f"{shown(path)}:1: the header has the columns {found}, not {names}")
        if not self._schema.reorder:
            if found != names and sorted(found) == sorted(names):
                _warn_of_order(shown(path), tuple(found), tuple(names))
            return names
        missing = [name for name in names if name not in found]
        if missing:
            similar = alike(missing[0], found)
            raise CorruptFileError(f"{shown(path)}:1: the header has no column {missing[0]!r}; it has {found}{similar}")
        return found


@lru_cache(maxsize=1024)
def _warn_of_order(file: str, found: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Once for a file in a process, which may read many pieces of it."""
    logger.warning(
        "%s: the header has the columns %s, the schema %s, and they are taken in the order of the schema: to have them "
        "found by their names call set_reorder_columns() where the schema is built",
        file,
        ", ".join(found),
        ", ".join(names),
    )


class CsvFormat(CsvReaderFormat[T_co]):
    r"""CSV with the fields of a type as its columns.

    Whatever is not among the arguments, comments say, is in :class:`~headrace.formats.csv.schema.CsvSchema`, which
    :class:`CsvReaderFormat` takes.

    Args:
        fields: a composite type, or the types of the columns by name.
        header: whether the first line of every file names its columns, which may then come in any order.
        delimiter: what separates columns.
        quote: what encloses values; None for nothing.
        null_value: what stands for a missing value; an empty value, except for strings, when left out.
        multiline: see :class:`CsvReaderFormat`.
        charset: how characters are encoded.

    Raises:
        InvalidTypeError: when a field has no form in CSV.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.csv import CsvFormat
        >>> _ = Path("prices.csv").write_text("id,name\n1,tea\n2,cake\n")
        >>> source = FileSource.for_record_stream_format(CsvFormat({"id": int, "name": str}, header=True), "prices.csv")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> prices = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "prices")
        >>> prices.execute_and_collect(limit=10)
        [Row(id=1, name='tea'), Row(id=2, name='cake')]
    """

    def __init__(
        self,
        fields: TypeInformation[T_co] | type[T_co] | Mapping[str, object],
        *,
        header: bool = False,
        delimiter: str = ",",
        quote: str | None = '"',
        null_value: str | None = None,
        multiline: bool = False,
        charset: str = "UTF-8",
    ) -> None:
        self._type = type_of_fields(fields)
        schema = CsvSchema.of(
            self._type, header=header, reorder=header, delimiter=delimiter, quote=quote, null_value=null_value
        )
        super().__init__(schema, multiline=multiline, charset=charset)

    @property
    def produced_type(self) -> TypeInformation:
        return self._type


class CsvDecoder:
    """Reads lines of one file, or messages.

    Arrow reads what it reads fast and as it is meant. Where it refuses a value, or may have taken one for a number that
    is none, the columns are read as texts and these by the rule of their types, which also says what is wrong.

    Args:
        schema: the columns that come out.
        file_columns: the columns of the file, by name.
        boundary: what ends a record where values may hold newlines; else None.
    """

    def __init__(self, schema: CsvSchema, file_columns: list[str], boundary: Newlines | None) -> None:
        self._schema = schema
        self._boundary = boundary
        self._parse = csv.ParseOptions(
            delimiter=schema.delimiter,
            quote_char=schema.quote or False,
            double_quote=schema.quote is not None,
            escape_char=schema.escape or False,
            newlines_in_values=True,
        )
        self._arrow_schema = pa.schema([(column.name, column.kind.storage_type) for column in schema.columns])
        self._file_columns = file_columns
        self._has_integers = not _INTEGERS.isdisjoint(map(attrgetter("kind"), schema.columns))
        # What Arrow itself makes of texts is of its type, and may be missing.
        self._is_checked = _BY_ARROW.issuperset(map(attrgetter("kind"), schema.columns))

    def lines(self, data: bytes) -> Decoded:
        """The records of whole lines; as a ``LineDecoder``."""
        if data and not data.endswith(b"\n"):
            data += b"\n"  # Arrow takes an empty value for a quoted one where the data end behind it
        if self._schema.comments:
            data = self._without_comments(data)
        ends = None if self._boundary is None else _closed_ends(data, self._boundary)
        self._refuse_returns(data)
        records = self._records_in(data, ends)
        if not records:
            return Decoded(_empty(self._arrow_schema))
        guarded, guards = (data, 0) if self._boundary is not None else self._guarded(data)
        return Decoded(self._columns(guarded, records + guards).slice(0, records), is_checked=self._is_checked)

    def messages(self, messages: pa.Array) -> pa.RecordBatch:
        """The records of messages that each hold one, as binary values none of which is null.

        Raises:
            ValueError: when one of them holds none or more than one, or one that cannot be read.
        """
        texts = pc.utf8_rtrim(_decoded(messages), "\r\n")
        texts = pc.replace_substring_regex(texts, "^\ufeff", "")
        lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
        if not len(texts):
            return _empty(self._arrow_schema)
        if not lengths.all():
            raise ValueError("the message is empty")
        data = bytes_of(join_text([texts, "\n"]))
        _refuse_several(data, np.cumsum(lengths + 1), self._boundary or Newlines())
        self._refuse_returns(data)
        return self._columns(data, len(texts))

    def _columns(self, data: bytes, records: int) -> pa.RecordBatch:
        """The records of data in which there are so many, each with its line end."""
        if data.startswith(BOM):
            data = BOM + data  # of which Arrow drops one
        try:
            table = self._read(data)
        except pa.ArrowInvalid as error:
            raise ValueError(self._reason(str(error))) from error
        if table.num_rows != records:
            raise ValueError(_UNCLOSED)
        columns = [self._typed(whole(table.column(column.name)), column) for column in self._schema.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)

    def _read(self, data: bytes) -> pa.Table:
        if not (self._has_integers and _may_be_hexadecimal(data)):
            with suppress(pa.ArrowInvalid):
                return self._read_with(_BY_ARROW, data)
        try:
            return self._read_with(_TEXTS, data)
        except pa.ArrowInvalid as error:
            folded = self._folded(data) if _BAD_COUNT.search(str(error)) is not None else data
            if folded == data:
                raise
        return self._read(folded)

    def _folded(self, data: bytes) -> bytes:
        """The lines with no more values than columns: the column that takes others, if there is one, has the last."""
        taker, cell, width = (
            _taker_of(self._schema, self._file_columns),
            _cell_of(self._schema),
            len(self._file_columns),
        )
        if taker is None:
            return data
        folded = []
        for start, end in pairwise([0, *(self._boundary or Newlines()).all(data)]):
            line = data[start:end]
            values = line.rstrip(b"\r\n")
            cells = cell.findall(values)
            if len(cells) > width:
                cells[taker] = cells[-1]
                line = self._schema.delimiter.encode().join(cells[:width]) + line[len(values) :]
            folded.append(line)
        return b"".join(folded)

    def _read_with(self, by_arrow: frozenset[Any], data: bytes) -> pa.Table:
        """Read columns of some types as what stores these, the others as texts."""
        columns, null_value = zip(self._schema.columns, self._arrow_schema, strict=True), self._schema.null_value
        types = {field.name: field.type if column.kind in by_arrow else pa.string() for column, field in columns}
        convert = csv.ConvertOptions(
            column_types=types,
            include_columns=self._arrow_schema.names,
            null_values=["" if null_value is None else null_value],
            strings_can_be_null=null_value is not None,
            quoted_strings_can_be_null=null_value is None,
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        )
        options = csv.ReadOptions(use_threads=False, column_names=self._file_columns, block_size=len(data) + 1)
        return csv.read_csv(
            pa.py_buffer(data), read_options=options, parse_options=self._parse, convert_options=convert
        )

    def _reason(self, message: str) -> str:
        """Translate Arrow's reason: columns by name, and without its own count of rows, which begins at some block."""
        if (value := _BAD_VALUE.search(message)) is not None:
            name = self._file_columns[int(value["column"])]
            kind = next(column.kind for column in self._schema.columns if column.name == name)
            return inside_field(name, f"{value['why']} for {kind}")
        if (count := _BAD_COUNT.search(message)) is not None:
            return f"expected {count['expected']} columns, got {count['found']}"
        return message

    def _without_comments(self, data: bytes) -> bytes:
        if self._boundary is None:
            return _COMMENT.sub(b"", data)
        return b"".join(line for line in self._lines_of(data) if not line.startswith(b"#"))

    def _lines_of(self, data: bytes) -> Iterator[bytes]:
        if self._boundary is None:
            return (line[0] for line in re.finditer(b"[^\n]*\n", data))
        return (data[start:end] for start, end in pairwise([0, *self._boundary.all(data)]))

    def _refuse_returns(self, data: bytes) -> None:
        """Refuse lines with a carriage return that is not between quotes: to Arrow they are several."""
        if b"\r" in data and _LONE_RETURN.search(data) is not None:
            line_with_returns = _line_with_returns(self._schema)
            for line in self._lines_of(data):
                if b"\r" in line and line_with_returns.fullmatch(line) is None:
                    raise ValueError("there is a carriage return outside quotes")

    def _records_in(self, data: bytes, ends: list[int] | None) -> int:
        """Return the expected number of records: one for each line that is not empty."""
        if ends is not None:
            spans = pairwise([0, *ends])
            return sum(1 for start, end in spans if end - start > 2 or data[start:end].strip(b"\r\n"))
        blank = b"\n\n" in data or (b"\r" in data and b"\n\r\n" in data) or data[:1] in (b"\n", b"\r")
        return data.count(b"\n") - (_blank_lines(data) if blank else 0)

    def _guarded(self, data: bytes) -> tuple[bytes, int]:
        """The lines in a form in which a quote that is not closed shows in the number of records.

        Arrow takes such a quote to be closed at the end of the data, which may be anywhere in the file. So the last
        line is put there twice: with an open quote the two become one.
        """
        end = data.rstrip(b"\r\n")
        last = end[end.rfind(b"\n") + 1 :]
        special = f"{self._schema.quote or ''}{self._schema.escape or ''}".encode()
        return (data, 0) if set(special).isdisjoint(last) else (b"%s\n%s\n" % (end, last), 1)

    def _typed(self, array: pa.Array, column: CsvColumn) -> pa.Array:
        """A column under its type: Arrow has read it so, or its texts."""
        if column.kind in _TEXTS or array.type != pa.string():
            return array
        try:
            if isinstance(column.kind, SequenceTypeInfo):
                return self._lists(array, column)
            return self._values(array, column.kind)
        except ValueError as error:
            raise ValueError(inside_field(column.name, str(error))) from error

    def _values(self, texts: pa.Array, kind: Any) -> pa.Array:
        """Values of their texts; blanks around them do not count, unless they may be part of the value."""
        handler = basic_handler_of(kind)
        with suppress(pa.ArrowInvalid):
            return handler.cast_texts(texts)  # as is usual: nothing is missing, and nothing odd
        if self._schema.null_value is None:
            texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        return handler.parse_all(texts if kind.basic_type in _WITH_BLANKS else pc.utf8_trim(texts, " \t"))

    def _lists(self, texts: pa.Array, column: CsvColumn) -> pa.Array:
        """Lists of the elements in texts; an empty text is an empty list."""
        parts = pc.split_pattern(texts, self._schema.separator_of(column))
        is_empty = pc.equal(texts, "").fill_null(False)
        lengths = pc.if_else(is_empty, 0, pc.list_value_length(parts)).fill_null(0)
        elements = parts.filter(pc.invert(is_empty)).flatten()
        kind = getattr(column.kind, "element_type", None)
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False)))), pa.int32())
        values = self._values(elements, kind)
        return pa.ListArray.from_arrays(offsets, values, type=column.kind.storage_type, mask=texts.is_null())


def boundary_of(schema: CsvSchema) -> Newlines:
    """Return the boundary that ends records whose values may contain newlines."""
    if schema.quote is None and schema.escape is None:
        return Newlines()
    return NewlinesOutsideQuotes(schema.quote, schema.delimiter, schema.escape, comments=schema.comments)


def _decoded(messages: pa.Array) -> pa.Array:
    """Messages as strings.

    Raises:
        ValueError: when one is not UTF-8, and where.
    """
    try:
        return messages.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(message, "utf-8") for message in messages.to_pylist()], pa.string())


def _closed_ends(data: bytes, boundary: Newlines) -> list[int]:
    """Find where lines end; the last one has its line end.

    Raises:
        ValueError: when that is part of a value.
    """
    ends = boundary.all(data)
    last = data[ends[-2] :] if len(ends) > 1 else data
    if boundary.last(last) != len(last):
        raise ValueError(_UNCLOSED)
    return ends


def _refuse_several(data: bytes, ends: npt.NDArray[np.int64], boundary: Newlines) -> None:
    """Refuse messages that are not one line each.

    Args:
        data: the messages, each with a newline behind it.
        ends: where they end.
        boundary: what ends a line.
    """
    if not np.array_equal(_closed_ends(data, boundary), ends):
        raise ValueError("the message has more than one line")


def _cells(line: bytes, schema: CsvSchema) -> list[str]:
    """The values of one line as they stand there."""
    quoting: Literal[0, 3] = 0 if schema.quote else 3  # QUOTE_MINIMAL or QUOTE_NONE
    text = io.StringIO(line.decode("utf-8", errors="replace"), newline="")
    reader = python_csv.reader(
        text, delimiter=schema.delimiter, quotechar=schema.quote, escapechar=schema.escape, quoting=quoting
    )
    return next(reader, [])


def _may_be_hexadecimal(data: bytes) -> bool:
    """Tell whether there is ``0x`` in some data; to search for two bytes takes twice as long."""
    if b"x" not in data and b"X" not in data:
        return False
    characters = np.frombuffer(data, np.uint8)
    places = np.flatnonzero((characters | 0x20) == ord("x"))
    return bool((characters[places - 1] == ord("0")).any())


def _blank_lines(data: bytes) -> int:
    """Count the empty lines of data that ends with a newline."""
    return sum(1 for _ in _BLANK.finditer(data)) - 1  # `$` also matches after the last newline


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
