"""Reading changes of tables from messages of JSON: those of Debezium, Maxwell and Oracle GoldenGate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from headrace.common.errors import ConfigurationError
from headrace.common.tracebacks import hides_engine_of_methods
from headrace.common.typeinfo import TypeInformation, Types
from headrace.formats.cdc.changes_schema import ChangesDeserializationSchema
from headrace.formats.cdc.debezium_encodings import NANOS, DebeziumEncodings
from headrace.formats.cdc.former_rows import restored, told_nulls
from headrace.formats.cdc.images import Images, Operation, operations_of
from headrace.formats.cdc.metadata import (
    MetadataField,
    moment,
    properties,
    text,
    texts,
    time_of_utc,
)
from headrace.formats.json.decoders import decoder_of

_INSERT, _UPDATE, _DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


class _BeforeAndAfter(ChangesDeserializationSchema):
    """Messages with two images in ``before`` and ``after``."""

    @property
    def _envelope(self) -> TypeInformation:
        return Types.ROW_NAMED(
            ["before", "after", self.operation_field], [self.row_type, self.row_type, Types.STRING()]
        )

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return decoder_of(self._envelope).messages(messages)

    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        operations = operations_of(read.column(self.operation_field), self.operations)
        return Images(operations, read.column("before"), read.column("after"), np.arange(len(operations)))


@hides_engine_of_methods
class DebeziumJsonDeserializationSchema(_BeforeAndAfter):
    """Reads changes as Debezium writes them: ``{"before": ..., "after": ..., "op": "u"}``.

    Args:
        type_info: the type of the rows of the table.
        schema_include: whether messages are ``{"schema": ..., "payload": ...}``, as Kafka Connect writes them unless
            told otherwise.
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
        "schema": text("schema"),
        "ingestion-timestamp": moment("ts_ms", unit="ms"),
        "source.timestamp": moment("source", "ts_ms", unit="ms"),
        "source.database": text("source", "db"),
        "source.schema": text("source", "schema"),
        "source.table": text("source", "table"),
        "source.properties": properties("source"),
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
            inner = [f if f.path == ("schema",) else replace(f, path=("payload", *f.path)) for f in self._metadata]
            self._metadata = inner

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        if not self._schema_include:
            return decoder_of(self._envelope, self._encodings).messages(messages)
        whole = Types.ROW_NAMED(["payload"], [self._envelope])
        payload = decoder_of(whole, self._encodings).messages(messages).column(0)
        return pa.RecordBatch.from_arrays(payload.flatten(), names=["before", "after", "op"])


@hides_engine_of_methods
class OggJsonDeserializationSchema(_BeforeAndAfter):
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
        "table": text("table"),
        "primary-keys": texts("primary_keys"),
        "ingestion-timestamp": time_of_utc("current_ts"),
        "event-timestamp": time_of_utc("op_ts"),
    }


@hides_engine_of_methods
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
        "database": text("database"),
        "table": text("table"),
        "primary-key-columns": texts("primary_key_columns"),
        "ingestion-timestamp": moment("ts", unit="s"),
    }

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        envelope = Types.ROW_NAMED(["data", "old", "type"], [self.row_type, self.row_type, Types.STRING()])
        return decoder_of(envelope).messages(messages)

    def images(self, read: pa.RecordBatch, messages: pa.Array) -> Images:
        operations = operations_of(read.column("type"), self.operations)
        rows = np.arange(len(operations))
        told = told_nulls(messages, rows, rows * 0, operations)
        before = restored(read.column("data"), read.column("old"), operations == _UPDATE, told)
        return Images(operations, before, read.column("data"), rows)
