"""``DataStreamSource``: the stream that a source makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.arguments import refused
from headrace.common.type_variables import T_co
from headrace.datastream.streams.data_stream import DataStream
from headrace.datastream.streams.timestamps import is_needed
from headrace.datastream.streams.types import TypeOrigin
from headrace.graph.nodes import Edge
from headrace.graph.specs import SourceSpec, TimestampsSpec
from headrace.operators.checkpointed import CheckpointedFunction

if TYPE_CHECKING:
    from headrace.connectors.source import Source
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.graph.nodes import Node
    from headrace.time.watermark_strategy import WatermarkStrategy


class DataStreamSource(DataStream[T_co]):
    """The stream of a source. Event time is assigned by a node of its own that follows the source wherever it goes.

    What is set on the stream (name, uid, parallelism) is set on the source; the node that assigns timestamps takes its
    name and uid from it. Side outputs are those of the source.

    Args:
        environment: where the stream belongs.
        source: where records come from.
        strategy: how event time is taken from them.
        name: the name of the source.
        origin: where the type of the records comes from.

    Examples:
        >>> from headrace.common import WatermarkStrategy
        >>> from headrace.datastream import StreamExecutionEnvironment
        >>> from headrace.datastream.connectors import NumberSequenceSource
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
        >>> numbers.uid("numbers").execute_and_collect(limit=10)
        [1, 2, 3]
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        source: Source,
        strategy: WatermarkStrategy,
        name: str,
        *,
        origin: TypeOrigin = TypeOrigin.DECLARED,
    ) -> None:
        transformations = environment.transformations
        if isinstance(source, CheckpointedFunction):
            raise refused(
                f"{type(source).__name__} is a source, and what a source knows is in its splits and its enumerator: "
                "leave CheckpointedFunction out"
            )
        node = transformations.add_source(SourceSpec(source), name)
        self._source_id = last = node.id
        if is_needed(strategy):
            last = transformations.add_source(TimestampsSpec(strategy), _watermarks_name(name), (Edge(node.id),)).id
        super().__init__(environment, (Edge(last),), origin=origin)

    def _operator(self) -> Node:
        return self._transformations.graph[self._source_id]

    def _update(self, **changes: Any) -> None:
        graph = self._transformations.graph
        graph.update(self._source_id, **changes)
        watermarks_id = self._edges[0].source
        if watermarks_id != self._source_id:
            graph.update(watermarks_id, **_derived(changes))


def _derived(changes: dict[str, Any]) -> dict[str, Any]:
    """What a change of the source means for the node that assigns its timestamps."""
    derived = {key: value for key, value in changes.items() if key in ("parallelism", "max_parallelism")}
    if "name" in changes:
        derived["name"] = _watermarks_name(changes["name"])
    if "uid" in changes:
        derived["uid"] = f"{changes['uid']}-watermarks"
    return derived


def _watermarks_name(source_name: str) -> str:
    return f"{source_name} Watermarks"
