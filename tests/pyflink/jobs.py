"""How the tests of this folder build jobs, and run them on the local runtime."""

from __future__ import annotations

from typing import Any

from headrace.common import Configuration, Types, WatermarkStrategy
from headrace.common.watermark_strategy import TimestampAssigner
from headrace.datastream import DataStream, KeySelector, RuntimeExecutionMode, StreamExecutionEnvironment

STRING, INT, LONG = Types.STRING(), Types.INT(), Types.LONG()
PAIR = Types.ROW([STRING, INT])
MODES = (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH)


def environment(mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING) -> StreamExecutionEnvironment:
    """Two subtasks of everything."""
    settings = Configuration.from_dict({"headrace.runtime": "local", "parallelism.default": "2"})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_runtime_mode(mode)
    return env


def collected(stream: DataStream) -> list[Any]:
    """All records of a stream."""
    with stream.execute_and_collect() as records:
        return list(records)


def texts(stream: DataStream) -> list[str]:
    """All records as text, in its order."""
    return sorted(map(str, collected(stream)))


class SecondField(KeySelector, TimestampAssigner):  # type: ignore[type-arg]
    """The second field as the key, or as the timestamp."""

    def get_key(self, value: Any) -> Any:
        return value[1]

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


BY_SECOND = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
