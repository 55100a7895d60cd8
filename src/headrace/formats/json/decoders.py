"""Documents of JSON as columns: lines of a block, or messages of a fetch."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from headrace.common.columns import layout_of
from headrace.common.garbage import gc_paused
from headrace.common.type_variables import T_co
from headrace.common.typeinfo import CompositeTypeInfo, SequenceTypeInfo, TypeInformation, Types
from headrace.formats.bad_records import BadValueError
from headrace.formats.file_format import Decoded, whole
from headrace.formats.json.columns import BLANKS, MAX_DEPTH, RecordReader, document_of, reader_of, refuse_deep
from headrace.formats.lines import BOM, LineDecoder, LineFormat, type_of_fields

Places = npt.NDArray[np.intp]


_FEW: Final = 16
"""Fewer messages are read one by one as fast as Arrow reads them."""


class JsonDecoder:
    """Reads documents of one type, each of which is one record.

    Arrow's reader is fast, and takes nothing that is not to be taken; where it refuses, and of types that it does not
    know, documents are read one by one.

    Args:
        kind: the type.
        prepare: makes another document of each that Arrow does not take.
    """

    def __init__(self, kind: TypeInformation, prepare: Callable[[Any], object] | None = None) -> None:
        self._reader = reader_of(kind)
        self._prepare = prepare
        self._schema = layout_of(kind).schema
        raw = self._reader.raw if kind.is_composite else None
        self._options = (
            None
            if raw is None
            else arrow_json.ParseOptions(explicit_schema=pa.schema(list(raw)), unexpected_field_behavior="ignore")
        )

    def lines(self, data: bytes) -> pa.RecordBatch:
        """The records of lines that each hold a document; empty lines are left out.

        Raises:
            ValueError: when one of the lines cannot be read.
        """
        if self._options is not None:
            starts, ends = _lines_in(data)
            if _are_braced(pa.py_buffer(data), starts, ends):
                try:
                    return self._by_arrow(pa.py_buffer(data), starts, ends)
                except (ValueError, pa.ArrowException):
                    pass  # each is decoded alone
        return self.messages(pa.array(lines_of(data), pa.binary()))

    def messages(self, messages: pa.Array) -> pa.RecordBatch:
        """The records of messages that each are a document, binary values of which none is null.

        Raises:
            ValueError: when one of the messages cannot be read; of one that is alone, why.
        """
        if self._options is None or len(messages) <= _FEW:
            return self._by_documents(messages.to_pylist())
        try:
            return self._joined(messages.cast(pa.binary()))
        except (ValueError, pa.ArrowException):
            middle = len(messages) // 2
            halves = messages.slice(0, middle), messages.slice(middle)
            return pa.concat_batches(list(map(self.messages, halves)))

    def _by_documents(self, messages: Sequence[bytes]) -> pa.RecordBatch:
        with gc_paused():
            return self._columns_of(messages)

    def _columns_of(self, messages: Sequence[bytes]) -> pa.RecordBatch:
        documents = list(map(document_of, messages))
        if self._prepare is not None:
            documents = list(map(self._prepare, documents))
        column = self._reader.of_documents(documents)
        if not isinstance(self._reader.kind, CompositeTypeInfo):
            return pa.RecordBatch.from_arrays([column], schema=self._schema)
        if column.null_count:
            raise BadValueError("null", "an object")
        return pa.RecordBatch.from_arrays(column.flatten(), schema=self._schema)

    def _joined(self, messages: pa.BinaryArray) -> pa.RecordBatch:
        """A message may have several lines.

        Each begins with a brace and ends with one, so none can be the beginning of another one: what follows would
        begin with a comma. So there is one object in each when there are as many as messages.
        """
        offsets = _offsets(messages)
        if not _are_braced(messages.buffers()[2], offsets[:-1], offsets[1:]):
            trimmed = [each.removeprefix(BOM).strip(BLANKS) for each in messages.to_pylist()]
            messages = pa.array(trimmed, pa.binary())
            offsets = _offsets(messages)
            if not _are_braced(messages.buffers()[2], offsets[:-1], offsets[1:]):
                raise ValueError("the message is not a JSON object")
        as_one = pa.ListArray.from_arrays(pa.array([0, len(messages)], pa.int32()), messages)
        places = np.arange(len(messages)) - offsets[0]
        return self._by_arrow(pc.binary_join(as_one, b"\n").buffers()[2], offsets[:-1] + places, offsets[1:] + places)

    def _by_arrow(self, data: pa.Buffer, starts: Places, ends: Places) -> pa.RecordBatch:
        """The records of documents that lie one behind the other.

        Raises:
            ValueError: when Arrow takes one of them for something else, or does not take it.
        """
        _refuse_what_only_arrow_takes(data, starts, ends)
        options = arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1)
        table = arrow_json.read_json(data, read_options=options, parse_options=self._options)
        if table.num_rows != len(starts):
            raise ValueError("there is not one JSON object, and nothing else")
        assert isinstance(self._reader, RecordReader)
        columns = [reader.of_raw(whole(table.column(name))) for name, reader in self._reader.fields.items()]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


@lru_cache(maxsize=256)
def decoder_of(kind: TypeInformation, prepare: Callable[[Any], object] | None = None) -> JsonDecoder:
    """The decoder of documents of a type that has columns; made once."""
    return JsonDecoder(kind, prepare)


def lines_of(data: bytes) -> list[bytes]:
    """The lines that are not empty."""
    return [line for line in data.split(b"\n") if line.strip(BLANKS)]


def refuse_missing_fields(messages: pa.Array, columns: pa.RecordBatch, kind: TypeInformation) -> None:
    """Refuse messages that lack a field; only those that have a null somewhere need to be looked at once more.

    Args:
        messages: the messages, none of them null.
        columns: what was read of them.
        kind: their type.

    Raises:
        ValueError: for the first field that is missing.
    """
    suspicious = np.zeros(len(messages), np.bool_)
    for column in columns.columns:
        if pa.types.is_nested(column.type):
            suspicious[:] = True
        elif column.null_count:
            suspicious |= column.is_null().to_numpy(zero_copy_only=False)
    for message in messages.filter(pa.array(suspicious)).to_pylist():
        _refuse_missing(document_of(message), kind, "")


def _refuse_missing(document: object, kind: object, path: str) -> None:
    if isinstance(kind, CompositeTypeInfo) and isinstance(document, Mapping):
        for name, field in zip(kind.field_names, kind.field_types, strict=True):
            inner = f"{path}.{name}".removeprefix(".")
            if name not in document:
                raise ValueError(f"the field {inner!r} is missing")
            _refuse_missing(document[name], field, inner)
    elif isinstance(kind, SequenceTypeInfo) and isinstance(document, list):
        for place, element in enumerate(document):
            _refuse_missing(element, kind.element_type, f"{path}[{place}]")


def _refuse_what_only_arrow_takes(data: pa.Buffer, starts: Places, ends: Places) -> None:
    """Refuse documents that Arrow takes though they are none.

    Raises:
        ValueError: when there may be one.
    """
    str(data, "utf-8")
    if (ends - starts).max() > MAX_DEPTH:
        # Both brackets that open differ in one bit, which is left out here.
        opened = np.flatnonzero((np.frombuffer(data, np.uint8) & 0b11011111) == ord("["))
        if (np.searchsorted(opened, ends) - np.searchsorted(opened, starts)).max() > MAX_DEPTH:
            raise ValueError("the document may be nested too deep")


def _lines_in(data: bytes) -> tuple[Places, Places]:
    """Return where lines begin and end, line ends excluded."""
    characters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    starts = np.append(0, ends + 1)
    if data.endswith(b"\n"):
        starts = starts[:-1]
    else:
        ends = np.append(ends, len(data))
    return starts, ends - (characters[ends - 1] == ord("\r")) if data else ends


def _offsets(messages: pa.Array) -> Places:
    offsets: Places = np.frombuffer(messages.buffers()[1], np.int32).astype(np.intp)
    return offsets[messages.offset : messages.offset + len(messages) + 1]


def _are_braced(data: pa.Buffer, starts: Places, ends: Places) -> bool:
    """Return whether each document begins with an opening and ends with a closing brace."""
    if not len(starts) or (ends <= starts).any():
        return False
    characters = np.frombuffer(data, np.uint8)
    return bool((characters[starts] == ord("{")).all() and (characters[ends - 1] == ord("}")).all())


class JsonLinesFormat(LineFormat[T_co]):
    r"""Lines that each hold a JSON document. Empty lines are left out.

    With a type, every line is an object with the type's fields; a field that is missing is ``None``, one that the type
    does not have is left out, and a value that does not fit makes the line a bad record. Without a type every record is
    what :func:`json.loads` makes of the line.

    Args:
        type_info: the type of the records, or the types of their fields by name.
        charset: how characters are encoded.

    Raises:
        ConfigurationError: when the charset is unknown.

    Examples:
        >>> from pathlib import Path
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import FileSource
        >>> from headrace.datastream.formats.json import JsonLinesFormat
        >>> _ = Path("users.json").write_text('{"name": "ann", "age": 31}\n')
        >>> source = FileSource.for_record_stream_format(JsonLinesFormat({"name": str, "age": int}), "users.json")
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> users = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "users")
        >>> users.execute_and_collect(limit=10)
        [Row(name='ann', age=31)]
    """

    def __init__(
        self,
        type_info: TypeInformation[T_co] | type[T_co] | Mapping[str, object] | None = None,
        *,
        charset: str = "UTF-8",
    ) -> None:
        super().__init__(charset)
        self._type = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_of_fields(type_info)

    @property
    def produced_type(self) -> TypeInformation:
        return self._type

    def decoder(self, path: str, header: bytes) -> LineDecoder:
        if self._type.arrow_type is None:
            return _decode_objects
        decoder = decoder_of(self._type)
        return lambda data: Decoded(decoder.lines(data))


def _decode_objects(data: bytes) -> Decoded:
    return Decoded(rows=[_object(line) for line in lines_of(data)])


def _object(line: bytes) -> Any:
    refuse_deep(line)
    return json.loads(str(line.removeprefix(BOM), "utf-8"))
