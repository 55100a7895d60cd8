"""Whether records that windows of event time and joins get can have event time at all, as far as the graph tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.errors import InvalidProgramError
from headrace.graph import specs
from headrace.graph.async_specs import AsyncSpec, LookupSpec
from headrace.graph.join_specs import IntervalJoinSpec
from headrace.graph.process_specs import CoProcessSpec, KeyedProcessSpec, ProcessSpec
from headrace.graph.window_specs import TriggeredWindowSpec
from headrace.operators.functions import has_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph

_KEEPS_TIMES: Final = (
    specs.MapSpec,
    specs.FlatMapSpec,
    specs.FilterSpec,
    specs.ColumnFilterSpec,
    specs.SelectSpec,
    specs.MapBatchesSpec,
    AsyncSpec,
    LookupSpec,
    ProcessSpec,
    CoProcessSpec,
    specs.RollingReduceSpec,
    specs.RollingAggregateSpec,
)
"""What gives each record the time of one that it was made of. All others may give records a time of their own."""


def check_event_time(graph: StreamGraph) -> None:
    """Refuse windows of event time, and joins, on records of which none can have a timestamp.

    Where some may have one, the records tell, when the job runs.

    Raises:
        InvalidProgramError: naming the operator that has such windows, or joins, and the sources.
    """
    have_times = graph.annotate(_may_have_times)
    for node in graph:
        if not (needs := _needs_times(node)):
            continue
        for index in range(len(node.spec.inputs)):
            read = {edge.source for edge in node.inputs if edge.input_index == index}
            if not any(have_times[source] for source in read):
                raise _without_times(node, needs, graph, graph.needed_by(read))


def _without_times(node: Node, needs: str, graph: StreamGraph, before: set[int]) -> InvalidProgramError:
    sources = " and ".join(repr(source.name) for source in graph if source.is_source and source.id in before)
    otherwise = "; or use windows of processing time" if needs == _WINDOWS else ""
    return InvalidProgramError(
        f"operator {node.name!r} {needs}, but its records have no timestamps: those of "
        f"{sources} come without, and no WatermarkStrategy assigns them any. Give from_source(...), or "
        "assign_timestamps_and_watermarks(...) before key_by, a strategy with a timestamp assigner: "
        f'.with_timestamp_assigner("time"), say{otherwise}\n  at {node.call_site}'
    )


_WINDOWS: Final = "has windows of event time"


def _needs_times(node: Node) -> str:
    """What an operator needs event time for, as an error says it; empty when it does not."""
    spec = node.spec
    if isinstance(spec, IntervalJoinSpec):
        return "joins by event time"
    has_windows = isinstance(spec, TriggeredWindowSpec) and spec.definition.assigner.is_event_time()
    return _WINDOWS if has_windows else ""


def _may_have_times(node: Node, found: Mapping[int, bool]) -> bool:
    spec = node.spec
    if isinstance(spec, specs.SourceSpec):
        return spec.source.gives_timestamps
    keeps = isinstance(spec, _KEEPS_TIMES)
    if isinstance(spec, specs.TimestampsSpec):
        keeps = spec.strategy.timestamp_assigner is None
    elif isinstance(spec, KeyedProcessSpec):  # what its timers emit has their time
        keeps = not has_own(spec.function, "on_timer")
    return any(found[edge.source] for edge in node.inputs) if keeps else True
