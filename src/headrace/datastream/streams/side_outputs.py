"""Side outputs of operators, as streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.arguments import expect, refused
from headrace.common.errors import InvalidTypeError
from headrace.common.output_tag import OutputTag
from headrace.datastream.streams.types import TypeOrigin, is_untyped, never_fits
from headrace.graph.nodes import Edge

if TYPE_CHECKING:
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.datastream.streams.handle import OperatorHandle
    from headrace.graph.nodes import Node


def side_stream(
    environment: StreamExecutionEnvironment, operator: OperatorHandle, output_tag: OutputTag
) -> DataStream[Any]:
    """What an operator writes to a side output, of the type that the tag says.

    Raises:
        InvalidProgramError: when the handle stands for no operator, or for one that never writes to it.
        InvalidTypeError: when the operator has it already with another type, or its records cannot be of that type.
    """
    expect(output_tag, OutputTag, "get_side_output")
    node = _with_side_output(operator, output_tag)
    edges = (Edge(node.id, side_output=output_tag.tag_id),)
    if is_untyped(output_tag.type_info):
        return environment._stream(edges, TypeOrigin.ANNOTATED)
    records = environment._stream(edges, TypeOrigin.DECLARED)
    if never_fits(records._type, output_tag.type_info):
        raise refused(
            f"the records of the side output {output_tag.tag_id!r} are of type {records._type}, and the tag says "
            f"{output_tag.type_info}: leave the type of the tag out",
            InvalidTypeError,
        )
    return records._converted(output_tag.type_info)


def _with_side_output(operator: OperatorHandle, tag: OutputTag) -> Node:
    """The operator, which has the side output of a tag from now on."""
    node = operator._operator()
    known = node.outputs.side_types.get(tag.tag_id)
    if known is None:
        if not node.spec.emits_to_tags:
            raise refused(
                f"{node.name!r} never writes to the side output {tag.tag_id!r}: side outputs come from process(), "
                "from windows with side_output_late_data(tag), interval joins with side_output_left_late_data(tag), "
                "enrich with misses=tag, and sources and sinks that were given this tag for what they cannot read or "
                "write"
            )
        operator._transformations.graph.update(node.id, tags=(*node.tags, tag))
        return node
    is_of_dead_letters = (node.is_source or node.is_sink) and not is_untyped(tag.type_info)
    if known != tag.type_info and (tag in node.tags or is_of_dead_letters):
        hint = ": leave the type of the tag out" if is_of_dead_letters else ""
        text = f"side output {tag.tag_id!r} of {node.name!r} is of type {known}, but the tag says {tag.type_info}"
        raise refused(text + hint, InvalidTypeError)
    return node
