"""Graphs to be rendered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from headrace.common.output_tag import OutputTag
from headrace.common.time import Duration, Time
from headrace.common.typeinfo import Types
from headrace.connectors.driver_sink import PrintSink
from headrace.datastream.aggregates import count, first
from headrace.graph import specs
from headrace.graph.partitioning import HASH, KeySelection
from headrace.graph.process_specs import KeyedProcessSpec
from headrace.graph.specs import InputKind, OperatorParameters, PassingSpec
from headrace.graph.stream_graph import Edge, StreamGraph
from headrace.graph.window_specs import AggregatedWindowSpec
from headrace.operators.base import Operator
from headrace.plan.job_plan import PlanSettings
from headrace.plan.planner import plan_job
from headrace.state.keys import KeyCodec
from headrace.testing.pushed import ManualSource
from headrace.time.watermark_strategy import WatermarkStrategy
from headrace.windowing.assigners import TumblingEventTimeWindows
from headrace.windowing.definition import WindowDefinition
from headrace.windowing.triggers import EventTimeTrigger

if TYPE_CHECKING:
    from headrace.plan.job_plan import JobPlan

PAYMENT = Types.ROW_NAMED(["card", "merchant", "amount"], [Types.STRING(), Types.STRING(), Types.DOUBLE()])


@dataclass(frozen=True, slots=True)
class TwoInputs(PassingSpec):
    """Any records on two inputs."""

    inputs: ClassVar[tuple[InputKind, ...]] = (InputKind.ANY, InputKind.ANY)

    def create_operator(self, parameters: OperatorParameters) -> Operator:
        raise NotImplementedError("the graph does not run")


def keyed_by(source: int, field: str, **more: Any) -> Edge:
    return Edge(source, HASH, key=KeySelection(KeyCodec.for_type(Types.STRING()), None, (field,)), **more)


def add_sink(graph: StreamGraph, name: str, edge: Edge) -> int:
    return graph.add(specs.SinkSpec(PrintSink()), name, (edge,)).id


def add_source(graph: StreamGraph, name: str) -> int:
    return graph.add(specs.SourceSpec(ManualSource(PAYMENT)), name).id


@pytest.fixture
def payments() -> StreamGraph:
    """A source, an operator with state and a window beside it, with side output, uids and a parallelism."""
    graph = StreamGraph()
    source = add_source(graph, "Source: payments")
    graph.update(source, uid="payments", description="card payments of the demo")
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    timed = graph.add(specs.TimestampsSpec(strategy), "Timestamps/Watermarks", (Edge(source),)).id
    rule = graph.add(KeyedProcessSpec(None, Types.STRING()), "Card rule", (keyed_by(timed, "card"),)).id
    graph.update(rule, uid="card-rule")
    minutes = TumblingEventTimeWindows.of(Time.minutes(1))
    aggregates = (count(), first("amount"))
    definition = WindowDefinition(minutes, EventTimeTrigger(), late_tag=OutputTag("late"))
    spec = AggregatedWindowSpec(definition, aggregates)
    window = graph.add(spec, "Totals", (keyed_by(timed, "merchant"),), parallelism=1).id
    add_sink(graph, "Sink: alerts", Edge(rule))
    add_sink(graph, "Sink: totals", Edge(window))
    add_sink(graph, "Sink: late", Edge(window, side_output="late"))
    return graph


@pytest.fixture
def payments_plan(payments: StreamGraph) -> JobPlan:
    return plan_job(payments, PlanSettings("Card fraud", parallelism=2, max_parallelism=128))


@pytest.fixture
def union() -> StreamGraph:
    """Two sources that meet in one sink."""
    graph = StreamGraph()
    left, right = add_source(graph, "Left"), add_source(graph, "Right")
    graph.add(specs.SinkSpec(PrintSink()), "Both", (Edge(left), Edge(right)))
    return graph
