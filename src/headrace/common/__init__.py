"""The common part of headrace's APIs: PyFlink's ``pyflink.common``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.completable_future import CompletableFuture
from headrace.common.config_options import ConfigOption, ConfigOptions
from headrace.common.configuration import Configuration
from headrace.common.errors import FailureOrigin
from headrace.common.job_execution_result import JobExecutionResult, JobFailure
from headrace.common.job_files import archive_path
from headrace.common.job_id import JobID
from headrace.common.job_status import JobStatus
from headrace.common.public_module import public_module
from headrace.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    DeserializedBatch,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from headrace.common.serializer import TypeSerializer
from headrace.common.time import Duration, Instant, Time
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind

if TYPE_CHECKING:
    from headrace.client.job_client import JobClient
    from headrace.datastream.execution_config import ExecutionConfig
    from headrace.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
    from headrace.formats.csv.writer import CsvRowDeserializationSchema, CsvRowSerializationSchema
    from headrace.formats.json.schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema
    from headrace.time.watermark_strategy import (
        ColumnarWatermarkGenerator,
        IngestionTimeAssigner,
        TimestampAssigner,
        WatermarkGenerator,
        WatermarkOutput,
        WatermarkStrategy,
    )

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "ByteArraySchema",
    "ColumnarWatermarkGenerator",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "DeserializationSchema",
    "DeserializedBatch",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "FailureOrigin",
    "IngestionTimeAssigner",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobFailure",
    "JobID",
    "JobStatus",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "archive_path",
]

# PyFlink has these here, headrace has them in packages that build on this one: they are found when they are asked for.
_ELSEWHERE: Final = {
    "AvroRowDeserializationSchema": "headrace.formats.avro.messages",
    "AvroRowSerializationSchema": "headrace.formats.avro.messages",
    "ColumnarWatermarkGenerator": "headrace.time.watermark_strategy",
    "CsvRowDeserializationSchema": "headrace.formats.csv.writer",
    "CsvRowSerializationSchema": "headrace.formats.csv.writer",
    "ExecutionConfig": "headrace.datastream.execution_config",
    "IngestionTimeAssigner": "headrace.time.watermark_strategy",
    "JobClient": "headrace.client.job_client",
    "JsonRowDeserializationSchema": "headrace.formats.json.schemas",
    "JsonRowSerializationSchema": "headrace.formats.json.schemas",
    "TimestampAssigner": "headrace.time.watermark_strategy",
    "WatermarkGenerator": "headrace.time.watermark_strategy",
    "WatermarkOutput": "headrace.time.watermark_strategy",
    "WatermarkStrategy": "headrace.time.watermark_strategy",
}

public_module(__name__, _ELSEWHERE)
