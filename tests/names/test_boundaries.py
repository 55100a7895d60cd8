"""Whatever a program calls while it builds a job shows it the program's own lines when it fails, and no others."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

import pytest

from headrace.common import config_options
from headrace.common.serializer import TypeSerializer
from headrace.connectors.file_system import compaction, output_config, sink, source
from headrace.datastream import slot_sharing_group
from headrace.datastream.dependencies import Dependencies
from headrace.datastream.flink_settings import FlinkSettings
from headrace.formats.csv import schema
from headrace.formats.json import schemas
from headrace.state import ttl
from headrace.windowing.assigner import WindowAssigner
from headrace.windowing.assigners.sessions import SessionWindowTimeGapExtractor
from headrace.windowing.assigners.tumbling import WindowStagger
from headrace.windowing.evictor import Evictor, TimestampedValue
from headrace.windowing.trigger import Trigger, TriggerResult
from headrace.windowing.windows import Window
from tests.names.test_answers import PUBLIC

BY_TASKS: Final = {
    *("Row", "RowKind", "Instant", "Encoder", "SimpleStringSchema", "ByteArraySchema"),
    *("SerializationSchema", "DeserializationSchema", "JsonRowSerializationSchema", "JsonRowDeserializationSchema"),
    *("CsvEncoder", "JsonLinesEncoder", "CsvFormat", "JsonLinesFormat", "ParquetFormat", "BulkFormat"),
    *("RuntimeContext", "TimerService", "KeyedStateStore", "OperatorStateStore", "TimestampAssigner"),
    *("FunctionInitializationContext", "FunctionSnapshotContext"),
    *("MetricGroup", "Counter", "Distribution", "Meter", "Metric"),
    *("State", "ValueState", "ListState", "MapState", "AppendingState", "AggregatingState", "ReducingState"),
    *(
        "BroadcastState",
        "ReadOnlyBroadcastState",
        "MergingState",
        "Bound",
        "BoundColumn",
        "FileEnumeratorProvider",
        "DefaultRollingPolicy",
    ),
    *("OnCheckpointRollingPolicy", "WatermarkOutput"),
    *("MergingState", "Bound", "BoundColumn", "FileEnumeratorProvider", "DefaultRollingPolicy"),
    *("OnCheckpointRollingPolicy", "WatermarkOutput", "RetryPredicate", "NoRetryStrategy"),
    *("FixedDelayRetryStrategy", "ExponentialBackoffDelayRetryStrategy"),
}
"""What tasks call for each record or batch, or hand to functions, whose errors name operator and record instead."""

WITHOUT_ERRORS: Final = {
    *("Time", "Duration", "ConfigOption", "JobID", "JobStatus", "JobExecutionResult", "Checkpoint"),
    *("JobFailure", "FailureOrigin"),
    *("StateBackend", "HashMapStateBackend", "CheckpointStorage", "Column", "IngestionTimeAssigner"),
    "KafkaStream",
}
"""Plain values."""

TO_DERIVE: Final = {
    *("Function", "MapFunction", "FlatMapFunction", "FilterFunction", "KeySelector", "ReduceFunction", "Partitioner"),
    *("AggregateFunction", "ProcessFunction", "KeyedProcessFunction", "ProcessWindowFunction", "WindowFunction"),
    *("AllWindowFunction", "ProcessAllWindowFunction", "MapPartitionFunction"),
    *("CoMapFunction", "CoFlatMapFunction", "CoProcessFunction", "KeyedCoProcessFunction"),
    *("BaseBroadcastProcessFunction", "BroadcastProcessFunction", "KeyedBroadcastProcessFunction"),
    *("AllWindowFunction", "ProcessAllWindowFunction", "MapPartitionFunction", "ProcessJoinFunction"),
    *("JoinFunction", "FlatJoinFunction", "CoGroupFunction"),
    *("Source", "Sink", "SupportsWriterState", "StatefulSinkWriter", "SupportsPreWriteTopology"),
    *("WatermarkGenerator", "ColumnarWatermarkGenerator"),
    *("KafkaTopicSelector", "KafkaPartitioner", "HeaderProvider"),
    *("KafkaMetadataService", "KafkaStreamSubscriber"),
    *("AsyncFunction", "AsyncBatchFunction", "AsyncRetryPredicate", "AsyncRetryStrategy", "CheckpointedFunction"),
}
"""Bases of what programs write themselves."""

BUILDERS: Final = [
    config_options.OptionBuilder,
    config_options.TypedConfigOptionBuilder,
    output_config.OutputFileConfig.OutputFileConfigBuilder,
    compaction.FileCompactStrategyBuilder,
    schema.CsvSchemaBuilder,
    schemas.JsonRowDeserializationSchemaBuilder,
    schemas.JsonRowSerializationSchemaBuilder,
    sink.BulkFormatBuilder,
    sink.RowFormatBuilder,
    sink._Builder,
    slot_sharing_group.SlotSharingGroup.Builder,
    source.FileSourceBuilder,
    ttl.StateTtlConfigBuilder,
]
"""Not public by name, but what public methods return."""


def public_classes() -> Iterator[type]:
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) and found.__module__.startswith("headrace."):
                yield found


def is_type(cls: type) -> bool:
    return cls.__module__.startswith("headrace.common.typeinfo.") and cls.__name__.endswith(("TypeInfo", "Information"))


BESIDE_WINDOWS: Final = {TriggerResult, WindowStagger, SessionWindowTimeGapExtractor, TimestampedValue}


def is_of_windows(cls: type) -> bool:
    """Of what windows are made: tasks call it for each record; programs call the methods that make it."""
    return cls in BESIDE_WINDOWS or issubclass(cls, Window | WindowAssigner | Trigger | Evictor | TypeSerializer)


BUILDING: Final = {
    cls
    for cls in public_classes()
    if cls.__name__ not in BY_TASKS | WITHOUT_ERRORS | TO_DERIVE and not is_type(cls) and not is_of_windows(cls)
}


def public_methods(cls: type) -> dict[str, Any]:
    """Those of a class and of what it is put together from; what it extends for the engine, tasks and driver call."""
    parts = [base for base in cls.__mro__ if base is cls or _is_part(base)]
    methods = {}
    for name, member in (each for part in parts for each in vars(part).items()):
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if isinstance(function, FunctionType) and (name == "__init__" or not name.startswith("_")):
            methods[name] = function
    return methods


def _is_part(base: type) -> bool:
    return (
        base.__module__.startswith("headrace.datastream.streams.")
        or base.__name__.endswith("Builder")
        or base in (Dependencies, FlinkSettings)
    )


@pytest.mark.parametrize("cls", [*sorted(BUILDING, key=str), *BUILDERS], ids=lambda cls: cls.__qualname__)
def test_its_methods_hide_what_is_inside(cls: type) -> None:
    exposed = [name for name, function in public_methods(cls).items() if not hasattr(function, "__wrapped__")]
    assert exposed == []


def test_what_makes_assigners_and_triggers_hides_what_is_inside() -> None:
    made = {cls: vars(cls)["of"].__func__ for cls in public_classes() if is_of_windows(cls) and "of" in vars(cls)}
    assert made
    assert [cls for cls, function in made.items() if not hasattr(function, "__wrapped__")] == []


def test_the_exceptions_are_there() -> None:
    assert {cls.__name__ for cls in public_classes()} >= BY_TASKS | WITHOUT_ERRORS | TO_DERIVE
