"""``DataStreamSink``: the end of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.datastream.method_tables import unsupported
from headrace.datastream.streams.handle import OperatorHandle

if TYPE_CHECKING:
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.graph.nodes import Node


@unsupported(
    {
        "set_uid_hash": "give the sink a uid() instead",
        "disable_chaining": "what runs chained follows from the shuffles; remove the call",
        "slot_sharing_group": "Spark places the tasks; remove the call",
    }
)
class DataStreamSink(OperatorHandle):
    """A sink that was added to a stream; it can be named and placed."""

    def __init__(self, environment: StreamExecutionEnvironment, node_id: int) -> None:
        self._environment = environment
        self._node_id = node_id

    def get_name(self) -> str:
        """The name of the sink."""
        return self._operator().name

    def _operator(self) -> Node:
        return self._environment.transformations.graph[self._node_id]
