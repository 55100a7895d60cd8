"""The benchmarks: which programs run against each other, on what data, and what is asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.suite.asynchronous import AsyncBenchmark
from benchmarks.suite.backpressure import BackpressureBenchmark
from benchmarks.suite.batch import BatchBenchmark
from benchmarks.suite.catch_up import CatchUpBenchmark, LimitBenchmark, NeighbourBenchmark
from benchmarks.suite.connected import ConnectedBenchmark
from benchmarks.suite.count_trigger import CountTriggerBenchmark
from benchmarks.suite.flooded import FloodedBenchmark
from benchmarks.suite.growth import GrowthBenchmark
from benchmarks.suite.join import JoinBenchmark
from benchmarks.suite.large_epochs import LargeEpochsBenchmark
from benchmarks.suite.large_state import LargeStateBenchmark
from benchmarks.suite.latency import LatencyBenchmark
from benchmarks.suite.memory import MemoryBenchmark
from benchmarks.suite.metrics import MetricsBenchmark
from benchmarks.suite.partitions import PartitionsBenchmark
from benchmarks.suite.pattern import PatternBenchmark
from benchmarks.suite.process import ProcessBenchmark
from benchmarks.suite.recovery import RecoveryBenchmark
from benchmarks.suite.savepoint import SavepointBenchmark
from benchmarks.suite.session import SessionBenchmark
from benchmarks.suite.sliding import SlidingBenchmark
from benchmarks.suite.small_epoch import SmallEpochBenchmark
from benchmarks.suite.sql import (
    NexmarkBenchmark,
    SqlFunctionsBenchmark,
    SqlGroupBenchmark,
    SqlJoinBenchmark,
    SqlLookupBenchmark,
    SqlPlannerBenchmark,
    SqlRankBenchmark,
    SqlWindowBenchmark,
)
from benchmarks.suite.state import StateBenchmark
from benchmarks.suite.topics import KafkaBenchmark, LogBenchmark
from benchmarks.suite.topics_latency import KAFKA_LATENCY, LOG_LATENCY
from benchmarks.suite.tpch import TpcHBenchmark
from benchmarks.suite.window import WindowBenchmark
from benchmarks.suite.window_function import WindowFunctionBenchmark

if TYPE_CHECKING:
    from benchmarks.suite.base import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    WindowBenchmark(),
    SlidingBenchmark(),
    SessionBenchmark(),
    JoinBenchmark(),
    WindowFunctionBenchmark(),
    CountTriggerBenchmark(),
    ProcessBenchmark(),
    ConnectedBenchmark(),
    AsyncBenchmark(),
    SmallEpochBenchmark(),
    LatencyBenchmark(),
    PartitionsBenchmark(),
    GrowthBenchmark(),
    StateBenchmark(),
    SavepointBenchmark(),
    RecoveryBenchmark(),
    BackpressureBenchmark(),
    LargeStateBenchmark(),
    MetricsBenchmark(),
    FloodedBenchmark(),
    CatchUpBenchmark(),
    LimitBenchmark(),
    NeighbourBenchmark(),
    LargeEpochsBenchmark(),
    BatchBenchmark(),
    KafkaBenchmark(),
    KAFKA_LATENCY,
    LogBenchmark(),
    LOG_LATENCY,
    SqlWindowBenchmark(),
    SqlGroupBenchmark(),
    SqlRankBenchmark(),
    SqlJoinBenchmark(),
    SqlLookupBenchmark(),
    SqlFunctionsBenchmark(),
    SqlPlannerBenchmark(),
    TpcHBenchmark(),
    NexmarkBenchmark(),
    PatternBenchmark(),
    MemoryBenchmark(),
)
"""In the order of running; memory comes last, for it looks back at the others."""
