"""What is wrong with a graph, said before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.constants import UPPER_BOUND_MAX_PARALLELISM
from headrace.common.errors import InvalidProgramError
from headrace.graph.specs import SinkSpec

if TYPE_CHECKING:
    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph


def validate(graph: StreamGraph, max_parallelism: int) -> None:
    """Check a graph.

    Raises:
        InvalidProgramError: naming the operator and the user's line.
        InvalidTypeError: when a sink cannot write what reaches it.
    """
    if not len(graph):
        raise InvalidProgramError("the job has no operators: build a stream and end it in a sink, then call execute()")
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise InvalidProgramError(
            f"max parallelism must lie between 1 and {UPPER_BOUND_MAX_PARALLELISM}, it is {max_parallelism}"
        )
    if not any(node.is_sink for node in graph):
        raise InvalidProgramError("the job has no sink, so nothing would see its results: call print() or sink_to()")
    for node in graph:
        if isinstance(node.spec, SinkSpec):
            for edge in node.inputs:
                node.spec.sink.validate(graph.record_type(edge))


def validate_parallelism(node: Node, parallelism: int, max_parallelism: int) -> None:
    """Check what an operator has come to have, by its own word or by the job's.

    Raises:
        InvalidProgramError: when there are more subtasks than key groups.
    """
    if not 1 <= parallelism <= max_parallelism:
        raise InvalidProgramError(
            f"operator {node.name!r} ({node.call_site}) has parallelism {parallelism}; it must lie between 1 and "
            f"the max parallelism, {max_parallelism}"
        )
