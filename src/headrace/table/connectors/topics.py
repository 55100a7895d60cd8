"""Tables in topics: the common part of the connectors of Kafka and of the embedded log.

A message has a key and a value, each with its own format; a column of the table is in the key, the value or both. An
upsert table has a primary key, which is the key of messages: a message without a value deletes the row of its key.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, ClassVar, Final

from headrace.common.config_options import ConfigOption, choice, integer
from headrace.common.configuration import Configuration
from headrace.common.errors import ConfigurationError
from headrace.common.logical_types import AtomicType, LogicalType, MapType, TypeRoot, bigint, string
from headrace.common.messages import TopicPartition, fields_of
from headrace.common.serialization import SerializationSchema
from headrace.common.typeinfo import RowTypeInfo, TypeInformation
from headrace.connectors.messages import (
    MessageDeserializationSchema,
    MessageSerializationSchema,
    PartitionFunction,
)
from headrace.connectors.partitions import OffsetResetStrategy, OffsetsInitializer
from headrace.connectors.sink import DeliveryGuarantee, Sink
from headrace.connectors.source import Source
from headrace.connectors.topic_builders import TopicSinkBuilder, TopicSourceBuilder
from headrace.table.connectors.changelog_mode import ChangelogMode
from headrace.table.connectors.factory import ALL_TASKS, TableConnector, TableContext, naming_table
from headrace.table.connectors.formats import BoundFormat, formats_in
from headrace.table.connectors.picked_columns import PickedColumns
from headrace.table.connectors.table_sink import PARALLELISM, TableSink
from headrace.table.connectors.table_source import StartPosition, TableSource
from headrace.table.connectors.topic_messages import (
    FIXED,
    FieldsSchema,
    Partitioner,
    RowMessages,
    UpsertsReader,
    UpsertsWriter,
)

TOPIC: Final = ConfigOption("topic", str, "", "The topic, or several with semicolons between them.")
TOPIC_PATTERN: Final = ConfigOption("topic-pattern", str, "", "A regular expression of the names of topics.")
FORMAT: Final = ConfigOption("format", str, "", "The format of values.")
VALUE_FORMAT: Final = ConfigOption("value.format", str, "", "The same.")
KEY_FORMAT: Final = ConfigOption("key.format", str, "", "The format of keys; messages have none without it.")
KEY_FIELDS: Final = ConfigOption("key.fields", str, "", "The columns in the key, with semicolons between them.")
KEY_PREFIX: Final = ConfigOption("key.fields-prefix", str, "", "What begins the names of these columns alone.")
FIELDS_INCLUDE: Final = ConfigOption(
    "value.fields-include", choice("ALL", "EXCEPT_KEY"), "ALL", "Whether columns of the key are in the value as well."
)
GUARANTEE: Final = ConfigOption(
    "sink.delivery-guarantee",
    choice("none", "at-least-once", "exactly-once"),
    "at-least-once",
    "How often a row arrives, failures or not.",
)
PARTITIONER: Final = ConfigOption(
    "sink.partitioner",
    str,
    "default",
    "Which partition a row is written into: default, fixed, round-robin, or a function 'module.function'.",
)

_OF_VALUES: Final = "value."
"""The prefix of metadata of the format of values."""

_FORMATS: Final = ("format", "value.format", "key.format")
_ONE_FORMAT: Final = {False: "one of 'format' and 'value.format'", True: "'value.format'"}
_MILLIS: Final = AtomicType(TypeRoot.TIMESTAMP_LTZ, 3)
_HEADERS: Final = MapType(string(), AtomicType(TypeRoot.VARBINARY, 2**31 - 1))
READABLE: Final[Mapping[str, LogicalType]] = {
    "topic": string().not_null(),
    "partition": AtomicType(TypeRoot.INTEGER, nullable=False),
    "headers": _HEADERS.not_null(),
    "leader-epoch": AtomicType(TypeRoot.INTEGER),
    "offset": bigint().not_null(),
    "timestamp": _MILLIS.not_null(),
    "timestamp-type": string().not_null(),
}
WRITABLE: Final[Mapping[str, LogicalType]] = {"headers": _HEADERS, "timestamp": _MILLIS}


@dataclass(frozen=True)
class TopicTable:
    """A table in topics, with its columns divided into key and value.

    Attributes:
        context: the table.
        options: its options, without those of formats.
        value: the format of values.
        key: the format of keys; None where messages have none.
        is_upsert: whether a message replaces the one before with its key.
    """

    context: TableContext
    options: Configuration = field(compare=False)
    value: BoundFormat = field(compare=False)
    key: BoundFormat | None = field(compare=False)
    is_upsert: bool

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """The columns in the key."""
        if self.is_upsert:
            return self.context.primary_key
        names = [name.strip() for name in self.options.get(KEY_FIELDS).split(";") if name.strip()]
        for name in names:
            if name not in self.context.columns.names:
                known = ", ".join(self.context.columns.names)
                raise ConfigurationError(f"'key.fields' names {name!r}, and the table has {known}")
        if bool(names) != (self.key is not None):
            raise ConfigurationError("a key needs both 'key.format' and 'key.fields'")
        prefix = self.options.get(KEY_PREFIX)
        if prefix and self.options.get(FIELDS_INCLUDE) == "ALL":
            raise ConfigurationError("'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'")
        if without := [name for name in names if not name.startswith(prefix)]:
            raise ConfigurationError(f"column {without[0]!r} of the key does not begin with {prefix!r}")
        return tuple(names)

    @cached_property
    def value_columns(self) -> tuple[str, ...]:
        """The columns in the value."""
        if self.options.get(FIELDS_INCLUDE) == "ALL":
            return self.context.columns.names
        return tuple(name for name in self.context.columns.names if name not in self.key_columns)

    @property
    def value_type(self) -> TypeInformation:
        """The type of values."""
        return self.context.type_of(self.value_columns)

    @property
    def key_type(self) -> TypeInformation:
        """The type of keys."""
        return self.context.type_of(self.key_columns, without=self.options.get(KEY_PREFIX))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in the options."""
        return tuple(name.strip() for name in self.options.get(TOPIC).split(";") if name.strip())


_NO_BUFFER: Final = "each change of a row is written; to write fewer, set 'table.exec.mini-batch.enabled'"


_OTHER_OPTIONS: Final = {
    "scan.parallelism": ALL_TASKS,
    "sink.semantic": "write 'sink.delivery-guarantee'",
    "sink.transaction-naming-strategy": "ids follow from the prefix, the job and the task; leave it out",
    "sink.buffer-flush.max-rows": _NO_BUFFER,
    "sink.buffer-flush.interval": _NO_BUFFER,
}


class TopicTables(TableConnector):
    """Creates the sources and sinks of tables in topics."""

    is_upsert: ClassVar[bool] = False
    own_options: ClassVar[tuple[ConfigOption, ...]] = ()
    other_options = _OTHER_OPTIONS

    def __init__(self, name: str) -> None:
        super().__init__(name)
        common = (TOPIC, TOPIC_PATTERN, KEY_FORMAT, KEY_PREFIX, FIELDS_INCLUDE, *STARTUP, *BOUNDED)
        writing = (GUARANTEE, PARTITIONER, PARALLELISM)
        formats = (VALUE_FORMAT, KEY_FIELDS) if self.is_upsert else (FORMAT, VALUE_FORMAT, KEY_FIELDS)
        self.optional_options = (*common, *writing, *formats, *self.own_options)

    @abstractmethod
    def source_builder(self, table: TopicTable) -> TopicSourceBuilder:
        """A builder of the source, with the location of the topics set."""

    @abstractmethod
    def sink_builder(self, table: TopicTable) -> TopicSinkBuilder:
        """A builder of the sink, with the location of the topics set."""

    def own(self, options: Mapping[str, str]) -> dict[str, str]:
        """The connector's options, without those of the client."""
        return dict(options)

    def create_source(self, context: TableContext) -> TableSource:
        return TopicTableSource(self, self._table(context))

    def create_sink(self, context: TableContext) -> TableSink:
        table = self._table(context)
        if len(table.topics) != 1:
            raise ConfigurationError(f"table {context.name}: rows are written into one topic: name it in 'topic'")
        return TopicTableSink(self, table)

    def _table(self, context: TableContext) -> TopicTable:
        with naming_table(context):
            formats, rest = formats_in(context.options, _FORMATS)
            options = self.options_of(context, self.own(rest))
            self._check(context, options, formats)
            value = formats.get("format") or formats["value.format"]
            table = TopicTable(context, options, value, formats.get("key.format"), self.is_upsert)
            _ = table.key_columns
        return table

    def _check(self, context: TableContext, options: Configuration, formats: Mapping[str, BoundFormat]) -> None:
        """Refuse tables without a required option or key.

        Raises:
            ConfigurationError: when one is missing.
        """
        if bool(options.get(TOPIC)) == bool(options.get(TOPIC_PATTERN)):
            raise ConfigurationError(f"{self} needs one of 'topic' and 'topic-pattern'")
        if ("format" in formats) == ("value.format" in formats):
            raise ConfigurationError(f"{self} needs {_ONE_FORMAT[self.is_upsert]}, the format of values")
        if not self.is_upsert:
            return
        if not context.primary_key:
            raise ConfigurationError(f"{self} needs a PRIMARY KEY ... NOT ENFORCED, which is the key of its messages")
        if "key.format" not in formats:
            raise ConfigurationError(f"{self} needs 'key.format', the format of keys")
        if not formats["value.format"].changelog_mode.is_insert_only:
            raise ConfigurationError(f"{self}: {formats['value.format'].plugin} has changes of its own: use 'json'")


@dataclass(frozen=True)
class TopicTableSource(TableSource):
    """Rows of messages."""

    connector: TopicTables = field(compare=False)
    table: TopicTable

    @property
    def changelog_mode(self) -> ChangelogMode:
        if self.table.is_upsert:
            return ChangelogMode.UPSERT
        return self.table.value.changelog_mode

    @property
    def is_bounded(self) -> bool:
        return bounded_offsets(self.table.options) is not None

    def starting_at(self, start: StartPosition) -> TableSource:
        options = Configuration(self.table.options).set(STARTUP_MODE, "timestamp").set(STARTUP_MILLIS, start.since)
        return replace(self, table=replace(self.table, options=options))

    @property
    def readable_metadata(self) -> Mapping[str, LogicalType]:
        of_values = self.table.value.plugin.readable_metadata
        return {**READABLE, **{f"{_OF_VALUES}{name}": kind for name, kind in of_values.items()}}

    @property
    def summary(self) -> str:
        return f"{self.connector.name}({self.table.options.get(TOPIC) or self.table.options.get(TOPIC_PATTERN)})"

    def create_source(self, metadata: Sequence[str]) -> Source[Any]:
        table = self.table
        with naming_table(table.context):
            builder = self.connector.source_builder(table)
            if table.topics:
                builder.set_topics(*table.topics)
            else:
                builder.set_topic_pattern(table.options.get(TOPIC_PATTERN))
            builder.set_starting_offsets(starting_offsets(table.options)(table.topics))
            bounds = bounded_offsets(table.options)
            if bounds is not None:
                builder.set_bounded(bounds(table.topics))
            schema = self._schema(metadata)
            source: Source[Any] = builder.set_deserializer(schema).build()  # type: ignore[attr-defined]
        return self._picked(source, schema, metadata)

    def _schema(self, metadata: Sequence[str]) -> MessageDeserializationSchema:
        table = self.table
        known = dict.fromkeys(metadata)
        of_values = {f"metadata {name}": name.removeprefix(_OF_VALUES) for name in known if name not in READABLE}
        value = table.value.message_reader(table.value_type, of_values)
        if table.is_upsert:
            value = UpsertsReader(value)
        key = None if table.key is None else table.key.message_reader(table.key_type)
        named = {f"metadata {name}": name for name in known if name in READABLE}
        return MessageDeserializationSchema(value, key, key_fields_prefix="key ", metadata=named)

    def _picked(
        self, source: Source[Any], schema: MessageDeserializationSchema, metadata: Sequence[str]
    ) -> Source[Any]:
        """The columns in the order of the table; an upsert's key columns are those of the key: values may be NULL."""
        table = self.table
        keys = list(table.key_columns) if table.key is not None else []
        from_value = {name: len(keys) + place for place, name in enumerate(table.value_columns)}
        from_key = {name: place for place, name in enumerate(keys)}
        places = from_value | from_key if table.is_upsert else from_key | from_value
        first = len(keys) + len(table.value_columns)
        known = sorted(dict.fromkeys(metadata), key=READABLE.__contains__)  # those of values come before the others
        picks = [places[name] for name in table.context.columns.names]
        picks += [first + known.index(name) for name in metadata]
        rows = table.context.record_type
        assert isinstance(rows, RowTypeInfo)
        names = rows.field_names + tuple(f"metadata {number}" for number in range(len(metadata)))
        given = dict(fields_of(source.produced_type))
        kinds = tuple(rows.types) + tuple(given[f"metadata {name}"] for name in metadata)
        return PickedColumns(source, RowTypeInfo(kinds, names), picks)


@dataclass(frozen=True)
class TopicTableSink(TableSink):
    """Writes rows as messages."""

    connector: TopicTables = field(compare=False)
    table: TopicTable

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        if self.table.is_upsert:
            return ChangelogMode.UPSERT
        return self.table.value.changelog_mode

    @property
    def parallelism(self) -> int | None:
        return self.table.options.get(PARALLELISM)

    @property
    def writable_metadata(self) -> Mapping[str, LogicalType]:
        return WRITABLE

    @property
    def summary(self) -> str:
        return f"{self.connector.name}({self.table.options.get(TOPIC)})"

    def create_sink(self, metadata: Sequence[str]) -> Sink[Any]:
        table = self.table
        with naming_table(table.context):
            builder = self.connector.sink_builder(table)
            builder.set_record_serializer(self._schema(metadata))
            if table.options.contains_key(GUARANTEE.key):
                name = table.options.get(GUARANTEE).upper().replace("-", "_")
                builder.set_delivery_guarantee(DeliveryGuarantee[name])
            sink: Sink[Any] = builder.build()  # type: ignore[attr-defined]
        return sink

    def _schema(self, metadata: Sequence[str]) -> MessageSerializationSchema:
        table = self.table
        names = table.context.columns.names
        value: SerializationSchema = FieldsSchema(
            table.value.message_writer(table.value_type), table.value_type, _places(names, table.value_columns)
        )
        if table.is_upsert:
            value = UpsertsWriter(value)
        key = None
        if table.key is not None:
            places = _places(names, table.key_columns)
            key = FieldsSchema(table.key.message_writer(table.key_type), table.key_type, places)
        metadata_places = {name: len(names) + place for place, name in enumerate(metadata)}
        return RowMessages(table.topics[0], value, key, metadata_places, self._partitioner())

    def _partitioner(self) -> Partitioner:
        """The partitioner.

        Raises:
            ConfigurationError: when it is unknown, or keys are to decide and rows are to go round.
        """
        given = self.table.options.get(PARTITIONER)
        if given == "round-robin" and self.table.key is not None:
            raise ConfigurationError(f"{PARTITIONER.key!r} = 'round-robin' is of messages without a key")
        if given in ("default", "round-robin"):
            return None
        if given == "fixed":
            return FIXED
        try:
            found: PartitionFunction = resolve_name(given)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigurationError(
                f"{PARTITIONER.key!r} = {given!r}: there is no such function ({error}); it is 'default', 'fixed', "
                "'round-robin' or a function 'module.function' of a row, the key and the value of its message, the "
                "topic and its partitions"
            ) from None
        return found


def _places(names: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    return tuple(names.index(name) for name in wanted)


_OFFSET_MODES: Final = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_EPOCH_MILLIS: Final = integer(0, 2**62)

STARTUP_MODE: Final = ConfigOption(
    "scan.startup.mode", choice(*_OFFSET_MODES), "earliest-offset", "Where partitions are read from at the first start."
)
STARTUP_OFFSETS: Final = ConfigOption(
    "scan.startup.specific-offsets", str, "", "Offsets to start from: 'partition:0,offset:42;partition:1,offset:300'."
)
STARTUP_MILLIS: Final = ConfigOption[int | None](
    "scan.startup.timestamp-millis", _EPOCH_MILLIS, None, "The time to start from, in milliseconds."
)
STARTUP: Final = (STARTUP_MODE, STARTUP_OFFSETS, STARTUP_MILLIS)

BOUNDED_MODE: Final = ConfigOption(
    "scan.bounded.mode",
    choice("unbounded", *_OFFSET_MODES[1:]),
    "unbounded",
    "Where the table ends; it does not unless that is said.",
)
BOUNDED_OFFSETS: Final = ConfigOption(
    "scan.bounded.specific-offsets", str, "", "Offsets to end before, as for 'scan.startup.specific-offsets'."
)
BOUNDED_MILLIS: Final = ConfigOption[int | None](
    "scan.bounded.timestamp-millis", _EPOCH_MILLIS, None, "The time to end at, in milliseconds."
)
BOUNDED: Final = (BOUNDED_MODE, BOUNDED_OFFSETS, BOUNDED_MILLIS)

Offsets = Callable[[Sequence[str]], OffsetsInitializer]
"""Computes the offsets of topics."""

_OFFSET: Final = re.compile(r"\s*partition:(\d+),\s*offset:(\d+)\s*")


def starting_offsets(options: Configuration) -> Offsets:
    """The offsets from which the partitions of topics are read.

    Raises:
        ConfigurationError: when the mode needs another option.
    """
    return _offsets(options, STARTUP)


def bounded_offsets(options: Configuration) -> Offsets | None:
    """The offsets at which the partitions of topics end; None when they are unbounded.

    Raises:
        ConfigurationError: when the mode needs another option.
    """
    return None if options.get(BOUNDED_MODE) == "unbounded" else _offsets(options, BOUNDED)


def _offsets(
    options: Configuration, known: tuple[ConfigOption[str], ConfigOption[str], ConfigOption[int | None]]
) -> Offsets:
    mode, specific, millis = known
    match options.get(mode):
        case "earliest-offset":
            return lambda _: OffsetsInitializer.earliest()
        case "latest-offset":
            return lambda _: OffsetsInitializer.latest()
        case "group-offsets":
            return lambda _: OffsetsInitializer.committed_offsets()
        case "timestamp":
            since = options.get(millis)
            if since is None:
                raise ConfigurationError(f"{mode.key!r} = 'timestamp' needs {millis.key!r}")
            return lambda _: OffsetsInitializer.timestamp(since)
    places = _specific(options, mode, specific)
    return lambda topics: _of_topic(topics, places, mode)


def _specific(options: Configuration, mode: ConfigOption[str], specific: ConfigOption[str]) -> dict[int, int]:
    text = options.get(specific)
    parts = [_OFFSET.fullmatch(part) for part in text.strip().rstrip(";").split(";")]
    found = {int(part[1]): int(part[2]) for part in parts if part is not None}
    if len(found) != len(parts):
        raise ConfigurationError(
            f"{mode.key!r} = 'specific-offsets' needs {specific.key!r} such as 'partition:0,offset:42;"
            f"partition:1,offset:300', not {text!r}"
        )
    return found


def _of_topic(topics: Sequence[str], places: dict[int, int], mode: ConfigOption[str]) -> OffsetsInitializer:
    if len(topics) != 1:
        raise ConfigurationError(f"{mode.key!r} = 'specific-offsets' needs exactly one topic")
    given = {TopicPartition(topics[0], partition): offset for partition, offset in places.items()}
    return OffsetsInitializer.offsets(given, OffsetResetStrategy.EARLIEST)
