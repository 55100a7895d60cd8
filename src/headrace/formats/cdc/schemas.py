"""Changes of tables in messages of JSON and Avro: Debezium, Canal, Maxwell and Oracle GoldenGate.

As in Flink, a sink writes each row as a message of its own: update-before as a deletion, update-after as an insertion.
"""

import base64
import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.arrays import list_lengths
from headrace.common.batch import Batch
from headrace.common.errors import ConfigurationError
from headrace.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, Types
from headrace.common.typeinfo.base import WHOLE_NUMBERS
from headrace.common.values import handler_of
from headrace.formats.avro.messages import ConfluentRegistryAvroDeserializationSchema
from headrace.formats.avro.schema import AvroSchema, avro_schema_of
from headrace.formats.avro.writer import encode_records
from headrace.formats.bad_records import BadValueError, ColumnarSerializationSchema
from headrace.formats.cdc.changes import (
    ChangesDeserializationSchema,
    ChangesSerializationSchema,
    Images,
    MetadataField,
    Operation,
    are_removed,
    moment,
    operations_of,
    restored,
    rows_of_changes,
    stated_nulls,
)
from headrace.formats.json.columns import (
    JsonNumber,
    document_of,
    is_spelled_whole,
    reader_of,
    text_of,
    with_whole_numbers,
)
from headrace.formats.json.decoders import decoder_of
from headrace.formats.schema_registry import SchemaHeader, SchemaRegistry, registry_of

NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds per unit of time."""

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_DAY: Final = 86_400
_DATES: Final = frozenset({None, "io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
_UNITS: Final = {
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_ENCODED: Final = {
    BasicType.SQL_DATE, BasicType.SQL_TIME, BasicType.SQL_TIMESTAMP, BasicType.TIMESTAMP_LTZ, BasicType.INSTANT,
    BasicType.BIG_DEC,
}  # fmt: skip
_ZONED: Final = {BasicType.TIMESTAMP_LTZ, BasicType.INSTANT}
_MOST_DIGITS: Final = 19
"""Numbers of 64 bits have no more."""


@dataclass(frozen=True, slots=True)
class DebeziumEncodings:
    """Puts what fields are in other formats in place of what Debezium writes: ``"2026-01-31"`` for ``20484``.

    Attributes:
        row_type: the type of the rows.
        time_unit: the unit of times whose schema does not come with them: ``ms``, ``us`` or ``ns``; None where no such
            times are expected.
        schema_include: whether messages have a schema and a payload.
    """

    row_type: RowTypeInfo
    time_unit: str | None
    schema_include: bool

    def __call__(self, document: Any) -> Any:
        """The document with other values.

        Raises:
            BadValueError: when a value has no such meaning.
        """
        payload = _member(document, "payload") if self.schema_include else document
        schema = _member(document, "schema") if self.schema_include else None
        for name in ("before", "after"):
            row = _member(payload, name)
            if not isinstance(row, dict):
                continue
            described = _fields_of(_fields_of(schema).get(name))
            try:
                row.update(self._decoded(row, described))
            except BadValueError as error:
                raise error.inside(f"payload.{name}" if self.schema_include else name) from error
        return document

    def _decoded(self, row: Mapping[str, object], described: Mapping[str, object]) -> dict[str, Any]:
        return {
            name: self._field(name, row[name], kind.basic_type, described.get(name))
            for name, kind in zip(self.row_type.field_names, self.row_type.field_types, strict=True)
            if isinstance(kind, BasicTypeInfo) and kind.basic_type in _ENCODED and row.get(name) is not None
        }

    def _field(self, name: str, value: object, kind: BasicType, described: object) -> Any:
        try:
            if kind == BasicType.BIG_DEC:
                return _decimal(value, described)
            return self._time(value, kind, described) if isinstance(value, JsonNumber) else value
        except BadValueError as error:
            raise error.inside(name) from error

    def _time(self, number: JsonNumber, kind: BasicType, described: object) -> str:
        meaning = _name_in(described, "name")
        if not is_spelled_whole(number) or len(number.lstrip("-")) > _MOST_DIGITS:
            raise BadValueError(number, f"a whole number of 64 bits, for {kind.name}")
        if kind == BasicType.SQL_DATE:
            return _date(number, meaning)
        unit = _UNITS.get(meaning or "", self.time_unit)
        if unit is None:
            raise BadValueError(
                number,
                f"a value of {kind.name}: a number needs a unit, which its schema tells (schema_include=True), or "
                'time_unit="ms", say, of the schema that reads',
            )
        seconds, nanos = divmod(int(number) * NANOS[unit], 1_000_000_000)
        if kind == BasicType.SQL_TIME and not 0 <= seconds < _DAY:
            raise BadValueError(number, f"a time of day in {unit}")
        text = f"{_moment(number, seconds).isoformat()}.{nanos:09}"
        return text[11:] if kind == BasicType.SQL_TIME else f"{text}Z" if kind in _ZONED else text


def _date(number: JsonNumber, meaning: str | None) -> str:
    if meaning not in _DATES:
        raise BadValueError(number, f"a date, but {meaning}")
    return _moment(number, int(number) * _DAY).date().isoformat()


def _moment(number: JsonNumber, seconds: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise BadValueError(number, "in the years 1 to 9999") from None


def _decimal(value: object, described: object) -> Any:
    """A decimal of its digits as bytes, which have the scale in their schema or beside them."""
    if isinstance(value, dict):
        digits, scale = _member(value, "value"), _member(value, "scale")
    elif _member(described, "name") == _DECIMAL:
        digits, scale = value, _member(_member(described, "parameters"), "scale")
    else:
        return value
    try:
        unscaled = int.from_bytes(base64.b64decode(digits, validate=True), signed=True)
        return JsonNumber(f"{unscaled}e{-int(scale)}")
    except (TypeError, ValueError):
        raise BadValueError(text_of(value), "a decimal: bytes in Base64, and their scale") from None


def _fields_of(schema: object) -> dict[str, Any]:
    """The fields of a struct of Kafka Connect by their names."""
    fields = _member(schema, "fields")
    return {_name_in(field, "field") or "": field for field in fields} if isinstance(fields, list) else {}


def _name_in(document: object, member: str) -> str | None:
    """A member that is a name; None where it is anything else."""
    name = _member(document, member)
    return name if isinstance(name, str) else None


def _member(document: object, name: str) -> Any:
    """A member of an object; None of anything else."""
    return document.get(name) if isinstance(document, dict) else None


_TEXTS: Final = Types.LIST(Types.STRING())
_INSERT, _UPDATE, _DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


class DebeziumJsonDeserializationSchema(ChangesDeserializationSchema):
    """Reads changes as Debezium writes them: ``{"before": ..., "after": ..., "op": "u"}``.

    Args:
        type_info: the type of the rows of the table.
        schema_include: whether messages are ``{"schema": ..., "payload": ...}``, as Kafka Connect writes them
            by default.
        time_unit: the unit of times that are numbers without a schema beside them: ``ms``, ``us`` or ``ns``.
        metadata: names of metadata, or fields by name and the metadata that each holds: ``schema``,
            ``ingestion-timestamp``, ``source.timestamp``, ``source.database``, ``source.schema``, ``source.table`` and
            ``source.properties``.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> import pyarrow as pa
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import DebeziumJsonDeserializationSchema
        >>> schema = DebeziumJsonDeserializationSchema(Types.ROW_NAMED(["id", "n"], [int, int]))
        >>> update = b'{"before": {"id": 1, "n": 5}, "after": {"id": 1, "n": 6}, "op": "u"}'
        >>> schema.deserialize_batch(pa.array([update])).columns.to_pylist()
        [{'id': 1, 'n': 5, '__row_kind': 1}, {'id': 1, 'n': 6, '__row_kind': 2}]
    """

    operations: ClassVar[Mapping[str, Operation]] = {"c": _INSERT, "r": _INSERT, "u": _UPDATE, "d": _DELETE}
    operation_field = "op"
    known_metadata: ClassVar[Mapping[str, MetadataField]] = {
        "schema": MetadataField("schema"),
        "ingestion-timestamp": moment("ts_ms", unit="ms"),
        "source.timestamp": moment("source.ts_ms", unit="ms"),
        "source.database": MetadataField("source.db"),
        "source.schema": MetadataField("source.schema"),
        "source.table": MetadataField("source.table"),
        "source.properties": MetadataField("source", Types.MAP(Types.STRING(), Types.STRING())),
    }

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        schema_include: bool = False,
        time_unit: Literal["ms", "us", "ns"] | None = None,
        metadata: Mapping[str, str] | Sequence[str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        if time_unit not in (None, *NANOS):
            raise ConfigurationError(f"there is no unit of time {time_unit!r}: choose one of {', '.join(NANOS)}")
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._encodings = DebeziumEncodings(self.row_type, time_unit, schema_include)
        self._schema_include = schema_include
        if schema_include:
            inner = [f if f.path == "schema" else replace(f, path=f"payload.{f.path}") for f in self._metadata]
            self._metadata = inner

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        if not self._schema_include:
            return decoder_of(self._envelope, self._encodings).messages(messages)
        whole = Types.ROW_NAMED(["payload"], [self._envelope])
        payload = decoder_of(whole, self._encodings).messages(messages).column(0)
        return pa.RecordBatch.from_arrays(payload.flatten(), names=["before", "after", "op"])


class OggJsonDeserializationSchema(ChangesDeserializationSchema):
    """Reads changes as Oracle GoldenGate writes them: ``{"before": ..., "after": ..., "op_type": "U"}``.

    That a table was truncated (``T``) is left out, as in Flink.

    Args:
        type_info: the type of the rows of the table.
        metadata: names of metadata, or fields by name and the metadata that each holds: ``table``, ``primary-keys``,
            ``ingestion-timestamp`` and ``event-timestamp``.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import OggJsonDeserializationSchema
        >>> schema = OggJsonDeserializationSchema(Types.ROW_NAMED(["id", "n"], [int, int]))
    """

    operations: ClassVar[Mapping[str, Operation]] = {"I": _INSERT, "U": _UPDATE, "D": _DELETE, "T": Operation.NOTHING}
    operation_field = "op_type"
    known_metadata: ClassVar[Mapping[str, MetadataField]] = {
        "table": MetadataField("table"),
        "primary-keys": MetadataField("primary_keys", _TEXTS),
        "ingestion-timestamp": moment("current_ts", stored=Types.SQL_TIMESTAMP()),
        "event-timestamp": moment("op_ts", stored=Types.SQL_TIMESTAMP()),
    }


class MaxwellJsonDeserializationSchema(ChangesDeserializationSchema):
    """Reads changes as Maxwell writes them: ``{"data": ..., "old": ..., "type": "update"}``.

    ``old`` holds the fields alone that were others before.

    Args:
        type_info: the type of the rows of the table.
        metadata: names of metadata, or fields by name and the metadata that each holds: ``database``, ``table``,
            ``primary-key-columns`` and ``ingestion-timestamp``.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import MaxwellJsonDeserializationSchema
        >>> schema = MaxwellJsonDeserializationSchema(Types.ROW_NAMED(["id", "n"], [int, int]))
    """

    operations: ClassVar[Mapping[str, Operation]] = {"insert": _INSERT, "update": _UPDATE, "delete": _DELETE}
    operation_field = "type"
    known_metadata: ClassVar[Mapping[str, MetadataField]] = {
        "database": MetadataField("database"),
        "table": MetadataField("table"),
        "primary-key-columns": MetadataField("primary_key_columns", _TEXTS),
        "ingestion-timestamp": moment("ts", unit="s"),
    }

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        envelope = Types.ROW_NAMED(["data", "old", "type"], [self.row_type, self.row_type, Types.STRING()])
        return decoder_of(envelope).messages(messages)

    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        operations = operations_of(read.column("type"), self.operations)
        rows = np.arange(len(operations))
        nulls = stated_nulls(messages, rows, rows * 0, operations)
        before = restored(read.column("data"), read.column("old"), operations == _UPDATE, nulls)
        return Images(operations, before, read.column("data"), rows)


_WHOLE: Final = WHOLE_NUMBERS | {BasicType.BIG_INT}


class CanalJsonDeserializationSchema(ChangesDeserializationSchema):
    """Reads changes as Canal writes them: ``{"data": [...], "old": [...], "type": "UPDATE"}``, several rows in one.

    ``old`` holds the fields alone that were others before. Values may be strings, as Canal writes them. That a table
    was created is left out, as in Flink.

    Args:
        type_info: the type of the rows of the table.
        database_include: a regular expression; messages of databases whose whole name does not match it are left out.
        table_include: likewise, of tables.
        metadata: names of metadata, or fields by name and the metadata that each holds: ``database``, ``table``,
            ``sql-type``, ``pk-names``, ``ingestion-timestamp`` and ``event-timestamp``.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import CanalJsonDeserializationSchema
        >>> schema = CanalJsonDeserializationSchema(Types.ROW_NAMED(["id", "n"], [int, int]), table_include="orders_.*")
    """

    operations: ClassVar[Mapping[str, Operation]] = {
        "INSERT": Operation.INSERT,
        "UPDATE": Operation.UPDATE,
        "DELETE": Operation.DELETE,
        "CREATE": Operation.NOTHING,
    }
    operation_field = "type"
    known_metadata: ClassVar[Mapping[str, MetadataField]] = {
        "database": MetadataField("database"),
        "table": MetadataField("table"),
        "sql-type": MetadataField("sqlType", Types.MAP(Types.STRING(), Types.INT())),
        "pk-names": MetadataField("pkNames", _TEXTS),
        "ingestion-timestamp": moment("ts", unit="ms"),
        "event-timestamp": moment("es", unit="ms"),
    }

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        database_include: str | None = None,
        table_include: str | None = None,
        metadata: Mapping[str, str] | Sequence[str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._include = {
            name: re.compile(pattern)
            for name, pattern in (("database", database_include), ("table", table_include))
            if pattern is not None
        }

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        row = RowTypeInfo((Types.STRING(),) * len(self.row_type.field_names), self.row_type.field_names)
        rows, text = Types.LIST(row), Types.STRING()
        envelope = Types.ROW_NAMED(["data", "old", "type", "database", "table"], [rows, rows, text, text, text])
        return self._parsed(decoder_of(envelope).messages(messages))

    def _parsed(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """With values of their types in place of texts."""
        named = list(zip(self.row_type.field_names, self.row_type.field_types, strict=True))
        for index, name in enumerate(("data", "old")):
            lists = read.column(name)
            texts = lists.values
            columns = zip(named, texts.flatten(), strict=True)
            fields = [_parsed(kind, column, f"{name}.{field}") for (field, kind), column in columns]
            rows = pa.StructArray.from_arrays(fields, fields=list(self.row_type.storage_type), mask=texts.is_null())
            whole = pa.ListArray.from_arrays(lists.offsets, rows, mask=lists.is_null())
            read = read.set_column(index, name, whole)
        return read

    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        operations = operations_of(read.column("type"), self.operations)
        operations = np.where(self._excluded(read), Operation.NOTHING, operations).astype(np.int8)
        data, old = read.column("data"), read.column("old")
        counts, old_counts = list_lengths(data), list_lengths(old)
        # Where there is no row, and should be one, there is one here that is null: it is refused.
        rows = np.repeat(np.arange(len(counts)), np.where(operations == Operation.NOTHING, 0, np.maximum(counts, 1)))
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        after, of_old = _elements(data, rows, place, counts), _elements(old, rows, place, old_counts)
        nulls = stated_nulls(messages, rows, place, operations[rows])
        before = restored(after, of_old, operations[rows] == Operation.UPDATE, nulls)
        return Images(operations[rows], before, after, rows)

    def _excluded(self, read: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        excluded = np.zeros(read.num_rows, np.bool_)
        for name, pattern in self._include.items():
            values = read.column(name).to_pylist()
            excluded |= np.array([value is None or not pattern.fullmatch(value) for value in values], np.bool_)
        return excluded


def _elements(
    lists: pa.Array, rows: npt.NDArray[Any], place: npt.NDArray[Any], lengths: npt.NDArray[np.int64]
) -> pa.Array:
    """The elements at some places of lists, null where there are not so many."""
    there = place < lengths[rows]
    starts = lists.offsets.to_numpy()[:-1][rows]
    return lists.values.take(pa.array(np.where(there, starts + place, 0), mask=~there))


def _parsed(kind: TypeInformation, texts: pa.Array, path: str) -> pa.Array:
    """Values of their texts; MySQL's booleans are the numbers 0 and 1."""
    if kind == Types.BOOLEAN():
        texts = pc.if_else(pc.equal(texts, "1"), "true", pc.if_else(pc.equal(texts, "0"), "false", texts))
    try:
        if isinstance(kind, BasicTypeInfo):
            texts = with_whole_numbers(texts) if kind.basic_type in _WHOLE else texts
            return handler_of(kind).parse_all(texts)
        documents = [None if text is None else document_of(text.encode()) for text in texts.to_pylist()]
        return reader_of(kind).of_documents(documents)
    except BadValueError as error:
        raise error.inside(path) from error
    except ValueError as error:
        raise ValueError(f"field {path!r}: {error}") from error


class DebeziumJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Debezium does, without a schema in each message.

    Examples:
        >>> from headrace.common import Row, RowKind, Types
        >>> from headrace.datastream.formats.cdc import DebeziumJsonSerializationSchema
        >>> schema = DebeziumJsonSerializationSchema(Types.ROW_NAMED(["id"], [int]))
        >>> schema.serialize(Row.of_kind(RowKind.DELETE, 7))
        b'{"before":{"id":7},"after":null,"op":"d"}'
    """

    templates = ('{"before":null,"after":%,"op":"c"}', '{"before":%,"after":null,"op":"d"}')


class CanalJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Canal does, a row in each message.

    Examples:
        >>> from headrace.common import Row, Types
        >>> from headrace.datastream.formats.cdc import CanalJsonSerializationSchema
        >>> CanalJsonSerializationSchema(Types.ROW_NAMED(["id"], [int])).serialize(Row(id=7))
        b'{"data":[{"id":7}],"type":"INSERT"}'
    """

    templates = ('{"data":[%],"type":"INSERT"}', '{"data":[%],"type":"DELETE"}')


class MaxwellJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Maxwell does.

    Examples:
        >>> from headrace.common import Row, Types
        >>> from headrace.datastream.formats.cdc import MaxwellJsonSerializationSchema
        >>> MaxwellJsonSerializationSchema(Types.ROW_NAMED(["id"], [int])).serialize(Row(id=7))
        b'{"data":{"id":7},"type":"insert"}'
    """

    templates = ('{"data":%,"type":"insert"}', '{"data":%,"type":"delete"}')


class OggJsonSerializationSchema(ChangesSerializationSchema):
    """Writes changes as Oracle GoldenGate does.

    Examples:
        >>> from headrace.common import Row, Types
        >>> from headrace.datastream.formats.cdc import OggJsonSerializationSchema
        >>> OggJsonSerializationSchema(Types.ROW_NAMED(["id"], [int])).serialize(Row(id=7))
        b'{"before":null,"after":{"id":7},"op_type":"I"}'
    """

    templates = ('{"before":null,"after":%,"op_type":"I"}', '{"before":%,"after":null,"op_type":"D"}')


class DebeziumAvroDeserializationSchema(ChangesDeserializationSchema):
    """Reads changes as Debezium writes them in Avro, each behind the id of its schema in a registry.

    Args:
        registry: the registry, or its URL.
        type_info: the type of the rows of the table; their fields are found by name.
        ignore_parse_errors: whether messages that cannot be read are left out and counted.

    Raises:
        InvalidTypeError: when no schema of Avro can be made of the type.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import DebeziumAvroDeserializationSchema
        >>> stock = Types.ROW_NAMED(["item", "pieces"], [str, int])
        >>> schema = DebeziumAvroDeserializationSchema("http://localhost:8081", stock)
    """

    operations = DebeziumJsonDeserializationSchema.operations
    operation_field = "op"

    def __init__(
        self, registry: SchemaRegistry | str, type_info: TypeInformation, *, ignore_parse_errors: bool = False
    ) -> None:
        super().__init__(type_info, ignore_parse_errors=ignore_parse_errors)
        envelope = envelope_schema(self.row_type)
        self._inner = ConfluentRegistryAvroDeserializationSchema(registry, envelope, legacy_timestamp_mapping=False)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return self._inner.decode(messages)


class DebeziumAvroSerializationSchema(ColumnarSerializationSchema):
    """Writes changes as Debezium does in Avro, behind the id of their schema, which is put into a registry.

    Args:
        registry: the registry, or its URL.
        subject: where the schema is.
        type_info: the type of the rows.
        auto_register: whether a schema that is not there becomes a new version of the subject.

    Raises:
        InvalidTypeError: when no schema of Avro can be made of the type.

    Examples:
        >>> from headrace.common import Types
        >>> from headrace.datastream.formats.cdc import DebeziumAvroSerializationSchema
        >>> stock = Types.ROW_NAMED(["item", "pieces"], [str, int])
        >>> schema = DebeziumAvroSerializationSchema("http://localhost:8081", "stock-value", stock)
    """

    takes_changes = True

    def __init__(
        self, registry: SchemaRegistry | str, subject: str, type_info: TypeInformation, *, auto_register: bool = True
    ) -> None:
        super().__init__(rows_of_changes(type_info))
        schema = envelope_schema(self._type)
        self._node = schema.node(legacy_timestamp_mapping=False)
        self._header = SchemaHeader(registry_of(registry), subject, str(schema), "AVRO", auto_register)

    def serialize_batch(self, batch: Batch) -> pa.Array:
        rows, removed = self.columns_of(batch), are_removed(batch)
        images = [
            pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema), mask=pa.array(there))
            for there in (~removed, removed)
        ]
        names = pa.array(["c", "d"]).take(pa.array(removed.astype(np.int64)))
        envelope = pa.RecordBatch.from_arrays([*images, names], names=["before", "after", "op"])
        return self._header.before_all(encode_records(self._node, envelope))


def envelope_schema(kind: TypeInformation) -> AvroSchema:
    """The schema of messages about rows of a type.

    Raises:
        InvalidTypeError: when no schema of Avro can be made of the type.
    """
    row = json.loads(str(avro_schema_of(kind, "Value")))
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": ["null", "string"], "default": None},
    ]
    return AvroSchema({"type": "record", "name": "Envelope", "fields": fields})
