"""Which operators have which side outputs, and of which types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.common.errors import InvalidTypeError
from headrace.datastream.streams.checks import is_untyped, refused

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph


def add_side_output(graph: StreamGraph, node: Node, tag: OutputTag) -> None:
    """Let an operator have a side output.

    Raises:
        InvalidProgramError: when the operator never writes to it.
        InvalidTypeError: when the operator has it already, with another type.
    """
    known = node.outputs.side_types.get(tag.tag_id)
    if known is None and not node.spec.emits_to_tags:
        raise refused(
            f"{node.name!r} never writes to the side output {tag.tag_id!r}: side outputs come from process(), from "
            "windows with side_output_late_data(tag), and from sources that were given this tag for what they cannot "
            "read"
        )
    if known is None:
        graph.update(node.id, tags=(*node.tags, tag))
    elif known != tag.type_info and (tag in node.tags or (node.is_source and not is_untyped(tag.type_info))):
        hint = ": leave the type of the tag out" if node.is_source else ""
        raise refused(
            f"side output {tag.tag_id!r} of {node.name!r} is of type {known}, but the tag says {tag.type_info}{hint}",
            InvalidTypeError,
        )
