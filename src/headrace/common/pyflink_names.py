"""Every public name of PyFlink that headrace does not have: why, and what to do instead.

The one place for them. Modules answer from here by :mod:`headrace.common.public_module`, objects by
:mod:`headrace.common.other_names`, and ``docs/flink-compatibility.md`` lists them. A name that arrives is taken out.
"""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why there is no such name.

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
_TABLE_API: Final = Missing("SQ-02", "write the query in SQL: sql_query() or execute_sql()")
_TABLE_WINDOWS: Final = _of("SQ-03", _TABLE_API)
_CATALOG: Final = Missing("SQ-07", "write CREATE, ALTER, DROP, USE, SHOW or DESCRIBE for execute_sql()")
_MODULES: Final = Missing("SQ-07", "leave it out: all functions are in one module")
_ASYNC_FUNCTIONS: Final = Missing("SQ-44", "ask a service by an asynchronous function of a stream: AsyncDataStream")
_AGGREGATES: Final = Missing("SQ-45", "write ROW_NUMBER() OVER (...), or a KeyedProcessFunction of a stream")
_VIEWS_OF_STATE: Final = Missing("SQ-46", "let the accumulator be a list or a dict")
_DATA_TYPES: Final = Missing("SQ-08", "write one of DataTypes, or the type as SQL does, as a text: 'DECIMAL(10, 2)'")
_TABLE_SCHEMA: Final = _never("SQ-02", "Flink has given it up: use get_resolved_schema()")
_DIALECT: Final = _never("SQ-02", "there is one dialect, Flink's own")
_OLD_SOURCE: Final = _never("DS-64", "Flink has given it up: use from_source(source, watermark_strategy, name)")
_OLD_SINK: Final = _never("DS-64", "Flink has given it up: use sink_to(sink)")
_INTERNAL: Final = _never("DS-14", "PyFlink has it for itself, between Python and Java")
_NO_JAVA: Final = _never("DS-14", "no Java object stands behind it")
_UID: Final = Missing("DS-28", "give the operator a uid() instead")

# --- modules ---------------------------------------------------------------------------------------------------------

MODULES: Final[dict[str, Missing]] = {
    "table.data_view": _VIEWS_OF_STATE,
    "table.descriptors": _never("SQ-02", "Flink has given it up: use CREATE TABLE"),
    "table.expression": _TABLE_API,
    "table.expressions": _TABLE_API,
    "table.resolved_expression": _INTERNAL,
    "table.module": _MODULES,
    "table.serializers": _INTERNAL,
    "table.sql_dialect": _DIALECT,
    "table.table_pipeline": _TABLE_API,
    "table.table_schema": _TABLE_SCHEMA,
    "table.window": _TABLE_WINDOWS,
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
    "table": {
        "AsyncScalarFunction": _ASYNC_FUNCTIONS,
        "TableAggregateFunction": _AGGREGATES,
        **_each("DataView ListView MapView", _VIEWS_OF_STATE),
        "UserDefinedType": _DATA_TYPES,
        **_each("Expression GroupedTable TablePipeline", _TABLE_API),
        **_each("GroupWindowedTable OverWindowedTable WindowGroupedTable", _TABLE_WINDOWS),
        **_each("Module ModuleEntry", _MODULES),
        "SqlDialect": _DIALECT,
        "TableSchema": _TABLE_SCHEMA,
    },
    "table.plan_reference": {
        "BytesContentPlanReference": _never("SQ-55", "plans are JSON: use JsonContentPlanReference"),
    },
    "table.types": _each(
        "ArrayType AtomicType BigIntType BinaryType BooleanType CharType DataType DateType DayTimeIntervalType "
        "DecimalType DoubleType FloatType FractionalType IntType IntegralType ListViewType LocalZonedTimestampType "
        "MapType MapViewType MultisetType NullType NumericType RawType Resolution RowField RowType SmallIntType "
        "TimeType TimestampType TinyIntType UserDefinedType VarBinaryType VarCharType YearMonthIntervalType "
        "ZonedTimestampType create_arrow_schema from_arrow_type to_arrow_type",
        _DATA_TYPES,
    ),
    "table.udf": {
        "AsyncScalarFunction": _ASYNC_FUNCTIONS,
        "TableAggregateFunction": _AGGREGATES,
        **_each(
            "DelegatingAsyncScalarFunction DelegatingPandasAggregateFunction DelegatingScalarFunction "
            "DelegationTableFunction PandasAggregateFunctionWrapper UserDefinedAggregateFunctionWrapper "
            "UserDefinedAsyncScalarFunctionWrapper UserDefinedFunctionWrapper UserDefinedScalarFunctionWrapper "
            "UserDefinedTableFunctionWrapper",
            _INTERNAL,
        ),
    },
    "table.catalog": {
        **_each(
            "Catalog CatalogBaseTable CatalogColumnStatistics CatalogDatabase CatalogDescriptor CatalogFunction "
            "CatalogModel CatalogPartition CatalogPartitionSpec CatalogTableStatistics Column ComputedColumn "
            "Constraint MetadataColumn ObjectIdentifier ObjectPath PhysicalColumn ResolvedSchema UniqueConstraint "
            "WatermarkSpec HiveCatalog JdbcCatalog",
            _CATALOG,
        ),
        "Procedure": Missing("SQ-48", "write a function with annotations: TableEnvironment.create_procedure()"),
    },
    "table.functions": _each(
        "AvgAggFunction Count1AggFunction CountAggFunction DecimalSum0AggFunction FirstValueAggFunction "
        "FirstValueWithRetractAggFunction FloatSum0AggFunction IntSum0AggFunction LastValueAggFunction "
        "LastValueWithRetractAggFunction ListAggFunction ListAggWithRetractAggFunction "
        "ListAggWsWithRetractAggFunction MaxAggFunction MaxWithRetractAggFunction MinAggFunction "
        "MinWithRetractAggFunction Sum0AggFunction SumAggFunction SumWithRetractAggFunction WelfordM2AggFunction",
        _INTERNAL,
    ),
    "table.table": _each("AggregatedTable FlatAggregateTable", _TABLE_API),
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
    "Table": {
        **_each(
            "add_columns add_or_replace_columns aggregate alias distinct drop_columns fetch filter flat_aggregate "
            "flat_map from_changelog full_outer_join group_by insert_into intersect intersect_all join join_lateral "
            "left_outer_join left_outer_join_lateral limit map minus minus_all offset order_by rename_columns "
            "right_outer_join select to_changelog union union_all where",
            _TABLE_API,
        ),
        **_each("over_window window", _TABLE_WINDOWS),
        "get_schema": _TABLE_SCHEMA,
    },
    "TableConfig": {
        **_each("get_sql_dialect set_sql_dialect", _DIALECT),
        **_each(
            "get_idle_state_retention set_idle_state_retention",
            _never("SQ-02", "Flink has given it up: set table.exec.state.ttl"),
        ),
        **_each("get_max_generated_code_length set_max_generated_code_length", _never("SQ-02", "no code is generated")),
        **_each("get_python_executable set_python_executable", _never("SQ-02", "set it where Spark's workers start")),
    },
    "StatementSet": {
        **_each("add attach_as_datastream", _TABLE_API),
    },
    "StreamTableEnvironment": {
        "to_append_stream": _never("SQ-04", "Flink has given it up: use to_data_stream()"),
        "to_retract_stream": _never("SQ-04", "Flink has given it up: use to_changelog_stream()"),
    },
    "TableEnvironment": {
        **_each("create_java_function create_java_temporary_function", _NO_JAVA),
        "create_java_temporary_system_function": _NO_JAVA,
        **_each("list_full_modules list_modules load_module unload_module use_modules", _MODULES),
        **_each(
            "create_catalog get_catalog register_catalog",
            _CATALOG,
        ),
        **_each(
            "add_python_archive add_python_file set_python_requirements",
            Missing("SQ-44", "call it on a StreamExecutionEnvironment"),
        ),
    },
    "TableResult": {"get_table_schema": _TABLE_SCHEMA},
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
        "ConfigOptions.OptionBuilder ConfigOptions.TypedConfigOptionBuilder EnvironmentSettings.Builder "
        "Schema.Builder FileSink.BaseBuilder "
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
"""By class and name, where Python's own ``AttributeError`` has to do: names of classes, and of values that are
read so often that answering would make them slower."""
