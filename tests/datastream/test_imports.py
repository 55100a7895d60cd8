"""The imports of PyFlink programs, with ``pyflink`` replaced by ``headrace``."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace

IMPORTS = """
from pyflink.common import Types
from pyflink.common import Types, WatermarkStrategy, Time, Encoder
from pyflink.common import Time, WatermarkStrategy, Duration
from pyflink.common import Row, RowKind, Instant, TypeInformation
from pyflink.common import Configuration, ConfigOptions, ConfigOption
from pyflink.common import ExecutionConfig
from pyflink.common import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus
from pyflink.common import SimpleStringSchema, ByteArraySchema, SerializationSchema, DeserializationSchema
from pyflink.common.completable_future import CompletableFuture
from pyflink.common.config_options import ConfigOptions
from pyflink.common.configuration import Configuration
from pyflink.common.execution_config import ExecutionConfig
from pyflink.common.job_client import JobClient
from pyflink.common.job_execution_result import JobExecutionResult
from pyflink.common.job_id import JobID
from pyflink.common.job_status import JobStatus
from pyflink.common.serialization import Encoder, SimpleStringSchema
from pyflink.common.time import Duration, Instant, Time
from pyflink.common.typeinfo import TypeInformation, Types
from pyflink.common.types import Row, RowKind
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream import StreamExecutionEnvironment, ProcessWindowFunction
from pyflink.datastream import RuntimeExecutionMode, CheckpointingMode, CheckpointConfig
from pyflink.datastream import ExternalizedCheckpointRetention
from pyflink.datastream import DataStream, KeyedStream, WindowedStream, DataStreamSink
from pyflink.datastream import MapFunction, FlatMapFunction, FilterFunction, ReduceFunction, KeySelector
from pyflink.datastream import AggregateFunction, WindowFunction, ProcessFunction, KeyedProcessFunction
from pyflink.datastream import OutputTag, RuntimeContext, TimeDomain, TimerService, TimeWindow
from pyflink.datastream.checkpoint_config import CheckpointConfig
from pyflink.datastream.checkpointing_mode import CheckpointingMode
from pyflink.datastream.connectors import Sink, Source
from pyflink.datastream.connectors import DeliveryGuarantee, NumberSequenceSource, FileEnumeratorProvider
from pyflink.datastream.connectors import FileSink, FileSource, FileSourceBuilder, OutputFileConfig, RollingPolicy
from pyflink.datastream.connectors import BucketAssigner, StreamFormat
from pyflink.datastream.connectors.file_system import FileSink, FileSource, OutputFileConfig, RollingPolicy
from pyflink.datastream.connectors.file_system import BucketAssigner, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.data_stream import CloseableIterator, DataStream, KeyedStream, WindowedStream
from pyflink.datastream.execution_mode import RuntimeExecutionMode
from pyflink.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.functions import MapFunction, ProcessFunction, ProcessWindowFunction, WindowFunction
from pyflink.datastream.output_tag import OutputTag
from pyflink.datastream.state import ValueStateDescriptor, StateTtlConfig
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor
from pyflink.datastream.state import AggregatingStateDescriptor, ValueState, ListState, MapState
from pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from pyflink.datastream.time_domain import TimeDomain
from pyflink.datastream.timerservice import TimerService
from pyflink.datastream.window import TumblingEventTimeWindows, TimeWindow
from pyflink.datastream.window import SlidingEventTimeWindows
from pyflink.datastream import Window, TimeWindow, CountWindow, GlobalWindow, WindowAssigner, MergingWindowAssigner
from pyflink.datastream import Trigger, TriggerResult
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor, GlobalWindows
from pyflink.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner, CountTrigger
from pyflink.datastream.window import TimeWindowSerializer, CountWindowSerializer, GlobalWindowSerializer
"""


@pytest.mark.parametrize("line", IMPORTS.strip().splitlines())
def test_import_of_a_pyflink_program(line: str) -> None:
    exec(line.replace("pyflink", "headrace"), {})


@pytest.mark.parametrize("module", ["headrace.common", "headrace.common.watermark_strategy", "headrace.datastream"])
def test_everything_that_is_promised_is_there(module: str) -> None:
    found = importlib.import_module(module)
    assert all(getattr(found, name) is not None for name in found.__all__)


@pytest.mark.parametrize(
    "module", ["headrace.common", "headrace.common.watermark_strategy", "headrace.common.job_client"]
)
def test_unknown_names_are_import_errors(module: str) -> None:
    with pytest.raises(ImportError, match="Nonsense"):
        exec(f"from {module} import Nonsense", {})


@pytest.mark.parametrize(
    "module",
    [
        *(
            pytest.param(module, marks=pytest.mark.slow)
            for module in (
                "data_stream",
                "streams.data_stream",
                "streams.source_stream",
                "functions",
                "stream_execution_environment",
            )
        ),
        "streams.windowed_stream",
    ],
)
def test_every_module_can_be_imported_first(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import headrace.datastream.{module}"], check=True)


@pytest.mark.slow
def test_modules_that_define_nothing_are_those_that_pyflink_s_names_need() -> None:
    package = Path(headrace.__file__).parent
    table = (package.parents[1] / "docs" / "onboarding.md").read_text().split("## PyFlink's module names")[1]
    rows = [row.split("|")[1] for row in table.split("\n## ")[0].splitlines() if row.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([a-z_.]+)`", row)}
    found = {
        ".".join(path.relative_to(package).with_suffix("").parts)
        for folder in ("common", "datastream", "expressions", "formats", "connectors", "table", "testing")
        for path in (package / folder).rglob("*.py")
        if path.name != "__init__.py" and not _defined(path)
    }
    assert found == told


def _defined(path: Path) -> list[ast.stmt]:
    """What a module has besides its docstring, imports, ``__all__`` and how it answers."""
    statements = ast.parse(path.read_text()).body[1:]
    imports = (ast.Import, ast.ImportFrom, ast.If)
    return [
        statement
        for statement in statements
        if not isinstance(statement, imports) and not ast.unparse(statement).startswith(("__all__", "public_module("))
    ]


def test_programs_need_no_spark() -> None:
    program = "import sys, headrace.datastream as d; assert not {'pyspark', 'py4j'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_a_program_loads_no_pandas_and_no_connector_that_it_does_not_import() -> None:
    unwanted = {
        "pandas",
        "fastavro",
        "headrace.connectors.file_system",
        "headrace.formats.avro",
        "headrace.storage.hdfs",
        "headrace.table",
    }
    program = f"import sys, headrace.datastream; print({unwanted} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert loaded == "set()\n"


def test_tables_need_neither_spark_nor_pandas() -> None:
    program = "import sys, headrace.table; assert not {'pyspark', 'py4j', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
