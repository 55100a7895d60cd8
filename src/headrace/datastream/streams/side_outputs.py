"""Which operators have which side outputs, and of which types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.common.errors import InvalidTypeError
from headrace.common.typeinfo import TypeInformation, Types
from headrace.datastream.streams.checks import is_untyped, refused
from headrace.graph.specs import ColumnarWindowSpec, KeyedProcessSpec, ProcessSpec, RowWindowSpec, SourceSpec

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.connectors.source import Source
    from headrace.graph.nodes import Node
    from headrace.graph.stream_graph import StreamGraph

DEAD_LETTER_TYPE: Final = Types.ROW_NAMED(["where", "raw", "reason"], [Types.STRING(), Types.STRING(), Types.STRING()])
"""What is known of a row that a source could not read."""


def source_side_types(source: Source) -> tuple[tuple[str, TypeInformation], ...]:
    """The side outputs that a source has from the beginning: that for rows which it cannot read."""
    return () if source.dead_letter is None else ((source.dead_letter.tag_id, DEAD_LETTER_TYPE),)


def add_side_output(graph: StreamGraph, node: Node, tag: OutputTag) -> TypeInformation:
    """Let an operator have a side output, and say of which type.

    Raises:
        InvalidProgramError: when the operator never writes to it.
        InvalidTypeError: when the operator has it already, with another type.
    """
    found = dict(node.side_types)
    type_info = _type_of(graph, node, tag)
    known = found.setdefault(tag.tag_id, type_info)
    if known != type_info:
        raise refused(
            f"side output {tag.tag_id!r} of {node.name!r} is of type {known}, but the tag says {type_info}",
            InvalidTypeError,
        )
    graph.update(node.id, side_types=tuple(found.items()))
    return type_info


def _type_of(graph: StreamGraph, node: Node, tag: OutputTag) -> TypeInformation:
    spec = node.spec
    if isinstance(spec, SourceSpec) and spec.source.dead_letter == tag:
        return _fixed(node, tag, DEAD_LETTER_TYPE)
    if isinstance(spec, RowWindowSpec | ColumnarWindowSpec) and spec.late_tag == tag:
        edge = node.inputs[0]
        return graph.record_type(edge)
    by_function = isinstance(spec, RowWindowSpec) and spec.window_function is not None
    if by_function or isinstance(spec, ProcessSpec | KeyedProcessSpec):
        return tag.type_info
    raise refused(
        f"{node.name!r} never writes to the side output {tag.tag_id!r}: side outputs come from process(), from windows "
        "with side_output_late_data(tag), and from sources that were given this tag for what they cannot read"
    )


def _fixed(node: Node, tag: OutputTag, type_info: TypeInformation) -> TypeInformation:
    """The type of a side output whose records the user does not make; the tag may leave it open."""
    if not is_untyped(tag.type_info) and tag.type_info != type_info:
        raise refused(
            f"side output {tag.tag_id!r} of {node.name!r} is of type {type_info}, but the tag says {tag.type_info}: "
            "leave the type of the tag out",
            InvalidTypeError,
        )
    return type_info
