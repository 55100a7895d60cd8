"""``DataStreamSink``: the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.datastream.streams.handle import OperatorHandle
from headrace.datastream.streams.pre_write import NO_TOPOLOGY, PreWriteTopology
from headrace.datastream.streams.side_outputs import side_stream
from headrace.graph.specs import SinkSpec

if TYPE_CHECKING:
    from headrace.common.output_tag import OutputTag
    from headrace.common.type_variables import OUT
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.datastream.streams.data_stream import DataStream
    from headrace.graph.nodes import Node


class DataStreamSink(OperatorHandle):
    """The end of a stream: a sink that was added to it.

    Args:
        environment: the environment.
        node_id: the sink among its operators.
        pre_write: the operators that the sink has added before itself.

    Examples:
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sink = env.from_collection([1, 2]).print().name("to the terminal").uid("terminal")
        >>> sink.get_name()
        'to the terminal'
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, node_id: int, pre_write: PreWriteTopology = NO_TOPOLOGY
    ) -> None:
        super().__init__(environment.transformations)
        self._environment = environment
        self._node_id = node_id
        self._pre_write = pre_write

    def get_name(self) -> str:
        """The name of the sink."""
        return self._operator().name

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """The records that the sink cannot write, as ``(where, raw, reason)``, where it was given this tag for them.

        Raises:
            InvalidProgramError: when it was not.
            InvalidTypeError: when they cannot be of the type of the tag.
        """
        return side_stream(self._environment, self, output_tag)

    def __repr__(self) -> str:
        node = self._operator()
        uid = "no uid" if node.uid is None else f"uid {node.uid}"
        return f"DataStreamSink({node.name!r}, {uid})"

    def _facts(self) -> dict[str, object]:
        spec = self._operator().spec
        return {"sink": type(spec.sink).__name__} if isinstance(spec, SinkSpec) else {}

    def _operator_ids(self) -> set[int]:
        return {self._node_id}

    def _operator(self) -> Node:
        return self._transformations.graph[self._node_id]

    def _update(self, **changes: Any) -> None:
        super()._update(**changes)
        self._pre_write.take_over(self._transformations.graph, changes)
