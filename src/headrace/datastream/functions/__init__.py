"""The functions that users write: PyFlink's base classes.

A plain callable does wherever a class here has one method that is called for records (``map``, ``filter``, ``reduce``,
…). The classes add ``open`` and ``close``, which are called once for each parallel instance.
"""

from __future__ import annotations

from headrace.common.public_module import public_module
from headrace.datastream.functions.asynchronous import AsyncBatchFunction, AsyncFunction
from headrace.datastream.functions.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from headrace.datastream.functions.connected import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from headrace.datastream.functions.function import Function
from headrace.datastream.functions.joins import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from headrace.datastream.functions.process import KeyedProcessFunction, ProcessFunction
from headrace.datastream.functions.records import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)
from headrace.datastream.functions.windows import (
    AllWindowFunction,
    MapPartitionFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from headrace.operators.asynchronous.retries import AsyncRetryPredicate, AsyncRetryStrategy
from headrace.operators.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from headrace.operators.functions import RuntimeContext
from headrace.operators.timer_service import TimerService
from headrace.state.interfaces import KeyedStateStore

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncBatchFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CheckpointedFunction",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "MapPartitionFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "TimerService",
    "WindowFunction",
]

public_module(__name__)
