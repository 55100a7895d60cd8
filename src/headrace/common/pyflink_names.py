"""Every public name of PyFlink that headrace does not have: why, and what to do instead.

The one place for them. Modules answer from here by :mod:`headrace.common.public_module`, objects by
:mod:`headrace.common.other_names`, and ``docs/flink-compatibility.md`` lists them. A name that arrives is taken out.
"""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no such name.

    Attributes:
        item: the feature in ``docs/flink-compatibility.md`` that it belongs to.
        advice: what to do instead, or why there will be no such name; begins in lower case.
        planned: whether it is to come.
    """

    item: str
    advice: str
    planned: bool = True

    def __str__(self) -> str:
        return f"{' yet' if self.planned else ''}: {self.advice}"


def _never(item: str, reason: str) -> Missing:
    return Missing(item, reason, planned=False)


def _of(item: str, missing: Missing) -> Missing:
    """Return the same answer for what belongs to another feature."""
    return replace(missing, item=item)


def _each(names: str, missing: Missing) -> dict[str, Missing]:
    return dict.fromkeys(names.split(), missing)


# --- what many of them share -----------------------------------------------------------------------------------------

_SYSTEM: Final = Missing(
    "CO-07",
    "read files (FileSource), which a query of Spark may write, or a static DataFrame (env.from_dataframe), or write a "
    "source or a sink of your own: docs/connectors.md",
)
_OLD_KAFKA_SINK: Final = _never("CO-02", "Flink has given it up: use KafkaSink")
_OLD_KAFKA: Final = _never("CO-01", "Flink has given it up: use KafkaSource")
_SQL: Final = Missing(
    "SQ-01",
    "write the query with streams and expressions, docs/expressions.md, and Types of headrace.common for DataTypes",
)
_OLD_SOURCE: Final = _never("DS-64", "Flink has given it up: use from_source(source, watermark_strategy, name)")
_OLD_SINK: Final = _never("DS-64", "Flink has given it up: use sink_to(sink)")
_INTERNAL: Final = _never("DS-14", "PyFlink has it for itself, between Python and Java")
_NO_JAVA: Final = _never("DS-14", "no Java object stands behind it")
_UID: Final = Missing("DS-28", "give the operator a uid() instead")

# --- modules ---------------------------------------------------------------------------------------------------------

MODULES: Final[dict[str, Missing]] = {
    "table": _SQL,
    "cep": Missing("CE-01", "match patterns in a KeyedProcessFunction, with states and timers"),
    "util": _never("DS-14", "it serves PyFlink's own code; errors are in headrace.common.errors"),
    "common.input_dependency_constraint": _never("DS-64", "Flink has given it up: leave it out"),
    "common.io": _OLD_SOURCE,
    "common.restart_strategy": _never("CP-04", "set restart-strategy.type in the settings: docs/configuration.md"),
    "datastream.connectors.jdbc": _of("CO-06", _SYSTEM),
    "datastream.connectors.cassandra": _SYSTEM,
    "datastream.connectors.elasticsearch": _SYSTEM,
    "datastream.connectors.kinesis": _SYSTEM,
    "datastream.connectors.mongodb": _SYSTEM,
    "datastream.connectors.opensearch": _SYSTEM,
    "datastream.connectors.pulsar": _SYSTEM,
    "datastream.connectors.rabbitmq": _SYSTEM,
}
"""By path below ``headrace``; nothing below them is there either."""

# --- what modules hold -----------------------------------------------------------------------------------------------

NAMES: Final[dict[str, dict[str, Missing]]] = {
    "common": {
        "InputDependencyConstraint": MODULES["common.input_dependency_constraint"],
        **_each("RestartStrategies RestartStrategyConfiguration", MODULES["common.restart_strategy"]),
    },
    "common.serializer": {"VoidNamespaceSerializer": _INTERNAL},
    "common.serialization": _each("BulkWriterFactory RowDataBulkWriterFactory", _INTERNAL),
    "common.typeinfo": {
        "DateTypeInfo": _never("DS-66", "use Types.SQL_DATE()"),
        "ExternalTypeInfo": _INTERNAL,
        "InstantTypeInfo": _never("DS-66", "use Types.INSTANT()"),
        "LocalTimeTypeInfo": _never("DS-66", "use Types.LOCAL_DATE(), LOCAL_TIME() or LOCAL_DATE_TIME()"),
        "SqlTimeTypeInfo": _never("DS-66", "use Types.SQL_DATE(), SQL_TIME() or SQL_TIMESTAMP()"),
        "TimeTypeInfo": _never("DS-66", "use Types.SQL_TIME()"),
        "TimestampTypeInfo": _never("DS-66", "use Types.SQL_TIMESTAMP()"),
    },
    "common.watermark_strategy": {"AssignerWithPeriodicWatermarksWrapper": _INTERNAL},
    "datastream": {
        "CustomCheckpointStorage": Missing("ST-22", "write a plugin: docs/plugins.md"),
        "CustomStateBackend": Missing("ST-22", "write a plugin, docs/state-backends.md, and set state.backend.type"),
        "TimeCharacteristic": _never("DS-64", "Flink has given it up: windows and timers say which time they mean"),
        "ExternalizedCheckpointCleanup": _never("DS-64", "use ExternalizedCheckpointRetention"),
    },
    "datastream.connectors": {
        "FlinkKafkaConsumer": _OLD_KAFKA,
        "FlinkKafkaProducer": _OLD_KAFKA_SINK,
        "JdbcSink": MODULES["datastream.connectors.jdbc"],
    },
    "datastream.connectors.base": _each("StreamTransformer SupportsPreprocessing", _INTERNAL),
    "datastream.connectors.file_system": {
        "StreamingFileSink": _never("DS-64", "Flink has given it up: use FileSink"),
    },
    "datastream.connectors.kafka": {
        **_each("FlinkKafkaConsumer FlinkKafkaConsumerBase", _OLD_KAFKA),
        **_each("FlinkKafkaProducer FlinkKafkaProducerBase Semantic", _OLD_KAFKA_SINK),
    },
    "datastream.functions": {
        "PassThroughAllWindowFunction": _never("WI-14", "use apply(lambda window, inputs: inputs)"),
        "SinkFunction": _OLD_SINK,
        "SourceFunction": _OLD_SOURCE,
        **_each(
            "AsyncFunctionDescriptor FunctionWrapper JavaFunctionWrapper ReduceFunctionWrapper NullByteKeySelector "
            "PassThroughWindowFunction InternalWindowFunction InternalProcessWindowContext "
            "InternalProcessAllWindowContext InternalIterableWindowFunction InternalIterableAllWindowFunction "
            "InternalIterableProcessWindowFunction InternalIterableProcessAllWindowFunction "
            "InternalSingleValueWindowFunction InternalSingleValueAllWindowFunction "
            "InternalSingleValueProcessWindowFunction InternalSingleValueProcessAllWindowFunction",
            _INTERNAL,
        ),
    },
    "datastream.window": {
        **_each(
            "WindowOperationDescriptor Min long_to_int_with_bit_mixing mod_inverse",
            _INTERNAL,
        ),
    },
}
"""By module below ``headrace`` and name. Other modules of the same packages give the same answers."""

# --- what objects have -----------------------------------------------------------------------------------------------

MEMBERS: Final[dict[str, dict[str, Missing]]] = {
    "DataStream": {
        "add_sink": _OLD_SINK,
        "set_uid_hash": _UID,
    },
    "DataStreamSink": {
        "set_uid_hash": Missing("DS-29", "give the sink a uid() instead"),
    },
    "StreamExecutionEnvironment": {
        "add_source": _OLD_SOURCE,
    },
    "JobClient": {},
}
"""By class and name: attributes and methods, of instances and of those of subclasses."""

PLAIN: Final[dict[str, Missing]] = {
    **_each(
        "BasicArrayTypeInfo.get_java_type_info BasicTypeInfo.get_java_type_info ListTypeInfo.get_java_type_info "
        "MapTypeInfo.get_java_type_info ObjectArrayTypeInfo.get_java_type_info PickledBytesTypeInfo.get_java_type_info "
        "PrimitiveArrayTypeInfo.get_java_type_info RowTypeInfo.get_java_type_info TupleTypeInfo.get_java_type_info "
        "TypeInformation.get_java_type_info RowKind.to_j_row_kind OutputTag.get_java_output_tag "
        "MemorySize.get_java_memory_size SlotSharingGroup.get_java_slot_sharing_group "
        "FileSink.get_transformer KafkaSink.get_transformer "
        "RowTypeInfo.from_internal_type RowTypeInfo.need_conversion RowTypeInfo.to_internal_type "
        "TupleTypeInfo.from_internal_type TupleTypeInfo.need_conversion TupleTypeInfo.to_internal_type "
        "TypeInformation.from_internal_type TypeInformation.need_conversion TypeInformation.to_internal_type",
        _NO_JAVA,
    ),
    **_each(
        "BasicTypeInfo.BIG_DEC_TYPE_INFO BasicTypeInfo.BIG_INT_TYPE_INFO BasicTypeInfo.BOOLEAN_TYPE_INFO "
        "BasicTypeInfo.BYTE_TYPE_INFO BasicTypeInfo.CHAR_TYPE_INFO BasicTypeInfo.DOUBLE_TYPE_INFO "
        "BasicTypeInfo.FLOAT_TYPE_INFO BasicTypeInfo.INSTANT_TYPE_INFO BasicTypeInfo.INT_TYPE_INFO "
        "BasicTypeInfo.LONG_TYPE_INFO BasicTypeInfo.SHORT_TYPE_INFO BasicTypeInfo.STRING_TYPE_INFO",
        _never("DS-66", "use Types.STRING() and the like"),
    ),
    **_each(
        "ConfigOptions.OptionBuilder ConfigOptions.TypedConfigOptionBuilder FileSink.BaseBuilder "
        "FileSink.BulkFormatBuilder FileSink.RowFormatBuilder",
        _never("DS-14", "a method of the outer class makes it; nothing calls it by name"),
    ),
    **_each(
        "StateTtlConfig.CleanupStrategies.CleanupStrategy StateTtlConfig.CleanupStrategies.EmptyCleanupStrategy "
        "KeyedStream.AccumulateType",
        _INTERNAL,
    ),
    **_each(
        "ContinuousEventTimeTrigger.register_next_fire_timestamp "
        "ContinuousProcessingTimeTrigger.register_next_fire_timestamp",
        _INTERNAL,
    ),
}
"""By class and name, where Python's own ``AttributeError`` has to do: what is asked of classes, and of values that are
read so often that answering would make them slower."""
