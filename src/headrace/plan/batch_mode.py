"""Batch mode: when a job runs in it, what it refuses, and what it changes in the graph.

Event time stands still until the input has ended, and comes to its end then. So nothing is late, and what windows show
before their end would only be shown again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.common.errors import InvalidProgramError
from headrace.common.execution_mode import RuntimeExecutionMode
from headrace.connectors.source import Boundedness
from headrace.graph.specs import SourceSpec
from headrace.graph.window_specs import TriggeredWindowSpec
from headrace.windowing.assigners.time import ProcessingTimeAssigner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph
    from headrace.windowing.definition import WindowDefinition


def mode_of(graph: StreamGraph, mode: RuntimeExecutionMode) -> tuple[bool, str]:
    """Whether a job runs in batch mode, and why, where the program leaves that open (else an empty text).

    Raises:
        InvalidProgramError: when it has to, and a source has no end.
    """
    endless = next((node for node in graph if isinstance(node.spec, SourceSpec) and not _ends(node.spec)), None)
    if mode is RuntimeExecutionMode.AUTOMATIC:
        reason = "all sources are bounded" if endless is None else f"source {endless.name!r} is unbounded"
        return endless is None, f"AUTOMATIC: {reason}"
    if mode is RuntimeExecutionMode.BATCH and endless is not None:
        raise InvalidProgramError(
            f"batch mode needs sources that end, but source {endless.name!r} ({endless.call_site}) is unbounded: use "
            "RuntimeExecutionMode.AUTOMATIC or STREAMING"
        )
    return mode is RuntimeExecutionMode.BATCH, ""


def _ends(spec: SourceSpec) -> bool:
    return spec.source.boundedness is Boundedness.BOUNDED


def check_clock(graph: StreamGraph) -> None:
    """Nothing waits for the clock in batch mode, so windows that follow it mean nothing.

    Raises:
        InvalidProgramError: naming the operator that has such windows.
    """
    for node in graph:
        assigner = node.spec.definition.assigner if isinstance(node.spec, TriggeredWindowSpec) else None
        if isinstance(assigner, ProcessingTimeAssigner):
            raise InvalidProgramError(
                f"operator {node.name!r}: {assigner} ends windows by the clock, for which nothing waits in "
                f"batch mode: use windows of event time, or streaming mode\n  at {node.call_site}"
            )


def with_batch_windows(graph: StreamGraph) -> StreamGraph:
    """Have windows fire once, when the input has ended, and keep nothing for late records, as there are none."""
    read = {(edge.source, edge.side_output) for node in graph for edge in node.inputs}

    def change(node: Node, _made: StreamGraph) -> Iterator[Node]:
        spec = node.spec
        if isinstance(spec, TriggeredWindowSpec):
            is_read = (node.id, spec.definition.late_tag_id) in read
            spec = replace(spec, definition=_in_batch_mode(spec.definition, keeps_tag=is_read))
            node = replace(node, spec=spec)
        yield node

    return graph.transform(change)


def _in_batch_mode(windows: WindowDefinition, *, keeps_tag: bool) -> WindowDefinition:
    # What reads late records has to find their side output, though nothing ever comes.
    tag = windows.late_tag if keeps_tag else None
    return replace(windows, trigger=windows.trigger.in_batch_mode(), allowed_lateness=0, late_tag=tag)
